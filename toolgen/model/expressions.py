"""Expressions for values in workflows: Arazzo's runtime expressions (1.0, section 4.7), JSONPath, and texts with expressions in them.

`$inputs.name`, `$steps.id.outputs.name`, `$steps.id.data.items[0].title`, `$response.body#/items/0`, `$.steps.find.data[*].id`. A text that
begins with `$$` means the text with one `$` less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from toolgen.model.excerpt import bounded

__all__ = [
    "ROOTS",
    "ExpressionError",
    "ListExpression",
    "Literal",
    "ObjectExpression",
    "PathQuery",
    "Template",
    "TextTemplate",
    "ValueReference",
    "followed",
    "parse",
    "parse_reference",
    "references",
]

MAX_LENGTH = 4096
_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_STEP = re.compile(rf"\.({_NAME}|[0-9]+)|\[([0-9]{{1,9}})\]|\['([^']*)'\]")
_HEAD = re.compile(rf"\$({_NAME})")
_POINTER = re.compile(r"#((?:/[^\s{}]*)?)\Z")
_EMBEDDED = re.compile(r"\{(\$[^{}]*)\}")
ROOTS: Mapping[str, str] = {
    "inputs": "inputs",
    "steps": "steps",
    "item": "item",
    "index": "index",
    "data": "data",
    "response": "data",
    "outputs": "data",
    "statusCode": "http_status",
}
"""First word of an expression, and the root of its value."""

Part: TypeAlias = str | int


class ExpressionError(ValueError):
    """Invalid expression; the text is a phrase with the reason."""


class ValueReference(Struct, frozen=True):
    """Reference to a value: a root and a path below it."""

    text: str
    root: str
    path: tuple[Part, ...]


class PathQuery(Struct, frozen=True):
    """JSONPath over `{"inputs", "steps", "item", "index"}`. Its value is the list of selected values."""

    text: str


class TextTemplate(Struct, frozen=True):
    """Text with values in it."""

    parts: tuple[str | ValueReference, ...]


class Literal(Struct, frozen=True):
    """Literal value."""

    value: Any


class ObjectExpression(Struct, frozen=True):
    """Object with expressions among its values."""

    items: Mapping[str, Template]


class ListExpression(Struct, frozen=True):
    """List with expressions among its elements."""

    items: tuple[Template, ...]


Template: TypeAlias = ValueReference | PathQuery | TextTemplate | Literal | ObjectExpression | ListExpression


def parse(value: Any) -> Template:
    """Parse a written value into an expression. Raises `ExpressionError`."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return ObjectExpression({str(name): parse(item) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        return ListExpression(tuple(parse(item) for item in value))
    return Literal(value)


@lru_cache(maxsize=4096)
def _text(text: str) -> Template:
    if len(text) > MAX_LENGTH and "$" in text:
        raise ExpressionError(f"a text with expressions has at most {MAX_LENGTH} characters")
    if text.startswith("$$"):
        return Literal(text[1:])
    if text.startswith(("$.", "$[")):
        return PathQuery(text)
    if text.startswith("$"):
        return parse_reference(text)
    parts: list[str | ValueReference] = []
    end = 0
    for found in _EMBEDDED.finditer(text):
        parts += [text[end : found.start()], parse_reference(found[1])]
        end = found.end()
    if not parts:
        return Literal(text)
    return TextTemplate(tuple(part for part in (*parts, text[end:]) if part != ""))


@lru_cache(maxsize=4096)
def parse_reference(text: str) -> ValueReference:
    """Parse `$steps.find.outputs.ids[0]` and similar references. Raises `ExpressionError`."""
    head = _HEAD.match(text)
    if head is None or head[1] not in ROOTS:
        known = ", ".join(f"${name}" for name in ROOTS)
        raise ExpressionError(
            f"'{bounded(text, 80)}' is not an expression: it begins with none of {known} (a text with a $ begins with $$)"
        )
    rest = text[head.end() :]
    if head[1] == "response":
        if not rest.startswith(".body"):
            raise ExpressionError(f"'{bounded(text, 80)}': only the body of an answer is available ($response.body)")
        rest = rest.removeprefix(".body")
    plain, mark, pointer = rest.partition("#")
    path = tuple(_steps(plain, text))
    if mark:
        path += _pointed(mark + pointer, text)
    root = ROOTS[head[1]]
    if root in {"http_status", "index"} and path:
        raise ExpressionError(f"'{bounded(text, 80)}': ${head[1]} is a number")
    return ValueReference(text, root, path)


def _steps(rest: str, whole: str) -> Iterator[Part]:
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise ExpressionError(
                f"'{bounded(whole, 80)}' is not an expression: {bounded(rest, 40)!r} is not a valid path"
            )
        name, index, quoted = step.groups()
        yield int(index) if index is not None else name if name is not None else quoted
        rest = rest[step.end() :]


def _pointed(pointer: str, whole: str) -> tuple[Part, ...]:
    """Return the steps of a JSON Pointer (RFC 6901) after a `#`."""
    found = _POINTER.match(pointer)
    if found is None:
        raise ExpressionError(f"'{bounded(whole, 80)}': the text after # is not a JSON Pointer")
    return tuple(unquote(part).replace("~1", "/").replace("~0", "~") for part in found[1].split("/")[1:])


def references(template: Template) -> Iterator[ValueReference | PathQuery]:
    """Yield every expression of a template."""
    match template:
        case ValueReference() | PathQuery():
            yield template
        case TextTemplate(parts=parts):
            yield from (part for part in parts if isinstance(part, ValueReference))
        case ObjectExpression(items=members):
            for item in members.values():
                yield from references(item)
        case ListExpression(items=elements):
            for item in elements:
                yield from references(item)
        case Literal():
            return


def followed(value: Any, path: tuple[Part, ...]) -> tuple[bool, Any]:
    """Follow a path in a value. Returns True and the value found, or False and None."""
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and str(part).isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value
