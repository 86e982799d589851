"""Rewrites of tokens from syntax without support in the parser to equivalent syntax."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, Literal, NoReturn, TypeAlias

from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import Spelling
from toolgen.connectors.sql.guard.prefix_signs import enclose_absolutes, enclose_signs
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.model.database import DialectName

__all__ = ["PLAIN_NUMBER", "rewritten"]

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
# Tokens before a query: after them `TABLE t` is a query.
_BEFORE_A_QUERY = frozenset(
    {TokenType.L_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALL, TokenType.DISTINCT}
)

_DIRECTIONS = {TokenType.LT: (TokenType.ASC, "ASC"), TokenType.GT: (TokenType.DESC, "DESC")}
PLAIN_NUMBER = re.compile(r"\s*[+-]?[0-9.]+\s*\Z")
_IN_TYPES = frozenset(
    {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.NUMBER, TokenType.COMMA, TokenType.STRING, TokenType.IDENTIFIER}
)
_AFFINITIES = (
    (("INT",), (TokenType.INT, "INT")),
    (("CHAR", "CLOB", "TEXT"), (TokenType.TEXT, "TEXT")),
    (("BLOB",), (TokenType.VARBINARY, "BLOB")),
    (("REAL", "FLOA", "DOUB"), (TokenType.FLOAT, "REAL")),
)
_INTERVAL_FIELDS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})
_CALLED_ALONE = frozenset({"UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"})


def rewritten(tokens: Sequence[Token], dialect: DialectName) -> Sequence[Token]:
    """Return the tokens in the parser's syntax. Positions stay those of the text."""
    words: set[str | TokenType] = {token.text.upper() for token in tokens}
    words.update(token.token_type for token in tokens)
    record = RECORDS[dialect]
    for word, spelling, respell in _RESPELLINGS:
        if word in words and (not spelling or spelling in record.spellings):
            tokens = [*respell(tokens)]
    for rewrite in record.token_rewrites:
        if rewrite.trigger in words:
            tokens = [*rewrite.rewrite(tokens)]
    return tokens


def _selected(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `TABLE t` as `SELECT * FROM t` (https://www.postgresql.org/docs/current/sql-select.html#SQL-TABLE)."""
    for index, token in enumerate(tokens):
        begins = index == 0 or tokens[index - 1].token_type in _BEFORE_A_QUERY or _ends_with(tokens, index)
        if token.token_type is TokenType.TABLE and begins and _kind(tokens, index + 1) in _NAMES:
            yield _word(token, TokenType.SELECT, "SELECT")
            yield _word(token, TokenType.STAR, "*")
            yield _word(token, TokenType.FROM, "FROM")
        else:
            yield token


def _ends_with(tokens: Sequence[Token], index: int) -> bool:
    """Return True if the query follows `WITH …`: a parenthesis closes the last common table expression."""
    return tokens[0].token_type is TokenType.WITH and tokens[index - 1].token_type is TokenType.R_PAREN


def _called(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `UTC_DATE` as `UTC_DATE()`: a reserved word of MySQL, which the parser reads as a name."""
    for index, token in enumerate(tokens):
        yield token
        alone = token.token_type is not TokenType.IDENTIFIER and _kind(tokens, index + 1) is not TokenType.L_PAREN
        if alone and token.text.upper() in _CALLED_ALONE and token.token_type is not TokenType.STRING:
            yield _word(token, TokenType.L_PAREN, "(")
            yield _word(token, TokenType.R_PAREN, ")")


def _without_catalog(given: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `pg_catalog.lower(x)` as `lower(x)`: the session searches pg_catalog first, and only its functions are permitted."""
    skipped = 0
    for index, token in enumerate(given):
        if skipped:
            skipped -= 1
        elif (
            token.token_type in _NAMES
            and token.text == "pg_catalog"
            and _kind(given, index + 1) is TokenType.DOT
            and _kind(given, index + 2) is TokenType.VAR
            and _kind(given, index + 3) is TokenType.L_PAREN
            and (index == 0 or given[index - 1].token_type is not TokenType.DOT)
        ):
            skipped = 1
        else:
            yield token


def _listed_exclusions(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `* EXCLUDE name` as `* EXCLUDE (name)`, which may be followed by REPLACE."""
    for index, token in enumerate(tokens):
        listed = (
            index > 1
            and tokens[index - 1].text.upper() == "EXCLUDE"
            and tokens[index - 2].token_type is TokenType.STAR
            and token.token_type in _NAMES
            and _kind(tokens, index + 1) is not TokenType.DOT
        )
        if listed:
            yield _word(token, TokenType.L_PAREN, "(")
        yield token
        if listed:
            yield _word(token, TokenType.R_PAREN, ")")


def _nulls_behind(given: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `f(x IGNORE NULLS)` as `f(x) IGNORE NULLS` (https://duckdb.org/docs/sql/functions/window_functions)."""
    index = 0
    while index < len(given):
        words = [token.text.upper() for token in given[index : index + 3]]
        if words in (["IGNORE", "NULLS", ")"], ["RESPECT", "NULLS", ")"]):
            yield given[index + 2]
            yield from given[index : index + 2]
            index += 3
        else:
            yield given[index]
            index += 1


def _sorted_by(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `ORDER BY x USING >` as `ORDER BY x DESC` (https://www.postgresql.org/docs/current/sql-select.html#SQL-ORDERBY)."""
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.USING and _kind(tokens, index + 1) in _DIRECTIONS:
            continue
        if index and tokens[index - 1].token_type is TokenType.USING and token.token_type in _DIRECTIONS:
            yield _word(token, *_DIRECTIONS[token.token_type])
        else:
            yield token


def _sampled(given: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `SAMPLE 50 PERCENT (bernoulli)` as `SAMPLE bernoulli (50 PERCENT)` (https://duckdb.org/docs/sql/samples)."""
    index = 0
    while index < len(given):
        match [token.text.lower() for token in given[index : index + 6]]:
            case [
                "sample" | "tablesample",
                _,
                "percent" | "%" | "rows",
                "(",
                "bernoulli" | "system" | "reservoir",
                ")",
            ]:
                sample, size, unit, opening, method, closing = given[index : index + 6]
                yield from (sample, method, opening, size, unit, closing)
                index += 6
            case _:
                yield given[index]
                index += 1


def _intervals(given: Sequence[Token], units: bool) -> Iterator[Token]:
    """Rewrite `INTERVAL '…'` as a cast of the complete text, of which the parser would keep only the parts it knows. With `units` likewise
    `INTERVAL '2' DAY`.

    The parser supports `INTERVAL '1-2' YEAR TO MONTH`.
    """
    index = 0
    while index < len(given):
        token, value = given[index], given[index + 1] if index + 1 < len(given) else None
        index += 1
        alone = value is not None and value.token_type is TokenType.STRING and not PLAIN_NUMBER.match(value.text)
        unit = given[index + 1].text.upper() if units and index + 1 < len(given) else ""
        counted = (
            unit in _INTERVAL_FIELDS and value is not None and value.token_type in {TokenType.STRING, TokenType.NUMBER}
        )
        spans = unit in _INTERVAL_FIELDS and index + 2 < len(given) and given[index + 2].text.upper() == "TO"
        if token.token_type is not TokenType.INTERVAL or value is None or spans or not (alone or counted):
            yield token
            continue
        last = value if alone else given[index + 1]
        yield _word(token, TokenType.VAR, "CAST")
        yield _word(token, TokenType.L_PAREN, "(")
        yield _word(value, TokenType.STRING, value.text if alone else f"{value.text} {unit}")
        yield _word(value, TokenType.ALIAS, "AS")
        yield _word(value, TokenType.INTERVAL, "INTERVAL")
        yield _word(last, TokenType.R_PAREN, ")")
        index += 1 if alone else 2


def _numbers(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keep `0x0A` distinct from `X'0A'`: MariaDB reads the first as a number beside numbers, and the second as text."""
    for token in tokens:
        written = token.end - token.start + 1
        if token.token_type is TokenType.HEX_STRING and written == len(token.text) + len("0x"):
            yield _word(token, token.token_type, f"0x{token.text}")
        else:
            yield token


def _decoded(given: Sequence[Token]) -> Iterator[Token]:
    """Replace `U&'…' UESCAPE '!'` by its text (https://www.postgresql.org/docs/current/sql-syntax-lexical.html, section 4.1.2.3)."""
    index = 0
    while index < len(given):
        token = given[index]
        index += 1
        if token.token_type is not TokenType.UNICODE_STRING:
            yield token
            continue
        escape = "\\"
        if index + 1 < len(given) and given[index].text.upper() == "UESCAPE":
            escape = given[index + 1].text
            index += 2
        yield _word(token, TokenType.STRING, _unescaped(token.text, escape))


def _unescaped(text: str, escape: str) -> str:
    if len(escape) != 1:
        _refuse_escape()
    sign = re.escape(escape)
    decoded = re.sub(
        f"{sign}(?:([0-9A-Fa-f]{{4}})|\\+([0-9A-Fa-f]{{6}})|({sign}))|{sign}",
        lambda found: _character(found[1] or found[2] or "", found[3] or ""),
        text,
    )
    try:
        return decoded.encode("utf-16", "surrogatepass").decode("utf-16")  # two surrogates are one character
    except UnicodeDecodeError:
        _refuse_escape()


def _character(code: str, itself: str) -> str:
    if itself:
        return itself
    if not code or not 0 < int(code, 16) <= sys.maxunicode:
        _refuse_escape()
    return chr(int(code, 16))


def _refuse_escape() -> NoReturn:
    refuse("literal", "an escape in U&'…' is not a valid character", "write the characters themselves")


def _without_index(given: Sequence[Token]) -> Iterator[Token]:
    """Remove `INDEXED BY name`, which affects how rows are found, not which (https://www.sqlite.org/lang_indexedby.html)."""
    skipped = 0
    for index, token in enumerate(given):
        if skipped:
            skipped -= 1
        elif token.token_type is TokenType.INDEXED_BY and _kind(given, index + 1) in _NAMES:
            skipped = 1
        else:
            yield token


def _affinities(given: Sequence[Token]) -> Iterator[Token]:
    """Replace a type in a CAST by the affinity of its name (https://www.sqlite.org/datatype3.html, section 3.1)."""
    casts: list[bool] = []  # for each open parenthesis: True if it belongs to a CAST
    index = 0
    while index < len(given):
        token = given[index]
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            casts.append(
                index > 0 and given[index - 1].token_type in _NAMES and given[index - 1].text.upper() == "CAST"
            )
        elif kind is TokenType.R_PAREN and casts:
            casts.pop()
        yield token
        index += 1
        if kind is TokenType.ALIAS and casts and casts[-1]:
            end = _type_end(given, index)
            if end > index:
                yield _word(given[index], *_affinity(" ".join(part.text for part in given[index:end]).upper()))
            index = end


def _type_end(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    while index < len(tokens):
        kind = tokens[index].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth < 0 or (kind not in _IN_TYPES and not tokens[index].text.isidentifier()):
            break
        index += 1
    return index


def _affinity(name: str) -> tuple[TokenType, str]:
    return next(
        (kind for words, kind in _AFFINITIES if any(word in name for word in words)), (TokenType.DECIMAL, "DECIMAL")
    )


def _kind(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if index < len(tokens) else None


def _word(like: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


def _any(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `= SOME (…)` as `= ANY (…)` (SQL:2016, 8.9); the parser supports the former only before a query."""
    for index, token in enumerate(tokens):
        quantifies = token.token_type is TokenType.SOME and _kind(tokens, index + 1) is TokenType.L_PAREN
        yield _word(token, TokenType.ANY, "ANY") if quantifies else token


_POINT_ENDS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.PARAMETER})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


def _fractions(given: Sequence[Token]) -> Iterable[Token]:
    """Join numbers that begin with a dot; statements without a number after a dot are unchanged."""
    number, point = TokenType.NUMBER, TokenType.DOT
    kinds = [token.token_type for token in given]
    return _joined_fractions(given) if (point, number) in pairwise(kinds) else given


def _joined_fractions(given: Sequence[Token]) -> Iterator[Token]:
    """Read `.25` as one number wherever a number is allowed: the parser reads the dot as a separator after DISTINCT and similar words."""
    index = 0
    while index < len(given):
        token, number = given[index], given[index + 1] if index + 1 < len(given) else None
        index += 1
        if (
            token.token_type is TokenType.DOT
            and number is not None
            and number.token_type is TokenType.NUMBER
            and number.start == token.end + 1
            and number.text[:1].isdigit()
            and not (index > 1 and _ends_before_point(given[index - 2], token))
        ):
            yield Token(TokenType.NUMBER, f".{number.text}", token.line, token.col, token.start, number.end, [])
            index += 1
        else:
            yield token


def _ends_before_point(before: Token, point: Token) -> bool:
    """Return True if a name or a value ends before the dot, which then belongs to it; after a keyword there is a space."""
    ends = before.token_type in _POINT_ENDS or before.token_type in _CLOSING
    return ends or (before.end + 1 == point.start and before.text.isidentifier())


_Respell: TypeAlias = Callable[[Sequence[Token]], Iterable[Token]]
# Rewrites by a word or a kind of token in the statement, and the syntax that the dialect must have, or "".
_RESPELLINGS: Final[Sequence[tuple[str | TokenType, Spelling | Literal[""], _Respell]]] = (
    ("TABLE", "table_queries", _selected),
    ("PG_CATALOG", "catalog_prefix", _without_catalog),
    ("EXCLUDE", "excluded_names", _listed_exclusions),
    ("SAMPLE", "sample_methods", _sampled),
    ("TABLESAMPLE", "sample_methods", _sampled),
    ("USING", "operator_order", _sorted_by),
    ("NULLS", "nulls_inside", _nulls_behind),
    ("INTERVAL", "interval_fields", partial(_intervals, units=True)),
    ("INTERVAL", "interval_texts", partial(_intervals, units=False)),
    (TokenType.HEX_STRING, "hex_numbers", _numbers),
    (TokenType.UNICODE_STRING, "unicode_texts", _decoded),
    (TokenType.INDEXED_BY, "indexed_by", _without_index),
    ("CAST", "affinities", _affinities),
    (TokenType.SOME, "", _any),
    (TokenType.DOT, "", _fractions),
    (TokenType.PLUS, "", enclose_signs),
    ("@", "absolutes", enclose_absolutes),
    ("UTC_DATE", "utc_words", _called),
    ("UTC_TIME", "utc_words", _called),
    ("UTC_TIMESTAMP", "utc_words", _called),
)
