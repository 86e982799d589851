"""Protocol of database engines: run, change or explain one guarded statement, and close."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success

__all__ = ["Engine"]


class Engine(Protocol):
    """Runs guarded statements; `change` those that write, in a transaction of their own.

    Returns Failed for what the database did wrong and never raises for it.
    """

    async def run(self, statement: Statement) -> Success | Failed: ...

    async def change(self, statement: Statement) -> Success | Failed: ...

    async def explain(self, statement: Statement) -> Success | Failed: ...

    async def close(self) -> None: ...
