"""Masks: what an agent asks to keep of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.pipeline.fields import MOST_FIELDS, Mask

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
        ["a"] * (MOST_FIELDS + 1),
        [".".join("a" * 21)],
    ],
)
def test_what_is_no_path_is_refused(fields: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Mask.of(fields)
