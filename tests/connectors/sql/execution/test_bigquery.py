"""BigQuery's executor and reader: on a stand-in for what proves a statement before it runs, and on an emulator for answers.

No Google account took part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.sql.execution.bigquery_stand_in import ALL_RIGHTS, TOKEN, StandIn, standing_in
from tests.connectors.sql.guard.bigquery_lab import CANARY, DATABASE, HONEST, SCOPE, SCRIPT, judged
from tests.databases import bigquery_dataset, rows, sql_call, statement
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.outbound.tls import context_of
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.secrets import SecretReference
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.account_needs import needed_privileges
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.bigquery_service import place_of
from toolgen.connectors.sql.execution.bigquery_values import UnknownValueError, decoded, parameters, type_name
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.fitting_account import fitting_account
from toolgen.connectors.sql.reading.read import read_rights
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Allow, Deny, Verdict


@pytest.fixture(name="service")
def _service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(tmp_path) as (state, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        context_of.cache_clear()
        yield state
    context_of.cache_clear()
    assert state.faults == []


async def run(
    service: StandIn, given: Statement | None = None, operation: str = "query", **options: Any
) -> Success | Failed:
    """The result of a statement on the table orders."""
    key = SecretReference(provider="literal", locator=service.key())
    executor = SqlExecutor(service.location(options.pop("location", "")), password=key, **options)
    asked = given or statement("SELECT id FROM orders", tables=frozenset({"orders"}))
    try:
        return await executor.execute(sql_call("bigquery", operation, asked))
    finally:
        await executor.close()


def ran(service: StandIn) -> int:
    """The number of jobs that were no dry runs."""
    return sum(path == "jobs" and not body["configuration"].get("dryRun") for _, path, body in service.asked)


async def test_a_statement_runs_after_its_dry_run_and_with_a_cap(service: StandIn) -> None:
    given = statement("SELECT id FROM orders WHERE id = ?", 1, tables=frozenset({"orders"}))
    assert rows(await run(service, given, location="maximum_bytes_billed=123&region=EU")) == [[1]]
    jobs = [body for _, path, body in service.asked if path == "jobs"]
    assert [job["configuration"].get("dryRun", False) for job in jobs] == [True, False]
    for job in jobs:
        query = job["configuration"]["query"]
        assert query["maximumBytesBilled"] == "123"
        assert query["queryParameters"] == parameters([1], [])
        assert job["jobReference"]["location"] == "EU"
    assert service.tokens == 1
    assert service.cancelled == []


@pytest.mark.parametrize(
    "change",
    [
        {"statementType": "DELETE"},
        {"statementType": "SCRIPT"},
        {"statementType": None},
        {"referencedTables": None},
        {"referencedTables": [{"projectId": "lab-project", "datasetId": "shop", "tableId": "vault"}]},
        {"referencedTables": [{"projectId": "lab-project", "datasetId": "hr", "tableId": "orders"}]},
        {"referencedTables": [{"projectId": "other-project", "datasetId": "shop", "tableId": "orders"}]},
        {"referencedTables": [{"projectId": "lab-project", "datasetId": "shop", "tableId": "Orders"}]},
        {"referencedTables": [{"tableId": "orders"}]},
        {"referencedTables": "orders"},
        {"referencedTables": [{"projectId": "lab-project", "datasetId": "shop", "tableId": f"t{n}"} for n in range(50)]},
        {"totalBytesProcessed": None},
        {"totalBytesProcessed": "1000000001"},
        {"totalBytesProcessed": "-1"},
    ],
    ids=str,
)  # fmt: skip
async def test_what_the_service_reads_otherwise_does_not_run(service: StandIn, change: dict[str, Any]) -> None:
    service.statistics = lambda _sql: {**service.said("orders"), **change}
    result = await run(service)
    assert isinstance(result, Failed)
    assert ran(service) == 0


async def test_a_view_reads_the_tables_that_it_reads_alone(service: StandIn) -> None:
    service.statistics = lambda sql: service.said("orders", "vault") if "FROM `orders`" in sql else service.said(*read)
    read: tuple[str, ...] = ("vault",)
    assert isinstance(await run(service), Failed)
    service.tables["orders"]["type"] = "VIEW"
    assert isinstance(await run(service), Success)
    read = ("vault", "elsewhere")
    assert isinstance(await run(service), Failed)
    assert ran(service) == 1


async def test_an_account_that_may_write_a_table_is_not_served(service: StandIn) -> None:
    service.rights["orders"] = ALL_RIGHTS
    result = await run(service)
    assert isinstance(result, Failed)
    assert "updateData" in result.error.suggestion
    assert ran(service) == 0
    with pytest.raises(DescriptionError, match="may change the table orders"):
        read(service)


def read(service: StandIn) -> Any:
    """The schema."""
    config = SourceConfig(name="lab", kind="sql", location=service.location())
    return CONNECTORS["sql"].read(config, service.key).info.database


def test_the_tools_have_a_description_of_what_a_dry_run_tells(service: StandIn) -> None:
    config = SourceConfig(name="lab", kind="sql", location=service.location())
    tools = {tool.name: tool.description for tool in CONNECTORS["sql"].read(config, service.key).tools}
    assert {"lab__query", "lab__explain", "lab__list_tables", "lab__describe_table"} <= {*tools}
    assert "bytes" in tools["lab__explain"]


def test_a_schema_is_read_without_external_tables_and_with_functions(service: StandIn) -> None:
    fields = [
        {"name": "tags", "type": "STRING", "mode": "REPEATED", "description": "Words"},
        {"name": "place", "type": "RECORD", "fields": [{"name": "city", "type": "STRING"}]},
        {"name": "a`b", "type": "STRING"},
    ]
    service.tables |= {
        "far": {"type": "EXTERNAL", "schema": {"fields": fields}},
        "seen": {"type": "VIEW", "description": "A view", "schema": {"fields": fields}},
    }
    database = read(service)
    assert [(table.name, table.view, table.comment) for table in database.tables] == [
        ("orders", False, ""),
        ("seen", True, "A view"),
    ]
    assert [(one.name, one.type) for one in database.tables[1].columns] == [
        ("tags", "ARRAY<STRING>"),
        ("place", "STRUCT<city STRING>"),
    ]
    assert database.functions == ("twice",)
    assert not database.tables[0].columns[0].nullable
    rights = read_rights(SourceConfig(name="lab", kind="sql", location=service.location()), service.key())
    assert {grant.table for grant in rights.grants} == {"orders", "seen"}


async def test_a_revoked_token_is_replaced_once(service: StandIn) -> None:
    key = SecretReference(provider="literal", locator=service.key())
    executor = SqlExecutor(service.location(), password=key)
    asked = sql_call("bigquery", "query", statement("SELECT id FROM orders", tables=frozenset({"orders"})))
    try:
        assert isinstance(await executor.execute(asked), Success)
        service.token = "another-token"
        assert isinstance(await executor.execute(asked), Success)
    finally:
        await executor.close()
    assert service.tokens == 2


async def test_rows_are_read_page_by_page_up_to_the_limit(service: StandIn) -> None:
    service.rows = [{"f": [{"v": str(number)}]} for number in range(50)]
    service.page = 20
    result = await run(service, statement("SELECT id FROM orders", tables=frozenset({"orders"}), max_rows=45))
    assert len(rows(result)) == 45
    assert isinstance(result, Success)
    assert result.truncated


async def test_a_page_that_is_too_large_is_asked_for_in_parts(service: StandIn) -> None:
    service.fields = [{"name": "text", "type": "STRING"}]
    service.rows = [{"f": [{"v": "x" * 2_000_000}]} for _ in range(12)]
    given = statement(
        "SELECT text FROM orders", tables=frozenset({"orders"}), max_rows=10, max_bytes=1_000_000, max_cell_bytes=100
    )
    result = await run(service, given)
    assert len(rows(result)) == 10
    service.rows = [{"f": [{"v": "x" * 30_000_000}]}]
    refused = await run(service, given)
    assert isinstance(refused, Failed)
    assert refused.error.code == "response_too_large"


async def test_a_job_is_cancelled_at_its_time_and_when_its_caller_leaves(service: StandIn) -> None:
    service.complete = False
    result = await run(service, statement("SELECT id FROM orders", tables=frozenset({"orders"}), timeout_s=0.6))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_timeout"
    before = len(service.cancelled)
    assert before >= ran(service)  # on a slow machine the time is up before a job is sent
    task = asyncio.create_task(
        run(service, statement("SELECT id FROM orders", tables=frozenset({"orders"}), timeout_s=60))
    )
    await asyncio.to_thread(service.awaited)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(service.cancelled) == before + 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("invalidQuery", "sql_failed"),
        ("accessDenied", "upstream_error"),
        ("rateLimitExceeded", "upstream_unavailable"),
        ("responseTooLarge", "response_too_large"),
        ("stopped", "upstream_timeout"),
        ("a word that CANARY is not", "upstream_error"),
    ],
)
async def test_an_error_tells_nothing_of_the_data(service: StandIn, reason: str, code: str) -> None:
    service.error = {"reason": reason, "message": f"Bad int64 value: {CANARY}"}
    result = await run(service)
    assert isinstance(result, Failed)
    assert result.error.code == code
    assert "CANARY" not in str(result)


async def test_a_warning_is_no_error_unless_the_job_says_so(service: StandIn) -> None:
    service.warnings = [{"reason": "tableUnavailable", "message": CANARY}]
    assert rows(await run(service)) == [[1]]
    service.late_error = {"reason": "invalidQuery", "message": CANARY}
    result = await run(service)
    assert isinstance(result, Failed)
    assert result.error.code == "sql_failed"
    assert CANARY not in str(result)


@pytest.mark.parametrize("rows", [[{"f": []}], [{"f": [{"v": "x"}]}], [7], [{"f": [{"v": {"f": []}}]}]], ids=str)
async def test_a_row_that_is_not_described_is_an_error(service: StandIn, rows: list[Any]) -> None:
    service.rows = rows
    result = await run(service)
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_error"


async def test_the_policy_is_asked_about_the_address_before_anything_is_sent(service: StandIn) -> None:
    seen: list[Destination] = []

    def permit(destination: Destination) -> Verdict:
        seen.append(destination)
        closed = destination.service == "database" and destination.address
        return Deny(rule="egress", reason="closed", code="egress_refused") if closed else Allow(rule="egress")

    result = await run(service, permit=permit)
    assert isinstance(result, Failed)
    assert result.error.code == "egress_refused"
    assert service.asked == []
    assert {one.service for one in seen} == {"database", "keys"}


async def test_neither_key_nor_token_is_in_a_failure(service: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    service.answer = lambda *_: (500, {"error": {"message": TOKEN}})  # type: ignore[method-assign]
    result = await run(service)
    wrong = SqlExecutor(service.location(), password=SecretReference(provider="literal", locator="canary-no-key"))
    other = await wrong.execute(sql_call("bigquery", "query", statement("SELECT 1")))
    await wrong.close()
    written = f"{result!r} {other!r} {capfd.readouterr()}"
    assert isinstance(other, Failed)
    assert "PRIVATE KEY" not in written
    assert "canary" not in written


@pytest.mark.parametrize(
    "location",
    [
        "bigquery://lab-project@bigquery.googleapis.com/shop?service=emulator",
        "bigquery://lab-project@localhost:9050/shop?service=emulator",
        "bigquery://lab-project@127.0.0.1/shop?service=other",
        "bigquery://lab-project@bigquery.googleapis.com/shop?sslmode=disable",
        "bigquery://lab-project@bigquery.googleapis.com/shop?maximum_bytes_billed=0",
        "bigquery://lab-project@bigquery.googleapis.com/shop?maximum_bytes_billed=1e9",
        "bigquery://lab-project@bigquery.googleapis.com/shop?region=EU%26x",
        "bigquery://Lab@bigquery.googleapis.com/shop",
        "bigquery://lab-project@bigquery.googleapis.com/shop.vault",
        "bigquery://lab-project@bigquery.googleapis.com/..",
    ],
)
def test_a_location_that_could_lead_elsewhere_is_refused(location: str) -> None:
    parsed = location_of(location)
    assert isinstance(parsed, ServerLocation)
    with pytest.raises(ConfigError):
        place_of(parsed)


def test_options_of_one_engine_are_unknown_to_others() -> None:
    with pytest.raises(ConfigError, match="region"):
        location_of("postgresql://a@b/c?region=EU")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INTEGER", "1.5"), ("BOOLEAN", "yes"), ("NUMERIC", "x"), ("BYTES", "*"), ("STRING", 1), ("RECORD", {"f": [{}]}),
    ],
)  # fmt: skip
def test_a_value_of_another_form_is_not_guessed(kind: str, value: object) -> None:
    with pytest.raises(UnknownValueError):
        decoded({"v": value}, {"name": "x", "type": kind, "fields": []})


def test_a_type_without_an_end_is_refused() -> None:
    field: dict[str, Any] = {"name": "x", "type": "RECORD"}
    field["fields"] = [field]
    with pytest.raises(UnknownValueError):
        type_name(field)


def test_a_fitting_account_reads_the_open_tables_and_no_others() -> None:
    location = location_of("bigquery://lab-project@bigquery.googleapis.com/shop")
    assert isinstance(location, ServerLocation)
    first, *grants = fitting_account(location, DATABASE, needed_privileges(DATABASE, SCOPE), (), "toolgen_lab")
    assert first.startswith("--")
    to = '"serviceAccount:toolgen-lab@PROJECT.iam.gserviceaccount.com"'
    assert grants == [
        f"GRANT `roles/bigquery.dataViewer` ON TABLE `shop`.`{name}` TO {to}"
        for name in ("customers", "orders", "tickets")
    ]


# on an emulator


@pytest.fixture(scope="module", name="location")
def _location() -> Iterator[str]:
    with bigquery_dataset(*SCRIPT) as location:
        yield location


async def test_honest_statements_are_answered_and_the_hidden_value_never(location: str) -> None:
    executor = SqlExecutor(location)
    faults = []
    try:
        for sql, wanted in HONEST:
            verdict = judged(sql)
            assert isinstance(verdict, Statement), sql
            result = await executor.execute(sql_call("bigquery", "query", verdict))
            found = result.data["rows"] if isinstance(result, Success) and isinstance(result.data, dict) else result
            if found != wanted or CANARY in str(result):
                faults.append(f"{sql}\n  {verdict.sql}\n  {found}")
    finally:
        await executor.close()
    assert not faults, "\n".join(faults)
