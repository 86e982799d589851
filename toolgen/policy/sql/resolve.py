"""Which table and column every name of a statement means, and the refusal of every name that means nothing a principal may see.

Names are resolved against the whole physical schema, hidden columns included, because the database resolves them so. One rule is stricter
than any database: a name that a table in reach hides is refused even where a nearer table or an alias would answer to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from toolgen.model.database import Database, Table
from toolgen.model.names import nearest
from toolgen.policy.sql.functions import TABLE_FUNCTIONS, UNIT_FIRST
from toolgen.policy.sql.grammar import called
from toolgen.policy.sql.grants import SqlScope, find_table, fold, fold_column, full_name, visible_columns
from toolgen.policy.sql.refusal import refuse, shown
from toolgen.policy.sql.text import slot_number

__all__ = ["Filtered", "Resolver"]

Names: TypeAlias = tuple[str | None, ...]
"""The folded output columns of a query in order; None is a column without a name of its own."""

_DEFAULT_SCHEMA = {"sqlite": "main", "postgres": "public", "mysql": "", "duckdb": "main"}
_MOST_QUERIES = 100
_MOST_RELATIONS = 64  # in one FROM, as in SQLite
_MOST_SOURCES = 200  # in a statement
_MOST_COLUMNS = 2_000  # of one query: `SELECT * FROM a, a AS b` doubles them, and CTEs can do that again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """A place in the tree where rows of `table` are read through the policy's filter and masks."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    rows: str | None
    masks: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Relation:
    """Something in a FROM clause. `hidden` are folded names it has and the principal may not use."""

    alias: str
    names: Names
    hidden: frozenset[str] = frozenset()
    table: Table | None = None
    columns: tuple[str, ...] = ()  # of a base table, as spelt by the database
    whole: bool = False  # naming it as a value is allowed: a subquery whose columns were all checked
    identifier: exp.Identifier | None = None


@dataclass(slots=True, kw_only=True)
class _Scope:
    """The names in reach of one SELECT. `outer` is the query around it, when that is in reach at all."""

    outer: _Scope | None
    relations: list[_Relation] = field(default_factory=list)
    aliases: frozenset[str] = frozenset()
    lambdas: frozenset[str] = frozenset()

    def chain(self) -> Iterator[_Scope]:
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


_Ctes: TypeAlias = Mapping[str, Names]


class Resolver:
    """One walk over one tree. Afterwards `tables`, `columns` (`table.column`) and `filtered` say what the statement touches."""

    def __init__(self, database: Database, scope: SqlScope) -> None:
        self._database = database
        self._dialect = database.dialect
        self._granted = {
            full_name(table): (table, table_scope)
            for name, table_scope in scope.tables.items()
            if (table := find_table(database, name)) is not None
        }
        self._queries = 0
        self._sources = 0
        self.tables: set[str] = set()
        self.columns: set[str] = set()
        self.filtered: list[Filtered] = []

    def resolve(self, root: exp.Expr) -> None:
        """Checks every name and expands every `*`, in place. Raises `Refusal`."""
        self._query(root, None, {})

    # queries

    def _query(self, node: exp.Expr, outer: _Scope | None, ctes: _Ctes) -> Names:
        self._queries += 1
        if self._queries > _MOST_QUERIES:
            refuse("too-deep", f"there are more than {_MOST_QUERIES} queries in the statement", "ask for less at once")
        ctes = self._with(node, outer, ctes)
        match node:
            case exp.Select():
                return self._select(node, outer, ctes)
            case exp.SetOperation():
                left = self._query(node.this, outer, ctes)
                right = self._query(node.expression, outer, ctes)
                if node.args.get("by_name"):
                    left = (*left, *(name for name in right if name not in left))
                self._tail(node, outer, left, ctes)
                return left
            case exp.Subquery():
                names = self._query(node.this, outer, ctes)
                if node.args.get("joins"):
                    refuse("syntax", "a join in parentheses is not supported here", "leave the parentheses out")
                self._tail(node, outer, names, ctes)
                return names
            case exp.Values():
                return self._values(node, outer, ctes)
        return refuse("not-a-query", "something other than a query stands where a query belongs", "write a SELECT")

    def _tail(self, node: exp.Expr, outer: _Scope | None, names: Names, ctes: _Ctes) -> None:
        """ORDER BY, LIMIT and OFFSET of a set operation see its output columns only."""
        scope = _Scope(outer=outer, relations=[_Relation(alias="", names=names)])
        for clause in ("order", "limit", "offset"):
            self._expressions([node.args.get(clause)], scope, ctes)

    def _values(self, node: exp.Values, outer: _Scope | None, ctes: _Ctes) -> Names:
        self._expressions(node.expressions, _Scope(outer=outer), ctes)
        first = node.expressions[0] if node.expressions else None
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        start = 0 if self._dialect in {"mysql", "duckdb"} else 1
        prefix = "col" if self._dialect == "duckdb" else "column_" if self._dialect == "mysql" else "column"
        return tuple(f"{prefix}{start + index}" for index in range(width))

    def _with(self, node: exp.Expr, outer: _Scope | None, ctes: _Ctes) -> _Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        known = dict(ctes)
        mine: set[str] = set()
        for cte in clause.expressions:
            name = self._alias(cte.args["alias"])
            if not name or name in mine:
                refuse("ambiguous", "two common table expressions share a name", "give each its own name")
            if (table := self._known_table(name)) and table.view:
                refuse(
                    "ambiguous",
                    f"the common table expression {shown(name)} has the name of a view",
                    "give it another name",
                )
            mine.add(name)
            columns = self._alias_columns(cte.args["alias"])
            known[name] = _renamed(
                self._cte(cte.this, name, columns, outer, known, bool(clause.args.get("recursive"))), columns
            )
        return known

    def _cte(
        self, body: exp.Expr, name: str, columns: Names, outer: _Scope | None, known: _Ctes, recursive: bool
    ) -> Names:
        """A recursive one sees itself, with the columns of its first branch; SQLite does not need the word RECURSIVE for that."""
        if (
            isinstance(body, exp.SetOperation)
            and (recursive or self._dialect == "sqlite")
            and not body.args.get("with_")
        ):
            left = self._query(body.this, outer, known)
            self._query(body.expression, outer, {**known, name: _renamed(left, columns)})
            self._tail(body, outer, left, known)
            return left
        return self._query(body, outer, known)

    def _select(self, node: exp.Select, outer: _Scope | None, ctes: _Ctes) -> Names:
        scope = _Scope(outer=outer)
        sources = [node.args["from_"].this] if node.args.get("from_") else []
        joins = node.args.get("joins") or []
        for source in (*sources, *(join.this for join in joins), *(node.args.get("laterals") or [])):
            self._source(source, scope, outer, ctes)
        scope.aliases = frozenset(
            self._fold_column(item.args["alias"])
            for item in node.expressions
            if isinstance(item, exp.Alias) and item.args.get("alias")
        )
        self._joins(joins, scope, ctes)
        natural = any(join.args.get("using") or join.args.get("method") for join in joins)
        node.set("expressions", self._expanded(node.expressions, scope, natural))
        for name, value in list(node.args.items()):
            if name not in {"from_", "joins", "laterals", "with_"}:
                self._expressions(value if isinstance(value, list) else [value], scope, ctes)
        names = tuple(name for item in node.expressions for name in self._output_names(item, scope))
        if len(names) > _MOST_COLUMNS:
            refuse("too-deep", f"a query has more than {_MOST_COLUMNS} columns", "name the columns you need")
        return names

    # sources

    def _source(self, node: exp.Expr, scope: _Scope, outer: _Scope | None, ctes: _Ctes) -> None:
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                self._table(node, scope, ctes)
                self._nested_joins(node, scope, outer, ctes)
            case exp.Table():
                self._table_function(node, node.this, scope, ctes)
            case exp.Lateral():
                inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
                if isinstance(inner, exp.Anonymous):
                    self._table_function(node, inner, scope, ctes)
                elif isinstance(inner, exp.Unnest):
                    self._unnest(node, inner, scope, ctes)
                else:
                    self._derived(node, self._query(inner, scope, ctes), scope)
            case exp.Unnest():
                self._unnest(node, node, scope, ctes)
            case exp.Subquery() if isinstance(node.this, exp.Table):
                if node.args.get("alias") or node.args.get("with_"):
                    refuse("syntax", "a join in parentheses has an alias", "leave the alias out")
                self._source(node.this, scope, outer, ctes)
                self._nested_joins(node, scope, outer, ctes)
            case exp.Subquery() | exp.Values():
                # DuckDB lets a subquery in FROM see the tables before it, without LATERAL.
                around = scope if self._dialect == "duckdb" else outer
                joins = node.args.get("joins")
                node.set("joins", None)
                self._derived(node, self._query(node, around, ctes), scope)
                if joins:
                    node.set("joins", joins)
                    self._nested_joins(node, scope, outer, ctes)
            case _:
                refuse("syntax", "something other than a table stands in FROM", "name a table")

    def _nested_joins(self, node: exp.Expr, scope: _Scope, outer: _Scope | None, ctes: _Ctes) -> None:
        joins = node.args.get("joins") or []
        for join in joins:
            self._source(join.this, scope, outer, ctes)
        self._joins(joins, scope, ctes)

    def _table(self, node: exp.Table, scope: _Scope, ctes: _Ctes) -> None:
        schema = node.args.get("db")
        folded = self._fold_relation(node.this)
        alias_node = node.args.get("alias")
        if schema is None and folded in ctes:
            names = _renamed(ctes[folded], self._alias_columns(alias_node))
            self._add(
                scope,
                _Relation(
                    alias=self._alias(alias_node) or folded,
                    names=names,
                    whole=True,
                    identifier=_name_of(alias_node) or node.this,
                ),
            )
            return
        table = self._known_table(folded, self._fold_relation(schema) if schema is not None else "")
        if table is None:
            known = sorted(self._granted)
            listed = ", ".join(known[:20])
            refuse(
                "table",
                f"table {shown(node.name)} is not available{nearest(node.name, known)}",
                f"available tables: {listed}" if known else "no table of this database is available",
            )
        if alias_node is not None and alias_node.args.get("columns"):
            refuse("syntax", "the columns of a table are renamed in FROM", "rename them in the SELECT list")
        self._granted_table(node, table, scope, alias_node)

    def _granted_table(self, node: exp.Table, table: Table, scope: _Scope, alias_node: exp.Expr | None) -> None:
        name = full_name(table)
        table_scope = self._granted[name][1]
        columns = visible_columns(table, table_scope, self._dialect)
        folded = tuple(fold_column(self._dialect, column, quoted=True) for column in columns)
        hidden = frozenset(fold_column(self._dialect, column.name, quoted=True) for column in table.columns) - set(
            folded
        )
        self.tables.add(name)
        default = table.schema or _DEFAULT_SCHEMA[self._dialect]
        if default:
            node.set("db", exp.to_identifier(default, quoted=True))
        node.set("this", exp.to_identifier(table.name, quoted=True))
        alias = self._alias(alias_node) or self._fold_relation(node.this)
        identifier = _name_of(alias_node) or exp.to_identifier(table.name, quoted=True)
        if table_scope.rows is not None or table_scope.masks:
            # Seen through its filter a table is a subquery of the granted columns: nothing else of it is in reach.
            self.filtered.append(
                Filtered(node=node, table=table, columns=columns, rows=table_scope.rows, masks=table_scope.masks)
            )
            self.columns.update(f"{name}.{column}" for column in columns)
        self._add(
            scope,
            _Relation(alias=alias, names=folded, hidden=hidden, table=table, columns=columns, identifier=identifier),
        )

    def _table_function(self, node: exp.Expr, call: exp.Expr, scope: _Scope, ctes: _Ctes) -> None:
        self._expressions(call.expressions, scope, ctes)
        name = called(call) if isinstance(call, exp.Anonymous) else ""
        names: Names = TABLE_FUNCTIONS[self._dialect].get(name, ())
        if not names:
            refuse("function", f"the function {shown(name)} is not available in FROM", "name a table")
        self._function_relation(node, name, names, scope)

    def _unnest(self, node: exp.Expr, call: exp.Unnest, scope: _Scope, ctes: _Ctes) -> None:
        self._expressions(call.expressions, scope, ctes)
        self._function_relation(node, "unnest", tuple("unnest" for _ in call.expressions), scope)

    def _function_relation(self, node: exp.Expr, name: str, names: Names, scope: _Scope) -> None:
        alias_node = node.args.get("alias")
        alias = self._alias(alias_node)
        renamed = self._alias_columns(alias_node)
        if len(names) == 1 and alias and not renamed:
            renamed = (alias,)  # PostgreSQL 7.2.1.4: one column takes the alias of the function
        if node.args.get("ordinality") or node.args.get("offset"):
            names = (*names, "ordinality")
        self._add(
            scope,
            _Relation(alias=alias or name, names=_renamed(names, renamed), whole=True, identifier=_name_of(alias_node)),
        )

    def _derived(self, node: exp.Expr, names: Names, scope: _Scope) -> None:
        alias_node = node.args.get("alias")
        alias = self._alias(alias_node)
        renamed = _renamed(names, self._alias_columns(alias_node))
        self._add(scope, _Relation(alias=alias, names=renamed, whole=bool(alias), identifier=_name_of(alias_node)))

    def _add(self, scope: _Scope, relation: _Relation) -> None:
        if relation.alias and any(other.alias == relation.alias for other in scope.relations):
            refuse("ambiguous", f"{shown(relation.alias)} stands twice in one FROM", "give each table its own alias")
        self._sources += 1
        if len(scope.relations) >= _MOST_RELATIONS or self._sources > _MOST_SOURCES:
            refuse("too-deep", "there are too many tables in the statement", "ask for less at once")
        scope.relations.append(relation)

    def _joins(self, joins: Sequence[exp.Expr], scope: _Scope, ctes: _Ctes) -> None:
        for join in joins:
            self._expressions([join.args.get("on")], scope, ctes)
            for identifier in join.args.get("using") or []:
                self._unqualified(identifier, scope)
            if str(join.args.get("method") or "").upper() == "NATURAL":
                self._natural(scope)

    def _natural(self, scope: _Scope) -> None:
        """NATURAL compares every column two tables share, hidden ones included."""
        for relation in scope.relations:
            others = {
                name for other in scope.relations if other is not relation for name in (*other.names, *other.hidden)
            }
            if relation.hidden & others:
                refuse(
                    "column",
                    "NATURAL JOIN would compare a column that is not available",
                    "use JOIN … ON with the columns you mean",
                )
            self._touch_all(relation)

    # columns

    def _expanded(self, items: Iterable[exp.Expr], scope: _Scope, merged: bool) -> list[exp.Expr]:
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

    def _star(self, item: exp.Expr, star: exp.Star, relations: Sequence[_Relation], merged: bool) -> list[exp.Expr]:
        if not relations:
            refuse("syntax", "* stands in a query without a table", "name the columns")
        excluded = {
            self._fold_column(name)
            for name in star.args.get("except_") or []
            if isinstance(name, (exp.Identifier, exp.Column))
        }
        if len(excluded) != len(star.args.get("except_") or []):
            refuse("syntax", "what * leaves out is not a list of columns", "name the columns")
        for relation in relations:
            self._touch_all(relation)
        if not any(relation.table for relation in relations) and not excluded:
            return [item]
        hides = any(relation.hidden for relation in relations) or bool(excluded)
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
            written.extend(self._all_of(relation, excluded))
        if not written:
            refuse("column", "* stands for no column that is available", "name the columns you need")
        return written

    def _all_of(self, relation: _Relation, excluded: set[str]) -> list[exp.Expr]:
        identifier = relation.identifier
        if relation.table is None and not excluded and identifier is not None:
            return [exp.Column(this=exp.Star(), table=identifier.copy())]
        if identifier is None or (relation.table is None and None in relation.names):
            refuse(
                "syntax",
                "* stands for a subquery without an alias or with unnamed columns",
                "give it an alias, or name the columns",
            )
        spelt = relation.columns if relation.table else tuple(name for name in relation.names if name)
        return [
            exp.Column(this=exp.to_identifier(column, quoted=True), table=identifier.copy())
            for column in spelt
            if fold_column(self._dialect, column, quoted=True) not in excluded
        ]

    def _touch_all(self, relation: _Relation) -> None:
        if relation.table:
            self.columns.update(f"{full_name(relation.table)}.{column}" for column in relation.columns)

    def _expressions(self, nodes: Iterable[object], scope: _Scope, ctes: _Ctes) -> None:
        """Every name below these nodes; nested queries are resolved in scopes of their own."""
        stack = [node for node in nodes if isinstance(node, exp.Expr)]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query() | exp.Values():
                    self._query(node, scope, ctes)
                case exp.Column():
                    self._column(node, scope)
                case exp.Star():
                    if not isinstance(node.parent, (exp.Select, exp.Anonymous)):
                        refuse("syntax", "* stands where a column belongs", "name the column")
                case exp.Anonymous() if called(node) in UNIT_FIRST and _is_unit(node):
                    stack.extend(node.expressions[1:])
                case exp.Lambda():
                    self._lambda(node, scope, ctes)
                case exp.Comprehension():
                    self._comprehension(node, scope, ctes)
                case exp.PropertyEQ():
                    stack.append(node.expression)
                case _:
                    stack.extend(node.iter_expressions())

    def _lambda(self, node: exp.Lambda, scope: _Scope, ctes: _Ctes) -> None:
        names = frozenset(self._fold_column(name) for name in node.expressions)
        self._expressions([node.this], _Scope(outer=scope, lambdas=names), ctes)

    def _comprehension(self, node: exp.Comprehension, scope: _Scope, ctes: _Ctes) -> None:
        self._expressions([node.args["iterator"]], scope, ctes)
        inner = _Scope(outer=scope, lambdas=frozenset({self._fold_column(node.expression)}))
        self._expressions([node.this, node.args.get("condition")], inner, ctes)

    def _column(self, node: exp.Column, scope: _Scope) -> None:
        if slot_number(node) is not None:
            return
        if node.args.get("table") is None:
            if isinstance(node.this, exp.Star):
                refuse("syntax", "* stands where a column belongs", "name the column")
            self._unqualified(node.this, scope)
            return
        if isinstance(node.this, exp.Star):
            owner = self._owner(node, scope)
            if not (isinstance(node.parent, exp.Select) and owner.table is None):
                refuse("whole-row", "a whole row stands where a value belongs", "name the columns you need")
            return
        owner = self._owner(node, scope)
        name = self._fold_column(node.this)
        if name not in owner.names:
            self._unknown(node.this, [owner])
        self._touch(owner, name)

    def _owner(self, node: exp.Column, scope: _Scope) -> _Relation:
        """The relation a qualified name belongs to. An alias that any query around gives to a table hiding the name is refused."""
        qualifier = node.args["table"]
        alias = self._fold_relation(qualifier)
        found = [relation for around in scope.chain() for relation in around.relations if relation.alias == alias]
        if not found:
            refuse("column", f"there is no table or alias {shown(qualifier.name)} here", "use an alias that FROM gives")
        if isinstance(node.this, exp.Identifier):
            name = self._fold_column(node.this)
            for relation in found:
                if name in relation.hidden:
                    self._unknown(node.this, [relation])
        if (schema := node.args.get("db")) is not None:
            table = found[0].table
            expected = (table.schema or _DEFAULT_SCHEMA[self._dialect]) if table else ""
            if self._fold_relation(schema) != expected:
                refuse(
                    "column",
                    f"{shown(schema.name)} is not the schema of that table",
                    "leave the schema out of the column",
                )
            node.set("db", None)
        return found[0]

    def _unqualified(self, identifier: exp.Expr, scope: _Scope) -> None:
        name = self._fold_column(identifier)
        scopes = list(scope.chain())
        for around in scopes:
            for relation in around.relations:
                if name in relation.hidden:
                    self._unknown(identifier, [relation])
        for around in scopes:
            if name in around.lambdas:
                return
            owners = [relation for relation in around.relations if name in relation.names]
            for owner in owners:
                self._touch(owner, name)
            if owners or name in around.aliases:
                return
        if self._dialect in {"postgres", "duckdb"}:
            folded = self._fold_relation(identifier)
            for around in scopes:
                for relation in around.relations:
                    if relation.alias == folded:
                        if not relation.whole:
                            refuse(
                                "whole-row",
                                f"{shown(identifier.name)} is a whole row of a table",
                                "name the columns you need",
                            )
                        return
        self._unknown(identifier, [relation for around in scopes for relation in around.relations])

    def _touch(self, relation: _Relation, name: str) -> None:
        if relation.table:
            index = relation.names.index(name)
            self.columns.add(f"{full_name(relation.table)}.{relation.columns[index]}")

    def _unknown(self, identifier: exp.Expr, relations: Sequence[_Relation]) -> None:
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

    # names

    def _output_names(self, item: exp.Expr, scope: _Scope) -> Names:
        match item:
            case exp.Alias():
                return (self._fold_column(item.args["alias"]),)
            case exp.Column() if isinstance(item.this, exp.Star):
                return self._owner(item, scope).names
            case exp.Column():
                return (self._fold_column(item.this),) if slot_number(item) is None else (None,)
            case exp.Star():
                return tuple(name for relation in scope.relations for name in relation.names)
            case exp.Anonymous() if self._dialect in {"postgres", "duckdb"}:
                return (called(item),)
            case _:
                return (None,)

    def _known_table(self, name: str, schema: str = "") -> Table | None:
        default = _DEFAULT_SCHEMA[self._dialect]
        wanted = "" if schema == default else schema
        for table, _ in self._granted.values():
            own = self._fold_relation(exp.to_identifier(table.name, quoted=True))
            own_schema = "" if table.schema == default else table.schema
            if own == name and self._same_schema(own_schema, wanted):
                return table
        return None

    def _same_schema(self, own: str, wanted: str) -> bool:
        return (
            fold(self._dialect, own) == fold(self._dialect, wanted)
            if self._dialect in {"sqlite", "duckdb"}
            else own == wanted
        )

    def _fold_relation(self, node: exp.Expr) -> str:
        """A table, schema or alias as the dialect compares it. MySQL may keep case, so here it does: the stricter of the two."""
        name = node.name
        match self._dialect:
            case "postgres":
                return name if node.args.get("quoted") else fold("postgres", name)
            case "mysql":
                return name
            case _:
                return fold(self._dialect, name)

    def _fold_column(self, node: exp.Expr) -> str:
        inner = node.this if isinstance(node, exp.Column) else node
        return fold_column(self._dialect, inner.name, quoted=bool(inner.args.get("quoted")))

    def _alias(self, node: exp.Expr | None) -> str:
        name = _name_of(node)
        return self._fold_relation(name) if name is not None else ""

    def _alias_columns(self, node: exp.Expr | None) -> Names:
        return tuple(self._fold_column(name) for name in node.args.get("columns") or []) if node is not None else ()


def _name_of(node: exp.Expr | None) -> exp.Identifier | None:
    name = node.this if isinstance(node, exp.TableAlias) else node
    return name if isinstance(name, exp.Identifier) else None


def _renamed(names: Names, columns: Names) -> Names:
    if len(columns) > len(names):
        refuse("column", "more columns are renamed than there are", "give as many names as the query has columns")
    return (*columns, *names[len(columns) :]) if columns else names


def _is_unit(node: exp.Anonymous) -> bool:
    first = node.expressions[0] if node.expressions else None
    if isinstance(first, exp.Column) and not first.args.get("table"):
        return first.name.lower() in UNIT_FIRST[called(node)]
    return isinstance(first, exp.Var) and first.name.lower() in UNIT_FIRST[called(node)]
