"""Operators of PostgreSQL without support in the parser: those of network addresses, shapes and searches, such as `a <<= b` and `a <-> b`.

https://www.postgresql.org/docs/current/functions-net.html, functions-geometry.html and functions-textsearch.html. Operators between two
values pass through the parser as `a OPERATOR(<<=) b`; other operators cannot have that form. `!! q` is read as a call whose name is the
sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.marks import CALL
from toolgen.connectors.sql.guard.prefix_signs import operand_end
from toolgen.connectors.sql.guard.refusal import refuse

__all__ = [
    "OPERATOR_TOKENS",
    "check_operator",
    "enclose_negated_searches",
    "is_negated_search",
    "name_operators",
    "refuse_null_safe_sign",
    "write_named_operator",
]

_SIGNS: Final = frozenset({"<<=", ">>=", "<->", "~=", "<<|", "|>>", "&<|", "|&>", "<^", ">^"})
_MAX_TOKENS: Final = 3  # maximum tokens of a sign
OPERATOR_TOKENS: Final = (
    *(TokenType.LTE, TokenType.GTE, TokenType.LR_ARROW, TokenType.RLIKE, TokenType.PIPE, TokenType.PIPE_GT),
    *(TokenType.AMP_LT, TokenType.AMP_GT, TokenType.CARET),
)
"""Kinds of tokens, one of which is in each sign."""
_NEGATION: Final = "!!"
_SEARCH: Final = "tsquery"
_SEARCHES: Final = frozenset(
    CALL + name
    for name in (
        *("to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery", "tsquery_phrase"),
        *("querytree", "ts_rewrite"),
    )
)


def name_operators(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `a <<= b` as `a OPERATOR(<<=) b`."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        sign, length = _sign(tokens, index)
        index += max(length, 1)
        if not sign:
            yield token
            continue
        for kind, text in (
            (TokenType.OPERATOR, "OPERATOR"),
            (TokenType.L_PAREN, "("),
            (TokenType.VAR, sign),
            (TokenType.R_PAREN, ")"),
        ):
            yield Token(kind, text, token.line, token.col, token.start, tokens[index - 1].end, [])


def _sign(tokens: Sequence[Token], index: int) -> tuple[str, int]:
    """Return the longest sign that begins at a token, and the number of its tokens, which have no space between them; ("", 0) for none."""
    found, text = ("", 0), ""
    for place in range(index, min(index + _MAX_TOKENS, len(tokens))):
        token = tokens[place]
        apart = place > index and token.start != tokens[place - 1].end + 1
        if apart or token.token_type in {TokenType.STRING, TokenType.IDENTIFIER, TokenType.VAR}:
            break
        text += token.text
        if text in _SIGNS:
            found = text, place + 1 - index
    return found


def refuse_null_safe_sign(_tokens: Sequence[Token]) -> NoReturn:
    """Refuse `a <=> b`, which means `a IS NOT DISTINCT FROM b` in other engines, and is an operator of extensions here."""
    refuse("syntax", "<=> is not an operator of PostgreSQL itself", "write a IS NOT DISTINCT FROM b")


def check_operator(node: exp.Expr) -> None:
    """Refuse `OPERATOR(…)` with a sign other than those of this module."""
    if node.args.get("operator") not in _SIGNS:
        refuse("syntax", "an operator is called by its name", "write the operator between its values")


def write_named_operator(generator: Generator, node: exp.Expr) -> str:
    """Return the SQL of the operator itself."""
    sign = node.args["operator"]
    return f"{generator.sql(node, 'this')} {sign} {generator.sql(node, 'expression')}"


def enclose_negated_searches(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `!! to_tsquery('a')` as a call of `!!`."""
    index = closes = 0
    while index < len(tokens):
        token = tokens[index]
        if closes and index == closes:
            yield _like(tokens[index - 1], TokenType.R_PAREN, ")")
            closes = 0
        if not _negates(tokens, index):
            yield token
            index += 1
            continue
        end = _search_end(tokens, index + 2)
        if not end or closes:
            refuse("literal", "the operand of !! is not a search", "write !!to_tsquery('word')")
        yield Token(TokenType.VAR, _NEGATION, token.line, token.col, token.start, tokens[index + 1].end, [])
        index += 2
        if tokens[index].token_type is not TokenType.L_PAREN:
            yield _like(token, TokenType.L_PAREN, "(")
            closes = end
    if closes:
        yield _like(tokens[-1], TokenType.R_PAREN, ")")


def _negates(tokens: Sequence[Token], index: int) -> bool:
    pair = tokens[index : index + 2]
    return [(token.token_type, token.text) for token in pair] == [(TokenType.NOT, "!")] * 2 and (
        pair[1].start == pair[0].end + 1
    )


def _search_end(tokens: Sequence[Token], first: int) -> int:
    """Return the end position of the operand at `first`: a call, parentheses, or a text followed by a cast; 0 for other operands."""
    kinds = [token.token_type for token in tokens[first : first + 2]]
    if kinds == [TokenType.STRING, TokenType.DCOLON]:
        return first + 3 if tokens[first + 2 : first + 3] else 0
    return operand_end(tokens, first)


def is_negated_search(node: exp.Expr) -> bool:
    """Return True for `!!(q)` of a search. Before version 14, `!!` of a number was its factorial."""
    return (
        isinstance(node, exp.Anonymous)
        and node.this == _NEGATION
        and len(node.expressions) == 1
        and _is_search(node.expressions[0])
    )


def _is_search(node: exp.Expr) -> bool:
    match node:
        case exp.Paren():
            return _is_search(node.this)
        case exp.Anonymous():
            return (isinstance(node.this, str) and node.this.lower() in _SEARCHES) or is_negated_search(node)
        case exp.Cast():
            kind = node.to.args.get("kind")
            return (kind.name if isinstance(kind, exp.Identifier) else str(kind or "")).lower() == _SEARCH
        case exp.ArrayOverlaps() | exp.DPipe() | exp.Operator():
            return _is_search(node.this) and _is_search(node.expression)
    return False


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
