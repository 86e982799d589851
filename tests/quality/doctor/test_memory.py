"""Bounds on the memory of an account: what doctor says of it, and that what the docs tell operators to write holds it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql

from tests.mariadb_server import mariadb_server
from tests.postgres_server import postgres_server
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.reading.mysql_rights import mysql_rights
from toolgen.connectors.sql.reading.postgres_rights import postgres_rights
from toolgen.model.database_url import ServerLocation

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "databases" / "memory.md"


def _told(word: str) -> list[str]:
    """Statements of the page about the memory of a server, in the block that has this word."""
    section = _PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    (block,) = [block for block in re.findall(r"```sql\n(.*?)```", section, re.DOTALL) if word in block]
    return [line for line in block.split(";\n") if line.strip()]


def _location(text: str) -> ServerLocation:
    found = location_of(text)
    assert isinstance(found, ServerLocation)
    return found


def test_mariadb_holds_every_session_of_the_account_to_its_memory() -> None:
    with mariadb_server() as socket:
        location = _location(f"mariadb://toolgen_shop@/mysql?socket={socket}")
        with (
            closing(pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)) as admin,
            admin.cursor() as cursor,
        ):
            cursor.execute("CREATE USER toolgen_shop@`%`")
            cursor.execute("GRANT SELECT ON mysql.help_topic TO toolgen_shop@`%`")
            assert mysql_rights(location, "").unbounded == ("sessions",)
            for statement in _told("init_connect"):
                cursor.execute(statement)
        assert mysql_rights(location, "").unbounded == ()
        with (
            closing(pymysql.connect(unix_socket=str(socket), user="toolgen_shop")) as session,
            session.cursor() as cursor,
        ):
            cursor.execute("SELECT @@max_session_mem_used")
            assert cursor.fetchone() == (268_435_456,)


def test_postgresql_holds_the_role_to_its_sessions_and_its_files() -> None:
    with postgres_server() as text:
        location = _location(text)
        with psycopg.connect(host=location.socket, user="postgres", dbname="postgres", autocommit=True) as admin:
            admin.execute("CREATE ROLE toolgen_shop LOGIN")
            role = _location(text.replace("//postgres@", "//toolgen_shop@"))
            assert postgres_rights(role, "").unbounded == ("sessions", "temporary files")
            for statement in _told("CONNECTION LIMIT"):
                admin.execute(statement.encode())
        assert postgres_rights(role, "").unbounded == ()
