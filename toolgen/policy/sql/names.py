"""How an engine compares names: what a table, a column and an alias are called once case, quotes and length are out of the way.

PostgreSQL cuts names at 63 bytes, and so does the guard, in the tree that is rendered: https://www.postgresql.org/docs/current/limits.html.
SQLite and DuckDB fold ASCII letters alone and cut nothing. MySQL folds columns by its own tables, and tables and aliases as its server was
told to: https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html. tests/execute/sql/test_names.py asks the engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from toolgen.policy.sql.grants import fold, fold_column
from toolgen.policy.sql.refusal import refuse, shown

__all__ = [
    "DEFAULT_SCHEMA",
    "IMPLICIT",
    "NILADIC",
    "Names",
    "Spelling",
    "check_name",
    "cut_names",
    "name_of",
    "names_of",
    "renamed",
]

Names: TypeAlias = tuple[str | None, ...]
"""The folded output columns of a query in order; None is a column without a name of its own."""

DEFAULT_SCHEMA = {"sqlite": "main", "postgres": "public", "mysql": "", "duckdb": "main"}

IMPLICIT: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sqlite": frozenset({"rowid", "oid", "_rowid_"}),
        "postgres": frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"}),
        "mysql": frozenset({"_rowid", "row_start", "row_end", "my_row_id"}),
        "duckdb": frozenset({"rowid"}),
    }
)
"""Columns that a table may have though no catalog lists them; the engine finds them before an alias of the result."""

NILADIC: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sqlite": frozenset({"current_date", "current_time", "current_timestamp"}),
        "postgres": frozenset(
            {
                *(
                    "current_catalog",
                    "current_date",
                    "current_role",
                    "current_schema",
                    "current_time",
                    "current_timestamp",
                ),
                *("current_user", "localtime", "localtimestamp", "session_user", "system_user", "user"),
            }
        ),
        "mysql": frozenset(
            {
                *("current_date", "current_role", "current_time", "current_timestamp", "current_user", "localtime"),
                *("localtimestamp", "utc_date", "utc_time", "utc_timestamp"),
            }
        ),
        "duckdb": frozenset(
            {
                *(
                    "current_catalog",
                    "current_date",
                    "current_role",
                    "current_schema",
                    "current_time",
                    "current_timestamp",
                ),
                *("current_user", "localtime", "localtimestamp", "session_user", "user"),
            }
        ),
    }
)
"""Functions that are called without parentheses, by a name that reads like a column's."""

_MAX_POSTGRES_LENGTH: Final = 63  # bytes: NAMEDATALEN - 1
_MAX_MYSQL_LENGTH: Final = 256  # characters of an alias; a table's or column's name has 64
_MAX_MYSQL_SIZE: Final = "\uffff"  # names are kept in three bytes a character


class Spelling:
    """The rules of one database: its dialect and, for MySQL, what its server was told about the case of tables."""

    def __init__(self, dialect: str, table_names: str = "") -> None:
        self._dialect = dialect
        self._exact = dialect == "mysql" and table_names != "folded"
        self.unsure = dialect == "mysql" and not table_names
        """Whether nobody knows if names of tables and aliases that differ in case alone are one."""

    def relation(self, node: exp.Expr) -> str:
        """A table, schema or alias as the engine compares it."""
        name = node.name
        if self._exact:
            return name
        return name if self._dialect == "postgres" and node.args.get("quoted") else fold(self._dialect, name)

    def cte(self, node: exp.Expr) -> str:
        """A common table expression's name. MariaDB ignores its case whatever it was told, MySQL does not: the resolver refuses both."""
        return fold("mysql", node.name) if self._exact else self.relation(node)

    def column(self, node: exp.Expr) -> str:
        """A column's name as the engine compares it."""
        inner = node.this if isinstance(node, exp.Column) else node
        return fold_column(self._dialect, inner.name, quoted=bool(inner.args.get("quoted")))

    def alias(self, node: exp.Expr | None) -> str:
        """The name an alias gives to a relation, or "" when there is none."""
        name = name_of(node)
        return self.relation(name) if name is not None else ""

    def alias_columns(self, node: exp.Expr | None) -> Names:
        """The names an alias gives to columns, as in `t(a, b)`."""
        return tuple(self.column(name) for name in node.args.get("columns") or []) if node is not None else ()


def cut_names(root: exp.Expr, tokens: Iterable[Token], dialect: str) -> None:
    """Cuts every name as PostgreSQL does, so that what is checked, what is rendered and what the server reads are one name.

    No character is cut in two. `tokens` are those of the text: most have no name that is long.
    """
    if dialect != "postgres" or all(_fits(token.text) for token in tokens):
        return
    for identifier in root.find_all(exp.Identifier):
        if not _fits(identifier.name):
            cut = identifier.name.encode()[:_MAX_POSTGRES_LENGTH].decode(errors="ignore")
            identifier.set("this", cut)


def names_of(root: exp.Expr) -> frozenset[str]:
    """Every name in a tree as PostgreSQL has it."""
    spelling = Spelling("postgres")
    return frozenset(spelling.column(identifier) for identifier in root.find_all(exp.Identifier))


def _fits(name: str) -> bool:
    return len(name) <= _MAX_POSTGRES_LENGTH // 4 or len(name.encode()) <= _MAX_POSTGRES_LENGTH


def check_name(name: str, dialect: str) -> None:
    """Raises `Refusal`, rule `name`, for what is no name or becomes another one in the engine."""
    if not name or not name.isprintable():
        refuse("name", "a name is empty or not printable", "use the names as they are listed")
    if dialect != "mysql":
        return
    if name != name.strip():
        # MariaDB takes leading spaces away from an alias.
        refuse("name", f"the name {shown(name.strip())} begins or ends with a space", "write it without")
    if len(name) > _MAX_MYSQL_LENGTH:
        refuse("name", f"a name has more than {_MAX_MYSQL_LENGTH} characters", "use a shorter one")
    if max(name) > _MAX_MYSQL_SIZE:
        refuse("name", "a name has a character beyond U+FFFF, which MySQL has in no name", "use another name")


def name_of(node: exp.Expr | None) -> exp.Identifier | None:
    """The identifier in an alias."""
    name = node.this if isinstance(node, exp.TableAlias) else node
    return name if isinstance(name, exp.Identifier) else None


def renamed(names: Names, columns: Names) -> Names:
    """`names` with the first ones replaced by `columns`. Raises `Refusal` for more of them than there are."""
    if len(columns) > len(names):
        refuse("column", "more columns are renamed than there are", "give as many names as the query has columns")
    return (*columns, *names[len(columns) :]) if columns else names
