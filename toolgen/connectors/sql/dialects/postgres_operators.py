"""Operators of PostgreSQL that the parser does not read: `a <<= b` and `a >>= b` of network addresses.

https://www.postgresql.org/docs/current/functions-net.html. They pass through the parser as `a OPERATOR(<<=) b`; other operators are not
called in that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.refusal import refuse

__all__ = ["check_operator", "name_operators", "write_named_operator"]

_NAMED: Final = {("<", "<="): "<<=", (">", ">="): ">>="}


def name_operators(tokens: Sequence[Token]) -> Iterator[Token]:
    """`a <<= b` as `a OPERATOR(<<=) b`."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        sign = _NAMED.get((token.text, following.text), "") if following is not None else ""
        if not sign or following is None or following.start != token.end + 1 or token.token_type is TokenType.STRING:
            yield token
            continue
        for kind, text in (
            (TokenType.OPERATOR, "OPERATOR"),
            (TokenType.L_PAREN, "("),
            (TokenType.VAR, sign),
            (TokenType.R_PAREN, ")"),
        ):
            yield Token(kind, text, token.line, token.col, token.start, following.end, [])
        index += 1


def check_operator(node: exp.Expr) -> None:
    """Refuses an operator by any other name."""
    if node.args.get("operator") not in _NAMED.values():
        refuse("syntax", "an operator is called by its name", "write the operator between its values")


def write_named_operator(generator: Generator, node: exp.Expr) -> str:
    """Writes the operator itself."""
    sign = node.args["operator"]
    return f"{generator.sql(node, 'this')} {sign} {generator.sql(node, 'expression')}"
