"""Statements written to get past the SQL guard, and statements handed to the session as if they had."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.connectors.sql.guard.lab import ATTRIBUTES, DATABASE, SCOPE, allowed, refused, write
from tests.databases import sql_tool
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.call_guard import SqlGuard
from toolgen.model.call import Call, Principal, Statement
from toolgen.model.result import Failed, Refused, Result, Success
from toolgen.model.verdict import Allow
from toolgen.pipeline.middleware import CallContext, guarded
from toolgen.pipeline.stages.guards import InspectStage

pytestmark = pytest.mark.usefixtures("sql_processes")

CASES = Path(__file__).parent / "sql"
CANARY = "CNRY-"


def cases(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def call(sql: str, parameters: list[object] | None = None) -> Call:
    tool = sql_tool("sqlite", "query")
    arguments = {"sql": sql, "parameters": parameters or []}
    return Call(id="1", tool=tool, arguments=arguments, principal=Principal(id="p", attributes=ATTRIBUTES))  # type: ignore[arg-type]


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[SqlExecutor]:
    path = write(tmp_path / "lab.db")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    executor = SqlExecutor(f"sqlite:///{path}")
    yield executor
    asyncio.run(executor.close())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [item.name for item in tmp_path.iterdir()] == ["lab.db"]


@pytest.mark.parametrize("case", cases("refused.jsonl"), ids=lambda case: case["sql"][:60])
async def test_an_attack_is_refused_by_its_rule_and_never_reaches_the_executor(case: dict[str, str]) -> None:
    reached: list[Call] = []

    async def deliver(delivered: Call, call_context: CallContext) -> Result:
        reached.append(delivered)
        return Success(data=None)

    stage = InspectStage(
        guards={"lab": partial(SqlGuard().verdict, database=DATABASE, scope=SCOPE)},
        destination=lambda url, source: Allow(rule="none"),
    )
    result = await guarded(stage)(call(case["sql"]), CallContext(), deliver)
    assert isinstance(result, Refused)
    assert (result.error.code, result.error.rule) == ("sql_refused", case["rule"])
    assert reached == []


@pytest.mark.parametrize("case", cases("refused.jsonl"), ids=lambda case: case["sql"][:60])
def test_a_refusal_names_nothing_a_principal_may_not_know_of(case: dict[str, str]) -> None:
    verdict = refused(case["sql"])
    hidden = {"users_secret", "all_secrets", "canary", "ssn"} - set(case["sql"].lower().replace("`", " ").split())
    said = verdict.suggestion.lower()
    assert not [name for name in hidden if name in said]


def test_a_hidden_table_is_refused_in_the_words_for_one_that_does_not_exist() -> None:
    hidden, absent = refused("SELECT * FROM users_secret"), refused("SELECT * FROM users_public")
    assert hidden.reason.replace("users_secret", "x") == absent.reason.replace("users_public", "x")
    assert (hidden.rule, hidden.suggestion) == (absent.rule, absent.suggestion)


def test_a_hidden_column_is_refused_in_the_words_for_one_that_does_not_exist() -> None:
    hidden, absent = refused("SELECT ssn FROM customers"), refused("SELECT xyz FROM customers")
    assert hidden.reason.replace("ssn", "x") == absent.reason.replace("xyz", "x")
    assert (hidden.rule, hidden.suggestion) == (absent.rule, absent.suggestion)


@pytest.mark.parametrize("case", cases("session.jsonl"), ids=lambda case: case["sql"])
async def test_the_session_refuses_what_a_guard_might_have_missed(case: dict[str, str], executor: SqlExecutor) -> None:
    declared = allowed("SELECT c.id, c.name, g.name FROM customers c, germans g")
    forged = Statement(
        sql=case["sql"],
        parameters=(),
        tables=declared.tables,
        columns=declared.columns,
        functions=frozenset({"count"}),
        max_rows=100,
        max_bytes=1_000_000,
        max_cell_bytes=10_000,
        timeout_s=2.0,
    )
    sent = call("")
    result = await executor.execute(
        Call(id="1", tool=sent.tool, arguments={}, principal=sent.principal, statement=forged)
    )
    assert isinstance(result, Failed), result
    assert result.error.code == "sql_failed"
    assert CANARY not in repr(result)


OUTLASTING = [
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 1e12) SELECT max(n) FROM t",
    "SELECT count(*) FROM orders a, orders b, orders c, orders d",
]


@pytest.mark.parametrize("sql", OUTLASTING)
async def test_a_statement_that_would_run_for_ever_is_ended(sql: str, executor: SqlExecutor) -> None:
    statement = allowed(sql, timeout_s=0.05)
    sent = call(sql)
    result = await executor.execute(
        Call(id="1", tool=sent.tool, arguments={}, principal=sent.principal, statement=statement)
    )
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_timeout"


SWELLING = [
    "SELECT replace(replace(hex(zeroblob(1000)), '0', hex(zeroblob(1000))), '0', 'ab')",
]


@pytest.mark.parametrize("sql", SWELLING)
async def test_a_value_that_swells_ends_the_statement(sql: str, executor: SqlExecutor) -> None:
    sent = call(sql)
    result = await executor.execute(
        Call(id="1", tool=sent.tool, arguments={}, principal=sent.principal, statement=allowed(sql))
    )
    assert isinstance(result, Failed)
    assert result.error.code == "response_too_large"


FILTERED = [
    "SELECT body FROM tickets",
    "SELECT body FROM main.tickets",
    "SELECT * FROM tickets WHERE tenant = 'globex' OR 1 = 1",
    "SELECT t.body FROM orders o LEFT JOIN tickets t ON true",
    "SELECT b.body FROM tickets a RIGHT JOIN tickets b ON a.id = b.id",
    "SELECT group_concat(body) FROM tickets",
    "SELECT max(body) OVER () FROM tickets -- WHERE tenant = 'acme'",
    "SELECT (SELECT max(body) FROM tickets)",
    "WITH tickets AS (SELECT * FROM tickets) SELECT body FROM tickets",
    "SELECT name FROM customers UNION SELECT body FROM tickets",
]


@pytest.mark.parametrize("sql", FILTERED)
async def test_rows_of_another_tenant_never_come_back(sql: str, executor: SqlExecutor) -> None:
    sent = call(sql)
    result = await executor.execute(
        Call(id="1", tool=sent.tool, arguments={}, principal=sent.principal, statement=allowed(sql))
    )
    assert isinstance(result, Success)
    assert CANARY not in repr(result.data)
    assert "ours" in repr(result.data)
