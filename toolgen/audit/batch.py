"""Batch of audit entries that are written together, counts of what was written so far, and messages about failed writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from toolgen.audit.entry import Entry
from toolgen.audit.segment import StreamHead
from toolgen.core.errors import AuditError

__all__ = ["AuditCounts", "Batch", "FullError", "Position", "Waiting", "cannot_be_written"]

Position = tuple[str, int]
"""Position of an entry: its stream and sequence number."""

Waiting = tuple[Entry, "asyncio.Future[Position]"]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that are made durable together: their lines, their hashes, and the new head of the stream.

    `room`: the bytes reserved for each, and whether they are enough. `begins`: for at least one entry they are not,
    as for an intent. `due`: the segment is closed before the batch is written.
    """

    waiting: list[Waiting]
    data: bytes = b""
    hashes: Sequence[str] = ()
    room: Sequence[tuple[int, bool]] = ()
    head: StreamHead = StreamHead()
    time: float = 0.0
    reserve: int = 0
    begins: bool = False
    due: bool = False


_NONE_OPEN = MappingProxyType({"read": 0, "write": 0})


class AuditCounts(Struct, frozen=True, kw_only=True):
    """Counts of this process's stream, and its backlog.

    `entries` by event, `writes` and their total seconds; entries that wait to be written; the number of entries that no checkpoint covers,
    and for how many seconds a checkpoint has been due at the destination that waits longest. `lost` calls were ended by a decision because
    their worker was gone. `left_open` are calls, by effect, that the previous, killed writer of the stream had started and not ended.
    """

    entries: Mapping[str, int] = {}
    lost: int = 0
    left_open: Mapping[str, int] = _NONE_OPEN
    writes: int = 0
    writing_s: float = 0.0
    waiting: int = 0
    unsigned: int = 0
    undelivered_s: float = 0.0


class FullError(AuditError):
    """Raised if there was no space and nothing was written; a shorter entry may still fit."""


def cannot_be_written(error: OSError | ValueError) -> str:
    return f"the audit log cannot be written: {getattr(error, 'strerror', None) or type(error).__name__}"
