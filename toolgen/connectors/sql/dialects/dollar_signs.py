"""Dollar signs in PostgreSQL and DuckDB: `$1,$2` are two parameters, `$tag$ … $tag$` is a string.

The tokenizer reads all text between two dollar signs as the tag of a string, unless it contains a space.
https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-DOLLAR-QUOTING: a tag is an identifier without dollar signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["separate_parameters"]

# A parameter that something other than a space follows, and a dollar sign in the same word.
_DOUBTFUL: Final = re.compile(r"\$\w+[^\w\s$][^\s$]*\$")
_PIECES: Final = re.compile(
    r"""
      --[^\n]*
    | (?P<comment> /\*)
    | (?<!\w)[eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?<!\w)(?P<tag> \$(?:[^\W\d]\w*)?\$)
    | (?<!\w)(?P<parameter> \$\w+)(?=[^\w\s$])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_SIGNS: Final = re.compile(r"/\*|\*/")


def separate_parameters(sql: str) -> str:
    """Return the text with a space after each parameter that would be read as the tag of a string."""
    return "".join(_pieces(sql)) if _DOUBTFUL.search(sql) else sql


def _pieces(sql: str) -> Iterator[str]:
    place = 0
    while found := _PIECES.search(sql, place):
        end = _end(sql, found)
        yield sql[place:end]
        if found["parameter"]:
            yield " "
        place = end
    yield sql[place:]


def _end(sql: str, found: re.Match[str]) -> int:
    """Return the position of the end of a comment, a string or a parameter; the end of the text if it is not closed."""
    if found["comment"]:
        return _comment_end(sql, found.end())
    if (tag := found["tag"]) is not None:
        closing = sql.find(tag, found.end())
        return closing + len(tag) if closing >= 0 else len(sql)
    return found.end()


def _comment_end(sql: str, place: int) -> int:
    """Return the end of a comment. Comments nest in both engines."""
    depth = 1
    while depth and (sign := _COMMENT_SIGNS.search(sql, place)):
        depth += 1 if sign[0] == "/*" else -1
        place = sign.end()
    return place if depth == 0 else len(sql)
