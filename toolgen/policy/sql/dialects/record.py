"""Dialect record: what the guard knows about one SQL engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["Dialect", "TokenRewrite", "TreeRewrite"]

_Tokens: TypeAlias = Callable[[Sequence[Token]], Iterable[Token]]
_Tree: TypeAlias = Callable[[exp.Expr], None]


class TokenRewrite(Struct, frozen=True):
    """Rewrite of tokens before the parser reads them. It runs if the statement has the word or the kind of token `trigger`."""

    trigger: str | TokenType
    rewrite: _Tokens


class TreeRewrite(Struct, frozen=True):
    """Rewrite of the parsed tree in place. It runs if the tree has a node of one of `kinds`, or of a class derived from them."""

    kinds: tuple[type[exp.Expr], ...]
    rewrite: _Tree


class Dialect(Struct, frozen=True, kw_only=True):
    """Knowledge about one engine. Rewrites keep the meaning of a statement."""

    name: str
    engine: str  # as people write it
    text_rewrite: Callable[[str], str] | None = None  # before the text becomes tokens
    token_rewrites: tuple[TokenRewrite, ...] = ()
    tree_rewrites: tuple[TreeRewrite, ...] = ()
