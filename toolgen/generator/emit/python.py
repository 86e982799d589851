"""Catalog as a Python module: one typed async function per tool, over any caller of the gateway."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator

from toolgen.generator.emit.python_types import Types, quoted
from toolgen.model.shown_schema import shown
from toolgen.model.tool import Tool

__all__ = ["MODULE", "python_module"]


MODULE = "toolgen_tools.py"
"""Name of the file, unlikely to exist beside it already."""

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
# Names that a generated module defines, or that its annotations need.
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
    """Return the module's text: Python 3.11 that passes `mypy --strict`, whatever names and texts the descriptions contain.

    A TypedDict describes an object, a Literal its choices. The gateway checks constraints that types cannot express (bounds, patterns,
    unlisted properties). Results have the type of the caller's `call`. Same tools, same text.
    """
    names = set(_TAKEN)
    types = Types(names)
    functions = [_function(tool, _unused(identifier(tool.name), names), types) for tool in map(shown, tools)]
    return "\n\n".join((_HEADER, *(f"{text}\n" for text in (*types.definitions, *functions))))


def identifier(name: str) -> str:
    """Return a Python identifier similar to the name: ASCII, not a keyword, and without name mangling in a class body."""
    built = _SEPARATOR.sub("_", name)
    if not built.strip("_"):
        built = "argument"
    if built.startswith("__"):
        built = f"_{built.lstrip('_')}"  # type checkers read a parameter with two as positional-only
    if built[0].isdigit():
        built = f"_{built}"
    return f"{built}_" if keyword.iskeyword(built) or keyword.issoftkeyword(built) else built


def docstring(text: str, indent: str) -> str:
    """Return text as a wrapped docstring that the text cannot end; backslashes and invisible characters are escaped."""
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
    """Return the indent of continuation lines: for an argument's description deeper than its first line."""
    return "        " if line.startswith("    ") else ""


def _visible(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter == "\n" or letter.isprintable():
        return letter
    if "\ud800" <= letter <= "\udfff":  # an unpaired surrogate: since Python 3.13 no docstring can contain one
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
