"""Queries with names that are easily confused, nested and correlated, from a seed; and the families of such names."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

__all__ = ["HIDDEN_63", "KEY", "SCRIPT", "SECRET", "SEEN", "nested_query"]

HIDDEN_63: Final = "x" * 63
SECRET: Final = "CANARY"
KEY: Final = 424242
# `people` hides its key, ssn and a column of 63 bytes; `notes` hides rows and its key.
SCRIPT: Final = f"""
CREATE TABLE people (id INT PRIMARY KEY, nick VARCHAR(20), ssn VARCHAR(20), {HIDDEN_63} VARCHAR(20));
INSERT INTO people VALUES ({KEY}, 'nick', '{SECRET}-1', '{SECRET}-2');
CREATE TABLE notes (n INT, who VARCHAR(20) PRIMARY KEY, body VARCHAR(20));
INSERT INTO notes VALUES (1, 'acme', 'body'), (2, 'other', '{SECRET}-3');
"""
SEEN: Final = """
CREATE VIEW people AS SELECT CAST('nick' AS CHAR(4)) AS nick;
CREATE VIEW notes AS SELECT 1 AS n, CAST('body' AS CHAR(4)) AS body;
"""
"""What the policy lets be seen of that, in a database of its own; of views, as they have no columns but those."""

_FAMILIES: Final = (
    ("a", "A", "c", "C", "people", "People", "notes"),
    ("x" * 62, HIDDEN_63, "x" * 64, "x" * 63 + "y", "X" * 63, "x" * 70),
    ("é" * 31, "é" * 31 + "z", "é" * 31 + "é", "é" * 31 + "zz", "é" * 32 + "z", "É" * 31),
    ("z" * 62 + "é", "z" * 62, "z" * 62 + "ë", "z" * 62 + "日", "z" * 61 + "日"),
    ("é", "É", "e", "e\u0301", "ß", "ss", "ẞ"),
    ("i", "I", "İ", "ı"),
    ("k", "K", "\u212a", "s", "ſ", "σ", "ς", "Σ"),
    (" a", "a", "a ", "a b"),
    ("😀", "😁", "☺"),
    ("_rowid", "rowid", "oid", "_rowid_", "ROWID"),
    ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"),
    ("user", "current_user", "session_user", "current_role", "current_date", "USER"),
    ("row_start", "row_end", "my_row_id", "rank", "value"),
    ("ssn", "SSN", "who", "body", "nick"),
)


@dataclass(slots=True)
class _Reach:
    """The names a query can use, as far as its text tells: aliases of relations with their columns."""

    relations: list[tuple[str, list[str]]] = field(default_factory=list)
    outer: _Reach | None = None

    def all(self) -> list[tuple[str, list[str]]]:
        return [*self.relations, *(self.outer.all() if self.outer else [])]


class _Query:
    def __init__(self, chance: random.Random, quote: str) -> None:
        self._chance = chance
        self._quote = quote
        families = chance.sample(_FAMILIES, 2)
        self._palette = [name for family in families for name in chance.sample(family, min(3, len(family)))]
        self._value = 0
        self._common: dict[str, list[str]] = {}

    def text(self) -> str:
        head = ""
        if self._chance.random() < 0.3:
            name = self._name()
            column = self._name()
            head = f"WITH {self._written(name)} AS (SELECT {self._constant()} AS {self._written(column)}) "
            self._common[name] = [column]
        return head + self._select(None, 2)

    def _name(self) -> str:
        return self._chance.choice(self._palette)

    def _written(self, name: str) -> str:
        plain = name.isascii() and name.isidentifier()
        return name if plain and self._chance.random() < 0.5 else f"{self._quote}{name}{self._quote}"

    def _constant(self) -> str:
        self._value += 1
        return f"'v{self._value}'"

    def _select(self, outer: _Reach | None, depth: int) -> str:
        reach = _Reach(outer=outer)
        sources = ", ".join(self._source(reach) for _ in range(self._chance.choice((1, 1, 2))))
        aliases: list[str] = []
        items = [self._item(reach, depth, aliases) for _ in range(self._chance.choice((1, 1, 2)))]
        text = f"SELECT {', '.join(items)} FROM {sources}"
        if self._chance.random() < 0.3:
            text += f" WHERE {self._condition(reach, depth, aliases)}"
        if aliases and self._chance.random() < 0.2:
            text += f" GROUP BY {', '.join(str(place) for place in range(1, len(items) + 1))}, {self._reference(reach, aliases)}"
        if self._chance.random() < 0.3:
            text += f" ORDER BY {self._reference(reach, aliases)}"
        return text

    def _source(self, reach: _Reach) -> str:
        alias = self._name()
        match self._chance.randrange(5):
            case 0 | 1:
                reach.relations.append((alias, ["nick"]))
                return f"people AS {self._written(alias)}"
            case 2:
                reach.relations.append((alias, ["n", "body"]))
                return f"notes {self._written(alias)}"
            case 3 if self._common:
                name = self._chance.choice([*self._common])
                reach.relations.append((alias, self._common[name]))
                return f"{self._written(self._chance.choice((name, self._name())))} AS {self._written(alias)}"
            case _:
                columns = [self._name() for _ in range(self._chance.choice((1, 1, 2)))]
                reach.relations.append((alias, columns))
                given = ", ".join(f"{self._constant()} AS {self._written(column)}" for column in columns)
                return f"(SELECT {given}) AS {self._written(alias)}"

    def _item(self, reach: _Reach, depth: int, aliases: list[str]) -> str:
        chance = self._chance.random()
        if depth and chance < 0.3:
            item = f"({self._scalar(reach, depth - 1)})"
        elif chance < 0.4:
            item = self._constant()
        else:
            item = self._reference(reach, aliases)
        if self._chance.random() < 0.5:
            alias = self._name()
            aliases.append(alias)
            item += f" AS {self._written(alias)}"
        return item

    def _scalar(self, outer: _Reach, depth: int) -> str:
        reach = _Reach(outer=outer)
        source = self._source(reach)
        item = self._reference(reach, []) if not depth or self._chance.random() < 0.6 else self._item(reach, depth, [])
        where = f" WHERE {self._condition(reach, 0, [])}" if self._chance.random() < 0.2 else ""
        return f"SELECT {item} FROM {source}{where} LIMIT 1"

    def _condition(self, reach: _Reach, depth: int, aliases: list[str]) -> str:
        if depth and self._chance.random() < 0.4:
            return (
                f"EXISTS (SELECT 1 FROM {self._source(_Reach(outer=reach))} WHERE {self._condition(reach, 0, aliases)})"
            )
        return f"{self._reference(reach, aliases)} = {self._reference(reach, aliases)}"

    def _reference(self, reach: _Reach, aliases: list[str]) -> str:
        """Mostly a name that somebody gave, sometimes any other, with or without a qualifier."""
        if aliases and self._chance.random() < 0.3:
            return self._written(self._chance.choice(aliases))
        alias, columns = self._chance.choice(reach.all())
        column = self._chance.choice(columns) if self._chance.random() < 0.8 else self._name()
        if self._chance.random() < 0.5:
            return self._written(column)
        qualifier = alias if self._chance.random() < 0.8 else self._name()
        return f"{self._written(qualifier)}.{self._written(column)}"


def nested_query(seed: int, quote: str) -> str:
    """One query, always the same for a seed. `quote` is what the engine writes around names."""
    return _Query(random.Random(seed), quote).text()
