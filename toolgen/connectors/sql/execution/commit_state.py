"""Commit of a change to one table: rows are counted before the commit, and a lost answer to it becomes `outcome_unknown`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from toolgen.model.call import Statement
from toolgen.model.database import Cascade, set_off
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["CommitState"]


class CommitState(Struct):
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
