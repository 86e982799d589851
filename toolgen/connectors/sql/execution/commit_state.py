"""Commit of a change to one table: rows are counted before the commit, and a lost reply to the commit becomes `outcome_unknown`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from toolgen.model.call import Statement
from toolgen.model.database import Cascade, set_off
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["CommitState"]


class CommitState(Struct):
    """State of a commit. `committing` is True while it is unknown if the database has made the change."""

    statement: Statement
    committing: bool = False

    def refused(self, rows: int) -> Failed | None:
        """Return the reason to roll back a change of this many rows; None if it may be committed. An engine without a count passes less
        than 0.
        """
        most = self.statement.max_changes
        if 0 <= rows <= most:
            return None
        counted = f"would change {rows} rows" if rows >= 0 else "would change an unknown number of rows"
        return Failed(
            error=Error(
                code="sql_refused",
                message=f"the statement {counted}; at most {most} may change at once, and nothing was changed",
                suggestion="select fewer rows with WHERE, or change them in several calls",
                rule="sql:changes",
            ),
            delivery=Delivery(sql=self.statement.sql),
        )

    def cascading(self, found: Iterable[Cascade]) -> Failed | None:
        """Return the reason to roll back: the table triggers changes that the policy does not allow. The build refuses the triggers that
        it knew.
        """
        statement = self.statement
        if statement.cascades or not set_off(found, statement.writes, statement.sets):
            return None
        return Failed(
            error=Error(
                code="sql_refused",
                message="the change would start a new trigger, rule or foreign key action of the table; nothing was changed",
                suggestion="the operator should run `toolgen build` again, and allow it with cascades: true or remove the access",
                rule="sql:cascade",
            ),
            delivery=Delivery(sql=statement.sql),
        )

    def done(self, rows: int) -> Success:
        """Record that the change was committed, and return the result. `data` is `{"row_count": n}`."""
        self.committing = False
        return Success(data={"row_count": rows}, delivery=Delivery(sql=self.statement.sql, rows=rows))

    def ended(self, result: Success | Failed) -> Success | Failed:
        """Return the result, or an unknown outcome if the commit was sent without a reply."""
        if not self.committing:
            return result
        return Failed(
            error=Error(
                code="outcome_unknown",
                message="the change was sent, but the database did not confirm or deny it",
                suggestion="look at the rows before changing them again",
            ),
            delivery=Delivery(sql=self.statement.sql),
        )
