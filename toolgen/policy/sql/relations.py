"""What stands in a FROM clause, and which names are in reach of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from toolgen.model.database import Table
from toolgen.policy.sql.names import Names

__all__ = ["Filtered", "Relation", "Scope"]


@dataclass(slots=True, kw_only=True)
class Relation:
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


@dataclass(slots=True, kw_only=True)
class Scope:
    """The names in reach of one SELECT. `outer` is the query around it, when that is in reach at all."""

    outer: Scope | None
    relations: list[Relation] = field(default_factory=list)
    aliases: frozenset[str] = frozenset()
    computed: bool = False  # a column of the result has no name but the engine's
    lambdas: frozenset[str] = frozenset()
    clause: str = ""  # of the SELECT, as the parser calls it, that is looked at; "on" for a join's condition

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """A place in the tree where `table` is read through a subquery: of granted `columns`, with the policy's filter and masks."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    rows: str | None
    masks: Mapping[str, str]
    row_ids: Sequence[str] = ()
