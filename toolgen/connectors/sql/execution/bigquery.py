"""BigQuery: a dry run that says what the service itself understood, then a query job of our own name, its rows page by page.

A statement runs if the dry run calls it a SELECT over tables that the guard has noted, and the account has no right to write these tables.
It is ended by `jobs.cancel` whenever its rows are not read to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from toolgen.connectors.http.connector import EgressRefusal
from toolgen.connectors.sql.execution.bigquery_service import (
    VIEWS,
    WRITING,
    BigqueryService,
    LostAnswerError,
    ServiceError,
    reason_of,
)
from toolgen.connectors.sql.execution.bigquery_values import (
    UnknownValueError,
    decoded,
    fields_of,
    parameters,
    type_name,
)
from toolgen.connectors.sql.execution.engine_errors import (
    CHANGED,
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
    timed_out,
    unavailable,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import (
    AnswerTooLargeError,
    DatabaseUnreachableError,
    most_received,
)
from toolgen.core.clock import Clock
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["BigqueryEngine", "DryRun", "dry_run"]

_WAIT_S: Final = 1.0  # seconds to wait while as many statements run as the source has connections
_RETRY_S: Final = 1.0
_CANCEL_S: Final = 5.0
_AGAIN_S: Final = 0.05
_CHECKED_S: Final = 300.0  # seconds until the rights on a table, and the tables of a view, are asked for again
_MAX_LISTED: Final = 50  # tables of which the service lists no more
_PAGE: Final = 500
_MAX_PAGE: Final = 20_000_000  # bytes
# https://cloud.google.com/bigquery/docs/error-messages
_REASONS: Final[Mapping[str, Reason]] = {
    "accessDenied": Reason(
        "the account of the source may not do this",
        "the operator should grant it roles/bigquery.jobUser on the project, and roles/bigquery.dataViewer on the tables",
        code="upstream_error",
    ),
    "notFound": CHANGED,
    "invalidQuery": Reason(
        "the database does not accept the statement, or a value in its rows",
        "check types: compare and combine values of one type, and convert them with SAFE_CAST(x AS type)",
        ("grouping", "function"),
    ),
    "invalid": UNKNOWN,
    "bytesBilledLimitExceeded": Reason(
        "the statement would read more bytes than the source may be billed for",
        "read fewer columns, or filter on the column by which the table is partitioned",
        code="response_too_large",
    ),
    "responseTooLarge": Reason(
        "the result is too large for the service", "reduce the result: filter, or aggregate", code="response_too_large"
    ),
    "resourcesExceeded": Reason(
        "the statement exceeds the memory of the service", "reduce it: filter, or aggregate", code="response_too_large"
    ),
}
_BUSY: Final = frozenset(
    {"backendError", "internalError", "jobBackendError", "jobInternalError", "jobRateLimitExceeded", "quotaExceeded", "rateLimitExceeded"}
)  # fmt: skip


class DryRun(Struct, frozen=True, kw_only=True):
    """Answer to a dry run of a statement: its kind, its tables (`project.dataset.table`; None if it does not say), the bytes
    that it would read, and the fields of its rows."""

    kind: str
    tables: frozenset[str] | None
    bytes_read: int
    fields: tuple[Mapping[str, Any], ...] = ()


class _RefusedRunError(Exception):
    """Statement that is not run, with the failure to report."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.error.message)
        self.failure = failure


class BigqueryEngine:
    """Engine for statements on the dataset of a location."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        """Create an engine, without a connection. Raises `ConfigError`."""
        self._service = BigqueryService(location, reach, clock)
        self._location = location
        self._clock = clock
        self._free = asyncio.Semaphore(location.pool_size)
        self._readable: dict[str, float] = {}  # tables on which the account has no right to write, until a time
        self._views: dict[str, tuple[frozenset[str], float]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, statement: Statement) -> Success | Failed:
        return await self._limited(statement, self._rows)

    async def explain(self, statement: Statement) -> Success | Failed:
        """Return what a dry run tells of the statement, which is not run: its kind, its tables and the bytes that it would read."""
        return await self._limited(statement, self._plan)

    async def change(self, statement: Statement) -> Success | Failed:
        """Refuse the change: the engine has no transaction to roll back."""
        return not_a_change(statement)

    async def close(self) -> None:
        """Close the connections, after the jobs that are being cancelled."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=_CANCEL_S)
        await self._service.close()

    async def _limited(self, statement: Statement, work: Any) -> Success | Failed:
        """Run `work` within the time of the statement and the number of connections, and return a failure for each of its errors."""
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            return unavailable(
                f"all {self._location.pool_size} connections to the database are in use",
                "the operator can raise pool_size",
                retry_after_s=_RETRY_S,
            )
        try:
            async with asyncio.timeout(statement.timeout_s):
                result: Success | Failed = await work(statement)
                return result
        except _RefusedRunError as refused:
            return refused.failure
        except TimeoutError:
            return timed_out(statement)
        except ServiceError as error:
            return _explained(error, statement)
        except EgressRefusal as refusal:
            verdict = refusal.verdict
            return Failed(
                error=Error(
                    code="egress_refused", message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule
                )
            )
        except DatabaseUnreachableError as error:
            return unavailable(error.reason, error.suggestion, retry_after_s=_RETRY_S)
        except AnswerTooLargeError:
            return failed(
                "response_too_large",
                f"one row of the answer has more than {_page_size(statement) // 1_000_000} MB",
                "select a smaller part, for example with substr, or fewer rows in an aggregate",
                Delivery(sql=statement.sql),
            )
        except (LostAnswerError, UnknownValueError):
            return failed(
                "upstream_error",
                "the service gave no answer, or one that its interface does not describe",
                "call again; if that fails too, tell the operator",
                Delivery(sql=statement.sql),
            )
        finally:
            self._free.release()

    async def _plan(self, statement: Statement) -> Success:
        found = await self._checked(statement)
        names = ("statement_type", "bytes_processed", "tables")
        answer = RowCollector(
            statement,
            [
                AnswerColumn(name=name, type=kind)
                for name, kind in zip(names, ("STRING", "INT64", "ARRAY<STRING>"), strict=True)
            ],
        )
        answer.take([found.kind, found.bytes_read, sorted(statement.tables)])
        return answer.success()

    async def _rows(self, statement: Statement) -> Success:
        await self._checked(statement)
        async with self._job(statement) as job:
            return await self._read(statement, job)

    # before the run

    async def _checked(self, statement: Statement) -> DryRun:
        """Return the dry run of a statement. Raises `_RefusedRunError` unless it is a SELECT over the guard's tables, which the account
        cannot write."""
        await self._check_rights(statement)
        place = self._service.place
        found = await dry_run(self._service, statement)
        if found.kind != "SELECT" and not (place.emulator and not found.kind):
            _refuse(statement, "the service does not read the statement as a query", "send a SELECT")
        if found.tables is None:
            if not place.emulator:
                _refuse(statement, "the service does not say which tables the statement reads", "tell the operator")
        elif len(found.tables) >= _MAX_LISTED or not found.tables <= await self._readable_tables(
            statement, found.tables
        ):
            _refuse(
                statement,
                "the service reads other tables in the statement than the guard",
                "write it more simply, with the listed tables",
            )
        if found.bytes_read > place.most_billed:
            raise ServiceError(400, "bytesBilledLimitExceeded")
        return found

    async def _check_rights(self, statement: Statement) -> None:
        """Refuse a statement if the account may write one of its tables. An emulator has no rights."""
        if self._service.place.emulator:
            return
        now = self._clock.monotonic()
        for table in sorted(statement.tables):
            if self._readable.get(table, 0.0) > now:
                continue
            if held := await self._service.permissions(table, WRITING):
                _refuse(
                    statement,
                    "the account of the source may change the table, and the gateway serves only accounts that read",
                    f"the operator should take {', '.join(sorted(held))} from it: roles/bigquery.dataViewer is enough",
                    code="upstream_error",
                )
            self._readable[table] = now + _CHECKED_S

    async def _readable_tables(self, statement: Statement, referenced: frozenset[str]) -> frozenset[str]:
        """Return the tables that a statement may read: its own, and those of its views, as dry runs of the views alone say."""
        place = self._service.place
        own = frozenset(f"{place.project}.{place.dataset}.{table}" for table in statement.tables)
        if referenced <= own:
            return own
        found = set(own)
        for table in sorted(statement.tables):
            known, until = self._views.get(table, (frozenset(), 0.0))
            if until <= self._clock.monotonic() and not await self._is_view(table):
                known, until = frozenset(), self._clock.monotonic() + _CHECKED_S
            if until <= self._clock.monotonic():
                alone = Statement(
                    sql=f"SELECT 1 FROM `{table}`",  # noqa: S608 - a name of the schema, without quotes and dots
                    parameters=(),
                    tables=frozenset({table}),
                    columns=frozenset(),
                    max_rows=1,
                    max_bytes=1,
                    max_cell_bytes=1,
                    timeout_s=statement.timeout_s,
                )
                known = (await dry_run(self._service, alone)).tables or frozenset()
                until = self._clock.monotonic() + _CHECKED_S
            self._views[table] = (known, until)
            found |= known
        return frozenset(found)

    async def _is_view(self, table: str) -> bool:
        path = f"datasets/{self._service.place.dataset}/tables/{quote(table, safe='')}"
        return (await self._service.get(path, _MAX_PAGE)).get("type") in VIEWS

    # the run

    @contextlib.asynccontextmanager
    async def _job(self, statement: Statement) -> AsyncIterator[str]:
        """Start a job, and cancel it unless its rows were read to the end."""
        name = f"toolgen_{secrets.token_hex(16)}"
        place = self._service.place
        reference = {"projectId": place.project, "jobId": name, **({"location": place.region} if place.region else {})}
        try:
            answer = await self._service.post(
                "jobs",
                {
                    "jobReference": reference,
                    "configuration": {
                        "jobTimeoutMs": str(max(1, int(statement.timeout_s * 1000))),
                        "labels": {"application": "toolgen"},
                        "query": _query(self._service, statement),
                    },
                },
            )
            _raise_error(answer)
            yield name
        except BaseException as error:
            if not isinstance(error, ServiceError):
                self._cancel(name)
            raise

    def _cancel(self, job: str) -> None:
        """Ask the service to end a job, also when the caller is gone."""
        task = asyncio.create_task(self._cancelled(job))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _cancelled(self, job: str) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CANCEL_S):
                await self._service.post(f"jobs/{job}/cancel", location=self._service.place.region)

    async def _read(self, statement: Statement, job: str) -> Success:
        """Return the rows of a job, page by page. A page that is too large is asked for again with fewer rows."""
        answer: RowCollector | None = None
        fields: tuple[Mapping[str, Any], ...] = ()
        token, size = "", min(statement.max_rows + 1, _PAGE)
        while True:
            try:
                page = await self._page(statement, job, token, size)
            except AnswerTooLargeError:
                if size == 1:
                    raise
                size = max(1, size // 8)
                continue
            if page.get("jobComplete") is not True:
                await asyncio.sleep(_AGAIN_S)
                continue
            if page.get("errors"):  # the list has warnings too: the job itself says whether it failed
                _raise_error(await self._service.get(f"jobs/{job}", location=self._service.place.region))
            if answer is None:
                fields = tuple(fields_of(page.get("schema")))
                answer = RowCollector(
                    statement, [AnswerColumn(name=one["name"], type=type_name(one)) for one in fields]
                )
            for row in _rows_of(page):
                if not answer.take(_cells(row, fields)):
                    return answer.success()  # the job has ended, and its other rows are not read
            token = page.get("pageToken") or ""
            if not token:
                return answer.success()

    async def _page(self, statement: Statement, job: str, token: str, size: int) -> dict[str, Any]:
        return await self._service.get(
            f"queries/{job}",
            _page_size(statement),
            location=self._service.place.region,
            maxResults=str(size),
            timeoutMs=str(max(1, int(statement.timeout_s * 1000))),
            pageToken=token,
            **{"formatOptions.useInt64Timestamp": "true"},
        )


def _page_size(statement: Statement) -> int:
    return min(most_received(statement), _MAX_PAGE)


def _refuse(statement: Statement, message: str, suggestion: str, code: Any = "sql_failed") -> None:
    raise _RefusedRunError(failed(code, message, suggestion, Delivery(sql=statement.sql)))


async def dry_run(service: BigqueryService, statement: Statement) -> DryRun:
    """Return what the service understands of a statement, without running it. Raises as `BigqueryService` does, and `UnknownValueError`."""
    place = service.place
    body: dict[str, object] = {
        "configuration": {"dryRun": True, "query": {**_query(service, statement), "useQueryCache": False}}
    }
    if place.region:
        body["jobReference"] = {"projectId": place.project, "location": place.region}
    answer = await service.post("jobs", body)
    _raise_error(answer)
    statistics = answer.get("statistics")
    found = statistics.get("query") if isinstance(statistics, dict) else None
    if not isinstance(found, dict):
        raise UnknownValueError
    amount = found.get(
        "totalBytesProcessed", statistics.get("totalBytesProcessed") if isinstance(statistics, dict) else None
    )
    if not isinstance(amount, str) or not amount.isascii() or not amount.isdigit():
        raise UnknownValueError
    schema = found.get("schema")
    return DryRun(
        kind=str(found.get("statementType") or ""),
        tables=_tables(found.get("referencedTables")),
        bytes_read=int(amount),
        fields=tuple(fields_of(schema)) if schema is not None else (),
    )


def _tables(listed: object) -> frozenset[str] | None:
    if listed is None:
        return None
    if not isinstance(listed, list):
        raise UnknownValueError
    names = []
    for one in listed:
        parts = [one.get(part) for part in ("projectId", "datasetId", "tableId")] if isinstance(one, dict) else [None]
        if not all(isinstance(part, str) for part in parts):
            raise UnknownValueError
        names.append(".".join(str(part) for part in parts))
    return frozenset(names)


def _query(service: BigqueryService, statement: Statement) -> dict[str, object]:
    """Return a JobConfigurationQuery: never legacy SQL, no destination, no script variables, and a cap on what it may cost."""
    place = service.place
    query: dict[str, object] = {
        "query": statement.sql,
        "useLegacySql": False,
        "defaultDataset": {"projectId": place.project, "datasetId": place.dataset},
        "maximumBytesBilled": str(place.most_billed),
        "priority": "INTERACTIVE",
    }
    if statement.parameters:
        query["parameterMode"] = "POSITIONAL"
        query["queryParameters"] = parameters(statement.parameters, statement.parameter_types)
    return query


def _rows_of(page: Mapping[str, Any]) -> Iterator[list[Any]]:
    for row in page.get("rows") or ():
        cells = row.get("f") if isinstance(row, dict) else None
        if not isinstance(cells, list):
            raise UnknownValueError
        yield cells


def _cells(row: list[Any], fields: tuple[Mapping[str, Any], ...]) -> list[object]:
    if len(row) != len(fields):
        raise UnknownValueError
    return [decoded(cell, field) for cell, field in zip(row, fields, strict=True)]


def _raise_error(job: Mapping[str, Any]) -> None:
    """Raise `ServiceError` if a job failed."""
    status = job.get("status")
    error = status.get("errorResult") if isinstance(status, dict) else None
    if error is not None:
        raise ServiceError(400, reason_of(error) or "unknown")


def _explained(error: ServiceError, statement: Statement) -> Failed:
    """Return our own message for a refusal of the service, because its texts may quote the data."""
    if error.reason in {"stopped", "timeout"}:
        return timed_out(statement)
    if error.reason in _BUSY or error.status in {429, 500, 502, 503, 504}:
        return unavailable("the service is busy, or a quota of the project is used up", retry_after_s=_RETRY_S)
    if error.status == 401:
        return failed("upstream_error", "the service does not accept the account of the source", "tell the operator")
    return failure_with_advice(_REASONS.get(error.reason, UNKNOWN), statement)
