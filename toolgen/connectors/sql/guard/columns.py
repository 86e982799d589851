"""Resolution of each name to a column of the visible relations, and the refusal of columns that a principal may not see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.duckdb_columns import (
    ColumnSelection,
    is_selector,
    is_titles,
    is_unpacked,
    nested_type,
    replaced,
    selection_of,
    struct_fields,
    title_of,
    unnested_fields,
    whole_selection,
    whole_star,
)
from toolgen.connectors.sql.dialects.whole_rows import ROW_FUNCTIONS
from toolgen.connectors.sql.guard.alias_scope import alias_answers, is_sorted_by
from toolgen.connectors.sql.guard.column_names import computed_title
from toolgen.connectors.sql.guard.corrections import alias_advice
from toolgen.connectors.sql.guard.identifiers import NameRules, Names, fold_column, full_name
from toolgen.connectors.sql.guard.placeholders import CALL, slot_number
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.connectors.sql.guard.relations import QueryRelation, SelectScope
from toolgen.core.spelling import nearest
from toolgen.model.database import DialectName, Table
from toolgen.model.sql_scope import TableScope

__all__ = ["Columns", "row_ids_of"]


_MAX_WRITTEN: Final = 20_000


class Columns:
    """Resolver of the columns of one statement. `used` are the columns that it uses, as `table.column`."""

    def __init__(self, spelling: NameRules, dialect: DialectName, schema: str = "") -> None:
        """Create a resolver. `schema` is the schema of tables without an explicit one."""
        self._dialect = dialect
        self._record = RECORDS[dialect]
        self._schema = schema
        self._spelling = spelling
        self.used: set[str] = set()
        self._written = 0  # parts of the tree that replaced COLUMNS

    def expanded(self, items: Iterable[exp.Expr], scope: SelectScope, merged: bool) -> list[exp.Expr]:
        """Return the SELECT list with each `*` of a base table expanded."""
        expanded: list[exp.Expr] = []
        for written in items:
            item = whole_star(written) if self._record.column_selections else written
            if self._record.column_selections:
                self._unpack(item, scope, merged)
            if isinstance(item, exp.Star) and not item.args.get("ilike"):
                expanded.extend(self._star(item, item, scope.relations, merged))
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and not item.this.args.get("ilike"):
                if fields := self._struct_star(item, item.this, scope):
                    expanded.extend(fields)
                    continue
                owner = self._owner(item, scope)
                expanded.extend(self._star(item, item.this, [owner], False))
            elif self._record.column_selections and (selection := selection_of(item)) is not None:
                expanded.extend(self._selected(item, selection, scope, merged))
            else:
                expanded.append(item)
        return expanded

    def tested(self, condition: exp.Expr, scope: SelectScope, merged: bool) -> exp.Expr:
        """Return a condition with COLUMNS for each of its columns: all of them must be true."""
        called = self._record.column_selections and condition.find(exp.Anonymous) is not None
        if called:
            self._unpack(condition, scope, merged)
        selection = selection_of(condition) if called else None
        if selection is None:
            return condition
        tests = [item.unalias() for item in self._selected(condition, selection, scope, merged)]
        return exp.and_(*tests, copy=False) if len(tests) > 1 else tests[0]

    def _unpack(self, item: exp.Expr, scope: SelectScope, merged: bool) -> None:
        """Replace `f(*COLUMNS(…))` by f with the columns as arguments."""
        for node in item.find_all(exp.Anonymous):
            selection = selection_of(node) if is_unpacked(node) and node.parent_select is item.parent_select else None
            if selection is not None and node.parent is not None:
                chosen = [*self._selected(node, selection, scope, merged)]
                if is_titles(node):
                    chosen = [exp.Literal.string(column.name) for column in chosen]
                elif selection.nodes[0] is not node:  # an expression of each column
                    chosen = [column.unalias().expressions[0] for column in chosen]
                around = node.parent.expressions
                place = next(place for place, one in enumerate(around) if one is node)
                node.parent.set("expressions", [*around[:place], *chosen, *around[place + 1 :]])

    def _selected(
        self, item: exp.Expr, selection: ColumnSelection, scope: SelectScope, merged: bool
    ) -> Iterator[exp.Expr]:
        """Return an item for each of the selected columns, named like the column unless it has a name."""
        owner = exp.Column(this=exp.Star(), table=selection.qualifier)
        relations = [self._owner(owner, scope)] if selection.qualifier is not None else scope.relations
        if merged:
            refuse("column", "COLUMNS with USING or NATURAL is not supported", "name the columns you need")
        changes = self._changes(selection.star, relations)
        if any(changes.values()):
            refuse("syntax", "COLUMNS replaces a column", "write the expression beside COLUMNS(* EXCLUDE (…))")
        columns = [
            (column, relation)
            for relation in relations
            for column in self._own_columns(relation)
            if selection.chosen(column) and fold_column(self._dialect, column, quoted=True) not in changes
        ]
        found = {column.lower() for column, _ in columns}
        if missing := next((name for name in selection.named if name.lower() not in found), ""):
            self._unknown(exp.to_identifier(missing), relations)
        if not columns:
            refuse("column", "COLUMNS matches no available column", "name the columns you need")
        self._written += len(columns) * sum(1 for _ in item.walk())
        if self._written > _MAX_WRITTEN:
            refuse("too-deep", "COLUMNS would make the statement too long", "name the columns you need")
        for column, relation in columns:
            assert relation.identifier is not None  # noqa: S101 - _own_columns refuses a relation without one
            node = exp.Column(this=exp.to_identifier(column, quoted=True), table=relation.identifier.copy())
            written = replaced(item, selection, node)
            bare = written is node or isinstance(written, exp.Alias)
            if isinstance(written, exp.Alias) and "\\" in written.alias:
                title = title_of(selection, written.alias, column)
                written.set("alias", exp.to_identifier(title, quoted=True))
            yield written if bare else exp.Alias(this=written, alias=exp.to_identifier(column, quoted=True))

    def _own_columns(self, relation: QueryRelation) -> tuple[str, ...]:
        """Return the names of all columns. Raises `StatementRefusal` for a subquery without an alias or with unnamed columns."""
        if relation.identifier is None or (relation.table is None and None in relation.names):
            refuse(
                "syntax",
                "* includes a subquery without an alias or with unnamed columns",
                "give it an alias, or name the columns",
            )
        if relation.table is None:
            return tuple(name for name in relation.names if name)
        invisible = _invisible(relation)
        return tuple(name for name in relation.columns if name not in invisible)

    def _star(self, item: exp.Expr, star: exp.Star, relations: Sequence[QueryRelation], merged: bool) -> list[exp.Expr]:
        if not relations:
            refuse("syntax", "* is used in a query without a table", "name the columns")
        changes = self._changes(star, relations)
        known = {name for relation in relations for name in relation.names}
        for name, change in changes.items():
            if change is not None and name not in known and None not in known:
                self._unknown(exp.to_identifier(name), relations)
        for relation in relations:
            self.use_all(relation)
        if not any(relation.table for relation in relations) and not changes:
            return [item]
        hides = any(relation.hidden or _invisible(relation) for relation in relations) or bool(changes)
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
            refuse("column", "* matches no available column", "name the columns you need")
        return written

    def _struct_star(self, item: exp.Column, star: exp.Star, scope: SelectScope) -> list[exp.Expr]:
        """Return the fields of `s.* EXCLUDE (…)` for a struct s of a table; [] for the star of a table or of an unknown struct."""
        qualifier = item.args.get("table")
        alias = self._spelling.relation(qualifier) if qualifier is not None else ""
        relations = [relation.alias for around in scope.chain() for relation in around.relations]
        if not self._record.struct_fields or qualifier is None or alias in relations or len(item.parts) != 2:
            return []
        struct = exp.Column(this=qualifier.copy())
        names = struct_fields(_type_in(struct, scope, self._spelling))
        changes = self._changes(star, ())
        written: list[exp.Expr] = []
        for name in names:
            field = exp.to_identifier(name, quoted=True)
            change = changes.pop(fold_column(self._dialect, name, quoted=True), field)
            renamed = change is not None and any(change is one for one in star.args.get("rename") or ())
            if change is field or renamed:
                title = change.args["alias"] if change is not None and renamed else field
                column = exp.Column(this=field, table=qualifier.copy())
                written.append(exp.Alias(this=column, alias=title.copy()))
            elif change is not None:
                return []
        return written if not changes else []

    def _changes(self, star: exp.Star, relations: Sequence[QueryRelation]) -> dict[str, exp.Expr | None]:
        """Return the replacements of columns of `*`, by name: None for EXCLUDE, an expression for REPLACE."""
        left_out, changed = [*self._left_out(star, relations)], star.args.get("replace") or []
        renamed = star.args.get("rename") or []
        changes: dict[str, exp.Expr | None] = {}
        for name in left_out:
            if isinstance(name, (exp.Identifier, exp.Column)):
                changes[self._spelling.column(name)] = None
        for item in changed:
            if isinstance(item, exp.Alias):
                changes[self._spelling.column(item.args["alias"])] = item
        for item in renamed:
            if isinstance(item, exp.Alias) and isinstance(item.this, exp.Column):
                changes[self._spelling.column(item.this)] = item
        if len(changes) != len(left_out) + len(changed) + len(renamed):
            refuse("syntax", "the exclusions or replacements of * are not a list of columns", "name the columns")
        return changes

    def _left_out(self, star: exp.Star, relations: Sequence[QueryRelation]) -> Iterator[exp.Expr]:
        """Return the names after EXCLUDE. The rewrite of UNPIVOT writes COLUMNS(…) and stars there."""
        names: set[str] = set()
        for item in star.args.get("except_") or []:
            if not self._record.column_selections or not (isinstance(item, exp.Star) or is_selector(item)):
                yield item
                continue
            selection = whole_selection(item)
            kept = self._changes(selection.star, relations)
            for relation in relations:
                for column in self._own_columns(relation):
                    folded = fold_column(self._dialect, column, quoted=True)
                    if selection.chosen(column) and folded not in kept and folded not in names:
                        names.add(folded)
                        yield exp.to_identifier(column, quoted=True)

    def _all_of(self, relation: QueryRelation, changes: Mapping[str, exp.Expr | None]) -> list[exp.Expr]:
        identifier = relation.identifier
        if relation.table is None and not changes and identifier is not None:
            return [exp.Column(this=exp.Star(), table=identifier.copy())]
        written: list[exp.Expr] = []
        for column in self._own_columns(relation):
            assert identifier is not None  # noqa: S101 - _own_columns refuses a relation without one
            name = fold_column(self._dialect, column, quoted=True)
            if name not in changes:
                written.append(exp.Column(this=exp.to_identifier(column, quoted=True), table=identifier.copy()))
            elif (replacement := changes[name]) is not None:
                written.append(replacement.copy())
        return written

    def use_all(self, relation: QueryRelation) -> None:
        if relation.table:
            self.used.update(f"{full_name(relation.table)}.{column}" for column in relation.columns)

    def check(self, node: exp.Column, scope: SelectScope) -> None:
        if slot_number(node) is not None:
            return
        if node.args.get("table") is None:
            if isinstance(node.this, exp.Star):
                refuse("syntax", "* is used in the place of a column", "name the column")
            if not self._is_row_test(node, scope):
                self.unqualified(node.this, scope)
            return
        if isinstance(node.this, exp.Star):
            owner = self._owner(node, scope)
            called = self._called_with(node)
            if called == "count" and (key := self._visible_key(owner)) is not None:
                node.set("this", exp.to_identifier(key, quoted=True))
                self._touch(owner, fold_column(self._dialect, key, quoted=True))
                return
            taken = isinstance(node.parent, exp.Select) or called == "count" or called in ROW_FUNCTIONS
            if owner.table is not None or not taken:
                refuse(
                    "whole-row",
                    "a complete row is used in the place of a value",
                    "name the columns you need; count(t.id) counts the rows that a LEFT JOIN finds",
                )
            return
        if self._record.struct_fields and self._is_field(node, scope):
            return
        owner = self._owner(node, scope)
        name = self._spelling.column(node.this)
        if name in owner.names:
            self._touch(owner, name)
        elif not self._row_id(owner, node.this, name) and not (_is_odd(node.this) and None in owner.names):
            self._unknown(node.this, [owner])

    def _visible_key(self, relation: QueryRelation) -> str | None:
        """Return a column of a table that is never null: `count(t.*)` counts the rows in which it has a value."""
        keys = relation.table.primary_key if relation.table is not None else ()
        return next((one for one in keys if fold_column(self._dialect, one, quoted=True) in relation.names), None)

    def _is_row_test(self, node: exp.Column, scope: SelectScope) -> bool:
        """Convert `count(t)` and `t IS NULL` of a table to tests of its key, and return True for such a test. A row with a null key was
        added by an outer join.

        `t IS NOT NULL` is true only if no column is null, and is unchanged.
        """
        test, name = node.parent, self._spelling.column(node.this)
        counted = self._called_with(node) == "count" and isinstance(test, exp.Anonymous) and len(test.expressions) == 1
        tested = isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and not test.args.get("negate")
        negated = test is not None and isinstance(test.parent, (exp.Not, exp.Paren))
        if not self._record.whole_row_calls or not (counted or (tested and not negated)):
            return False
        relations = [relation for around in scope.chain() for relation in around.relations]
        if any(name in around.lambdas for around in scope.chain()) or any(
            name in one.names or name in one.hidden or None in one.names for one in relations
        ):
            return False  # a column, which takes precedence
        owner = next((one for one in relations if one.alias == self._spelling.relation(node.this)), None)
        key = self._visible_key(owner) if owner is not None and not owner.whole else None
        if owner is None or owner.identifier is None or key is None:
            return False
        node.set("this", exp.to_identifier(key, quoted=True))
        node.set("table", owner.identifier.copy())
        self._touch(owner, fold_column(self._dialect, key, quoted=True))
        return True

    def _called_with(self, node: exp.Column) -> str:
        """Return the PostgreSQL function called with `alias.*`: `count` counts rows, others convert them to JSON; "" for none."""
        call = node.parent.parent if isinstance(node.parent, exp.Order) else node.parent
        named = self._record.whole_row_calls and isinstance(call, exp.Anonymous)
        return call.name.removeprefix(CALL).lower() if named and isinstance(call, exp.Anonymous) else ""

    def _is_field(self, node: exp.Column, scope: SelectScope) -> bool:
        """Return True for `column.field`, `table.column.field` and so on: a name that is not a table is a column, followed by its
        fields.
        """
        parts = node.parts
        relations = [relation.alias for around in scope.chain() for relation in around.relations]
        schemas = {self._schema, *(r.table.schema for around in scope.chain() for r in around.relations if r.table)}
        first, second = parts[0], parts[1]
        if len(parts) > 2 and first.name in schemas and self._spelling.relation(second) in relations:
            return False
        if self._spelling.relation(first) not in relations:
            self.unqualified(first, scope)
            return True
        if len(parts) == 2:
            return False
        self.check(exp.Column(this=second.copy(), table=first.copy()), scope)
        return True

    def _owner(self, node: exp.Column, scope: SelectScope) -> QueryRelation:
        """Return the relation of a qualified name. An alias of an enclosing query that hides the name of a table is refused."""
        qualifier = node.args["table"]
        alias = self._spelling.relation(qualifier)
        found = [relation for around in scope.chain() for relation in around.relations if relation.alias == alias]
        if not found:
            refuse("column", f"there is no table or alias {shown(qualifier.name)} here", "use an alias of FROM")
        if isinstance(node.this, exp.Identifier):
            name = self._spelling.column(node.this)
            for relation in found:
                if name in relation.hidden:
                    self._unknown(node.this, [relation])
        if (schema := node.args.get("db")) is not None:
            table = found[0].table
            expected = self._schema_of(table) if table else ""
            if self._spelling.relation(schema) != expected:
                refuse(
                    "column",
                    f"{shown(schema.name)} is not the schema of that table",
                    "leave the schema out of the column",
                )
            node.set("db", None)
        return found[0]

    def unqualified(self, identifier: exp.Expr, scope: SelectScope) -> None:
        name = self._spelling.column(identifier)
        scopes = list(scope.chain())
        for around in scopes:
            for relation in around.relations:
                if name in relation.hidden:
                    self._unknown(identifier, [relation])
        self._refuse_niladic(identifier, name)
        sorted_by = is_sorted_by(identifier, scope, name)
        if self._record.tables_as_values and not sorted_by:
            self._refuse_row(identifier, scopes, name)
        # DuckDB prefers a function without parentheses to a name of an enclosing query.
        for around in scopes[:1] if self._record.names_before_niladic and name in self._record.niladic else scopes:
            if name in around.lambdas:
                return
            owners = [relation for relation in around.relations if name in relation.names]
            for owner in owners:
                self._touch(owner, name)
            if owners or (sorted_by and around is scope and scope.clause != "group"):
                return
            if len(around.relations) == 1 and self._row_id(around.relations[0], identifier, name):
                return
            if self._may_be_implicit(name, around):
                break
            answers = alias_answers(identifier, around, scope, self._dialect)
            if answers and name in around.aliases:
                return
            if _is_odd(identifier) and (
                (answers and around.computed) or any(None in other.names for other in around.relations)
            ):
                return
        if self._record.tables_as_values:
            folded = self._spelling.relation(identifier)
            if any(relation.alias == folded for around in scopes for relation in around.relations):
                return
        self._unknown(identifier, [relation for around in scopes for relation in around.relations])

    def _may_be_implicit(self, name: str, around: SelectScope) -> bool:
        """Return True if the engine may find an unlisted column with this name before an alias.

        SQLite gives subqueries a row number too: NULL.
        """
        return name in self._record.implicit_columns and (
            any(relation.table for relation in around.relations)
            or (self._record.subquery_row_numbers and len(around.relations) == 1)
        )

    def _refuse_niladic(self, identifier: exp.Expr, name: str) -> None:
        """Refuse a function without parentheses: `user` is the session's user, even if a column or alias has that name. DuckDB prefers a
        query's own names.
        """
        known = name in self._record.niladic and not self._record.names_before_niladic
        if known and not identifier.args.get("quoted"):
            refuse(
                "function",
                f"{shown(name)} without quotes is a function of the server, and not available",
                "for a column or alias of that name, write it in quotes" + " (`…`)" * (self._record.quote == "`"),
            )

    def _refuse_row(self, identifier: exp.Expr, scopes: Sequence[SelectScope], name: str) -> None:
        """Refuse a table's name as a value, which means the complete row with hidden columns. Only a column of the table itself with
        that name takes precedence, because it is visible wherever the table is; an alias or a column of a later joined table does
        not.
        """
        folded = self._spelling.relation(identifier)
        for around in scopes:
            if name in around.lambdas:
                return
            for relation in around.relations:
                if relation.alias == folded and not relation.whole and name not in relation.names:
                    refuse(
                        "whole-row",
                        f"{shown(identifier.name)} is a complete row of a table",
                        "name the columns you need; for rows that a LEFT JOIN found, write alias.key IS NOT NULL",
                    )

    def _touch(self, relation: QueryRelation, name: str) -> None:
        if relation.table:
            index = relation.names.index(name)
            self.used.add(f"{full_name(relation.table)}.{relation.columns[index]}")

    def _row_id(self, owner: QueryRelation, identifier: exp.Expr, name: str) -> bool:
        """Return True if `name` is the row number of a table whose row numbers may be read, and record its use.

        SQLite names the result column after the key with that number, or rowid. In a subquery the name is as written.
        """
        if name not in self._record.row_ids:
            return False
        if owner.row_ids is None or owner.table is None:
            return False
        key = _row_key(owner.table) if self._record.rowid_keys else ""
        if owner.narrowed and self._record.rowid_keys:
            name = key or self._record.row_id
            identifier.replace(exp.to_identifier(name, quoted=True))
        if not (owner.narrowed and key):
            owner.row_ids.append(name)
        self.used.add(f"{full_name(owner.table)}.{key or self._record.row_id}")
        return True

    def _schema_of(self, table: Table) -> str:
        return self._spelling.relation(exp.to_identifier(table.schema, quoted=True)) if table.schema else self._schema

    def _unknown(self, identifier: exp.Expr, relations: Sequence[QueryRelation]) -> None:
        """Refuse an unknown column, with identical words for a hidden column and for one that does not exist."""
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
        if alias := alias_advice(identifier, self._dialect):
            advice = alias
        elif self._record.implicit_advice and identifier.name.lower() in self._record.implicit_columns:
            advice = f"{self._record.implicit_advice}; {advice}"
        elif identifier.args.get("quoted") and self._record.quote == '"':
            advice += "; a string is written in single quotes"
        refuse(
            "column",
            f"column {shown(identifier.name)}{where} is not available{nearest(identifier.name, known)}",
            advice,
        )

    def natural(self, scope: SelectScope) -> None:
        """Refuse NATURAL if it could compare a hidden column, because it compares every column that two tables share."""
        for relation in scope.relations:
            others = {
                name for other in scope.relations if other is not relation for name in (*other.names, *other.hidden)
            }
            # None is a column with a name that only the database knows: it may be the name of a hidden column.
            if relation.hidden and (None in others or relation.hidden & others):
                refuse(
                    "column",
                    "NATURAL JOIN would compare a column that is not available",
                    "use JOIN … ON with the columns you mean",
                )
            self.use_all(relation)

    def output_names(self, item: exp.Expr, scope: SelectScope) -> Names:
        if self._record.struct_fields and (
            fields := unnested_fields(item.unalias(), lambda column: _type_in(column, scope, self._spelling))
        ):
            return tuple(map(self._spelling.column, fields))
        match item:
            case exp.Alias():
                return (self._spelling.column(item.args["alias"]),)
            case exp.Column() if isinstance(item.this, exp.Star):
                if written := self._struct_star(item, item.this, scope):
                    return tuple(self._spelling.column(field.args["alias"]) for field in written)
                return self._owner(item, scope).names
            case exp.Column():
                return (self._spelling.column(item.this),) if slot_number(item) is None else (None,)
            case exp.Star():
                return tuple(name for relation in scope.relations for name in relation.names)
            case _ if self._record.titles_by_function:
                return (computed_title(item),)
            case _:
                return (None,)


def _type_in(node: exp.Column, scope: SelectScope, spelling: NameRules) -> str:
    """Return the type of a column, or of its field, if it belongs to one table of the query itself; "" for other columns."""
    first, *rest = node.parts
    tables = [one for one in scope.relations if one.alias == spelling.relation(first)]
    if tables and rest:
        first, *rest = rest
    name = spelling.column(first)
    found = [one for one in tables or scope.relations if name in one.names]
    table = found[0].table if len(found) == 1 else None
    for column in table.columns if table is not None else ():
        if spelling.column(exp.to_identifier(column.name, quoted=True)) == name:
            return nested_type(column.type, tuple(part.name for part in rest))
    return ""


def _invisible(relation: QueryRelation) -> frozenset[str]:
    """Return the columns of a table that `*` omits."""
    if relation.table is None:
        return frozenset()
    return frozenset(column.name for column in relation.table.columns if column.invisible)


def row_ids_of(table: Table, columns: Sequence[str], scope: TableScope, dialect: DialectName) -> list[str] | None:
    """Return the requested row numbers of a table.

    None for a view, which may have a restricted column of that name, and below a row filter, because missing numbers would count the hidden
    rows. In SQLite the number may be a column of the table with another name.
    """
    told = any(name not in columns or name in scope.masks for name in table.primary_key)
    counts = scope.rows is not None and not (RECORDS[dialect].rowid_keys and _row_key(table))
    return None if table.view or told or counts else []


def _row_key(table: Table) -> str:
    """Return the column of SQLite that is an alias of the row number (https://www.sqlite.org/lang_createtable.html#rowid), or ""."""
    key = table.primary_key[0] if len(table.primary_key) == 1 else ""
    return next(
        (column.name for column in table.columns if column.name == key and column.type.upper() == "INTEGER"), ""
    )


def _is_odd(identifier: exp.Expr) -> bool:
    """Return True for a quoted name that is not a word: the engine made it for a computed column, not for a column of a table."""
    return bool(identifier.args.get("quoted")) and not re.fullmatch(r"\w+", identifier.name)
