"""What the record holds instead of a sensitive value, and of what: a value that is sensitive for several reasons is concealed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolgen.canonical import Recorded
from toolgen.model.schema import Json

__all__ = ["StandIn", "concealed_whole", "digests_in", "rewritten", "union"]

_Digest = Callable[[Json], Json]


class StandIn(Recorded):
    """The text that is recorded. `value` is what was sent, `digests` are those of all in it that is sensitive by itself.

    `whole` says that the text is digests alone: its own first, then the others, so that each is found. A text of which only parts are
    concealed is not.
    """

    __slots__ = ("digests", "value", "whole")
    value: Json
    digests: frozenset[str]
    whole: bool


def concealed_whole(value: Json, digest: _Digest) -> StandIn:
    """A value as the digest of what was sent, whatever of it is concealed already."""
    inner: set[str] = set()
    return _whole(_restored(value, inner), inner, digest)


def rewritten(text: str, sent: str, digests: frozenset[str]) -> StandIn:
    """A text in which parts are concealed."""
    made = StandIn(text)
    made.value, made.digests, made.whole = sent, digests, False
    return made


def union(one: Json, other: Json, digest: _Digest) -> Json:
    """What is concealed in either of two forms of the same value."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {name: union(item, other[name], digest) for name, item in one.items()}
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [union(item, other[index], digest) for index, item in enumerate(one)]
    if any(isinstance(item, StandIn) and item.whole for item in (one, other)):
        inner: set[str] = set()
        _restored(other, inner)
        return _whole(_restored(one, inner), inner, digest)
    return one if isinstance(one, StandIn) else other


def digests_in(value: Json) -> frozenset[str]:
    """The digests of all that is concealed in a value."""
    found: set[str] = set()
    _restored(value, found)
    return frozenset(found)


def _whole(sent: Json, inner: set[str], digest: _Digest) -> StandIn:
    own = str(digest(sent))
    made = StandIn(" ".join([own, *sorted(inner - {own})]))
    made.value, made.digests, made.whole = sent, frozenset({own, *inner}), True
    return made


def _restored(value: Json, digests: set[str]) -> Json:
    """A value as it was sent; `digests` takes those of what is concealed in it."""
    match value:
        case StandIn():
            digests |= value.digests
            return value.value
        case Mapping():
            return {name: _restored(item, digests) for name, item in value.items()}
        case list() | tuple():
            return [_restored(item, digests) for item in value]
        case _:
            return value
