"""What takes too long is ended on the server too, and nobody is told to send it again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.databases import mysql, mysql_database, postgres, postgres_database, sql_call
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import SqlScope, TableScope

BUSY_S = 20.0  # a second on a machine that has nothing else to do; what was found went on for a minute
_SCRIPT = "CREATE TABLE words (id INTEGER PRIMARY KEY, word VARCHAR(100));\nINSERT INTO words VALUES {};\n"
_ROWS = ", ".join(f"({number}, 'word {number}')" for number in range(1_000))
_TABLE = Table(
    name="words", columns=(Column(name="id", type="integer"), Column(name="word", type="text")), primary_key=("id",)
)
_SCOPE = SqlScope(tables={"words": TableScope()}, max_rows=100, timeout_s=0.5)

# Each passes the guard and is more than half a second of work.
POSTGRES = [
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "SELECT a.id FROM words a, words b, words c ORDER BY md5(a.word || b.word || c.word)",
    "SELECT length(string_agg(repeat(a.word, 10), '')) FROM words a, words b, words c",
    "SELECT length(json_agg(a.word || b.word)::text) FROM words a, words b, words c",
    "SELECT count(*) FROM words a, words b, words c WHERE a.word || b.word || c.word ~ '(.*)*x$'",
    "SELECT sum(power(1.000001, a.id + b.id + c.id)) FROM words a, words b, words c",
    "SELECT array_length(array_agg(a.id + b.id + c.id), 1) FROM words a, words b, words c",
]
MYSQL = [
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "SELECT count(*) FROM words a, words b, words c WHERE md5(concat(a.word, b.word, c.word)) LIKE 'abcd%'",
    "SELECT a.id FROM words a, words b, words c ORDER BY md5(concat(a.word, b.word, c.word))",
    "SELECT length(GROUP_CONCAT(a.word, b.word, c.word)) FROM words a, words b, words c",
    "SELECT count(DISTINCT concat(a.word, b.word, c.word)) FROM words a, words b, words c",
    "SELECT json_length(JSON_ARRAYAGG(CAST(a.id AS BINARY(1000)))) FROM words a, words b, words c",
]


async def _run(location: str, dialect: str, sql: str, is_idle: Callable[[], bool]) -> Success | Failed:
    """The answer, after which the server has to be idle, while the gateway's sessions still stand."""

    known = Database(dialect=dialect, tables=(_TABLE,))
    statement = guard(sql, [], database=known, scope=_SCOPE, attributes={})
    assert isinstance(statement, Statement), f"{sql}: {statement}"
    executor = SqlExecutor(location)
    try:
        answer = await executor.execute(sql_call(dialect, "query", statement))
        deadline = time.monotonic() + BUSY_S
        while not is_idle():
            assert time.monotonic() < deadline, f"the server goes on: {sql}"
            await asyncio.sleep(0.02)
        return answer
    finally:
        await executor.close()


def _check(answer: Success | Failed, sql: str) -> None:
    assert isinstance(answer, Failed), sql
    assert answer.error.code in {"upstream_timeout", "response_too_large"}, answer
    assert answer.error.retry_after_s is None
    assert "again" not in answer.error.suggestion


async def test_postgresql_is_idle_after_every_timeout() -> None:
    with postgres_database(_SCRIPT.format(_ROWS)) as location:
        name = location.rpartition("/")[2]
        with postgres(name) as admin:

            def is_idle() -> bool:
                found = admin.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state <> 'idle' AND pid <> pg_backend_pid()",
                    [name],
                ).fetchone()
                return found == (0,)

            for sql in POSTGRES:
                _check(await _run(location, "postgres", sql, is_idle), sql)


async def test_mysql_is_idle_after_every_timeout() -> None:
    with mysql_database(_SCRIPT.format(_ROWS)) as location:
        name = location.rpartition("/")[2]
        admin = mysql("mysql")

        def is_idle() -> bool:
            with admin.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM information_schema.processlist WHERE db = %s AND command <> 'Sleep'", [name]
                )
                return cursor.fetchone() == (0,)

        try:
            for sql in MYSQL:
                _check(await _run(location, "mysql", sql, is_idle), sql)
        finally:
            admin.close()


@pytest.mark.parametrize("steps", [1_500, 5_000])
def test_a_recursion_in_mysql_goes_on_past_a_thousand_steps(steps: int) -> None:
    sql = f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {steps}) SELECT max(i) FROM n"
    known = Database(dialect="mysql", tables=(_TABLE,))
    statement = guard(
        sql, [], database=known, scope=SqlScope(tables={"words": TableScope()}, timeout_s=20.0), attributes={}
    )
    assert isinstance(statement, Statement)

    async def work(location: str) -> Success | Failed:
        executor = SqlExecutor(location)
        try:
            return await executor.execute(sql_call("mysql", "query", statement))
        finally:
            await executor.close()

    with mysql_database(_SCRIPT.format(_ROWS)) as location:
        answer = asyncio.run(work(location))
    assert isinstance(answer, Success), answer
    assert answer.data["rows"] == [[steps]]  # type: ignore[index,call-overload]
