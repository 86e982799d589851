"""Templates: what a path finds, what is left out, and the schema of what is made."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.template import derived, parse_path, paths, rendered

VALUE = {"a": {"b": [{"c": 1}, None]}, "n": None, "f": False}
RENDERED = [
    ("$", VALUE),
    ("$.a.b[0].c", 1),
    ("$.a.b[1]", None),
    ("$.a.b[2]", None),
    ("$.a.b.c", None),
    ("$.missing", None),
    ("$$.a", "$.a"),
    ("$$", "$"),
    ("plain", "plain"),
    (7, 7),
    (None, None),
    ({"x": "$.f", "y": "$.n", "z": "$.gone", "k": {"d": "$.gone"}}, {"x": False, "y": None, "k": {}}),
    (["$.f", "$.gone", ["$.a.b[0].c"]], [False, None, [1]]),
]


@pytest.mark.parametrize(("template", "made"), RENDERED)
def test_a_template_is_filled_with_what_its_paths_lead_to(template: Any, made: object) -> None:
    assert rendered(template, VALUE) == made


@pytest.mark.parametrize("text", ["$a", "$.", "$.a.", "$[a]", "$.a b", "$.a[-1]", "$.a[999999]", "$..a", "$[0", "$.é"])
def test_a_text_that_begins_as_a_path_and_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        parse_path(text)
    with pytest.raises(ValueError, match="is not a path"):
        list(paths({"x": [text]}))


def test_every_path_of_a_template_is_found() -> None:
    found = dict(paths({"x": "$.a", "y": ["$.b[2]", "$$c", 3], "z": {"w": "$"}}))
    assert found == {"$.a": ("a",), "$.b[2]": ("b", 2), "$": ()}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["a", "list"],
    "properties": {
        "a": {"$ref": "#/$defs/place"},
        "o": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    },
    "$defs": {
        "place": {"type": "object", "properties": {"x": {"type": "number"}, "next": {"$ref": "#/$defs/place"}}, "required": ["x"]}
    },
}  # fmt: skip


def test_the_schema_of_what_is_made_says_what_is_always_there() -> None:
    made = derived({"x": "$.a.x", "y": "$.a.next.x", "o": "$.o", "first": "$.list[0]", "second": "$.list[1]"}, SCHEMA)
    assert made["required"] == ["x", "first"]
    assert made["properties"]["x"] == {"type": "number"}
    assert made["$defs"] == SCHEMA["$defs"]


@pytest.mark.parametrize("path", ["$.b", "$.a.y", "$.a.next.next.z"])
def test_a_path_to_a_part_that_the_schema_does_not_have_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match="does not have"):
        derived({"x": path}, SCHEMA)


PLACES = st.recursive(
    st.fixed_dictionaries({"x": st.floats(-9, 9)}),
    lambda inner: st.fixed_dictionaries({"x": st.floats(-9, 9)}, optional={"next": inner}),
    max_leaves=4,
)
VALUES = st.fixed_dictionaries(
    {"a": PLACES, "list": st.lists(st.integers(0, 9), min_size=1, max_size=3)}, optional={"o": st.text(max_size=3)}
)
PATHS = st.sampled_from(
    ["$", "$.a", "$.a.x", "$.a.next", "$.a.next.x", "$.o", "$.list", "$.list[0]", "$.list[2]", "$$x", "t"]
)
TEMPLATES = st.recursive(
    st.one_of(PATHS, st.integers(0, 3), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("pqr"), inner, max_size=3)),
    max_leaves=6,
)


@given(template=TEMPLATES.filter(lambda one: isinstance(one, dict)), value=VALUES)
def test_what_a_template_makes_fits_the_schema_that_is_derived(template: Any, value: Any) -> None:
    assert jsonschema_rs.validator_for(SCHEMA, offline=True).is_valid(value)
    made = derived(template, SCHEMA)
    assert jsonschema_rs.Draft202012Validator(made, offline=True).is_valid(rendered(template, value))
