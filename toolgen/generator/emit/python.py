"""A catalog as a Python module: one typed async function a tool, over whatever calls the gateway.

Schemas as Python types: TypedDicts for objects, Literals for enumerations, and Any where no type says it.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from toolgen.core.canonical import digest
from toolgen.generator.emit.dialects.merge import ANNOTATIONS, kinds, merged, target, unwrapped
from toolgen.model.shown_schema import shown
from toolgen.model.tool import Tool

__all__ = ["MODULE", "Types", "python_module", "quoted"]

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REFERENCE = re.compile(rb'"#/\$defs/((?:[^"\\]|\\.)+)"')
_MAX_LINE_LENGTH = 100
_MAX_DEPTH = 40
_MAX_SHARED = 1_000  # definitions of one tool that are told apart one by one
_MAX_SCHEMAS = 20_000  # in one tool or definition; more comes only from an allOf that contains itself


class Types:
    """The definitions of one module. `names` holds every name that is taken, and grows."""

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
        """The annotation for a schema; `name` is for the class it may need. It never holds what the schema's author wrote as code."""
        if not isinstance(schema, dict) or not schema or len(self._above) > _MAX_DEPTH or self._left < 0:
            return "Any"
        self._left -= 1
        self._above.append("")
        try:
            return self._type(unwrapped(schema), name)
        finally:
            self._above.pop()

    def finish(self) -> None:
        """Writes the classes that were named and not written yet: a chain of references is not a chain of Python frames."""
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
        """A definition is written once, where it needs a name; otherwise it is what it says, in place."""
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
        """Writes a TypedDict; as a class where every key can be a field, else as a call with the keys as text."""
        place = len(self._types.definitions)
        self._types.definitions.append("")  # a class stands before what is found inside it
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
    """For each definition a digest of everything it reaches: two tools mean the same by a name where the digests are the same."""
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
    """Text as a Python literal of ASCII alone, in double quotes where that needs no escape."""
    written = ascii(text)
    if written.startswith('"') or '"' in written:
        return written
    body = written[1:-1]
    return f'"{body}"'


def _wrapped(written: str) -> str:
    """A long Literal on lines of its own."""
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


MODULE = "toolgen_tools.py"
"""The file's name: not one that a person is likely to have beside it."""

_HEADER = '''\
"""The tools of this catalog as typed functions. Written by `toolgen build --format python`; changes here are lost."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, NotRequired, Protocol, TypeAlias, TypedDict, TypeVar

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""What an argument is that is left out, which is not the same as None."""


class Caller(Protocol[ResultT_co]):
    """What carries a call to the gateway: its Python object, a REST client, an MCP session."""

    async def call(self, name: str, arguments: dict[str, Any], /) -> ResultT_co: ...


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not ABSENT}
'''
# Everything a module of ours says itself, or that its annotations need.
_TAKEN = frozenset(
    {
        *("ABSENT", "Absent", "Any", "Caller", "Enum", "Final", "Literal", "NotRequired", "Protocol", "ResultT"),
        *("ResultT_co", "TypeAlias", "TypeVar", "TypedDict", "_given", "annotations"),
        *("bool", "dict", "float", "int", "list", "str"),
    }
)
_LINE = 100
_QUOTE = re.compile(r'"(?="|\Z)|\A"')
_SEPARATOR = re.compile(r"[^A-Za-z0-9_]+")


def python_module(tools: Iterable[Tool]) -> str:
    """The module's text: Python 3.11 that passes `mypy --strict`, whatever names and texts the descriptions bring along.

    A TypedDict says what an object has, a Literal what may be chosen. What types cannot say (bounds, patterns, properties that are not
    listed) stays the gateway's to check. Results have the type that the caller's `call` gives them. Same tools, same text.
    """
    names = set(_TAKEN)
    types = Types(names)
    functions = [_function(tool, _unused(identifier(tool.name), names), types) for tool in map(shown, tools)]
    return "\n\n".join((_HEADER, *(f"{text}\n" for text in (*types.definitions, *functions))))


def identifier(name: str) -> str:
    """A Python identifier that reads like the name: ASCII, no keyword, and nothing that a class body would mangle."""
    built = _SEPARATOR.sub("_", name)
    if not built.strip("_"):
        built = "argument"
    if built.startswith("__"):
        built = f"_{built.lstrip('_')}"  # a type checker takes a parameter with two for a positional one
    if built[0].isdigit():
        built = f"_{built}"
    return f"{built}_" if keyword.iskeyword(built) or keyword.issoftkeyword(built) else built


def docstring(text: str, indent: str) -> str:
    """Text as a docstring that nothing in the text can end, wrapped; backslashes escaped and what cannot be seen spelt out."""
    shown = _QUOTE.sub(r"\"", "".join(map(_visible, text.strip())))
    lines = [
        wrapped
        for line in shown.split("\n")
        for wrapped in (
            textwrap.wrap(line, _LINE, break_long_words=False, break_on_hyphens=False, subsequent_indent=_hanging(line))
            or [""]
        )
    ]
    joined = "\n".join(f"{indent}{line}" if line else "" for line in lines).strip()
    return f'"""{joined}"""' if len(lines) == 1 else f'"""{joined}\n{indent}"""'


def _hanging(line: str) -> str:
    """Lines that continue an argument's stand further in than it does."""
    return "        " if line.startswith("    ") else ""


def _visible(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter == "\n" or letter.isprintable():
        return letter
    if "\ud800" <= letter <= "\udfff":  # half of a pair: since Python 3.13 no docstring can hold one
        return f"\\\\u{ord(letter):04x}"
    return (
        f"\\x{ord(letter):02x}"
        if ord(letter) < 256
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
    )


def _function(tool: Tool, name: str, types: Types) -> str:
    properties = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", ())
    used = {"caller", "_given", "ABSENT"}
    arguments = {wire: _unused(identifier(wire), used) for wire in properties}
    scope = types.scope(tool)
    written = {wire: scope.type_of(schema, _camel(f"{name}_{wire}")) for wire, schema in properties.items()}
    ordered = [wire for wire in properties if wire in required] + [wire for wire in properties if wire not in required]
    parameters = [
        f"{arguments[wire]}: {written[wire]}" if wire in required else f"{arguments[wire]}: {written[wire]} | Absent = ABSENT"
        for wire in ordered
    ]  # fmt: skip
    scope.finish()
    lines = [f"async def {name}("]
    lines += [
        f"    {parameter}," for parameter in ("caller: Caller[ResultT]", *(["*"] if parameters else []), *parameters)
    ]
    lines.append(") -> ResultT:")
    lines.append(f"    {docstring(_documented(tool, arguments), '    ')}")
    given = "".join(f"\n            {quoted(wire)}: {arguments[wire]}," for wire in ordered)
    call = f"_given(\n        {{{given}\n        }}\n    )" if given else "{}"
    body = call.replace("\n", "\n    ") if given else call
    lines.append(f"    return await caller.call(\n        {quoted(tool.name)},\n        {body},\n    )")
    return "\n".join(lines)


def _documented(tool: Tool, arguments: dict[str, str]) -> str:
    told = list(_told(tool, arguments))
    text = tool.description.strip() or tool.name
    return text if not told else "\n".join((text, "", "Args:", *told))


def _told(tool: Tool, arguments: dict[str, str]) -> Iterator[str]:
    for wire, schema in tool.input_schema.get("properties", {}).items():
        text = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(text, str) and text.strip():
            yield f"    {arguments[wire]}: {' '.join(text.split())}"


def _unused(name: str, used: set[str]) -> str:
    choice, count = name, 1
    while choice in used:
        count += 1
        choice = f"{name}_{count}"
    used.add(choice)
    return choice


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
