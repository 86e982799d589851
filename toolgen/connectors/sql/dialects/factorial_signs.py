"""Factorials of DuckDB: `n!` is `factorial(n)`, and has a higher precedence than any operator before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["call_factorials", "factorial_operand"]

_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BEFORE_A_VALUE: Final = frozenset(
    {
        *(TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH),
        *(TokenType.DIV, TokenType.MOD, TokenType.CARET, TokenType.DPIPE, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.GT),
        *(TokenType.LTE, TokenType.GTE, TokenType.WHERE, TokenType.AND, TokenType.OR, TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
    }
)  # fmt: skip


def factorial_operand(tokens: Sequence[Token], place: int) -> int | None:
    """Return the first token of the operand of the sign at `place`: a number, a column, a call or parentheses; None for other operands."""
    first = place - 1
    if first < 0 or (place + 1 < len(tokens) and tokens[place + 1].text.startswith("~")):  # `a !~ b`
        return None
    if tokens[first].token_type is TokenType.R_PAREN:
        opened = _opening(tokens, first)
        if opened is None:
            return None
        named = opened > 0 and (tokens[opened - 1].token_type in _NAMES or _is_function(tokens[opened - 1]))
        first = opened - 1 if named else opened
    elif tokens[first].token_type in _NAMES:
        while first >= 2 and tokens[first - 1].token_type is TokenType.DOT and tokens[first - 2].token_type in _NAMES:
            first -= 2
    elif tokens[first].token_type is not TokenType.NUMBER:
        return None
    return first if first > 0 and tokens[first - 1].token_type in _BEFORE_A_VALUE else None


def call_factorials(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite the sign as a call."""
    begins: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if _is_sign(token) and (first := factorial_operand(tokens, place)) is not None:
            begins[first] = begins.get(first, 0) + 1
    for place, token in enumerate(tokens):
        for _ in range(begins.get(place, 0)):
            yield _like(token, TokenType.VAR, "factorial")
            yield _like(token, TokenType.L_PAREN, "(")
        written = _is_sign(token) and factorial_operand(tokens, place) is not None
        yield _like(token, TokenType.R_PAREN, ")") if written else token


def _is_sign(token: Token) -> bool:
    return token.token_type is TokenType.NOT and token.text == "!"


def _is_function(token: Token) -> bool:
    return token.text.isidentifier() and token.token_type not in _BEFORE_A_VALUE | Parser.TYPE_TOKENS


def _opening(tokens: Sequence[Token], last: int) -> int | None:
    depth = 0
    for place in range(last, -1, -1):
        kind = tokens[place].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth == 0:
            return place
    return None


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
