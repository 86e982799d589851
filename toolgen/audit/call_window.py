"""Calls that began since a time, read from their segments in bounded memory and in the order of their intents."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, takewhile
from pathlib import Path
from sys import getsizeof
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolgen.audit.entry import Entry
from toolgen.audit.files import SegmentFile, blocks, bounded, lines, opened, segments, stream_names
from toolgen.audit.reader import RecordedUsers, decoded, merged, unfinished_row, with_outcome

__all__ = ["CallWindow", "seconds_of", "start_of"]

_CLOCK_STEP_S = 3600.0
"""Maximum setback of a clock: reading starts with segments that are this much older."""
_MAX_WAITING = 8_000
"""Maximum number of calls of all streams that are held until they end while later calls wait. A longer call is read separately."""
_MAX_DISORDER = 1_000
"""Maximum number of calls over which times of a stream may be out of order."""
_MAX_KEPT = 64 * 2**20
"""Maximum bytes of a window whose lines are cached for the next pass; a longer window is read, and unpacked, again."""
_READ_AGAIN = ""
_WITHOUT_CALL = frozenset({"identity", "reconcile"})
_CALL_SIZE = 80
"""Bytes for the id of a call and its place in a list."""
_MAX_HASHES = 250_000
"""Maximum number of call id hashes that are stored exactly: 20 MB."""
_SEEN_BITS = 27
_HASH_BITS = 60


class _Brief(Struct, gc=False):
    """Fields of an entry that identify its call, and show if the call begins or ends."""

    event: str = ""
    call_id: str = ""
    code: str | UnsetType | None = UNSET
    principal: str = ""
    on_behalf_of: str = ""
    status: str = ""


_brief = msgspec.json.Decoder(_Brief).decode


class _Seen:
    """Set of call ids of bounded size: hashes of the first ones, and a Bloom filter for more. It may report a new id as known, but never a
    known id as new."""

    def __init__(self) -> None:
        self._few: set[int] | None = set()
        self._bits = bytearray()

    def add(self, call_id: str) -> bool:
        """Add an id. Returns True if it may have been added before."""
        place, few = hash(call_id), self._few
        if few is None:
            return self._mark(place)
        known = place in few
        few.add(place)
        if len(few) > _MAX_HASHES:
            self._few, self._bits = None, bytearray(1 << (_SEEN_BITS - 3))
            for one in few:
                self._mark(one)
        return known

    def _mark(self, place: int) -> bool:
        bits, mask = self._bits, (1 << _SEEN_BITS) - 1
        place &= (1 << _HASH_BITS) - 1
        step = place >> 27 | 1
        known = True
        for _ in range(4):
            at = place & mask
            bit = 1 << (at & 7)
            if not bits[at >> 3] & bit:
                bits[at >> 3] |= bit
                known = False
            place += step
        return known


class _StreamWindow(Struct):
    """Part of a stream that is in a window: `count` lines of the segment that begins with entry `start` and of later ones.

    `loose` are calls that end in it and may have begun before it, `roleless` the callers whose roles it does not contain in time, and
    `before` the earlier entries about both. `kept` are its lines, if those of the whole window fit into memory, and `calls` the call of
    each line, `_READ_AGAIN` for a line that the second pass reads in any case.
    """

    name: str
    start: int
    count: int = -1
    loose: set[str] = msgspec.field(default_factory=set)
    roleless: set[str] = msgspec.field(default_factory=set)
    before: list[Entry] = msgspec.field(default_factory=list)
    kept: list[list[bytes]] | None = None
    calls: list[str] = msgspec.field(default_factory=list)


class _Survey(Struct):
    """First pass over a stream: it finds the calls that have to be read separately, which are all that do not begin and end exactly once
    within a short distance.

    `running` are calls that have not ended, each with the number of calls that had begun by then. `asked` are calls that wait for an
    answer.
    """

    seen: _Seen
    codes: Container[str]
    most: int
    apart: set[str]
    loose: set[str]
    running: dict[str, int] = {}
    asked: set[str] = set()
    begun: int = 0

    def begin(self, call_id: str) -> None:
        self.begun += 1
        if self.seen.add(call_id):
            self.apart.add(call_id)
        self.running[call_id] = self.begun

    def end(self, outcome: _Brief) -> None:
        call_id = outcome.call_id
        at = self.running.pop(call_id, 0)
        if not at and call_id not in self.asked:
            self._end_loose(call_id)
        elif not at or self.begun - at > self.most or outcome.code in self.codes:
            self.apart.add(call_id)
        if at and outcome.status == "pending":
            self.asked.add(call_id)

    def decide(self, call_id: str) -> None:
        if call_id in self.running or call_id in self.asked:
            self.apart.add(call_id)
        else:
            self._end_loose(call_id)

    def _end_loose(self, call_id: str) -> None:
        self.loose.add(call_id)
        if self.seen.add(call_id):
            self.apart.add(call_id)


class CallWindow:
    """Calls of a log that began at `since` (seconds since the epoch) or later, as `reader.merged` returns them.

    Most calls are an intent and its outcome, a few entries apart in one stream. The first pass over the window finds the others: those that
    began or ended more than once, ended late or never. The second pass reads only these, the third returns all calls in their order.
    Missing data is read from earlier segments: the intent of a call that began again in the window, and the roles of callers for which
    `has_users` is true.
    """

    def __init__(
        self, directory: Path, since: float = 0.0, *, has_users: Callable[[str], bool] = lambda name: False
    ) -> None:
        self._directory = directory
        self._since = since
        self._has_users = has_users
        self._streams: list[_StreamWindow] = []
        self._apart: set[str] = set()
        self._most, self._room = _MAX_WAITING, 0
        self.reconciled: set[str] = set()
        """Calls whose outcome a person recorded later, after `rows` or `ended_with` were read."""
        self.repeated: set[str] = set()
        """Calls whose answer was that of an earlier call that they repeat, among those that `ended_with` or `only` read."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every call of the window in the order of the times of their intents. Raises `AuditError`."""
        self._survey(frozenset())
        known = {row["call_id"]: msgspec.json.encode(row) for row in self._read_apart()}
        by_stream = [self._rows_of(stream, known) for stream in self._streams]
        for row in _in_order(heapq.merge(*by_stream, key=_time)):
            if seconds_of(row) >= self._since:
                yield row

    def ended_with(self, codes: Container[str]) -> list[dict[str, Any]]:
        """Return the calls of the window that ended with one of these codes or did not end, the oldest first. Raises `AuditError`."""
        self._survey(codes)
        return [
            row
            for row in self._read_apart()
            if (row.get("status") == "unfinished" or row.get("code") in codes) and seconds_of(row) >= self._since
        ]

    def only(self, call_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the calls with these ids, if they are in the window, the oldest first. Raises `AuditError`."""
        self._apart = set(call_ids)
        self._streams = [
            _StreamWindow(name=name, start=start_of(self._directory, name, self._since))
            for name in stream_names(self._directory)
        ]
        return [row for row in self._read_apart() if seconds_of(row) >= self._since]

    def _survey(self, codes: Container[str]) -> None:
        """First pass: find the calls that have to be read separately, and the data that is missing in the window."""
        seen, self._room = _Seen(), _MAX_KEPT
        names = stream_names(self._directory)
        self._most = _MAX_WAITING // max(1, len(names))
        self._streams = [_StreamWindow(name=name, start=start_of(self._directory, name, self._since)) for name in names]
        for stream in self._streams:
            self._survey_stream(stream, seen, codes)
        for stream in self._streams:
            stream.loose &= self._apart
            if self._since > 0 and (stream.loose or stream.roleless):
                self._look_back(stream)

    def _survey_stream(self, stream: _StreamWindow, seen: _Seen, codes: Container[str]) -> None:
        survey = _Survey(seen=seen, codes=codes, most=self._most, apart=self._apart, loose=stream.loose)
        told: set[str] = set()
        count, calls = 0, stream.calls
        for line in chain.from_iterable(self._holding(stream)):
            count += 1
            brief = _read(line)
            if self._room >= 0:
                plain = brief is not None and brief.event not in _WITHOUT_CALL
                calls.append(brief.call_id if brief is not None and plain else _READ_AGAIN)
            if brief is None:
                continue
            match brief.event:
                case "intent":
                    survey.begin(brief.call_id)
                    for name in (brief.principal, brief.on_behalf_of):
                        if name and name not in told:
                            told.add(name)
                            if self._has_users(name):
                                stream.roleless.add(name)
                case "outcome":
                    survey.end(brief)
                case "decision" if brief.code is not UNSET:
                    survey.decide(brief.call_id)
                case "identity":
                    told.add(brief.principal)
                case "reconcile":
                    self.reconciled.add(brief.call_id)
        self._apart.update(survey.running)
        stream.count = count
        if stream.kept is None:
            stream.calls = []

    def _holding(self, stream: _StreamWindow) -> Iterator[list[bytes]]:
        """Yield the blocks of a stream, which are cached for the next pass while there is space."""
        kept: list[list[bytes]] | None = []
        for block in self._blocks(stream):
            if kept is not None:
                self._room -= sum(map(getsizeof, block)) + _CALL_SIZE * len(block)
                kept.append(block)
                kept = kept if self._room >= 0 else None
            yield block
        stream.kept = kept

    def _lines(self, stream: _StreamWindow) -> Iterator[bytes]:
        """Yield the lines that the first pass read; all lines if it did not run."""
        if stream.kept is not None:
            return chain.from_iterable(stream.kept)
        found = chain.from_iterable(self._blocks(stream))
        return found if stream.count < 0 else islice(found, stream.count)

    def _blocks(self, stream: _StreamWindow) -> Iterator[list[bytes]]:
        """Yield the lines of a stream from the start of its window, in blocks."""
        with segments(self._directory, stream.name) as found:
            begun = False
            for segment, file in _from(found, stream.start):
                with opened(segment, file) as plain:
                    for block in blocks(plain):
                        begun = begun or not self._is_early(block)
                        if begun:
                            yield block

    def _is_early(self, block: Sequence[bytes]) -> bool:
        """Return True if the window of a stream begins after these lines."""
        last = next(decoded(block[-1:]), {})
        return 0 < seconds_of(last) < self._since - _CLOCK_STEP_S

    def _read_apart(self) -> list[dict[str, Any]]:
        """Second pass: return the rows of the calls that have to be read separately."""
        return merged(self._entries_apart()) if self._apart else []

    def _entries_apart(self) -> Iterator[Entry]:
        for stream in self._streams:
            yield from stream.before
            found = self._lines(stream)
            if stream.kept is not None:
                wanted = self._apart | {_READ_AGAIN}
                found = (line for line, call_id in zip(found, stream.calls, strict=True) if call_id in wanted)
            for line in found:
                brief = _read(line)
                if brief is None:
                    continue
                if brief.event == "reconcile":
                    self.reconciled.add(brief.call_id)
                elif brief.call_id in self._apart or brief.event == "identity":
                    for entry in decoded((line,)):
                        if brief.event == "outcome" and entry.get("parent"):
                            self.repeated.add(brief.call_id)
                        yield entry

    def _rows_of(self, stream: _StreamWindow, known: dict[str, bytes]) -> Iterator[dict[str, Any]]:
        """Third pass: yield the calls of one stream in the order of their intents; those that were read separately at their last intent."""
        apart = self._apart
        waiting: deque[dict[str, Any]] = deque()
        running: dict[str, dict[str, Any]] = {}
        users = RecordedUsers()
        for entry in stream.before:
            if entry.get("event") == "identity":
                users.add(str(entry.get("call_id")), entry)
        for entry in decoded(self._lines(stream)):
            event, call_id = entry.get("event"), entry.get("call_id")
            if not isinstance(call_id, str):
                continue
            if event == "intent":
                if call_id in apart:
                    row = msgspec.json.decode(known[call_id]) if call_id in known else {}
                    if (row.get("stream"), row.get("seq")) == (entry.get("stream"), entry.get("seq")):
                        waiting.append(row)
                else:
                    row = unfinished_row(entry)
                    if users.known and (said := users.of(call_id, entry)):
                        row["users"] = said
                    running[call_id] = row
                    waiting.append(row)
                if users.known:
                    users.forget(call_id, entry)
            elif event == "outcome" and (begun := running.pop(call_id, None)) is not None:
                with_outcome(begun, entry)
            elif event == "identity":
                users.add(call_id, entry)
            while waiting and waiting[0]["call_id"] not in running:
                yield waiting.popleft()
        yield from waiting

    def _look_back(self, stream: _StreamWindow) -> None:
        """Read earlier segments, the newest first, for the last intent of calls that end in the window and began again elsewhere, and for
        the last entry about the roles of callers."""
        calls, names = stream.loose - self._begun_in(stream, stream.loose), set(stream.roleless)
        with segments(self._directory, stream.name) as found:
            within = [segment for segment, _ in _from(found, stream.start)]
            for segment, file in reversed(found):
                if not calls and not names:
                    return
                if segment in within[1:]:
                    continue
                with opened(segment, file) as plain:
                    early = blocks(plain) if segment not in within else takewhile(self._is_early, blocks(plain))
                    here = list(_told_of(chain.from_iterable(early), calls, names))
                stream.before[:0] = here
                calls -= {str(entry["call_id"]) for entry in here if entry.get("event") == "intent"}
                names -= {str(entry["principal"]) for entry in here if entry.get("event") == "identity"}

    def _begun_in(self, stream: _StreamWindow, calls: set[str]) -> set[str]:
        """Return those of some calls that began in the window before they ended in it."""
        begun: set[str] = set()
        ended: set[str] = set()
        for line in self._lines(stream) if calls else ():
            brief = _read(line)
            if brief is not None and brief.call_id in calls and brief.call_id not in ended:
                if brief.event == "intent":
                    begun.add(brief.call_id)
                elif brief.event == "outcome" or (brief.event == "decision" and brief.code is not UNSET):
                    ended.add(brief.call_id)
        return begun


def _from(
    found: Sequence[tuple[SegmentFile, BinaryIO | None]], start: int
) -> Sequence[tuple[SegmentFile, BinaryIO | None]]:
    """Return the segments from the one that contains an entry; the name of the segment that is being written has no number."""
    begins = [index for index, (segment, file) in enumerate(found) if 0 < _first_number(segment, file) <= start]
    return found[begins[-1] if begins else 0 :]


def _first_number(segment: SegmentFile, file: BinaryIO | None) -> int:
    if file is None:
        return segment.first
    first = next(decoded(bounded(file)), {}).get("seq")
    file.seek(0)
    return first if isinstance(first, int) else 0


def start_of(directory: Path, stream: str, since: float) -> int:
    """Return the number of the entry from which a stream has to be read for everything that was recorded at `since` or later: the first of
    a segment.

    Segments are checked from the newest back, only at their first entries. Raises `AuditError`.
    """
    if since <= 0:
        return 1
    with segments(directory, stream) as found:
        for segment, file in reversed(found):
            with opened(segment, file) as plain:
                first = next(decoded(line for line, _ in lines(bounded(plain))), {})
            if 0 < seconds_of(first) < since - _CLOCK_STEP_S and isinstance(first.get("seq"), int):
                return int(first["seq"])
    return 1


def seconds_of(entry: Entry) -> float:
    """Return the time of an entry, or of a call, in seconds since the epoch; 0 for an invalid time."""
    try:
        return datetime.fromisoformat(str(entry.get("time", ""))).timestamp()
    except ValueError:
        return 0.0


def _read(line: bytes) -> _Brief | None:
    try:
        return _brief(line)
    except (msgspec.DecodeError, RecursionError):
        pass
    for entry in decoded((line,)):  # an entry with a value of another type than gateways write
        if isinstance(call_id := entry.get("call_id"), str):
            texts = {name: str(entry.get(name, "")) for name in ("event", "principal", "on_behalf_of", "status")}
            return _Brief(call_id=call_id, code=str(entry["code"]) if "code" in entry else UNSET, **texts)
    return None


def _told_of(found: Iterable[bytes], calls: set[str], names: set[str]) -> Iterator[Entry]:
    """Return the last intent of each of some calls with the entries after it, and the last entry about each of some callers; calls are in
    no order."""
    chapters: dict[str, list[Entry]] = {}
    words: dict[str, Entry] = {}
    for line in found:
        brief = _read(line)
        if brief is None:
            continue
        if brief.event == "identity":
            if brief.principal in names:
                words.update((str(entry["principal"]), entry) for entry in decoded((line,)))
        elif brief.call_id in calls:
            if brief.event == "intent":
                chapters[brief.call_id] = []
            chapters.setdefault(brief.call_id, []).extend(decoded((line,)))
    yield from words.values()
    for chapter in chapters.values():
        yield from chapter


def _time(row: Entry) -> str:
    return str(row.get("time", ""))


def _in_order(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Sort rows that are nearly in the order of their times."""
    held: list[tuple[str, int, dict[str, Any]]] = []
    for number, row in enumerate(rows):
        item = (_time(row), number, row)
        if len(held) < _MAX_DISORDER:
            heapq.heappush(held, item)
        else:
            yield heapq.heappushpop(held, item)[2]
    while held:
        yield heapq.heappop(held)[2]
