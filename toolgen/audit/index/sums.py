"""Sums of the calls of each half hour. The index changes them together with its calls, so that a report over months reads no calls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from toolgen.audit.entry import timestamp
from toolgen.audit.index.database import IndexDatabase

__all__ = [
    "HALF_HOUR",
    "CountedCall",
    "RecordedCall",
    "Sum",
    "SumChanges",
    "calls_of_ids",
    "calls_where",
    "duration_class",
    "duration_of",
    "repair_sums",
    "sums_of_names",
    "sums_of_parts",
    "sums_of_policies",
    "sums_of_rules",
    "wrong_sums",
]

HALF_HOUR = 1_800_000_000
"""Microseconds of a half hour. A call belongs to the half hour in which it began."""

_BASE = 1.02
_MIN_MS = 0.01
_ROWS = 100  # rows of a statement
_CALLS = 5000  # calls in memory
_COLUMNS = "time, principal, tool, rule, status, duration_ms, policy_digest"


def duration_class(duration_ms: float) -> int:
    """Return the class of a duration. Durations of a class differ by two percent at most, so that a class needs one number."""
    return round(math.log(max(duration_ms, _MIN_MS), _BASE))


def duration_of(number: int) -> float:
    """Return the duration of a class, in milliseconds."""
    return float(_BASE**number)


class RecordedCall(Protocol):
    """Fields of a call that figures are made of. `time` is in microseconds since the epoch."""

    @property
    def time(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def duration_ms(self) -> float | None: ...


class CountedCall(RecordedCall, Protocol):
    """Fields of a call that sums are made of."""

    @property
    def policy_digest(self) -> str | None: ...
    @property
    def rule(self) -> str: ...


class _StoredCall(Struct, frozen=True):
    time: int
    principal: str
    tool: str
    rule: str
    status: str
    duration_ms: float | None
    policy_digest: str | None


class Sum(Struct, frozen=True):
    """Number of calls with one value in a part of a time range.

    `kind` is status, tool, principal, rule, policy or duration. `name` is the tool, the principal, the rule, the digest of the policy or
    the class of the duration. `name` and `status` are "" where the kind has none.
    """

    part: int
    kind: str
    name: str
    status: str
    calls: int


class SumChanges:
    """Changes of the sums by calls that are added to the index and removed from it."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, int, str, str]] = Counter()

    def add(self, calls: Iterable[CountedCall], sign: int = 1) -> None:
        """Count calls that are added; with the sign -1, calls that are removed."""
        changes = self._calls
        for call in calls:
            step, status = call.time // HALF_HOUR, call.status
            changes["status", step, "", status] += sign
            changes["tool", step, call.tool, status] += sign
            changes["principal", step, call.principal, status] += sign
            changes["rule", step, call.rule, status] += sign
            if call.policy_digest:
                changes["policy", step, call.policy_digest, ""] += sign
            if call.duration_ms is not None and status != "pending":  # a call that waits for a person has not ended
                changes["duration", step, str(duration_class(call.duration_ms)), ""] += sign

    def remove(self, calls: Iterable[CountedCall]) -> None:
        """Count calls that are removed."""
        self.add(calls, -1)

    def store(self, database: IndexDatabase) -> None:
        """Change the stored sums. Runs in the transaction that changes the calls."""
        changed = [(key, number) for key, number in self._calls.items() if number]
        for start in range(0, len(changed), _ROWS):
            some = changed[start : start + _ROWS]
            rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(some))
            database.run(
                f"INSERT INTO audit_sums (kind, step, name, status, calls) VALUES {rows} "
                "ON CONFLICT (kind, step, name, status) DO UPDATE SET calls = audit_sums.calls + excluded.calls",
                [value for key, number in some for value in (*key, number)],
            )
        for kind, step in sorted({key[:2] for key, number in changed if number < 0}):
            database.run("DELETE FROM audit_sums WHERE kind = ? AND step = ? AND calls = 0", (kind, step))

    def equals(self, sums: Mapping[tuple[str, int, str, str], int]) -> bool:
        """Return True if these are the sums of the added calls, by kind, half hour, name and status."""
        return self._calls == sums


def calls_where(database: IndexDatabase, condition: str, values: Sequence[object] = ()) -> list[CountedCall]:
    """Return the calls of the index that meet a condition."""
    found = database.rows(f"SELECT {_COLUMNS} FROM audit_calls WHERE {condition}", values)
    return [_StoredCall(*row) for row in found]


def calls_of_ids(database: IndexDatabase, first: int, last: int) -> Iterator[CountedCall]:
    """Yield the calls of the index with ids from `first` to `last`, with some thousand at a time in memory."""
    after = first - 1
    while rows := database.rows(
        f"SELECT {_COLUMNS}, id FROM audit_calls WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (after, last, _CALLS)
    ):
        yield from (_StoredCall(*row) for *row, _ in rows)
        after = rows[-1][-1]


def sums_of_parts(database: IndexDatabase, first: int, each: int, parts: int) -> list[Sum]:
    """Return the sums of statuses and durations from half hour `first`, in `parts` of `each` half hours, numbered from 0."""
    found = database.rows(
        "SELECT (step - ?) / ?, kind, name, status, sum(calls) FROM audit_sums "
        "WHERE kind IN ('duration', 'status') AND step >= ? AND step < ? GROUP BY 1, 2, 3, 4",
        (first, each, first, first + each * parts),
    )
    return [Sum(part, kind, name, status, int(calls)) for part, kind, name, status, calls in found]


def sums_of_names(database: IndexDatabase, first: int, end: int) -> list[Sum]:
    """Return the sums of tools and principals from half hour `first` up to `end`, as part 0."""
    found = database.rows(
        "SELECT kind, name, status, sum(calls) FROM audit_sums "
        "WHERE kind IN ('principal', 'tool') AND step >= ? AND step < ? GROUP BY 1, 2, 3",
        (first, end),
    )
    return [Sum(0, kind, name, status, int(calls)) for kind, name, status, calls in found]


def sums_of_rules(database: IndexDatabase, first: int, end: int, status: str) -> list[tuple[str, int, int]]:
    """Return the sum of each rule from half hour `first` up to `end`, of one status or of all (""), and its last half hour; the most used
    first."""
    condition, values = (" AND status = ?", (status,)) if status else ("", ())
    found = database.rows(
        "SELECT name, sum(calls), max(step) FROM audit_sums "
        f"WHERE kind = 'rule' AND step >= ? AND step < ?{condition} GROUP BY 1 ORDER BY 2 DESC, 1",
        (first, end, *values),
    )
    return [(rule, int(calls), step) for rule, calls, step in found]


def sums_of_policies(database: IndexDatabase) -> list[Sum]:
    """Return the sums of policies over all times, as part 0."""
    found = database.rows(
        "SELECT kind, name, status, sum(calls) FROM audit_sums WHERE kind = 'policy' GROUP BY 1, 2, 3"
    )
    return [Sum(0, kind, name, status, int(calls)) for kind, name, status, calls in found]


def wrong_sums(database: IndexDatabase) -> Iterator[str]:
    """Yield the half hours whose stored sums are not those of their calls, as times where they are numbers."""
    yield from (_shown(step) for step in _wrong_steps(database))


def repair_sums(database: IndexDatabase) -> None:
    """Make the sums of each wrong half hour new from its calls."""
    for step in _wrong_steps(database):
        with database.transaction():
            database.run("DELETE FROM audit_sums WHERE step = ?", (step,))
            _of_calls(database, step).store(database)


def _wrong_steps(database: IndexDatabase) -> Iterator[Any]:
    steps = {step for (step,) in database.rows("SELECT DISTINCT step FROM audit_sums")}
    steps |= {step for (step,) in database.rows(f"SELECT DISTINCT time / {HALF_HOUR} FROM audit_calls")}
    for step in sorted(steps, key=str):
        wrong = not isinstance(step, int)  # SQLite stores any type in any column
        if not wrong and _is_wrong(database, step):
            with database.transaction():  # calls may have been added between the two reads
                wrong = _is_wrong(database, step)
        if wrong:
            yield step


def _is_wrong(database: IndexDatabase, step: int) -> bool:
    stored = database.rows("SELECT kind, name, status, calls FROM audit_sums WHERE step = ?", (step,))
    sums = {(kind, step, name, status): calls for kind, name, status, calls in stored}
    return not _of_calls(database, step).equals(sums)


def _of_calls(database: IndexDatabase, step: int) -> SumChanges:
    changes = SumChanges()
    changes.add(_calls_of_step(database, step))
    return changes


def _shown(step: object) -> str:
    try:
        return timestamp(step * HALF_HOUR / 1e6) if isinstance(step, int) else str(step)
    except (ValueError, OverflowError, OSError):
        return str(step)


def _calls_of_step(database: IndexDatabase, step: int) -> Iterator[CountedCall]:
    after = (step * HALF_HOUR, -1)
    while rows := database.rows(
        f"SELECT {_COLUMNS}, id FROM audit_calls WHERE (time, id) > (?, ?) AND time < ? ORDER BY time, id LIMIT ?",
        (*after, (step + 1) * HALF_HOUR, _CALLS),
    ):
        yield from (_StoredCall(*row) for *row, _ in rows)
        after = (rows[-1][0], rows[-1][-1])
