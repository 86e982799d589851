"""Relations in a FROM clause, and the names visible in a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.identifiers import Names
from toolgen.model.database import Table

__all__ = ["Filtered", "QueryRelation", "SelectScope"]


class QueryRelation(Struct, kw_only=True):
    """Relation in a FROM clause. `hidden` are folded names of columns that the principal may not use."""

    alias: str
    names: Names
    hidden: frozenset[str] = frozenset()
    table: Table | None = None
    columns: tuple[str, ...] = ()  # granted columns of a base table, as the database spells them
    row_ids: list[str] | None = (
        # row numbers requested by a statement; None if the table has none, or if they would reveal a hidden column
        None
    )
    whole: bool = False  # its name is allowed as a value: a subquery whose columns were all checked
    identifier: exp.Identifier | None = None
    narrowed: bool = False  # it is read through a subquery of the granted part


class SelectScope(Struct, kw_only=True):
    """Visible names of one SELECT. `outer` is the enclosing query, if its names are visible."""

    outer: SelectScope | None
    relations: list[QueryRelation] = []
    aliases: frozenset[str] = frozenset()
    computed: bool = False  # a column of the result is named by the engine
    lambdas: frozenset[str] = frozenset()
    clause: str = ""  # current clause of the SELECT, by the parser's name; "on" for a join's condition

    def chain(self) -> Iterator[SelectScope]:
        scope: SelectScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class Filtered(Struct, frozen=True, kw_only=True):
    """Place in the tree where `table` is read through a subquery: of granted `columns`, with the policy's filter and masks."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    rows: str | None
    masks: Mapping[str, str]
    row_ids: Sequence[str] = ()
