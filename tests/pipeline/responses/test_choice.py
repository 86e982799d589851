"""Choices of items: conditions, orders and counts over the lists of every kind of answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.pipeline.responses.choice import ChoiceError, choice_of

ITEMS = [
    {"id": 1, "size": 30, "state": "open", "user": {"login": "ada"}, "at": "2026-01-03"},
    {"id": 2, "size": 5, "state": "closed", "user": {"login": "bob"}, "at": "2026-01-01"},
    {"id": 3, "size": None, "state": "open", "user": {"login": "ada"}, "at": "2026-01-02"},
    {"id": 4, "size": 100, "state": "open", "user": {"login": "eve"}},
]


def ids(options: dict[str, Any], data: Any = ITEMS) -> list[Any]:
    choice = choice_of(options)
    assert choice is not None
    found = choice.apply(data).data
    assert isinstance(found, list)
    return [one["id"] for one in found]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"where": ["state = open"]}, [1, 3, 4]),
        ({"where": "state == open"}, [1, 3, 4]),
        ({"where": {"state": "open"}}, [1, 3, 4]),
        ({"where": ["state != open"]}, [2]),
        ({"where": ["size > 5"]}, [1, 4]),
        ({"where": ["size>=5", "state=open"]}, [1, 4]),
        ({"where": ["size < 30"]}, [2]),
        ({"where": ["size = null"]}, [3]),
        ({"where": ["user.login contains AD"]}, [1, 3]),
        ({"where": ["at >= 2026-01-02"]}, [1, 3]),
        ({"where": ["at != 2026-01-03"]}, [2, 3, 4]),
        ({"where": ["state = 'open'"], "top": 1}, [1]),
        ({"sort": "-size"}, [4, 1, 2, 3]),
        ({"sort": "size"}, [2, 1, 4, 3]),
        ({"sort": "size desc", "top": 1}, [4]),
        ({"sort": ["state", "-id"]}, [2, 4, 3, 1]),
        ({"sort": "at"}, [2, 3, 1, 4]),
        ({"top": 2}, [1, 2]),
    ],
)
def test_items_are_chosen_ordered_and_counted(options: dict[str, Any], expected: list[int]) -> None:
    assert ids(options) == expected


@pytest.mark.parametrize(
    ("data", "by"),
    [
        ({"total_count": 4, "artifacts": ITEMS}, "size"),
        ({"total_count": 4, "artifacts": ITEMS}, "artifacts.size"),
        ({"data": ITEMS, "links": [], "has_more": True}, "size"),
        ({"orders": {"edges": [{"node": one} for one in ITEMS], "pageInfo": {"endCursor": "c"}}}, "node.size"),
        ({"orders": {"edges": [{"node": one} for one in ITEMS], "pageInfo": {"endCursor": "c"}}}, "size"),
        ({"shop": {"orders": {"nodes": ITEMS}}}, "size"),
    ],
)
def test_the_list_of_an_answer_is_found_wherever_it_stands(data: Any, by: str) -> None:
    choice = choice_of({"sort": f"-{by}", "top": 1})
    assert choice is not None
    chosen = choice.apply(data)
    assert (chosen.read, chosen.shown) == (4, 1)
    assert '"id": 4' in json.dumps(chosen.data)
    assert '"id": 1' not in json.dumps(chosen.data)


def test_rows_are_chosen_by_the_names_of_their_columns() -> None:
    columns = [{"name": "id", "type": "integer"}, {"name": "total", "type": "real"}]
    choice = choice_of({"where": ["total > 2"], "sort": "-total", "top": 1})
    assert choice is not None
    chosen = choice.apply({"columns": columns, "rows": [[1, 2.5], [2, 9], [3, 1]], "row_count": 3})
    assert chosen.data == {"columns": columns, "rows": [[2, 9]], "row_count": 1}
    assert (chosen.read, chosen.matching, chosen.shown) == (3, 2, 1)


@pytest.mark.parametrize(
    ("options", "data", "said"),
    [
        ({"sort": "-sise"}, ITEMS, "no item has 'sise'; paths of the items: id, size, state, at, user.login"),
        ({"where": ["x = 1"]}, {"items": ITEMS}, "no item has 'x'; paths of the items: id, size"),
        ({"top": 1}, {"id": 1, "name": "x"}, "none or several"),
        ({"top": 1}, {"first": ITEMS, "second": ITEMS}, "or several"),
        ({"top": 1}, "text", "none or several"),
    ],
)
def test_what_an_answer_does_not_have_is_an_error_that_says_what_it_has(options: Any, data: Any, said: str) -> None:
    choice = choice_of(options)
    assert choice is not None
    with pytest.raises(ChoiceError, match=said):
        choice.apply(data)


@pytest.mark.parametrize(
    "options",
    [
        {"where": ["size"]},
        {"where": [5]},
        {"where": ["a = 1"] * 11},
        {"where": 5},
        {"where": ["x" * 400 + " = 1"]},
        {"sort": 5},
        {"sort": ["a"] * 6},
        {"sort": ""},
        {"top": 0},
        {"top": 1_001},
        {"top": True},
        {"top": "5"},
    ],
)
def test_what_is_no_choice_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        choice_of(options)


@given(
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=3))),
    st.sampled_from(["", "-"]),
)
def test_an_order_loses_and_adds_no_item_and_puts_numbers_in_order(values: list[Any], sign: str) -> None:
    choice = choice_of({"sort": f"{sign}v"})
    assert choice is not None
    found: Any = choice.apply([{"v": value} for value in values]).data
    assert sorted(map(repr, (one["v"] for one in found))) == sorted(map(repr, values))
    numbers = [one["v"] for one in found if isinstance(one["v"], (int, float)) and not isinstance(one["v"], bool)]
    assert numbers == sorted(numbers, reverse=bool(sign)) or any(isinstance(one, (bool, str)) for one in values)
