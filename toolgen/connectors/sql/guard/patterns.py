"""Regular expressions of backtracking engines: patterns whose time grows only with the text, and how fast.

Only a part of the syntax of PCRE and PostgreSQL is known; a pattern with other syntax may take any time.
https://www.pcre.org/current/doc/html/pcre2perform.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

__all__ = ["is_linear", "repetitions", "states"]

_MAX_LENGTH: Final = 1_000
_MAX_BOUND: Final = 100
_MAX_STATES: Final = 100_000
_PIECES: Final = re.compile(
    r"""
      (?P<class> \[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\])
    | (?P<reference> \\[1-9gk])
    | (?P<character> \\.)
    | (?P<open> \((?:\?:)?(?!\?))
    | (?P<special> \(\?)
    | (?P<close> \))
    | (?P<either> \|)
    | (?P<quantifier> [*+?]|\{(?P<low>[0-9]*)(?P<comma>,?)(?P<high>[0-9]*)\})
    | (?P<start> \^)
    | (?P<other> .)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Group(Struct):
    """An open group. `varies`: its text can be matched in several ways."""

    varies: bool = False


class _Shape(Struct, frozen=True):
    linear: bool
    repetitions: int


def states(pattern: str) -> int:
    """Return the states of the automaton of a pattern: its characters, each multiplied by its repetitions."""
    totals = [0]
    last = 0
    for piece in _pieces(pattern):
        if piece["quantifier"]:
            repeated = last * (max(1, _repeats(piece)) if piece[0].startswith("{") else 1)
            totals[-1] = min(totals[-1] + repeated - last, _MAX_STATES)
            last = repeated
        elif piece["open"] or piece["special"]:
            totals.append(0)
        elif piece["close"] and len(totals) > 1:
            last = totals.pop()
            totals[-1] = min(totals[-1] + last, _MAX_STATES)
        else:
            last = 1
            totals[-1] += 1
    return sum(totals)


def is_linear(pattern: str) -> bool:
    """Return True if no ambiguous part of the pattern is repeated, and it has no back-references."""
    return _shape(pattern).linear


def repetitions(pattern: str) -> int:
    """Return the number of repetitions without a small bound in the pattern: each may be tried at every length."""
    return _shape(pattern).repetitions


@lru_cache(maxsize=256)
def _shape(pattern: str) -> _Shape:
    if len(pattern) > _MAX_LENGTH:
        return _Shape(False, 0)
    groups = [_Group()]
    closed: _Group | None = None  # the group that ends just before this piece
    count, most, quantified = 0, 0, False
    for piece in _pieces(pattern):
        kind = piece.lastgroup if piece.lastgroup not in {"low", "comma", "high"} else "quantifier"
        if kind in {"special", "reference"}:
            return _Shape(False, 0)
        if kind == "quantifier":
            repeats = _repeats(piece)
            if quantified and piece[0] not in "?+":
                return _Shape(False, 0)
            if not quantified:
                if repeats > 1 and closed is not None and closed.varies:
                    return _Shape(False, 0)
                count += repeats > _MAX_BOUND
                for group in groups:
                    group.varies = True
            quantified = True
            continue
        quantified = False
        closed = None
        if kind == "open":
            groups.append(_Group())
        elif kind == "close":
            if len(groups) == 1:
                return _Shape(False, 0)
            closed = groups.pop()
        elif kind == "either":
            for group in groups:
                group.varies = True
            if len(groups) == 1:
                most, count = max(most, count), 0
    return _Shape(len(groups) == 1, max(most, count))


def _pieces(pattern: str) -> Iterator[re.Match[str]]:
    return _PIECES.finditer(pattern)


def _repeats(piece: re.Match[str]) -> int:
    """Return the largest number of repetitions."""
    if piece[0] == "?":
        return 1
    if piece[0] in "*+":
        return _MAX_BOUND + 1
    bound = piece["high"] if piece["comma"] else piece["low"]
    return int(bound[:6]) if bound else _MAX_BOUND + 1
