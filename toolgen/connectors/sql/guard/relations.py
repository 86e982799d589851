"""Relations in a FROM clause, and the names visible in a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.identifiers import Names
from toolgen.model.database import Table

__all__ = ["Filtered", "QueryRelation", "SelectScope"]


class QueryRelation(Struct, kw_only=True):
    """Something in a FROM clause. `hidden` are folded names it has and the principal may not use."""

    alias: str
    names: Names
    hidden: frozenset[str] = frozenset()
    table: Table | None = None
    columns: tuple[str, ...] = ()  # of a base table, as spelt by the database
    row_ids: list[str] | None = (
        None  # those a statement asks for; None where the table has none, or they would tell of a hidden column
    )
    whole: bool = False  # naming it as a value is allowed: a subquery whose columns were all checked
    identifier: exp.Identifier | None = None
    narrowed: bool = False  # it is read through a subquery of what may be seen


class SelectScope(Struct, kw_only=True):
    """The names in reach of one SELECT. `outer` is the query around it, when that is in reach at all."""

    outer: SelectScope | None
    relations: list[QueryRelation] = []
    aliases: frozenset[str] = frozenset()
    computed: bool = False  # a column of the result has no name but the engine's
    lambdas: frozenset[str] = frozenset()
    clause: str = ""  # of the SELECT, as the parser calls it, that is looked at; "on" for a join's condition

    def chain(self) -> Iterator[SelectScope]:
        scope: SelectScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class Filtered(Struct, frozen=True, kw_only=True):
    """A place in the tree where `table` is read through a subquery: of granted `columns`, with the policy's filter and masks."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    rows: str | None
    masks: Mapping[str, str]
    row_ids: Sequence[str] = ()
