"""Guard for statements that change a table: one INSERT, UPDATE or DELETE of one table, within the limits of the policy.

No join, no subquery, no RETURNING, no ON CONFLICT: only values, the table's own columns and functions that compute. UPDATE and DELETE need
a WHERE, which applies to the rows of the row filter; INSERT names its columns and gets the filter's values from the principal. The number
of rows is known only after execution, so the executor counts them before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.columns import Columns
from toolgen.connectors.sql.guard.cost import check_cost
from toolgen.connectors.sql.guard.cross_check import cross_check
from toolgen.connectors.sql.guard.filtered_changes import narrowed
from toolgen.connectors.sql.guard.filters import columns_of, numbered
from toolgen.connectors.sql.guard.grammar import called, check_grammar
from toolgen.connectors.sql.guard.grants import row_notes, visible_columns
from toolgen.connectors.sql.guard.identifiers import (
    DEFAULT_SCHEMA,
    NameRules,
    find_table,
    fold_column,
    full_name,
    names_of,
)
from toolgen.connectors.sql.guard.parameter_sizes import Measure, measures
from toolgen.connectors.sql.guard.placeholders import separate_null_tests
from toolgen.connectors.sql.guard.plan import StatementPlan, bound, slots_of
from toolgen.connectors.sql.guard.refusal import StatementRefusal, refuse, shown
from toolgen.connectors.sql.guard.relations import QueryRelation, SelectScope
from toolgen.connectors.sql.guard.searches import refuse_searches
from toolgen.connectors.sql.guard.text import CHANGES, SLOT, parse, render, slot_number
from toolgen.core.spelling import nearest
from toolgen.model.call import Statement
from toolgen.model.database import Database, Table, set_off
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

__all__ = ["guard_change"]

_SETTABLE: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Insert: frozenset({"this", "expression"}),
    exp.Update: frozenset({"this", "expressions", "where"}),
    exp.Delete: frozenset({"this", "where"}),
}
_KINDS: Mapping[type[exp.Expr], str] = {exp.Insert: "insert", exp.Update: "update", exp.Delete: "delete"}


def guard_change(
    sql: str,
    parameters: Sequence[Json],
    *,
    database: Database,
    scope: SqlScope,
    attributes: Mapping[str, object],
) -> Statement | Deny:
    """Return the statement to run in place of `sql`, or a refusal, as `guard` does for queries. Never raises."""
    try:
        if not (record := RECORDS[database.dialect]).changes:
            refuse("not-a-change", f"rows of {record.engine} cannot be changed", "send a SELECT to its query tool")
        return bound(_Change(database, scope).plan(sql, measures(parameters)), parameters, scope, attributes)
    except StatementRefusal as refusal:
        return refusal.verdict()
    except Exception:  # noqa: BLE001  the outermost boundary of the guard: whatever it did not expect is a refusal
        return StatementRefusal("internal", "the statement could not be checked", "write it more simply").verdict()


def _counting(root: exp.Expr) -> exp.Expr | None:
    """Return the query that counts the rows of an UPDATE or DELETE, from a checked tree; None for an INSERT, which contains its rows."""
    if isinstance(root, exp.Insert):
        return None
    where: exp.Expr = root.args["where"]
    return exp.select(exp.Count(this=exp.Star(), big_int=True)).from_(root.this.copy()).where(where.this.copy())


class _Target(Struct, frozen=True, kw_only=True):
    """Table that a statement changes, and its open columns and operations."""

    table: Table
    scope: TableScope
    relation: QueryRelation
    settable: Mapping[str, str]  # folded name -> column as the database spells it
    computed: bool  # the row filter reads a column that the database computes


class _Change:
    """Planner of one changing statement, from text to plan."""

    def __init__(self, database: Database, scope: SqlScope) -> None:
        self._database = database
        self._dialect = database.dialect
        self._scope = scope
        self._record = RECORDS[database.dialect]
        self._spelling = NameRules(database.dialect, database.table_names)
        self._columns = Columns(self._spelling, database.dialect)
        self._attributes: list[str] = []
        self._asked = 0
        self._repeated: tuple[int, ...] = ()

    def plan(self, sql: str, measured: Sequence[Measure] = ()) -> StatementPlan:
        if not isinstance(sql, str):
            refuse("syntax", "the statement is not a string", "send SQL as a string")
        parsed = parse(sql, self._dialect, CHANGES)
        root, self._asked = parsed.root, parsed.asked
        self._repeated = separate_null_tests(root, self._dialect, self._asked)
        kind = _KINDS.get(type(root))
        if kind is None:
            refuse("not-a-change", "the statement does not change rows of a table", "send an INSERT, UPDATE or DELETE")
        for name, value in root.args.items():
            if value and name not in _SETTABLE[type(root)]:
                refuse("syntax", f"{name.strip('_').upper()} is not supported in {kind.upper()}", "leave it out")
        target = self._target(root, kind)
        _check_filter(target, kind)
        sets = self._changed(root, target)
        if self._record.searches_words:
            refuse_searches(root)
        paths = check_cost(root, self._database, self._scope, measured)
        _check_cascades(target, kind, sets)
        functions = frozenset(called(node) for node in root.find_all(exp.Anonymous))
        names = names_of(root, self._dialect)
        counting = _counting(root)
        text, order = render(root, self._dialect)
        if self._record.cross_checked:
            cross_check(text, tables={full_name(target.table)}, functions=functions, names=names, writes=kind)
        counts, counted = ("", ()) if counting is None else render(counting, self._dialect)
        if counts and self._record.cross_checked:
            cross_check(counts, tables={full_name(target.table)}, functions=functions | {"count"}, names=names)
        return StatementPlan(
            sql=text,
            asked=self._asked,
            slots=slots_of(order, self._asked, self._repeated, self._attributes, {}),
            counts=counts,
            counted=slots_of(counted, self._asked, self._repeated, self._attributes, {}),
            tables=frozenset({full_name(target.table)}),
            columns=frozenset(self._columns.used),
            functions=functions,
            limited=False,
            lists=self._record.list_parameters,
            writes=kind,
            sets=sets,
            cascades=target.scope.cascades,
            table_names=self._database.table_names,
            paths=paths,
            row_notes=row_notes(self._database, self._scope, {full_name(target.table)}),
        )

    def _changed(self, root: exp.Expr, target: _Target) -> frozenset[str]:
        """Check each part of the statement; return the columns that an UPDATE sets."""
        if isinstance(root, exp.Insert):
            self._insert(root, target)
            return frozenset()
        self._where(root, target)
        return self._update(root, target) if isinstance(root, exp.Update) else frozenset()

    def _target(self, root: exp.Expr, kind: str) -> _Target:
        """Return the table with its full name. Raises `StatementRefusal` for one that the policy closes to this kind of statement."""
        node = root.this.this if isinstance(root.this, exp.Schema) else root.this
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            refuse("syntax", f"{kind.upper()} does not name one table", f"name the table to {kind}")
        check_grammar(node, self._dialect, frozenset())
        if any(value for name, value in node.args.items() if name not in {"this", "db"}):
            refuse(
                "syntax",
                f"the table of {kind.upper()} has an alias or another addition to its name",
                "write only the name of the table",
            )
        schema = node.args.get("db")
        table = self._granted(self._spelling.relation(node.this), self._spelling.relation(schema) if schema else "")
        if table is None or kind not in self._scope_of(table).writes:
            writable = sorted(name for name, entry in self._scope.tables.items() if kind in entry.writes)
            refuse(
                "table",
                f"{kind.upper()} on {shown(node.name)} is not available{nearest(node.name, writable)}",
                f"tables open to {kind.upper()}: {', '.join(writable[:20])}"
                if writable
                else "this tool changes no table",
            )
        scope = self._scope_of(table)
        if table.view:
            refuse("table", f"{shown(node.name)} is a view", "change its base table")
        default = table.schema or DEFAULT_SCHEMA[self._dialect]
        node.set("db", exp.to_identifier(default, quoted=True) if default else None)
        node.set("this", exp.to_identifier(table.name, quoted=True))
        return self._described(table, scope)

    def _described(self, table: Table, scope: TableScope) -> _Target:
        columns = tuple(name for name in visible_columns(table, scope, self._dialect) if name not in scope.masks)
        folded = tuple(fold_column(self._dialect, name, quoted=True) for name in columns)
        every = {fold_column(self._dialect, column.name, quoted=True) for column in table.columns}
        filtered = self._filtered(table, scope)
        opened = (
            None
            if scope.writable is None
            else {fold_column(self._dialect, name, quoted=True) for name in scope.writable}
        )
        return _Target(
            table=table,
            scope=scope,
            relation=QueryRelation(
                alias=self._spelling.relation(exp.to_identifier(table.name, quoted=True)),
                names=folded,
                hidden=frozenset(every.difference(folded)),
                table=table,
                columns=columns,
            ),
            computed=any(column.computed for column in table.columns if column.name in filtered),
            settable={
                name: column
                for name, column in zip(folded, columns, strict=True)
                if column not in filtered and (opened is None or name in opened)
            },
        )

    def _filtered(self, table: Table, scope: TableScope) -> frozenset[str]:
        """Return the columns of the row filter. They decide the owner of a row, so no statement may set them."""
        if scope.rows is None:
            return frozenset()
        return frozenset(columns_of(numbered(scope.rows, self._dialect, 0)[0], table, self._dialect))

    def _granted(self, name: str, schema: str) -> Table | None:
        default = DEFAULT_SCHEMA[self._dialect]
        wanted = "" if schema == default else schema
        for known in self._scope.tables:
            table = find_table(self._database, known)
            if table is None:
                continue
            own = self._spelling.relation(exp.to_identifier(table.name, quoted=True))
            own_schema = "" if table.schema == default else table.schema
            if own == name and self._spelling.relation(exp.to_identifier(own_schema, quoted=True)) == wanted:
                return table
        return None

    def _scope_of(self, table: Table) -> TableScope:
        return next(entry for name, entry in self._scope.tables.items() if find_table(self._database, name) is table)

    def _insert(self, root: exp.Insert, target: _Target) -> None:
        if not isinstance(root.this, exp.Schema) or not isinstance(root.expression, exp.Values):
            refuse(
                "syntax", "INSERT needs a list of columns and VALUES", "write INSERT INTO table (columns) VALUES (…)"
            )
        named = [self._settable(name, target) for name in root.this.expressions]
        if len(set(named)) != len(named):
            refuse("column", "a column occurs twice in INSERT", "name each column once")
        rows = root.expression.expressions
        if any(value for name, value in root.expression.args.items() if name != "expressions"):
            refuse("syntax", "VALUES of INSERT has an addition to its rows", "leave it out")
        if len(rows) > self._scope.max_changes:
            refuse(
                "changes",
                f"INSERT has {len(rows)} rows; at most {self._scope.max_changes} may change at once",
                "insert fewer rows",
            )
        fixed = self._fixed(target)
        for row in rows:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(values) != len(named):
                refuse(
                    "syntax",
                    "a row of INSERT has a different number of values than columns",
                    "give one value for each column",
                )
            self._values(values, None)
        for column, value in fixed.items():
            named.append(column)
            for row in rows:
                row.append("expressions", value.copy())
        root.this.set("expressions", [exp.to_identifier(name, quoted=True) for name in named])
        self._columns.used.update(f"{full_name(target.table)}.{name}" for name in named)

    def _fixed(self, target: _Target) -> dict[str, exp.Expr]:
        """Return the values that the row filter sets in a new row, by column. Only a filter `column = :attribute AND …` sets values."""
        if target.scope.rows is None:
            return {}
        condition, names = numbered(
            target.scope.rows, self._dialect, self._asked + len(self._repeated) + len(self._attributes)
        )
        known = {fold_column(self._dialect, column.name, quoted=True): column.name for column in target.table.columns}
        fixed: dict[str, exp.Expr] = {}
        for part in condition.unnest().flatten() if isinstance(condition.unnest(), exp.And) else [condition.unnest()]:
            term = part.unnest()
            column, value = (term.this, term.expression) if isinstance(term, exp.EQ) else (None, None)
            name = known.get(self._spelling.column(column)) if isinstance(column, exp.Column) else None
            plain = isinstance(value, exp.Literal) or (isinstance(value, exp.Column) and slot_number(value) is not None)
            if name is None or not plain or value is None or name in fixed:
                refuse(
                    "row-filter",
                    "the row filter of this table does not determine the values of a new row",
                    "the operator can write it as column = :attribute, or not open INSERT",
                )
            fixed[name] = value
        self._attributes.extend(names)
        return fixed

    def _update(self, root: exp.Update, target: _Target) -> frozenset[str]:
        """Return the columns that are set."""
        seen: set[str] = set()
        for assignment in root.expressions:
            column = assignment.this if isinstance(assignment, exp.EQ) else None
            if not isinstance(column, exp.Column) or column.args.get("db") is not None:
                refuse("syntax", "SET is not a list of column = value", "write SET column = value")
            self._columns.check(column, SelectScope(outer=None, relations=[target.relation]))
            name = self._settable(column.this, target)
            if name in seen:
                refuse("column", "a column is set twice", "set each column once")
            seen.add(name)
            column.set("table", None)  # PostgreSQL takes no table here
            self._values([assignment.expression], target)
        return frozenset(seen)

    def _where(self, root: exp.Expr, target: _Target) -> None:
        where = root.args.get("where")
        if where is None:
            refuse(
                "where",
                f"{_KINDS[type(root)].upper()} without WHERE would change every row",
                "say which rows with WHERE",
            )
        self._values([where.this], target)
        if target.scope.rows is None:
            return
        condition, names = numbered(
            target.scope.rows, self._dialect, self._asked + len(self._repeated) + len(self._attributes)
        )
        self._attributes.extend(names)
        read = columns_of(condition, target.table, self._dialect)
        self._columns.used.update(f"{full_name(target.table)}.{name}" for name in read)
        where.set("this", narrowed(where.this, condition, target.table, self._dialect))

    def _values(self, nodes: Iterable[exp.Expr], target: _Target | None) -> None:
        """Check expressions: no query in them, and only columns of the table; no columns at all in a new row."""
        scope = SelectScope(outer=None, relations=[target.relation] if target else [])
        for node in nodes:
            check_grammar(node, self._dialect, self._scope.functions, frozenset(self._database.functions))
            for part in node.walk():
                if isinstance(part, (exp.Query, exp.Values, exp.Table, exp.Star, exp.Window, exp.Lambda)):
                    refuse(
                        "syntax",
                        "a statement that changes rows holds a query, a window or a *",
                        "use values and the table's columns",
                    )
                if isinstance(part, exp.Column):
                    self._columns.check(part, scope)

    def _settable(self, name: exp.Expr, target: _Target) -> str:
        if not isinstance(name, exp.Identifier) or name.name.startswith(SLOT):
            refuse("syntax", "the target of SET is not a column", "name the column")
        found = target.settable.get(self._spelling.column(name))
        if found is None:
            known = list(target.settable.values())
            refuse(
                "column",
                f"column {shown(name.name)} cannot be set{nearest(name.name, known)}",
                f"columns that can be set: {', '.join(map(shown, known[:40]))}"
                if known
                else "no column of it can be set",
            )
        return found


def _check_filter(target: _Target, kind: str) -> None:
    if target.computed and kind != "delete":
        refuse(
            "row-filter",
            "the row filter of this table reads a column that the database computes, so a row could leave or enter it",
            "the operator can filter by a column that holds its own values",
        )


def _check_cascades(target: _Target, kind: str, sets: frozenset[str]) -> None:
    if not target.scope.cascades and set_off(target.table.cascades, kind, sets):
        refuse(
            "cascade",
            f"this {kind.upper()} starts a trigger, a rule or an action of a foreign key, whose changes are not counted",
            "set other columns"
            if kind == "update"
            else "leave it to people; the operator can open it with cascades: true",
        )
