"""Which column every name means among the relations in reach, and the refusal of each that a principal may not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from toolgen.model.database import Table
from toolgen.model.names import nearest
from toolgen.policy.sql.grammar import called
from toolgen.policy.sql.grants import fold_column, full_name
from toolgen.policy.sql.marks import slot_number
from toolgen.policy.sql.names import DEFAULT_SCHEMA, Names, Spelling
from toolgen.policy.sql.refusal import refuse, shown

__all__ = ["Columns", "Relation", "Scope"]


@dataclass(slots=True, kw_only=True)
class Relation:
    """Something in a FROM clause. `hidden` are folded names it has and the principal may not use."""

    alias: str
    names: Names
    hidden: frozenset[str] = frozenset()
    table: Table | None = None
    columns: tuple[str, ...] = ()  # of a base table, as spelt by the database
    whole: bool = False  # naming it as a value is allowed: a subquery whose columns were all checked
    identifier: exp.Identifier | None = None


@dataclass(slots=True, kw_only=True)
class Scope:
    """The names in reach of one SELECT. `outer` is the query around it, when that is in reach at all."""

    outer: Scope | None
    relations: list[Relation] = field(default_factory=list)
    aliases: frozenset[str] = frozenset()
    lambdas: frozenset[str] = frozenset()

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class Columns:
    """Resolves the columns of one statement. `used` are those it touches, as `table.column`."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._spelling = Spelling(dialect)
        self.used: set[str] = set()

    def expanded(self, items: Iterable[exp.Expr], scope: Scope, merged: bool) -> list[exp.Expr]:
        """The SELECT list with every `*` written out where a base table stands behind it."""
        expanded: list[exp.Expr] = []
        for item in items:
            if isinstance(item, exp.Star):
                expanded.extend(self._star(item, item, scope.relations, merged))
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                owner = self._owner(item, scope)
                expanded.extend(self._star(item, item.this, [owner], False))
            else:
                expanded.append(item)
        return expanded

    def _star(self, item: exp.Expr, star: exp.Star, relations: Sequence[Relation], merged: bool) -> list[exp.Expr]:
        if not relations:
            refuse("syntax", "* stands in a query without a table", "name the columns")
        changes = self._changes(star)
        for relation in relations:
            self.use_all(relation)
        if not any(relation.table for relation in relations) and not changes:
            return [item]
        hides = any(relation.hidden for relation in relations) or bool(changes)
        if merged and hides:
            refuse(
                "column",
                "* with USING or NATURAL would include columns that are not available",
                "name the columns you need",
            )
        if not hides and (merged or any(relation.identifier is None for relation in relations)):
            return [item]
        written: list[exp.Expr] = []
        for relation in relations:
            written.extend(self._all_of(relation, changes))
        if not written:
            refuse("column", "* stands for no column that is available", "name the columns you need")
        return written

    def _changes(self, star: exp.Star) -> dict[str, exp.Expr | None]:
        """What stands in place of a column of `*`, by name: nothing for EXCLUDE, an expression for REPLACE."""
        left_out, replaced = star.args.get("except_") or [], star.args.get("replace") or []
        changes: dict[str, exp.Expr | None] = {}
        for name in left_out:
            if isinstance(name, (exp.Identifier, exp.Column)):
                changes[self._spelling.column(name)] = None
        for item in replaced:
            if isinstance(item, exp.Alias):
                changes[self._spelling.column(item.args["alias"])] = item
        if len(changes) != len(left_out) + len(replaced):
            refuse("syntax", "what * leaves out or replaces is not a list of columns", "name the columns")
        return changes

    def _all_of(self, relation: Relation, changes: Mapping[str, exp.Expr | None]) -> list[exp.Expr]:
        identifier = relation.identifier
        if relation.table is None and not changes and identifier is not None:
            return [exp.Column(this=exp.Star(), table=identifier.copy())]
        if identifier is None or (relation.table is None and None in relation.names):
            refuse(
                "syntax",
                "* stands for a subquery without an alias or with unnamed columns",
                "give it an alias, or name the columns",
            )
        written: list[exp.Expr] = []
        for column in relation.columns if relation.table else tuple(name for name in relation.names if name):
            name = fold_column(self._dialect, column, quoted=True)
            if name not in changes:
                written.append(exp.Column(this=exp.to_identifier(column, quoted=True), table=identifier.copy()))
            elif (replacement := changes[name]) is not None:
                written.append(replacement.copy())
        return written

    def use_all(self, relation: Relation) -> None:
        if relation.table:
            self.used.update(f"{full_name(relation.table)}.{column}" for column in relation.columns)

    def check(self, node: exp.Column, scope: Scope) -> None:
        if slot_number(node) is not None:
            return
        if node.args.get("table") is None:
            if isinstance(node.this, exp.Star):
                refuse("syntax", "* stands where a column belongs", "name the column")
            self.unqualified(node.this, scope)
            return
        if isinstance(node.this, exp.Star):
            owner = self._owner(node, scope)
            if not (isinstance(node.parent, exp.Select) and owner.table is None):
                refuse("whole-row", "a whole row stands where a value belongs", "name the columns you need")
            return
        owner = self._owner(node, scope)
        name = self._spelling.column(node.this)
        if name not in owner.names:
            self._unknown(node.this, [owner])
        self._touch(owner, name)

    def _owner(self, node: exp.Column, scope: Scope) -> Relation:
        """The relation a qualified name belongs to. An alias that any query around gives to a table hiding the name is refused."""
        qualifier = node.args["table"]
        alias = self._spelling.relation(qualifier)
        found = [relation for around in scope.chain() for relation in around.relations if relation.alias == alias]
        if not found:
            refuse("column", f"there is no table or alias {shown(qualifier.name)} here", "use an alias that FROM gives")
        if isinstance(node.this, exp.Identifier):
            name = self._spelling.column(node.this)
            for relation in found:
                if name in relation.hidden:
                    self._unknown(node.this, [relation])
        if (schema := node.args.get("db")) is not None:
            table = found[0].table
            expected = (table.schema or DEFAULT_SCHEMA[self._dialect]) if table else ""
            if self._spelling.relation(schema) != expected:
                refuse(
                    "column",
                    f"{shown(schema.name)} is not the schema of that table",
                    "leave the schema out of the column",
                )
            node.set("db", None)
        return found[0]

    def unqualified(self, identifier: exp.Expr, scope: Scope) -> None:
        name = self._spelling.column(identifier)
        scopes = list(scope.chain())
        for around in scopes:
            for relation in around.relations:
                if name in relation.hidden:
                    self._unknown(identifier, [relation])
        if self._dialect in {"postgres", "duckdb"} and not _is_sorted_by(identifier, scope, name):
            self._refuse_row(identifier, scopes, name)
        for around in scopes:
            if name in around.lambdas:
                return
            owners = [relation for relation in around.relations if name in relation.names]
            for owner in owners:
                self._touch(owner, name)
            if owners or name in around.aliases:
                return
        if self._dialect in {"postgres", "duckdb"}:
            folded = self._spelling.relation(identifier)
            if any(relation.alias == folded for around in scopes for relation in around.relations):
                return
        self._unknown(identifier, [relation for around in scopes for relation in around.relations])

    def _refuse_row(self, identifier: exp.Expr, scopes: Sequence[Scope], name: str) -> None:
        """A table's name as a value is its whole row, hidden columns included. An alias in the SELECT list, or a column of a table that
        is joined later, does not change that; only a column of the table itself does, because it is in reach wherever the table is.
        """
        folded = self._spelling.relation(identifier)
        for around in scopes:
            if name in around.lambdas:
                return
            for relation in around.relations:
                if relation.alias == folded and not relation.whole and name not in relation.names:
                    refuse(
                        "whole-row",
                        f"{shown(identifier.name)} is a whole row of a table",
                        "name the columns you need, or give the alias another name",
                    )

    def _touch(self, relation: Relation, name: str) -> None:
        if relation.table:
            index = relation.names.index(name)
            self.used.add(f"{full_name(relation.table)}.{relation.columns[index]}")

    def _unknown(self, identifier: exp.Expr, relations: Sequence[Relation]) -> None:
        """The same words for a column that is hidden and for one that is not there."""
        known = [
            name for relation in relations for name in (relation.columns if relation.table else relation.names) if name
        ]
        where = ""
        if len(relations) == 1 and relations[0].table:
            where = f" of {shown(full_name(relations[0].table))}"
        advice = (
            f"available: {', '.join(map(shown, known[:40]))}"
            if known
            else "there is no table here to take a column from"
        )
        if identifier.args.get("quoted"):
            advice += "; a string is written in single quotes"
        refuse(
            "column",
            f"column {shown(identifier.name)}{where} is not available{nearest(identifier.name, known)}",
            advice,
        )

    def natural(self, scope: Scope) -> None:
        """NATURAL compares every column two tables share, hidden ones included."""
        for relation in scope.relations:
            others = {
                name for other in scope.relations if other is not relation for name in (*other.names, *other.hidden)
            }
            # None is a column whose name only the database knows: it may be that of a hidden one.
            if relation.hidden and (None in others or relation.hidden & others):
                refuse(
                    "column",
                    "NATURAL JOIN would compare a column that is not available",
                    "use JOIN … ON with the columns you mean",
                )
            self.use_all(relation)

    def output_names(self, item: exp.Expr, scope: Scope) -> Names:
        match item:
            case exp.Alias():
                return (self._spelling.column(item.args["alias"]),)
            case exp.Column() if isinstance(item.this, exp.Star):
                return self._owner(item, scope).names
            case exp.Column():
                return (self._spelling.column(item.this),) if slot_number(item) is None else (None,)
            case exp.Star():
                return tuple(name for relation in scope.relations for name in relation.names)
            case exp.Anonymous() if self._dialect in {"postgres", "duckdb"}:
                return (called(item),)
            case _:
                return (None,)


def _is_sorted_by(identifier: exp.Expr, scope: Scope, name: str) -> bool:
    """Whether a bare name stands in the ORDER BY or GROUP BY of a query that gives it to a column of its result (SQL-92 rule)."""
    column = identifier.parent
    clause = column.parent if column is not None else None
    if isinstance(clause, exp.Ordered):
        clause = clause.parent
    return (
        isinstance(clause, (exp.Order, exp.Group))
        and isinstance(clause.parent, (exp.Select, exp.SetOperation))
        and name in scope.aliases
    )
