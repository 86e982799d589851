"""Literals that engines, their versions or this parser read differently: refused, with a form that all of them read alike.

`0xFF` is a number, a bit string or `0 AS xFF`; `date '2024-05-01'` is not a date in SQLite. A refusal is better than a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Final

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS, Dialect
from toolgen.connectors.sql.dialects.factorial_signs import factorial_operand
from toolgen.connectors.sql.guard.dialect_rewrites import PLAIN_NUMBER
from toolgen.connectors.sql.guard.operator_precedence import LIKE_SIGNS, check_chained_tests, check_match
from toolgen.connectors.sql.guard.prefix_signs import is_signed, operand_end
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import DialectName

__all__ = ["check_literals"]

_TEXTS: Final = frozenset(
    {
        *(TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING),
        *(TokenType.UNICODE_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING),
    }
)  # fmt: skip
_DIGITS: Final = frozenset({TokenType.HEX_STRING, TokenType.BIT_STRING})
_EXECUTABLE: Final = re.compile(r"/\*M?!")
_TIME: Final = re.compile(r"-?[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?\Z")
_NO_TYPES: Final = frozenset({"BINARY", "INTERVAL"})  # an operator of MySQL, and a word with its own grammar
_NO_DATES: Final = frozenset(
    {"DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPTZ", "TIME", "BOOLEAN", "BOOL", "JSON", "JSONB", "INTERVAL"}
)


_LIKES: Final = frozenset({TokenType.LIKE, TokenType.ILIKE})


def check_literals(sql: str, tokens: Sequence[Token], dialect: DialectName) -> None:
    """Raise `StatementRefusal`, rule `literal`; rule `comment` for a comment that MySQL executes."""
    record = RECORDS[dialect]
    if record.executable_comments and _EXECUTABLE.search(sql):
        _check_comments(sql, tokens)
    if record.nested_tests:
        check_chained_tests(tokens)
    for place, (token, following) in enumerate(pairwise([*tokens, None])):
        assert token is not None  # noqa: S101  only the last of the pairs ends with None
        kind = token.token_type
        if kind is TokenType.NUMBER or kind in _DIGITS:
            _check_number(sql, token, following, record)
        elif kind is TokenType.PLUS:
            _check_plus(tokens, place)
        elif kind is TokenType.NOT and token.text == "!" and not record.exclamation_negates:
            if record.tilde_operators and _is_doubled(tokens, place):
                continue  # `!!` of a search
            if "factorial_signs" in record.spellings and factorial_operand(tokens, place) is not None:
                continue
            if not (record.tilde_operators and following is not None and following.text.startswith("~")):
                refuse("literal", "! is not an operator here", "write NOT x, or factorial(x)")
            check_match(tokens, place + 1)
        elif token.text in LIKE_SIGNS and kind in _LIKES:
            check_match(tokens, place)
        elif kind is TokenType.DCOLON and "affinities" in record.spellings:
            _check_cast(following, record)
        if following is not None and following.token_type in _TEXTS:
            if kind in _TEXTS:
                _check_neighbours(sql, token, following, record)
            elif following.token_type is TokenType.STRING:
                _check_typed(tokens, place, record)


def _is_doubled(tokens: Sequence[Token], place: int) -> bool:
    around = ((place, place + 1), (place - 1, place))
    pairs = (tokens[first : last + 1] for first, last in around if first >= 0)
    return any([token.text for token in pair] == ["!", "!"] and pair[1].start == pair[0].end + 1 for pair in pairs)


def _check_comments(sql: str, tokens: Sequence[Token]) -> None:
    """Refuse comments that MySQL executes, `/*! … */` (https://dev.mysql.com/doc/refman/8.4/en/comments.html)."""
    end = 0
    for start, after in [*((token.start, token.end + 1) for token in tokens), (len(sql), 0)]:
        if _EXECUTABLE.search(sql, end, start):
            refuse("comment", "a comment /*! … */ is executed by some servers", "write its content without the comment")
        end = after


def _check_number(sql: str, token: Token, following: Token | None, record: Dialect) -> None:
    written = sql[token.start : token.end + 1]
    if token.token_type in _DIGITS:
        odd = written[0] == "0" and written[1] not in record.radix_letters
    else:
        beside = following if following is not None and following.start == token.end + 1 else None
        glued = beside is not None and beside.text[:1].isidentifier() and beside.token_type not in _TEXTS
        odd = glued or written[-1] in "eE" or ("_" in written and not record.digit_separators)
    if odd:
        refuse(
            "literal",
            f"the number {shown(written)} is followed by a letter or _, which versions read differently",
            "write only decimal digits, and a space after them",
        )


def _check_plus(tokens: Sequence[Token], place: int) -> None:
    """Refuse a + before other values than numbers, names, calls and parentheses, because the parser drops it."""
    number = place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.NUMBER
    if is_signed(tokens, place) and not number and not operand_end(tokens, place + 1):
        refuse("literal", "a value has the sign +", "omit the +, or put parentheses around the value: +(x)")


def _check_cast(kind: Token | None, record: Dialect) -> None:
    """Refuse casts to types that an engine with affinities lacks. They give a number instead: '2024-01-31' becomes 2024."""
    if kind is not None and kind.text.upper() in _NO_DATES:
        refuse(
            "literal",
            f"{record.engine} has no type {shown(kind.text.upper())} to convert to",
            "write date(x), datetime(x) or json(x), or compare the text",
        )


def _check_neighbours(sql: str, token: Token, following: Token, record: Dialect) -> None:
    """Refuse adjacent texts unless the engine reads them as one text. PostgreSQL does so only if they are on two lines:
    https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-STRINGS.
    """
    gap = sql[token.end + 1 : following.start]
    plain = token.token_type is following.token_type is TokenType.STRING
    if record.neighbouring_texts == "always":
        one = plain or (token.token_type is TokenType.NATIONAL_STRING and following.token_type is TokenType.STRING)
    else:
        one = record.neighbouring_texts == "lines" and plain and "\n" in gap and "/*" not in gap
    if not one:
        refuse("literal", "two texts are adjacent", "write || between them to join them, or AS before a name")


def _check_typed(tokens: Sequence[Token], place: int, record: Dialect) -> None:
    kind, text = tokens[place], tokens[place + 1].text
    word = kind.text.upper()
    if word == "INTERVAL":
        if record.interval_units:
            _check_interval(text, tokens[place + 2 : place + 5], record)
        return
    if record.typed_texts is None or word in _NO_TYPES:
        return
    if kind.token_type not in Parser.TYPE_TOKENS and word != "ZONE":
        return
    engine = record.engine
    if not record.typed_texts:
        refuse(
            "literal", f"{engine} has no typed values", "write only the text, as '2024-01-31', or date('2024-01-31')"
        )
    if word not in record.typed_texts:
        refuse("literal", f"{engine} has no values of the form {shown(word)} '…'", "write CAST('…' AS type)")
    if not _is_typed_value(word, text):
        refuse("literal", f"the text after {word} is not valid for {engine}", f"write {record.typed_texts[word]}")


def _is_typed_value(word: str, text: str) -> bool:
    """Return True if MySQL accepts the text as a typed literal. The literal is rendered as a cast, which would turn an invalid text into
    NULL."""
    if word == "TIME":
        return _TIME.match(text) is not None
    try:
        date.fromisoformat(text) if word == "DATE" else datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10 if word == "DATE" else len(text) >= 19 and text[-6] not in "+-" and text[-1] != "Z"


# https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-INTERVAL-INPUT
_SPANS: Final = frozenset(
    {
        *(("YEAR", "MONTH"), ("DAY", "HOUR"), ("DAY", "MINUTE"), ("DAY", "SECOND")),
        *(("HOUR", "MINUTE"), ("HOUR", "SECOND"), ("MINUTE", "SECOND")),
    }
)


def _check_interval(text: str, following: Sequence[Token], record: Dialect) -> None:
    """Refuse intervals that engines read differently: `INTERVAL '2' WEEK` is two seconds in a column called week in PostgreSQL; MySQL
    requires a unit.
    """
    units = record.interval_units
    named = bool(following) and (following[0].token_type is TokenType.VAR or record.interval_needs_unit)
    word = following[0].text.upper() if named else ""
    if record.interval_needs_unit:
        if word not in units:
            refuse(
                "literal",
                "an interval has no unit after its text",
                "write INTERVAL 2 DAY, or INTERVAL '1:30' MINUTE_SECOND",
            )
        return
    through = len(following) > 1 and following[1].text.upper() == "TO"
    if through and record.interval_spans and (word, following[2].text.upper() if len(following) > 2 else "") in _SPANS:
        return
    number = PLAIN_NUMBER.match(text)
    if word and (through or (word not in units if number else word in units) or (number and "." in text)):
        refuse(
            "literal",
            "an interval has a word after its text",
            "write all of it in the quotes: INTERVAL '2 weeks 1 day'",
        )
