"""Databases of a test's own on the servers of this machine, under names nobody else has; skipped where there is no server."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import httpx
import psycopg
import pymysql
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import Struct

from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.model.call import Call, Principal, Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json
from toolgen.model.tool import Effect, SqlBinding, Tool

ROOT: Final = Path(__file__).parent.parent
POSTGRES = os.environ.get("TOOLGEN_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
MYSQL = os.environ.get("TOOLGEN_TEST_MYSQL", "mariadb://root@127.0.0.1:3306/mysql")


def _server(url: str) -> ServerLocation:
    location = location_of(url)
    assert isinstance(location, ServerLocation)
    return location


def postgres(database: str) -> psycopg.Connection[tuple[object, ...]]:
    """An administrator's connection; skips the test where there is no server."""
    server = _server(POSTGRES)
    try:
        return psycopg.connect(
            host=server.host, port=server.port, user=server.user, dbname=database, autocommit=True, connect_timeout=5
        )
    except psycopg.OperationalError:
        pytest.skip(f"no PostgreSQL at {server.host}:{server.port}")


def mysql(database: str) -> pymysql.Connection[pymysql.cursors.Cursor]:
    """As `postgres`, for MariaDB or MySQL."""
    server = _server(MYSQL)
    try:
        return pymysql.connect(
            host=server.host, port=server.port, user=server.user, database=database, autocommit=True, connect_timeout=5
        )
    except pymysql.OperationalError:
        pytest.skip(f"no MariaDB or MySQL at {server.host}:{server.port}")


@contextmanager
def postgres_database(script: str) -> Iterator[str]:
    """The location of a fresh database in which `script` has run."""
    server = _server(POSTGRES)
    name = f"toolgen_{secrets.token_hex(6)}"
    with postgres(server.database) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            with postgres(name) as connection:
                connection.execute(script.encode())
            yield f"postgresql://{server.user}@{server.host}:{server.port}/{name}"
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def mysql_database(script: str) -> Iterator[str]:
    """As `postgres_database`; the script's statements end at the ends of lines."""
    server = _server(MYSQL)
    name = f"toolgen_{secrets.token_hex(6)}"
    with closing(mysql(server.database)) as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        try:
            with closing(mysql(name)) as connection, connection.cursor() as writer:
                for statement in script.split(";\n"):
                    if statement.strip():
                        writer.execute(statement)
            yield f"mariadb://{server.user}@{server.host}:{server.port}/{name}"
        finally:
            cursor.execute(f"DROP DATABASE `{name}`")


def duckdb_file(path: Path, script: str) -> str:
    """The location of a fresh file in which `script` has run."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(script)
    return f"duckdb:///{path}"


def clickhouse_folder(path: Path, *statements: str) -> str:
    """Return the location of a fresh folder in which `statements` have run; skips where chdb is not installed."""
    chdb = pytest.importorskip("chdb")
    connection = chdb.connect(str(path))
    try:
        for line in statements:
            connection.query(line)
    finally:
        connection.close()
    return f"chdb:///{path}"


class SnowflakeLab(Struct, frozen=True, kw_only=True):
    """Database of the emulator of Snowflake: its location, and the private key of its user."""

    location: str
    key: str

    def __repr__(self) -> str:
        return f"SnowflakeLab({self.location})"

    @property
    def port(self) -> int:
        """Port of the emulator."""
        return _server(self.location).port

    def seen(self) -> list[dict[str, Any]]:
        """Return the requests that the emulator has seen."""
        found: list[dict[str, Any]] = httpx.get(f"http://127.0.0.1:{self.port}/seen", trust_env=False).json()["seen"]
        return found


READS: Final = (
    ("USAGE", "DATABASE", "LAB"),
    ("USAGE", "SCHEMA", "LAB.PUBLIC"),
    ("SELECT", "TABLE", "LAB.PUBLIC.CUSTOMERS"),
)


@contextmanager
def snowflake_database(
    folder: Path,
    *statements: str,
    grants: Iterable[tuple[str, str, str]] = READS,
    public: Iterable[tuple[str, str, str]] = (),
    role: str = "READER",
    secondary: str = '{"roles":"","value":""}',
    folds: str = "false",
) -> Iterator[SnowflakeLab]:
    """A database of the emulator in which `statements` have run; skips where .venv-snowflake is missing (`make snowflake`)."""
    python = ROOT / ".venv-snowflake" / "bin" / "python"
    if not (ROOT / ".venv-snowflake" / ".installed").exists():
        pytest.skip("the emulator of Snowflake is not installed: make snowflake")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "public.pem").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    columns = ["privilege", "granted_on", "name"]
    answers = [
        {"statement": "SELECT CURRENT_ROLE()", "columns": ["ROLE", "SECONDARY"], "rows": [[role, secondary]]},
        {"statement": 'SHOW GRANTS TO ROLE "READER"', "columns": columns, "rows": [*grants]},
        {"statement": 'SHOW GRANTS TO ROLE "PUBLIC"', "columns": columns, "rows": [*public]},
        {
            "statement": "SHOW PARAMETERS LIKE 'QUOTED_IDENTIFIERS_IGNORE_CASE'",
            "columns": ["key", "value"],
            "rows": [["", folds]],
        },
        {
            "statement": "SELECT FUNCTION_NAME FROM INFORMATION_SCHEMA.FUNCTIONS",
            "columns": ["FUNCTION_NAME"],
            "rows": [["TWICE"]],
        },
    ]
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    program = ROOT / "tests" / "connectors" / "sql" / "contract" / "snowflake_api.py"
    named = ("--account", "ORG-LAB", "--user", "AGENT", "--database", "LAB")
    process = subprocess.Popen(
        [python, program, "--public-key", folder / "public.pem", "--answers", folder / "answers.json", *named],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(statements) + "\n")
        process.stdin.flush()
        port = int(process.stdout.readline())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        yield SnowflakeLab(
            location=f"snowflake://agent@127.0.0.1:{port}/LAB?account=org-lab&role=READER&warehouse=WH&sslmode=disable",
            key=pem,
        )
    finally:
        process.stdin.close()
        process.stdout.close()
        process.terminate()
        process.wait(timeout=10)


_BIGQUERY: Final = Path(__file__).parent.parent / ".venv-bigquery" / "bin" / "python"
_EMULATOR: Final = Path(__file__).parent / "connectors" / "sql" / "contract" / "bigquery_emulator.py"
BIGQUERY_PROJECT: Final = "lab-project"


def bigquery_python() -> Path:
    """Return the interpreter with the emulator of BigQuery and the analyzer of GoogleSQL; skips where it is not installed."""
    if not _BIGQUERY.is_file():
        pytest.skip("no emulator of BigQuery: see `make bigquery`")
    return _BIGQUERY


@cache
def _bigquery_emulator() -> int:
    """Return the port of an emulator that runs until the tests end."""
    ports = []
    for _ in range(2):
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    asked = [
        bigquery_python(),
        _EMULATOR,
        "start",
        "--rest-port",
        ports[0],
        "--grpc-port",
        ports[1],
        "--log-level",
        "critical",
    ]
    process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    for _ in range(1200):
        with contextlib.suppress(OSError), closing(socket.create_connection(("127.0.0.1", int(ports[0])), 1)):
            return int(ports[0])
        assert process.poll() is None, "the emulator ended"
        time.sleep(0.05)
    pytest.fail("the emulator does not listen")


@contextmanager
def bigquery_dataset(*statements: str) -> Iterator[str]:
    """Return the location of a fresh dataset of an emulator in which `statements` have run; skips where there is none."""
    port, name = _bigquery_emulator(), f"toolgen_{secrets.token_hex(6)}"
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}/bigquery/v2/projects/{BIGQUERY_PROJECT}", trust_env=False, timeout=60
    ) as client:
        place = {"projectId": BIGQUERY_PROJECT, "datasetId": name}
        client.post("/datasets", json={"datasetReference": place}).raise_for_status()
        try:
            for line in statements:
                query = {"query": line, "useLegacySql": False, "defaultDataset": place}
                job = client.post("/jobs", json={"configuration": {"query": query}}).raise_for_status().json()
                assert "errorResult" not in job["status"], job["status"]
            yield f"bigquery://{BIGQUERY_PROJECT}@127.0.0.1:{port}/{name}?service=emulator"
        finally:
            client.delete(f"/datasets/{name}", params={"deleteContents": "true"})


def statement(sql: str, *parameters: Json, **changes: object) -> Statement:
    """A statement as if a guard had let it through: for what a session must stop by itself, too."""
    given: dict[str, object] = {
        "tables": frozenset(),
        "columns": frozenset(),
        "max_rows": 100,
        "max_bytes": 1_000_000,
        "max_cell_bytes": 100_000,
        "timeout_s": 20.0,
        **{name: frozenset(value) if isinstance(value, set) else value for name, value in changes.items()},
    }
    return Statement(sql=sql, parameters=parameters, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def with_executor(location: str, **options: Any) -> AsyncIterator[SqlExecutor]:
    """Executor of a database, closed at the end."""
    executor = SqlExecutor(location, **options)
    try:
        yield executor
    finally:
        await executor.close()


async def run_statements(
    dialect: str, location: str, *sqls: object, operation: str = "query", **options: Any
) -> list[Success | Failed]:
    """The results of one statement after the other on one executor."""
    results: list[Success | Failed] = []

    async with with_executor(location, **options) as executor:
        for sql in sqls:
            given = statement(sql) if isinstance(sql, str) else sql
            results.append(await executor.execute(sql_call(dialect, operation, given)))  # type: ignore[arg-type]
    return results


def rows(result: Success | Failed) -> list[list[Json]]:
    """Return the rows of a result, which is JSON."""
    assert isinstance(result, Success), result
    json.dumps(result.data, allow_nan=False)
    assert isinstance(result.data, dict)
    found: list[list[Json]] = result.data["rows"]  # type: ignore[assignment]
    return found


def name_of(location: str) -> str:
    """Return the name of the database at a location."""
    return _server(location).database


def sql_tool(dialect: str, operation: str) -> Tool:
    """Tool of a database `lab`."""
    return Tool(
        name=f"lab__{operation}",
        title="",
        description="",
        input_schema={},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="lab",
        origin="",
        binding=SqlBinding(dialect=dialect, operation=operation),
    )


def sql_call(dialect: str, operation: str, given: Statement | None = None) -> Call:
    """A call of a database's tool as the executor gets it."""
    return Call(id="1", tool=sql_tool(dialect, operation), arguments={}, principal=Principal(id="p"), statement=given)
