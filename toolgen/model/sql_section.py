"""Section `sql:` of a policy: its keys, and the protocol of its reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolgen.core.yaml_file import YamlDocument
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope

__all__ = ["DatabaseSection", "RowsShape", "SqlShape", "TableShape"]

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class RowsShape(msgspec.Struct, forbid_unknown_fields=True):
    """Visible rows of a table, and the note about the others for callers."""

    where: Annotated[str, msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    note: Annotated[str, msgspec.Meta(max_length=300)] = ""


class TableShape(msgspec.Struct, forbid_unknown_fields=True):
    """Part of a table that may be seen and changed."""

    columns: list[str] | msgspec.UnsetType = msgspec.UNSET
    rows: str | RowsShape | msgspec.UnsetType = msgspec.UNSET
    writes: list[Literal["insert", "update", "delete"]] = []
    writable: list[str] | msgspec.UnsetType = msgspec.UNSET
    cascades: bool = False
    samples: bool | Literal["values"] = False


class SqlShape(msgspec.Struct, forbid_unknown_fields=True):
    """Tables of a database that may be seen and changed, and limits of statements."""

    tables: dict[str, TableShape]
    max_rows: _Count = 100
    max_bytes: _Count = 1_000_000
    max_cell_bytes: _Count = 65_536
    max_changes: _Count = 1
    timeout: str = "2s"
    functions: list[str] = []
    cross_check: Literal["installed", "required"] = "installed"


class DatabaseSection(Protocol):
    """Reader of the section, implemented by the connector of databases.

    A protocol, because the SQL connector implements it, which the policy must not import.
    """

    def read(self, document: YamlDocument, source: str, database: Database) -> SqlScope:
        """Read the section `sql.<source>`. Raises `PolicyError` for content that does not fit the database."""
        ...

    def row_attributes(self, scope: SqlScope) -> Iterable[str]:
        """Return the attributes of principals that row filters use."""
        ...

    def masked(
        self, scope: SqlScope, database: Database, masks: Mapping[str, str], sensitive: Sequence[str | None]
    ) -> SqlScope:
        """Return a scope with columns masked, by their names without case, and no sensitive ones sampled; None means all columns."""
        ...
