"""Between text and tree: what is checked before parsing, how a statement is read, and how the checked tree is written out again.

Two things go through the parser under names of our own, and come back from them when the tree is rendered. A call of an ordinary function
is read as `_toolgen_f_NAME(…)`, so that the parser keeps the call as it was written instead of translating it; a placeholder is read as
`_toolgen_p_N`, so that the order of the parameters can be taken from the rendered text, where it counts.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.generator import Generator
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.policy.sql.functions import SPECIAL
from toolgen.policy.sql.placeholders import Placeholders
from toolgen.policy.sql.refusal import refuse, shown
from toolgen.policy.sql.settle import settle

__all__ = ["CALL", "CHANGES", "LONGEST", "QUERIES", "SLOT", "Parsed", "parse", "render", "slot_number"]

# sqlglot logs what it cannot read, pieces of the statement included, and a log is no place for them.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)

LONGEST = 20_000  # characters
_MOST_TOKENS = 4_000
_DEEPEST = 32  # parentheses, brackets and CASEs
_MOST_TYPES = 6  # in each other: the parser tries them as types and then again as values, so each doubles its time
_MOST_PREFIXES = 16  # of NOT, -, + and ~ in a row
_LONGEST_CHAIN = 200  # operators in a row, each a level of the tree
_MOST_OPEN_JOINS = 5  # joins without ON or USING: the parser takes twice as long for each more
RESERVED = "_toolgen_"
CALL = "_toolgen_f_"
SLOT = "_toolgen_p_"
_NUMBERED = {
    "sqlite": "?",
    "postgres": "$",
    "duckdb": "$",
}  # what stands before a parameter's number; MySQL has no numbers

_ARROWS = frozenset({TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_PREFIX = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_QUOTED = frozenset(
    {TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING}
)
QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})
CHANGES = frozenset({TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE})
"""What a statement may begin with: one that reads, and one that changes a table."""
# A type and a schema's function (refused as such later) follow these.
_NO_CALL_AFTER = frozenset({TokenType.ALIAS, TokenType.DCOLON, TokenType.DOT, TokenType.INTO})
_NO_CALLS = frozenset(
    {
        ("WITHIN", "group"),
        ("TABLESAMPLE", "bernoulli"),
        ("TABLESAMPLE", "system"),
        ("*", "exclude"),
        ("*", "replace"),
        ("NOT", "materialized"),
    }
)
_OWN_GRAMMAR = frozenset({TokenType.FROM, TokenType.FOR, TokenType.IN, TokenType.USING, TokenType.ALIAS})
_SPACES = frozenset("\t\n\r")
# Chains of these nest the tree to the left, one level an operator; AND, OR, commas and joins do not.
_CHAINED = frozenset(
    {
        TokenType.DPIPE, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.AMP, TokenType.PIPE,
        TokenType.ARROW, TokenType.DARROW, TokenType.EQ, TokenType.DCOLON, TokenType.COLLATE, TokenType.UNION, TokenType.EXCEPT,
        TokenType.INTERSECT, TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NEQ, TokenType.IS, TokenType.LIKE,
        TokenType.IN, TokenType.BETWEEN, TokenType.DOT, TokenType.AND, TokenType.OR, TokenType.JOIN,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A tree nobody has checked yet.

    `asked` is how many parameters the text has placeholders for, `names` the names of those that have one, in order, and `style` how
    placeholders are written in it.
    """

    root: exp.Expr
    asked: int
    names: tuple[str, ...] = ()
    style: str = ""


def parse(sql: str, dialect: str, starts: frozenset[TokenType] = QUERIES) -> Parsed:
    """The one statement in `sql`, which begins with one of `starts`.

    Raises `Refusal` for text that is too long, too deep, more than one statement or another kind of it.
    """
    if len(sql) > LONGEST:
        refuse("too-long", f"the statement is longer than {LONGEST} characters", "ask for less at once")
    _refuse_controls(sql)
    reader = Dialect.get_or_raise(dialect)
    try:
        tokens = reader.tokenize(sql)
    except (TokenError, ValueError, RecursionError) as error:
        raise_unreadable(error)
    _refuse_odd_spaces(sql, tokens)
    tokens = _one_statement(tokens, dialect, starts)
    _refuse_deep(tokens)
    _refuse_open_joins(tokens)
    _refuse_cast_paths(tokens)
    marked, placeholders = _marked(tokens, dialect)
    try:
        trees = reader.parser(error_level=ErrorLevel.IMMEDIATE).parse(marked, sql)
    except (SqlglotError, ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise_unreadable(error)
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        refuse("one-statement", "there is not exactly one statement", "send one SELECT")
    settle(trees[0], dialect)
    return Parsed(root=trees[0], asked=placeholders.asked, names=placeholders.names, style=placeholders.style)


def raise_unreadable(error: Exception) -> None:
    """Refuses what the parser could not read, saying where, without repeating the text."""
    where = ""
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        where = f" at line {first.get('line')}, column {first.get('col')}"
    refuse("syntax", f"the statement could not be parsed{where}", "check the syntax of this SQL dialect")


def _refuse_controls(sql: str) -> None:
    if sql.isprintable():
        return
    for character in sql:
        if character not in _SPACES and unicodedata.category(character) in {"Cc", "Cs"}:
            refuse("character", f"the statement holds the control character U+{ord(character):04X}", "leave it out")


def _refuse_odd_spaces(sql: str, tokens: Sequence[Token]) -> None:
    """Spaces that are not ASCII, and invisible characters, mean different things to different lexers, except inside quotes."""
    if sql.isascii():
        return
    end = 0
    for token in [*tokens, None]:
        start = token.start if token else len(sql)
        for character in sql[end:start] if token is None or token.token_type in _QUOTED else sql[end : token.end + 1]:
            if ord(character) > 127 and unicodedata.category(character) in {"Zs", "Zl", "Zp", "Cf", "Co", "Cn"}:
                refuse(
                    "character",
                    f"the statement holds U+{ord(character):04X}, a space or invisible character that is not ASCII, outside quotes",
                    "use ordinary spaces",
                )
        end = token.end + 1 if token else end


def _one_statement(tokens: list[Token], dialect: str, starts: frozenset[TokenType]) -> list[Token]:
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        refuse("one-statement", "there is no statement", "send one SELECT")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        refuse("one-statement", "there is more than one statement", "send one SELECT at a time")
    if starts is QUERIES and dialect == "duckdb":
        starts |= {TokenType.FROM}
    if tokens[0].token_type not in starts:
        word = shown(tokens[0].text.upper())
        if TokenType.SELECT in starts:
            refuse("not-a-query", f"{word} is not a query", "send a SELECT; this tool only reads")
        refuse("not-a-change", f"{word} does not change rows of a table", "send an INSERT, UPDATE or DELETE")
    return tokens


def _refuse_open_joins(tokens: Sequence[Token]) -> None:
    """An ON closes a join of its own parentheses only; what parentheses leave open still counts, because the parser tries them again."""
    total = 0
    opened = [0]
    for before, token in pairwise(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            opened.append(0)
        elif kind is TokenType.R_PAREN and len(opened) > 1:
            opened.pop()
        elif kind is TokenType.JOIN and before.token_type is not TokenType.CROSS:
            opened[-1] += 1
            total += 1
        elif kind in {TokenType.ON, TokenType.USING} and opened[-1]:
            opened[-1] -= 1
            total -= 1
        if total > _MOST_OPEN_JOINS:
            refuse(
                "too-deep", f"more than {_MOST_OPEN_JOINS} joins have neither ON nor USING", "write ON, or CROSS JOIN"
            )


def _refuse_cast_paths(tokens: Sequence[Token]) -> None:
    """`document -> 'key'::type` converts the key, and what people mean is the value; the parser reads what they mean."""
    for arrow, _, cast in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if cast.token_type is TokenType.DCOLON and arrow.token_type in _ARROWS:
            refuse("syntax", "a cast follows the key of a JSON arrow", "write (document -> 'key')::type")


def _refuse_deep(tokens: Sequence[Token]) -> None:
    if len(tokens) > _MOST_TOKENS:
        refuse("too-long", f"the statement has more than {_MOST_TOKENS} words and signs", "ask for less at once")
    depth = prefixes = 0
    chains = [0]
    types: list[bool] = []  # for each opening one: whether the parser may take what follows for the arguments of a type
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            types.append(before in Parser.TYPE_TOKENS or kind is TokenType.L_BRACKET)
            if sum(types) > _MOST_TYPES:
                refuse("too-deep", f"more than {_MOST_TYPES} types or lists are nested", "write it with fewer levels")
        elif kind in _CLOSING and types:
            types.pop()
        before = kind
        prefixes = prefixes + 1 if kind in _PREFIX else 0
        if kind in _OPENING:
            depth += 1
            chains.append(0)
        elif kind in _CLOSING:
            depth -= 1
            if len(chains) > 1:
                chains.pop()
        elif kind is TokenType.COMMA:
            chains[-1] = 0
        elif kind in _CHAINED:
            chains[-1] += 1
        if depth > _DEEPEST or prefixes > _MOST_PREFIXES or chains[-1] > _LONGEST_CHAIN:
            refuse(
                "too-deep", "the statement is nested too deeply", "write it with fewer levels, or as several statements"
            )


def _marked(tokens: Sequence[Token], dialect: str) -> tuple[list[Token], Placeholders]:
    """The tokens with calls and placeholders under our own names, and the placeholders that were found."""
    marked: list[Token] = []
    placeholders = Placeholders(dialect)
    tokens = _without_glued_casts(tokens)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type is not TokenType.STRING and token.text.lower().startswith(RESERVED):
            refuse("name", f"names that begin with {RESERVED} are reserved", "use another name")
        length = 1
        if (found := placeholders.at(tokens, index)) is not None:
            position, length = found
            token = _renamed(token, f"{SLOT}{position}")
        elif (
            index + 1 < len(tokens)
            and tokens[index + 1].token_type is TokenType.L_PAREN
            and _is_call(tokens, index, dialect)
        ):
            token = _renamed(token, CALL + token.text)
        marked.append(token)
        index += length
    return marked, placeholders


def _without_glued_casts(tokens: Sequence[Token]) -> Sequence[Token]:
    """The parser's tokens take `?::` for one sign; it is a placeholder and a cast."""
    if all(token.token_type is not TokenType.QDCOLON for token in tokens):
        return tokens
    split: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.QDCOLON:
            split.append(Token(TokenType.PLACEHOLDER, "?", token.line, token.col, token.start, token.start, []))
            split.append(Token(TokenType.DCOLON, "::", token.line, token.col, token.start + 1, token.end, []))
        else:
            split.append(token)
    return split


def _is_call(tokens: Sequence[Token], index: int, dialect: str) -> bool:
    token = tokens[index]
    name = token.text.lower()
    if token.token_type in _QUOTED or not name.isidentifier():
        return False
    before = tokens[index - 1] if index else None
    if before and before.token_type in {TokenType.VAR, TokenType.R_PAREN} and token.token_type is TokenType.VAR:
        return False  # `(VALUES (1)) t(x)`, `series s(n)`: the alias of what stands before it
    if before and (before.token_type in _NO_CALL_AFTER or (before.text.upper(), name) in _NO_CALLS):
        return False
    if _names_a_cte(tokens, index):
        return False
    if name in SPECIAL[dialect]:
        return name in {"trim", "substring"} and not _has_own_grammar(tokens, index + 1)
    # A keyword such as IN, AND, VALUES or USING before a parenthesis is no call; a keyword that is also a function is.
    return token.token_type is TokenType.VAR or token.token_type in _FUNCTION_WORDS or name in _ALSO_FUNCTIONS


def _has_own_grammar(tokens: Sequence[Token], opening: int) -> bool:
    """Whether the parentheses hold keywords, as in `TRIM(LEADING ' ' FROM name)`."""
    depth = 0
    for token in tokens[opening : _closing(tokens, opening)]:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 1 and (token.token_type in _OWN_GRAMMAR or token.text.upper() in {"LEADING", "TRAILING", "BOTH"}):
            return True
    return False


def _names_a_cte(tokens: Sequence[Token], index: int) -> bool:
    """Whether this is the head of `name(columns) AS (query)`; nothing else puts AS and a parenthesis behind a closing one."""
    if index == 0 or tokens[index - 1].token_type not in {TokenType.WITH, TokenType.RECURSIVE, TokenType.COMMA}:
        return False
    after = tokens[_closing(tokens, index + 1) + 1 :][:2]
    return (
        len(after) == 2
        and after[0].token_type is TokenType.ALIAS
        and (after[1].token_type is TokenType.L_PAREN or after[1].text.upper() in {"MATERIALIZED", "NOT"})
    )


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """The index of the parenthesis that closes the one at `opening`, or the last index."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[index].token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def _words(*names: str) -> frozenset[TokenType]:
    return frozenset(kind for name in names if (kind := getattr(TokenType, name, None)) is not None)


_FUNCTION_WORDS = _words(
    "LEFT", "RIGHT", "REPLACE", "INSERT", "FIRST", "FORMAT", "DATE", "DATETIME", "TIME", "TIMESTAMP", "JSON", "CHAR", "YEAR", "RANGE",
    "TRUNCATE", "MAP", "LIST", "STRUCT", "ROW", "OVERLAPS", "INTERVAL", "GLOB", "MOD", "DIV", "BIT", "HASH", "NEXT", "KEEP", "LOAD",
    "QUALIFY", "PERCENT", "RANK", "ROW_NUMBER",
)  # fmt: skip
_ALSO_FUNCTIONS = frozenset(
    {
        "if",
        "isnull",
        "schema",
        "database",
        "user",
        "current_user",
        "current_date",
        "replace",
        "utc_date",
        "utc_time",
        "uuid",
    }
)


def _renamed(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end, [])


def slot_number(column: exp.Column) -> int | None:
    """Which parameter a marked placeholder stands for, or None for a real column."""
    name = column.this
    if isinstance(name, exp.Identifier) and not name.args.get("quoted") and name.name.startswith(SLOT):
        return int(name.name[len(SLOT) :])
    return None


def render(root: exp.Expr, dialect: str) -> tuple[str, tuple[int, ...]]:
    """The text of a checked tree, without comments, and the number of each placeholder in the order they stand in it.

    The text is parsed once more and must give the same tree. Raises `Refusal` when it does not.
    """
    writer = Dialect.get_or_raise(dialect)
    try:
        generator = writer.generator(comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE)
        if dialect == "mysql":
            generator._dispatch = {**generator._dispatch, exp.RegexpLike: _rlike}
        if dialect == "postgres":
            generator._dispatch = {**generator._dispatch, exp.CurrentTime: _current_time}
        text = generator.generate(root, copy=True)
        tokens = writer.tokenize(text)
        again = writer.parser(error_level=ErrorLevel.IMMEDIATE).parse(list(tokens), text)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise_unreadable(error)
    if len(again) == 1 and isinstance(again[0], exp.Expr):
        settle(again[0], dialect)
    if len(again) != 1 or again[0] != root:
        # A generator may rewrite what its dialect lacks; what was checked is the tree, so the text must say that and nothing else.
        refuse("syntax", "the statement cannot be written out as it was read", "write it more simply")
    return _with_placeholders(text, tokens, dialect)


def _current_time(_: Generator, _node: exp.CurrentTime) -> str:
    """A word alone; sqlglot writes `CURRENT_TIME()`, which PostgreSQL does not read. The grammar takes no digits behind it."""
    return "CURRENT_TIME"


def _rlike(generator: Generator, node: exp.Binary) -> str:
    """`a RLIKE b`, which MySQL and MariaDB both know; sqlglot writes a call of REGEXP_LIKE, which MariaDB does not have."""
    return generator.binary(node, "RLIKE")


def _with_placeholders(text: str, tokens: Sequence[Token], dialect: str) -> tuple[str, tuple[int, ...]]:
    """The text with calls and placeholders as the database knows them.

    A parameter that stands in several places is sent once and numbered, where the database has numbers: `GROUP BY f($1)` is only then the
    same expression as the `f($1)` that is selected.
    """
    marks = [int(token.text[len(SLOT) :]) for token in tokens if _is_mark(token, SLOT)]
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
        if _is_mark(token, SLOT):
            position = slots.index(int(token.text[len(SLOT) :])) + 1
            parts.append(f"{_NUMBERED[dialect]}{position}" if numbered else "?")
        elif _is_mark(token, CALL):
            parts.append(token.text[len(CALL) :])
        else:
            refuse("syntax", "a call stands where none belongs", "write it more simply")
        end = token.end + 1
    parts.append(text[end:])
    return "".join(parts), slots


def _is_mark(token: Token, mark: str) -> bool:
    return token.token_type is TokenType.VAR and token.text.startswith(mark)
