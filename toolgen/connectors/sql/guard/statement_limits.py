"""Limits on the text of a statement before parsing: characters, tokens, nesting and joins without a condition.

A limit on size keeps the parse time short; a limit on characters excludes those that lexers read differently.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.placeholders import QUOTED
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.token_types import CLOSING, OPENING

__all__ = ["MAX_LENGTH", "check_characters", "check_spaces", "check_tokens"]

MAX_LENGTH = 20_000  # characters
_MAX_TOKENS = 4_000
_MAX_DEPTH = 32  # nested parentheses, brackets and CASEs
_MAX_TYPES = 6  # nested types: the parser tries them as types and then as values, so each doubles its time
_MAX_PREFIXES = 16  # NOT, -, + and ~ in sequence
_MAX_CHAIN_LENGTH = 200  # operators in sequence, each a level of the tree
_MAX_OPEN_JOINS = 5  # joins without ON or USING: the parser takes twice as long for each of them
_ARROWS = frozenset({TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW})
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
    """Raise `StatementRefusal` for a text that is too long, or contains control characters."""
    if len(sql) > MAX_LENGTH:
        refuse("too-long", f"the statement is longer than {MAX_LENGTH} characters", "split it into smaller statements")
    _refuse_controls(sql)


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raise `StatementRefusal` for too many or too deeply nested tokens, or tokens that others read differently."""
    _refuse_deep(tokens)
    _refuse_open_joins(tokens)
    _refuse_cast_paths(tokens)


def _refuse_controls(sql: str) -> None:
    if sql.isprintable():
        return
    for character in sql:
        if character not in _SPACES and unicodedata.category(character) in {"Cc", "Cs"}:
            refuse("character", f"the statement contains the control character U+{ord(character):04X}", "leave it out")


def check_spaces(sql: str, tokens: Sequence[Token]) -> None:
    """Refuse spaces that are not ASCII, and invisible characters, because lexers read them differently, except inside quotes."""
    if sql.isascii():
        return
    end = 0
    for token in [*tokens, None]:
        start = token.start if token else len(sql)
        for character in sql[end:start] if token is None or token.token_type in QUOTED else sql[end : token.end + 1]:
            if ord(character) > 127 and unicodedata.category(character) in {"Zs", "Zl", "Zp", "Cf", "Co", "Cn"}:
                refuse(
                    "character",
                    f"the statement contains U+{ord(character):04X}, a space or invisible character that is not ASCII, outside quotes",
                    "use ordinary spaces",
                )
        end = token.end + 1 if token else end


def _refuse_open_joins(tokens: Sequence[Token]) -> None:
    """Refuse too many joins without a condition. An ON closes only a join of its own parentheses; open joins in parentheses still count,
    because the parser tries them again.
    """
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
    """Refuse `document -> 'key'::type`, which converts the key in the engine, while the parser converts the value, as authors mean it."""
    for arrow, _, cast in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if cast.token_type is TokenType.DCOLON and arrow.token_type in _ARROWS:
            refuse("syntax", "a cast follows the key of a JSON arrow", "write (document -> 'key')::type")


def _refuse_deep(tokens: Sequence[Token]) -> None:
    if len(tokens) > _MAX_TOKENS:
        refuse(
            "too-long",
            f"the statement has {len(tokens)} words and signs, and at most {_MAX_TOKENS} are read",
            "split it into smaller statements",
        )
    depth = prefixes = 0
    chains = [0]
    types: list[bool] = []  # for each open one: True if the parser may read the rest as the arguments of a type
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in OPENING:
            types.append(before in Parser.TYPE_TOKENS or kind is TokenType.L_BRACKET)
            if sum(types) > _MAX_TYPES:
                refuse("too-deep", f"more than {_MAX_TYPES} types or lists are nested", "write it with fewer levels")
        elif kind in CLOSING and types:
            types.pop()
        before = kind
        prefixes = prefixes + 1 if kind in _PREFIX else 0
        if kind in OPENING:
            depth += 1
            chains.append(0)
        elif kind in CLOSING:
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
