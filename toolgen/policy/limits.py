"""How often: token buckets, several a call, described here and counted in `state`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolgen.model.call import Call

__all__ = ["Charge", "Limit", "charges", "parse_rate"]

_RATE = re.compile(r"(\d{1,9})/(s|sec|second|m|min|minute|h|hour|d|day)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bucket for each combination of `per` (principal, tool, source); it holds `burst` tokens and gains `per_second`."""

    id: str
    per: tuple[str, ...]
    per_second: float
    burst: int
    cost: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one call takes from one bucket."""

    limit: str
    key: tuple[str, ...]
    cost: int
    per_second: float
    burst: int


def parse_rate(text: str) -> tuple[int, float] | None:
    """`60/min` as (60, 1.0 a second), or None when it is not a rate above zero."""
    found = _RATE.match(text)
    if found is None or int(found[1]) == 0:
        return None
    count = int(found[1])
    return count, count / _SECONDS[found[2][0]]


def charges(limits: Iterable[Limit], call: Call) -> tuple[Charge, ...]:
    """What a call costs, bucket by bucket. The most expensive cost pattern that fits counts; without one a call costs 1."""
    return tuple(
        Charge(
            limit=limit.id,
            key=(limit.id, *(_dimension(name, call) for name in limit.per)),
            cost=max((cost for pattern, cost in limit.cost if fnmatchcase(call.tool.name, pattern)), default=1),
            per_second=limit.per_second,
            burst=limit.burst,
        )
        for limit in limits
    )


def _dimension(name: str, call: Call) -> str:
    match name:
        case "principal":
            return call.principal.id
        case "tool":
            return call.tool.name
        case _:
            return call.tool.source
