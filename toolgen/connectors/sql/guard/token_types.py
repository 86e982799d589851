"""Sets of token types of sqlglot's tokenizer."""

from __future__ import annotations

from typing import Final

from sqlglot.tokenizer_core import TokenType

__all__ = ["CLOSING", "OPENING", "token_types"]


def token_types(names: str) -> frozenset[TokenType]:
    """Return the types of these names. Names that this version of sqlglot lacks are ignored."""
    return frozenset(kind for name in names.split() if (kind := getattr(TokenType, name, None)) is not None)


OPENING: Final = token_types("L_PAREN L_BRACKET L_BRACE CASE")
CLOSING: Final = token_types("R_PAREN R_BRACKET R_BRACE END")
