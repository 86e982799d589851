"""Prefix signs that the parser drops or lacks: `+x` everywhere, and `@ x` in PostgreSQL and DuckDB.

The parser reads each as a call whose name is the sign, which is rendered as `+(x)` and `@(x)`. A `+` has an effect: SQLite compares `+x`
without the affinity and the index of a column, and it changes names of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.token_types import token_types

__all__ = ["enclose_absolutes", "enclose_signs", "is_sign", "is_signed", "operand_end", "value_belongs"]

_SIGNS: Final = frozenset({"+", "@"})


_BEFORE_A_VALUE: Final = token_types(
    """
    L_PAREN COMMA EQ NEQ NULLSAFE_EQ LT GT LTE GTE PLUS DASH STAR SLASH DIV MOD DPIPE PIPE AMP CARET TILDE LT_LT GT_GT ARROW
    DARROW AT_GT LT_AT DAMP HASH_ARROW DHASH_ARROW AND OR XOR NOT IS LIKE ILIKE RLIKE IRLIKE GLOB SIMILAR_TO BETWEEN ESCAPE IN SELECT
    DISTINCT WHERE HAVING QUALIFY ON CASE WHEN THEN ELSE LIMIT OFFSET FETCH FIRST NEXT VALUES INTERVAL BY GROUP_BY ORDER_BY PARTITION_BY
    FROM FOR
    """
)
_COUNTS: Final = token_types("FIRST NEXT")
_BEFORE_A_COUNT: Final = token_types("LIMIT OFFSET FETCH INTERVAL FIRST NEXT")
_PREFIXES: Final = token_types("PLUS DASH TILDE")
_OPENING: Final = token_types("L_PAREN L_BRACKET L_BRACE")
_CLOSING: Final = token_types("R_PAREN R_BRACKET R_BRACE")
_VALUES: Final = token_types("NUMBER STRING NATIONAL_STRING HEX_STRING BIT_STRING IDENTIFIER")
_NO_OPERANDS: Final = token_types("SELECT WITH FROM NOT EXISTS INTERVAL CASE DISTINCT ALL ANY SOME")
_AFTER_CALLS: Final = frozenset({"OVER", "FILTER", "WITHIN", "IGNORE", "RESPECT", "COLLATE", "AT"})
_TIGHTER: Final = token_types("PLUS DASH STAR SLASH DIV MOD CARET DSTAR DCOLON")


def value_belongs(tokens: Sequence[Token], index: int) -> bool:
    """Return True if a value can begin at the token at `index`, according to the tokens before it."""
    if index <= 0 or tokens[index - 1].token_type not in _BEFORE_A_VALUE:
        return False
    around = tokens[index - 2].token_type if index > 1 else None
    if around is TokenType.DOT:
        return tokens[index - 1].token_type is TokenType.L_PAREN  # `t.first`: any other word is a name there
    return tokens[index - 1].token_type not in _COUNTS or around is TokenType.FETCH


def is_signed(tokens: Sequence[Token], place: int) -> bool:
    """Return True if the `+` at `place` is a sign before a value, and not an operator between two."""
    typed = place > 1 and tokens[place - 2].token_type is TokenType.DCOLON  # `'1 day'::interval + x`
    return place == 0 or (value_belongs(tokens, place) and not typed)


def is_sign(node: exp.Expr) -> bool:
    """Return True for `+(x)` and `@(x)` as calls with one value."""
    return (
        isinstance(node, exp.Anonymous)
        and isinstance(node.this, str)
        and node.this in _SIGNS
        and len(node.expressions) == 1
        and {name for name, value in node.args.items() if value} == {"this", "expressions"}
    )


def operand_end(tokens: Sequence[Token], first: int) -> int:
    """Return the end position of the operand that begins at `first`: a value, a name, a call or parentheses; 0 for other operands.

    A cast has a higher precedence than a sign, so its operand needs parentheses, and so does a window function.
    """
    while first < len(tokens) and tokens[first].token_type in _PREFIXES:
        first += 1
    if first >= len(tokens):
        return 0
    kind = tokens[first].token_type
    if kind is TokenType.L_PAREN:
        end = _bracket_end(tokens, first)
    elif kind in _VALUES or (tokens[first].text.isidentifier() and kind not in _NO_OPERANDS):
        end = first + 1
    else:
        return 0
    while end and end < len(tokens):
        kind = tokens[end].token_type
        if kind is TokenType.DOT and end + 1 < len(tokens):
            end += 2
        elif kind is TokenType.L_BRACKET or (kind is TokenType.L_PAREN and tokens[end - 1].text.isidentifier()):
            end = _bracket_end(tokens, end)
        else:
            following = tokens[end].text.upper() in _AFTER_CALLS and kind is not TokenType.STRING
            return 0 if kind is TokenType.DCOLON or following else end
    return end


def _bracket_end(tokens: Sequence[Token], first: int) -> int:
    """Return the position after the bracket that closes the one at `first`; 0 for none."""
    depth = 0
    for place in range(first, len(tokens)):
        depth += (tokens[place].token_type in _OPENING) - (tokens[place].token_type in _CLOSING)
        if depth == 0:
            return place + 1
    return 0


def enclose_signs(tokens: Sequence[Token]) -> Iterable[Token]:
    """Rewrite `+x` as a call of `+`: `ORDER BY +1` sorts by a number, and `ORDER BY 1` by the first column."""
    pluses = [place for place, token in enumerate(tokens) if token.token_type is TokenType.PLUS]
    if not any(is_signed(tokens, place) for place in pluses):
        return tokens
    return _enclosed(tokens, TokenType.PLUS, absolute=False)


def enclose_absolutes(tokens: Sequence[Token]) -> Iterable[Token]:
    """Rewrite `@ x` as a call of `@`, if no operator with a higher precedence follows: `@ a - 5` is `@ (a - 5)`.

    https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-PRECEDENCE
    """
    return _enclosed(tokens, TokenType.PARAMETER, absolute=True)


def _enclosed(tokens: Sequence[Token], sign: TokenType, *, absolute: bool) -> Iterator[Token]:
    closing: list[int] = []
    for place, token in enumerate(tokens):
        while closing and closing[-1] == place:
            yield _like(tokens[place - 1], TokenType.R_PAREN, ")")
            closing.pop()
        begins = token.token_type is sign and (
            (place == 0 or value_belongs(tokens, place)) if absolute else is_signed(tokens, place)
        )
        if not begins or (absolute and token.text != "@") or place + 1 >= len(tokens):
            yield token
            continue
        end = operand_end(tokens, place + 1)
        behind = tokens[end].token_type if 0 < end < len(tokens) else None
        if absolute and (not end or behind in _TIGHTER):
            refuse(
                "literal",
                "@ is followed by an operator with a higher precedence",
                "write abs(x), or parentheses: @ (x)",
            )
        if not end or (not absolute and _counts(tokens, place)):
            yield token
            continue
        yield _like(token, TokenType.VAR, token.text)
        if tokens[place + 1].token_type is TokenType.L_PAREN and _bracket_end(tokens, place + 1) == end:
            continue
        yield _like(token, TokenType.L_PAREN, "(")
        closing.append(end)
    for _ in closing:
        yield _like(tokens[-1], TokenType.R_PAREN, ")")


def _counts(tokens: Sequence[Token], place: int) -> bool:
    """Return True for the sign of a number that counts rows or units: `LIMIT +5`, `INTERVAL +1 DAY`."""
    before = tokens[place - 1].token_type if place else None
    return tokens[place + 1].token_type is TokenType.NUMBER and before in _BEFORE_A_COUNT


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
