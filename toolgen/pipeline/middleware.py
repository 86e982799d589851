"""Guards and stages and how they are put together: a guard judges the call, a stage acts on its way in and on its way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from toolgen.model.call import Call
from toolgen.model.result import Result
from toolgen.model.schema import Json
from toolgen.pipeline.call_context import Presence
from toolgen.policy.rules import Note
from toolgen.state.turn_counter import Seat

__all__ = ["Guard", "Next", "Stage", "Trail", "compose", "guarded"]


@dataclass(slots=True)
class Trail:
    """What the stages leave for the record of one call, whether somebody waits for it, and its seat in a conversation: the only thing
    in a call that changes."""

    presence: Presence = field(default_factory=Presence)
    seat: Seat | None = None
    verdict: str = ""
    rule: str = ""
    outcome_seq: int | None = None
    sql: str = ""  # the statement that would run
    replays: str = ""  # the call that this one repeats, and is told the outcome of
    labels: list[Json] = field(default_factory=list)  # of the session
    notes: tuple[Note, ...] = ()
    redacts: bool = False  # something of the answer is hidden from this caller


Next: TypeAlias = Callable[[Call, Trail], Awaitable[Result]]


Guard: TypeAlias = Callable[[Call, Trail], Awaitable[Call | Result]]
"""Judges a call: the call to go on with, or the result that it ends with here, and nothing was sent."""


class Stage(Protocol):
    """Acts before the rest of the pipeline and after it. It calls `proceed` at most once."""

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result: ...


def compose(stages: Sequence[Stage], last: Next) -> Next:
    """One function that sends a call through all the stages, the first outermost, and then to `last`."""
    road = last
    for stage in reversed(stages):
        road = partial(stage, proceed=road)
    return road


def guarded(*guards: Guard) -> Stage:
    """A stage that asks one guard after the other; the first one that does not let the call on has the last word."""

    async def ask(call: Call, trail: Trail, proceed: Next) -> Result:
        for guard in guards:
            answer = await guard(call, trail)
            if not isinstance(answer, Call):
                return answer
            call = answer
        return await proceed(call, trail)

    return ask
