"""Operators with an order of evaluation that differs among engines and this parser: refused unless parentheses define the order.

`a = b NOT IN (1, 2)` is `(a = b) NOT IN (1, 2)` for SQLite and MySQL, and `a = (b NOT IN (1, 2))` for other engines and for the parser. The
tree does not show the position of NOT, so a rendered statement could only be one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.token_types import CLOSING, OPENING

__all__ = ["LIKE_SIGNS", "check_chained_tests", "check_match", "check_negations"]

LIKE_SIGNS: Final = frozenset({"~~", "~~*"})
_OTHER_OPERATORS: Final = frozenset(
    {
        *(TokenType.DPIPE, TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW, TokenType.AT_GT),
        *(TokenType.LT_AT, TokenType.DAMP, TokenType.RLIKE, TokenType.IRLIKE, TokenType.CARET_AT, TokenType.PIPE, TokenType.AMP),
        *(TokenType.HASH, TokenType.TILDE, TokenType.PLACEHOLDER, TokenType.QMARK_PIPE, TokenType.QMARK_AMP),
    }
)  # fmt: skip
_IN_OPERANDS: Final = frozenset(
    {
        *(TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.DOT, TokenType.DCOLON, TokenType.PLUS),
        *(TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.CARET, TokenType.PARAMETER, TokenType.COLLATE),
        *(TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.HEREDOC_STRING, *Parser.TYPE_TOKENS),
    }
)  # fmt: skip


def check_chained_tests(tokens: Sequence[Token]) -> None:
    """Refuse `a LIKE b NOT IN (c)`, which is `a LIKE (b NOT IN (c))` in MySQL, and `(a LIKE b) NOT IN (c)` in the parser.

    https://dev.mysql.com/doc/refman/8.4/en/expressions.html: a predicate contains another only at its right side.
    """
    tested, between = (
        [False],
        [False],
    )  # by depth of parentheses: True if there was a test, and True if its AND is missing
    for token in tokens:
        kind = token.token_type
        if kind in OPENING:
            tested.append(False)
            between.append(False)
        elif kind in CLOSING and len(tested) > 1:
            tested.pop()
            between.pop()
        elif kind in _TEST_SIGNS:
            if tested[-1]:
                refuse(
                    "syntax",
                    f"{token.text.upper()} follows another test, which engines read differently",
                    "put parentheses around one: (a LIKE b) NOT IN (0, 1)",
                )
            tested[-1], between[-1] = True, kind is TokenType.BETWEEN
        elif kind is TokenType.AND and between[-1]:
            between[-1] = False
        elif kind in _BEYOND_TESTS:
            tested[-1] = False


def check_match(tokens: Sequence[Token], place: int) -> None:
    """Refuse `a ~~ b || c`, which is `(a ~~ b) || c` in the engine, because its rendered form has a lower precedence.

    https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-PRECEDENCE
    """
    depth = 0
    for token in tokens[place + 1 :]:
        kind = token.token_type
        if depth == 0 and (kind in _OTHER_OPERATORS or token.text in LIKE_SIGNS):
            sign = tokens[place].text
            refuse("syntax", f"{sign} is followed by another operator", f"put parentheses around it: a {sign} (b || c)")
        depth += (kind in OPENING) - (kind in CLOSING)
        if depth < 0 or (depth == 0 and kind not in _IN_OPERANDS and kind not in CLOSING):
            return


_TEST_SIGNS: Final = frozenset({TokenType.LIKE, TokenType.IN, TokenType.BETWEEN, TokenType.RLIKE, TokenType.MEMBER_OF})
_BEYOND_TESTS: Final = frozenset(
    {
        TokenType.AND, TokenType.OR, TokenType.XOR, TokenType.DAMP, TokenType.DPIPE, TokenType.COMMA, TokenType.EQ, TokenType.NEQ,
        TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NULLSAFE_EQ, TokenType.IS, TokenType.WHEN, TokenType.THEN,
        TokenType.ELSE, TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
        TokenType.LIMIT, TokenType.ON, TokenType.JOIN, TokenType.ALIAS, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
        TokenType.SET, TokenType.VALUES, TokenType.WINDOW, TokenType.ASC, TokenType.DESC,
    }
)  # fmt: skip
_TESTS: Final = (exp.In, exp.Between, exp.Like, exp.ILike, exp.Glob, exp.Is, exp.RegexpLike, exp.SimilarTo, exp.Escape)
_TIGHTER: Final = (exp.Binary, exp.Neg, exp.BitwiseNot, exp.In, exp.Between)
_LOOSER: Final = (exp.Connector, exp.Filter, exp.PropertyEQ)


def check_negations(root: exp.Expr) -> None:
    """Raise `StatementRefusal`, rule `syntax`, for a negation that engines read differently."""
    for negation in root.find_all(exp.Not):
        around = negation.parent
        if isinstance(negation.this, _TESTS) and isinstance(around, _TIGHTER) and not isinstance(around, _LOOSER):
            refuse(
                "syntax",
                "NOT IN, NOT BETWEEN or IS NOT is combined with another operator, which engines read differently",
                "put parentheses around it: a = (b NOT IN (1, 2))",
            )
