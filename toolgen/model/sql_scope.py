"""Access of a principal to a database: the tables and columns, the row filters and the limits of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

__all__ = ["SqlScope", "TableScope"]


class TableScope(Struct, frozen=True, kw_only=True):
    """Access to one table. `columns` None means every column; `rows` is a filter in the database's own SQL, with `:attribute`s.

    `masks` has the expressions that statements read in place of a column's values, wherever the column is used. `writes` has the kinds of
    statement that may change the table (insert, update, delete), and `writable` the columns they may set; None means every granted one.
    `cascades`: they may also start triggers, rules and actions of foreign keys. `row_note` is a note for callers about hidden rows, with
    every answer from the table; "" for no note. `samples` sets the form of values in the table's description, `unsampled` the columns
    without samples.
    """

    columns: tuple[str, ...] | None = None
    rows: str | None = None
    row_note: str = ""
    masks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    writes: frozenset[str] = frozenset()
    writable: tuple[str, ...] | None = None
    cascades: bool = False
    samples: str = ""  # "" | shapes | values
    unsampled: frozenset[str] = frozenset()


class SqlScope(Struct, frozen=True, kw_only=True, eq=False):
    """Readable tables of a principal, and limits of an answer; sizes are bytes. Compared by identity, as caches need it.

    `tables` is keyed by the table's name as the database spells it, `schema.table` outside the default schema. `functions` are added to the
    curated list of the dialect. `max_changes` is the maximum number of rows changed by one statement. `compared` are the kinds that
    attributes in row filters are compared with (connectors/sql/guard/scope.py).
    """

    tables: Mapping[str, TableScope] = field(default_factory=lambda: MappingProxyType({}))
    max_rows: int = 100
    max_bytes: int = 1_000_000
    max_cell_bytes: int = 100_000
    timeout_s: float = 5.0
    functions: frozenset[str] = frozenset()
    max_changes: int = 1
    compared: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
