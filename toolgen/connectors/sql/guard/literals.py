"""Values written in ways that an engine, another version of it or our parser reads otherwise: refused, with a way that all read alike.

A wrong answer is worse than a refusal: `0xFF` is a number, a string of bits or `0 AS xFF`, `date '2024-05-01'` is no date in SQLite.

`a = b NOT IN (1, 2)` is `(a = b) NOT IN (1, 2)` to SQLite and MySQL, and `a = (b NOT IN (1, 2))` to others and to our parser.

The tree does not say where NOT stood, so it could only be written out as one of the two: beside another operator it needs parentheses.

What is refused of a statement before it is parsed: odd characters, and anything longer or deeper than the parser does in no time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Final

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS, Dialect
from toolgen.connectors.sql.guard.dialect_rewrites import PLAIN_NUMBER
from toolgen.connectors.sql.guard.placeholders import QUOTED
from toolgen.connectors.sql.guard.prefix_signs import is_signed, operand_end
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import DialectName

__all__ = ["MAX_LENGTH", "check_characters", "check_literals", "check_negations", "check_spaces", "check_tokens"]

_TEXTS: Final = frozenset(
    {
        *(TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING),
        *(TokenType.UNICODE_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING),
    }
)  # fmt: skip
_DIGITS: Final = frozenset({TokenType.HEX_STRING, TokenType.BIT_STRING})
_EXECUTABLE: Final = re.compile(r"/\*M?!")
_TIME: Final = re.compile(r"-?[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?\Z")
_NO_TYPES: Final = frozenset({"BINARY", "INTERVAL"})  # an operator of MySQL, and what has a grammar of its own
_NO_DATES: Final = frozenset(
    {"DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPTZ", "TIME", "BOOLEAN", "BOOL", "JSON", "JSONB", "INTERVAL"}
)


_LIKE_SIGNS: Final = frozenset({"~~", "~~*"})
_LIKES: Final = frozenset({TokenType.LIKE, TokenType.ILIKE})
_OTHER_OPERATORS: Final = frozenset(
    {
        *(TokenType.DPIPE, TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW, TokenType.AT_GT),
        *(TokenType.LT_AT, TokenType.DAMP, TokenType.RLIKE, TokenType.IRLIKE, TokenType.CARET_AT, TokenType.PIPE, TokenType.AMP),
        *(TokenType.HASH, TokenType.TILDE, TokenType.PLACEHOLDER, TokenType.QMARK_PIPE, TokenType.QMARK_AMP),
    }
)  # fmt: skip
_IN_OPERANDS: Final = frozenset(
    {
        *(TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.DOT, TokenType.DCOLON, TokenType.PLUS),
        *(TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.CARET, TokenType.PARAMETER, TokenType.COLLATE),
        *(TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.HEREDOC_STRING, *Parser.TYPE_TOKENS),
    }
)  # fmt: skip


def check_literals(sql: str, tokens: Sequence[Token], dialect: DialectName) -> None:
    """Raises `StatementRefusal`, rule `literal`; rule `comment` for a comment that MySQL executes."""
    record = RECORDS[dialect]
    if record.executable_comments and _EXECUTABLE.search(sql):
        _check_comments(sql, tokens)
    if record.nested_tests:
        _check_chained_tests(tokens)
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
            if not (record.tilde_operators and following is not None and following.text.startswith("~")):
                refuse("literal", "! is no operator here", "write NOT x, or factorial(x)")
            _check_match(tokens, place + 1)
        elif token.text in _LIKE_SIGNS and kind in _LIKES:
            _check_match(tokens, place)
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


def _check_chained_tests(tokens: Sequence[Token]) -> None:
    """`a LIKE b NOT IN (c)` is `a LIKE (b NOT IN (c))` to MySQL, and `(a LIKE b) NOT IN (c)` to the parser.

    https://dev.mysql.com/doc/refman/8.4/en/expressions.html: a predicate holds another at its right alone.
    """
    tested, between = (
        [False],
        [False],
    )  # by depth of parentheses: whether a test was there, and whether its AND is missing
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            tested.append(False)
            between.append(False)
        elif kind in _CLOSING and len(tested) > 1:
            tested.pop()
            between.pop()
        elif kind in _TEST_SIGNS:
            if tested[-1]:
                refuse(
                    "syntax",
                    f"{token.text.upper()} follows another test, which engines read differently",
                    "put parentheses around one: (a LIKE b) NOT IN (0, 1)",
                )
            tested[-1], between[-1] = True, kind is TokenType.BETWEEN
        elif kind is TokenType.AND and between[-1]:
            between[-1] = False
        elif kind in _BEYOND_TESTS:
            tested[-1] = False


def _check_comments(sql: str, tokens: Sequence[Token]) -> None:
    """https://dev.mysql.com/doc/refman/8.4/en/comments.html: what stands in `/*! … */` runs, in some versions."""
    end = 0
    for start, after in [*((token.start, token.end + 1) for token in tokens), (len(sql), 0)]:
        if _EXECUTABLE.search(sql, end, start):
            refuse(
                "comment", "a comment /*! … */ is executed by some servers", "write what is in it, without the comment"
            )
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
            f"the number {shown(written)} goes on with a letter or _, which not every version reads alike",
            "write it in decimal digits alone, and a space before what follows",
        )


def _check_plus(tokens: Sequence[Token], place: int) -> None:
    """A sign before a value that is a name, a call or in parentheses is read as it is, and dropped before a number."""
    number = place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.NUMBER
    if is_signed(tokens, place) and not number and not operand_end(tokens, place + 1):
        refuse("literal", "a + stands before a value", "leave the + away, or put parentheses around the value: +(x)")


def _check_match(tokens: Sequence[Token], place: int) -> None:
    """`a ~~ b || c` is `(a ~~ b) || c` to the engine, and what is written out for it binds less tightly.

    https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-PRECEDENCE
    """
    depth = 0
    for token in tokens[place + 1 :]:
        kind = token.token_type
        if depth == 0 and (kind in _OTHER_OPERATORS or token.text in _LIKE_SIGNS):
            sign = tokens[place].text
            refuse("syntax", f"{sign} is followed by another operator", f"put parentheses around it: a {sign} (b || c)")
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or (depth == 0 and kind not in _IN_OPERANDS and kind not in _CLOSING):
            return


def _check_cast(kind: Token | None, record: Dialect) -> None:
    """Refuse casts to types that an engine with affinities lacks. They give a number instead: '2024-01-31' becomes 2024."""
    if kind is not None and kind.text.upper() in _NO_DATES:
        refuse(
            "literal",
            f"{record.engine} has no type {shown(kind.text.upper())} to convert to",
            "write date(x), datetime(x) or json(x), or compare the text",
        )


def _check_neighbours(sql: str, token: Token, following: Token, record: Dialect) -> None:
    """https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-STRINGS: one text, but only on two lines."""
    gap = sql[token.end + 1 : following.start]
    plain = token.token_type is following.token_type is TokenType.STRING
    if record.neighbouring_texts == "always":
        one = plain or (token.token_type is TokenType.NATIONAL_STRING and following.token_type is TokenType.STRING)
    else:
        one = record.neighbouring_texts == "lines" and plain and "\n" in gap and "/*" not in gap
    if not one:
        refuse(
            "literal", "two texts stand beside each other", "write || between them to join them, or AS before a name"
        )


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
            "literal", f"{engine} has no typed values", "write the text alone, as '2024-01-31', or date('2024-01-31')"
        )
    if word not in record.typed_texts:
        refuse("literal", f"{engine} has no values of the form {shown(word)} '…'", "write CAST('…' AS type)")
    if not _is_typed_value(word, text):
        refuse("literal", f"the text behind {word} is none for {engine}", f"write {record.typed_texts[word]}")


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
    """`INTERVAL '2' WEEK` is two seconds in a column called week in PostgreSQL; MySQL has no intervals without a unit."""
    units = record.interval_units
    named = bool(following) and (following[0].token_type is TokenType.VAR or record.interval_needs_unit)
    word = following[0].text.upper() if named else ""
    if record.interval_needs_unit:
        if word not in units:
            refuse(
                "literal",
                "an interval has no unit behind its text",
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
            "an interval has a word behind its text",
            "write all of it in the quotes: INTERVAL '2 weeks 1 day'",
        )


_TEST_SIGNS: Final = frozenset({TokenType.LIKE, TokenType.IN, TokenType.BETWEEN, TokenType.RLIKE, TokenType.MEMBER_OF})
_BEYOND_TESTS: Final = frozenset(
    {
        TokenType.AND, TokenType.OR, TokenType.XOR, TokenType.DAMP, TokenType.DPIPE, TokenType.COMMA, TokenType.EQ, TokenType.NEQ,
        TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NULLSAFE_EQ, TokenType.IS, TokenType.WHEN, TokenType.THEN,
        TokenType.ELSE, TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
        TokenType.LIMIT, TokenType.ON, TokenType.JOIN, TokenType.ALIAS, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
        TokenType.SET, TokenType.VALUES, TokenType.WINDOW, TokenType.ASC, TokenType.DESC,
    }
)  # fmt: skip
_TESTS: Final = (exp.In, exp.Between, exp.Like, exp.ILike, exp.Glob, exp.Is, exp.RegexpLike, exp.SimilarTo, exp.Escape)
_TIGHTER: Final = (exp.Binary, exp.Neg, exp.BitwiseNot, exp.In, exp.Between)
_LOOSER: Final = (exp.Connector, exp.Filter, exp.PropertyEQ)


def check_negations(root: exp.Expr) -> None:
    """Raises `StatementRefusal`, rule `syntax`."""
    for negation in root.find_all(exp.Not):
        around = negation.parent
        if isinstance(negation.this, _TESTS) and isinstance(around, _TIGHTER) and not isinstance(around, _LOOSER):
            refuse(
                "syntax",
                "NOT IN, NOT BETWEEN or IS NOT stands beside another operator, which engines read differently",
                "put parentheses around it: a = (b NOT IN (1, 2))",
            )


MAX_LENGTH = 20_000  # characters
_MAX_TOKENS = 4_000
_MAX_DEPTH = 32  # parentheses, brackets and CASEs
_MAX_TYPES = 6  # in each other: the parser tries them as types and then again as values, so each doubles its time
_MAX_PREFIXES = 16  # of NOT, -, + and ~ in a row
_MAX_CHAIN_LENGTH = 200  # operators in a row, each a level of the tree
_MAX_OPEN_JOINS = 5  # joins without ON or USING: the parser takes twice as long for each more

_ARROWS = frozenset({TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_PREFIX = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
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


def check_characters(sql: str) -> None:
    """Raises `StatementRefusal` for a text that is too long, or holds what belongs in none."""
    if len(sql) > MAX_LENGTH:
        refuse("too-long", f"the statement is longer than {MAX_LENGTH} characters", "ask for less at once")
    _refuse_controls(sql)


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raises `StatementRefusal` for the tokens of one statement that are too many, too deep, or read differently by others."""
    _refuse_deep(tokens)
    _refuse_open_joins(tokens)
    _refuse_cast_paths(tokens)


def _refuse_controls(sql: str) -> None:
    if sql.isprintable():
        return
    for character in sql:
        if character not in _SPACES and unicodedata.category(character) in {"Cc", "Cs"}:
            refuse("character", f"the statement holds the control character U+{ord(character):04X}", "leave it out")


def check_spaces(sql: str, tokens: Sequence[Token]) -> None:
    """Spaces that are not ASCII, and invisible characters, mean different things to different lexers, except inside quotes."""
    if sql.isascii():
        return
    end = 0
    for token in [*tokens, None]:
        start = token.start if token else len(sql)
        for character in sql[end:start] if token is None or token.token_type in QUOTED else sql[end : token.end + 1]:
            if ord(character) > 127 and unicodedata.category(character) in {"Zs", "Zl", "Zp", "Cf", "Co", "Cn"}:
                refuse(
                    "character",
                    f"the statement holds U+{ord(character):04X}, a space or invisible character that is not ASCII, outside quotes",
                    "use ordinary spaces",
                )
        end = token.end + 1 if token else end


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
        if total > _MAX_OPEN_JOINS:
            refuse(
                "too-deep", f"more than {_MAX_OPEN_JOINS} joins have neither ON nor USING", "write ON, or CROSS JOIN"
            )


def _refuse_cast_paths(tokens: Sequence[Token]) -> None:
    """`document -> 'key'::type` converts the key, and what people mean is the value; the parser reads what they mean."""
    for arrow, _, cast in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if cast.token_type is TokenType.DCOLON and arrow.token_type in _ARROWS:
            refuse("syntax", "a cast follows the key of a JSON arrow", "write (document -> 'key')::type")


def _refuse_deep(tokens: Sequence[Token]) -> None:
    if len(tokens) > _MAX_TOKENS:
        refuse(
            "too-long",
            f"the statement has {len(tokens)} words and signs, and at most {_MAX_TOKENS} are read",
            "ask for less at once",
        )
    depth = prefixes = 0
    chains = [0]
    types: list[bool] = []  # for each opening one: whether the parser may take what follows for the arguments of a type
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            types.append(before in Parser.TYPE_TOKENS or kind is TokenType.L_BRACKET)
            if sum(types) > _MAX_TYPES:
                refuse("too-deep", f"more than {_MAX_TYPES} types or lists are nested", "write it with fewer levels")
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
        if depth > _MAX_DEPTH or prefixes > _MAX_PREFIXES or chains[-1] > _MAX_CHAIN_LENGTH:
            asked = (
                f"has more than {_MAX_DEPTH} levels of parentheses, brackets and CASE"
                if depth > _MAX_DEPTH
                else f"has more than {_MAX_PREFIXES} signs or NOTs in a row"
                if prefixes > _MAX_PREFIXES
                else f"has more than {_MAX_CHAIN_LENGTH} operators in a row"
            )
            refuse("too-deep", f"the statement {asked}", "write it with fewer levels, or as several statements")
