"""Listed forms that schemas have in common: made once, and the same as where each schema is listed alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.generator.emit.dialects.listed import listed_schema
from toolgen.generator.emit.dialects.listed_definitions import ListedDefinitions

NAMES = ("A", "B", "C", "D")
WORDS = "Reference to what is kept with the order, in at most 64 letters, one of `new`, `paid` or `sent`. " * 3


def referring(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


LEAVES = st.sampled_from(
    [
        {"type": "string", "description": WORDS},
        {"type": "string", "enum": ["new", "paid"]},
        {"type": ["integer", "null"]},
        {"not": {}},
        *map(referring, NAMES),
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": required},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        ),
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, SCHEMAS)), st.lists(SCHEMAS, min_size=2, max_size=4))
def test_schemas_are_listed_together_as_they_are_alone(
    definitions: dict[str, Any], roots: list[dict[str, Any]]
) -> None:
    known = ListedDefinitions()
    for root in roots:
        schema = {"type": "object", "properties": {"it": root}, "$defs": definitions}
        alone, together = listed_schema(schema, short=True), listed_schema(schema, short=True, definitions=known)
        assert (together, together.cut, together.large, together.size) == (alone, alone.cut, alone.large, alone.size)


@pytest.mark.parametrize("width", [3, 40, 400])
def test_a_schema_that_is_too_large_is_listed_together_as_it_is_alone(width: int) -> None:
    """The parts of a form that was made before count as those of one that is made."""
    item = {"type": "object", "properties": {f"p{index}": {"type": "array", "items": {}} for index in range(width)}}
    definitions = {"A": item, "B": {"type": "object", "properties": {f"q{n}": referring("A") for n in range(width)}}}
    roots = [
        referring("A"),
        {"type": "object", "properties": {"a": referring("A"), "b": referring("B")}},
        referring("B"),
    ]
    known = ListedDefinitions()
    for root in (*roots, *reversed(roots)):
        schema = {"type": "object", "properties": {"it": root}, "$defs": definitions}
        alone, together = listed_schema(schema), listed_schema(schema, definitions=known)
        assert (together, together.cut, together.large, together.size) == (alone, alone.cut, alone.large, alone.size)


def test_a_definition_that_tools_have_in_common_is_made_once() -> None:
    definitions = {"A": {"type": "object", "properties": {"name": {"type": "string"}}}}
    known = ListedDefinitions()
    first, second = (
        listed_schema({"type": "object", "properties": {name: referring("A")}, "$defs": definitions}, definitions=known)
        for name in ("one", "other")
    )
    assert first["properties"]["one"] is second["properties"]["other"]


@pytest.mark.parametrize(
    "second",
    [
        {"A": {"type": "object", "properties": {"number": {"type": "integer"}}}},  # another under the same name
        {"A": {"type": "object", "properties": {"name": {"type": "string"}}}},  # equal, and another object
        {"B": {"type": "object", "properties": {"name": referring("C")}}, "A": {}},  # that leads nowhere
        {"B": {"type": "object", "properties": {"name": {"$ref": "#/properties/it"}}}, "A": {}},
    ],
)
def test_definitions_of_another_source_have_forms_of_their_own(second: dict[str, Any]) -> None:
    known = ListedDefinitions()
    for definitions in ({"A": {"type": "object", "properties": {"name": {"type": "string"}}}}, second):
        schema = {"type": "object", "properties": {"it": referring(next(iter(definitions)))}, "$defs": definitions}
        assert listed_schema(schema, definitions=known) == listed_schema(schema)
    assert not known.takes({"$defs": second})
