"""Long answers in pieces: each valid JSON, each below its size, and together the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolgen.json_codec import encode_json
from toolgen.model.schema import Json

__all__ = ["Piece", "Position", "cut", "path_text", "size_of"]

Position = tuple[str | int, ...]
"""Where a piece begins: the keys and indices that lead there; in a long text, how many of its characters came before."""

_MAX_DEPTH = 200
_MIN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a value, in the containers it stood in, and where the next one begins; None behind the last."""

    value: Json
    after: Position | None


def cut(value: Json, most: int, start: Position = ()) -> Piece:
    """What stands from `start` on, in about `most` bytes. Raises `ValueError` where the value has no such position.

    An element is cut itself only if it is longer than a whole piece; objects and arrays keep what they hold in order, and begin anew in
    the next piece with what is left of them.
    """
    return _cut(value, max(most, _MIN), start, 0)


def _cut(value: Json, most: int, start: Position, depth: int) -> Piece:
    if isinstance(value, str):
        return _cut_text(value, most, start)
    if (not start and size_of(value) <= most) or depth > _MAX_DEPTH:
        return Piece(value=value, after=None)
    if isinstance(value, Mapping):
        names = list(value)
        if start and start[0] not in value:
            raise ValueError("there is no such position")
        first = names.index(str(start[0])) if start else 0
        shown: dict[str | int, Json] = {}
        after = _fill(((name, value[name], len(name) + 4) for name in names[first:]), most, start[1:], depth, shown)
        return Piece(value={str(name): item for name, item in shown.items()}, after=after)
    if isinstance(value, (list, tuple)):
        index = start[0] if start else 0
        if not isinstance(index, int) or not 0 <= index < max(1, len(value)):
            raise ValueError("there is no such position")
        listed: dict[str | int, Json] = {}
        after = _fill(((at, value[at], 1) for at in range(index, len(value))), most, start[1:], depth, listed)
        return Piece(value=list(listed.values()), after=after)
    if start:
        raise ValueError("there is no such position")
    return Piece(value=value, after=None)


def _fill(
    items: Iterable[tuple[str | int, Json, int]], most: int, below: Position, depth: int, shown: dict[str | int, Json]
) -> Position | None:
    """Puts items, each with what its key costs, into `shown` until it is full; where the next piece begins. It always takes something."""
    room = most
    for key, item, overhead in items:
        size = size_of(item) + overhead if not below else most + 1
        if size <= room:
            shown[key] = item
            room -= size
            continue
        if shown and (size <= most or room < most // 4):
            return (key, *below)
        piece = _cut(item, max(room - overhead, _MIN), below, depth + 1)
        shown[key] = piece.value
        if piece.after is not None:
            return (key, *piece.after)
        room -= size_of(piece.value) + overhead
        below = ()
    return None


def _cut_text(text: str, most: int, start: Position) -> Piece:
    begin = start[0] if start else 0
    if not isinstance(begin, int) or not 0 <= begin <= len(text) or len(start) > 1:
        raise ValueError("there is no such position")
    length = min(most, len(text) - begin)
    while length > 1 and (size := size_of(text[begin : begin + length])) > most + 2:
        length = max(1, length * most // size)
    end = begin + length
    return Piece(value=text[begin:end], after=(end,) if end < len(text) else None)


def size_of(value: Json) -> int:
    """How many bytes of JSON it takes."""
    return len(encode_json(value))


def path_text(position: Position) -> str:
    """A position as a JSONPath (RFC 9535, section 2.7), bounded."""
    steps = (f"[{step}]" if isinstance(step, int) else f"['{step[:80]}']" for step in position)
    return ("$" + "".join(steps))[:300]
