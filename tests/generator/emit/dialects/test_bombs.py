"""Schemas made to cost much: every dialect ends, and says less rather than never."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalogs import http_tool
from tests.generator.emit.dialects.test_strict import arguments
from tests.generator.emit.providers import ACCEPTED
from toolgen.generator.emit.dialects import without_absent
from toolgen.generator.emit.formats import FORMATS
from toolgen.generator.emit.python import python_module


def doubled(keyword: str, levels: int = 60) -> dict[str, Any]:
    """Each definition refers to the next one twice: taken apart naively, 2**60 schemas."""
    chain: dict[str, Any] = {
        f"D{level}": {keyword: [{"$ref": f"#/$defs/D{level + 1}"}, {"$ref": f"#/$defs/D{level + 1}"}]}
        for level in range(levels)
    }
    return arguments({"$ref": "#/$defs/D0"}, required=False, **chain, **{f"D{levels}": {"type": "string"}})


def looped() -> dict[str, Any]:
    inner = {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"z": {"type": "string"}}}]}
    return arguments(
        {"$ref": "#/$defs/A"}, required=False, A={"type": "object", "properties": {"l": inner, "r": inner}}
    )


def chained(length: int = 4_000) -> dict[str, Any]:
    links: dict[str, Any] = {f"C{number}": {"$ref": f"#/$defs/C{number + 1}"} for number in range(length)}
    return arguments({"$ref": "#/$defs/C0"}, required=False, **links, **{f"C{length}": {"type": "string"}})


def strung(length: int = 4_000) -> dict[str, Any]:
    links: dict[str, Any] = {
        f"C{number}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/C{number + 1}"}}}
        for number in range(length)
    }
    return arguments({"$ref": "#/$defs/C0"}, required=False, **links, **{f"C{length}": {"type": "string"}})


BOMBS = {
    "allOf": doubled("allOf"),
    "anyOf": doubled("anyOf"),
    "oneOf": doubled("oneOf"),
    "loop": looped(),
    "chain": chained(),
    "string": strung(),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"langchain"}))
def test_every_format_ends(name: str, bomb: str) -> None:
    shaped = FORMATS[name](http_tool("pets__find", **BOMBS[bomb]))
    if name in {"gemini", "openai-strict"}:
        ACCEPTED[name](shaped)


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_stubs_end(bomb: str) -> None:
    compile(python_module([http_tool("pets__find", **BOMBS[bomb])]), "catalog.py", "exec")


# A doubled union is left out: holding a value against one costs any validator 2**60 steps, the gateway's own included.
@pytest.mark.parametrize("bomb", sorted(BOMBS.keys() - {"anyOf", "oneOf"}))
@pytest.mark.parametrize("value", [None, {"l": None, "r": {"l": None}}, [None], {"x": {"x": None}}], ids=repr)
def test_the_way_back_ends(bomb: str, value: Any) -> None:
    assert set(without_absent(BOMBS[bomb], {"x": value, "y": None})) <= {"x", "y"}
