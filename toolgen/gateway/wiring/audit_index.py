"""Index of a project's audit log: a file of its own, or the database that toolgen.yaml names."""

from __future__ import annotations

from pathlib import Path

from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.config.settings import Settings

__all__ = ["index_file", "index_of"]


def index_of(settings: Settings) -> RecordIndex:
    """The index of a project's log. Raises `AuditError` and `SecretError`."""
    shared = settings.audit.index
    if shared is None:
        return RecordIndex(SqliteDatabase(index_file(settings)), settings.audit_dir)
    # Only here, because its driver is an extra.
    from toolgen.audit.index.postgres import PostgresDatabase  # noqa: PLC0415

    return RecordIndex(PostgresDatabase(shared.location, shared.secret()), settings.audit_dir)


def index_file(settings: Settings) -> Path:
    """Return the index file of a project's log, used if no database is configured for it. It can be deleted without loss."""
    return settings.state_dir / "audit-index.db"
