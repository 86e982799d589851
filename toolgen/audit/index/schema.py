"""What the index asks of a database, and its tables: the same in SQLite and PostgreSQL but for the names of types."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolgen.errors import AuditError

__all__ = ["INDEXES", "TABLES", "VERSION", "Database", "schema", "took_too_long"]

VERSION = 1
"""Of the tables below. An index of another version is made anew."""

TABLES = ("audit_calls", "audit_entries", "audit_streams", "audit_index")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit_index (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS audit_streams (
  id {key} PRIMARY KEY, name TEXT NOT NULL, log TEXT NOT NULL, origin {bytes} NOT NULL UNIQUE,
  segment BIGINT NOT NULL, place BIGINT NOT NULL, seq BIGINT NOT NULL, hash {bytes} NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_entries (
  id {key} PRIMARY KEY, stream BIGINT NOT NULL, time BIGINT NOT NULL, event TEXT NOT NULL, call_id TEXT {sorted},
  prev {bytes} NOT NULL, hash {bytes} NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_calls (
  id {key} PRIMARY KEY, call_id TEXT {sorted} NOT NULL UNIQUE, time BIGINT NOT NULL, principal TEXT {sorted} NOT NULL,
  on_behalf_of TEXT {sorted}, tool TEXT {sorted} NOT NULL, verdict TEXT {sorted} NOT NULL, rule TEXT {sorted} NOT NULL,
  status TEXT {sorted} NOT NULL, code TEXT {sorted}, session TEXT {sorted}, duration_ms {real}
);
CREATE INDEX IF NOT EXISTS audit_entries_call ON audit_entries (call_id) WHERE call_id IS NOT NULL
"""
# What is looked for. Made once the first filling is done: sorting once is several times faster than keeping sorted.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS audit_entries_time ON audit_entries (time)",
    "CREATE INDEX IF NOT EXISTS audit_calls_time ON audit_calls (time)",
    *(
        f"CREATE INDEX IF NOT EXISTS audit_calls_{name} ON audit_calls ({name}, time)"
        + (f" WHERE {name} IS NOT NULL" if partial else "")
        for name, partial in (
            ("principal", False),
            ("on_behalf_of", True),
            ("tool", False),
            ("verdict", False),
            ("rule", False),
            ("status", False),
            ("code", True),
            ("session", True),
        )
    ),
)


class Database(Protocol):
    """One connection. Statements have `?` for their values. What goes wrong is an `AuditError`.

    `shared` says whether other logs are indexed here too.
    """

    dialect: str
    shared: bool

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a statement gives."""

    def search(self, statement: str, values: Sequence[object], within_s: float) -> list[tuple[Any, ...]]:
        """The same of a statement that may have to look at everything; an `AuditError` once it takes longer."""

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        """A statement that gives nothing."""

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """The same statement with each of these."""

    def transaction(self) -> AbstractContextManager[None]:
        """All of what is done inside, or nothing; one at a time of those that write the index."""

    def finish(self) -> None:
        """After much was written: makes what is searched by, and counts what a planner has to know."""

    def clear(self) -> None:
        """Takes all of it away, tables and all, and makes it anew, empty."""

    def close(self) -> None:
        """Lets go of it."""


def took_too_long(within_s: float) -> AuditError:
    """What is said of a search that was broken off."""
    return AuditError(
        f"the search was broken off after {within_s:g} s",
        suggestion="narrow it down: by time, principal, tool or rule, which are looked up where text has to be looked through",
    )


def schema(dialect: str) -> list[str]:
    """The statements that make the tables, each of which does nothing where its table is."""
    types = (
        {"bytes": "BLOB", "key": "INTEGER", "real": "REAL", "sorted": ""}
        if dialect == "sqlite"
        else {"bytes": "BYTEA", "key": "BIGINT", "real": "DOUBLE PRECISION", "sorted": 'COLLATE "C"'}
    )
    return [statement for statement in _SCHEMA.format(**types).split(";\n") if statement.strip()]
