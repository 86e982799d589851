"""The one order every call goes through. Those that only judge are `guarded`, the others act on the way in and out. Read it aloud:

record -> turn -> pause -> limit -> access -> arguments -> inspect -> ledger -> approve -> meter -> pause -> current -> redact -> deliver
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgen.model.call import Call
from toolgen.model.result import Result, Success
from toolgen.pipeline.middleware import Next, Trail, compose, guarded
from toolgen.pipeline.stages.access import AccessStage, RedactStage
from toolgen.pipeline.stages.deliver import Deliver, Preview
from toolgen.pipeline.stages.guards import ApproveStage, ArgumentsStage, CurrentStage, InspectStage, PauseStage
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage, TurnStage
from toolgen.pipeline.stages.record import Record

__all__ = ["Parts", "call_pipeline", "dry_pipeline", "inspection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The stages of one gateway, each made once."""

    record: Record
    turn: TurnStage
    pause: PauseStage
    limit: LimitStage
    access: AccessStage
    arguments: ArgumentsStage
    inspect: InspectStage
    ledger: LedgerStage
    approve: ApproveStage
    meter: MeterStage
    current: CurrentStage
    redact: RedactStage
    deliver: Deliver
    preview: Preview


def call_pipeline(parts: Parts) -> Next:
    """What a call goes through."""
    return compose(
        (
            parts.record,
            guarded(parts.turn, parts.pause),
            parts.limit,
            parts.access,
            guarded(parts.arguments, parts.inspect),
            parts.ledger,
            guarded(parts.approve),
            parts.meter,
            # Paused again: meanwhile the call may have waited at a limit, or turned out to be a document of other tools' fields.
            guarded(parts.pause, parts.current),
            parts.redact,
        ),
        parts.deliver,
    )


def dry_pipeline(parts: Parts) -> Next:
    """What a dry run goes through: every guard, but nothing is counted, sent or recorded."""
    earlier = parts.access.earlier
    access = replace(parts.access, earlier=None if earlier is None else earlier.looking())
    return compose((access, guarded(parts.arguments, parts.inspect, parts.approve.rehearse)), parts.preview)


def inspection(parts: Parts) -> Next:
    """The inspect stage alone, which sends and counts nothing: its refusal, or a success without data."""
    return compose((guarded(replace(parts.inspect, earlier=None)),), _passed)


async def _passed(_call: Call, _trail: Trail) -> Result:
    return Success(data=None)
