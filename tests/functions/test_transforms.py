"""Answers made of arguments by paths alone: what a template says, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.functions.decorator import ToolError
from toolgen.functions.transforms import transform

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
    ],
)
def test_a_template_says_what_the_answer_is(template: Any, answer: Any) -> None:
    assert transform(template)(ORDERS) == answer


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("$[", "no JSONPath"),
        ("$.a[?match(@.b, '(a+)+$')]", "no JSONPath"),
        ("$.a[?search(@.b, 'a')]", "no JSONPath"),
        ({"$cuont": "$.a"}, "did you mean '\\$count'"),
        ({"$count": "$.a", "$sum": "$.b"}, "stands alone"),
        ({"$count": "$.a", "b": 1}, "stands alone"),
        ({"$count": 3}, "takes one path"),
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
