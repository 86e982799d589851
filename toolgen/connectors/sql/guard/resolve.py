"""Resolution of every name of a statement to a table or column, and the refusal of names without a visible meaning.

Names are resolved against the complete physical schema, hidden columns included, because the database does the same. One rule is stricter
than any database: a name that a visible table hides is refused even if a nearer table or an alias has that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Final, TypeAlias

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS, Dialect
from toolgen.connectors.sql.dialects.duckdb import SUMMARY_COLUMNS
from toolgen.connectors.sql.dialects.duckdb_columns import has_columns, is_left_over
from toolgen.connectors.sql.guard.alternatives import catalog_alternative
from toolgen.connectors.sql.guard.columns import Columns, row_ids_of
from toolgen.connectors.sql.guard.functions import KEYWORD_ARGUMENTS, source_columns
from toolgen.connectors.sql.guard.grammar import called
from toolgen.connectors.sql.guard.granted_tables import GrantedTable, granted
from toolgen.connectors.sql.guard.grouped_keys import complete_groups
from toolgen.connectors.sql.guard.identifiers import DEFAULT_SCHEMA, NameRules, Names, fold, full_name, name_of, renamed
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.connectors.sql.guard.relations import Filtered, QueryRelation, SelectScope
from toolgen.core.spelling import nearest
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope

__all__ = ["Resolver"]

_MAX_QUERIES = 100
_MAX_RELATIONS = 64  # tables in one FROM, as in SQLite
_MAX_SOURCES = 200  # tables in a statement
_MAX_COLUMNS = 2_000  # columns of one query: `SELECT * FROM a, a AS b` doubles them, and CTEs can repeat that


class _Common(Struct, frozen=True, kw_only=True):
    """Common table expression: its name as a case-sensitive engine compares it, and its columns. `later`: it is defined after the
    reading query, where engines differ in its visibility.
    """

    name: str
    columns: Names
    later: bool = False


_Ctes: TypeAlias = Mapping[str, _Common]


class Resolver:
    """Walk over a tree that resolves its names. Afterwards `tables`, `columns` (`table.column`) and `filtered` are what the statement
    uses."""

    def __init__(self, database: Database, scope: SqlScope) -> None:
        self._database = database
        self._dialect = database.dialect
        self._record = RECORDS[database.dialect]
        self._spelling = NameRules(database.dialect, database.table_names)
        self._granted = granted(database, scope)
        self._columns = Columns(self._spelling, database.dialect, self._granted.schema)
        self._queries = 0
        self._sources = 0
        self._seen: set[int] = set()  # resolved queries and sources of the tree
        self.width: int | None = None  # number of columns of the result, if known
        self.tables: set[str] = set()
        self.filtered: list[Filtered] = []

    def resolve(self, root: exp.Expr) -> None:
        """Check every name and expand every `*`, in place. Raises `StatementRefusal`."""
        names = self._query(root, None, {})
        self._refuse_unseen(root)
        query = root
        while isinstance(query, (exp.SetOperation, exp.Subquery)):
            query = query.this
        # USING and NATURAL make one of two columns.
        merged = any(isinstance(item, exp.Star) for item in query.expressions) and any(
            join.args.get("using") or join.args.get("method") for join in query.find_all(exp.Join)
        )
        self.width = None if merged or not isinstance(query, exp.Select) else len(names)

    def _refuse_unseen(self, root: exp.Expr) -> None:
        """Refuse a statement with a query or a table that was not resolved, because it could read anything."""
        for node in root.find_all(exp.Query, exp.Table, exp.Values):
            if id(node) not in self._seen:
                refuse(
                    "syntax", "a query is used in an unexpected place", "write it in WITH, and name its columns there"
                )

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the statement uses, as `table.column`."""
        return frozenset(self._columns.used)

    # queries

    def _query(self, node: exp.Expr, outer: SelectScope | None, ctes: _Ctes) -> Names:
        self._seen.add(id(node))
        self._queries += 1
        if self._queries > _MAX_QUERIES:
            refuse(
                "too-deep",
                f"there are more than {_MAX_QUERIES} queries in the statement",
                "split it into smaller statements",
            )
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
        return refuse("not-a-query", "something other than a query is used in the place of a query", "write a SELECT")

    def _tail(self, node: exp.Expr, outer: SelectScope | None, names: Names, ctes: _Ctes) -> None:
        """Resolve ORDER BY, LIMIT and OFFSET of a set operation, which see only its output columns."""
        scope = SelectScope(outer=outer, relations=[QueryRelation(alias="", names=names)])
        for clause in ("order", "limit", "offset"):
            self._expressions([node.args.get(clause)], scope, ctes)

    def _values(self, node: exp.Values, outer: SelectScope | None, ctes: _Ctes) -> Names:
        self._expressions(node.expressions, SelectScope(outer=outer), ctes)
        first = node.expressions[0] if node.expressions else None
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        prefix, start = self._record.values_columns
        return tuple(f"{prefix}{start + index}" for index in range(width))

    def _with(self, node: exp.Expr, outer: SelectScope | None, ctes: _Ctes) -> _Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        known = dict(ctes)
        mine: set[str] = set()
        for cte in clause.expressions:
            alias = name_of(cte.args["alias"])
            name = self._spelling.cte(alias) if alias is not None else ""
            if alias is None or not name or name in mine:
                refuse("ambiguous", "two common table expressions share a name", "give each its own name")
            if (known_as := self._granted.find(self._spelling.relation(alias))) and known_as.table.view:
                refuse(
                    "ambiguous",
                    f"the common table expression {shown(name)} has the name of a view",
                    "give it another name",
                )
            mine.add(name)
            seen = known | self._later(clause, len(mine), ctes)
            given = self._cte(cte, alias, outer, seen, bool(clause.args.get("recursive")))
            columns = self._spelling.alias_columns(cte.args["alias"])
            known[name] = _Common(name=self._spelling.relation(alias), columns=renamed(given, columns))
        self._search(clause, known)
        return known

    def _later(self, clause: exp.Expr, index: int, around: _Ctes) -> dict[str, _Common]:
        """Return the names of common table expressions from `index` on that the query before them may not use.

        SQLite sees all of one WITH, PostgreSQL and MariaDB do so after RECURSIVE. Otherwise a name has its meaning without them, but
        MariaDB then also ignores one of an enclosing query.
        """
        recursive = bool(clause.args.get("recursive"))
        later = self._record.later_ctes
        sees = later == "always" or (recursive and later == "recursive")
        found: dict[str, _Common] = {}
        for cte in clause.expressions[index:]:
            alias = name_of(cte.args["alias"])
            name = self._spelling.cte(alias) if alias is not None else ""
            if alias is not None and name and (sees or (self._record.later_ctes_hide and name in around)):
                found[name] = _Common(name=self._spelling.relation(alias), columns=(), later=True)
        return found

    def _search(self, clause: exp.Expr, known: dict[str, _Common]) -> None:
        """Resolve SEARCH and CYCLE, which add columns to the last common table expression, and use its columns.

        https://www.postgresql.org/docs/current/queries-with.html#QUERIES-WITH-RECURSIVE
        """
        for part in (clause.args.get("search"), clause.args.get("cycle")):
            if part is None:
                continue
            last = self._spelling.cte(name_of(clause.expressions[-1].args["alias"]))  # type: ignore[arg-type]  # _with saw to it
            common = known[last]
            named = part.this.expressions if isinstance(part.this, exp.Tuple) else [part.this]
            if not all(
                isinstance(one, exp.Identifier) and self._spelling.column(one) in common.columns for one in named
            ):
                refuse(
                    "column",
                    "SEARCH or CYCLE names something other than a column of its query",
                    "name one of its columns",
                )
            if not all(isinstance(part.args.get(one) or None, _WRITTEN) for one in ("to", "default")):
                refuse("syntax", "a mark of CYCLE is computed", "write CYCLE id SET is_cycle USING path")
            added = [part.args.get(place) for place in ("expression", "using")]
            names = tuple(self._spelling.column(one) for one in added if isinstance(one, exp.Identifier))
            known[last] = _Common(name=common.name, columns=(*common.columns, *names))

    def _cte(
        self, cte: exp.Expr, alias: exp.Identifier, outer: SelectScope | None, known: _Ctes, recursive: bool
    ) -> Names:
        """Resolve a common table expression. A recursive one sees itself, with the columns of its first branch; SQLite does not need the
        word RECURSIVE.
        """
        body = cte.this
        self._seen.add(id(body))
        if (
            isinstance(body, exp.SetOperation)
            and (recursive or self._record.implicit_recursion)
            and not body.args.get("with_")
        ):
            left = self._query(body.this, outer, known)
            columns = self._spelling.alias_columns(cte.args["alias"])
            itself = _Common(name=self._spelling.relation(alias), columns=renamed(left, columns))
            self._query(body.expression, outer, {**known, self._spelling.cte(alias): itself})
            self._tail(body, outer, left, known)
            return left
        return self._query(body, outer, known)

    def _select(self, node: exp.Select, outer: SelectScope | None, ctes: _Ctes) -> Names:
        scope = SelectScope(outer=outer)
        sources = [node.args["from_"].this] if node.args.get("from_") else []
        joins = node.args.get("joins") or []
        tested: list[QueryRelation] = []
        for source in (*sources, *(join.this for join in joins), *(node.args.get("laterals") or [])):
            known = len(scope.relations)
            self._source(source, scope, outer, ctes)
            if isinstance(source.parent, exp.Join) and source.parent.args.get("kind") in _TESTED_JOINS:
                tested += scope.relations[known:]
        scope.aliases = frozenset(
            self._spelling.column(alias) for item in node.expressions for alias in _aliases_of(item)
        )
        scope.computed = any(None in self._columns.output_names(item, scope) for item in node.expressions)
        scope.clause = "on"
        self._joins(joins, scope, ctes)
        if tested:  # rows of these are tested, and only ON sees their columns
            scope.relations = [relation for relation in scope.relations if all(relation is not one for one in tested)]
        natural = any(join.args.get("using") or join.args.get("method") for join in joins)
        if _is_tested_for_rows(node):
            node.set("expressions", [exp.Literal.number(1)])
        node.set("expressions", self._columns.expanded(node.expressions, scope, natural))
        if (where := node.args.get("where")) is not None:
            where.set("this", self._columns.tested(where.this, scope, natural))
        for name, value in list(node.args.items()):
            if name not in {"from_", "joins", "laterals", "with_"}:
                scope.clause = name
                self._expressions(value if isinstance(value, list) else [value], scope, ctes)
        if self._record.groups_by_key:
            complete_groups(node, scope, self._spelling)
        names = tuple(name for item in node.expressions for name in self._columns.output_names(item, scope))
        if len(names) > _MAX_COLUMNS:
            refuse(
                "too-deep",
                f"a query has {len(names)} columns, and at most {_MAX_COLUMNS} are read",
                "name the columns you need",
            )
        return names

    # sources

    def _source(self, node: exp.Expr, scope: SelectScope, outer: SelectScope | None, ctes: _Ctes) -> None:
        self._seen.add(id(node))
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                self._table(node, scope, ctes)
                self._nested_joins(node, scope, outer, ctes)
            case exp.Table() if node.args.get("rows_from"):
                self._rows_from(node, scope, ctes)
            case exp.Table():
                self._table_function(node, node.this, scope, ctes)
            case exp.Lateral():
                self._seen.add(id(node.this))
                inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
                if isinstance(inner, (exp.Anonymous, exp.XMLTable)):
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
            case exp.Subquery() if isinstance(node.this, exp.Summarize) and not node.args.get("joins"):
                self._query(node.this.this, outer, ctes)
                self._derived(node, SUMMARY_COLUMNS, scope)
            case exp.Subquery() | exp.Values():
                # In DuckDB a subquery in FROM sees the tables before it, without LATERAL.
                around = scope if self._record.lateral_subqueries else outer
                joins = node.args.get("joins")
                node.set("joins", None)
                self._derived(node, self._query(node, around, ctes), scope)
                if joins:
                    node.set("joins", joins)
                    self._nested_joins(node, scope, outer, ctes)
            case _:
                refuse("syntax", "FROM contains something other than a table", "name a table")

    def _nested_joins(self, node: exp.Expr, scope: SelectScope, outer: SelectScope | None, ctes: _Ctes) -> None:
        joins = node.args.get("joins") or []
        for join in joins:
            self._source(join.this, scope, outer, ctes)
        self._joins(joins, scope, ctes)

    def _table(self, node: exp.Table, scope: SelectScope, ctes: _Ctes) -> None:
        schema = node.args.get("db")
        folded = self._spelling.relation(node.this)
        alias_node = node.args.get("alias")
        common = ctes.get(self._spelling.cte(node.this)) if schema is None else None
        if common is not None:
            if common.later:
                refuse(
                    "ambiguous",
                    f"{shown(node.name)} is the name of a common table expression that is defined later",
                    "define it first, or give it another name",
                )
            if common.name != folded:
                refuse(
                    "ambiguous",
                    f"{shown(node.name)} and a common table expression differ only in case",
                    "write the name as WITH has it, or give the common table expression another name",
                )
            names = renamed(common.columns, self._spelling.alias_columns(alias_node))
            self._add(
                scope,
                QueryRelation(
                    alias=self._spelling.alias(alias_node) or folded,
                    names=names,
                    whole=True,
                    identifier=name_of(alias_node) or node.this,
                ),
            )
            return
        found = self._granted.find(folded, self._spelling.relation(schema) if schema is not None else "")
        sequences = self._record.sequence_tables
        if found is None and schema is None and sequences is not None and sequences(node.name):
            self._derived(node, ("seq",), scope, folded)
            return
        if found is None:
            known = self._granted.names
            listed = ", ".join(known[:20])
            available = f"available tables: {listed}" if known else "no table of this database is available"
            tools = catalog_alternative(node.name, schema.name if schema is not None else "")
            refuse(
                "table",
                f"table {shown(node.name)} is not available{nearest(node.name, known)}",
                f"{tools}; {available}" if tools else available,
            )
        if alias_node is not None and alias_node.args.get("columns"):
            refuse("syntax", "the columns of a table are renamed in FROM", "rename them in the SELECT list")
        self._granted_table(node, found, scope, alias_node)

    def _granted_table(
        self, node: exp.Table, found: GrantedTable, scope: SelectScope, alias_node: exp.Expr | None
    ) -> None:
        table = found.table
        self.tables.add(full_name(table))
        default = table.schema or DEFAULT_SCHEMA[self._dialect]
        node.set("db", exp.to_identifier(default, quoted=True) if default else None)
        node.set("this", exp.to_identifier(table.name, quoted=True))
        row_ids = row_ids_of(table, found.columns, found.scope, self._dialect)
        if found.narrowed and not found.is_narrow(node):
            # A table with a hidden part is read through a subquery of granted columns: however the engine resolves a name, it finds nothing
            # else of the table.
            self.filtered.append(
                Filtered(
                    node=node,
                    table=table,
                    columns=found.columns,
                    rows=found.scope.rows,
                    masks=found.scope.masks,
                    row_ids=row_ids if row_ids is not None else (),
                )
            )
        self._add(
            scope,
            QueryRelation(
                alias=self._spelling.alias(alias_node) or found.name,
                names=found.names,
                hidden=found.hidden,
                table=table,
                columns=found.columns,
                row_ids=row_ids,
                identifier=name_of(alias_node) or exp.to_identifier(table.name, quoted=True),
                narrowed=found.narrowed,
            ),
        )

    def _table_function(self, node: exp.Expr, call: exp.Expr, scope: SelectScope, ctes: _Ctes) -> None:
        if isinstance(call, exp.JSONTable):
            self._expressions([call.this], scope, ctes)
            declared = tuple(self._spelling.column(column) for column in _declared(call.args["schema"]))
            self._function_relation(node, "json_table", declared, scope, "")
            return
        if isinstance(call, exp.XMLTable):
            self._expressions(call.args["passing"], scope, ctes)
            declared = tuple(self._spelling.column(column.this) for column in call.args.get("columns") or ())
            self._function_relation(node, "xmltable", declared, scope, "ordinality" * bool(node.args.get("ordinality")))
            return
        self._expressions(call.expressions, scope, ctes)
        name = called(call) if isinstance(call, exp.Anonymous) else ""
        names: Names | None = source_columns(name, self._dialect)
        if names is None:
            refuse("function", f"the function {shown(name)} is not available in FROM", "name a table")
        if not names:
            names = self._declared_columns(node.args.get("alias"), name)
        self._function_relation(node, name, names, scope, "ordinality" * bool(node.args.get("ordinality")))

    def _rows_from(self, node: exp.Table, scope: SelectScope, ctes: _Ctes) -> None:
        """Resolve `ROWS FROM (f(x), g(y)) WITH ORDINALITY`: the columns of all functions side by side."""
        names: list[str] = []
        for function in node.args["rows_from"]:
            self._seen.add(id(function))
            call = function.this if isinstance(function, exp.Table) else function
            self._expressions(call.expressions, scope, ctes)
            name = called(call) if isinstance(call, exp.Anonymous) else "unnest"
            given = source_columns(name, self._dialect)
            if not given:
                refuse("function", f"the function {shown(name)} is not available in ROWS FROM", "name a table")
            names.extend(("unnest",) * len(call.expressions) if name == "unnest" else given)
        self._function_relation(node, "", tuple(names), scope, "ordinality" * bool(node.args.get("ordinality")))

    def _declared_columns(self, alias: exp.Expr | None, name: str) -> Names:
        """Return the columns that the alias of a record declares: `jsonb_to_recordset(…) AS x(a int, b text)`."""
        columns = alias.args.get("columns") if alias is not None else None
        if not columns or not all(isinstance(column, exp.ColumnDef) for column in columns):
            refuse("syntax", f"{shown(name)} needs an alias that declares its columns", f"write {name}(…) AS x(a int)")
        return tuple(self._spelling.column(column.this) for column in columns)

    def _unnest(self, node: exp.Expr, call: exp.Unnest, scope: SelectScope, ctes: _Ctes) -> None:
        self._expressions(call.expressions, scope, ctes)
        counter = call.args.get("offset")
        ordinality = (
            self._spelling.column(counter) if isinstance(counter, exp.Identifier) else "ordinality" * bool(counter)
        )
        names = tuple(name for value in call.expressions for name in self._unnested(value, scope))
        self._function_relation(node, "unnest", names, scope, ordinality)

    def _unnested(self, value: exp.Expr, scope: SelectScope) -> tuple[str, ...]:
        """Return the columns of unnest for a value: several for a document that is searched."""
        sought = self._record.unnested_columns
        if not sought:
            return ("unnest",)
        written = value.unnest()
        if isinstance(written, exp.Cast):
            kind = written.to.args.get("kind")
            return sought.get(str(kind.name if isinstance(kind, exp.Identifier) else kind).lower(), ("unnest",))
        if isinstance(written, exp.Anonymous):
            return sought.get(called(written).removeprefix("to_"), ("unnest",))
        if isinstance(written, exp.Column):
            for relation in (one for around in scope.chain() for one in around.relations):
                for column in relation.table.columns if relation.table is not None else ():
                    if column.name == written.name and written.table.lower() in {"", relation.alias.lower()}:
                        return sought.get(column.type, ("unnest",))
        return ("unnest",)

    def _function_relation(self, node: exp.Expr, name: str, names: Names, scope: SelectScope, ordinality: str) -> None:
        alias_node = node.args.get("alias")
        alias = self._spelling.alias(alias_node)
        columns = self._spelling.alias_columns(alias_node)
        if names == (name,) and alias and not columns:
            columns = (
                alias,
            )  # PostgreSQL 7.2.1.4: a single column has the alias of the function, unless it has its own name
        if ordinality:
            names = (*names, ordinality)
        self._add(
            scope,
            QueryRelation(
                alias=alias or name, names=renamed(names, columns), whole=True, identifier=name_of(alias_node)
            ),
        )

    def _derived(self, node: exp.Expr, names: Names, scope: SelectScope, name: str = "") -> None:
        if self._record.subquery_name and isinstance(node, exp.Subquery) and not node.args.get("alias"):
            self._name_subquery(node, scope)
        alias_node = node.args.get("alias")
        alias = self._spelling.alias(alias_node) or name
        columns = renamed(names, self._spelling.alias_columns(alias_node))
        self._add(scope, QueryRelation(alias=alias, names=columns, whole=bool(alias), identifier=name_of(alias_node)))

    def _name_subquery(self, node: exp.Subquery, scope: SelectScope) -> None:
        """Give a subquery in FROM the engine's default name, so that `*` can be replaced by its columns."""
        select = node.parent_select
        if select is None or not any(item.find(exp.Star) or has_columns(item) for item in select.expressions):
            return
        given = self._record.subquery_name
        known = sum(relation.alias.startswith(given) for around in scope.chain() for relation in around.relations)
        name = f"{given}{known + 1}" if known else given
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))

    def _add(self, scope: SelectScope, relation: QueryRelation) -> None:
        if relation.alias and any(other.alias == relation.alias for other in scope.relations):
            refuse("ambiguous", f"{shown(relation.alias)} occurs twice in one FROM", "give each table its own alias")
        if self._spelling.unsure:
            self._refuse_case(relation.alias, scope)
        self._sources += 1
        if len(scope.relations) >= _MAX_RELATIONS or self._sources > _MAX_SOURCES:
            asked = (
                f"more than {_MAX_SOURCES} tables in the statement"
                if self._sources > _MAX_SOURCES
                else f"more than {_MAX_RELATIONS} tables in one FROM"
            )
            refuse("too-deep", f"there are {asked}", "split it into smaller statements")
        scope.relations.append(relation)

    def _refuse_case(self, alias: str, scope: SelectScope) -> None:
        """Refuse two visible aliases that differ only in case, if it is unknown whether the server distinguishes them."""
        names = {other.alias for around in scope.chain() for other in around.relations if other.alias != alias}
        if alias and fold(self._dialect, alias) in {fold(self._dialect, name) for name in names}:
            refuse(
                "ambiguous",
                f"the alias {shown(alias)} differs from another one only in case",
                "give each table a different alias; the operator can run `toolgen build` again, which reads the server's setting",
            )

    def _joins(self, joins: Sequence[exp.Expr], scope: SelectScope, ctes: _Ctes) -> None:
        for join in joins:
            self._expressions([join.args.get("on")], scope, ctes)
            for identifier in join.args.get("using") or []:
                self._columns.unqualified(identifier, scope)
            if str(join.args.get("method") or "").upper() == "NATURAL":
                self._columns.natural(scope)

    def _expressions(self, nodes: Iterable[object], scope: SelectScope, ctes: _Ctes) -> None:
        """Resolve every name below these nodes; nested queries are resolved in their own scopes."""
        stack = [node for node in nodes if isinstance(node, exp.Expr)]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query() | exp.Values():
                    self._query(node, scope, ctes)
                case exp.Column():
                    self._columns.check(node, scope)
                case exp.Star():
                    # `count(*)` counts rows; DuckDB passes all columns, hidden ones included, to any other function.
                    counted = isinstance(node.parent, exp.Anonymous) and called(node.parent) == "count"
                    if not (counted or isinstance(node.parent, exp.Select)):
                        refuse("syntax", "* is used in the place of a column", "name the column")
                case exp.Anonymous() if is_left_over(node):
                    refuse("syntax", "COLUMNS is used outside of a SELECT list", "name the columns")
                case exp.Anonymous() if (keyword := _keyword_argument(node, self._record)) is not None:
                    stack.extend(argument for argument in node.expressions if argument is not keyword)
                case exp.Lambda():
                    self._lambda(node, scope, ctes)
                case exp.Comprehension():
                    self._comprehension(node, scope, ctes)
                case exp.PropertyEQ():  # a field has a name, and an entry of MAP a computed key
                    stack.extend(one for one in (node.this, node.expression) if not isinstance(one, exp.Identifier))
                case _:
                    stack.extend(node.iter_expressions())

    def _lambda(self, node: exp.Lambda, scope: SelectScope, ctes: _Ctes) -> None:
        names = frozenset(self._spelling.column(name) for name in node.expressions)
        self._expressions([node.this], SelectScope(outer=scope, lambdas=names), ctes)

    def _comprehension(self, node: exp.Comprehension, scope: SelectScope, ctes: _Ctes) -> None:
        self._expressions([node.args["iterator"]], scope, ctes)
        names = filter(None, (node.expression, node.args.get("position")))
        inner = SelectScope(outer=scope, lambdas=frozenset(map(self._spelling.column, names)))
        self._expressions([node.this, node.args.get("condition")], inner, ctes)


_TESTED_JOINS: Final = frozenset({"SEMI", "ANTI"})
_WRITTEN: Final = (exp.Literal, exp.Boolean, NoneType)


def _aliases_of(item: exp.Expr) -> Iterator[exp.Expr]:
    """Return the names that a select item defines: its own, and those of `* RENAME (a AS b)`."""
    star = item.this if isinstance(item, exp.Column) else item
    given = (
        [item] if isinstance(item, exp.Alias) else star.args.get("rename") or () if isinstance(star, exp.Star) else ()
    )
    for named in given:
        if isinstance(named, exp.Alias) and (alias := named.args.get("alias")):
            yield alias


def _is_tested_for_rows(query: exp.Select) -> bool:
    """Return True for `EXISTS (SELECT * FROM t WHERE …)`, which reads no column. With columns in place of `*`, MariaDB would read more
    than an index.
    """
    tested = isinstance(query.parent, exp.Exists) or (
        isinstance(query.parent, exp.Subquery) and isinstance(query.parent.parent, exp.Exists)
    )
    plain = not any(query.args.get(clause) for clause in ("group", "having", "distinct", "qualify", "order", "limit"))
    return tested and plain and len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Star)


def _declared(schema: exp.Expr) -> Iterator[exp.Identifier]:
    """Return the columns of a JSON_TABLE, in order. https://dev.mysql.com/doc/refman/8.4/en/json-table-functions.html"""
    for column in schema.expressions:
        nested = column.args.get("nested_schema")
        if not isinstance(column.args.get("path") or exp.Literal.string(""), exp.Literal):
            refuse("syntax", "a path of JSON_TABLE is not a literal", "write it as '$[*].name'")
        if nested is not None:
            yield from _declared(nested)
        elif isinstance(column.this, exp.Identifier):
            yield column.this


def _keyword_argument(node: exp.Anonymous, record: Dialect) -> exp.Expr | None:
    """Return the keyword argument of a call, such as the unit of TIMESTAMPDIFF."""
    own = record.keyword_arguments
    place, keywords = own.get(called(node)) or KEYWORD_ARGUMENTS.get(called(node), (0, frozenset[str]()))
    argument = node.expressions[place] if place < len(node.expressions) else None
    bare = isinstance(argument, exp.Var) or (
        isinstance(argument, exp.Column) and not argument.args.get("table") and not argument.this.args.get("quoted")
    )
    return argument if bare and argument is not None and argument.name.lower() in keywords else None
