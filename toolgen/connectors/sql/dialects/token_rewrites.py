"""Token rewrites shared by several dialects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["cast_typed_texts", "enclose_interval_values", "enclose_limits", "enclose_typed_texts", "join_type_words"]

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_ENDS_A_VALUE: Final = frozenset({"END", "NULL", "TRUE", "FALSE", "?"})
_AFTER_A_LIMIT: Final = frozenset(
    {TokenType.OFFSET, TokenType.LIMIT, TokenType.COMMA, TokenType.FETCH, TokenType.UNION, TokenType.SEMICOLON}
)
_MAX_VALUE_TOKENS: Final = 60


def enclose_interval_values(tokens: Sequence[Token], units: frozenset[str]) -> Iterator[Token]:
    """Enclose the value of an interval in parentheses: `INTERVAL id + 1 DAY` becomes `INTERVAL (id + 1) DAY`.

    The parser reads only the first word of the value, and converts a number to a text: `'1.5'` is 1, while 1.5 is rounded. Texts are
    unchanged.
    """
    index = 0
    while index < len(tokens):
        token = tokens[index]
        yield token
        index += 1
        if token.token_type is not TokenType.INTERVAL:
            continue
        end = _unit_place(tokens, index, units)
        if end > index and not _is_enclosed(tokens, index, end):
            yield from _enclosed(tokens[index:end])
            index = end


def _unit_place(tokens: Sequence[Token], first: int, units: frozenset[str]) -> int:
    """Return the position of the unit of the interval whose value begins at `first`; 0 for none."""
    depth = 0
    for index in range(first, min(first + _MAX_VALUE_TOKENS, len(tokens))):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or (depth == 0 and kind is TokenType.COMMA):
            return 0
        is_unit = depth == 0 and kind is not TokenType.STRING and tokens[index].text.upper() in units
        if is_unit and index > first and not _is_called(tokens, index) and _ends_value(tokens[index - 1]):
            return index
    return 0


def _is_called(tokens: Sequence[Token], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN


def _ends_value(token: Token) -> bool:
    kind, text = token.token_type, token.text
    named = kind in {TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER} or kind in _CLOSING
    return named or text.upper() in _ENDS_A_VALUE or text.isidentifier()


def _is_enclosed(tokens: Sequence[Token], first: int, end: int) -> bool:
    """Return True for a single text, and for a value completely in parentheses."""
    if end - first == 1:
        return tokens[first].token_type is TokenType.STRING
    if tokens[first].token_type is not TokenType.L_PAREN:
        return False
    depth = 0
    for index in range(first, end):
        depth += (tokens[index].token_type is TokenType.L_PAREN) - (tokens[index].token_type is TokenType.R_PAREN)
        if depth == 0:
            return index == end - 1
    return False


def enclose_limits(tokens: Sequence[Token]) -> Iterator[Token]:
    """Enclose a computed count in parentheses: the parser reads the sign of `LIMIT 5 % 2` as percent."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        yield token
        index += 1
        if token.token_type not in {TokenType.LIMIT, TokenType.OFFSET}:
            continue
        end = _modulo_end(tokens, index)
        if end > index:
            yield from _enclosed(tokens[index:end])
            index = end


def _modulo_end(tokens: Sequence[Token], first: int) -> int:
    """Return the end position of the count that begins at `first`, if it has a modulo outside of parentheses; else 0."""
    depth, modulo, index = 0, 0, first
    while index < len(tokens):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or (depth == 0 and kind in _AFTER_A_LIMIT):
            break
        if depth == 0 and kind is TokenType.MOD and index > first:
            modulo = index
        index += 1
    return index if first < modulo < index - 1 else 0


_BEFORE_VARYING: Final = {
    TokenType.BIT: (TokenType.VAR, "varbit"),
    TokenType.NCHAR: (TokenType.VARCHAR, "varchar"),
    TokenType.CHAR: (TokenType.VARCHAR, "varchar"),
}


def join_type_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """Replace `bit varying`, `nchar varying` and `national character` by PostgreSQL's names of one word.

    The parser reads the second word as an alias, and the first as a type of one bit. VARYING is not an alias without AS.
    """
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.text.upper() == "NATIONAL" and following is not None and following.token_type in _CHARACTERS:
            index += 1  # the resulting type is the same
        elif (
            (joined := _BEFORE_VARYING.get(token.token_type)) is not None
            and following is not None
            and following.token_type is TokenType.VAR
            and following.text.upper() == "VARYING"
        ):
            yield Token(*joined, token.line, token.col, token.start, following.end, [])
            index += 2
        elif token.token_type is TokenType.NCHAR:
            yield Token(TokenType.CHAR, "char", token.line, token.col, token.start, token.end, [])
            index += 1
        else:
            yield token
            index += 1


_CHARACTERS: Final = frozenset({TokenType.CHAR, TokenType.VARCHAR})
_TYPES: Final = frozenset(Parser.TYPE_TOKENS) - {TokenType.INTERVAL, TokenType.IDENTIFIER, TokenType.STRING}


def enclose_typed_texts(tokens: Sequence[Token]) -> Iterator[Token]:
    """Enclose `timestamp '2024-03-05 10:00'` before `::date` in parentheses: the parser would cast only the text."""
    ends: dict[int, int] = {}
    for place, token in enumerate(tokens[:-1]):
        if token.token_type is TokenType.STRING and tokens[place + 1].token_type is TokenType.DCOLON:
            first = _type_place(tokens, place - 1)
            if first >= 0:
                ends[first] = place
    index = 0
    while index < len(tokens):
        if index in ends:
            yield from _enclosed(tokens[index : ends[index] + 1])
            index = ends[index] + 1
        else:
            yield tokens[index]
            index += 1


def cast_typed_texts(tokens: Sequence[Token], types: frozenset[str]) -> Iterator[Token]:
    """Rewrite `cidr '10.1.0.0/16'` as `CAST('10.1.0.0/16' AS cidr)`, for types that the parser does not know."""
    index = 0
    while index < len(tokens):
        kind, text = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        typed = kind.token_type is TokenType.VAR and kind.text.lower() in types
        if not typed or text is None or text.token_type is not TokenType.STRING:
            yield kind
            continue
        index += 1
        for token_type, word in (
            (TokenType.VAR, "CAST"),
            (TokenType.L_PAREN, "("),
            (TokenType.STRING, text.text),
            (TokenType.ALIAS, "AS"),
            (TokenType.VAR, kind.text),
            (TokenType.R_PAREN, ")"),
        ):
            yield Token(token_type, word, kind.line, kind.col, kind.start, text.end, [])


def _type_place(tokens: Sequence[Token], last: int) -> int:
    """Return the position of the type whose last token is at `last`; -1 if it is not a type."""
    words = [token.text.upper() for token in tokens[max(last - 2, 0) : last + 1]]
    if words[-2:] == ["TIME", "ZONE"] and words[0] in {"WITH", "WITHOUT"}:
        return _type_place(tokens, last - 3)
    if words[-2:] == ["DOUBLE", "PRECISION"]:
        return last - 1
    if last >= 3 and words == ["(", words[1], ")"] and tokens[last - 1].token_type is TokenType.NUMBER:
        last -= 3
    return last if last >= 0 and tokens[last].token_type in _TYPES else -1


def _enclosed(tokens: Sequence[Token]) -> Iterator[Token]:
    first, last = tokens[0], tokens[-1]
    yield Token(TokenType.L_PAREN, "(", first.line, first.col, first.start, first.end, [])
    yield from tokens
    yield Token(TokenType.R_PAREN, ")", last.line, last.col, last.start, last.end, [])
