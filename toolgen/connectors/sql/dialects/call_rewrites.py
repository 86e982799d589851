"""Token rewrites of calls that the parser misreads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

__all__ = [
    "enclose_ordered_arrows",
    "is_standard_json",
    "rename_list_functions",
    "separate_by_commas",
    "spell_out_characters",
]

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BEFORE_AN_ARGUMENT: Final = frozenset({TokenType.L_PAREN, TokenType.COMMA})
_LISTS: Final[Mapping[str, str]] = {"APPLY": "list_apply", "FILTER": "list_filter"}
_KEYS: Final = frozenset({"VALUE", "KEY", "ABSENT", "RETURNING"})


def enclose_ordered_arrows(tokens: Sequence[Token]) -> Iterator[Token]:
    """Enclose `a -> 'b'` in `jsonb_agg(a -> 'b' ORDER BY c)` in parentheses: the parser reads it as a lambda, which cannot have ORDER
    BY.
    """
    ends: dict[int, int] = {}
    for place, token in enumerate(tokens):
        first = place - 1
        if token.token_type is not TokenType.ARROW or first < 1 or tokens[first].token_type not in _NAMES:
            continue
        end = _end(tokens, place, _ends_an_argument)
        if end and tokens[first - 1].token_type in _BEFORE_AN_ARGUMENT and tokens[end].token_type is TokenType.ORDER_BY:
            ends[first] = end
    closing = {*ends.values()}
    for place, token in enumerate(tokens):
        if place in closing:
            yield _like(tokens[place - 1], TokenType.R_PAREN, ")")
        if place in ends:
            yield _like(token, TokenType.L_PAREN, "(")
        yield token


def _ends_an_argument(kind: TokenType) -> bool:
    return kind in {TokenType.ORDER_BY, TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.ALIAS}


def is_standard_json(tokens: Sequence[Token], first: int) -> bool:
    """Return True for arguments of JSON_OBJECT in the syntax of the standard: `'a': 1`, `KEY 'a' VALUE 1`, `RETURNING text`."""
    depth = 0
    for token in tokens[first:]:
        kind = token.token_type
        if depth == 0 and (kind is TokenType.COLON or (kind is not TokenType.STRING and token.text.upper() in _KEYS)):
            return True
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0:
            return token is tokens[first]  # without arguments
    return False


def spell_out_characters(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `CHAR(65 USING utf8mb4)` as `CONVERT(CHAR(65) USING utf8mb4)`, `SUBSTR(x FROM 2 FOR 1)` as `SUBSTRING(x FROM 2 FOR 1)`.

    https://dev.mysql.com/doc/refman/8.4/en/string-functions.html
    """
    closing: set[int] = set()
    for place, token in enumerate(tokens):
        name = token.text.upper() if token.token_type is not TokenType.STRING and _is_called(tokens, place) else ""
        if name in {"SUBSTR", "MID"} and _end(tokens, place + 2, lambda kind: kind is TokenType.FROM):
            yield _like(token, token.token_type, "SUBSTRING")
            continue
        if name in {"CHAR", "NCHAR"} and (using := _end(tokens, place + 2, lambda kind: kind is TokenType.USING)):
            closing.add(using)
            yield _like(token, TokenType.VAR, "CONVERT")
            yield _like(token, TokenType.L_PAREN, "(")
        if place in closing:
            yield _like(tokens[place - 1], TokenType.R_PAREN, ")")
        yield token


def rename_list_functions(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rename `apply(l, lambda x: …)` and `filter(l, lambda x: …)` to `list_apply` and `list_filter`: both are also keywords of the
    grammar.
    """
    for place, token in enumerate(tokens):
        name = _LISTS.get(token.text.upper(), "") if token.token_type is not TokenType.STRING else ""
        aggregate = place > 0 and tokens[place - 1].token_type in _CLOSING
        called = name and not aggregate and _is_called(tokens, place)
        yield _like(token, TokenType.VAR, name) if called else token


def separate_by_commas(tokens: Sequence[Token], function: str, words: Sequence[str]) -> Iterator[Token]:
    """Rewrite `overlay(x PLACING y FROM 2 FOR 1)` as `overlay(x, y, 2, 1)`, for keywords that the parser does not support."""
    depths: list[bool] = []  # for each open bracket: True if it belongs to the function
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPENING:
            depths.append(place > 0 and _is_word(tokens[place - 1], (function,)))
        elif kind in _CLOSING and depths:
            depths.pop()
        separates = bool(depths) and depths[-1] and _is_word(token, words)
        yield _like(token, TokenType.COMMA, ",") if separates else token


def _is_word(token: Token, words: Sequence[str]) -> bool:
    return token.token_type not in {TokenType.STRING, TokenType.IDENTIFIER} and token.text.upper() in words


def _is_called(tokens: Sequence[Token], place: int) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.L_PAREN


def _end(tokens: Sequence[Token], first: int, ends: Callable[[TokenType], bool]) -> int:
    """Return the position of the token that ends the expression at `first`, within the bracket around it; 0 if there is none."""
    depth = 0
    for place in range(first, len(tokens)):
        kind = tokens[place].token_type
        if depth == 0 and ends(kind):
            return place
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0:
            return 0
    return 0


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
