"""What a text may stand for where its argument may be of other types: nothing that the schema does not name."""

from __future__ import annotations

import pytest

from toolgen.model.schema import Json
from toolgen.policy.readings.values import parsed


@pytest.mark.parametrize(
    ("text", "allowed", "read"),
    [
        ("true", {"boolean"}, True),
        (" FALSE ", {"boolean"}, False),
        ("true", {"integer"}, "true"),
        ("null", {"null"}, None),
        ("null", {"boolean"}, "null"),
        ("7", {"integer"}, 7),
        ("7", {"boolean"}, "7"),
        ("[1]", {"array"}, [1]),
        ("[1]", {"boolean"}, "[1]"),
        ("[1]", {"object"}, "[1]"),
        ('{"a": 1}', {"object"}, {"a": 1}),
        ("[", {"array"}, "["),
        ("x", {"boolean", "null", "array", "object", "integer"}, "x"),
    ],
)
def test_a_text_is_read_as_the_types_that_are_allowed(text: str, allowed: set[str], read: Json) -> None:
    found = parsed(text, frozenset(allowed))

    assert (found, type(found)) == (read, type(read))
