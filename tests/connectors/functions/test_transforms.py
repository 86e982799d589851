"""Answers made of arguments by paths alone: what a template says, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.functions.decorator import ToolError
from toolgen.connectors.functions.transforms import transform

ORDERS: dict[str, Any] = {
    "orders": [
        {"id": 3, "city": "Bonn", "total": 2.5},
        {"id": 1, "city": "Ulm", "total": 4},
        {"id": 2, "city": "Bonn", "total": 1},
    ],
    "name": "Ann",
    "empty": [],
}


@pytest.mark.parametrize(
    ("template", "answer"),
    [
        ("$.name", "Ann"),
        ("$.nobody", None),
        ("$.orders[*].id", [3, 1, 2]),
        ("$.orders[?@.total > 2].id", [3, 1]),
        ("$.orders[0].city", "Bonn"),
        ("$$.name", "$.name"),
        ("text", "text"),
        (3, 3),
        (None, None),
        ({"who": "$.name", "ids": ["$.orders[0].id", "fixed"]}, {"who": "Ann", "ids": [3, "fixed"]}),
        ({"$count": "$.orders[*]"}, 3),
        ({"$count": "$.orders"}, 3),
        ({"$sum": "$.orders[*].total"}, 7.5),
        ({"$average": "$.orders[*].total"}, 2.5),
        ({"$average": "$.empty"}, None),
        ({"$min": "$.orders[*].id"}, 1),
        ({"$max": "$.orders[*].id"}, 3),
        ({"$max": "$.empty[*]"}, None),
        ({"$first": "$.orders[*].id"}, 3),
        ({"$last": "$.orders[*].id"}, 2),
        ({"$first": "$.empty[*]"}, None),
        ({"$sort": "$.orders[*].id"}, [1, 2, 3]),
        ({"$unique": "$.orders[*].city"}, ["Bonn", "Ulm"]),
        ({"$join": "$.orders[*].city"}, "Bonn, Ulm, Bonn"),
        ({"a": {"b": {"$count": "$..id"}}}, {"a": {"b": 3}}),
        ("$.orders[?match(@.city, 'B.*')].id", [3, 2]),
        ("$.orders[?search(@.city, 'l')].id", [1]),
        ("$.orders[?search(@.city, '(a+)+$')].id", []),
    ],
)
def test_a_template_says_what_the_answer_is(template: Any, answer: Any) -> None:
    assert transform(template)(ORDERS) == answer


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("$[", "not a JSONPath"),
        ("$.a | $.b", "not a JSONPath"),
        ({"$cuont": "$.a"}, "did you mean '\\$count'"),
        ({"$count": "$.a", "$sum": "$.b"}, "must be the only key"),
        ({"$count": "$.a", "b": 1}, "must be the only key"),
        ({"$count": 3}, "with one path"),
        (["$.a"] * 201, "more than 200 paths"),
    ],
)
def test_what_is_no_template_is_refused_when_it_is_read(template: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        transform(template)


def test_a_template_nested_too_deep_is_refused() -> None:
    template: Any = 1
    for _ in range(30):
        template = [template]
    with pytest.raises(ValueError, match="levels deep"):
        transform(template)


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ({"$sum": "$.a[*]"}, {"a": [1, "2"]}),
        ({"$sum": "$.a[*]"}, {"a": [1, True]}),
        ({"$sum": "$.a[*]"}, {"a": [1e308, 1e308]}),
        ({"$sort": "$.a[*]"}, {"a": [1, "2"]}),
        ({"$join": "$.a[*]"}, {"a": [1]}),
        ("$.a[*]", {"a": [0] * 10_001}),
    ],
)
def test_what_an_operator_does_not_take_is_told_to_the_agent(template: Any, arguments: Any) -> None:
    with pytest.raises(ToolError):
        transform(template)(arguments)


NESTED: Any = 0
for _ in range(12):
    NESTED = [NESTED, NESTED]
LONG = "a" * 100_000


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("$..[?count($..*) > 0]", {"a": NESTED}),
        ({"$count": "$..*..*..*"}, {"a": NESTED}),
        (["$..[?@ == 7]"] * 200, {"a": NESTED}),  # each by itself is not too much
        (["$.a"] * 200, {"a": LONG}),
        ("$..*", {"a": [[[[[[LONG]]]]]] * 2}),
        ({"$unique": "$.a['b','b','b','b','b','b','b','b','b','b','b']"}, {"a": {"b": LONG}}),
        ({"$sort": "$.a[*]"}, {"a": [[0] * 200_000, [0] * 1_000_000]}),
        ({"$join": ["$.a[*]"][0]}, {"a": [LONG] * 11}),
        ({"$first": "$.a"}, {"a": [[LONG] * 11]}),
        ("$.a[?search(@, '(a{1,50}){1,50}b')]", {"a": [LONG]}),
    ],
)
def test_an_evaluation_is_bounded_in_steps_and_size(template: Any, arguments: Any) -> None:
    with pytest.raises(ToolError, match=r"needs more than \d+ steps|characters are selected|more than 10000 parts"):
        transform(template)(arguments)


def test_counting_costs_nothing_for_the_size_of_what_is_counted() -> None:
    arguments = {"a": [LONG] * 100}
    assert transform({"$count": "$.a"})(arguments) == 100
    assert transform({"$first": "$.a[*]"})(arguments) == LONG
