"""Connection of this process to a PostgreSQL that keeps records for several gateways: opened at the first use and again after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from toolgen.core.errors import StateError, StateUnavailableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["NOW", "PostgresSession", "TransactionStep"]

R = TypeVar("R")
Connection: TypeAlias = "AsyncConnection[tuple[Any, ...]]"
_TIMEOUT_S = 10
NOW = "extract(epoch FROM clock_timestamp())"
"""Time of the server, in seconds since the epoch."""


class TransactionStep(Struct, frozen=True):
    """Statement of a transaction, which ends at a `decisive` one that does not change one row."""

    text: str
    values: tuple[object, ...] = ()
    decisive: bool = False


class PostgresSession:
    """Session over one connection, one statement at a time. `location` returns the address of the database, which may contain a password;
    `schema` creates the tables; `kept` names what is stored, for messages.
    """

    def __init__(self, location: Callable[[], str], schema: str, kept: str) -> None:
        self._location = location
        self._schema = schema
        self._kept = kept
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return "PostgresSession(***)"

    async def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. Raises `StateError`."""

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            return await (await connection.execute(statement.encode(), values)).fetchall()

        return await self._run(work)

    async def changed(self, statement: str, *values: object) -> bool:
        """Return True if a statement changed one row. Raises `StateError`."""

        async def work(connection: Connection) -> bool:
            return (await connection.execute(statement.encode(), values)).rowcount == 1

        return await self._run(work)

    async def transaction(self, *statements: TransactionStep) -> bool:
        """Execute statements, all or none; end it with False after the first that is decisive and does not change one row.

        Raises `StateError`.
        """

        async def work(connection: Connection) -> bool:
            async with connection.transaction():
                for one in statements:
                    cursor = await connection.execute(one.text.encode(), one.values)
                    if one.decisive and cursor.rowcount != 1:
                        return False
            return True

        return await self._run(work)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()

    async def _run(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        """Run work on the connection. A connection that failed is not used again. Raises `StateError`."""
        try:
            import psycopg  # noqa: PLC0415 - behind the extra `postgres`
        except ImportError:
            raise StateError(
                f"{self._kept} in PostgreSQL need psycopg",
                suggestion='install it with: pip install "toolgen[postgres]"',
            ) from None
        async with self._turn:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    if self._connection is None:
                        self._connection = await psycopg.AsyncConnection.connect(self._location(), autocommit=True)
                        await self._connection.execute(self._schema.encode())
                    return await work(self._connection)
            except (psycopg.Error, TimeoutError, OSError) as error:
                await self._drop()
                raise StateUnavailableError(
                    f"{self._kept} cannot be stored or read: PostgreSQL cannot be used ({type(error).__name__})"
                ) from None
            except asyncio.CancelledError:
                await self._drop()  # an answer may still be on its way
                raise

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
