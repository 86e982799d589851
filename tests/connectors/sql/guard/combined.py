"""Random honest statements over the analysts' tables: literals, units, joins, groups, windows, set operations, orders and limits combined.

Each seed gives one statement. Its first columns are those that it is ordered by, so that the order of an answer can be compared where rows
are equal in it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

__all__ = ["HIDDEN_COLUMNS", "ROW_FILTERS", "Combined", "combined"]

HIDDEN_COLUMNS: Final[Mapping[str, str]] = {"invoices": "due", "sensors": "installed", "visits": "detail"}
"""A column of a table that no statement names."""
ROW_FILTERS: Final[Mapping[str, str]] = {
    "invoice_lines": "qty > 1",
    "invoices": "currency <> 'USD'",
    "places": "id <> 3",
    "readings": "quality = 'ok'",
    "sensors": "unit IS NOT NULL",
    "visits": "visitor <> 'dot'",
}
_COLUMNS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "invoices": {"int": ["id"], "num": ["amount"], "text": ["client", "currency"], "date": ["issued", "paid"]},
    "invoice_lines": {"int": ["invoice_id", "n", "qty"], "num": ["price"], "text": ["item"], "date": []},
    "places": {"int": ["id", "parent_id"], "num": [], "text": ["name", "kind"], "date": []},
    "sensors": {"int": ["id", "place_id"], "num": [], "text": ["code", "unit"], "date": []},
    "readings": {"int": ["sensor_id"], "num": ["value"], "text": ["quality"], "date": ["ts"]},
    "visits": {"int": ["id"], "num": [], "text": ["visitor", "page"], "date": ["ts"]},
}
_JOINS: Final = (
    ("invoices", "invoice_lines", "a.id = b.invoice_id"),
    ("sensors", "readings", "a.id = b.sensor_id"),
    ("places", "sensors", "a.id = b.place_id"),
    ("places", "places", "a.id = b.parent_id"),
    ("invoices", "invoices", "a.client = b.client AND a.id < b.id"),
    ("visits", "visits", "a.visitor = b.visitor AND b.ts > a.ts"),
)
_INTS: Final = ("0", "1", "-1", "2", "7", "100", "103", "2147483648", "NULL")
_NUMBERS: Final = ("0.5", "80.00", "1.005", "-3", "20.5", "1e2", ".25", "0.1", "1000000.0")
_TEXTS: Final = ("'Acme'", "'EUR'", "''", "'%'", "'a''b'", "'T-001'", "'é'", "'_x'", "'ok'", "'/home'", "NULL")
_DATES: Final = ("2024-03-01", "2024-02-29", "2023-12-31", "2024-01-05")
_UNITS: Final = ("day", "week", "month", "year", "hour", "minute", "quarter", "second")
_TOO_FINE: Final = {"hour", "minute", "second"}


class Combined(Struct, frozen=True, kw_only=True):
    """A statement. `keys`: how many of its first columns it is ordered by. `limited`: it has a LIMIT of its own."""

    sql: str
    keys: int = 0
    limited: bool = False


def combined(dialect: str, seed: int) -> Combined:
    """The statement of a seed."""
    return _Writer(dialect, random.Random(f"{dialect} {seed}")).statement()


class _Writer:
    """Writer of one statement."""

    def __init__(self, dialect: str, chance: random.Random) -> None:
        self._dialect = dialect
        self._chance = chance
        self._columns: dict[str, list[str]] = {}

    def statement(self) -> Combined:
        form = self._chance.random()
        if form < 0.45:
            return self._rows(self._source())
        if form < 0.65:
            return self._groups(self._source())
        if form < 0.75:
            return self._windows(self._source())
        if form < 0.85:
            return self._set_operation()
        return self._nested()

    # sources

    def _source(self) -> str:
        if self._chance.random() < 0.6:
            table = self._chance.choice([*_COLUMNS])
            alias = self._chance.choice(["", "t"])
            self._open({alias or table: table}, qualified=self._chance.random() < 0.5)
            return f"{table} {alias}".strip()
        left, right, condition = self._chance.choice(_JOINS)
        self._open({"a": left, "b": right}, qualified=True)
        kind = self._chance.choice(["JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", ","])
        if kind == ",":
            return f"{left} a, {right} b WHERE {condition}"
        return f"{left} AS a {kind} {right} AS b ON {condition}"

    def _open(self, tables: Mapping[str, str], *, qualified: bool) -> None:
        self._columns = {kind: [] for kind in ("int", "num", "text", "date")}
        for alias, table in tables.items():
            for kind, names in _COLUMNS[table].items():
                self._columns[kind] += [f"{alias}.{name}" if qualified else name for name in names]

    # queries

    def _rows(self, source: str) -> Combined:
        if self._chance.random() < 0.1:
            return Combined(sql=f"SELECT * FROM {self._where(source)}")
        distinct = "DISTINCT " * (self._chance.random() < 0.15)
        items = [self._value() for _ in range(self._chance.randint(1, 4))]
        return self._finished(f"SELECT {distinct}", items, f" FROM {self._where(source)}")

    def _groups(self, source: str) -> Combined:
        keys = [self._value(1) for _ in range(self._chance.randint(1, 2))]
        totals = [self._aggregate() for _ in range(self._chance.randint(1, 3))]
        having = f" HAVING {self._aggregate()} > 1" if self._chance.random() < 0.3 else ""
        if not having and self._chance.random() < 0.3:
            keys = [self._chance.choice(self._columns["text"])]
            test = self._chance.choice(
                ["EXISTS (SELECT 1", "count(*) > (SELECT count(*)", f"max({keys[0]}) <> (SELECT max(h.code)"]
            )
            sign = self._chance.choice(["<", ">=", "="])
            having = f" HAVING {test} FROM sensors h WHERE h.code {sign} {keys[0]})"
        tail = f" FROM {self._where(source)} GROUP BY {', '.join(keys)}{having}"
        return self._finished("SELECT ", [*keys, *totals], tail)

    def _windows(self, source: str) -> Combined:
        ordered = self._chance.choice(self._columns["int"])
        call = self._chance.choice(
            ["row_number()", "rank()", "dense_rank()", "count(*)", f"sum({self._number(1)})", f"max({self._text(1)})"]
        )
        part = f"PARTITION BY {self._chance.choice(self._columns['text'])} " * (self._chance.random() < 0.6)
        frame = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" * (
            "(" in call and not call.startswith(("row", "rank", "dense")) and self._chance.random() < 0.5
        )
        if call == "row_number()":  # in an order without ties
            ordered = ", ".join([*self._columns["int"], *self._columns["date"], *self._columns["text"]])
        items = [self._value(1), f"{call} OVER ({part}ORDER BY {ordered}{frame})"]
        return self._finished("SELECT ", items, f" FROM {self._where(source)}")

    def _set_operation(self) -> Combined:
        operands = []
        for _ in range(2):
            source = self._source()
            operands.append(f"SELECT {self._text(1)} AS x, {self._number(1)} AS y FROM {self._where(source)}")
        word = self._chance.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        order = " ORDER BY x, y" * (self._chance.random() < 0.5)
        return Combined(sql=f" {word} ".join(operands) + order, keys=2 * bool(order))

    def _nested(self) -> Combined:
        source = self._source()
        inner = f"SELECT {self._text(1)} AS word, {self._number(1)} AS number FROM {self._where(source)}"
        self._columns = {"int": [], "num": ["q.number"], "text": ["q.word"], "date": []}
        items = [self._value(1), "q.number"] if self._chance.random() < 0.5 else ["q.word", "count(*)", "sum(q.number)"]
        group = " GROUP BY q.word" * (items[0] == "q.word" and len(items) == 3)
        if self._chance.random() < 0.5:
            return self._finished(f"WITH q AS ({inner}) SELECT ", items, f" FROM q{group}")
        return self._finished("SELECT ", items, f" FROM ({inner}) q{group}")

    def _finished(self, head: str, items: Sequence[str], tail: str) -> Combined:
        written = [f"{item} AS c{place}" for place, item in enumerate(items)]
        sql = f"{head}{', '.join(written)}{tail}"
        if self._chance.random() < 0.4:
            return Combined(sql=sql)
        keys = self._chance.randint(1, len(items))
        order = ", ".join(f"c{place}{self._chance.choice(['', ' DESC', ' ASC'])}" for place in range(keys))
        sql += f" ORDER BY {order}"
        if self._chance.random() < 0.4:
            offset = f" OFFSET {self._chance.randint(0, 3)}" * (self._chance.random() < 0.4)
            return Combined(sql=f"{sql} LIMIT {self._chance.randint(1, 6)}{offset}", keys=keys, limited=True)
        return Combined(sql=sql, keys=keys)

    def _where(self, source: str) -> str:
        if self._chance.random() < 0.4:
            return source
        word = "AND" if " WHERE " in source else "WHERE"
        return f"{source} {word} {self._condition(2)}"

    # expressions

    def _value(self, depth: int = 2) -> str:
        kinds = [self._number, self._text, *([self._date] if self._columns["date"] else [])]
        return self._chance.choice(kinds)(depth)

    def _aggregate(self) -> str:
        return self._chance.choice(
            [
                "count(*)",
                f"sum({self._number(1)})",
                f"min({self._text(1)})",
                f"max({self._number(1)})",
                f"count(DISTINCT {self._text(1)})",
                f"avg({self._number(1)})",
                f"sum(CASE WHEN {self._condition(1)} THEN 1 ELSE 0 END)",
            ]
        )

    def _number(self, depth: int = 2) -> str:
        columns = [*self._columns["int"], *self._columns["num"]]
        if depth <= 0 or self._chance.random() < 0.35:
            return self._chance.choice(
                [*columns, *columns, self._chance.choice(_INTS[:7]), self._chance.choice(_NUMBERS)]
            )
        first, second = self._number(depth - 1), self._number(depth - 1)
        forms = [
            f"{first} {self._chance.choice('+-*')} {second}",
            f"({first} {self._chance.choice('+-*')} {second}) * 2",
            f"abs({first})",
            f"coalesce({first}, {second})",
            f"- {first}",
            f"nullif({first}, {second})",
            f"CASE WHEN {self._condition(depth - 1)} THEN {first} ELSE {second} END",
            f"length({self._text(depth - 1)})",
            f"round({self._decimal(first)}, {self._chance.randint(0, 2)})",
            f"{first} / {self._chance.choice(['2', '4.0', '3'])}",
            f"CAST({first} AS {self._chance.choice(['DECIMAL(20, 3)', 'DECIMAL(12, 1)'])})",
            *([self._part()] if self._columns["date"] else []),
        ]
        return self._chance.choice(forms)

    def _decimal(self, value: str) -> str:
        return f"CAST({value} AS DECIMAL(20, 6))" if self._dialect == "postgres" else value

    def _part(self) -> str:
        date = self._date(1)
        part = self._chance.choice(["year", "month", "day"])
        if self._dialect == "sqlite":
            sign = {"year": "%Y", "month": "%m", "day": "%d"}[part]
            return f"CAST(strftime('{sign}', {date}) AS INTEGER)"
        return f"EXTRACT({part} FROM {date})"

    def _text(self, depth: int = 2) -> str:
        if depth <= 0 or self._chance.random() < 0.4:
            return self._chance.choice(
                [*self._columns["text"], *self._columns["text"], self._chance.choice(_TEXTS[:-1])]
            )
        first, second = self._text(depth - 1), self._text(depth - 1)
        joined = f"concat({first}, {second})" if self._dialect == "mysql" else f"{first} || {second}"
        return self._chance.choice(
            [
                f"upper({first})",
                f"lower({first})",
                f"trim({first})",
                f"replace({first}, 'a', {self._chance.choice(_TEXTS[:2])})",
                f"substr({first}, {self._chance.randint(1, 3)}, {self._chance.randint(0, 4)})",
                joined,
                f"coalesce({first}, {second})",
                f"CASE {first} WHEN {second} THEN 'same' ELSE 'other' END",
                f"CASE WHEN {self._condition(depth - 1)} THEN {first} ELSE {second} END",
            ]
        )

    def _date(self, depth: int = 1) -> str:
        column = self._chance.choice(self._columns["date"])
        if depth <= 0 or self._chance.random() < 0.4:
            return column
        unit = self._chance.choice(_UNITS)
        number = self._chance.choice(["1", "2", "10", "0"])
        sign = self._chance.choice("+-")
        match self._dialect:
            case "sqlite":
                plural = self._chance.choice(["", "s"])
                if unit in {"week", "quarter"}:
                    unit = "day"
                return f"datetime({column}, '{sign}{number} {unit}{plural}')"
            case "mysql":
                return f"{column} {sign} INTERVAL {number} {unit.upper()}"
            case "postgres":
                if unit == "quarter":
                    unit = "month"
                return f"{column} {sign} INTERVAL '{number} {unit}{self._chance.choice(['', 's'])}'"
            case _:
                forms = [f"INTERVAL {number} {unit}", f"INTERVAL '{number}' {unit}", f"INTERVAL '{number} {unit}'"]
                return f"{column} {sign} {self._chance.choice(forms)}"

    def _condition(self, depth: int = 2) -> str:
        if depth > 0 and self._chance.random() < 0.4:
            first, second = self._condition(depth - 1), self._condition(depth - 1)
            return self._chance.choice(
                [f"{first} AND {second}", f"{first} OR {second}", f"NOT ({first})", f"({first} OR {second})"]
            )
        operator = self._chance.choice(["=", "<>", "<", ">", "<=", ">="])
        text = self._chance.choice(self._columns["text"])
        number = self._chance.choice([*self._columns["int"], *self._columns["num"]])
        forms = [
            f"{number} {operator} {self._chance.choice(_INTS[:6] + _NUMBERS)}",
            f"{text} {operator} {self._chance.choice(_TEXTS[:-1])}",
            f"{text} LIKE {self._chance.choice(['%e%', 'A%', '_o%', '%'])!r}",
            f"{text} NOT LIKE 'A%'",
            f"{number} BETWEEN 1 AND {self._chance.choice(_INTS[3:7])}",
            f"{number} NOT BETWEEN 2 AND 104",
            f"{number} IN (1, 2, 101, {self._listed_number()})",
            f"{text} NOT IN ('Acme', 'site')",
            f"{text} IS NULL",
            f"{number} IS NOT NULL",
            f"{number} IN (SELECT z.id FROM {self._chance.choice(['places', 'sensors', 'invoices', 'visits'])} z WHERE z.id <> 2)",
            f"EXISTS (SELECT * FROM invoices z WHERE z.id = {number})",
            f"{number} > (SELECT min(z.qty) FROM invoice_lines z)",
        ]
        if self._columns["date"]:
            forms += [f"{self._chance.choice(self._columns['date'])} {operator} {self._written_date()}"] * 3
        return self._chance.choice(forms)

    def _listed_number(self) -> str:
        """A number, or NULL. DuckDB 2.0 leaves a list with NULL out where a subquery is asked for the same column: it answers too much."""
        number = self._chance.choice(_INTS)
        return "0" if number == "NULL" and self._dialect == "duckdb" else number

    def _written_date(self) -> str:
        text = f"'{self._chance.choice(_DATES)}'"
        if self._dialect == "sqlite":
            return self._chance.choice([text, f"date({text})", f"date({text}, '+1 month')"])
        return self._chance.choice([text, f"DATE {text}", f"CAST({text} AS DATE)", f"DATE {text} + INTERVAL '1' DAY"])
