"""Full text searches of MySQL and MariaDB with a parameter: `MATCH (a, b) AGAINST (? IN BOOLEAN MODE)`.

https://mariadb.com/kb/en/match-against/. The parser supports only a text in AGAINST.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.marks import SLOT

__all__ = ["restore_parameters", "search_for_parameters"]

_MARK: Final = f"{SLOT}sought"
_PLACEHOLDERS: Final = frozenset({TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.MOD})
_MODES: Final = frozenset({"IN", "WITH"})
_MAX_TOKENS: Final = 5  # maximum number of tokens of a placeholder


def search_for_parameters(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `MATCH (a) AGAINST (?)` as `MATCH (a, ?) AGAINST ('mark')`, which `restore_parameters` reverts in the tree."""
    index = 0
    while index < len(tokens):
        found = _parameter(tokens, index)
        if found is None:
            yield tokens[index]
            index += 1
            continue
        closing, against, opening = tokens[index : index + 3]
        yield Token(TokenType.COMMA, ",", closing.line, closing.col, closing.start, closing.end, [])
        yield from tokens[index + 3 : found]
        yield from (closing, against, opening)
        last = tokens[found - 1]
        yield Token(TokenType.STRING, _MARK, last.line, last.col, tokens[index + 3].start, last.end, [])
        index = found


def _parameter(tokens: Sequence[Token], index: int) -> int | None:
    """Return the end of the searched placeholder, if it follows `) AGAINST (` at `index`; else None."""
    words = [token.text.upper() for token in tokens[index : index + 3]]
    if words != [")", "AGAINST", "("] or index + 3 >= len(tokens):
        return None
    first = tokens[index + 3]
    marked = first.token_type is TokenType.VAR and first.text.startswith(SLOT)
    if not marked and first.token_type not in _PLACEHOLDERS:
        return None
    for end in range(index + 4, min(index + 4 + _MAX_TOKENS, len(tokens))):
        if tokens[end].text.upper() in _MODES or (tokens[end].text == ")" and tokens[end - 1].text != "name"):
            return end
    return None


def restore_parameters(root: exp.Expr) -> None:
    """Move each parameter from the columns back to AGAINST."""
    for search in root.find_all(exp.MatchAgainst):
        if search.this.name == _MARK and len(search.expressions) > 1:
            *columns, sought = search.expressions
            search.set("expressions", columns)
            search.set("this", sought)
