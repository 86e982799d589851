"""What an engine is to the executor: something that runs one statement, or explains it, and is closed.

When a statement has to stop: its time is up. Asked by engines that look now and then, told to those that do not.

One change of one table on its way to its commit: rows are counted before it, and an answer that was lost is called what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from toolgen.clock import Clock
from toolgen.execute.sql.result_rows import failed
from toolgen.model.call import Statement
from toolgen.model.database import Cascade, set_off
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["EXPLAIN", "Change", "Engine", "Watch", "not_a_change"]

EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "postgres": "EXPLAIN (VERBOSE FALSE) ",
    "mysql": "EXPLAIN ",
    "duckdb": "EXPLAIN ",
}
"""By dialect: what makes a plan of a statement and runs nothing."""


class Engine(Protocol):
    """Runs guarded statements; `change` those that write, in a transaction of their own.

    Returns Failed for what the database did wrong and never raises for it.
    """

    async def run(self, statement: Statement) -> Success | Failed: ...

    async def change(self, statement: Statement) -> Success | Failed: ...

    async def explain(self, statement: Statement) -> Success | Failed: ...

    async def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Watch:
    """Shared by the thread that runs a statement and the one that looks at the clock.

    An engine that cannot be asked to look now and then leaves an `interrupt`, which is called when it must stop.
    """

    clock: Clock
    deadline: float  # of clock.monotonic()
    ended: bool = False
    _interrupt: Callable[[], None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def stop(self) -> bool:
        """True when the statement must end now."""
        return self.clock.monotonic() >= self.deadline

    def interruptible(self, interrupt: Callable[[], None] | None) -> None:
        """From here on `nag` calls this; None: it must not be called any more."""
        with self._lock:
            self._interrupt = interrupt

    def nag(self) -> None:
        """Called now and then after the time is up: an interruption that comes between two steps of an engine is lost on it."""
        with self._lock:
            if self.stop() and self._interrupt is not None:
                self._interrupt()


@dataclass(slots=True)
class Change:
    """`committing` is true while nobody can say whether the database has made the change."""

    statement: Statement
    committing: bool = False

    def refused(self, rows: int) -> Failed | None:
        """Why a change of this many rows is taken back; None when it may be committed. An engine that cannot count says less than 0."""
        most = self.statement.max_changes
        if 0 <= rows <= most:
            return None
        counted = (
            f"would change {rows} rows" if rows >= 0 else "would change a number of rows the database does not tell"
        )
        return Failed(
            error=Error(
                code="sql_refused",
                message=f"the statement {counted}; at most {most} may change at once, and nothing was changed",
                suggestion="say more closely which rows with WHERE, or change them in several calls",
                rule="sql:changes",
            ),
            delivery=Delivery(sql=self.statement.sql),
        )

    def cascading(self, found: Iterable[Cascade]) -> Failed | None:
        """Why it is taken back: the table sets off what the policy does not open. The build refuses those it knew of."""
        statement = self.statement
        if statement.cascades or not set_off(found, statement.writes, statement.sets):
            return None
        return Failed(
            error=Error(
                code="sql_refused",
                message="the table now has a trigger, a rule or an action of a foreign key that this sets off; nothing was changed",
                suggestion="the operator runs `toolgen build` again, and opens it with cascades: true or not at all",
                rule="sql:cascade",
            ),
            delivery=Delivery(sql=statement.sql),
        )

    def done(self, rows: int) -> Success:
        """The change was committed. `data` is `{"row_count": n}`."""
        self.committing = False
        return Success(data={"row_count": rows}, delivery=Delivery(sql=self.statement.sql, rows=rows))

    def ended(self, result: Success | Failed) -> Success | Failed:
        """The result, or that nobody knows it: the commit was sent and not answered."""
        if not self.committing:
            return result
        return Failed(
            error=Error(
                code="outcome_unknown",
                message="the change was sent and the database did not say whether it was made",
                suggestion="look at the rows before changing them again",
            ),
            delivery=Delivery(sql=self.statement.sql),
        )


def not_a_change(statement: Statement) -> Failed:
    """The engine says that what it was given has rows to give, or needs other values."""
    return failed(
        "sql_failed",
        "the statement does not change a table",
        "send an INSERT, UPDATE or DELETE",
        Delivery(sql=statement.sql),
    )
