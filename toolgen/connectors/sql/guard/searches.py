"""Full text searches of MySQL and MariaDB: `MATCH (a, b) AGAINST ('words')`, natural and in boolean mode.

The engine finds the rows of all words before it returns one, and checks its time limit only between words. A phrase in quotes, nested
parentheses and query expansion took 10 to 60 s in one step on 100,000 rows. So a search has few words and none of these. The prefix of a
word (`sail*`) has at least three letters: ten such, among 300,000 words, took 0.6 s.

The score of a row depends on the number of rows with the word, including those that a row filter hides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.relations import Filtered

__all__ = ["check_filtered_search", "check_search", "check_words", "refuse_searches", "searched_parameters"]

_MODES: Final = frozenset({"", "IN NATURAL LANGUAGE MODE", "IN BOOLEAN MODE"})
_MAX_WORDS: Final = 10
_MAX_LENGTH: Final = 300
_WORDS: Final = re.compile(r"\w+")
_SIGNS: Final = re.compile(r'["@\\]|(?<!\w\w\w)\*')
_NESTED: Final = re.compile(r"\([^)]*\(")
_LIKE: Final = "column LIKE '%word%'"


def check_search(node: exp.Expr) -> None:
    """Refuse a search with another mode, or in something other than columns, or for something other than few words."""
    if (node.args.get("modifier") or "") not in _MODES:
        refuse(
            "size",
            "a search with query expansion could take any time, during which the server does not check its time limit",
            "write IN NATURAL LANGUAGE MODE or IN BOOLEAN MODE",
        )
    if not all(isinstance(column, exp.Column) and slot_number(column) is None for column in node.expressions):
        refuse("syntax", "MATCH has something other than columns", "write MATCH (column, column) AGAINST ('words')")
    sought = node.this
    if isinstance(sought, exp.Column) and slot_number(sought) is not None:
        return
    if not (isinstance(sought, exp.Literal) and sought.is_string):
        refuse("syntax", "AGAINST has something other than a text", "write the words in quotes, or as a parameter")
    check_words(sought.name)


def check_words(text: object) -> None:
    """Refuse a search text that is not a short list of words. Raises `StatementRefusal`, rule `size`."""
    if not isinstance(text, str) or len(text) > _MAX_LENGTH or len(_WORDS.findall(text)) > _MAX_WORDS:
        refuse("size", f"AGAINST has more than {_MAX_WORDS} words", "search for fewer words")
    if _SIGNS.search(text):
        refuse(
            "size",
            "a search for a phrase or one or two letters could take any time, during which the server does not check its time limit",
            f"write whole words without quotes, or at least three letters before *, and {_LIKE} for the rest",
        )
    if _NESTED.search(text):
        refuse("size", "parentheses in a search are nested", "write each word once, without parentheses in others")


def searched_parameters(root: exp.Expr) -> frozenset[int]:
    """Return the parameters with search words, to be checked with their values."""
    sought = (node.this for node in root.find_all(exp.MatchAgainst) if isinstance(node.this, exp.Column))
    return frozenset(number for column in sought if (number := slot_number(column)) is not None)


def refuse_searches(root: exp.Expr) -> None:
    """Refuse a search in a change of rows."""
    if root.find(exp.MatchAgainst) is not None:
        refuse("syntax", "a full text search selects the rows to change", "query the keys of the rows first")


def check_filtered_search(root: exp.Expr, filtered: Sequence[Filtered]) -> None:
    """Refuse a search of a table with a row filter."""
    if any(place.rows is not None for place in filtered) and root.find(exp.MatchAgainst) is not None:
        refuse(
            "row-filter",
            "rows of a table are filtered, and the score of a search would reveal the others",
            f"write {_LIKE} for each word",
        )
