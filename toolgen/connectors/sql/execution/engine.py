"""Protocol of database engines: run, change or explain one guarded statement, and close."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success

__all__ = ["Engine"]


class Engine(Protocol):
    """Executor of guarded statements; `change` runs those that write, in a separate transaction.

    Returns Failed for errors of the database and never raises for them.
    """

    async def run(self, statement: Statement) -> Success | Failed: ...

    async def change(self, statement: Statement) -> Success | Failed: ...

    async def explain(self, statement: Statement) -> Success | Failed: ...

    async def close(self) -> None: ...
