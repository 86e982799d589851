"""Dialect record: what the guard knows about one SQL engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.costs import Costs
from toolgen.model.database import DialectName

__all__ = ["Dialect", "Gathering", "TokenRewrite", "TreeRewrite", "words"]

_Tokens: TypeAlias = Callable[[Sequence[Token]], Iterable[Token]]
_Tree: TypeAlias = Callable[[exp.Expr], None]


class TokenRewrite(Struct, frozen=True):
    """Rewrite of tokens before the parser reads them. It runs if the statement has the word or the kind of token `trigger`."""

    trigger: str | TokenType
    rewrite: _Tokens


class TreeRewrite(Struct, frozen=True):
    """Rewrite of the parsed tree in place. It runs if the tree has a node of one of `kinds`, or of a class derived from them.

    `makes_nodes`: other rewrites may have to look at what it made. `names`: it runs only if an identifier has one of these names, in lower
    case.
    """

    kinds: tuple[type[exp.Expr], ...]
    rewrite: _Tree
    makes_nodes: bool = True
    names: frozenset[str] = frozenset()


class Gathering(Struct, frozen=True):
    """Bound on values of many rows, for an engine that bounds no session's memory.

    `bound` changes a checked tree in place, and returns the functions that it added. It runs if `may_gather` says so of the text.
    """

    may_gather: Callable[[str], bool]
    bound: Callable[[exp.Expr], frozenset[str]]


class Dialect(Struct, frozen=True, kw_only=True):
    """Knowledge about one engine. Rewrites keep the meaning of a statement."""

    name: DialectName
    engine: str  # as people write it
    functions: Costs  # allowed scalar, aggregate and window functions, by their names in lower case
    operators: Costs  # by the names of the parser's classes
    max_row_memory: float = 50e6  # bytes that the values of one row may take
    uninterruptible: bool = False  # a server that does not look at its clock inside of a function
    table_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # with the columns they give
    named_arguments: frozenset[str] = frozenset()  # functions that may be called with names of arguments
    types: frozenset[str] = frozenset()  # names of types that the parser does not know
    interval_units: frozenset[str] = frozenset()  # words behind the value of an interval
    text_rewrite: Callable[[str], str] | None = None  # before the text becomes tokens
    token_rewrites: tuple[TokenRewrite, ...] = ()
    tree_rewrites: tuple[TreeRewrite, ...] = ()
    gathering: Gathering | None = None


def words(text: str) -> frozenset[str]:
    """Words of a text, separated by spaces."""
    return frozenset(text.split())
