"""Finding tables and columns by words, in the part of a database that a principal may see."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from toolgen.model.database import Database, Table
from toolgen.model.schema import Json

__all__ = ["DEFAULT_TABLES", "search_schema"]

DEFAULT_TABLES: Final = 10
_MAX_COLUMNS: Final = 12  # of a table
_MAX_WORDS: Final = 40  # of a query
_MIN_PART: Final = 4  # letters of a word that another may begin with
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("ss", "ss"), ("us", "us"), ("s", ""))
_NAME, _COLUMN, _TEXT, _PART = 3.0, 1.5, 0.7, 0.5


def search_schema(database: Database, query: str, limit: int) -> Json:
    """The tables that fit best, best first, each with the columns that fit; of one that fits by its name alone, the first columns.

    A table counts for the words it holds, rare ones most, in its name before its columns and those before comments and labels.
    """
    asked = tuple(dict.fromkeys(_words(query)))[:_MAX_WORDS]
    held = [(table, _weights(table)) for table in database.tables]
    known = Counter(word for _, weights in held for word in weights)
    meant = [_meant(word, known, len(held)) for word in asked]
    scored: list[tuple[float, Table]] = []
    for table, weights in held:
        found = [
            max((weights[word] * worth for word, worth in words.items() if word in weights), default=0.0)
            for words in meant
        ]
        if total := sum(found):  # all of the words count more than one of them often
            scored.append((total * sum(map(bool, found)) / len(found), table))
    scored.sort(key=lambda item: (-item[0], _full(item[1])))
    hits: list[Json] = [_hit(table, asked) for _, table in scored[:limit]]
    return {"tables": hits, "matching": len(scored), "searched": len(database.tables)}


def _meant(word: str, known: Counter[str], tables: int) -> dict[str, float]:
    """The words of the database that a word may mean, with what each is worth: a rare one more, one that only begins alike less."""
    worth = {other: _PART * math.log(1 + tables / known[other]) for other in known if _is_part(word, other)}
    return worth | ({word: math.log(1 + tables / known[word])} if word in known else {})


def _weights(table: Table) -> dict[str, float]:
    found: dict[str, float] = {}

    def add(texts: Iterable[str], weight: float) -> None:
        for text in texts:
            for word in _words(text):
                found[word] = max(found.get(word, 0.0), weight)

    add((table.schema, table.name), _NAME)
    add((column.name for column in table.columns), _COLUMN)
    add((table.comment, *(column.comment for column in table.columns)), _TEXT)
    add((label for column in table.columns for label in column.labels), _TEXT)
    return found


def _hit(table: Table, asked: Iterable[str]) -> Json:
    wanted = tuple(asked)
    fitting = [column for column in table.columns if any(_fits(wanted, (column.name, column.comment, *column.labels)))]
    columns: list[Json] = []
    for column in (fitting or table.columns)[:_MAX_COLUMNS]:
        told: dict[str, Json] = {"name": column.name, "type": column.type}
        if column.comment:
            told["comment"] = column.comment
        columns.append(told)
    hit: dict[str, Json] = {
        "name": _full(table),
        "kind": "view" if table.view else "table",
        "columns": columns,
        "column_count": len(table.columns),
    }
    return {**hit, "comment": table.comment} if table.comment else hit


def _fits(asked: Iterable[str], texts: Iterable[str]) -> Iterator[bool]:
    held = [word for text in texts for word in _words(text)]
    return (word == other or _is_part(word, other) for word in asked for other in held)


def _is_part(word: str, other: str) -> bool:
    """Whether one begins with the other: `cust` and `customer`."""
    shorter, longer = (word, other) if len(word) <= len(other) else (other, word)
    return len(shorter) >= _MIN_PART and longer.startswith(shorter)


@lru_cache(maxsize=100_000)
def _words(text: str) -> tuple[str, ...]:
    """The words of a name or a sentence, in lower case and in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(text))


def _singular(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    return word


def _full(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name
