"""The one order every call goes through. Read it aloud:

record -> pause -> limit -> access -> arguments -> inspect -> approve -> pause -> meter -> redact -> deliver
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgen.pipeline.approve import ApproveStage
from toolgen.pipeline.chain import Next, compose
from toolgen.pipeline.deliver import Deliver, Preview
from toolgen.pipeline.limiting import LimitStage, MeterStage
from toolgen.pipeline.pause import PauseStage
from toolgen.pipeline.record import Record
from toolgen.pipeline.stages import (
    AccessStage,
    ArgumentsStage,
    InspectStage,
    RedactStage,
)

__all__ = ["Parts", "dry_road", "road"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The stages of one gateway, each made once."""

    record: Record
    pause: PauseStage
    limit: LimitStage
    access: AccessStage
    arguments: ArgumentsStage
    inspect: InspectStage
    approve: ApproveStage
    meter: MeterStage
    redact: RedactStage
    deliver: Deliver
    preview: Preview


def road(parts: Parts) -> Next:
    """What a call goes through."""
    return compose(
        (
            parts.record,
            parts.pause,
            parts.limit,
            parts.access,
            parts.arguments,
            parts.inspect,
            parts.approve,
            parts.pause,  # again: meanwhile the call may have waited at a limit, or turned out to be a document of other tools' fields
            parts.meter,
            parts.redact,
        ),
        parts.deliver,
    )


def dry_road(parts: Parts) -> Next:
    """What a dry run goes through: every guard, but nothing is counted, sent or recorded."""
    earlier = parts.access.earlier
    access = replace(parts.access, earlier=None if earlier is None else earlier.looking())
    return compose((access, parts.arguments, parts.inspect, parts.approve.rehearse), parts.preview)
