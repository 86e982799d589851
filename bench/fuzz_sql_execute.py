"""Mutated statements that the guard lets through, run for real: what must never happen is looked for in the database and in the answers.

`python -m bench.fuzz_sql --execute` makes a database of its own on every engine from the corpus's schemas, and drops it again. Statements
run through guard and executor under the corpus's policy, as an administrator, so that nothing but the two stands in the way. Looked for:
a canary of a closed table or column or of another tenant's row, more rows or bytes than the policy gives, more time than a statement has,
an answer with the code `internal` or an exception, and every few statements: changed tables, new files, other session settings.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import duckdb

from bench.fuzz_sql import CORPUS, SCHEMAS, mutated, placeholders
from tests.databases import mysql, mysql_database, postgres, postgres_database, sql_call, statement
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import SqlScope, TableScope

CANARY = re.compile(r"CNRY-[A-Z]+-[0-9A-Za-z]+")
HEX_CANARY = "434e52592d"
CUSTOMERS = (
    "id", "name", "email", "country", "created_at", "update_time", "deleted", "credit_limit", "limit", "tags", "profile",
)  # fmt: skip
SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=CUSTOMERS),
        "tickets": TableScope(rows="tenant_id = :tenant"),
        **{
            name: TableScope()
            for name in ("products", "orders", "order_items", "events", "v_active_customers", "v_country_sales")
        },
    },
    max_rows=100,
    max_bytes=1_000_000,
    timeout_s=1.0,
)
SLOWEST_S = 5.0  # the statement's own second, the pool's wait and a loaded machine
LOOK_EVERY = 250  # statements
SETTINGS = {
    "postgres": "SELECT name, setting FROM pg_settings ORDER BY name",
    "mysql": "SELECT variable_name, variable_value FROM information_schema.session_variables WHERE variable_name NOT IN"
    " ('TIMESTAMP', 'LAST_INSERT_ID', 'RAND_SEED1', 'RAND_SEED2', 'PSEUDO_THREAD_ID', 'LAST_GTID', 'IN_TRANSACTION',"
    " 'ERROR_COUNT', 'WARNING_COUNT', 'GTID_BINLOG_POS', 'GTID_CURRENT_POS', 'IDENTITY', 'INSERT_ID') ORDER BY 1",
}


@contextmanager
def made(dialect: str, folder: Path) -> Iterator[str]:
    """The location of a database of our own with the corpus's tables in it."""
    script = (SCHEMAS / f"{dialect}.sql").read_text(encoding="utf-8")
    match dialect:
        case "postgres":
            # Its accounts belong to a whole server, which is not ours; who may read here does not matter.
            for account in ("agent_ro", "agent_col"):
                script = script.replace(account, "PUBLIC")
            with postgres_database(script) as location:
                yield f"{location}?pool_size=1"
        case "mysql":
            with _mysql(script) as location:
                yield f"{location}?pool_size=1"
        case "duckdb":
            with duckdb.connect(str(folder / "lab.duckdb")) as connection:
                connection.execute(script)
            yield f"duckdb:///{folder / 'lab.duckdb'}"
        case _:
            with closing(sqlite3.connect(folder / "lab.sqlite")) as connection:
                connection.executescript(script)
            yield f"sqlite:///{folder / 'lab.sqlite'}"


@contextmanager
def _mysql(script: str) -> Iterator[str]:
    """The script's own databases under names of ours, and without its accounts."""
    with ExitStack() as stack:
        location = stack.enter_context(mysql_database(""))
        other = _name(stack.enter_context(mysql_database("")))
        body = script.split("USE lab;", 1)[1].replace("hr.", f"{other}.").replace("lab.", f"{_name(location)}.")
        body = re.sub(r"(?:CREATE USER|GRANT)\b[^;]*;", "", body).replace("DELIMITER //", "").replace("DELIMITER ;", "")
        with closing(mysql(_name(location))) as connection, connection.cursor() as cursor:
            routines = body.split("//")
            for part in (*routines[0].split(";\n"), *routines[1:-1], *routines[-1].split(";\n")):
                for piece in _pieces(part):
                    cursor.execute(piece)
        yield location


def _pieces(part: str) -> list[str]:
    """The statements in a part of the script. Only the bodies of routines, and texts, hold a semicolon that ends none."""
    text = part.strip().rstrip(";")
    if not text:
        return []
    before, found, routine = text.partition("CREATE FUNCTION")
    if found:
        return [*_pieces(before), found + routine]
    before, found, routine = text.partition("CREATE PROCEDURE")
    if found:
        return [*_pieces(before), found + routine]
    return [text]


def _name(location: str) -> str:
    found = location_of(location)
    assert isinstance(found, ServerLocation)
    return found.database


class Watched:
    """Database of one engine, and its state that a query must not change."""

    def __init__(self, dialect: str, location: str, scratch: Path) -> None:
        self.dialect = dialect
        self.scratch = scratch
        self.name = "" if dialect in {"sqlite", "duckdb"} else _name(location)
        self.executor = SqlExecutor(location)
        found = read_sql(SourceConfig(name="lab", kind="sql", location=location)).info.database
        assert found is not None
        self.database: Database = found

    async def state(self) -> object:
        return self._tables(), sorted(path.name for path in self.scratch.rglob("*")), await self._settings()

    def _tables(self) -> object:
        """PostgreSQL: rows changed, by table, and what is in the catalogs; MySQL: checksums; a file: its digest."""
        match self.dialect:
            case "postgres":
                with postgres(self.name) as admin:
                    tables = admin.execute(
                        "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace IN"
                        " (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema') ORDER BY 1"
                    ).fetchall()
                    sums = [
                        admin.execute(
                            f"SELECT count(*), sum(hashtext(CAST(ROW(t.*) AS text))::int8) FROM {name} t".encode()
                        ).fetchone()
                        for (name,) in tables
                    ]
                    made = "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc),"
                    made += " (SELECT count(*) FROM pg_largeobject_metadata)"
                    return tables, sums, admin.execute(made).fetchone()
            case "mysql":
                with closing(mysql(self.name)) as admin, admin.cursor() as cursor:
                    cursor.execute("SHOW FULL TABLES")
                    tables = list(cursor.fetchall())
                    base = ", ".join(f"`{name}`" for name, kind in tables if kind == "BASE TABLE")
                    cursor.execute(f"CHECKSUM TABLE {base}")
                    return tables, list(cursor.fetchall())
            case _:
                files = sorted(self.scratch.glob("lab/lab.*"))
                return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]

    async def _settings(self) -> object:
        if self.dialect not in SETTINGS:
            return None
        asked = statement(SETTINGS[self.dialect], max_rows=5_000, tables=frozenset(), timeout_s=1.0)
        result = await self.executor.execute(sql_call(self.dialect, "query", asked))
        assert isinstance(result, Success), result
        assert isinstance(result.data, dict)
        return result.data["rows"]


def faults(sql: str, checked: Statement, result: Success | Failed, seconds: float) -> Iterator[str]:
    """Return the fault of an answer, empty for none."""
    data = (
        result.data
        if isinstance(result, Success)
        else result.error.to_dict()
        if hasattr(result.error, "to_dict")
        else str(result.error)
    )
    text = json.dumps(data, default=str)
    sent = sql + json.dumps(checked.parameters)
    leaked = {token for token in CANARY.findall(text) if token not in sent}
    if leaked or (HEX_CANARY in text.lower() and HEX_CANARY not in sent.lower()):
        yield f"a canary is in the answer: {sorted(leaked)[:3]}"
    if seconds > SLOWEST_S:
        yield f"it took {seconds:.1f} s"
    match result:
        case Success(data={"rows": list(rows)}):
            if len(rows) > checked.max_rows:
                yield f"{len(rows)} rows"
            if len(text) > 4 * checked.max_bytes:
                yield f"{len(text)} bytes"
        case Failed(error=error) if error.code == "internal" or "Traceback" in error.message:
            yield f"the executor did not expect this: {error.message}"


async def _engine(watched: Watched, statements: Sequence[str], seeds: range, out: Path) -> int:
    failed, ends, ran, batch, slowest = 0, Counter[str](), 0, [seeds.start], 0.0
    before = await watched.state()
    for seed in seeds:
        sql = mutated(statements, seed).replace("{OUT}", str(out)).replace("{DB}", watched.name)
        values = ["x"] * placeholders(sql, watched.database, SCOPE)
        checked = guard(sql, values, database=watched.database, scope=SCOPE, attributes={"tenant": 1})
        if not isinstance(checked, Statement):
            ends["refused"] += 1
        else:
            began = time.monotonic()
            try:
                result = await watched.executor.execute(sql_call(watched.dialect, "query", checked))
            except Exception as error:  # noqa: BLE001 - what a fuzz run looks for
                failed += 1
                print(f"{watched.dialect} seed {seed}: raised {error!r}\n  {checked.sql!r}")
                continue
            seconds = time.monotonic() - began
            slowest = max(slowest, seconds)
            ran += 1
            ends["ok" if isinstance(result, Success) else result.error.code] += 1
            for fault in faults(sql, checked, result, seconds):
                failed += 1
                print(f"{watched.dialect} seed {seed}: {fault}\n  {sql!r}\n  {checked.sql!r}")
        if seed % LOOK_EVERY == LOOK_EVERY - 1 or seed == seeds[-1]:
            after = await watched.state()
            if after != before:
                failed += 1
                print(f"{watched.dialect} seeds {batch[0]} to {seed}: tables, files or settings are not what they were")
                before = after
            batch = [seed + 1]
    await watched.executor.close()
    told = ", ".join(f"{name} {count}" for name, count in ends.most_common())
    print(
        f"{watched.dialect}: {len(seeds)} statements, {ran} ran, slowest {slowest:.1f} s, {failed} faults: {told}",
        flush=True,
    )
    return failed


def execute(dialects: Sequence[str], rounds: int, seed: int) -> int:
    """Runs `rounds` mutations an engine; returns how many faults were found."""
    cases = [json.loads(line) for name in ("attacks", "benign") for line in (CORPUS / f"{name}.jsonl").open()]
    failed = 0
    for dialect in dialects:
        statements = [
            case["sql"]
            for case in cases
            if case["dialect"] == dialect and isinstance(case["sql"], str)
            for _ in range(
                1 if "oracle" in case else 5
            )  # most of what is near an honest query runs, and little of what is not
        ]
        with tempfile.TemporaryDirectory(prefix="toolgen-fuzz-") as scratch:
            folder, out = Path(scratch) / "lab", Path(scratch) / "out"
            folder.mkdir()
            out.mkdir()
            os.chmod(scratch, 0o755)
            out.chmod(0o777)
            with made(dialect, folder) as location:
                watched = Watched(dialect, location, Path(scratch))
                failed += asyncio.run(_engine(watched, statements, range(seed, seed + rounds), out))
    return failed
