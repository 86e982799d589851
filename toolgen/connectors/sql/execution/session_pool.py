"""Statements on pooled sessions of PostgreSQL and MySQL: limited in total time, with one error for a lost server."""

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

_WAIT_S: Final = 1.0  # seconds to wait for a session while all are in use
_GRACE_S: Final = 1.0  # seconds in addition to the statement's own limit, which the server enforces
_RETRY_S: Final = 1.0
_SLACK: Final = 8_000_000  # bytes: a row may be larger than the returned part, but not without limit


class AnswerTooLargeError(Exception):
    """Answer over the size limit. The rest of it is still arriving, so the connection must be discarded."""


def most_received(statement: Statement) -> int:
    """Return the number of bytes that a server may send at once, before the data is cut to the statement's limits."""
    return 4 * statement.max_bytes + _SLACK


class DatabaseUnreachableError(Exception):
    """Failure to open a session. `reason` and `suggestion` are our own words, for the caller and the operator."""

    def __init__(self, reason: str, suggestion: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.suggestion = suggestion


class SessionPool(Generic[C]):
    """Sessions of one source. The pool is made at the first statement, because it belongs to the event loop of that statement."""

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
                "select a smaller part, for example with substr, or fewer rows in an aggregate",
                Delivery(sql=statement.sql),
            )
        except TimeoutError:
            return timed_out(statement)
        except lost:
            # The statement itself may have ended the connection, so it must not be sent again unchanged.
            return failed(
                "upstream_error",
                "the database ended the connection while the statement ran",
                "send a smaller statement; if that fails too, tell the operator",
                Delivery(sql=statement.sql),
            )

    async def close(self) -> None:
        """Close idle sessions."""
        if self._pool is not None:
            await self._pool.close()

    def _opened(self) -> Pool[C]:
        if self._pool is None:
            self._pool = Pool(self._driver, size=self._location.pool_size, wait_s=self._wait_s, clock=self._clock)
        return self._pool
