"""Index of a log for reviewers: filled and rebuilt from the log, which stays the source of truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.audit.entry import Entry, hashed
from toolgen.audit.index.check import differences, here
from toolgen.audit.index.database import IndexDatabase
from toolgen.audit.index.indexer import Filled, fill, forget_log
from toolgen.audit.index.row import NONE, STREAM_BITS, Condition, RecordFilter, call_conditions, entry_conditions
from toolgen.audit.index.sums import HALF_HOUR, Sum, sums_of_names, sums_of_parts, sums_of_policies, sums_of_rules
from toolgen.audit.reader import entry_at, merged, people_who_answered
from toolgen.core.errors import AuditError, CanonicalError, ConfigError

__all__ = ["MAX_SEARCH_S", "Cursor", "EntryPage", "FoundEntry", "PolicyUse", "RecordIndex", "RuleUse", "Sample"]

Cursor = tuple[int, ...]
"""End of a page: opaque numbers, for the next page of the same listing."""

MAX_SEARCH_S = 20.0
"""Time limit of a search for a page: the console has a single search thread, which no request may block for longer."""
_SOME = 500
_SAMPLES = 5_000
_COLUMNS = "e.id, e.prev, e.hash, e.body, s.name, s.log"
_FROM = "audit_entries e JOIN audit_streams s ON s.id = e.stream"
_TAMPERED = "`toolgen audit index --rebuild` rebuilds it from the log"


class EntryPage(Struct, frozen=True, kw_only=True):
    """Page of results, newest first; `next` is None after the last page."""

    rows: list[dict[str, Any]]
    next: Cursor | None


class FoundEntry(Struct, frozen=True, kw_only=True):
    """Entry with the folder of its log. `checked` is True if it was compared with the log, which is impossible for a log on another
    machine."""

    entry: dict[str, Any]
    log: str
    checked: bool


class Sample(Struct, frozen=True):
    """Fields of a call that statistics need. `time` is in microseconds since the epoch."""

    time: int
    principal: str
    tool: str
    verdict: str
    rule: str
    status: str
    code: str
    duration_ms: float | None


class PolicyUse(Struct, frozen=True):
    """Number of calls that a policy decided, and the start of the first and the last of them, in microseconds since the epoch."""

    digest: str
    first: int
    last: int
    calls: int


class RuleUse(Struct, frozen=True):
    """Number of calls that a rule decided, and the start of the last of them, in microseconds since the epoch."""

    rule: str
    calls: int
    last: int


class RecordIndex:
    """Index in a database, for the log in `directory`. One thread at a time may use it; as a context manager it is closed at the end."""

    def __init__(self, database: IndexDatabase, directory: Path) -> None:
        self._database = database
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def fill(self, progress: Callable[[int], None] = lambda entries: None) -> Filled:
        """Index new entries of the log. Raises `AuditError`."""
        return fill(self._database, self._directory, progress)

    def rebuild(self, progress: Callable[[int], None] = lambda entries: None) -> Filled:
        """Remove the entries of this log from the index, keep those of other logs, and fill it again."""
        if self._database.shared:
            forget_log(self._database, self._directory, here(self._database, self._directory).values())
        else:
            self._database.clear()
        return self.fill(progress)

    def calls(self, wanted: RecordFilter = NONE, *, limit: int = 50, after: Cursor | None = None) -> EntryPage:
        """Return calls, newest first, one row each as in `query.calls`."""
        conditions = call_conditions(_ending_at(wanted, after), self._database.dialect)
        if after is not None:
            conditions.append(_behind(("c.time", "c.id"), after))
        where, values = _where(conditions)
        found = self._database.search(
            f"SELECT c.time, c.id, c.call_id FROM audit_calls c{where} ORDER BY c.time DESC, c.id DESC LIMIT ?",
            (*values, limit + 1),
            MAX_SEARCH_S,
        )
        rows = self._told([call_id for _, _, call_id in found[:limit]])
        return EntryPage(rows=rows, next=(found[limit - 1][0], found[limit - 1][1]) if len(found) > limit else None)

    def count_calls(self, wanted: RecordFilter = NONE, *, most: int) -> int:
        """Return the number of matching calls, counted up to `most`."""
        where, values = _where(call_conditions(wanted, self._database.dialect))
        counted = f"SELECT count(*) FROM (SELECT 1 AS one FROM audit_calls c{where} LIMIT ?) found"
        return int(self._database.search(counted, (*values, most), MAX_SEARCH_S)[0][0])

    def rules(self, wanted: RecordFilter = NONE) -> list[RuleUse]:
        """Return the number of calls that each rule decided, the most used first."""
        where, values = _where(call_conditions(wanted, self._database.dialect))
        found = self._database.rows(
            f"SELECT c.rule, count(*), max(c.time) FROM audit_calls c{where} GROUP BY c.rule ORDER BY 2 DESC, 1", values
        )
        return [RuleUse(*row) for row in found]

    def rules_between(self, first: int, end: int, status: str = "") -> list[RuleUse]:
        """Return the rules of calls that began from half hour `first` up to `end`, of one status or of all, the most used first."""
        condition, values = (" AND status = ?", (status,)) if status else ("", ())
        last = f"SELECT coalesce(max(time), 0) FROM audit_calls WHERE rule = ? AND time >= ? AND time < ?{condition}"
        return [
            RuleUse(
                rule,
                calls,
                self._database.rows(last, (rule, step * HALF_HOUR, (step + 1) * HALF_HOUR, *values))[0][0],
            )
            for rule, calls, step in sums_of_rules(self._database, first, end, status)
        ]

    def entries(self, wanted: RecordFilter = NONE, *, limit: int = 50, after: Cursor | None = None) -> EntryPage:
        """Return entries, newest first; if the filter has fields of calls, the entries of matching calls, newest call first."""
        if wanted.of_calls:
            return self._entries_of_calls(wanted, limit, after)
        conditions = entry_conditions(_ending_at(wanted, after))
        if after is not None:
            conditions.append(_behind(("e.time", "e.id"), after))
        where, values = _where(conditions)
        found = self._database.search(
            f"SELECT {_COLUMNS}, e.time, e.id FROM {_FROM}{where} ORDER BY e.time DESC, e.id DESC LIMIT ?",
            (*values, limit + 1),
            MAX_SEARCH_S,
        )
        return self._page(found, limit)

    def story(self, call_id: str) -> list[dict[str, Any]]:
        """Return every entry of a call, in the order of their times."""
        found = self._database.rows(
            f"SELECT {_COLUMNS} FROM {_FROM} WHERE e.call_id = ? ORDER BY e.time, e.id", (call_id,)
        )
        return [self._entry(row) for row in found]

    def find(self, seq: int, stream: str = "") -> list[FoundEntry]:
        """Return the entries with a number: one, or one per stream that has it. Those of the local log are read from the log.

        Raises `AuditError` if log and index differ.
        """
        local = here(self._database, self._directory)
        there = {str(entry.get("stream")): dict(entry) for entry in entry_at(self._directory, seq, stream)}
        found = []
        for row in self._database.rows(
            f"SELECT {_COLUMNS} FROM {_FROM} WHERE e.id IN (SELECT id * {1 << STREAM_BITS} + ? FROM audit_streams) "
            "ORDER BY e.id",
            (seq,),
        ):
            name, log = row[4], row[5]
            if stream not in {"", name}:
                continue
            mine = local.get(name) == row[0] >> STREAM_BITS
            entry = self._entry(row)
            if mine and not _same(entry, there.pop(name, {})):
                raise AuditError(
                    f"entry {seq} of {name} is not the same in the log and in its index",
                    suggestion="`toolgen audit verify` says whether the log is what was written; `toolgen audit index --rebuild` "
                    "rebuilds the index",
                )
            found.append(FoundEntry(entry=entry, log=log, checked=mine))
        found += [FoundEntry(entry=entry, log=str(self._directory), checked=False) for entry in there.values()]
        return found

    def call_ids(self, beginning: str, limit: int = 2) -> list[str]:
        """Return ids of calls with this prefix, sorted; `beginning` is not empty."""
        found = self._database.rows(
            "SELECT call_id FROM audit_calls WHERE call_id >= ? AND call_id < ? ORDER BY call_id LIMIT ?",
            (beginning, beginning[:-1] + chr(ord(beginning[-1]) + 1), limit),
        )
        return [call_id for (call_id,) in found]

    def newer(self, marks: dict[int, int], wanted: RecordFilter = NONE) -> list[dict[str, Any]]:
        """Return the entries that were indexed since the last time, in the order of their times; `marks` stores the positions in
        between."""
        found: list[tuple[Any, ...]] = []
        conditions = entry_conditions(wanted)
        if wanted.of_calls:
            some, values = _where(call_conditions(wanted, self._database.dialect))
            conditions.append((f"e.call_id IN (SELECT c.call_id FROM audit_calls c{some})", values))
        for number, seq in self._database.rows("SELECT id, seq FROM audit_streams"):
            ends = (number << STREAM_BITS | marks.get(number, 0), number << STREAM_BITS | seq)
            where, values = _where([("e.id > ? AND e.id <= ?", ends), *conditions])
            found += self._database.rows(f"SELECT {_COLUMNS}, e.time FROM {_FROM}{where} ORDER BY e.id", values)
            marks[number] = seq
        return [self._entry(row) for row in sorted(found, key=lambda row: (row[6], row[0]))]

    def policies(self) -> list[PolicyUse]:
        """Return which policies decided calls, the one of the latest call first."""
        times = (  # each is one step in the index of the column
            "SELECT coalesce((SELECT min(time) FROM audit_calls WHERE policy_digest = ?), 0), "
            "coalesce((SELECT max(time) FROM audit_calls WHERE policy_digest = ?), 0)"
        )
        found = []
        for one in sums_of_policies(self._database):
            first, last = self._database.rows(times, (one.name, one.name))[0]
            found.append(PolicyUse(one.name, first, last, one.calls))
        return sorted(found, key=lambda use: -use.last)

    def sums_of_parts(self, first: int, each: int, parts: int) -> list[Sum]:
        """Return the sums of statuses and durations from half hour `first`, in `parts` of `each` half hours, numbered from 0."""
        return sums_of_parts(self._database, first, each, parts)

    def sums_of_names(self, first: int, end: int) -> list[Sum]:
        """Return the sums of tools and principals from half hour `first` up to `end`."""
        return sums_of_names(self._database, first, end)

    def marks(self) -> dict[int, int]:
        """Return the current position in each stream, for `newer`."""
        return dict(self._database.rows("SELECT id, seq FROM audit_streams"))

    def samples(self, wanted: RecordFilter = NONE) -> Iterator[Sample]:
        """Yield a sample of every matching call, the newest first, with some thousand at a time in memory."""
        columns = "c.time, c.principal, c.tool, c.verdict, c.rule, c.status, coalesce(c.code, ''), c.duration_ms, c.id"
        after: Cursor | None = None
        while True:
            conditions = call_conditions(_ending_at(wanted, after), self._database.dialect)
            if after is not None:
                conditions.append(_behind(("c.time", "c.id"), after))
            where, values = _where(conditions)
            rows = self._database.rows(
                f"SELECT {columns} FROM audit_calls c{where} ORDER BY c.time DESC, c.id DESC LIMIT ?",
                (*values, _SAMPLES),
            )
            for *sample, _ in rows:
                yield Sample(*sample)
            if len(rows) < _SAMPLES:
                return
            after = (rows[-1][0], rows[-1][-1])

    def count(self) -> tuple[int, int]:
        """Return the number of entries and of calls."""
        entries, calls = (
            self._database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in ("audit_entries", "audit_calls")
        )
        return entries, calls

    def check(self, progress: Callable[[int], None] = lambda entries: None) -> list[str]:
        """Compare everything with the local log: a sentence for each difference. Raises `AuditError` if there is no readable log."""
        return list(differences(self._database, self._directory, progress))

    def _entries_of_calls(self, wanted: RecordFilter, limit: int, after: Cursor | None) -> EntryPage:
        outer = entry_conditions(RecordFilter(event=wanted.event, stream=wanted.stream, before=wanted.before))
        enough = not outer  # each call has an entry, so this many calls are enough
        inner = call_conditions(_ending_at(wanted, after), self._database.dialect)
        order = ("c.time", "c.id", "e.time", "e.id")
        if after is not None:
            outer.append(_behind(order, after))
            inner.append(("(c.time, c.id) <= (?, ?)", after[:2]))
        where, values = _where(inner)
        calls = f"SELECT c.id, c.time, c.call_id FROM audit_calls c{where}"
        if enough:
            calls += " ORDER BY c.time DESC, c.id DESC LIMIT ?"
            values = (*values, limit + 2)
        condition, more = _where(outer)
        found = self._database.search(
            f"SELECT {_COLUMNS}, {', '.join(order)} FROM ({calls}) c JOIN audit_entries e ON e.call_id = c.call_id "
            f"JOIN audit_streams s ON s.id = e.stream{condition} "
            f"ORDER BY {', '.join(f'{name} DESC' for name in order)} LIMIT ?",
            (*values, *more, limit + 1),
            MAX_SEARCH_S,
        )
        return self._page(found, limit)

    def _page(self, found: Sequence[tuple[Any, ...]], limit: int) -> EntryPage:
        end = tuple(found[limit - 1][6:]) if len(found) > limit else None
        return EntryPage(rows=[self._entry(row) for row in found[:limit]], next=end)

    def _told(self, calls: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of these calls, in their order; `answered_by` has the people who approved or denied one, and `asked` the time of
        the first intent of a call that began again after waiting."""
        entries: list[Entry] = []
        names: dict[int, str] = {}
        for start in range(0, len(calls), _SOME):
            some = calls[start : start + _SOME]
            marks = ", ".join("?" * len(some))
            for row in self._database.rows(
                f"SELECT {_COLUMNS} FROM {_FROM} WHERE e.call_id IN ({marks}) ORDER BY e.id", some
            ):
                number = row[0] >> STREAM_BITS
                names[number] = row[4]
                entries.append({**self._entry(row), "stream": number})
        told = {row["call_id"]: {**row, "stream": names[row["stream"]]} for row in merged(entries)}
        for entry in entries:
            call = told.get(entry["call_id"], {})
            if entry.get("event") == "intent" and entry["time"] < call.get("asked", call.get("time", "")):
                call["asked"] = entry["time"]
        for call_id, people in people_who_answered(entries).items():
            if call_id in told:
                told[call_id]["answered_by"] = people
        return [told[call_id] for call_id in calls if call_id in told]

    def _entry(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the entry of a row after checking its hash. Raises `AuditError`."""
        prev, own, body = bytes(row[1]).hex(), bytes(row[2]).hex(), row[3]
        if sha256((prev + body).encode()).hexdigest() != own:
            seq = row[0] & (1 << STREAM_BITS) - 1
            raise AuditError(f"entry {seq} of {row[4]} was changed in the index of the log", suggestion=_TAMPERED)
        entry: dict[str, Any] = msgspec.json.decode(body)
        return {**entry, "prev": prev, "hash": own, **({"log": row[5]} if self._database.shared else {})}


def _same(entry: Entry, there: Entry) -> bool:
    """Return True if an entry of the index equals that of the log, and the log's entry matches its hash."""
    try:
        return bool(entry["hash"] == there["hash"] == hashed(there, there["prev"]))
    except (KeyError, CanonicalError, UnicodeEncodeError, AttributeError):
        return False


def _ending_at(wanted: RecordFilter, after: Cursor | None) -> RecordFilter:
    """Return a filter of times up to the last row of a page. Beside a later `until`, SQLite would read all rows before that row again."""
    if wanted.until is None or wanted.any_entry or not after:
        return wanted
    return replace(wanted, until=min(wanted.until, after[0] + 1))


def _behind(order: Sequence[str], after: Cursor) -> Condition:
    """Return the condition for the rows after a page. Raises `ConfigError` for a cursor of another listing."""
    if len(after) != len(order):
        raise ConfigError("the cursor belongs to another listing", suggestion="ask for the first page again")
    return f"({', '.join(order)}) < ({', '.join('?' * len(order))})", after


def _where(conditions: Sequence[Condition]) -> tuple[str, tuple[object, ...]]:
    if not conditions:
        return "", ()
    return " WHERE " + " AND ".join(text for text, _ in conditions), tuple(
        value for _, values in conditions for value in values
    )
