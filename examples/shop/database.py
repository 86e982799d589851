"""Writes the sample shop's SQLite database: `python -m examples.shop.database specs/shop.db`. The same bytes every time."""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

__all__ = ["main", "write"]

_SCHEMA = Path(__file__).with_name("shop.sql")
_CUSTOMERS, _ORDERS = 120, 400
_FIRST = (
    "Ada",
    "Bo",
    "Chidi",
    "Dana",
    "Emil",
    "Farah",
    "Goran",
    "Hana",
    "Iris",
    "Jun",
    "Kofi",
    "Lena",
    "Mara",
    "Nils",
    "Olga",
)
_LAST = ("Berg", "Costa", "Diaz", "Egede", "Fischer", "Goto", "Haas", "Ito", "Jansen", "Khan", "Lund", "Mori", "Novak")
_PLACES = (("Berlin", "DE"), ("Hamburg", "DE"), ("Lyon", "FR"), ("Porto", "PT"), ("Osaka", "JP"), ("Oslo", "NO"))
_SHELVES = {
    "garden": ("Watering can", "Spade", "Seed box", "Gloves"),
    "kitchen": ("Kettle", "Bread knife", "Cast iron pan", "Scale"),
    "office": ("Desk lamp", "Notebook", "Stapler", "Pen set"),
    "toys": ("Kite", "Marbles", "Wooden train", "Puzzle"),
}
_TENANTS = ("acme", "globex")
_STATUSES = ("new", "paid", "shipped", "returned")
_FIRST_DAY = date(2024, 1, 1)


def write(path: Path) -> None:
    """Writes the database to `path`, replacing what is there, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=OFF")
            connection.executescript(_SCHEMA.read_text(encoding="utf-8"))
            connection.execute("BEGIN")
            _fill(connection, random.Random(7))
            connection.execute("COMMIT")
            connection.execute("VACUUM")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, chance: random.Random) -> None:
    products = list(_products(chance))
    connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _customers(chance))
    connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", products)
    for order in range(1, _ORDERS + 1):
        lines = [
            (order, line, product[0], chance.randint(1, 4), product[4])
            for line, product in enumerate(chance.sample(products, chance.randint(1, 4)), start=1)
        ]
        total = round(sum(quantity * price for _, _, _, quantity, price in lines), 2)
        placed = _FIRST_DAY + timedelta(days=chance.randrange(540))
        row = (order, chance.randint(1, _CUSTOMERS), chance.choice(_STATUSES), placed.isoformat(), total)
        connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
        connection.executemany("INSERT INTO order_items VALUES (?, ?, ?, ?, ?)", lines)
    salaries = [
        (number, f"{_FIRST[number]} {_LAST[number % len(_LAST)]}", 40_000 + 1_500 * number) for number in range(10)
    ]
    connection.executemany("INSERT INTO salaries VALUES (?, ?, ?)", salaries)


def _customers(chance: random.Random) -> Iterator[tuple[object, ...]]:
    for number in range(1, _CUSTOMERS + 1):
        name = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"
        city, country = chance.choice(_PLACES)
        email = f"{name.lower().replace(' ', '.')}.{number}@shop.example"
        card = f"4000 {chance.randrange(10_000):04} {chance.randrange(10_000):04} {number:04}"
        created = _FIRST_DAY - timedelta(days=chance.randrange(900))
        yield number, name, city, country, email, card, _TENANTS[number % 2], created.isoformat()


def _products(chance: random.Random) -> Iterator[tuple[int, str, str, str, float, int]]:
    number = 0
    for category, names in _SHELVES.items():
        for name in names:
            number += 1
            yield (
                number,
                f"{category[:3].upper()}-{number:03}",
                name,
                category,
                chance.randrange(300, 9_000) / 100,
                chance.randrange(200),
            )


def main() -> None:
    """Writes the database to the path on the command line."""
    parser = argparse.ArgumentParser(description="Writes the sample shop's SQLite database.")
    parser.add_argument("path", type=Path, help="for example specs/shop.db")
    path: Path = parser.parse_args().path
    write(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
