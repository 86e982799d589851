"""Health of the systems behind a source."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

__all__ = ["FunctionCounts", "Monitored", "SystemHealth"]


class FunctionCounts(Struct, frozen=True, kw_only=True):
    """Counts of the threads and event loops that run functions.

    `threads` run a function now. `threads_lost` still run a function whose call was given up, `threads_abandoned` counts all that ever did.
    `loops_lost` counts event loops that are lost to a function that blocks, and `loops_blocked` how often a loop was blocked.
    """

    threads: int = 0
    threads_lost: int = 0
    threads_abandoned: int = 0
    loops_lost: int = 0
    loops_blocked: int = 0


class SystemHealth(Struct, frozen=True, kw_only=True):
    """State of a system behind a source, since this process began. `breaker` is `none` where there is none.

    Attempts that were `answered`, with whatever status but 5xx; that `failed` (5xx, or broken off); that were `unreachable`. How many of
    them were `retries`, how many calls were not sent because the breaker was open (`held`) or no place was free (`crowded`), and how often
    the breaker `opened`. `in_flight` and `waiting` are calls now: those that have a place, and those that wait for one; in `retry_in_s`
    seconds a breaker that is not closed may let one through.
    """

    system: str
    breaker: Literal["none", "closed", "half-open", "open"] = "none"
    answered: int = 0
    failed: int = 0
    unreachable: int = 0
    retries: int = 0
    held: int = 0
    crowded: int = 0
    opened: int = 0
    in_flight: int = 0
    waiting: int = 0
    retry_in_s: float = 0.0


@runtime_checkable
class Monitored(Protocol):
    """An executor that knows how the systems behind its source do."""

    def health(self) -> tuple[SystemHealth, ...]: ...
