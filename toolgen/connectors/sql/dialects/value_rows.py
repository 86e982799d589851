"""Rows of VALUES with ORDER BY or LIMIT, rewritten as a SELECT from these rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["select_from_values"]

_TAIL: Final = frozenset({TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH})


def select_from_values(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `VALUES (1), (2) ORDER BY 1` as `SELECT * FROM (VALUES (1), (2)) AS "values" ORDER BY 1`, with the same column names."""
    end = _end_of_rows(tokens)
    if not end:
        yield from _select_in_arrays(tokens)
        return
    first, last = tokens[0], tokens[end - 1]
    for kind, text in (
        (TokenType.SELECT, "SELECT"),
        (TokenType.STAR, "*"),
        (TokenType.FROM, "FROM"),
        (TokenType.L_PAREN, "("),
    ):
        yield _like(first, kind, text)
    yield from tokens[:end]
    for kind, text in ((TokenType.R_PAREN, ")"), (TokenType.ALIAS, "AS"), (TokenType.IDENTIFIER, "values")):
        yield _like(last, kind, text)
    yield from tokens[end:]


def _select_in_arrays(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `ARRAY(VALUES (1), (2))` as `ARRAY(SELECT * FROM (VALUES (1), (2)) AS "values")`."""
    depth = 0
    closing: list[int] = []  # bracket depths of such lists of rows
    for place, token in enumerate(tokens):
        depth -= token.token_type is TokenType.R_PAREN
        if closing and closing[-1] == depth:
            closing.pop()
            for kind, text in ((TokenType.R_PAREN, ")"), (TokenType.ALIAS, "AS"), (TokenType.IDENTIFIER, "values")):
                yield _like(token, kind, text)
        if token.token_type is TokenType.VALUES and place > 1 and _is_array(tokens[place - 2 : place]):
            closing.append(depth - 1)
            for kind, text in (
                (TokenType.SELECT, "SELECT"),
                (TokenType.STAR, "*"),
                (TokenType.FROM, "FROM"),
                (TokenType.L_PAREN, "("),
            ):
                yield _like(token, kind, text)
        yield token
        depth += token.token_type is TokenType.L_PAREN


def _is_array(before: Sequence[Token]) -> bool:
    return before[0].token_type is TokenType.ARRAY and before[1].token_type is TokenType.L_PAREN


def _end_of_rows(tokens: Sequence[Token]) -> int:
    """Return the position of ORDER BY or LIMIT after the rows of a VALUES statement; 0 for any other statement."""
    if tokens[0].token_type is not TokenType.VALUES:
        return 0
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in _TAIL:
            return place
    return 0


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
