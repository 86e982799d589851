"""MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.call_rewrites import spell_out_characters
from toolgen.connectors.sql.dialects.computed_counts import MYSQL_COUNTS, bound_counts
from toolgen.connectors.sql.dialects.equivalents import MYSQL_EQUIVALENTS
from toolgen.connectors.sql.dialects.mysql_costs import MYSQL_FUNCTIONS, MYSQL_OPERATORS
from toolgen.connectors.sql.dialects.mysql_json_tables import enclose_clauses, restore_clauses, write_json_column
from toolgen.connectors.sql.dialects.mysql_searches import restore_parameters, search_for_parameters
from toolgen.connectors.sql.dialects.mysql_sequences import is_sequence
from toolgen.connectors.sql.dialects.record import (
    AccountStatements,
    Dialect,
    RowEstimate,
    TokenRewrite,
    TreeRewrite,
    words,
)
from toolgen.connectors.sql.dialects.recursion_clauses import list_columns, restore_columns, write_recursion_clause
from toolgen.connectors.sql.dialects.reserved_names import quote_reserved_names, reserved_names
from toolgen.connectors.sql.dialects.token_rewrites import enclose_interval_values
from toolgen.connectors.sql.dialects.writers import (
    write_group_concat,
    write_hexadecimal,
    write_integer_division,
    write_offset,
    write_rlike,
)
from toolgen.connectors.sql.guard.marks import CALL

if TYPE_CHECKING:
    from toolgen.connectors.sql.execution.engine import Engine
    from toolgen.connectors.sql.execution.server_address import Reach
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.core.clock import Clock
    from toolgen.model.call import Statement
    from toolgen.model.database_rights import Rights
    from toolgen.model.database_url import ServerLocation

__all__ = ["DIALECT"]

# https://dev.mysql.com/doc/refman/8.4/en/expressions.html#temporal-intervals
_UNITS: Final = words(
    """
    MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND HOUR_MICROSECOND
    HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH
    """
)


def _restore_values(root: exp.Expr) -> None:
    """Convert an interval without a unit to the value or the call that it is.

    The parser reads `INTERVAL 1 DAY + '2024-01-31'` as a sum of two intervals, and the function `INTERVAL(n, 1, 10)` as an interval.
    """
    for interval in list(root.find_all(exp.Interval)):
        value = interval.this
        if interval.args.get("unit") is not None:
            continue
        if isinstance(value, exp.Tuple):
            value = exp.Anonymous(this=f"{CALL}INTERVAL", expressions=value.expressions)
        interval.replace(value)


def _replace_before_gathering(root: exp.Expr) -> None:
    """Rewrite `REPLACE(GROUP_CONCAT(x SEPARATOR ','), ',', ' | ')` as a GROUP_CONCAT of replaced values with a replaced separator.

    MariaDB moves the rest of the text at each replacement by a longer text, which takes minutes for 1 MB. One character is never half of a
    value and half of a separator, so the answer is the same.
    """
    for call in list(root.find_all(exp.Anonymous)):
        if call.name.lower() != f"{CALL}replace" or len(call.expressions) != 3:
            continue
        gathered, sought, given = call.expressions
        if not (
            isinstance(gathered, exp.GroupConcat) and _is_text(sought) and _is_text(given) and len(sought.name) == 1
        ):
            continue
        ordered = gathered.this if isinstance(gathered.this, exp.Order) else None
        value = ordered.this if ordered is not None else gathered.this
        separator = gathered.args.get("separator")
        if isinstance(value, (exp.Distinct, exp.Concat, exp.Limit)) or not (separator is None or _is_text(separator)):
            continue
        between = (separator.name if separator is not None else ",").replace(sought.name, given.name)
        (ordered or gathered).set("this", exp.Anonymous(this=call.this, expressions=[value, sought, given]))
        gathered.set("separator", exp.Literal.string(between))
        call.replace(gathered)


def _call_soundex(root: exp.Expr) -> None:
    """Rewrite `a SOUNDS LIKE b` as `SOUNDEX(a) = SOUNDEX(b)`: https://mariadb.com/kb/en/sounds-like/."""
    for node in reversed(list(root.find_all(exp.Soundex))):
        node.replace(exp.Anonymous(this=f"{CALL}soundex", expressions=[node.this]))


_ESCAPES: Final = {
    "D": (TokenType.DATE, "DATE"),
    "T": (TokenType.TIME, "TIME"),
    "TS": (TokenType.TIMESTAMPTZ, "TIMESTAMP"),
}


def _without_braces(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `{d '2024-03-01'}` as `DATE '2024-03-01'`: https://dev.mysql.com/doc/refman/8.4/en/date-and-time-literals.html."""
    index = 0
    while index < len(tokens):
        opening, *rest = tokens[index : index + 4]
        index += 1
        kinds = [opening.token_type, *(token.token_type for token in rest[1:])]
        word = _ESCAPES.get(rest[0].text.upper()) if len(rest) == 3 else None
        if word is None or kinds != [TokenType.L_BRACE, TokenType.STRING, TokenType.R_BRACE]:
            yield opening
            continue
        _, text, closing = rest
        yield _like(opening, *word)
        yield Token(TokenType.STRING, text.text, text.line, text.col, text.start, closing.end, [])
        index += 3


def _limit_before_separator(tokens: Sequence[Token]) -> Iterator[Token]:
    """Move the separator of `GROUP_CONCAT(x ORDER BY y SEPARATOR ',' LIMIT 2)` to the end, where the parser expects it."""
    moved: list[Token] = []
    depth = 0
    for place, token in enumerate(tokens):
        kind = token.token_type
        if not moved and token.text.upper() == "SEPARATOR" and kind is not TokenType.STRING:
            behind = [one.token_type for one in tokens[place + 1 : place + 3]]
            if behind == [TokenType.STRING, TokenType.LIMIT]:
                moved, depth = [*tokens[place : place + 2]], 0
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if moved and depth < 0:
            yield from moved
            moved = []
        if not any(token is one for one in moved):
            yield token


def _without_counting(tokens: Sequence[Token]) -> Iterator[Token]:
    """Remove SQL_CALC_FOUND_ROWS, which is reserved and has no effect on rows:
    https://dev.mysql.com/doc/refman/8.4/en/information-functions.html.
    """
    return (
        token
        for token in tokens
        if token.token_type is not TokenType.VAR or token.text.upper() != "SQL_CALC_FOUND_ROWS"
    )


_SET_OPERATORS: Final = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})


def _select_values(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `VALUES (1, 'a'), (2, 'b')` as `SELECT 1, 'a' UNION ALL SELECT 2, 'b'` for MariaDB, with the same column names.

    https://mariadb.com/kb/en/table-value-constructors/. In MySQL each row has the word ROW. Beside another set operator it is not
    rewritten: the rows are one operand there.
    """
    index = 0
    while index < len(tokens):
        token = tokens[index]
        begins = index == 0 or tokens[index - 1].token_type is TokenType.L_PAREN
        rows = _rows_of_values(tokens, index + 1) if token.token_type is TokenType.VALUES and begins else []
        end = rows[-1][1] + 1 if rows else len(tokens)
        if not rows or (end < len(tokens) and tokens[end].token_type in _SET_OPERATORS):
            yield token
            index += 1
            continue
        for number, (first, last) in enumerate(rows):
            if number:
                yield _like(token, TokenType.UNION, "UNION")
                yield _like(token, TokenType.ALL, "ALL")
            yield _like(token, TokenType.SELECT, "SELECT")
            yield from tokens[first:last]
        index = end


def _rows_of_values(tokens: Sequence[Token], index: int) -> list[tuple[int, int]]:
    """Return the positions of the values of each row; [] if it is not a list of rows."""
    rows: list[tuple[int, int]] = []
    while index < len(tokens) and tokens[index].token_type is TokenType.L_PAREN:
        depth, end = 1, index + 1
        while end < len(tokens) and depth:
            kind = tokens[end].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            end += 1
        if depth or end == index + 2:
            return []
        rows.append((index + 1, end - 1))
        if end >= len(tokens) or tokens[end].token_type is not TokenType.COMMA:
            return rows
        index = end + 1
    return []


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


_GRAMMAR: Final = {
    **dict.fromkeys(words("RegexpLike Extract MemberOf Introducer WithinGroup"), "this expression"),
    **dict.fromkeys(words("CharacterSet National Any All"), "this"),
    **dict.fromkeys(words("Localtime Localtimestamp"), ""),
    "Substring": "this start length",
    "Trim": "this expression position",
    "StrPosition": "this substr",
    "MatchAgainst": "this expressions modifier",
    "GroupConcat": "this separator",
    "Limit": "this expression offset",
    "LimitOptions": "rows with_ties",
    "Select": "+ operation_modifiers",
    "With": "+ search cycle",
    "RecursiveWithSearch": "kind this expression",
    "Table": "+ hints",
    "IndexTableHint": "this expressions target",
    "JSONTable": "this schema path",
    "JSONSchema": "expressions",
    "JSONColumnDef": "this kind path nested_schema ordinality exists on_empty on_error",
}


_HINTS: Final = (
    (["AGAINST"], "write MATCH (column, column) AGAINST ('words' IN BOOLEAN MODE)"),
    (["OUTFILE"], "leave INTO OUTFILE out: the rows are the answer"),
    (["DUMPFILE"], "leave INTO DUMPFILE out: the rows are the answer"),
    (["PROCEDURE"], "leave PROCEDURE out"),
    (["NEXT", "VALUE", "FOR"], "leave it out: this tool only reads; max(id) is the number given last"),
    (["PREVIOUS", "VALUE", "FOR"], "leave it out: this tool only reads; max(id) is the number given last"),
    (["FULL", "OUTER"], "join LEFT and RIGHT, and put both together with UNION"),
    (["FULL", "JOIN"], "join LEFT and RIGHT, and put both together with UNION"),
    (["GROUPING", "SETS"], "write GROUP BY a, b WITH ROLLUP, or join queries of one grouping each with UNION ALL"),
    (["ESCAPE"], "write the character after ESCAPE as a string"),
)


def _hint(words: Sequence[str]) -> str:
    for clause, advice in _HINTS:
        if any(words[place : place + len(clause)] == clause for place in range(len(words))):
            return advice
    if "VALUES" in words:
        return "write rows as SELECT 1, 'a' UNION ALL SELECT 2, 'b'"
    return ""


def _read(location: ServerLocation, password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.mysql import read_mysql  # noqa: PLC0415 - behind an extra

    return read_mysql(location, password)


def _prepare(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.mysql import prepare_mysql  # noqa: PLC0415 - behind an extra

    return prepare_mysql(location, password, statements)


def _rights(location: ServerLocation, password: str) -> Rights:
    from toolgen.connectors.sql.reading.mysql_rights import mysql_rights  # noqa: PLC0415 - behind an extra

    return mysql_rights(location, password)


def _open_engine(location: ServerLocation, reach: Reach, clock: Clock) -> Engine:
    from toolgen.connectors.sql.execution.mysql import MysqlEngine  # noqa: PLC0415 - behind an extra

    return MysqlEngine(location, reach, clock)


def _make_account(account: str, _database: str, _schemas: Sequence[str], _writes: bool, sessions: int) -> list[str]:
    return [f"CREATE USER {account}@`%` WITH MAX_USER_CONNECTIONS {sessions} ACCOUNT LOCK"]


def _bound_account(_what: str, account: str, sessions: int) -> str:
    return f"ALTER USER {account}@`%` WITH MAX_USER_CONNECTIONS {sessions}"


def _password_hint(account: str) -> str:
    return f"ALTER USER {account}@`%` IDENTIFIED BY '…' ACCOUNT UNLOCK"


def _memory_hint(_account: str) -> str:
    return (
        "SET GLOBAL init_connect bounds the memory of each session of the account (MariaDB), and connection_memory_limit does in MySQL; "
        "docs/how-to/databases/memory.md"
    )


DIALECT: Final = Dialect(
    name="mysql",
    engine="MySQL",
    functions=MYSQL_FUNCTIONS,
    operators=MYSQL_OPERATORS,
    uninterruptible=True,
    special_calls=words("cast convert extract position trim substring group_concat interval json_table match"),
    equivalents=MYSQL_EQUIVALENTS,
    format_takes_template=False,
    padded_types=frozenset({exp.DType.BINARY, exp.DType.BIT}),
    estimate=RowEstimate(
        "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
        lambda _schema, table: (table,),
    ),
    grammar=_GRAMMAR,
    spellings=frozenset({"dual", "group_separators", "hex_numbers", "index_hints", "signed_types", "utc_words"}),
    interval_units=_UNITS,
    select_modifiers=True,
    json_tables=True,
    converts_to_types=True,
    character_sets=True,
    searches_words=True,
    loose_null_safe=True,
    token_rewrites=(
        TokenRewrite(TokenType.INTERVAL, partial(enclose_interval_values, units=_UNITS)),
        TokenRewrite(TokenType.VALUES, _select_values),
        TokenRewrite("SEPARATOR", _limit_before_separator),
        TokenRewrite("AGAINST", search_for_parameters),
        TokenRewrite("JSON_TABLE", enclose_clauses),
        TokenRewrite("CYCLE", list_columns),
        TokenRewrite("SQL_CALC_FOUND_ROWS", _without_counting),
        TokenRewrite(TokenType.L_BRACE, _without_braces),
        *(TokenRewrite(name, spell_out_characters) for name in ("CHAR", "SUBSTR", "MID")),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Interval,), _restore_values),
        TreeRewrite((exp.GroupConcat,), _replace_before_gathering),
        TreeRewrite((exp.Soundex,), _call_soundex),
        TreeRewrite((exp.MatchAgainst,), restore_parameters, makes_nodes=False),
        TreeRewrite((exp.JSONColumnDef,), restore_clauses),
        TreeRewrite((exp.RecursiveWithSearch,), restore_columns, makes_nodes=False),
        TreeRewrite((exp.Anonymous,), bound_counts(MYSQL_COUNTS)),
        TreeRewrite((exp.Identifier,), quote_reserved_names("mysql"), makes_nodes=False, names=reserved_names("mysql")),
    ),
    writers={
        exp.GroupConcat: write_group_concat,
        exp.JSONColumnDef: write_json_column,
        exp.RecursiveWithSearch: write_recursion_clause,
        exp.RegexpLike: write_rlike,
        exp.HexString: write_hexadecimal,
        exp.IntDiv: write_integer_division,
        exp.Offset: write_offset,
    },
    hint=_hint,
    rows_as_selects=True,
    executable_comments=True,
    nested_tests=True,
    exclamation_negates=True,
    radix_letters="xb",
    neighbouring_texts="always",
    typed_texts={
        "DATE": "DATE 'YYYY-MM-DD'",
        "TIME": "TIME 'HH:MM:SS', or CAST('HH:MM:SS.ffffff' AS TIME(6))",
        "TIMESTAMP": "TIMESTAMP 'YYYY-MM-DD HH:MM:SS'",
    },
    interval_needs_unit=True,
    quote="`",
    implicit_columns=words("_rowid row_start row_end my_row_id"),
    niladic=words(
        """
        current_date current_role current_time current_timestamp current_user localtime localtimestamp utc_date utc_time utc_timestamp
        """
    ),
    folds_all_letters=True,
    server_folds_tables=True,
    max_alias_length=256,  # limit for names of tables and columns is 64
    alias_clauses=frozenset({"group", "having", "order"}),
    alias_subquery_clauses=frozenset({"expressions", "group", "having", "order"}),
    window_aliases=True,
    values_columns=("column_", 0),
    later_ctes="recursive",
    later_ctes_hide=True,
    recursion_keeps_types=True,
    sequence_tables=is_sequence,
    titles_by_text=True,
    titles_by_value=True,
    dollar_words=True,
    stable_comparisons=True,
    merges_subqueries_wrongly=True,
    fence=("limit", 2**64 - 1),
    nulls_first=True,
    loose_texts=True,
    lenient_labels=True,
    computed_limits=False,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    accounts=AccountStatements(
        make=_make_account,
        bound=_bound_account,
        rights=lambda account: f"{account}@`%`",
        password_hint=_password_hint,
        memory_hint=_memory_hint,
        rows="a view",
    ),
    open_engine=_open_engine,
)
