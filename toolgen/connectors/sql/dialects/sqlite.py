"""SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.equivalents import SQLITE_EQUIVALENTS
from toolgen.connectors.sql.dialects.record import Dialect, TokenRewrite, TreeRewrite, words
from toolgen.connectors.sql.dialects.sqlite_costs import SQLITE_FUNCTIONS, SQLITE_OPERATORS
from toolgen.connectors.sql.dialects.token_rewrites import enclose_limits

if TYPE_CHECKING:
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.model.call import Statement
    from toolgen.model.database_url import FileLocation

__all__ = ["DIALECT", "NUMERIC"]

NUMERIC: Final = "UNSIGNED"
"""Type name that SQLite treats as NUMERIC, and that is read again as written."""
_CROSS_JOIN: Final = "_toolgen_cross_join"


def _mark_cross_joins(tokens: Sequence[Token]) -> Iterator[Token]:
    """Mark JOIN after CROSS with a comment, because the parser reads a comma between tables as CROSS JOIN too."""
    previous: Token | None = None
    for token in tokens:
        if token.token_type is TokenType.JOIN and previous is not None and previous.token_type is TokenType.CROSS:
            yield Token(token.token_type, token.text, token.line, token.col, token.start, token.end, [_CROSS_JOIN])
        else:
            yield token
        previous = token


def _restore_commas(root: exp.Expr) -> None:
    """Convert joins without the mark back to commas.

    SQLite never reorders the tables of a CROSS JOIN
    (https://www.sqlite.org/optoverview.html#manual_control_of_query_plans_using_cross_join).
    """
    for join in root.find_all(exp.Join):
        if join.args.get("kind") == "CROSS" and _CROSS_JOIN not in (join.comments or ()):
            join.set("kind", None)


def _select_from_named(root: exp.Expr) -> None:
    """Rewrite `x IN t` as `x IN (SELECT * FROM t)`: https://www.sqlite.org/lang_expr.html#the_in_and_not_in_operators."""
    for test in list(root.find_all(exp.In)):
        named = test.args.get("field")
        if isinstance(named, exp.Column) and isinstance(named.this, exp.Identifier) and len(named.parts) <= 2:
            schema = named.args.get("table")
            table = exp.Table(this=named.this.copy(), db=schema.copy() if schema is not None else None)
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
            test.set("field", None)
            test.set("query", exp.Subquery(this=query))


def _hint(words: Sequence[str]) -> str:
    if "ON" in words and "JOIN" not in words[: words.index("ON")]:
        return "write JOIN in place of the comma before ON"
    return ""


_JSON_EACH: Final = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")
_ROW_IDS: Final = words("rowid oid _rowid_")
_ALIASES: Final = frozenset({"where", "on", "group", "having", "order"})


def _read(location: FileLocation, _password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.sqlite import read_sqlite  # noqa: PLC0415 - at a build

    return read_sqlite(location.path)


def _prepare(
    location: FileLocation, _password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.sqlite import prepare_sqlite  # noqa: PLC0415 - at a build

    return prepare_sqlite(location.path, statements)


DIALECT: Final = Dialect(
    name="sqlite",
    engine="SQLite",
    functions=SQLITE_FUNCTIONS,
    operators=SQLITE_OPERATORS,
    table_functions={"json_each": _JSON_EACH, "json_tree": _JSON_EACH},  # json1's manual, section 4.10
    special_calls=words("cast"),
    equivalents=SQLITE_EQUIVALENTS,
    types=frozenset({NUMERIC}),
    bounded_values=True,
    spellings=frozenset({"affinities", "indexed_by", "null_tests"}),
    hint=_hint,
    radix_letters="xXbBoO",
    typed_texts={},
    default_schema="main",
    implicit_columns=_ROW_IDS,
    niladic=words("current_date current_time current_timestamp"),
    folds_tables=True,
    row_ids=_ROW_IDS,
    row_id="rowid",
    subquery_row_numbers=True,
    rowid_keys=True,
    alias_clauses=_ALIASES,
    alias_subquery_clauses=_ALIASES,
    later_ctes="always",
    implicit_recursion=True,
    titles_by_text=True,
    titles_with_comments=True,
    untyped_results=True,
    number_mark="?",
    dollar_words=True,
    named_marks=True,
    stable_comparisons=True,
    fence=("limit", -1),
    nulls_first=True,
    negative_limits=True,
    explain="EXPLAIN QUERY PLAN ",
    token_rewrites=(TokenRewrite("CROSS", _mark_cross_joins), TokenRewrite(TokenType.MOD, enclose_limits)),
    tree_rewrites=(
        TreeRewrite((exp.Join,), _restore_commas, makes_nodes=False),
        TreeRewrite((exp.In,), _select_from_named),
    ),
    read=_read,
    prepare=_prepare,
    sandbox="toolgen.connectors.sql.execution.sqlite",
)
