"""Masks: what an agent asks to keep of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.field_mask import MAX_FIELDS, Mask

PATHS = st.lists(st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4), min_size=1, max_size=6)
ANSWERS = st.recursive(
    st.none() | st.integers(0, 9),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), below, max_size=3),
    max_leaves=20,
)

ISSUES = {
    "total": 2,
    "items": [{"id": 1, "user": {"login": "a", "id": 7}, "body": "…"}, {"id": 2, "user": None, "body": "…"}],
    "a.b": 1,
}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (["items.id"], {"items": [{"id": 1}, {"id": 2}]}),
        (["$.items[*].id"], {"items": [{"id": 1}, {"id": 2}]}),
        (["$['items'][*]['id']"], {"items": [{"id": 1}, {"id": 2}]}),
        (["items.user.login", "total"], {"total": 2, "items": [{"user": {"login": "a"}}, {}]}),
        (["items.user", "items.user.id"], {"items": [{"user": {"login": "a", "id": 7}}, {"user": None}]}),
        (["*.id"], {"items": [{"id": 1}, {"id": 2}]}),
        (["['a.b']"], {"a.b": 1}),
        (["nothing.like.it"], ISSUES),
    ],
)
def test_what_the_paths_lead_to_is_kept_where_it_stood(fields: list[str], kept: Any) -> None:
    assert Mask.of(fields).apply(ISSUES) == kept


def test_a_list_at_the_top_is_each_of_its_elements() -> None:
    assert Mask.of(["id"]).apply([{"id": 1, "a": 2}, {"a": 3}, 4]) == [{"id": 1}, {}, {}]
    assert Mask.of(["id"]).apply([1, 2]) == [1, 2]
    assert Mask.of(["id"]).apply("text") == "text"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [""],
        ["$"],
        ["a..b"],
        ["$..a"],
        ["a["],
        ["[?(@.x)]"],
        ["a b[?search(@.c,'(a+)+$')]"],
        ["a" * 201],
        ["a"] * (MAX_FIELDS + 1),
        [".".join("a" * 21)],
    ],
)
def test_what_is_no_path_is_refused(fields: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Mask.of(fields)


def kept(value: Any, paths: list[list[str]]) -> tuple[bool, Any]:
    """What the paths mean, member by member and path by path."""
    if [] in paths:
        return True, value
    if isinstance(value, dict):
        below = {
            name: kept(item, [path[1:] for path in paths if path[0] in (name, "*")]) for name, item in value.items()
        }
        built = {name: part for name, (found, part) in below.items() if found}
        return bool(built), built
    if isinstance(value, list):
        parts = [kept(item, paths) for item in value]
        return any(found for found, _ in parts), [part for _, part in parts]
    return False, None if value is None else {}


@given(PATHS, ANSWERS)
def test_many_paths_at_once_keep_what_each_of_them_means(paths: list[list[str]], answer: Any) -> None:
    found, part = kept(answer, paths)
    assert Mask.of([".".join(path) for path in paths]).apply(answer) == (part if found else answer)


def test_lists_in_lists_without_end_are_kept_whole() -> None:
    deep: Any = {"a": 1}
    for _ in range(100_000):
        deep = [deep]
    assert Mask.of(["a"]).apply(deep) is deep
    while isinstance(deep, list):  # so that it is not let go of in one breath
        deep = deep[0]
