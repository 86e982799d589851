"""Maintenance of a stream beside the calls: it signs checkpoints, compresses closed segments, and removes those that are older or larger
than policy keeps.

A removal is signed, and recorded in the log, before the segments are removed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from toolgen.audit.checkpoint import (
    Checkpoint,
    CheckpointShipper,
    Deliveries,
    Removal,
    append_line,
    checkpoint_path,
    newest_checkpoints,
    removal_path,
    statements,
)
from toolgen.audit.config import AuditPlan
from toolgen.audit.entry import Entry, timestamp
from toolgen.audit.files import SegmentFile, closed_segments, pack
from toolgen.audit.keys import PRIVATE, SigningKey, public_keys, signing_key
from toolgen.audit.merkle_tree import Tree
from toolgen.audit.reader import first_of, hashes_from
from toolgen.audit.segment import StreamHead
from toolgen.core.clock import Clock
from toolgen.core.descriptors import sync_folder
from toolgen.core.errors import AuditError, place_of

__all__ = ["Maintenance", "Retention"]

_DAY_S = 86_400


class Retention:
    """Removal of old segments according to `keep:` of a project. Without a key nothing is removed, because an unsigned removal looks like a
    truncated log."""

    def __init__(
        self, directory: Path, stream: str, plan: AuditPlan, clock: Clock, record: Callable[[Entry], None]
    ) -> None:
        self._directory = directory
        self._stream = stream
        self._plan = plan
        self._clock = clock
        self._record = record
        self.fault = ""

    def run(self, key: SigningKey | None) -> None:
        """Remove what policy allows, and the rest of a removal that a crash interrupted. The newest closed segment is never removed."""
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
                raise AuditError("a removal has to be signed", suggestion="`toolgen audit keys new` makes a key")
            checkpoint = self._signed_end({after.first - 1 for _, after in going if after.first - 1 > said})
            self._say(key, checkpoint, policy)
            said = checkpoint.size
        for segment, after in pairwise(closed):
            if after.first - 1 <= said:
                segment.path.unlink(missing_ok=True)
        sync_folder(self._directory)

    def _going(self, closed: list[SegmentFile]) -> tuple[list[tuple[SegmentFile, SegmentFile]], str]:
        """Return the segments that may be removed, each with the next one, and the reason."""
        old, keep_s, keep_bytes = 0, self._plan.keep_s, self._plan.keep_bytes
        pairs = list(pairwise(closed))
        if keep_s is not None:
            until = self._clock.now() - keep_s
            while (
                old < len(pairs) and _began(pairs[old][1]) < until
            ):  # all are older than the next segment's first entry
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
        """Return the checkpoint at the last of these segment ends that has one: then it can still be proven what was removed."""
        keys = public_keys((), self._directory)
        found = [
            statement
            for _, _, statement in statements(checkpoint_path(self._directory, self._stream))
            if isinstance(statement, Checkpoint) and statement.size in ends and statement.is_signed(keys)
        ]
        if not found:
            raise AuditError("no checkpoint covers the end of a segment that is to be removed yet")
        return max(found, key=lambda checkpoint: checkpoint.size)

    def _removals(self) -> list[Removal]:
        found = (statement for _, _, statement in statements(removal_path(self._directory, self._stream)))
        return [statement for statement in found if isinstance(statement, Removal)]


def _began(segment: SegmentFile) -> float:
    time = first_of(segment).get("time", "")
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError) as error:
        raise AuditError("has no time of its first entry", where=segment.path.name) from error


_logger = logging.getLogger(__name__)
_CHUNK = 512  # maximum leaves added before other threads get a turn

Batch = tuple[int, Sequence[str]]
"""Number of the first of some entries, and their hashes. An empty batch marks the end of a segment before that number."""


class Maintenance:
    """Maintenance thread of one stream. Its errors fail no call; the current one is in `fault`."""

    def __init__(
        self, directory: Path, stream: str, plan: AuditPlan, clock: Clock, record: Callable[[Entry], None]
    ) -> None:
        """Create the maintenance; `record` appends an entry to the log and returns once it is durable; it raises `AuditError` if that
        fails."""
        self.stream = stream
        self._directory = directory
        self._plan = plan
        self._clock = clock
        self._inbox: deque[Batch] = deque()
        self._count = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._round = threading.Lock()
        self.rounds = 0
        self._key_path = plan.key or directory / PRIVATE
        self._key: SigningKey | None = None
        self._signing = False
        self._tree = Tree()
        self._head = ""
        self._signed = 0
        deliveries = Deliveries(directory, stream)
        self._shippers = [CheckpointShipper(place, deliveries) for place in plan.places]
        self._retention = Retention(directory, stream, plan, clock, record)
        self._fault = ""
        self.head: Callable[[], StreamHead] = StreamHead

    def start(self, head: Callable[[], StreamHead]) -> None:
        """Start the maintenance of the stream. `head` returns its last acknowledged entry."""
        self.head = head
        self._go_on_delivering()
        self._thread = threading.Thread(target=self._run, name="audit-maintenance", daemon=True)
        self._thread.start()

    def note(self, first: int, hashes: Sequence[str]) -> None:
        """Note acknowledged entries or, without any, a segment that was closed before number `first`."""
        if self._signing:
            self._inbox.append((first, hashes))
            self._count += len(hashes)
        if not hashes or self._count >= self._plan.checkpoint_entries:
            self._wake.set()

    def leave(self) -> None:
        """Stop without waiting, because another process has the stream now."""
        self._stopping = True
        self._wake.set()

    def stop(self) -> None:
        """Sign the unsigned entries and stop."""
        self.leave()
        if self._thread is not None:
            self._thread.join()
        for shipper in self._shippers:
            shipper.stop()

    def faults(self) -> tuple[str, ...]:
        """Return the current faults for an operator, in sentences."""
        wrong = [self._fault, self._retention.fault, *(shipper.fault for shipper in self._shippers)]
        return tuple(fault for fault in wrong if fault)

    def blocked(self) -> str:
        """Return the reason why no call may begin; "" if calls may begin."""
        most = self._plan.required_s
        if most is None:
            return ""
        if self._fault:
            return self._fault
        if self._key is None:
            return "checkpoints are required, but there is no key to sign them"
        if self._shippers and all(shipper.owing_s() > most for shipper in self._shippers):
            return f"no checkpoint has reached its destination for {most:g} s"
        return ""

    def behind(self, size: int) -> tuple[int, float]:
        """Return the number of the `size` entries that no checkpoint covers (0 without a key), and the age of the oldest checkpoint that is
        owed."""
        unsigned = max(0, size - self._signed) if self._signing else 0
        return unsigned, max((shipper.owing_s() for shipper in self._shippers), default=0.0)

    def tick(self) -> None:
        """Do one round: key, tree, checkpoint, and the work on closed segments."""
        with self._round:
            self._tick()
            self.rounds += 1

    def _tick(self) -> None:
        self._count = 0
        try:
            self._look_for_key()
            if self._signing:
                self._drain()
                self._sign()
            self._fault = ""
        except (AuditError, OSError) as error:
            self._complain(f"the log is not signed: {error}")
        if self._stopping:
            return
        try:
            if self._plan.compress:
                for segment in closed_segments(self._directory, self.stream):
                    if not segment.packed and not self._stopping:
                        pack(segment)
        except (AuditError, OSError) as error:
            self._complain(f"closed segments are not compressed: {error}")
        self._retention.run(self._key)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.tick()
            except Exception as error:  # noqa: BLE001 - the thread goes on, whatever it was
                message = "the maintenance of the audit log failed: %s"
                _logger.error(message, place_of(error))  # noqa: TRY400 - its text may quote anything
            self._wake.wait(self._plan.checkpoint_s)
            self._wake.clear()
        self.tick()

    def _go_on_delivering(self) -> None:
        """Continue the work of an earlier process of this stream: its key, and the newest checkpoint for destinations that do not
        have it."""
        try:
            self._key = signing_key(self._key_path)
            signed = newest_checkpoints(checkpoint_path(self._directory, self.stream)) if self._shippers else []
        except (AuditError, OSError) as error:
            self._complain(f"the log is not signed: {error}")
            return
        for shipper in self._shippers:
            shipper.go_on(signed, self._clock.now())

    def _complain(self, fault: str) -> None:
        if fault != self._fault:
            _logger.error("%s", fault)
        self._fault = fault

    def _look_for_key(self) -> None:
        """Check whether a key was created, replaced or removed."""
        self._key = signing_key(self._key_path)
        if self._key is None:
            self._signing = False
            self._inbox.clear()
        elif not self._signing:
            # Entries are noted from here on; those up to the head read now are taken from the files, even if they are noted too.
            self._inbox.clear()
            self._signing = True
            try:
                self._catch_up(self.head())
            except BaseException:
                self._signing = False
                raise

    def _catch_up(self, head: StreamHead) -> None:
        """Build the tree up to `head`: from the last checkpoint, or from the first entry."""
        tree, known = Tree(), ""
        last = self._last_checkpoint()
        if last is not None:
            tree, known = last.tree() or tree, last.head
            if last.size > head.seq:
                raise AuditError(f"it ends at entry {head.seq}, but {last.size} entries were signed")
        start = tree.size + 1
        for seq, digest in hashes_from(self._directory, self.stream, max(1, tree.size)):
            if seq > head.seq:
                break
            if last is not None and seq == last.size and digest != last.head:
                raise AuditError(f"entry {seq} is not the one that was signed")
            if seq <= tree.size:
                continue
            if (
                seq != tree.size + 1
            ):  # the earlier entries are gone, so the tree starts again at the beginning of the log
                tree = Tree(first=seq)
            tree.extend((bytes.fromhex(digest),))
            known = digest
        if tree.size != head.seq:
            tree = Tree(first=head.seq + 1)
        self._tree, self._head, self._signed = tree, known, start - 1

    def _last_checkpoint(self) -> Checkpoint | None:
        keys = {**public_keys((), self._directory), **({self._key.id: self._key.public} if self._key else {})}
        found = None
        for _, _, statement in statements(checkpoint_path(self._directory, self.stream)):
            if isinstance(statement, Checkpoint) and statement.stream == self.stream and statement.is_signed(keys):
                found = statement
        return found

    def _drain(self) -> None:
        while self._inbox:
            first, hashes = self._inbox.popleft()
            if not hashes:
                self._sign()
                continue
            if first <= self._tree.size:
                continue  # already read from the files
            if first != self._tree.size + 1:
                self._tree = Tree(first=first)
            for start in range(0, len(hashes), _CHUNK):
                self._tree.extend([bytes.fromhex(digest) for digest in hashes[start : start + _CHUNK]])
            self._head = hashes[-1]

    def _sign(self) -> None:
        """Sign the current size of the stream, unless nothing was added, and queue the checkpoint for delivery."""
        tree = self._tree
        if self._key is None or tree.size <= self._signed or tree.size < tree.first:
            return
        made = Checkpoint.make(
            self._key, stream=self.stream, head=self._head, tree=tree, time=timestamp(self._clock.now())
        )
        append_line(checkpoint_path(self._directory, self.stream), made.line)
        self._signed = tree.size
        for shipper in self._shippers:
            shipper.bring(made)
