"""Small retail database with rows from a fixed seed, and the questions of TPC-H and TPC-DS to it, in the words of each engine.

`tpch.sql` and `tpcds.sql` have a query for each number of the benchmark, with its question above it. `{name:arguments}` in a query stands
for what engines write differently.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from tests.connectors.sql.guard.engines import connected
from tests.connectors.sql.guard.honest import Engine
from toolgen.model.database import Column, Database, Table

__all__ = ["BENCHMARKS", "Question", "open_shop", "questions"]

BENCHMARKS: Final = ("tpch", "tpcds")
_SALES: Final = (
    "ticket int, item_id int, day_id int, hour_id int, shopper_id int, address_id int, demo_id int, house_id int, place_id int, "
    "promo_id int, qty int, cost num, listed num, price num, discount num, coupon num, paid num, tax num, profit num, ship_day_id int, "
    "warehouse_id int, mode_id int"
)
_RETURNS: Final = (
    "ticket int, item_id int, day_id int, shopper_id int, address_id int, place_id int, reason_id int, qty int, "
    "amount num, fee num, loss num"
)
_TABLES: Final[Mapping[str, str]] = {
    "regions": "id int, name text",
    "nations": "id int, region_id int, name text",
    "suppliers": "id int, nation_id int, name text, balance num, note text",
    "parts": "id int, name text, maker text, brand text, kind text, size int, container text, price num",
    "offers": "part_id int, supplier_id int, available int, cost num",
    "clients": "id int, nation_id int, name text, segment text, phone text, balance num",
    "orders": "id int, client_id int, status text, total num, placed date, priority text, note text",
    "order_lines": "order_id int, n int, part_id int, supplier_id int, qty int, price num, discount num, tax num, returned text, "
    "status text, "
    "shipped date, committed date, received date, mode text",
    "days": "id int, day date, y int, m int, q int, w int, wd int, seq int, name text",
    "hours": "id int, hour int, minute int, meal text",
    "incomes": "id int, low int, high int",
    "houses": "id int, income_id int, potential text, dependents int, vehicles int",
    "demos": "id int, gender text, marital text, education text, credit text, dependents int",
    "addresses": "id int, street text, city text, county text, state text, zip text, country text, gmt int, kind text",
    "shoppers": "id int, code text, address_id int, demo_id int, house_id int, first_name text, last_name text, title text, "
    "birth_month int, "
    "birth_year int, country text, email text, preferred text, first_day_id int",
    "items": "id int, code text, name text, info text, brand text, class text, category text, maker int, manager int, "
    "color text, size text, "
    "units text, price num, wholesale num",
    "stores": "id int, code text, name text, city text, county text, state text, zip text, gmt int, staff int",
    "sites": "id int, code text, name text, company text",
    "centers": "id int, code text, name text, county text, manager text",
    "warehouses": "id int, name text, city text, county text, state text, sqft int",
    "promos": "id int, code text, name text, email text, event text, tv text, direct text",
    "reasons": "id int, why text",
    "modes": "id int, kind text, carrier text",
    "inventory": "day_id int, item_id int, warehouse_id int, qty int",
    "store_sales": _SALES,
    "web_sales": _SALES,
    "mail_sales": _SALES,
    "store_returns": _RETURNS,
    "web_returns": _RETURNS,
    "mail_returns": _RETURNS,
}
_KEYS: Final = {"offers": 2, "order_lines": 2, "inventory": 3} | {
    f"{channel}_{what}": 2 for channel in ("store", "web", "mail") for what in ("sales", "returns")
}
"""How many first columns the primary key has, where it has more than one."""
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {"int": "INTEGER", "num": "DECIMAL(10, 2)", "text": "TEXT", "date": "DATE"},
    "postgres": {"int": "integer", "num": "numeric(10, 2)", "text": "text", "date": "date"},
    "mysql": {"int": "int", "num": "decimal(10, 2)", "text": "varchar(60)", "date": "date"},
    "duckdb": {"int": "INTEGER", "num": "DECIMAL(10, 2)", "text": "VARCHAR", "date": "DATE"},
}
_Row: TypeAlias = tuple[object, ...]
_FIRST_DAY: Final = date(2001, 1, 1)
_DAYS: Final = 730
_STATES: Final = ("TN", "GA", "OH", "TX")
_CITIES: Final = ("Oak", "Elm", "Ash")
_NAMES: Final = ("Ann", "Bob", "Cid", "Dot", "Eve", "Finn")


# rows


def _rows() -> dict[str, list[_Row]]:
    """Rows of every table, the same each time."""
    chance = random.Random("retail")
    found = _small_tables(chance) | _trade(chance)
    for channel, places in (("store", 4), ("web", 2), ("mail", 2)):
        sales = list(_sales(chance, places))
        found[f"{channel}_sales"] = sales
        found[f"{channel}_returns"] = [_return(chance, sale) for sale in sales if chance.random() < 0.3]
    return found


def _money(chance: random.Random, low: float, high: float) -> float:
    return round(chance.uniform(low, high), 2)


def _small_tables(chance: random.Random) -> dict[str, list[_Row]]:
    pick = chance.choice
    return {
        "days": [_day(number) for number in range(_DAYS)],
        "hours": [
            (
                number,
                number // 2,
                30 * (number % 2),
                "breakfast" if 12 <= number < 18 else "dinner" if 36 <= number < 42 else None,
            )
            for number in range(48)
        ],
        "incomes": [(number, 20_000 * number, 20_000 * (number + 1)) for number in range(6)],
        "houses": [
            (number, number % 6, pick((">10000", "unknown", "0-500", "500-1000")), number % 4, number % 5 - 1)
            for number in range(20)
        ],
        "demos": [
            (
                number,
                "MF"[number % 2],
                "MSDW"[number % 4],
                pick(("College", "Primary")),
                pick(("Low", "Good")),
                number % 4,
            )
            for number in range(16)
        ],
        "addresses": [
            (
                number,
                f"{number} Main St",
                pick(_CITIES),
                pick(("North", "East", "West")),
                pick(_STATES),
                f"{pick(('21', '32', '43'))}{number:03}",
                "Land",
                pick((-5, -6)),
                pick(("house", "flat", None)),
            )
            for number in range(30)
        ],
        "shoppers": [
            (
                number,
                f"S{number:04}",
                chance.randrange(30),
                chance.randrange(16),
                chance.randrange(20),
                pick(_NAMES),
                f"{pick(_NAMES)}son",
                pick(("Dr.", "Ms.", None)),
                chance.randrange(1, 13),
                chance.randrange(1940, 2000),
                pick(("LAND", "Isle")),
                f"s{number}@shop.test",
                "YN"[number % 2],
                chance.randrange(_DAYS),
            )
            for number in range(40)
        ],
        "items": [
            (
                number,
                f"I{number:04}",
                f"item {number % 12}",
                f"about item {number}",
                f"b{number % 6}",
                "abc"[number % 3],
                ("Books", "Home", "Music", "Sports")[number % 4],
                1 + number % 5,
                1 + number % 7,
                pick(("red", "blue", "green", "black")),
                pick(("small", "large")),
                pick(("Each", "Box")),
                _money(chance, 1, 90),
                _money(chance, 1, 50),
            )
            for number in range(30)
        ],
        "stores": [
            (
                number,
                f"T{number}",
                "ese"[number % 3] + f"st{number}",
                pick(_CITIES),
                pick(("North", "East")),
                _STATES[number % 3],
                f"{pick(('21', '32'))}9",
                -5,
                50 * number + 50,
            )
            for number in range(4)
        ],
        "sites": [(number, f"W{number}", f"site {number}", "pri") for number in range(2)],
        "centers": [(number, f"C{number}", f"center {number}", "North", pick(_NAMES)) for number in range(2)],
        "warehouses": [
            (number, f"warehouse {number}", pick(_CITIES), "North", _STATES[number], 1000 + 500 * number)
            for number in range(3)
        ],
        "promos": [
            (number, f"P{number}", f"promo {number}", pick("YN"), pick("YN"), pick("YN"), pick("YN"))
            for number in range(5)
        ],
        "reasons": [(number, why) for number, why in enumerate(("late", "broken", "small", "changed mind"))],
        "modes": [(0, "EXPRESS", "UPS"), (1, "REGULAR", "DHL"), (2, "REGULAR", "OTHER")],
        "inventory": [
            (day, item, warehouse, chance.randrange(600))
            for day in range(0, _DAYS, 10)
            for item in range(0, 30, 3)
            for warehouse in range(3)
        ],
    }


def _day(number: int) -> _Row:
    day = _FIRST_DAY + timedelta(days=number)
    month = 12 * (day.year - _FIRST_DAY.year) + day.month - 1
    week = (number + 1) // 7 + 5000
    quarter, weekday = (day.month + 2) // 3, day.isoweekday() % 7
    return number, day.isoformat(), day.year, day.month, quarter, week, weekday, month, day.strftime("%A")


def _sales(chance: random.Random, places: int) -> Iterator[_Row]:
    for ticket in range(180):
        day, shopper = chance.randrange(_DAYS), chance.randrange(40)
        common = (day, chance.randrange(48), shopper, chance.choice((*range(30), None)))
        place = chance.randrange(places)
        for item in sorted(chance.sample(range(30), chance.randrange(1, 5))):
            qty, cost = chance.randrange(1, 60), _money(chance, 1, 50)
            listed = round(cost * 1.6, 2)
            price = round(listed * chance.choice((1, 0.9, 0.7)), 2)
            paid = round(price * qty, 2)
            coupon = chance.choice((0, 0, _money(chance, 1, 20)))
            yield (
                ticket,
                item,
                *common,
                chance.choice((*range(16), None)),
                chance.randrange(20),
                place,
                chance.choice((*range(5), None)),
                qty,
                cost,
                listed,
                price,
                round(listed - price, 2),
                coupon,
                paid,
                round(paid * 0.08, 2),
                round(paid - qty * cost, 2),
                min(_DAYS - 1, day + chance.randrange(2, 90)),
                chance.randrange(3),
                chance.randrange(3),
            )


def _return(chance: random.Random, sale: _Row) -> _Row:
    ticket, item, day, _, shopper, address, _, _, place, _, qty = sale[:11]
    assert isinstance(day, int)
    assert isinstance(qty, int)
    back = chance.randrange(1, qty + 1)
    return (
        ticket,
        item,
        min(_DAYS - 1, day + chance.randrange(1, 100)),
        shopper,
        address,
        place,
        chance.choice((0, 1, 2, 3, None)),
        back,
        _money(chance, 1, 200),
        _money(chance, 1, 9),
        _money(chance, 1, 50),
    )


def _trade(chance: random.Random) -> dict[str, list[_Row]]:
    """Rows of the tables of TPC-H."""
    pick = chance.choice
    found: dict[str, list[_Row]] = {
        "regions": [(0, "SOUTH"), (1, "NORTH")],
        "nations": [
            (number, number % 2, name) for number, name in enumerate(("Zubrow", "Aland", "Syldav", "Borduria"))
        ],
        "suppliers": [
            (
                number,
                number % 4,
                f"Supplier {number}",
                _money(chance, -99, 999),
                pick(("slow", "all fine", "some complaints")),
            )
            for number in range(8)
        ],
        "parts": [
            (
                number,
                f"{pick(('green', 'gold', 'azure'))} part {number}",
                f"Maker {number % 3}",
                f"Brand#{number % 4}",
                pick(("PROMO BRASS", "STANDARD BRASS", "ECONOMY TIN")),
                1 + number,
                pick(("SM CASE", "SM BOX", "MED BAG", "MED BOX")),
                900 + number,
            )
            for number in range(30)
        ],
        "offers": [
            (part, (part + step) % 8, chance.randrange(1, 999), _money(chance, 1, 90))
            for part in range(30)
            for step in (0, 3)
        ],
        "clients": [
            (
                number,
                chance.randrange(4),
                f"Client {number}",
                pick(("BUILDING", "MACHINERY")),
                f"1{number % 6}-{number:03}",
                _money(chance, -99, 999),
            )
            for number in range(25)
        ],
        "orders": [],
        "order_lines": [],
    }
    for order in range(120):
        placed = _FIRST_DAY + timedelta(days=chance.randrange(_DAYS - 150))
        total = 0.0
        for n in range(1, chance.randrange(2, 6)):
            part = chance.randrange(30)
            shipped = placed + timedelta(days=chance.randrange(1, 90))
            price = _money(chance, 10, 900)
            total += price
            found["order_lines"].append(
                (
                    order,
                    n,
                    part,
                    (part + pick((0, 3))) % 8,
                    chance.randrange(1, 51),
                    price,
                    chance.randrange(11) / 100,
                    chance.randrange(9) / 100,
                    pick("RAN"),
                    pick("FO"),
                    shipped.isoformat(),
                    (placed + timedelta(days=chance.randrange(30, 90))).isoformat(),
                    (shipped + timedelta(days=chance.randrange(1, 30))).isoformat(),
                    pick(("MAIL", "SHIP", "AIR")),
                )
            )
        found["orders"].append(
            (
                order,
                chance.randrange(20),
                pick("FOP"),
                round(total, 2),
                placed.isoformat(),
                pick(("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")),
                pick(("", "special packed requests", "fast")),
            )
        )
    return found


# databases


def _columns(dialect: str, table: str) -> tuple[Column, ...]:
    pairs = [column.split() for column in _TABLES[table].split(", ")]
    return tuple(Column(name=name, type=_TYPES[dialect][kind]) for name, kind in pairs)


@contextmanager
def open_shop(dialect: str, folder: Path) -> Iterator[Engine]:
    """A connection to a fresh database with the tables, keys, indexes and rows; skips where there is no server."""
    rows = _rows()
    with connected(dialect, folder / "shop.db") as (connection, name):
        tables = []
        with closing(connection.cursor()) as cursor:
            for table in _TABLES:
                columns = _columns(dialect, table)
                key = tuple(column.name for column in columns[: _KEYS.get(table, 1)])
                _create(dialect, cursor, table, columns, key, rows[table])
                tables.append(Table(name=table, columns=columns, primary_key=key))
            if dialect == "mysql":
                connection.commit()
                cursor.execute(f"ANALYZE TABLE {', '.join(_TABLES)}")
                cursor.fetchall()
            else:
                cursor.execute("ANALYZE")
        database = Database(dialect=dialect, tables=tuple(tables), name=name if dialect == "mysql" else "")
        yield Engine(dialect=dialect, database=database, connection=connection)


def _create(
    dialect: str, cursor: Any, table: str, columns: Sequence[Column], key: Sequence[str], rows: Sequence[_Row]
) -> None:
    declared = ", ".join(f"{column.name} {column.type}" for column in columns)
    cursor.execute(f"CREATE TABLE {table} ({declared}, PRIMARY KEY ({', '.join(key)}))")
    mark = "%s" if dialect in {"postgres", "mysql"} else "?"
    one = f"({', '.join([mark] * len(columns))})"
    for start in range(0, len(rows), 400):  # in few statements, which DuckDB and PostgreSQL take much faster
        batch = rows[start : start + 400]
        values = [value for row in batch for value in row]
        cursor.execute(f"INSERT INTO {table} VALUES {', '.join([one] * len(batch))}", values)
    for column in columns:
        if column.name.endswith("_id") and column.name != key[0]:
            cursor.execute(f"CREATE INDEX {table}_{column.name} ON {table} ({column.name})")


# questions


class Question(Struct, frozen=True, kw_only=True):
    """A query of a benchmark in the words of one engine."""

    number: int
    asked: str
    sql: str


_Write: TypeAlias = Callable[..., str]
_STANDARD: Final[Mapping[str, _Write]] = {
    "date": lambda day: f"DATE '{day}'",
    "plus": lambda day, count: (
        f"({day} {count[0]} INTERVAL '{count[1:]}' DAY)"
        if count.startswith("-")
        else f"({day} + INTERVAL '{count}' DAY)"
    ),
    "year": lambda day: f"EXTRACT(YEAR FROM {day})",
    "day": lambda day: f"EXTRACT(DAY FROM {day})",
    "sd": lambda value: f"STDDEV_SAMP({value})",
    "roll": lambda keys: f"GROUP BY ROLLUP ({keys})",
    "grouping": lambda key: f"GROUPING({key})",
    "join": lambda *parts: " || ".join(parts),
    "int": lambda _: "INTEGER",
}
_DEVIATION: Final = "sqrt((sum(v * v) - sum(v) * 1.0 * sum(v) / count(v)) / nullif(count(v) - 1, 0))"
_WORDS: Final[Mapping[str, Mapping[str, _Write]]] = MappingProxyType(
    {
        "postgres": _STANDARD,
        "duckdb": _STANDARD,
        "mysql": {
            **_STANDARD,
            "roll": lambda keys: f"GROUP BY {keys} WITH ROLLUP",
            "join": lambda *parts: f"CONCAT({', '.join(parts)})",
            "int": lambda _: "SIGNED",
        },
        "sqlite": {
            **_STANDARD,
            "date": lambda day: f"'{day}'",
            "plus": lambda day, count: f"date({day}, '{count} days')",
            "year": lambda day: f"CAST(strftime('%Y', {day}) AS INTEGER)",
            "day": lambda day: f"CAST(strftime('%d', {day}) AS INTEGER)",
            "sd": lambda value: re.sub(r"\bv\b", value, _DEVIATION),
        },
    }
)
_MACRO: Final = re.compile(r"\{(\w+):([^{}]*)\}")


def questions(benchmark: str, dialect: str) -> list[Question]:
    """All questions of a benchmark in order."""
    found = []
    text = Path(__file__).with_name(f"{benchmark}.sql").read_text(encoding="utf-8")
    for part in text.strip().split(";\n"):
        heading, _, sql = part.partition("\n")
        number, _, asked = heading.removeprefix("-- ").partition(": ")
        found.append(Question(number=int(number), asked=asked, sql=_written(sql, _WORDS[dialect])))
    return found


def _written(sql: str, words: Mapping[str, _Write]) -> str:
    while (macro := _MACRO.search(sql)) is not None:
        sql = sql[: macro.start()] + words[macro[1]](*macro[2].split("|")) + sql[macro.end() :]
    return sql
