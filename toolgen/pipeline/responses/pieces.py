"""Pieces of long answers: each is valid JSON below a size, and together they are the whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from toolgen.core.json_codec import MAX_DEPTH, encode_json
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json

__all__ = ["Piece", "Position", "cut", "path_text", "size_of", "size_within"]

Position = tuple[str | int, ...]
"""Start of a piece: the keys and indices that lead there; in a long text, the number of characters before it."""
_MIN = 64
_FEW = 8  # maximum members that are measured one by one


class Piece(Struct, frozen=True, kw_only=True):
    """Part of a value, within its containers, and the start of the next part; None after the last."""

    value: Json
    after: Position | None


def cut(value: Json, most: int, start: Position = (), *, longer: bool = False) -> Piece:
    """Cut a piece of about `most` bytes from a value, beginning at `start`. Raises `ValueError` if the value has no such position.

    An element is divided only if it is longer than a whole piece. Objects and arrays keep their order, and continue in the next piece with
    the remaining members. `longer`: the value is known to be longer than `most`.
    """
    return _cut(value, max(most, _MIN), start, 0, longer=longer)


def _cut(value: Json, most: int, start: Position, depth: int, *, longer: bool) -> Piece:
    if isinstance(value, str):
        return _cut_text(value, most, start)
    if depth > MAX_DEPTH or not (start or longer or size_within(value, most) > most):
        return Piece(value=value, after=None)
    if isinstance(value, Mapping):
        names = list(value)
        if start and start[0] not in value:
            raise ValueError("there is no such position")
        first = names.index(str(start[0])) if start else 0
        shown: dict[str | int, Json] = {}
        members = ((name, value[name], len(name) + 4) for name in names[first:])
        after = _fill(members, most, start[1:], depth, shown, room=most)
        return Piece(value={str(name): item for name, item in shown.items()}, after=after)
    if isinstance(value, (list, tuple)):
        index = start[0] if start else 0
        if not isinstance(index, int) or not 0 <= index < max(1, len(value)):
            raise ValueError("there is no such position")
        whole: Sequence[Json] = ()
        room = most
        if len(start) < 2:
            whole, size = _fitting(value, index, most)
            index, room = index + len(whole), most - size
        listed: dict[str | int, Json] = {}
        rest = ((at, value[at], 1) for at in range(index, len(value)))
        after = _fill(rest, most, start[1:], depth, listed, room=room, begun=bool(whole))
        return Piece(value=[*whole, *listed.values()], after=after)
    if start:
        raise ValueError("there is no such position")
    return Piece(value=value, after=None)


def _fitting(items: Sequence[Json], first: int, most: int) -> tuple[Sequence[Json], int]:
    """Return the items from `first` that fit into `most` bytes together, each with a comma, and their size.

    They are measured in runs: each is twice as long as the one before, and, after the first that does not fit, half as long.
    """
    at, run, size, grows = first, 1, 0, True
    while run and at < len(items):
        part = items[at : at + run]
        length = size_within(part, most - size + 1) - 1
        if length <= most - size:
            at, size = at + len(part), size + length
        else:
            grows = False
        run = run * 2 if grows else run // 2
    return items[first:at], size


def _fill(
    items: Iterable[tuple[str | int, Json, int]],
    most: int,
    below: Position,
    depth: int,
    shown: dict[str | int, Json],
    *,
    room: int,
    begun: bool = False,
) -> Position | None:
    """Put items, each with the size of its key, into `shown` until it is full. Returns the start of the next piece.

    At least one item is used. `begun`: there were items before these.
    """
    for key, item, overhead in items:
        size = size_within(item, most) + overhead if not below else most + 1
        if size <= room:
            shown[key] = item
            room -= size
            continue
        if (shown or begun) and (size <= most or room < most // 4):
            return (key, *below)
        left = max(room - overhead, _MIN)
        piece = _cut(item, left, below, depth + 1, longer=size - overhead > left)
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
    """Return the size of a value as JSON, in bytes."""
    return len(encode_json(value))


def size_within(value: Json, most: int) -> int:
    """Return the size of a value as JSON in bytes; for a longer one a number above `most`, after little more than `most` bytes of it."""
    if isinstance(value, str):
        return most + 1 if len(value) > most else size_of(value)
    if not isinstance(value, (Mapping, list, tuple)):
        return size_of(value)
    if len(value) > _FEW and not isinstance(value, Mapping):
        return _size_of_items(value, most)
    size = 2 if not value else 1
    for name, item in value.items() if isinstance(value, Mapping) else ((None, item) for item in value):
        size += 1 if name is None else size_of(name) + 2
        size += size_within(item, most - size)
        if size > most:
            break
    return size


def _size_of_items(items: Sequence[Json], most: int) -> int:
    """Return `size_within` of a long list, whose items are measured in runs, each twice as long as the one before."""
    at, run, size = 0, 1, 1
    while at < len(items) and size <= most:
        part = items[at : at + run]
        size += size_of(part) - 1
        at, run = at + run, run * 2
    return size


def path_text(position: Position) -> str:
    """Return a position as a JSONPath (RFC 9535, section 2.7), bounded."""
    steps = (f"[{step}]" if isinstance(step, int) else f"['{bounded(step, 80)}']" for step in position)
    return bounded("$" + "".join(steps), 300)
