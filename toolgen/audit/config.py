"""Plan for a project's audit log: when segments are closed, how long they are kept, when the log is signed and where checkpoints are
sent."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["AuditPlan", "CheckpointDestination", "DeliverCheckpoint"]

_MIB = 1024 * 1024
_DAY_S = 86_400.0


class DeliverCheckpoint(Protocol):
    """Function that stores one checkpoint at its destination under a name; raises `OSError` with a readable text on failure."""

    def __call__(self, name: str, data: bytes) -> None: ...


class CheckpointDestination(Struct, frozen=True, kw_only=True):
    """Destination of checkpoints outside the log. `name` is for display and contains no secret."""

    name: str
    deliver: DeliverCheckpoint


class AuditPlan(Struct, frozen=True, kw_only=True):
    """Settings of `audit:`, sizes in bytes and times in seconds.

    `keep_s` and `keep_bytes` limit closed segments, None for no limit. `key` is the private key of checkpoints, None for the one beside the
    log. `required_s` stops calls if no checkpoint has reached any destination for so long; None for never.
    """

    segment_bytes: int = 64 * _MIB
    segment_s: float = _DAY_S
    compress: bool = True
    keep_s: float | None = None
    keep_bytes: int | None = None
    checkpoint_entries: int = 10_000
    checkpoint_s: float = 60.0
    key: Path | None = None
    places: tuple[CheckpointDestination, ...] = ()
    required_s: float | None = None

    def with_places(self, places: tuple[CheckpointDestination, ...]) -> AuditPlan:
        """Return the plan with these checkpoint destinations."""
        return replace(self, places=places)
