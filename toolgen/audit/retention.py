"""Removes closed segments that are kept long enough, after saying so: signed, and in the log itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from toolgen.audit.checkpoint import (
    Checkpoint,
    Removal,
    append_line,
    checkpoint_path,
    removal_path,
    statements,
)
from toolgen.audit.entry import Entry
from toolgen.audit.files import SegmentFile, closed_segments, sync_directory
from toolgen.audit.keys import SigningKey, public_keys
from toolgen.audit.plan import Plan
from toolgen.audit.read import first_of
from toolgen.clock import Clock, timestamp
from toolgen.errors import AuditError

__all__ = ["Retention"]

_logger = logging.getLogger(__name__)
_DAY_S = 86_400


class Retention:
    """What `keep:` of a project lets go. Without a key nothing is removed: who could tell it from a log that was cut?"""

    def __init__(self, directory: Path, stream: str, plan: Plan, clock: Clock, record: Callable[[Entry], None]) -> None:
        self._directory = directory
        self._stream = stream
        self._plan = plan
        self._clock = clock
        self._record = record
        self.fault = ""

    def run(self, key: SigningKey | None) -> None:
        """Removes what may go now, and what a crash left of an earlier removal. Never the newest closed segment."""
        if self._plan.keep_s is None and self._plan.keep_bytes is None:
            return
        try:
            self._run(key)
            self.fault = ""
        except (AuditError, OSError) as error:
            fault = f"closed segments of the log are not removed: {error}"
            if fault != self.fault:
                _logger.error("%s", fault)  # noqa: TRY400 - it says all there is to say
            self.fault = fault

    def _run(self, key: SigningKey | None) -> None:
        closed = closed_segments(self._directory, self._stream)
        said = max((removal.size for removal in self._removals()), default=0)
        going, policy = self._going(closed)
        last = max((after.first - 1 for _, after in going), default=0)
        if last > said:
            if key is None:
                raise AuditError(
                    "what is removed has to be signed for", suggestion="`toolgen audit keys new` makes a key"
                )
            checkpoint = self._signed_end({after.first - 1 for _, after in going if after.first - 1 > said})
            self._say(key, checkpoint, policy)
            said = checkpoint.size
        for segment, after in pairwise(closed):
            if after.first - 1 <= said:
                segment.path.unlink(missing_ok=True)
        sync_directory(self._directory)

    def _going(self, closed: list[SegmentFile]) -> tuple[list[tuple[SegmentFile, SegmentFile]], str]:
        """The segments that may go, each with the one after it, and why."""
        old, keep_s, keep_bytes = 0, self._plan.keep_s, self._plan.keep_bytes
        pairs = list(pairwise(closed))
        if keep_s is not None:
            until = self._clock.now() - keep_s
            while (
                old < len(pairs) and _began(pairs[old][1]) < until
            ):  # all before the next one's first entry is older still
                old += 1
        large = 0
        if keep_bytes is not None:
            left = sum(segment.path.stat().st_size for segment in closed)
            while large < len(pairs) and left > keep_bytes:
                left -= pairs[large][0].path.stat().st_size
                large += 1
        said = f"older than {(keep_s or 0) / _DAY_S:g} days" if old >= large else f"more than {keep_bytes} bytes"
        return pairs[: max(old, large)], said

    def _say(self, key: SigningKey, checkpoint: Checkpoint, policy: str) -> None:
        removal = Removal.make(key, last=checkpoint, time=timestamp(self._clock.now()), policy=policy)
        gone = {"first": removal.first, "last": removal.size, "head": removal.head, "policy": policy}
        self._record({"event": "retention", "arguments": gone, "status": "ok"})
        append_line(removal_path(self._directory, self._stream), removal.line)

    def _signed_end(self, ends: set[int]) -> Checkpoint:
        """The checkpoint at the last of these segment ends that has one: what is removed up to there can still be proven to have been."""
        keys = public_keys((), self._directory)
        found = [
            statement
            for _, _, statement in statements(checkpoint_path(self._directory, self._stream))
            if isinstance(statement, Checkpoint) and statement.size in ends and statement.is_signed(keys)
        ]
        if not found:
            raise AuditError("no checkpoint says yet how the log stood where one of them ended")
        return max(found, key=lambda checkpoint: checkpoint.size)

    def _removals(self) -> list[Removal]:
        found = (statement for _, _, statement in statements(removal_path(self._directory, self._stream)))
        return [statement for statement in found if isinstance(statement, Removal)]


def _began(segment: SegmentFile) -> float:
    time = first_of(segment).get("time", "")
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError) as error:
        raise AuditError("does not say when it begins", where=segment.path.name) from error
