"""Signed statements about a stream: its checkpoints, and removals by policy; and the delivery of checkpoints to places outside the log.

A destination gets checkpoints in order and with retries, without delaying calls.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from toolgen.audit.config import CheckpointDestination
from toolgen.audit.files import bounded, regular
from toolgen.audit.keys import SigningKey, Verifiers
from toolgen.audit.merkle_tree import Tree
from toolgen.core.canonical import canonical
from toolgen.core.descriptors import open_descriptor, replace_file, sync
from toolgen.core.files import read_file

__all__ = [
    "Checkpoint",
    "CheckpointShipper",
    "Deliveries",
    "Removal",
    "append_line",
    "checkpoint_path",
    "newest_checkpoints",
    "read_checkpoint",
    "removal_path",
    "statements",
]

_CHECKPOINT = b"toolgen audit checkpoint v1\n"
_REMOVAL = b"toolgen audit removal v1\n"
_MAX_LENGTH = 64 * 1024  # maximum bytes of a statement
_RECENT = 1024 * 1024


_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signed part of a checkpoint. The tree is over the entries from `first` to `size`; `head` is the hash of entry `size`."""

    key: str
    stream: str
    time: str
    first: _Number
    size: _Number
    head: str
    root: str


class _RemovalBody(_Body, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signed part of a removal: entries up to `size` were removed; the chain and the tree continue from `head`, `root` and `runs`."""

    runs: list[str]
    policy: str


class _CheckpointLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checkpoint: _Body
    signature: str
    runs: list[str] = []


class _RemovalLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    removal: _RemovalBody
    signature: str


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Checkpoint: the stream had `size` entries, of which the last has the hash `head`; `root` is the root of the tree over the entries
    from `first`.

    `line` is its written form with the signature. `runs` are not signed: they have to lead to `root`.
    """

    key: str
    stream: str
    time: str
    first: int
    size: int
    head: str
    root: str
    line: bytes
    signature: bytes
    runs: tuple[str, ...] = ()

    @classmethod
    def make(cls, key: SigningKey, *, stream: str, head: str, tree: Tree, time: str) -> Checkpoint:
        """Sign the current size of a stream."""
        body = {
            "key": key.id,
            "stream": stream,
            "time": time,
            "first": tree.first,
            "size": tree.size,
            "head": head,
            "root": tree.root().hex(),
        }
        signature = base64.b64encode(key.sign(_CHECKPOINT + canonical(body))).decode("ascii")
        runs = [run.hex() for run in tree.frontier]
        made = read_checkpoint(canonical({"checkpoint": body, "signature": signature, "runs": runs}))
        assert made is not None  # noqa: S101 - it was written a line above
        return made

    def is_signed(self, keys: Verifiers) -> bool:
        """Return True if one of these keys signed the checkpoint."""
        key = keys.get(self.key)
        return key is not None and key.accepts(self.signature, _CHECKPOINT + canonical(_signed(self)))

    def tree(self) -> Tree | None:
        """Return the tree of the checkpoint, to continue from; None if its runs do not lead to its root."""
        return _tree(self.first, self.size, self.runs, self.root)


class Removal(Struct, frozen=True, kw_only=True):
    """Removal of the entries of a stream from `first` to `size`. `policy` is the reason, for example `older than 30 days`."""

    key: str
    stream: str
    time: str
    first: int
    size: int
    head: str
    root: str
    runs: tuple[str, ...]
    policy: str
    line: bytes
    signature: bytes

    @classmethod
    def make(cls, key: SigningKey, *, last: Checkpoint, time: str, policy: str) -> Removal:
        """Sign the removal of everything up to a checkpoint."""
        body = {**_signed(last), "key": key.id, "time": time, "runs": [*last.runs], "policy": policy}
        signature = base64.b64encode(key.sign(_REMOVAL + canonical(body))).decode("ascii")
        made = _removal(canonical({"removal": body, "signature": signature}))
        assert made is not None  # noqa: S101 - it was written a line above
        return made

    def is_signed(self, keys: Verifiers) -> bool:
        """Return True if one of these keys signed the removal."""
        key = keys.get(self.key)
        body = {**_signed(self), "runs": [*self.runs], "policy": self.policy}
        return key is not None and key.accepts(self.signature, _REMOVAL + canonical(body))

    def tree(self) -> Tree | None:
        """Return the tree over the removed entries, to continue from."""
        return _tree(self.first, self.size, self.runs, self.root)


def checkpoint_path(directory: Path, stream: str) -> Path:
    """Path of the checkpoints of a stream."""
    return directory / f"{stream}.checkpoints"


def removal_path(directory: Path, stream: str) -> Path:
    """Path of the notes about removed parts of a stream."""
    return directory / f"{stream}.removals"


def read_checkpoint(line: bytes) -> Checkpoint | None:
    """Parse the line of a checkpoint; None for any other line."""
    try:
        read = msgspec.json.decode(line, type=_CheckpointLine)
        signature = base64.b64decode(read.signature, validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None
    body = msgspec.structs.asdict(read.checkpoint)
    return Checkpoint(**body, line=line.strip(), signature=signature, runs=tuple(read.runs))


def statements(path: Path) -> Iterator[tuple[int, bytes, Checkpoint | Removal | None]]:
    """Yield the lines of a file of statements, counted from 1, each with its statement; None for an unknown line.

    An incomplete last line is left out. A missing file has no lines. Raises `AuditError`.
    """
    try:
        file = regular(path)
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(bounded(file, _MAX_LENGTH), start=1):
            if line.endswith(b"\n"):
                yield number, line[:-1], read_checkpoint(line[:-1]) or _removal(line[:-1])


def newest_checkpoints(path: Path) -> list[Checkpoint]:
    """Return the checkpoints in the last MiB of a file, oldest first: about 2,000 at most. Raises `AuditError`."""
    try:
        file = regular(path)
    except FileNotFoundError:
        return []
    with file:
        start = max(0, file.seek(0, os.SEEK_END) - _RECENT)
        file.seek(start)
        lines = file.read(_RECENT).split(b"\n")[:-1]  # content after the last line end is incomplete
    found = map(read_checkpoint, lines[1:] if start else lines)
    return [checkpoint for checkpoint in found if checkpoint is not None]


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file of statements and make it durable; an incomplete line of a crash is cut off first."""
    fd = open_descriptor(path, "RDWR", "CREAT", "NOFOLLOW")
    with os.fdopen(fd, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        back = max(0, end - _RECENT)
        file.seek(back)
        whole = back + file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        file.write(line + b"\n")
        file.flush()
        sync(fd)


def _removal(line: bytes) -> Removal | None:
    try:
        read = msgspec.json.decode(line, type=_RemovalLine)
        signature = base64.b64decode(read.signature, validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None
    body: dict[str, Any] = msgspec.structs.asdict(read.removal)
    return Removal(**body | {"runs": tuple(read.removal.runs)}, line=line, signature=signature)


def _signed(statement: Checkpoint | Removal) -> dict[str, object]:
    return {name: getattr(statement, name) for name in _Body.__struct_fields__}


def _tree(first: int, size: int, runs: tuple[str, ...], root: str) -> Tree | None:
    try:
        tree = Tree(first=first, size=size, frontier=[bytes.fromhex(run) for run in runs])
    except ValueError:
        return None
    return tree if tree.root().hex() == root else None


_logger = logging.getLogger(__name__)
_MAX_WAITING = 1000  # the newest checkpoint covers the older ones; all are beside the log
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 300.0
_ENDING_S = 5.0
_FIRST_ATTEMPT_S = 5.0
_MAX_SIZE = 64 * 1024


class Deliveries:
    """Latest checkpoint that each destination received, in a file beside the log: after a restart the missing ones are still due."""

    def __init__(self, directory: Path, stream: str) -> None:
        self._path = directory / f"{stream}.delivered"
        self._lock = threading.Lock()

    def size(self, place: str) -> int | None:
        """Return the number of entries covered by the newest checkpoint that arrived there; None if nothing is known."""
        return self._read().get(place)

    def note(self, place: str, size: int) -> None:
        """Store that a checkpoint arrived. Raises `OSError`."""
        with self._lock:
            part = self._path.with_name(self._path.name + ".part")
            part.write_bytes(msgspec.json.encode(self._read() | {place: size}))
            part.chmod(0o600)
            replace_file(part, self._path)

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(read_file(self._path, _MAX_SIZE), type=dict[str, int])
        except (OSError, msgspec.DecodeError):  # a checkpoint without a stored delivery is delivered again
            return {}


class CheckpointShipper:
    """Checkpoint destination with the thread that delivers to it."""

    def __init__(self, place: CheckpointDestination, deliveries: Deliveries) -> None:
        self._place = place
        self._deliveries = deliveries
        self._waiting: deque[Checkpoint] = deque(maxlen=_MAX_WAITING)
        self._changed = threading.Condition()
        self._stopping = False
        self._started = self._owed_since = time.monotonic()
        self._tried = False
        self._failed = 0
        self.fault = ""
        self._thread = threading.Thread(target=self._run, name="audit-shipper", daemon=True)
        self._thread.start()

    def go_on(self, signed: Sequence[Checkpoint], now: float) -> None:
        """Deliver the newest of these, if the destination does not have it. It counts as owed since the oldest missing one was signed.

        A destination without any known delivery is new: it is owed only later checkpoints.
        """
        delivered = self._deliveries.size(self._place.name)
        missing = [checkpoint for checkpoint in signed if delivered is None or checkpoint.size > delivered]
        if missing:
            owed_s = 0.0 if delivered is None else max(0.0, now - datetime.fromisoformat(missing[0].time).timestamp())
            self.bring(missing[-1], owed_s)

    def bring(self, checkpoint: Checkpoint, owed_s: float = 0.0) -> None:
        """Queue a checkpoint that has been owed for so long; returns at once."""
        with self._changed:
            if not self._waiting:
                self._owed_since = time.monotonic() - owed_s
            self._waiting.append(checkpoint)
            self._changed.notify()

    def owing_s(self) -> float:
        """Return for how many seconds a checkpoint has been waiting without any delivery; 0 if none waits.

        Checkpoints of an earlier process count after the first attempt of this one: before, it is unknown whether the destination can be
        reached.
        """
        with self._changed:
            now = time.monotonic()
            known = self._tried or now - self._started > _FIRST_ATTEMPT_S
            since = self._owed_since if known else max(self._owed_since, self._started)
            return now - since if self._waiting else 0.0

    def stop(self) -> None:
        """Stop after everything was delivered, or after one more attempt failed."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_ENDING_S)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                if pause:
                    self._changed.wait_for(lambda: self._stopping, pause)
                else:
                    self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
                if not self._waiting:
                    return
                item, stopping = self._waiting[0], self._stopping
            arrived = self._attempt(item)
            with self._changed:
                self._tried = True
                if arrived:
                    pause = 0.0
                    self._owed_since = time.monotonic()
                    if self._waiting and self._waiting[0] is item:
                        self._waiting.popleft()
            if not arrived and stopping:
                return
            if not arrived:
                pause = self._next_pause()

    def _next_pause(self) -> float:
        self._failed += 1
        return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failed - 1))

    def _attempt(self, checkpoint: Checkpoint) -> bool:
        try:
            self._place.deliver(f"{checkpoint.stream}-{checkpoint.size:012d}.checkpoint", checkpoint.line + b"\n")
            self._deliveries.note(self._place.name, checkpoint.size)
        except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint has to be brought again
            known = error.strerror or str(error) if isinstance(error, OSError) else type(error).__name__
            fault = f"checkpoints do not reach {self._place.name}: {known}"
            if fault != self.fault:
                _logger.error("%s", fault)  # noqa: TRY400 - it says all there is to say
            self.fault = fault
            return False
        if self.fault:
            _logger.warning("checkpoints reach %s again", self._place.name)
        self.fault, self._failed = "", 0
        return True
