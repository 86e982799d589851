"""Long answers in pieces: each valid and small, together the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.tool import Effect, HttpBinding, Tool
from toolgen.pipeline.responses.answer_argument import FORMER, may_have_options, option_name, taken
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.pipeline.responses.pieces import Position, cut, path_text, size_of, size_within

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=8),
    max_leaves=60,
)


def whole(pieces: list[Any], positions: list[Position]) -> Any:
    """What an agent puts together of pieces: each goes on where the one before it stopped."""
    result = pieces[0]
    for piece, at in zip(pieces[1:], positions, strict=True):
        result = _joined(result, piece, at)
    return result


def _joined(one: Any, other: Any, at: Position) -> Any:
    if isinstance(one, str):
        return one + other
    if isinstance(one, dict):
        key = at[0]
        begun = {key: _joined(one[key], other[key], at[1:])} if key in one else {}
        return {**one, **other, **begun}
    if at[0] < len(one):
        return [*one[:-1], _joined(one[-1], other[0], at[1:]), *other[1:]]
    return [*one, *other]


def pieces_of(value: Any, most: int) -> tuple[list[Any], list[Position]]:
    found, positions, start = [], [], ()
    for _ in range(10_000):
        piece = cut(value, most, start)
        found.append(piece.value)
        if piece.after is None:
            return found, positions
        positions.append(piece.after)
        start = piece.after
    raise AssertionError("it never ends")


@given(VALUES, st.integers(64, 400))
def test_the_pieces_together_are_the_whole(value: Any, most: int) -> None:
    pieces, positions = pieces_of(value, most)
    assert whole(pieces, positions) == value
    assert len(pieces) <= 2 + 8 * size_of(value) // 64


@given(VALUES | st.lists(VALUES, max_size=5).map(lambda items: items * 6), st.integers(0, 3000))
def test_a_size_is_exact_up_to_its_bound_and_above_it_beyond(value: Any, most: int) -> None:
    size = size_of(value)
    assert size_within(value, most) == size if size <= most else size_within(value, most) > most


@given(st.lists(VALUES, max_size=60), st.integers(64, 400))
def test_a_piece_of_a_list_has_every_item_that_fits(items: list[Any], most: int) -> None:
    piece = cut(items, most)
    shown = len(piece.value)
    assert piece.value[: shown - 1] == items[: shown - 1]
    if piece.after is not None and shown < len(items) and len(piece.after) == 1:
        room = most - sum(size_of(item) + 1 for item in items[:shown])
        assert size_of(items[shown]) + 1 > room


def test_no_piece_is_much_longer_than_it_may_be() -> None:
    value = {"items": [{"id": number, "body": "x" * (number % 700)} for number in range(500)], "next": None}
    pieces, positions = pieces_of(value, 4096)
    assert max(size_of(piece) for piece in pieces) < 4096 + 512
    assert whole(pieces, positions) == value
    assert all(set(piece) <= {"items", "next"} for piece in pieces)
    assert json.dumps(pieces[0]["items"][0]) == json.dumps(value["items"][0])


def test_a_long_text_is_cut_by_characters() -> None:
    value = {"a": "ä\n" * 5000, "b": 1}
    pieces, positions = pieces_of(value, 1000)
    assert whole(pieces, positions) == value
    assert max(size_of(piece) for piece in pieces) < 1200


@pytest.mark.parametrize("start", [("b",), (0,), ("a", 9), ("a", "x"), ("a", 0, "c"), ("a", -1), ("a", 0, 0)])
def test_a_position_that_is_not_there_is_refused(start: Position) -> None:
    with pytest.raises(ValueError, match="no such position"):
        cut({"a": [{"b": 1}]}, 100, start)


def test_a_position_is_told_as_a_path() -> None:
    assert path_text(("items", 4, "body")) == "$['items'][4]['body']"


NAMES = st.sampled_from(["answer", "answer_options", "answer_options_2", "_answer", "limit"])


def _tool(names: set[str], *, behind: bool) -> Tool:
    own = {"properties": {name: {"type": "string"} for name in names}}
    schema = {"allOf": [{"$ref": "#/$defs/own"}], "$defs": {"own": own}} if behind else own
    binding = HttpBinding(method="GET", path="/", servers=("http://x",), parameters=(), body=None, security=())
    return Tool(
        name="x__list", title="", description="", input_schema={"type": "object", **schema},
        output_schema={"type": "array"}, effect=Effect.READ, idempotent=True, source="x", origin="", binding=binding,
    )  # fmt: skip


@given(st.sets(NAMES), st.booleans(), st.sets(NAMES))
def test_options_never_have_the_name_of_an_argument_and_what_is_the_tools_own_is_left(
    names: set[str], behind: bool, sent: set[str]
) -> None:
    tool = _tool(names, behind=behind)
    name = option_name(tool)
    assert name not in names
    assert not name.startswith("_")
    assert name == "answer" or "answer" in names
    arguments: dict[str, Any] = {one: {"fields": ["id"]} for one in sent}
    reading, rest = taken(tool, arguments, Pagings())
    options = {name, FORMER} - names
    assert set(rest) == sent - options
    assert (reading.mask is not None) is bool(sent & options)
    assert may_have_options(arguments) or reading.mask is None
