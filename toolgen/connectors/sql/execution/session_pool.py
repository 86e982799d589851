"""Statements on pooled sessions of PostgreSQL and MySQL: bounded in time as a whole, with one error for a lost server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic

from toolgen.connectors.http.connector import EgressRefusal
from toolgen.connectors.sql.execution.connections import C, Driver, LostConnectionError, Pool, PoolExhaustedError
from toolgen.connectors.sql.execution.engine_errors import failed, timed_out, unavailable
from toolgen.core.clock import Clock
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["AnswerTooLargeError", "DatabaseUnreachableError", "SessionPool", "most_received"]

_WAIT_S: Final = 1.0  # for a session while all are in use
_GRACE_S: Final = 1.0  # beyond the statement's own time, which the server keeps
_RETRY_S: Final = 1.0
_SLACK: Final = 8_000_000  # bytes: a row may hold more than is given of it, but not any amount


class AnswerTooLargeError(Exception):
    """The server sends more than is read of one answer. What is left of it is on its way, so the connection is of no use."""


def most_received(statement: Statement) -> int:
    """Number of bytes that a server may send at once of what is cut to the statement's limits afterwards."""
    return 4 * statement.max_bytes + _SLACK


class DatabaseUnreachableError(Exception):
    """No session could be made. `reason` and `suggestion` are our own words, for the caller and the operator."""

    def __init__(self, reason: str, suggestion: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.suggestion = suggestion


class SessionPool(Generic[C]):
    """The sessions of one source. The pool is made at the first statement: it belongs to the loop that runs it."""

    def __init__(self, driver: Driver[C], location: ServerLocation, clock: Clock, *, wait_s: float = _WAIT_S) -> None:
        self._driver = driver
        self._location = location
        self._clock = clock
        self._wait_s = wait_s
        self._pool: Pool[C] | None = None

    async def run(
        self, statement: Statement, work: Callable[[C], Awaitable[Success | Failed]], lost: tuple[type[Exception], ...]
    ) -> Success | Failed:
        """Run `work` with a session from the pool and return its result. A session is lost if `work` raises an exception in `lost`."""
        connect_s = self._location.connect_timeout_s
        try:
            async with asyncio.timeout(self._wait_s + connect_s + statement.timeout_s + 2 * _GRACE_S):
                async with self._opened().session(statement.timeout_s) as session:
                    async with asyncio.timeout(statement.timeout_s + _GRACE_S):
                        return await work(session)
        except PoolExhaustedError:
            return unavailable(
                f"all {self._location.pool_size} connections to the database are in use",
                "the operator can raise pool_size",
                retry_after_s=_RETRY_S,
            )
        except DatabaseUnreachableError as error:
            return unavailable(error.reason, error.suggestion, retry_after_s=_RETRY_S)
        except EgressRefusal as refusal:
            verdict = refusal.verdict
            return Failed(
                error=Error(
                    code="egress_refused", message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule
                )
            )
        except LostConnectionError:
            return unavailable("the database closed the connection", retry_after_s=_RETRY_S)
        except AnswerTooLargeError:
            return failed(
                "response_too_large",
                f"one row of the answer has more than {most_received(statement) // 1_000_000} MB",
                "select less of it, for example with substr, or fewer rows in an aggregate",
                Delivery(sql=statement.sql),
            )
        except TimeoutError:
            return timed_out(statement)
        except lost:
            # Whatever ended it may be the statement itself: what made a server give up is not to be sent again as it is.
            return failed(
                "upstream_error",
                "the database ended the connection while the statement ran",
                "ask for less in one statement; if a small one fails too, tell the operator",
                Delivery(sql=statement.sql),
            )

    async def close(self) -> None:
        """Closes what is idle."""
        if self._pool is not None:
            await self._pool.close()

    def _opened(self) -> Pool[C]:
        if self._pool is None:
            self._pool = Pool(self._driver, size=self._location.pool_size, wait_s=self._wait_s, clock=self._clock)
        return self._pool
