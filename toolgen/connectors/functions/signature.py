"""Tools of a module of marked functions: schemas made from annotations, and conversion of JSON to arguments."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import linecache
import re
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from toolgen.connectors.functions.annotations import NOTHING, converted, is_any, parameter
from toolgen.connectors.functions.context import ToolContext
from toolgen.connectors.functions.decorator import MARK, Audio, EmbeddedResource, Image, ToolMark
from toolgen.connectors.functions.docstrings import documented
from toolgen.connectors.functions.pydantic_types import ModelType, is_model
from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError, DescriptionError
from toolgen.model.schema import JsonObject, Schema

__all__ = ["Broken", "FunctionTool", "forget", "imported", "load_offers", "module_file", "offer_of"]

_CONTENT = (Image, Audio, EmbeddedResource)
_ANY = {"$toolgen": "any JSON"}
_PARTS = object()
_STRUCT = "_ArgumentsOfTool"  # a name that no type of a function has
_IMPORTING = threading.Lock()


class FunctionTool(Struct, frozen=True, kw_only=True):
    """Marked function. `struct` converts its arguments from JSON; None if it takes them unconverted (`**arguments`).

    `context` is the parameter that receives the `ToolContext`, or "". `content`: it answers with pictures, recordings or documents. `code`
    is the SHA-256 of its text. `answer` converts its answer to JSON if pydantic must do that.
    """

    name: str
    function: Callable[..., Any]
    mark: ToolMark
    summary: str
    input_schema: Schema
    output_schema: Schema | None
    struct: type[msgspec.Struct] | None
    context: str
    content: bool
    code: str
    line: int
    answer: type[ModelType] | None = None

    @property
    def is_async(self) -> bool:
        """True if the function runs on an event loop instead of a thread of its own."""
        return inspect.iscoroutinefunction(self.function)

    def arguments(self, given: JsonObject) -> dict[str, Any]:
        """Return the keyword arguments of a call. Raises `msgspec.ValidationError`."""
        if self.struct is None:
            return dict(given)
        made = msgspec.convert(dict(given), self.struct, dec_hook=_any)
        return {name: getattr(made, name) for name in self.struct.__struct_fields__}

    def written(self, answer: Any, encode: Callable[[Any], Any]) -> Any:
        """Return the JSON of an answer; `encode` handles types without a form in msgspec. Raises `TypeError` and `ValueError`."""
        if self.answer is not None:
            return self.answer.written(answer)
        return msgspec.to_builtins(answer, str_keys=True, enc_hook=encode)


class Broken(Struct, frozen=True, kw_only=True):
    """Marked function that cannot be a tool, and the reason."""

    name: str
    reason: str
    line: int


def load_offers(module: str, root: str) -> Mapping[str, FunctionTool | Broken]:
    """Return the marked functions that a module defines, by the function's name, in their order.

    Imports the module, from `root` before any other place, which runs it: it is the project's own code. Raises `DescriptionError`.
    """
    loaded = imported(module, root)
    found: dict[str, FunctionTool | Broken] = {}
    for name, function in vars(loaded).items():
        mark = getattr(function, MARK, None)
        if isinstance(mark, ToolMark) and getattr(function, "__module__", "") == module:
            found[name] = offer_of(name, function, mark)
    return found


def module_file(module: str, root: str) -> Path | None:
    """Return the file of a module; None if it has none."""
    file = getattr(imported(module, root), "__file__", None)
    return Path(file) if file else None


def forget(modules: Iterable[str]) -> None:
    """Remove modules from the import cache, because their files changed. Modules that they import stay cached."""
    with _IMPORTING:
        for module in modules:
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        linecache.checkcache()


def imported(module: str, root: str) -> types.ModuleType:
    """Return the module, from `root` before any other place. Raises `DescriptionError`, without the text of the import's error."""
    with _IMPORTING:
        if module in sys.modules:
            return sys.modules[module]
        added = root not in sys.path
        if added:
            sys.path.insert(0, root)
        try:
            return importlib.import_module(module)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise DescriptionError(
                f"the module cannot be imported: {_reason_of(error, module)}",
                where=module,
                suggestion="it is searched in the project's folder first, and then in Python's path",
            ) from error
        finally:
            if added:
                sys.path.remove(root)


def _reason_of(error: BaseException, module: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and module.startswith(error.name):
        return f"there is no module {error.name}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{type(error).__name__}, line {trace.tb_lineno}" if trace is not None else type(error).__name__


def offer_of(name: str, function: Callable[..., Any], mark: ToolMark, *, parts: bool = False) -> FunctionTool | Broken:
    """Return a function with its schemas. `parts`: its answer has no schema, as that of a prompt."""
    try:
        text, line = "".join(inspect.getsourcelines(function)[0]), inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        text, line = name, 0
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        summary, told = documented(inspect.getdoc(function) or "")
        context, struct, schema = _input(name, function, mark, hints, told)
        answer, output = (_PARTS, None) if parts else _output(hints.get("return"))
        for part, said in ((schema, ""), (output or {}, "the answer")):
            _check_json(part, said)
    except (AttributeError, TypeError, ValueError, NameError, RuntimeError, re.error) as error:
        return Broken(name=name, reason=_without_advice(str(error)), line=line)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - annotations are code, and so are the classes that they name
        return Broken(name=name, reason=f"its types cannot be read: {_reason_of(error, '')}", line=line)
    return FunctionTool(
        name=name,
        function=function,
        mark=mark,
        summary=mark.description or summary,
        input_schema=schema,
        output_schema=output,
        struct=struct,
        context=context,
        content=answer is _PARTS,
        answer=answer if isinstance(answer, type) else None,
        code=hashlib.sha256(text.encode()).hexdigest(),
        line=line,
    )


def _without_advice(reason: str) -> str:
    """Return msgspec's message about a type without the advice for msgspec's own users."""
    return reason.rpartition("\n\n")[2] if reason.startswith("Generating JSON schema") else reason


def _check_json(schema: Schema, said: str) -> None:
    """Raise `TypeError` for a schema that is not JSON: a default may be NaN, and an example an object."""
    for name, part in (*schema.get("properties", {}).items(), (said, schema)):
        try:
            schema_digest(part)
        except CanonicalError as error:
            raise TypeError(f"{name or 'its schema'}: a value has no JSON form: {error.message}") from error


def _input(
    name: str, function: Callable[..., Any], mark: ToolMark, hints: Mapping[str, Any], told: Mapping[str, str]
) -> tuple[str, type[msgspec.Struct] | None, Schema]:
    context, fields, rest = "", [], False
    for given in inspect.signature(function).parameters.values():
        hint = hints.get(given.name)
        if hint is ToolContext:
            context = given.name
        elif given.kind is given.VAR_KEYWORD:
            rest = True
        elif given.kind in {given.POSITIONAL_ONLY, given.VAR_POSITIONAL}:
            raise TypeError(f"{given.name} has no name, so it cannot be an argument")
        elif hint is None:
            raise TypeError(f"{given.name} has no type")
        elif given.name.startswith("__"):
            raise TypeError(f"{given.name}: no argument's name begins with two underscores")
        else:
            fields.append(_field(given, hint, told.get(given.name, "")))
    if rest != (mark.input_schema is not None) or (rest and fields):
        raise TypeError("**arguments and input_schema require each other, and allow only a context besides")
    if mark.input_schema is not None:
        return context, None, dict(mark.input_schema)
    struct = msgspec.defstruct(_STRUCT, fields, kw_only=True)
    return context, struct, _schema(struct)


def _field(given: inspect.Parameter, hint: Any, told: str) -> Any:
    found = parameter(given.name, hint, NOTHING if given.default is given.empty else given.default)
    kind = Annotated[found.kind, msgspec.Meta(description=told)] if told and not found.described else found.kind
    default, alias = found.default, found.alias or None
    if found.factory is not None:
        return given.name, kind, msgspec.field(default_factory=found.factory, name=alias)
    if default is NOTHING:
        return (given.name, kind, msgspec.field(name=alias)) if alias else (given.name, kind)
    if isinstance(default, (list, dict, set, bytearray)) or is_model(type(default)):
        return given.name, kind, msgspec.field(default_factory=lambda: copy(default), name=alias)
    return given.name, kind, msgspec.field(default=default, name=alias)


def _schema(struct: type[msgspec.Struct]) -> Schema:
    """Return the struct's schema with the struct itself as its root."""
    whole = _schema_of(struct)
    definitions: dict[str, Any] = dict(whole.get("$defs", {}))
    root = definitions.pop(_STRUCT)
    built: dict[str, Any] = {"type": "object", "properties": root.get("properties", {})}
    if root.get("required"):
        built["required"] = root["required"]
    return built | ({"$defs": definitions} if definitions else {})


def _schema_of(kind: Any, mode: Literal["validation", "serialization"] = "validation") -> dict[str, Any]:
    """Return the schema of a type. pydantic's definitions are added to the others, renamed if two have equal names."""
    hoisted: dict[str, Any]
    template, hoisted, count = "#/$defs/{model}", {}, 0
    clashes: set[str] = set()

    def schema_hook(custom: type) -> dict[str, Any]:
        nonlocal count
        if custom is object:
            return _ANY  # msgspec would read an empty schema as none
        if not issubclass(custom, ModelType):
            raise NotImplementedError
        count += 1
        schema = custom.schema(mode, template.format(model="{model}", count=count))
        inner = schema.pop("$defs", {})
        prefix = template.format(model="", count=count).rpartition("/")[2]
        for name, definition in inner.items():
            clashes.update({name} if hoisted.get(prefix + name, definition) != definition else set())
            hoisted[prefix + name] = definition
        return schema or _ANY

    schema: dict[str, Any] = msgspec.json.schema(kind, schema_hook=schema_hook)
    if clashes or hoisted.keys() & schema.get("$defs", {}).keys():
        template, hoisted, count = "#/$defs/model{count}_{model}", {}, 0
        schema = msgspec.json.schema(kind, schema_hook=schema_hook)
    if hoisted:
        schema["$defs"] = {**schema.get("$defs", {}), **hoisted}
    found: dict[str, Any] = _unmarked(schema)
    return found


def _any(kind: type, value: Any) -> Any:
    """Convert a value of a type that msgspec does not know."""
    if kind is object:
        return value
    if issubclass(kind, ModelType):
        return kind.read(value)
    raise NotImplementedError


def _unmarked(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _unmarked(value) for name, value in schema.items() if (name, value) not in _ANY.items()}
    return [_unmarked(value) for value in schema] if isinstance(schema, list) else schema


def _output(hint: Any) -> tuple[object, Schema | None]:
    """Return the schema of a JSON answer, and its writer: pydantic, or `_PARTS` for an answer with other parts, or None."""
    if hint is None or hint is type(None) or is_any(hint):
        return None, None
    if any(one in _CONTENT for one in _types_in(hint)):
        return _PARTS, None
    kind = converted(hint, "the answer")
    schema = _schema_of(kind, "serialization")
    reference = schema.get("$ref")
    if isinstance(reference, str):  # providers and clients expect the type at the root
        name = reference.rpartition("/")[2]
        root = dict(schema["$defs"][name])
        inner = {key: value for key, value in schema["$defs"].items() if key != name}
        if f'"#/$defs/{name}"' in msgspec.json.encode([root, inner]).decode():  # it is recursive
            inner = dict(schema["$defs"])
        schema = root | ({"$defs": inner} if inner else {})
    return kind if isinstance(kind, type) and issubclass(kind, ModelType) else None, schema


def _types_in(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in typing.get_args(hint):
        yield from _types_in(inner)
