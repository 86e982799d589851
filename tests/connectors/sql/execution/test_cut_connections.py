"""A connection that is cut on the way of a change: rolled back before its commit was sent, and unknown from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.connectors.sql.execution.guarded import WRITES, built, database, judged, rows, run
from tests.databases import sql_call
from tests.stream_servers import stream_server
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import TableScope

SCRIPT = "CREATE TABLE stock (id INT PRIMARY KEY, note VARCHAR(20));\nINSERT INTO stock VALUES (1, 'old');\n"
CATALOG = {"postgres": b"pg_trigger", "mysql": b"event_object_table"}  # asked after the statement, before the commit


@asynccontextmanager
async def cutting(port: int, word: bytes, *, delivered: bool) -> AsyncIterator[int]:
    """The port of a proxy that cuts the connection at the first message with `word`, which the server gets, and answers, or does not."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above, up = await asyncio.open_connection("127.0.0.1", port)
        cut = asyncio.Event()

        async def back() -> None:
            while data := await above.read(65536):
                if cut.is_set():
                    return
                writer.write(data)
                await writer.drain()

        answers = asyncio.ensure_future(back())
        try:
            while data := await reader.read(65536):
                if word in data:
                    cut.set()
                    if delivered:
                        up.write(data)
                        await answers
                    break
                up.write(data)
                await up.drain()
        finally:
            up.close()
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)

    async with stream_server(serve) as proxy:
        yield proxy


async def changed(location: str, statement: Statement, word: bytes, *, delivered: bool) -> Success | Failed:
    """The change through such a proxy."""
    head, _, tail = location.rpartition(":")
    port, _, name = tail.partition("/")

    async with cutting(int(port), word, delivered=delivered) as other:
        executor = SqlExecutor(f"{head}:{other}/{name}?sslmode=disable")
        try:
            return await executor.execute(sql_call("", "change", statement))
        finally:
            await executor.close()


@pytest.mark.parametrize("engine", sorted(CATALOG))
@pytest.mark.parametrize(
    ("at", "delivered", "code", "left"),
    [
        ("catalog", True, "upstream_error", "old"),
        ("commit", False, "outcome_unknown", "old"),
        ("commit", True, "outcome_unknown", "new"),
    ],
)
async def test_a_cut_connection_is_told_as_what_it_is(
    engine: str, at: str, delivered: bool, code: str, left: str, tmp_path: Path
) -> None:
    with database(engine, SCRIPT, tmp_path) as location:
        verdict = judged(built(location), "UPDATE stock SET note = 'new' WHERE id = 1", stock=TableScope(writes=WRITES))
        assert isinstance(verdict, Statement)
        word = CATALOG[engine] if at == "catalog" else b"COMMIT\x00" if engine == "postgres" else b"\x03COMMIT"

        result = await changed(location, verdict, word, delivered=delivered)

        assert isinstance(result, Failed), result
        assert result.error.code == code, result
        assert rows(location, "SELECT note FROM stock") == [(left,)]


HIDDEN = "hidden-4711"
RULES = [
    "UPDATE stock SET code = '{}' WHERE id = 1",  # another row has it
    "UPDATE stock SET note = NULL WHERE id = 1",
    "UPDATE stock SET amount = -1 WHERE id = 1",
    "UPDATE stock SET kind = 99 WHERE id = 1",  # there is no such kind
    "DELETE FROM kind WHERE id = 7",  # a row of stock has it
]


@pytest.mark.parametrize("engine", ["duckdb", "mysql", "postgres", "sqlite"])
def test_a_broken_rule_names_no_value_of_the_rows(engine: str, tmp_path: Path) -> None:
    script = (
        "CREATE TABLE kind (id INT PRIMARY KEY);\nINSERT INTO kind VALUES (7), (8);\n"
        "CREATE TABLE stock (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE, secret VARCHAR(20), note VARCHAR(20) NOT NULL,"
        " amount INT CHECK (amount >= 0), kind INT, FOREIGN KEY (kind) REFERENCES kind(id));\n"
        f"INSERT INTO stock VALUES (1, 'a', '{HIDDEN}', 'n', 1, 7), (2, '{HIDDEN}', '{HIDDEN}', 'n', 1, 7);\n"
    )
    scope = TableScope(columns=("id", "code", "note", "amount", "kind"), writes=WRITES)
    with database(engine, script, tmp_path) as location:
        found = built(location)
        for sql in RULES:
            verdict = judged(found, sql.format(HIDDEN), stock=scope, kind=TableScope(writes=WRITES))
            (result,) = run(location, verdict)

            assert isinstance(result, Failed), sql
            assert result.error.code == "sql_failed", (sql, result)
            assert HIDDEN not in f"{result.error}"
