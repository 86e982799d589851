"""Checks of statements: a database answers them through the gateway as it does alone. Each line of `queries.txt` is `engine| statement`."""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from conformance.reports.served import serving

__all__ = ["Unavailable", "same_rows"]

POSTGRES = os.environ.get("TOOLGEN_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
MYSQL = os.environ.get("TOOLGEN_TEST_MYSQL", "mariadb://root@127.0.0.1:3306/mysql")
_SEED = (
    "CREATE TABLE people (id integer primary key, name varchar(40), salary integer, boss integer)",
    "INSERT INTO people VALUES (1, 'Ann', 100, NULL), (2, 'Bob', 70, 1), (3, 'amy', 50, 1), (4, 'Zed', 40, 2)",
    "CREATE TABLE docs (id integer primary key, b boolean)",
    "INSERT INTO docs VALUES (1, true), (2, false), (3, NULL)",
    "CREATE TABLE money (id integer primary key, amt numeric(18,9), bal numeric(16,2))",
    "INSERT INTO money VALUES (1, 123456789.123456789, 99999999999999.99), (2, 0.000000001, 0.10)",
    "CREATE TABLE ev (id integer primary key, v integer, at timestamp NULL)",
    "INSERT INTO ev VALUES (1, 2, '2024-01-01 10:00:00'), (2, 4, '2024-01-01 20:00:00'), (3, 8, '2024-01-02 20:00:00')",
)
_TABLES = ("people", "docs", "money", "ev")


class Unavailable(Exception):  # noqa: N818 - a reason to skip
    """Something that a case needs is not on this machine."""


Ask = Callable[[str], list[tuple[Any, ...]]]


async def same_rows(folder: Path) -> AsyncIterator[str]:
    """What the engine answers alone is answered through the gateway, with the same values."""
    lines = (folder / "queries.txt").read_text(encoding="utf-8").splitlines()
    statements = [
        (engine.strip(), text.strip()) for engine, bar, text in (line.partition("|") for line in lines) if bar
    ]
    engines = sorted({engine for engine, _ in statements})
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        opened = {engine: stack.enter_context(_ENGINES[engine](Path(name))) for engine in engines}
        sources = {engine: {"sql": location} for engine, (location, _) in opened.items()}
        async with serving(sources, sql={engine: _opened(engine) for engine in engines}) as client:
            for engine, text in statements:
                try:
                    alone = await asyncio.to_thread(opened[engine][1], text)
                except Exception:  # noqa: BLE001 - a statement that the engine refuses, each with an error class of its own
                    continue
                found = await client.rest(f"{engine}__query", {"sql": text})
                if found["status"] != "ok":
                    yield f"{engine}| {text}: {(found.get('error') or {}).get('message')}"
                elif [[_value(one) for one in row] for row in alone] != [
                    [_value(one) for one in row] for row in found["data"]["rows"]
                ]:
                    yield f"{engine}| {text}: {found['data']['rows']} and not {alone}"


def _opened(engine: str) -> dict[str, Any]:
    return {"tables": {one: {} for one in _TABLES if (engine, one) != ("duck", "ev")}}


def _value(value: Any) -> object:
    """A value in one form, whether a driver or JSON has it."""
    if value is None or isinstance(value, bool):
        return value if value is None else Decimal(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return _value(str(value))
    text = str(value).replace("T", " ")
    try:
        return Decimal(text)
    except InvalidOperation:
        return text.removesuffix(" 00:00:00").rstrip("Z")


@contextmanager
def _postgres(_: Path) -> Iterator[tuple[str, Ask]]:
    import psycopg  # noqa: PLC0415 - behind an extra

    name = f"toolgen_reports_{secrets.token_hex(6)}"
    try:
        server = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        raise Unavailable("there is no PostgreSQL at TOOLGEN_TEST_POSTGRES") from error
    with closing(server):
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type] # a name of our own
        location = f"{POSTGRES.rpartition('/')[0]}/{name}"
        try:
            with closing(psycopg.connect(location, autocommit=True)) as connection:
                for statement in _SEED:
                    connection.execute(statement)  # type: ignore[arg-type] # a text of our own
                yield location, lambda text: connection.execute(text).fetchall()  # type: ignore[arg-type] # the case's
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type] # a name of our own


@contextmanager
def _mysql(_: Path) -> Iterator[tuple[str, Ask]]:
    import pymysql  # noqa: PLC0415 - behind an extra

    from toolgen.connectors.sql.engines import location_of  # noqa: PLC0415 - goes with it
    from toolgen.model.database_url import ServerLocation  # noqa: PLC0415 - goes with it

    place = location_of(MYSQL)
    assert isinstance(place, ServerLocation)
    name = f"toolgen_reports_{secrets.token_hex(6)}"
    try:
        connection = pymysql.connect(
            host=place.host, port=place.port, user=place.user, autocommit=True, connect_timeout=3
        )
    except pymysql.err.OperationalError as error:
        raise Unavailable("there is no MySQL or MariaDB at TOOLGEN_TEST_MYSQL") from error
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            cursor.execute(f"USE {name}")
            for statement in _SEED:
                cursor.execute(statement.replace("timestamp NULL", "datetime NULL"))

            def ask(text: str) -> list[tuple[Any, ...]]:
                cursor.execute(text)
                return list(cursor.fetchall())

            yield f"{MYSQL.rpartition('/')[0]}/{name}", ask
        finally:
            cursor.execute(f"DROP DATABASE {name}")


@contextmanager
def _sqlite(folder: Path) -> Iterator[tuple[str, Ask]]:
    path = folder / "lite.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        for statement in _SEED:
            connection.execute(statement)
        connection.commit()
        yield f"sqlite:///{path}", lambda text: connection.execute(text).fetchall()


@contextmanager
def _duckdb(folder: Path) -> Iterator[tuple[str, Ask]]:
    import duckdb  # noqa: PLC0415 - behind an extra

    path = folder / "duck.db"

    def ask(text: str) -> list[tuple[Any, ...]]:
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            return connection.execute(text).fetchall()

    with closing(duckdb.connect(str(path))) as connection:
        for statement in (one for one in _SEED if " ev " not in one):  # `at` is no name there
            connection.execute(statement)
    yield f"duckdb:///{path}", ask


_ENGINES = {"pg": _postgres, "my": _mysql, "lite": _sqlite, "duck": _duckdb}
