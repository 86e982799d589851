"""Signatures of tools as Python functions, for the author of code and for the type checker."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolgen.model.tool import Tool

__all__ = ["is_callable", "signature", "stubs"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
_MAX_DEPTH = 4
_MAX_CHOICES = 20
_OURS = (
    *(
        f"async def {name}(name: str, arguments: dict[str, Any] = ..., /) -> Any: ..."
        for name in ("run_tool", "call_tool")
    ),
    "def signatures(word: str = ..., /) -> list[str]: ...",
)


def is_callable(tool: Tool) -> bool:
    """Return True if the tool's name is a valid name of a Python function."""
    return _is_name(tool.name)


def signature(tool: Tool) -> str:
    """Return `async def shop__get_order(*, order_id: str, limit: int = ...) -> Any`. Arguments without a valid Python name are in
    `**more`.
    """
    properties = tool.input_schema.get("properties") or {}
    required = set(tool.input_schema.get("required") or ())
    parts = [
        f"{name}: {_type(schema, 0)}{'' if name in required else ' = ...'}"
        for name, schema in sorted(properties.items(), key=lambda item: item[0] not in required)
        if _is_name(name)
    ]
    if tool.input_schema.get("additionalProperties") or not all(map(_is_name, properties)):
        parts.append("**more: Any")
    named = [part for part in parts if not part.startswith("**")]
    listed = ", ".join((*(("*",) if named else ()), *parts))
    return f"async def {tool.name}({listed}) -> Any"


def stubs(tools: Iterable[Tool]) -> str:
    """Return the type stubs of the functions that the code can call."""
    lines = [f"{signature(tool)}: ..." for tool in tools if is_callable(tool)]
    return "\n".join(("from typing import Any, Literal", *_OURS, *lines)) + "\n"


def _is_name(name: str) -> bool:
    return _IDENTIFIER.match(name) is not None and not keyword.iskeyword(name)


def _type(schema: Any, depth: int) -> str:
    """Return the type of the values of a schema, as far as Python's types can express it; else `Any`."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "Any"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return _literal(choices)
    for joined in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(joined), list) and parts:
            return _union(_type(part, depth + 1) for part in parts)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union(_type({**schema, "type": one}, depth + 1) for one in kind)
    if kind == "array":
        return f"list[{_type(schema.get('items', {}), depth + 1)}]"
    return _TYPES.get(str(kind), "Any")


def _literal(choices: list[Any]) -> str:
    plain = all(one is None or isinstance(one, (str, int, bool)) for one in choices)
    if not plain or not 0 < len(choices) <= _MAX_CHOICES:
        return "Any"
    return f"Literal[{', '.join(repr(one) for one in choices)}]"


def _union(parts: Iterable[str]) -> str:
    names = list(dict.fromkeys(parts))
    return "Any" if "Any" in names or not names else " | ".join(names)
