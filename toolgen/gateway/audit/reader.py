"""Audit log of a project for reviewers: all streams, by an index that is updated while queries are answered."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.filler import Filler
from toolgen.audit.index.index import Cursor, EntryPage, FoundEntry, RecordIndex
from toolgen.audit.index.row import RecordFilter
from toolgen.config.settings import Settings
from toolgen.core.errors import AuditError, SecretError

__all__ = ["ProjectRecords", "Review", "index_file", "index_of"]

_logger = logging.getLogger(__name__)


class Review(Struct, frozen=True, kw_only=True):
    """Page of entries or of calls, and the reasons why the index is incomplete."""

    page: EntryPage
    warnings: tuple[str, ...] = ()


class ProjectRecords:
    """Audit log queries for front ends. All of them read the disk, so run them in a thread. They raise `AuditError`.

    The index is opened for each query, so that no connection is shared between threads, and none is left open.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.filler = Filler(self._index, settings.audit_dir)

    def entries(self, wanted: RecordFilter, limit: int, after: Cursor | None = None) -> Review:
        """Return entries, newest first. Raises `ConfigError` for a cursor of another listing."""
        warnings = self.filler.bring_up()
        with self._index() as index:
            return Review(page=index.entries(wanted, limit=limit, after=after), warnings=warnings)

    def calls(self, wanted: RecordFilter, limit: int, after: Cursor | None = None) -> Review:
        """Return calls, newest first, one row each. Raises `ConfigError` for a cursor of another listing."""
        warnings = self.filler.bring_up()
        with self._index() as index:
            return Review(page=index.calls(wanted, limit=limit, after=after), warnings=warnings)

    def find(self, seq: int, stream: str = "") -> list[FoundEntry]:
        """Return the entries with a number, verified against the log: one, or one of each stream that has it."""
        self.filler.bring_up()
        with self._index() as index:
            return index.find(seq, stream)

    def story(self, call_id: str) -> list[dict[str, Any]]:
        """Return every entry of a call, oldest first."""
        self.filler.bring_up()
        with self._index() as index:
            return index.story(call_id)

    def _index(self) -> RecordIndex:
        try:
            return index_of(self._settings)
        except SecretError as error:
            _logger.error("the password of audit.index cannot be read: %s", error)  # noqa: TRY400 - it says all there is
            raise AuditError("the password of the index of the log cannot be read") from None


def index_of(settings: Settings) -> RecordIndex:
    """Open the index of a project's log. Raises `AuditError` and `SecretError`."""
    shared = settings.audit.index
    if shared is None:
        return RecordIndex(SqliteDatabase(index_file(settings)), settings.audit_dir)
    # Imported here, because its driver is an extra.
    from toolgen.audit.index.postgres import PostgresDatabase  # noqa: PLC0415

    return RecordIndex(PostgresDatabase(shared.location, shared.secret()), settings.audit_dir)


def index_file(settings: Settings) -> Path:
    """Return the index file of a project's log, used if no database is configured for it. It can be deleted without loss."""
    return settings.state_dir / "audit-index.db"
