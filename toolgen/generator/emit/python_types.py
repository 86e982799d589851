"""Schemas as Python types: TypedDicts for objects, Literals for enumerations, and Any without an equivalent."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from toolgen.core.canonical import digest
from toolgen.generator.emit.dialects.merge import ANNOTATIONS, kinds, merged, target, unwrapped
from toolgen.model.tool import Tool

__all__ = ["Types", "quoted"]

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


_REFERENCE = re.compile(rb'"#/\$defs/((?:[^"\\]|\\.)+)"')


_MAX_LINE_LENGTH = 100


_MAX_DEPTH = 40


_MAX_SHARED = 1_000  # definitions of one tool that are distinguished individually


_MAX_SCHEMAS = 20_000  # schemas in one tool or definition; only a recursive allOf has more


class Types:
    """Definitions of one module. `names` contains every used name, and grows."""

    def __init__(self, names: set[str]) -> None:
        self.definitions: list[str] = []
        self._names = names
        self._known: dict[tuple[str, str, str], str] = {}

    def scope(self, tool: Tool) -> _Scope:
        """Return the scope of the references in one tool's schema. Tools of one source share the types of equal definitions."""
        definitions = tool.input_schema.get("$defs", {})
        return _Scope(self, tool.source, definitions, _closures(definitions))

    def named(self, key: tuple[str, str, str]) -> str | None:
        return self._known.get(key)

    def is_field(self, key: str) -> bool:
        """Return True if a key can be a field of a class body without hiding the name of a type."""
        plain = _FIELD.match(key) and not key.startswith("__") and not keyword.iskeyword(key)
        return bool(plain) and not key[0].isupper() and key not in self._names

    def name(self, wanted: str, key: tuple[str, str, str] | None = None) -> str:
        """Return an unused class name."""
        base = re.sub(r"[^A-Za-z0-9_]+", "_", wanted).strip("_") or "Schema"
        base = base[:1].upper() + base[1:]
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"Type{base}"
        choice, count = base, 1
        while choice in self._names:
            count += 1
            choice = f"{base}{count}"
        self._names.add(choice)
        if key is not None:
            self._known[key] = choice
        return choice


class _Scope:
    """The types of one tool."""

    def __init__(self, types: Types, source: str, definitions: Mapping[str, Any], closures: Mapping[str, str]) -> None:
        self._types = types
        self._source = source
        self._definitions = definitions
        self._closures = closures
        self._above: list[str] = []
        self._waiting: list[tuple[dict[str, Any], str]] = []
        self._left = _MAX_SCHEMAS

    def type_of(self, schema: Any, name: str) -> str:
        """Return the annotation of a schema; `name` is for the class it may need. It never contains text of the schema's author as code."""
        if not isinstance(schema, dict) or not schema or len(self._above) > _MAX_DEPTH or self._left < 0:
            return "Any"
        self._left -= 1
        self._above.append("")
        try:
            return self._type(unwrapped(schema), name)
        finally:
            self._above.pop()

    def finish(self) -> None:
        """Write the named classes that are not written yet: a chain of references needs no deep recursion."""
        while self._waiting:
            schema, name = self._waiting.pop()
            self._left = _MAX_SCHEMAS
            self._object(schema, name)

    def _type(self, schema: dict[str, Any], name: str) -> str:
        if (found := target(schema, self._definitions)) is not None and not (schema.keys() - ANNOTATIONS - {"$ref"}):
            return self._referred(*found)
        if "allOf" in schema or "$ref" in schema:
            flat = merged(schema, self._definitions)
            return self.type_of(flat, name) if flat is not None else "Any"
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if (
            isinstance(values, list)
            and values
            and all(isinstance(value, (str, bool, int)) or value is None for value in values)
        ):
            return _literal(values)
        for union in ("anyOf", "oneOf"):
            if union in schema and "properties" not in schema:
                branches = [self.type_of(branch, f"{name}{index + 1}") for index, branch in enumerate(schema[union])]
                return _union(branches)
        named = kinds(schema)
        return _union([self._of(kind, schema, name) for kind in named]) if named else "Any"

    def _of(self, kind: str, schema: dict[str, Any], name: str) -> str:
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "array":
            return f"list[{self.type_of(schema.get('items'), f'{name}Item')}]"
        if schema.get("properties"):
            return self._object(schema, self._types.name(name))
        return f"dict[str, {self.type_of(schema.get('additionalProperties'), f'{name}Value')}]"

    def _referred(self, name: str, schema: Any) -> str:
        """Return the type of a reference. A definition is written once if it needs a name; otherwise in place."""
        if not isinstance(schema, dict) or name in self._above:
            return "Any"
        key = (self._source, name, self._closures[name])
        if (known := self._types.named(key)) is not None:
            return known
        wanted = name.rpartition(".")[2]
        plain = not ({"allOf", "anyOf", "oneOf", "$ref"} & schema.keys())
        if plain and schema.get("properties") and kinds(schema) == ("object",):
            written = self._types.name(wanted, key)
            self._waiting.append((schema, written))
            return written
        self._above.append(name)
        try:
            written = self.type_of(schema, wanted)
        finally:
            self._above.pop()
        if written.startswith("Literal[") and len(written) > _MAX_LINE_LENGTH // 2:
            alias = self._types.name(wanted, key)
            self._types.definitions.append(f"{alias}: TypeAlias = {_wrapped(written)}")
            return alias
        return written

    def _object(self, schema: dict[str, Any], name: str) -> str:
        """Write a TypedDict: a class if every key can be a field, else a call with the keys as text."""
        place = len(self._types.definitions)
        self._types.definitions.append("")  # a class precedes the classes inside it
        required = schema.get("required", ())
        fields = {key: self.type_of(item, f"{name}{_type_name(key)}") for key, item in schema["properties"].items()}
        shown = {key: text if key in required else f"NotRequired[{text}]" for key, text in fields.items()}
        if all(map(self._types.is_field, shown)):
            lines = [f"class {name}(TypedDict):"]
            lines += [f"    {key}: {text}" for key, text in shown.items()]
        else:
            lines = [f"{name} = TypedDict(", f"    {quoted(name)},", "    {"]
            lines += [f"        {quoted(key)}: {quoted(text)}," for key, text in shown.items()]
            lines += ["    },", ")"]
        self._types.definitions[place] = "\n".join(lines)
        return name


def _closures(definitions: Mapping[str, Any]) -> dict[str, str]:
    """Return for each definition a digest of all it reaches: a name has the same meaning in two tools if the digests are equal."""
    names = list(definitions)
    if len(names) > _MAX_SHARED:
        return dict.fromkeys(names, digest({"all": definitions}))
    texts = [msgspec.json.encode(definitions[name]) for name in names]
    places = {name: index for index, name in enumerate(names)}
    direct = [{places[found] for raw in _REFERENCE.findall(text) if (found := _name(raw)) in places} for text in texts]
    digests = [digest({"text": text.decode("utf-8", "replace")}) for text in texts]
    built: dict[str, str] = {}
    for index, name in enumerate(names):
        reached, todo = {index}, [index]
        while todo:
            fresh = direct[todo.pop()] - reached
            reached |= fresh
            todo += fresh
        built[name] = digest({names[one]: digests[one] for one in reached})
    return built


def _name(raw: bytes) -> str:
    found: str = msgspec.json.decode(b'"' + raw + b'"')
    return found


def _literal(values: list[Any]) -> str:
    written = (quoted(value) if isinstance(value, str) else repr(value) for value in values)
    return f"Literal[{', '.join(dict.fromkeys(written))}]"


def quoted(text: str) -> str:
    """Return text as a Python literal in ASCII, in double quotes if that needs no escape."""
    written = ascii(text)
    if written.startswith('"') or '"' in written:
        return written
    body = written[1:-1]
    return f'"{body}"'


def _wrapped(written: str) -> str:
    """Return a long Literal in several lines."""
    if len(written) <= _MAX_LINE_LENGTH:
        return written
    return f"Literal[\n    {written[len('Literal[') : -1]},\n]"


def _union(branches: list[str]) -> str:
    distinct = list(dict.fromkeys(branches))
    if "Any" in distinct or not distinct:
        return "Any"
    return " | ".join([*(text for text in distinct if text != "None"), *(["None"] if "None" in distinct else [])])


def _type_name(name: str) -> str:
    parts = re.split(r"[^A-Za-z0-9]+", name)
    return "".join(part[:1].upper() + part[1:] for part in parts)
