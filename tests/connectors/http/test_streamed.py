"""Pieces of answers, told while they come: how they are cut, what of them is told, and where it ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.connectors.http.bindings import binding, call
from toolgen.connectors.http.executor import pieces_of
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.http.streamed import MAX_PIECE_SIZE, MAX_PIECES, Pieces
from toolgen.pipeline.middleware import CallerConnection

SECRET = "canary-7f3a9b"


class Told(CallerConnection):
    """A caller that takes everything."""

    __slots__ = ("done", "parts")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []
        self.done: list[float] = []

    listens = True

    def progress(self, done: float, total: float | None, message: str) -> None:
        assert (total, message) == (None, "")
        self.done.append(done)

    def partial(self, data: Any) -> None:
        self.parts.append(data)


def heard(kind: str, body: bytes, size: int = 10_000) -> Told:
    told = Told()
    pieces = Pieces(told, Scrubber((SECRET,)))
    assert pieces.wants({"content-type": kind})
    for at in range(0, len(body), size):
        assert not pieces.enough(body[at : at + size])
    return told


CASES: list[tuple[str, bytes, list[Any]]] = [
    ("text/event-stream", b'data: {"a":1}\n\ndata: two\ndata: lines\n\n: a comment\n\n', [{"a": 1}, "two\nlines"]),
    ("text/event-stream; charset=utf-8", b"event: x\r\nid: 1\r\ndata: 5\r\n\r\ndata: [6]\r\n\r\n", [5, [6]]),
    ("text/event-stream", b"data: 1\r\rdata: 2\r\rdata: 3", [1, 2]),
    ("text/event-stream", b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", [1, 2]),
    ("application/x-ndjson", b'{"a":1}\n\n  \r\n[2]\r\nnot json\n{"half":', [{"a": 1}, [2], "not json"]),
    ("application/jsonl", b"1\n2\n", [1, 2]),
    ("application/x-ndjson", f'{{"echo":"{SECRET}"}}\n'.encode(), [{"echo": "***"}]),
    ("text/event-stream", f"data: {SECRET}\n\n".encode(), ["***"]),
    ("application/x-ndjson", b'"a\\u202eb"\n', ["ab"]),
]


@pytest.mark.parametrize(("kind", "body", "pieces"), CASES)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_pieces_are_told_however_they_come(kind: str, body: bytes, pieces: list[Any], size: int) -> None:
    told = heard(kind, body, size)
    assert told.parts == pieces
    assert told.done[-1] == len(pieces)
    assert told.done == sorted(told.done)


def test_other_bodies_have_no_pieces_and_nobody_is_told_who_does_not_listen() -> None:
    pieces = Pieces(Told(), Scrubber(()))
    for kind in ("application/json", "text/plain", "", "text/event-stream-ish"):
        assert not pieces.wants({"content-type": kind})
    asked = call(binding())
    assert pieces_of(asked, Scrubber(())) is None
    assert pieces_of(replace(asked, line=CallerConnection()), Scrubber(())) is None
    assert pieces_of(replace(asked, line=Told()), Scrubber(())) is not None


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/event-stream"])
def test_pieces_are_bounded_in_number_and_size(kind: str) -> None:
    end = b"\n\n"
    told = heard(kind, (b"data: 1" + end) * (MAX_PIECES + 5))
    assert (len(told.parts), told.done[-1]) == (MAX_PIECES, MAX_PIECES + 5)
    long = b"data: " + b"x" * (3 * MAX_PIECE_SIZE) + end
    told = heard(kind, long + b"data: after" + end + long)
    assert [part.removeprefix("data: ") for part in told.parts] == ["after"]
    assert told.done[-1] == 3
