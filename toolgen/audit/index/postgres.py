"""Index in PostgreSQL, which several gateways fill, each with its own log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from toolgen.audit.index.database import INDEXES, TABLES, VERSION, schema, took_too_long
from toolgen.core.errors import AuditError, ConfigError
from toolgen.model.database import DialectName
from toolgen.model.database_url import ServerLocation

try:
    import psycopg
except ImportError as error:
    raise ConfigError(
        "audit.index: the driver of PostgreSQL is not installed",
        suggestion='install it with: pip install "toolgen[postgres]"',
    ) from error

__all__ = ["PostgresDatabase"]

_LOCK = 0x746F6F6C67656E  # key of the advisory lock of writers of the index: "toolgen"
_AGAIN = "`toolgen audit index --rebuild` rebuilds it from the log"


class PostgresDatabase:
    """PostgreSQL index in the first schema of the role's search path. One thread at a time may use it."""

    dialect: DialectName = "postgres"
    shared = True

    def __init__(self, location: ServerLocation, password: str) -> None:
        try:
            self._connection = _connect(location, password)
        except psycopg.Error:
            raise AuditError(  # libpq quotes host, user and options
                "the database of audit.index cannot be reached, or does not accept user, password or database",
                suggestion="check that the server runs and that the location in toolgen.yaml is right",
            ) from None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._told():
            return self._connection.execute(_marked(statement), values).fetchall()

    def search(self, statement: str, values: Sequence[object], within_s: float) -> list[tuple[Any, ...]]:
        bound = f"{max(1, round(within_s * 1000))}ms"
        try:
            with self._told(), self._connection.transaction():
                self._connection.execute("SELECT pg_catalog.set_config('statement_timeout', %s, true)", (bound,))
                return self._connection.execute(_marked(statement), values).fetchall()
        except AuditError as error:
            broken_off = isinstance(error.__cause__, psycopg.errors.QueryCanceled)
            raise (took_too_long(within_s) if broken_off else error) from error.__cause__

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        with self._told():
            self._connection.execute(_marked(statement), values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        table = statement.split(" ", 3)[2]
        columns = statement[statement.find(table) + len(table) : statement.find("VALUES")]
        with self._told(), self._connection.cursor().copy(f"COPY {table}{columns} FROM STDIN".encode()) as copy:
            for row in values:
                copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._told(), self._connection.transaction():
            self._connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", (_LOCK,))
            yield

    def finish(self) -> None:
        with self.transaction():
            for statement in INDEXES:
                self._connection.execute(statement.encode())
        with self._told():
            self._connection.execute(f"ANALYZE {', '.join(TABLES)}".encode())

    def clear(self) -> None:
        with self.transaction():
            for table in TABLES:
                self._connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
        self._prepare()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()

    def _prepare(self) -> None:
        with self._told():
            there = self._connection.execute("SELECT to_regclass('audit_index')").fetchone()
        if there is None or there[0] is None:
            with self.transaction():
                for statement in schema(self.dialect):
                    self._connection.execute(statement.encode())
                if self._connection.execute("SELECT 1 FROM audit_index").fetchone() is None:
                    self._connection.execute("INSERT INTO audit_index VALUES (%s)", (VERSION,))
        found = self.rows("SELECT version FROM audit_index")
        if found != [(VERSION,)]:
            raise AuditError(
                "the index of the log was made by another version of toolgen",
                suggestion=f"drop the tables {', '.join(TABLES)} after all gateways have the same version; they are created again",
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except psycopg.OperationalError as error:
            raise AuditError(
                "the connection to the database of audit.index was lost", suggestion="try again"
            ) from error
        except psycopg.Error as error:
            raise AuditError(
                f"the index of the log cannot be used (SQLSTATE {error.sqlstate or 'unknown'})", suggestion=_AGAIN
            ) from error


def _marked(statement: str) -> bytes:
    """Return the statement with the driver's placeholders. Our statements use question marks and percent signs for nothing else."""
    return statement.replace("?", "%s").encode()


def _connect(location: ServerLocation, password: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(**location.libpq_arguments(password, "toolgen audit"), autocommit=True)
