"""What an agent is told of arguments that do not fit: which, why and what would fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.policy.arguments import Validator
from toolgen.policy.validation_messages import sentences

CARD = {
    "type": "object",
    "properties": {"kind": {"const": "card"}, "number": {"type": "string", "minLength": 4}},
    "required": ["kind", "number"],
}
BANK = {
    "type": "object",
    "properties": {"kind": {"const": "bank"}, "iban": {"type": "string"}},
    "required": ["kind", "iban"],
    "additionalProperties": False,
}
PAY = {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Bank"}, {"type": "null"}]}
ZONES = ["Europe/Zurich", *(f"Quoin/{number:04}" for number in range(599))]
ZONES_BEGIN = ", ".join(f'"{zone}"' for zone in ZONES[:20])
DEFS = {"Card": CARD, "Bank": BANK}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"kind": "card", "number": "1"}, '/pay/number: must have at least 4 characters; it is "1"'),
        ({"kind": "card"}, "/pay: 'number' is missing"),
        ({"kind": "bank", "ibna": "DE1"}, "/pay: 'iban' is missing (you sent 'ibna')"),
        ({"kind": "cash"}, '/pay/kind: must be one of "card", "bank"; it is "cash"'),
        ({"kind": "cart", "number": "4444"}, '/pay/kind: must be one of "card", "bank"; it is "cart" (did you mean "card"?)'),
        ("card", '/pay: must be an object or null; it is a string "card"'),
        (
            {"kind": "bank", "iban": "DE1", "owner": "x" * 5_000},
            "/pay: 'owner' is not known here; it takes 'iban', 'kind'",
        ),
    ],
)  # fmt: skip
def test_a_choice_is_explained_by_the_alternative_that_fits_best(keyword: str, value: Any, told: str) -> None:
    schema = {"properties": {"pay": {keyword: PAY["anyOf"]}}, "$defs": DEFS}
    found = Validator(schema).faults({"pay": value})
    assert found[0] == told
    assert not any("anyOf" in one or "oneOf" in one for one in found)


def test_a_wrong_value_deep_in_an_alternative_does_not_make_it_another_variant() -> None:
    near = {"properties": {"a": {"type": "object", "properties": {"b": {"enum": [1, 2]}}}}}
    far = {"properties": {"a": {"type": "string"}}, "required": ["c"]}

    found = Validator({"properties": {"to": {"anyOf": [far, near]}}}).faults({"to": {"a": {"b": 9}}})

    assert found == ("/to/a/b: must be one of 1, 2; it is 9",)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"enum": ["open", "paid"]}, "opne", 'must be one of "open", "paid"; it is "opne" (did you mean "open"?)'),
        ({"enum": list(range(25))}, 30, f"must be one of {', '.join(map(str, range(20)))} and 5 more; it is 30"),
        ({"const": "x"}, "y", 'must be "x"; it is "y"'),
        ({"type": "integer"}, "5 apples", 'must be a whole number; it is a string "5 apples"'),
        ({"type": ["string", "null"]}, {"a": 1}, "must be null or a string; it is an object with 'a'"),
        ({"enum": ZONES}, "Zurich", 'must be one of 600 values; it is "Zurich" (did you mean "Europe/Zurich"?)'),
        ({"enum": ZONES}, "europe-zurich", 'must be one of 600 values; it is "europe-zurich" (did you mean "Europe/Zurich"?)'),
        ({"enum": ZONES}, "?", f"must be one of 600 values: {ZONES_BEGIN} and 580 more; it is \"?\""),
        ({"anyOf": [{"type": "integer"}, {"enum": ["all"]}]}, 2.5, 'must be a whole number or "all"; it is 2.5'),
        ({"anyOf": [{"type": "integer"}, {"enum": ["all"]}]}, "al", 'must be "all"; it is "al" (did you mean "all"?)'),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"c": 1}, "one of 'a', 'b' is missing"),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 2},
            "fits 2 alternatives at once, but only one may fit: leave out the members of the others; it is an object with 'a', 'b'",
        ),
        ({"type": "object", "required": ["a", "b"]}, {}, "'a', 'b' are missing"),
        ({"maximum": 10}, 11, "must be at most 10; it is 11"),
        ({"minItems": 2}, [1], "must have at least 2 items; it is an array of 1 item"),
        ({"pattern": "^[a-z]+$"}, "A", 'must match the pattern ^[a-z]+$; it is "A"'),
        ({"uniqueItems": True}, [1, 1], "must not contain an item twice; it is an array of 2 items"),
        ({"not": {"const": 1}}, 1, "has a value that is not allowed here; it is 1"),
        (False, 1, "is not allowed here; it is 1"),
        ({"propertyNames": {"pattern": "^x"}}, {"a": 1}, "has a member whose name is not allowed; it is an object with 'a'"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "'b' is missing"),
        ({"multipleOf": 5}, 3, "must be a multiple of 5; it is 3"),
    ],
)  # fmt: skip
def test_a_fault_says_where_and_what_would_fit(schema: Any, value: Any, told: str) -> None:
    assert Validator({"properties": {"x/y": schema}}).faults({"x/y": value}) == (f"/x~1y: {told}",)


def test_a_long_value_does_not_push_out_the_reason() -> None:
    (told,) = Validator({"properties": {"ids": {"type": "integer"}}}).faults({"ids": "9" * 100_000})
    assert told.startswith('/ids: must be a whole number; it is a string "999')
    assert len(told) < 200
    long = "p" * 100_000
    (told,) = Validator({"properties": {"o": {"additionalProperties": {"type": "integer"}}}}).faults({"o": {long: "x"}})
    assert "must be a whole number" in told
    assert len(told) < 400


def test_an_unknown_name_is_answered_with_the_nearest_and_the_rest() -> None:
    schema = {"properties": {"limit": {}, "status": {}}, "additionalProperties": False}
    assert Validator(schema).faults({"limt": 1}) == (
        "arguments: 'limt' (did you mean 'limit'?) is not known here; it takes 'limit', 'status'",
    )
    assert Validator({"properties": {}, "additionalProperties": False}).faults({"a": 1}) == (
        "arguments: 'a' is not known here; it takes no others",
    )
    nothing = {"additionalProperties": False}
    assert Validator(nothing).faults({"a": 1}) == ("arguments: must be empty",)
    assert Validator({"properties": {"inner": nothing}}).faults({"inner": {"a": 1}}) == ("/inner: must be empty",)


@pytest.mark.parametrize("path", ["tenant", "body.tenant"])
def test_what_the_gateway_sets_is_not_spoken_of(path: str) -> None:
    inner: dict[str, Any] = {"properties": {"tenant": {"enum": ["acme"]}, "n": {}}, "additionalProperties": False}
    body = path.startswith("body")
    schema = {"properties": {"body": inner}} if body else inner

    def told(value: dict[str, Any]) -> str:
        return " ".join(Validator(schema).faults({"body": value} if body else value, bound=(path,)))

    assert (
        told({"tenant": "secret-corp"})
        == "arguments: a value that the gateway sets is not valid; tell the operator of the gateway"
    )
    assert "tenant" not in told({"tenant": "acme", "tenent": 1}).replace("'tenent'", "")
    inner["required"] = ["tenants"]
    assert "you sent" not in told({"tenant": "acme"})


def test_a_choice_in_a_choice_in_a_choice_ends() -> None:
    schema: dict[str, Any] = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for _ in range(12):
        schema = {"anyOf": [schema, {"type": "string"}]}
    assert Validator({"properties": {"a": schema}}).faults({"a": {}})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_SCHEMAS = st.recursive(
    st.one_of(
        st.just({"type": "integer"}),
        st.just({"type": ["string", "null"]}),
        st.just({"maxLength": 1}),
        st.just({"uniqueItems": True}),
        st.just(False),
        _JSON.map(lambda value: {"enum": [value]}),
        _JSON.map(lambda value: {"const": value}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda key, value: {key: value}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda value: {"properties": {"a": value}, "required": ["a"], "additionalProperties": False}, inner),
        st.builds(lambda value: {"items": value, "minItems": 1}, inner),
        st.builds(lambda key, value: {key: value}, st.sampled_from(["not", "contains", "additionalProperties"]), inner),
    ),
    max_leaves=6,
)  # fmt: skip


@given(schema=_SCHEMAS, value=_JSON)
def test_whatever_is_refused_has_a_reason_that_ends(schema: Any, value: Any) -> None:
    validator = Validator({"properties": {"x": schema}})
    found = validator.faults({"x": value})
    assert bool(found) is not validator.accepts({"x": value})
    assert all(one.startswith("/x") and len(one) < 3_000 for one in found)


def test_without_errors_there_is_nothing_to_say() -> None:
    assert sentences((), {}, 3) == ()


@pytest.mark.parametrize(
    ("form", "example"),
    [("date", "2026-01-31"), ("date-time", "2026-01-31T09:30:00Z"), ("uuid", "123e4567-"), ("email", "")],
)
def test_a_format_comes_with_an_example_that_has_it(form: str, example: str) -> None:
    validator = Validator({"type": "object", "properties": {"at": {"type": "string", "format": form}}})
    (said,) = validator.faults({"at": "tomorrow"})
    assert (", such as " in said) is bool(example)
    if example:
        given = said.partition(", such as ")[2].partition(";")[0]
        assert given.startswith(example)
        assert not validator.faults({"at": given})
