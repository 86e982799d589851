"""Parsing and rendering: checks before parsing, the parse of a statement, and the rendering of the checked tree."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.writers import WRITERS
from toolgen.connectors.sql.guard.alternatives import statement_alternative
from toolgen.connectors.sql.guard.column_names import entitle, retitle, with_titles
from toolgen.connectors.sql.guard.dialect_rewrites import rewritten
from toolgen.connectors.sql.guard.identifiers import cut_names
from toolgen.connectors.sql.guard.literals import check_literals
from toolgen.connectors.sql.guard.normalize import normalize
from toolgen.connectors.sql.guard.operator_precedence import check_negations
from toolgen.connectors.sql.guard.placeholders import CALL, RESERVED, SLOT, is_mark, marked, slot_number
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.connectors.sql.guard.statement_limits import check_characters, check_spaces, check_tokens
from toolgen.model.database import DialectName

__all__ = ["CHANGES", "QUERIES", "SLOT", "ParsedStatement", "parse", "render", "slot_number"]

# sqlglot logs pieces of a statement that it cannot parse, which must not be in a log.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)

QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})
_QUOTES: Final = "quote texts with ' (doubled inside of one) and names with "
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_UNFINISHED = frozenset(
    {
        *(TokenType.WHERE, TokenType.FROM, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.ON, TokenType.COMMA, TokenType.EQ),
        *(TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.HAVING, TokenType.LIMIT, TokenType.JOIN, TokenType.ALIAS, TokenType.IN),
        *(TokenType.SELECT, TokenType.GT, TokenType.LT, TokenType.LIKE, TokenType.BETWEEN, TokenType.UNION, TokenType.PLUS),
    }
)  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[^\w\s'\"`$]{1,3}")
_UNFINISHED_WORDS = frozenset({"OFFSET", "BY", "SET", "VALUES", "INTO"})
_DISPATCHES: Final[dict[str, dict[type[exp.Expr], Any]]] = {}  # by dialect: writer of each kind of node
CHANGES = frozenset({TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE})
"""First words of a statement: of one that reads, and of one that changes a table."""


class ParsedStatement(Struct, frozen=True, kw_only=True):
    """Unchecked tree.

    `asked` is the number of parameters of the placeholders, `names` the names of those that have one, in order, and `style` the style of
    the placeholders.
    """

    root: exp.Expr
    asked: int
    names: tuple[str, ...] = ()
    style: str = ""


def parse(sql: str, dialect: DialectName, starts: frozenset[TokenType] = QUERIES) -> ParsedStatement:
    """Return the one statement in `sql`, which begins with one of `starts`.

    Raises `StatementRefusal` for text that is too long, too deep, more than one statement or another kind of statement.
    """
    check_characters(sql)
    if (rewrite := RECORDS[dialect].text_rewrite) is not None:
        sql = rewrite(sql)
    try:
        tokens = _TOKENIZERS.tokens(sql, dialect)
    except (TokenError, ValueError, RecursionError):
        refuse("syntax", "a quote or a comment is not closed", _QUOTES + RECORDS[dialect].quote)
    check_spaces(sql, tokens)
    tokens = _one_statement(tokens, dialect, starts)
    check_tokens(tokens)
    check_literals(sql, tokens, dialect)
    tokens, placeholders = marked(tokens, dialect)
    texts: list[tuple[str, ...]] = []
    if RECORDS[dialect].titles_by_text:
        tokens, texts = with_titles(tokens, sql, dialect)
    try:
        trees = _reader(dialect).parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    except (SqlglotError, ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise_unreadable(error, hint(tokens, dialect, _unreadable_token(tokens, error)))
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        refuse("one-statement", "there is not exactly one statement", "send one SELECT")
    normalize(trees[0], dialect)
    check_negations(trees[0])
    cut_names(trees[0], tokens, dialect)
    entitle(trees[0], texts)
    return ParsedStatement(root=trees[0], asked=placeholders.asked, names=placeholders.names, style=placeholders.style)


@cache
def _reader(dialect: DialectName) -> Dialect:
    """Return sqlglot's dialect with paths in JSON as plain texts. `'a.b'` is a key in one engine and a path in another."""
    reader = Dialect.get_or_raise(dialect)
    reader.to_json_path = _as_written  # type: ignore[method-assign]
    return reader


class _Tokenizers(threading.local):
    """Tokenizer of each dialect for every thread: it is costly to make, and stores its current text."""

    def __init__(self) -> None:
        self._known: dict[str, Tokenizer] = {}

    def tokens(self, text: str, dialect: DialectName) -> list[Token]:
        tokenizer = self._known.get(dialect) or self._known.setdefault(dialect, _reader(dialect).tokenizer())
        return tokenizer.tokenize(text)


_TOKENIZERS: Final = _Tokenizers()


def _written(root: exp.Expr, dialect: DialectName) -> str:
    """Return the text of a tree, which the generator may change."""
    generator = _reader(dialect).generator(
        comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
    )
    if dialect not in _DISPATCHES:
        _DISPATCHES[dialect] = {**generator._dispatch, **WRITERS, **RECORDS[dialect].writers}
    generator._dispatch = _DISPATCHES[dialect]
    # FETCH stays as it was parsed, with ties or without.
    generator.LIMIT_FETCH = "ALL"  # type: ignore[misc]  # the classes of dialects have no slots
    return generator.generate(root, copy=False)


def _as_written(path: exp.Expr | None) -> exp.Expr | None:
    return path


def _unreadable_token(tokens: Sequence[Token], error: Exception) -> int:
    """Return the index of the token where the parser stopped, or 0 where it does not say."""
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    place = (first.get("line"), first.get("col"))
    return next((index for index, token in enumerate(tokens) if (token.line, token.col) == place), 0)


# By the word before the expression that could not be parsed.
_BEFORE_UNREAD: Final = {
    "ESCAPE": "write ESCAPE and one character in quotes",
    "GLOB": "write the pattern in quotes, or select it in FROM: FROM t, (SELECT 'a*' AS p) AS q WHERE t.x GLOB q.p",
    "SAMPLE": "write USING SAMPLE 10 ROWS, or TABLESAMPLE 10%",
    "TABLESAMPLE": "write USING SAMPLE 10 ROWS, or TABLESAMPLE 10%",
    "TIME": "write the time zone in quotes",
    "LIMIT": "write LIMIT and a number",
    "OFFSET": "write OFFSET and a number",
    "FIRST": "write LIMIT and a number",
    "OF": "leave AS OF out: rows are read as they are now",
}
_WORDS_BEFORE: Final = 3


def hint(tokens: Sequence[Token], dialect: DialectName, stopped: int = 0) -> str:
    """Return a correction for a statement that could not be parsed, as far as its tokens show. `stopped` is where the parser stopped."""
    kinds = [token.token_type for token in tokens]
    open_ones = sum(kind in _OPENING for kind in kinds) - sum(kind in _CLOSING for kind in kinds)
    if open_ones > 0:
        return "close every parenthesis and bracket that is opened"
    if open_ones < 0:
        return "remove the unmatched closing parenthesis or bracket"
    words = [token.text.upper().removeprefix(CALL.upper()) for token in tokens]
    record = RECORDS[dialect]
    if record.hint is not None and (found := record.hint(words)):
        return found
    if "@" in words:
        return "write abs(x)"
    if words[1:2] == ["TOP"]:
        return "write LIMIT and the number at the end, instead of TOP"
    if kinds[-1] in _UNFINISHED or words[-1] in _UNFINISHED_WORDS:
        return f"complete the text after {shown(words[-1])}, or remove that word"
    before = reversed(words[max(stopped - _WORDS_BEFORE, 0) : stopped + 1])
    if found := next((_BEFORE_UNREAD[word] for word in before if word in _BEFORE_UNREAD), ""):
        return found
    plain = f"write it as {record.engine} does; {_QUOTES}{record.quote}"
    if not stopped:
        return plain
    word = shown(tokens[stopped].text.removeprefix(CALL))
    return f"{word} does not fit there: an operator or comma is missing before it, or a word is misspelt; {plain}"


def raise_unreadable(error: Exception, suggestion: str = "write it more simply") -> None:
    """Refuse a text that the parser could not read, with the position but without the text."""
    where = ""
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        where = f" at line {first.get('line')}, column {first.get('col')}"
        word = str(first.get("highlight") or "").removeprefix(CALL)
        if _WORD.fullmatch(word):  # a literal could contain anything
            where += f", near {shown(word)}"
    refuse("syntax", f"the statement could not be parsed{where}", suggestion)


def _one_statement(tokens: list[Token], dialect: DialectName, starts: frozenset[TokenType]) -> list[Token]:
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        refuse("one-statement", "there is no statement", "send one SELECT")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        refuse("one-statement", "there is more than one statement", "send one SELECT at a time")
    if starts is QUERIES:
        starts |= RECORDS[dialect].query_starts
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
    """Return the text of a checked tree, without comments, and the number of each placeholder in order.

    The text is parsed once more and must give the same tree. Raises `StatementRefusal` when it does not. The tree is of no use afterwards.
    """
    record = RECORDS[dialect]
    checked = hash(root)  # sqlglot compares trees by it; the generator may change the tree that it renders
    try:
        text = _written(root, dialect)
        tokens = _TOKENIZERS.tokens(text, dialect)
        readable = rewritten(tokens, dialect)
        texts: list[tuple[str, ...]] = []
        if record.titles_by_text:
            readable, texts = with_titles(readable, text, dialect)
        again = _reader(dialect).parser(error_level=ErrorLevel.IMMEDIATE).parse([*readable], text)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise_unreadable(error)
    written = again[0] if len(again) == 1 else None
    if written is not None:
        normalize(written, dialect)
    if written is None or hash(written) != checked:
        # A generator may rewrite syntax that its dialect lacks; the checked tree and the text must be equal.
        rows = record.rows_as_selects and root.find(exp.Values)
        refuse(
            "syntax",
            "the rendered statement differs from the parsed one",
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
    """Return the text with calls and placeholders under their real names.

    A parameter in several places is sent once and numbered, if the database has numbers: only then is `GROUP BY f($1)` the same expression
    as the `f($1)` in the select list.
    """
    marks = [int(token.text[len(SLOT) :]) for token in tokens if is_mark(token, SLOT)]
    record = RECORDS[dialect]
    slots = tuple(dict.fromkeys(marks)) if record.number_mark else tuple(marks)
    numbered = record.always_numbered or len(slots) < len(marks)
    parts: list[str] = []
    end = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            refuse("syntax", "the rendered text is not a single statement", "write it more simply")
        if token.token_type is TokenType.STRING or not token.text.lower().startswith(RESERVED):
            continue
        parts.append(text[end : token.start])
        if is_mark(token, SLOT):
            position = slots.index(int(token.text[len(SLOT) :])) + 1
            parts.append(f"{record.number_mark}{position}" if numbered else "?")
        elif is_mark(token, CALL):
            parts.append(token.text[len(CALL) :])
        else:
            refuse("syntax", "a call is used in the wrong place", "write it more simply")
        end = token.end + 1
    parts.append(text[end:])
    return "".join(parts), slots
