"""Stages and how they are put together, onion-wise: each may refuse, change the call on its way in or the result on its way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from toolgen.model.call import Call
from toolgen.model.result import Result
from toolgen.model.schema import Json
from toolgen.pipeline.call_context import Presence
from toolgen.policy.rules import Note
from toolgen.state.turn_counter import Seat

__all__ = ["Next", "Stage", "Trail", "compose"]


@dataclass(slots=True)
class Trail:
    """What the stages leave for the record of one call, whether somebody waits for it, and its seat in a conversation: the only thing
    in a call that changes."""

    presence: Presence = field(default_factory=Presence)
    seat: Seat | None = None
    verdict: str = ""
    rule: str = ""
    outcome_seq: int | None = None
    facts: dict[str, Json] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    redacts: bool = False  # something of the answer is hidden from this caller


Next: TypeAlias = Callable[[Call, Trail], Awaitable[Result]]


class Stage(Protocol):
    """One station of the road. It calls `proceed` at most once."""

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result: ...


def compose(stages: Sequence[Stage], last: Next) -> Next:
    """One function that sends a call through all the stages, the first outermost, and then to `last`."""
    road = last
    for stage in reversed(stages):
        road = _joined(stage, road)
    return road


def _joined(stage: Stage, proceed: Next) -> Next:
    async def step(call: Call, trail: Trail) -> Result:
        return await stage(call, trail, proceed)

    return step
