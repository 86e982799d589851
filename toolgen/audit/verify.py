"""Offline verification that a log is what was written: every line canonical, every hash right, every number in its place, every signature
valid."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from toolgen.audit.checkpoint import Checkpoint, Removal
from toolgen.audit.checkpoint_verification import RecordFault, Statements, StatementVerifier, read_statements
from toolgen.audit.entry import FIRST, hashed
from toolgen.audit.files import DamagedError, SegmentFile, Tail, blocks, opened, segments, stream_names, tail_of
from toolgen.audit.keys import Verifiers, public_keys
from toolgen.core.canonical import canonical
from toolgen.core.errors import AuditError, CanonicalError

__all__ = ["RecordFault", "VerificationReport", "verify"]

_CHUNK = 1 << 14
_MAX_REREADS_AT_ONE_PLACE = 20  # maximum rereads from one position in a segment that is being written
_MAX_REREADS = 200
_MAX_FAULTS = (
    10_000  # maximum faults of a stream: more give no information, and an attacker could fill a file with them
)
Progress = Callable[[int, int], None]
"""Progress function: it gets the bytes that are done and their total."""


class VerificationReport(Struct, frozen=True, kw_only=True):
    """Result of a verification. A torn last line and unfinished calls are reported, and are no faults: a crash leaves them.

    `signed` has the newest good checkpoint of each stream, `removed` the signed removals by policy. `unchecked` lists, in sentences,
    the checks that were impossible with the given keys and checkpoints.
    """

    streams: int
    entries: int
    unfinished: tuple[str, ...]
    torn: tuple[str, ...]
    faults: tuple[RecordFault, ...]
    signed: tuple[Checkpoint, ...] = ()
    removed: tuple[Removal, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "streams": self.streams,
            "entries": self.entries,
            "unfinished": list(self.unfinished),
            "torn": list(self.torn),
            "faults": [fault.to_dict() for fault in self.faults],
            "signed": [{"stream": it.stream, "size": it.size, "time": it.time, "key": it.key} for it in self.signed],
            "removed": [
                {"stream": it.stream, "first": it.first, "last": it.size, "time": it.time, "policy": it.policy}
                for it in self.removed
            ],
            "unchecked": list(self.unchecked),
        }


def verify(
    directory: Path,
    *,
    keys: Verifiers | None = None,
    kept: Sequence[Path] = (),
    progress: Progress = lambda done, total: None,
) -> VerificationReport:
    """Verify every stream of a log. Reads only.

    `keys` are the public keys whose signatures count, those beside the log if none are given; `kept` are files and folders with checkpoints
    from outside. Raises `AuditError` if there is nothing to read.
    """
    names = stream_names(directory)
    if not names:
        raise AuditError("contains no audit log", where=str(directory))
    trusted = public_keys((), directory) if keys is None else keys
    found, faults = read_statements(directory, names, trusted, kept)
    meter = _Meter(directory, progress)
    streams = [_StreamWalk(directory, name, statements, meter) for name, statements in found.items()]
    for stream in streams:
        found_here = list(islice(stream.run(), _MAX_FAULTS))
        faults += found_here
        if len(found_here) == _MAX_FAULTS:
            faults.append(stream.given_up())
    unchecked = [*_of_keys(trusted, beside=keys is None), *(said for stream in streams for said in stream.unchecked())]
    return VerificationReport(
        streams=len(names),
        entries=sum(stream.count for stream in streams),
        unfinished=tuple(_unfinished(streams)),
        torn=tuple(name for stream in streams for name in stream.torn),
        faults=tuple(faults),
        signed=tuple(stream.witness.newest for stream in streams if stream.witness.newest is not None),
        removed=tuple(stream.witness.removal for stream in streams if stream.witness.removal is not None),
        unchecked=tuple(unchecked),
    )


def _unfinished(streams: Sequence[_StreamWalk]) -> Iterator[str]:
    """Return the calls without an end: no outcome in their stream, and no later decision in any stream."""
    decided: dict[str, str] = {}
    for stream in streams:
        for call_id, time in stream.decided.items():
            decided[call_id] = max(time, decided.get(call_id, ""))
    for stream in streams:
        yield from (call for call, time in stream.open_calls.items() if call not in decided or decided[call] < time)


def _of_keys(trusted: Verifiers, *, beside: bool) -> Iterator[str]:
    """Yield the checks that the given keys do not allow."""
    if not trusted:
        yield "no public key was given or found: no signature was checked, and anyone who can write the log can have rewritten all of it"
    elif beside:
        yield (
            "the public keys were read from the log's own folder: anyone who can write there can have replaced them; "
            "name a copy that was kept elsewhere with --key"
        )


class _Meter:
    """Progress of a verification, in bytes on the disk."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._progress = progress
        self._total = self._done = 0
        for path in directory.glob("*.jsonl*"):
            with contextlib.suppress(OSError):  # closed or packed meanwhile
                self._total += path.stat().st_size

    def at(self, segment: SegmentFile, file: BinaryIO) -> None:
        """Report progress within a plain segment; the position in a packed one is unknown."""
        if not segment.packed:
            self._progress(self._done + file.tell(), self._total)

    def done(self, segment: SegmentFile) -> None:
        """Report progress at the end of a segment."""
        with contextlib.suppress(OSError):
            self._done += segment.path.stat().st_size
        self._progress(self._done, max(self._done, self._total))


class _Link(msgspec.Struct, gc=False):
    """Fields of an entry that show its place in the chain."""

    seq: int
    hash: str
    prev: str
    event: str
    stream: str
    time: str = ""
    call_id: str = ""
    code: str | None = None


_HASH = re.compile("[0-9a-f]{64}")
_link = msgspec.json.Decoder(_Link).decode
# Possible next fields after `prev` in the canonical form of an entry, if it has no `principal`.
_BEHIND = (b'"repaired":', b'"rows":', b'"rule":', b'"seq":')


class _StreamWalk:
    """Verification of one stream, with its position and the calls that are still open."""

    def __init__(self, directory: Path, name: str, statements: Statements, meter: _Meter) -> None:
        self.name = name
        self.count = 0
        self.torn: list[str] = []
        self.open_calls: dict[str, str] = {}
        """Calls without an outcome, with the times of their intents."""
        self.decided: dict[str, str] = {}
        """Calls that a decision ended, with its time."""
        self.witness = StatementVerifier(statements)
        self._directory = directory
        self._meter = meter
        self._statements = statements
        self._leaves: list[bytes] = []  # hashes of the last verified entries, without a gap up to `_seq`
        self._seq = 0
        self._hash = FIRST
        self._file = ""
        self._reread: list[int] = []  # positions in a segment that was read again because a gateway writes it
        self._damage = ""  # reason why the file ended early

    def run(self) -> Iterator[RecordFault]:
        found: list[tuple[SegmentFile, BinaryIO | None]] = []
        try:
            with segments(self._directory, self.name) as found:
                for segment, file in found:
                    self._file = segment.path.name
                    try:
                        with opened(segment, file) as plain:
                            yield from self._segment(segment, plain)
                    except DamagedError as error:
                        self._damage = error.message
                    if self._damage:
                        yield self._fault(0, None, "unreadable", f"it {self._damage}")
                        self._damage = ""
                    self._meter.done(segment)
        except DamagedError as error:
            self._file = Path(error.where).name
            yield self._fault(0, None, "unreadable", f"it {error.message}")
        yield from self._settle(0)
        if self._statements.size > self._seq:
            place, newest = self._statements.newest
            message = (
                f"the stream {self.name} ends here, but had {newest.size} entries when it was signed at {newest.time}"
            )
            kind = "truncated" if found else "missing"
            yield RecordFault(file=self._file or place, line=0, seq=self._seq, kind=kind, message=message)

    def unchecked(self) -> Iterator[str]:
        """Yield the ranges that no checkpoint covers: a chain alone does not show that its end was cut off, or that its last entries
        were rewritten."""
        newest = self.witness.newest
        if newest is None:
            yield f"{self.name} has no trusted checkpoint: truncation would go undetected"
        elif newest.size < self._seq:
            yield f"{self.name}: no checkpoint covers entries {newest.size + 1} to {self._seq} yet: changes there would go undetected"

    def given_up(self) -> RecordFault:
        """Return the place where verification of a stream stopped because of too many faults."""
        message = "this stream has too many faults: the rest of it was not verified"
        return self._fault(0, self._seq, "unreadable", message)

    def _segment(self, segment: SegmentFile, plain: BinaryIO, before: int = 0) -> Iterator[RecordFault]:
        """Verify a file after its first `before` lines.

        A valid line is recognised without decoding it; any other line is checked in detail.
        """
        name, open_calls, leaves = self.name, self.open_calls, self._leaves
        seq, head, due = self._seq, self._hash, self._due()
        number, offset = before, plain.tell()  # start of the current line
        lines_of_it = chain.from_iterable(self._up_to_damage(plain))
        for number, line in enumerate(lines_of_it, start=before + 1):
            start, offset = offset, offset + len(line)
            link = _in_order(line, head)
            if link is not None and link.seq == seq + 1 and link.stream == name:
                seq, head = link.seq, link.hash
                leaves.append(bytes.fromhex(head))
                self.count += 1
                if link.event == "intent":
                    open_calls[link.call_id] = link.time
                elif link.event == "outcome":
                    if open_calls.pop(link.call_id, None) is None:
                        yield from self._unmatched(number, seq)
                elif link.code and link.event == "decision":
                    self.decided[link.call_id] = link.time
                if seq < due:
                    continue
                self._seq, self._hash = seq, head
            else:
                self._seq, self._hash = seq, head
                if b"\0" in line or not line.endswith(b"\n"):
                    yield from self._ending(segment, plain, number, start)
                    return
                yield from self._check(segment, number, line[:-1])
                seq, head = self._seq, self._hash
            yield from self._settle(number)
            self._meter.at(segment, plain)
            due = self._due()
        self._seq, self._hash = seq, head

    def _up_to_damage(self, plain: BinaryIO) -> Iterator[list[bytes]]:
        try:
            yield from blocks(plain)
        except DamagedError as error:
            self._damage = error.message

    def _due(self) -> int:
        """Return the number of the entry after which the tree is extended: near enough to keep memory small."""
        return min(
            self._seq + _CHUNK,
            max(self.witness.next_size, self._seq + 1) if self.witness.next_size else self._seq + _CHUNK,
        )

    def _ending(self, segment: SegmentFile, plain: BinaryIO, number: int, start: int) -> Iterator[RecordFault]:
        """Check the content at `start`, from line `number` on, if the file does not continue with a whole line.

        In the segment that is being written, zeros are written ahead and a crash may leave an incomplete line before them. A gateway may be
        writing there right now: lines that were completed meanwhile are read again. Any other content is a manipulation.
        """
        if not segment.first:
            plain.seek(start)
            tail = tail_of(self._up_to_damage(plain))
            self._reread.append(start)
            again = self._reread.count(start) <= _MAX_REREADS_AT_ONE_PLACE and len(self._reread) <= _MAX_REREADS
            if tail is Tail.CHANGED and again:
                plain.seek(start)
                yield from self._segment(segment, plain, number - 1)
                return
            if tail is Tail.TORN:
                self.torn.append(self._file)
            if tail is not Tail.CHANGED:
                return
        yield self._fault(
            number,
            None,
            "unreadable",
            "there are bytes here that are not an entry; lost power can cause this, a killed gateway cannot",
        )
        plain.seek(start)
        for line in chain.from_iterable(self._up_to_damage(plain)):
            if _decoded(whole := line.strip(b"\0\n")) is not None:
                yield from self._check(segment, number, whole)
                yield from self._settle(number)
            number += 1

    def _check(self, segment: SegmentFile, number: int, line: bytes) -> Iterator[RecordFault]:
        """Check a line in detail and yield its faults."""
        entry = _decoded(line)
        if entry is None:
            yield self._fault(number, None, "unreadable", "the line is not an audit entry in canonical form")
            return
        yield from self._settle(number)
        self.count += 1
        seq, prev = entry["seq"], entry["prev"]
        digest = hashed(entry, prev)
        if digest != entry["hash"]:
            yield self._fault(number, seq, "edited", "its content does not match its hash")
        elif entry.get("stream") != self.name:
            yield self._fault(number, seq, "reordered", f"it belongs to the stream {entry.get('stream')!r:.40}")
        elif seq > self._seq + 1:
            if self._seq or not self.witness.let_go(seq, prev):
                yield self._gap(segment, number, seq)
        elif seq <= self._seq:
            yield self._fault(number, seq, "reordered", f"it comes after entry {self._seq}")
        elif prev != self._hash:
            yield self._fault(number, seq, "forked", "it follows another entry than the one before it")
        self._seq, self._hash = seq, entry["hash"]
        self._leaves.append(bytes.fromhex(digest))
        yield from self._pair(number, entry)

    def _gap(self, segment: SegmentFile, number: int, seq: int) -> RecordFault:
        missing = f"the {seq - self._seq - 1} entries before it are missing"
        if number == 1 and (segment.first == seq or (not segment.first and self._seq)):
            return self._fault(number, seq, "missing", f"{missing}: a whole segment, or more than one")
        return self._fault(number, seq, "removed", missing)

    def _settle(self, number: int) -> Iterator[RecordFault]:
        """Compare the entries since the last comparison with the signed statements about them."""
        leaves, self._leaves[:] = self._leaves[:], []
        for seq, message in self.witness.walk(self._seq, leaves) if leaves else ():
            yield self._fault(number, seq, "forked", message)

    def _pair(self, number: int, entry: dict[str, Any]) -> Iterator[RecordFault]:
        call_id = entry.get("call_id", "")
        match entry.get("event"):
            case "intent":
                self.open_calls[call_id] = str(entry.get("time", ""))
            case "outcome" if self.open_calls.pop(call_id, None) is None:
                yield from self._unmatched(number, entry["seq"])
            case "decision" if entry.get("code"):
                self.decided[call_id] = str(entry.get("time", ""))

    def _unmatched(self, number: int, seq: int) -> Iterator[RecordFault]:
        """Yield the fault of an outcome without an intent, unless policy may have removed the intent."""
        if self.witness.removal is None:
            yield self._fault(number, seq, "unmatched", "an outcome without an intent before it")

    def _fault(self, line: int, seq: int | None, kind: str, message: str) -> RecordFault:
        return RecordFault(file=self._file, line=line, seq=seq, kind=kind, message=message)


def _in_order(line: bytes, head: str) -> _Link | None:
    """Return the chain fields of an entry if it follows `head` and its hash matches everything else in the line; else None.

    `hash` and `prev` are cut out of the line at their places in the canonical form, and the rest has to be what was hashed. So the bytes
    are those of the writer, and canonical because the writer's are; encoding the entry again would double the cost and prove nothing more.
    """
    try:
        link = _link(line)
        own = f'"event":"{link.event}","hash":"{link.hash}",'.encode()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    before = f'"prev":"{head}",'.encode()
    start = line.rfind(own)
    end = start + len(own)
    place = line.find(before, end)
    behind = place + len(before)
    if start < 0 or place < 0:
        return None
    if not line.startswith(b'"principal":"', behind) and (
        not line.startswith(_BEHIND, behind) or line.find(b'"principal":"', end, place) >= 0
    ):
        return None
    content = b"".join((before[8:-2], line[: end - len(link.hash) - 10], line[end:place], line[behind:-1]))
    return link if sha256(content).hexdigest() == link.hash else None


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        entry = msgspec.json.decode(line)
        if not isinstance(entry, dict) or canonical(entry) != line:
            return None
    except (msgspec.DecodeError, CanonicalError, RecursionError):
        return None
    seq, prev, digest = (entry.get(name) for name in ("seq", "prev", "hash"))
    placed = isinstance(seq, int) and seq > 0 and isinstance(prev, str) and prev.isascii()
    hashed_well = isinstance(digest, str) and _HASH.fullmatch(digest) is not None
    return entry if placed and hashed_well and isinstance(entry.get("call_id", ""), str) else None
