"""Names of tables, columns and aliases as each engine compares them: after case, quotes and length are normalized.

PostgreSQL cuts names at 63 bytes, and so does the guard, in the tree that is rendered: https://www.postgresql.org/docs/current/limits.html.
SQLite and DuckDB fold only ASCII letters and cut nothing. MySQL folds columns by its own tables; a server setting decides on tables and
aliases: https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html. tests/connectors/sql/execution/test_names.py checks this
against the engines.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from toolgen.connectors.sql.dialects import RECORDS, ByDialect
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import Database, DialectName, Table

__all__ = [
    "DEFAULT_SCHEMA",
    "IMPLICIT",
    "NILADIC",
    "NameRules",
    "Names",
    "check_name",
    "cut_names",
    "find_table",
    "fold_column",
    "full_name",
    "name_of",
    "names_of",
    "renamed",
]

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def full_name(table: Table) -> str:
    """Return `schema.table`, or only the name in the default schema."""
    return f"{table.schema}.{table.name}" if table.schema else table.name


def fold_column(dialect: DialectName, name: str, *, quoted: bool) -> str:
    """Return a column name as the dialect compares it: only PostgreSQL keeps the case of a quoted one."""
    return name if quoted and RECORDS[dialect].keeps_quoted_case else fold(dialect, name)


def fold(dialect: DialectName, name: str) -> str:
    """Return a name without its case: of ASCII letters only, except in MySQL (Python also folds the Kelvin sign to k, no other engine
    does).

    For MySQL the result is equal for all names that it takes as one name, and for some that it distinguishes.
    """
    record = RECORDS[dialect]
    if record.exact_names:
        return name
    if name.isascii():
        return name.lower()
    return name.replace("\u0130", "i").lower() if record.folds_all_letters else name.translate(_ASCII_LOWER)


def find_table(database: Database, name: str) -> Table | None:
    """Return the table that a policy names, with the database's spelling; SQLite and DuckDB ignore case."""
    folds = RECORDS[database.dialect].folds_tables
    for table in database.tables:
        known = full_name(table)
        if known == name or (folds and fold(database.dialect, known) == fold(database.dialect, name)):
            return table
    return None


Names: TypeAlias = tuple[str | None, ...]
"""Folded output columns of a query in order; None is an unnamed column."""
DEFAULT_SCHEMA: Final[Mapping[str, str]] = ByDialect(lambda record: record.default_schema)
IMPLICIT: Final[Mapping[str, frozenset[str]]] = ByDialect(lambda record: record.implicit_columns)
"""Columns that a table may have without an entry in a catalog; the engine prefers them to an alias of the result."""
NILADIC: Final[Mapping[str, frozenset[str]]] = ByDialect(lambda record: record.niladic)
"""Functions without parentheses, with names like columns."""
_LARGEST: Final = "\uffff"  # maximum character of a name stored in three bytes per character


class NameRules:
    """Name rules of one database: its dialect and, for MySQL, the server's setting for the case of tables."""

    def __init__(self, dialect: DialectName, table_names: str = "") -> None:
        self._dialect = dialect
        record = RECORDS[dialect]
        self._keeps_case = record.keeps_quoted_case
        self._exact = record.server_folds_tables and table_names != "folded"
        self.unsure = record.server_folds_tables and not table_names
        """True if it is unknown whether table names and aliases that differ only in case are equal."""

    def relation(self, node: exp.Expr) -> str:
        """Return a table, schema or alias as the engine compares it."""
        name = node.name
        if self._exact:
            return name
        return name if self._keeps_case and node.args.get("quoted") else fold(self._dialect, name)

    def cte(self, node: exp.Expr) -> str:
        """Return the name of a common table expression. MariaDB always ignores its case, MySQL does not: the resolver refuses names that
        differ only in case.
        """
        return fold(self._dialect, node.name) if self._exact else self.relation(node)

    def column(self, node: exp.Expr) -> str:
        """Return a column's name as the engine compares it."""
        inner = node.this if isinstance(node, exp.Column) else node
        return fold_column(self._dialect, inner.name, quoted=bool(inner.args.get("quoted")))

    def alias(self, node: exp.Expr | None) -> str:
        """Return the alias of a relation, or "" if there is none."""
        name = name_of(node)
        return self.relation(name) if name is not None else ""

    def alias_columns(self, node: exp.Expr | None) -> Names:
        """Return the column names of an alias, as in `t(a, b)`."""
        columns = node.args.get("columns") or [] if node is not None else []
        return tuple(self.column(column.this if isinstance(column, exp.ColumnDef) else column) for column in columns)


def cut_names(root: exp.Expr, tokens: Iterable[Token], dialect: DialectName) -> None:
    """Cut every name as PostgreSQL does, so that the checked, the rendered and the executed name are equal.

    No character is cut in two. `tokens` are those of the text, which usually has no long name.
    """
    most = RECORDS[dialect].max_name_bytes
    if not most or all(_fits(token.text, most) for token in tokens):
        return
    for identifier in root.find_all(exp.Identifier):
        if not _fits(identifier.name, most):
            cut = identifier.name.encode()[:most].decode(errors="ignore")
            identifier.set("this", cut)


def names_of(root: exp.Expr, dialect: DialectName) -> frozenset[str]:
    """Return every name in a tree as the engine reads it."""
    spelling = NameRules(dialect)
    return frozenset(spelling.column(identifier) for identifier in root.find_all(exp.Identifier))


def _fits(name: str, most: int) -> bool:
    return len(name) <= most // 4 or len(name.encode()) <= most


def check_name(name: str, dialect: DialectName) -> None:
    """Raise `StatementRefusal`, rule `name`, for an invalid name or one that the engine changes."""
    if not name or not name.isprintable():
        refuse("name", "a name is empty or not printable", "use the names as they are listed")
    record = RECORDS[dialect]
    if not record.max_alias_length:
        return
    if name != name.strip():
        # MariaDB removes leading spaces from an alias.
        refuse("name", f"the name {shown(name.strip())} begins or ends with a space", "write it without")
    if len(name) > record.max_alias_length:
        refuse("name", f"a name has more than {record.max_alias_length} characters", "use a shorter one")
    if max(name) > _LARGEST:
        refuse(
            "name", f"a name has a character beyond U+FFFF, which {record.engine} has in no name", "use another name"
        )


def name_of(node: exp.Expr | None) -> exp.Identifier | None:
    """Return the identifier in an alias."""
    name = node.this if isinstance(node, exp.TableAlias) else node
    return name if isinstance(name, exp.Identifier) else None


def renamed(names: Names, columns: Names) -> Names:
    """Return `names` with the first ones replaced by `columns`. Raises `StatementRefusal` if there are more columns than names."""
    if len(columns) > len(names):
        refuse("column", "more columns are renamed than there are", "give as many names as the query has columns")
    return (*columns, *names[len(columns) :]) if columns else names
