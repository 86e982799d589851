"""SEARCH and CYCLE of a recursive query with several columns: `CYCLE a, b SET c USING d`, and `CYCLE a, b RESTRICT` of MariaDB.

https://www.postgresql.org/docs/current/queries-with.html#QUERIES-WITH-RECURSIVE and https://mariadb.com/kb/en/with/. The parser supports
one column. The columns pass through it as the value after TO, and are moved to a tuple afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["RESTRICT", "list_columns", "restore_columns", "write_recursion_clause"]

RESTRICT: Final = "RESTRICT"
"""Word after the columns in MariaDB, where repeated rows end the recursion."""
_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_KINDS: Final = frozenset({"BREADTH", "DEPTH"})


def list_columns(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `CYCLE a, b SET c` as `CYCLE a SET c TO (TRUE, a, b)`, and `CYCLE a, b RESTRICT` as `CYCLE a SET RESTRICT TO (TRUE, a,
    b)`.
    """
    index = 0
    while index < len(tokens):
        yield tokens[index]
        index += 1
        end = _columns_end(tokens, index) if _begins(tokens, index) else 0
        if not end:
            continue
        columns = tokens[index:end:2]
        restricts = _is_word(tokens, end, RESTRICT)
        if not restricts and (end - index < 2 or not _is_word(tokens, end, "SET") or end + 1 >= len(tokens)):
            continue
        last = tokens[end]
        marked = not restricts and end + 3 < len(tokens) and _is_word(tokens, end + 2, "TO")
        yield columns[0]
        yield _like(last, TokenType.SET, "SET")
        yield tokens[end] if restricts else tokens[end + 1]
        yield _like(last, TokenType.VAR, "TO")
        yield _like(last, TokenType.L_PAREN, "(")
        yield tokens[end + 3] if marked else _like(last, TokenType.TRUE, "TRUE")
        for column in columns:
            yield _like(last, TokenType.COMMA, ",")
            yield column
        yield _like(last, TokenType.R_PAREN, ")")
        index = end + (1 if restricts else 4 if marked else 2)


def _begins(tokens: Sequence[Token], index: int) -> bool:
    """Return True if columns of such a clause begin at `index`."""
    if _is_word(tokens, index - 1, "CYCLE"):
        return (index > 1 and tokens[index - 2].token_type is TokenType.R_PAREN) or _follows_search(tokens, index)
    return (
        index > 3
        and _is_word(tokens, index - 1, "BY")
        and _is_word(tokens, index - 2, "FIRST")
        and tokens[index - 3].text.upper() in _KINDS
    )


def _follows_search(tokens: Sequence[Token], index: int) -> bool:
    """Return True for the second clause of `SEARCH DEPTH FIRST BY a SET o CYCLE a SET …`."""
    return index > 3 and _is_word(tokens, index - 3, "SET")


def _columns_end(tokens: Sequence[Token], index: int) -> int:
    """Return the position after names with commas between them; 0 for none."""
    while index < len(tokens) and tokens[index].token_type in _NAMES:
        if index + 1 >= len(tokens) or tokens[index + 1].token_type is not TokenType.COMMA:
            return index + 1
        index += 2
    return 0


def restore_columns(root: exp.Expr) -> None:
    """Move the columns back to the clause."""
    for clause in root.find_all(exp.RecursiveWithSearch):
        listed = clause.args.get("to")
        if not isinstance(listed, exp.Tuple):
            continue
        columns = [column.this for column in listed.expressions[1:] if isinstance(column, exp.Column)]
        clause.set("this", exp.Tuple(expressions=columns))
        clause.set("to", listed.expressions[0] if clause.args.get("default") else None)
        name = clause.expression
        if isinstance(name, exp.Identifier) and name.name.upper() == RESTRICT and not clause.args.get("using"):
            clause.set("expression", exp.Var(this=RESTRICT))


def write_recursion_clause(generator: Generator, node: exp.Expr) -> str:
    """Return the SQL of the clause with its columns without parentheses."""
    kind = str(node.args["kind"])
    columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    listed = ", ".join(generator.sql(column) for column in columns)
    clause = f"{kind} {listed}" if kind == "CYCLE" else f"SEARCH {kind} FIRST BY {listed}"
    if isinstance(node.expression, exp.Var):
        return f"{clause} {RESTRICT}"
    using = f" USING {generator.sql(node, 'using')}" if node.args.get("using") else ""
    marks = f" TO {generator.sql(node, 'to')} DEFAULT {generator.sql(node, 'default')}" if node.args.get("to") else ""
    return f"{clause} SET {generator.sql(node, 'expression')}{marks}{using}"


def _is_word(tokens: Sequence[Token], place: int, word: str) -> bool:
    if not 0 <= place < len(tokens) or tokens[place].token_type in {TokenType.STRING, TokenType.IDENTIFIER}:
        return False
    return bool(tokens[place].text.upper() == word)


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
