"""Between text and tree: what is checked before parsing, how a statement is read, and how the checked tree is written out again.

How some nodes are written out, where what sqlglot would write is read by the engine as something else, or not at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.duckdb_pivots import PIVOTED
from toolgen.connectors.sql.guard.alternatives import statement_alternative
from toolgen.connectors.sql.guard.column_names import BY_TEXT, entitle, entitled, retitle
from toolgen.connectors.sql.guard.dialect_rewrites import respelt
from toolgen.connectors.sql.guard.grants import cut_names
from toolgen.connectors.sql.guard.literals import (
    check_characters,
    check_literals,
    check_negations,
    check_spaces,
    check_tokens,
)
from toolgen.connectors.sql.guard.normalize import settle
from toolgen.connectors.sql.guard.placeholders import CALL, RESERVED, SLOT, is_mark, marked, slot_number
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import DialectName

__all__ = ["CHANGES", "QUERIES", "SLOT", "ParsedStatement", "parse", "render", "slot_number"]

_Writer: TypeAlias = Callable[[Generator, exp.Expr], str]


def _rlike(generator: Generator, node: exp.Expr) -> str:
    """`a RLIKE b`, which MySQL and MariaDB both know; sqlglot writes a call of REGEXP_LIKE, which MariaDB does not have."""
    return generator.binary(node, "RLIKE")  # type: ignore[arg-type]  # the dispatch gives a RegexpLike, which is one


def _distinct(generator: Generator, node: exp.Expr) -> str:
    """`f(DISTINCT a, ',')`; sqlglot makes a tuple of several, as if all of them were counted."""
    if isinstance(node.parent, exp.Select):
        return generator.distinct_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Distinct
    return f"DISTINCT {generator.expressions(node, flat=True)}"


def _not(generator: Generator, node: exp.Expr) -> str:
    """`a IS NOT NULL` as people write it, and as some engines call the column."""
    test = node.this
    if isinstance(test, exp.Is) and not test.args.get("negate"):
        return f"{generator.sql(test, 'this')} IS NOT {generator.sql(test, 'expression')}"
    return generator.not_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Not


def _not_in_postgres(generator: Generator, node: exp.Expr) -> str:
    """`NOT row IS NULL`, which is not `row IS NOT NULL`: https://www.postgresql.org/docs/current/functions-comparison.html."""
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return generator.not_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Not
    return _not(generator, node)


def _hexadecimal(generator: Generator, node: exp.Expr) -> str:
    return str(node.this) if str(node.this).startswith("0x") else f"x'{node.this}'"


def _integer_division(generator: Generator, node: exp.Expr) -> str:
    """Write DIV as it was read; sqlglot puts parentheses around the left operand."""
    return generator.binary(node, "DIV")  # type: ignore[arg-type]  # the dispatch gives an IntDiv, which is one


def _extract(generator: Generator, node: exp.Expr) -> str:
    """The part as it was read; sqlglot writes another name of it."""
    return f"EXTRACT({generator.sql(node, 'this')} FROM {generator.sql(node, 'expression')})"


def _varchar(generator: Generator, node: exp.Expr) -> str:
    """VARCHAR by its own name; TEXT is another name for it, and columns are called by the first."""
    written = generator.datatype_sql(node)  # type: ignore[arg-type]  # the dispatch gives a DataType
    return "VARCHAR" if written == "TEXT" else written


def _power(generator: Generator, node: exp.Expr) -> str:
    """`a ^ b` as it was read: a call named power is one that was written so."""
    return generator.binary(node, "^")  # type: ignore[arg-type]  # the dispatch gives a Pow, which is one


def _operator(sign: str) -> _Writer:
    """Write the operator as it was read; sqlglot writes a call."""
    return lambda generator, node: f"{generator.sql(node, 'this')} {sign} {generator.sql(node, 'expression')}"


def _position(generator: Generator, node: exp.Expr) -> str:
    """Write POSITION as it was read; sqlglot writes a function of another name."""
    return f"POSITION({generator.sql(node, 'substr')} IN {generator.sql(node, 'this')})"


def _absolute(generator: Generator, node: exp.Expr) -> str:
    """`@(x)` as it was read: the parser has a class for it in DuckDB. A call named abs is one that was written so."""
    written = generator.sql(node, "this")
    return f"@{written}" if isinstance(node.this, exp.Paren) else f"@({written})"


def _group_concat(generator: Generator, node: exp.Expr) -> str:
    """`GROUP_CONCAT(x ORDER BY y SEPARATOR ',' LIMIT 2)`; sqlglot writes the separator behind the limit."""
    gathered, limit = node.this, ""
    if isinstance(gathered, exp.Limit):
        counts = [gathered.args.get("offset"), gathered.expression]
        limit = " LIMIT " + ", ".join(generator.sql(count) for count in counts if count is not None)
        gathered = gathered.this
    return f"GROUP_CONCAT({generator.sql(gathered)} SEPARATOR {generator.sql(node, 'separator')}{limit})"


def _root(sign: str) -> _Writer:
    return lambda generator, node: f"{sign} {generator.sql(node, 'this')}"


def _word(word: str) -> _Writer:
    return lambda _generator, _node: word


def _within_group(generator: Generator, node: exp.Expr) -> str:
    """Write WITHIN GROUP as it was read; sqlglot writes a function of another name."""
    return f"{generator.sql(node, 'this')} WITHIN GROUP ({generator.sql(node, 'expression').strip()})"


def _ignore_nulls(generator: Generator, node: exp.Expr) -> str:
    """`f(x IGNORE NULLS)`: DuckDB has the words inside."""
    words = "IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else "RESPECT NULLS"
    return f"{generator.sql(node, 'this').removesuffix(')')} {words})"


_EVERYWHERE: Mapping[type[exp.Expr], _Writer] = {exp.Distinct: _distinct, exp.Not: _not}

WRITERS: Mapping[str, Mapping[type[exp.Expr], _Writer]] = MappingProxyType(
    {
        "sqlite": _EVERYWHERE,
        "postgres": {
            **_EVERYWHERE,
            exp.Not: _not_in_postgres,
            exp.CurrentTime: _word("CURRENT_TIME"),  # sqlglot writes `CURRENT_TIME()`, which PostgreSQL does not read
            exp.Pow: _power,
            exp.StartsWith: _operator("^@"),
            exp.Sqrt: _root("|/"),
            exp.Cbrt: _root("||/"),
        },
        "mysql": {
            **_EVERYWHERE,
            exp.GroupConcat: _group_concat,
            exp.RegexpLike: _rlike,
            exp.HexString: _hexadecimal,
            exp.IntDiv: _integer_division,
        },
        "duckdb": {
            **_EVERYWHERE,
            exp.DataType: _varchar,
            exp.Extract: _extract,
            exp.Pow: _power,
            exp.StartsWith: _operator("^@"),
            exp.Abs: _absolute,
            exp.RegexpILike: _operator("~*"),
            exp.StrPosition: _position,
            # Columns are called by these words as they are written, and mostly they are written small.
            exp.CurrentDate: _word("current_date"),
            exp.CurrentTimestamp: _word("current_timestamp"),
            exp.Localtime: _word("localtime"),
            exp.Localtimestamp: _word("localtimestamp"),
            exp.WithinGroup: _within_group,
            exp.IgnoreNulls: _ignore_nulls,
            exp.RespectNulls: _ignore_nulls,
        },
    }
)
"""By dialect and kind of node."""


# sqlglot logs what it cannot read, pieces of the statement included, and a log is no place for them.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)

_NUMBERED = {
    "sqlite": "?",
    "postgres": "$",
    "duckdb": "$",
}  # what stands before a parameter's number; MySQL has no numbers
QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})
_QUERIES_TOO = {
    "postgres": frozenset({TokenType.TABLE}),
    "duckdb": frozenset({TokenType.TABLE, TokenType.FROM, TokenType.PIVOT, TokenType.UNPIVOT, TokenType.SUMMARIZE}),
}
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mysql": "MySQL", "duckdb": "DuckDB"}
_QUOTES = {
    **dict.fromkeys(("sqlite", "postgres", "duckdb"), "quote texts with ' (doubled inside of one) and names with \""),
    "mysql": "quote texts with ' (doubled inside of one) and names with `",
}
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_UNFINISHED = frozenset(
    {
        *(TokenType.WHERE, TokenType.FROM, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.ON, TokenType.COMMA, TokenType.EQ),
        *(TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.HAVING, TokenType.LIMIT, TokenType.JOIN, TokenType.ALIAS, TokenType.IN),
        *(TokenType.SELECT, TokenType.GT, TokenType.LT, TokenType.LIKE, TokenType.BETWEEN, TokenType.UNION, TokenType.PLUS),
    }
)  # fmt: skip
# Clauses of JSON_TABLE that the parser does not read: https://mariadb.com/kb/en/json_table/
_TABLE_CLAUSES: Final = (
    (["EXISTS", "PATH"], "leave the column out, and write json_exists(document, '$.path') AS name in the SELECT list"),
    (["ON", "EMPTY"], "leave the clause out, and write coalesce(column, value) in the SELECT list"),
    (["ON", "ERROR"], "leave the clause out: a value that does not fit is NULL"),
)
_UNFINISHED_WORDS = frozenset({"OFFSET", "BY", "SET", "VALUES", "INTO"})
_DISPATCHES: Final[dict[str, dict[type[exp.Expr], Any]]] = {}  # by dialect: how each kind of node is written
CHANGES = frozenset({TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE})
"""What a statement may begin with: one that reads, and one that changes a table."""


class ParsedStatement(Struct, frozen=True, kw_only=True):
    """A tree nobody has checked yet.

    `asked` is how many parameters the text has placeholders for, `names` the names of those that have one, in order, and `style` how
    placeholders are written in it.
    """

    root: exp.Expr
    asked: int
    names: tuple[str, ...] = ()
    style: str = ""


def parse(sql: str, dialect: DialectName, starts: frozenset[TokenType] = QUERIES) -> ParsedStatement:
    """The one statement in `sql`, which begins with one of `starts`.

    Raises `StatementRefusal` for text that is too long, too deep, more than one statement or another kind of it.
    """
    check_characters(sql)
    if (rewrite := RECORDS[dialect].text_rewrite) is not None:
        sql = rewrite(sql)
    try:
        tokens = _TOKENIZERS.tokens(sql, dialect)
    except (TokenError, ValueError, RecursionError):
        refuse("syntax", "a quote or a comment is opened and not closed", _QUOTES[dialect])
    check_spaces(sql, tokens)
    tokens = _one_statement(tokens, dialect, starts)
    check_tokens(tokens)
    check_literals(sql, tokens, dialect)
    tokens, placeholders = marked(tokens, dialect)
    texts: list[tuple[str, ...]] = []
    if dialect in BY_TEXT:
        tokens, texts = entitled(tokens, sql, dialect)
    try:
        trees = _reader(dialect).parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    except (SqlglotError, ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise_unreadable(error, hint(tokens, dialect))
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        refuse("one-statement", "there is not exactly one statement", "send one SELECT")
    settle(trees[0], dialect)
    check_negations(trees[0])
    cut_names(trees[0], tokens, dialect)
    entitle(trees[0], texts)
    return ParsedStatement(root=trees[0], asked=placeholders.asked, names=placeholders.names, style=placeholders.style)


@cache
def _reader(dialect: DialectName) -> Dialect:
    """sqlglot's dialect, but for paths in JSON: they stay the texts they are. `'a.b'` is a key to one engine and a path to another."""
    reader = Dialect.get_or_raise(dialect)
    reader.to_json_path = _as_written  # type: ignore[method-assign]
    return reader


class _Tokenizers(threading.local):
    """A tokenizer of each dialect for every thread: it is costly to make, and holds the text it works on."""

    def __init__(self) -> None:
        self._known: dict[str, Tokenizer] = {}

    def tokens(self, text: str, dialect: DialectName) -> list[Token]:
        tokenizer = self._known.get(dialect) or self._known.setdefault(dialect, _reader(dialect).tokenizer())
        return tokenizer.tokenize(text)


_TOKENIZERS: Final = _Tokenizers()


def _written(root: exp.Expr, dialect: DialectName) -> str:
    """The text of a tree, which the generator may change."""
    generator = _reader(dialect).generator(
        comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
    )
    if dialect not in _DISPATCHES:
        _DISPATCHES[dialect] = {**generator._dispatch, **WRITERS[dialect]}
    generator._dispatch = _DISPATCHES[dialect]
    return generator.generate(root, copy=False)


def _as_written(path: exp.Expr | None) -> exp.Expr | None:
    return path


def hint(tokens: Sequence[Token], dialect: DialectName) -> str:
    """Return a correction for a statement that could not be parsed, as far as its tokens show."""
    kinds = [token.token_type for token in tokens]
    open_ones = sum(kind in _OPENING for kind in kinds) - sum(kind in _CLOSING for kind in kinds)
    if open_ones > 0:
        return "close every parenthesis and bracket that is opened"
    if open_ones < 0:
        return "take away the parenthesis or bracket that closes nothing"
    words = [token.text.upper() for token in tokens]
    if dialect == "mysql" and "VALUES" in words:
        return "write rows as SELECT 1, 'a' UNION ALL SELECT 2, 'b'"
    if dialect == "mysql" and "JSON_TABLE" in words:
        for clause, advice in _TABLE_CLAUSES:
            if any(words[place : place + len(clause)] == clause for place in range(len(words))):
                return advice
    if dialect == "sqlite" and "ON" in words and "JOIN" not in words[: words.index("ON")]:
        return "write JOIN in place of the comma before ON"
    if "@" in words:
        return "write abs(x)"
    if dialect == "duckdb" and ("PIVOT" in words or "UNPIVOT" in words):
        return PIVOTED
    if dialect == "duckdb" and words[:2] == ["WITH", "RECURSIVE"] and "KEY" in words:
        return "write WITH RECURSIVE without USING KEY, and keep the last row of each key with QUALIFY row_number() OVER (…) = 1"
    if words[1:2] == ["TOP"]:
        return "write LIMIT and the number at the end, instead of TOP"
    if kinds[-1] in _UNFINISHED or words[-1] in _UNFINISHED_WORDS:
        return f"write what belongs behind {shown(words[-1])}, or take that away"
    return f"write it as {_NAMES[dialect]} does; {_QUOTES[dialect]}"


def raise_unreadable(error: Exception, suggestion: str = "write it more simply") -> None:
    """Refuses what the parser could not read, saying where, without repeating the text."""
    where = ""
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        where = f" at line {first.get('line')}, column {first.get('col')}"
    refuse("syntax", f"the statement could not be parsed{where}", suggestion)


def _one_statement(tokens: list[Token], dialect: DialectName, starts: frozenset[TokenType]) -> list[Token]:
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        refuse("one-statement", "there is no statement", "send one SELECT")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        refuse("one-statement", "there is more than one statement", "send one SELECT at a time")
    if starts is QUERIES:
        starts |= _QUERIES_TOO.get(dialect, frozenset())
    if tokens[0].token_type not in starts:
        word = tokens[0].text.upper()
        if word in {".", "\\"} and len(tokens) > 1:  # `.tables`, `\\d`: commands of a client
            word += tokens[1].text.upper()
        word = shown(word)
        if TokenType.SELECT in starts:
            refuse("not-a-query", f"{word} is not a query", statement_alternative(word))
        refuse("not-a-change", f"{word} does not change rows of a table", "send an INSERT, UPDATE or DELETE")
    return tokens


def render(root: exp.Expr, dialect: DialectName) -> tuple[str, tuple[int, ...]]:
    """The text of a checked tree, without comments, and the number of each placeholder in the order they stand in it.

    The text is parsed once more and must give the same tree. Raises `StatementRefusal` when it does not. The tree is of no use afterwards.
    """
    checked = hash(root)  # sqlglot compares trees by it; the generator may change the one it writes out
    try:
        text = _written(root, dialect)
        tokens = _TOKENIZERS.tokens(text, dialect)
        readable = respelt(tokens, dialect)
        texts: list[tuple[str, ...]] = []
        if dialect in BY_TEXT:
            readable, texts = entitled(readable, text, dialect)
        again = _reader(dialect).parser(error_level=ErrorLevel.IMMEDIATE).parse([*readable], text)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise_unreadable(error)
    written = again[0] if len(again) == 1 else None
    if written is not None:
        settle(written, dialect)
    if written is None or hash(written) != checked:
        # A generator may rewrite what its dialect lacks; what was checked is the tree, so the text must say that and nothing else.
        rows = dialect == "mysql" and root.find(exp.Values)
        refuse(
            "syntax",
            "the statement cannot be written out as it was read",
            "write rows as SELECT 1, 'a' UNION ALL SELECT 2, 'b'"
            if rows
            else "put parentheses around each operation, and write functions as name(value, …)",
        )
    if texts:
        entitle(written, texts)
        if retitle(written, root, dialect):
            return render(written, dialect)
    return _with_placeholders(text, tokens, dialect)


def _with_placeholders(text: str, tokens: Sequence[Token], dialect: DialectName) -> tuple[str, tuple[int, ...]]:
    """The text with calls and placeholders as the database knows them.

    A parameter that stands in several places is sent once and numbered, where the database has numbers: `GROUP BY f($1)` is only then the
    same expression as the `f($1)` that is selected.
    """
    marks = [int(token.text[len(SLOT) :]) for token in tokens if is_mark(token, SLOT)]
    slots = tuple(dict.fromkeys(marks)) if dialect in _NUMBERED else tuple(marks)
    numbered = dialect == "postgres" or len(slots) < len(marks)
    parts: list[str] = []
    end = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            refuse("syntax", "the statement does not stay one statement when it is written out", "write it more simply")
        if token.token_type is TokenType.STRING or not token.text.lower().startswith(RESERVED):
            continue
        parts.append(text[end : token.start])
        if is_mark(token, SLOT):
            position = slots.index(int(token.text[len(SLOT) :])) + 1
            parts.append(f"{_NUMBERED[dialect]}{position}" if numbered else "?")
        elif is_mark(token, CALL):
            parts.append(token.text[len(CALL) :])
        else:
            refuse("syntax", "a call stands where none belongs", "write it more simply")
        end = token.end + 1
    parts.append(text[end:])
    return "".join(parts), slots
