"""MySQL and MariaDB compare tables and aliases as lower_case_table_names says: asked at the build, and again by every session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pymysql
import pytest

from tests.connectors.sql.execution.guarded import asked, built, run
from tests.databases import mysql_database
from tests.mariadb_server import mariadb_server
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE people (id INT PRIMARY KEY, nick VARCHAR(20), ssn VARCHAR(20));
INSERT INTO people VALUES (1, 'nick', 'CANARY')
"""
PEOPLE = TableScope(columns=("id", "nick"))
TWO_ALIASES = "SELECT (SELECT group_concat(c.ssn) FROM people C) AS v FROM (SELECT 'x' AS ssn) c"
HONEST_TWO = "SELECT (SELECT max(c.nick) FROM people C) AS v FROM (SELECT 'x' AS nick) c"


@pytest.fixture(scope="module")
def folding() -> Iterator[str]:
    """A database of a server that ignores the case of tables and aliases."""
    with mariadb_server("--lower-case-table-names=1") as socket:
        with (
            closing(pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)) as connection,
            connection.cursor() as cursor,
        ):
            for statement in ("CREATE DATABASE lab", "USE lab", *SCRIPT.split(";\n")):
                cursor.execute(statement)
        yield f"mariadb://root@/lab?socket={socket}"


@pytest.fixture(scope="module")
def exact() -> Iterator[str]:
    """A database of the server of this machine, which keeps case as those on Linux do."""
    with mysql_database(SCRIPT) as location:
        if built(location).table_names != "exact":
            pytest.skip("the MariaDB of this machine ignores the case of tables")
        yield location


def judged(found: Database, sql: str) -> Statement | Deny:
    return asked(found, sql, people=PEOPLE)


def test_a_server_that_ignores_case_has_one_alias_where_two_are_written(folding: str) -> None:
    found = built(folding)
    assert found.table_names == "folded"
    for sql in (TWO_ALIASES, TWO_ALIASES.replace(" C)", " `C`)"), "SELECT C.ssn FROM people c"):
        verdict = judged(found, sql)
        assert isinstance(verdict, Deny), run(folding, verdict, operation="query")
        assert verdict.rule == "sql:column"


def test_a_server_that_ignores_case_finds_tables_and_aliases_in_any(folding: str) -> None:
    found = built(folding)
    for sql in (
        "SELECT nick FROM People",
        "SELECT P.nick FROM PEOPLE p",
        "WITH Q AS (SELECT nick FROM people) SELECT q.nick FROM q",
    ):
        (result,) = run(folding, judged(found, sql), operation="query")
        assert isinstance(result, Success), f"{sql}: {result}"
    (result,) = run(folding, judged(found, HONEST_TWO), operation="query")
    assert isinstance(result, Success)
    assert "nick" in str(result.data)  # of the nearer table, as on the server itself


def test_a_server_that_keeps_case_has_two(exact: str) -> None:
    found = built(exact)
    (result,) = run(exact, judged(found, HONEST_TWO), operation="query")
    assert isinstance(result, Success)
    assert "x" in str(result.data)
    assert isinstance(judged(found, "SELECT nick FROM People"), Deny)
    (result,) = run(exact, judged(found, TWO_ALIASES), operation="query")
    assert isinstance(result, Success)
    assert "CANARY" not in str(result.data)


@pytest.mark.parametrize(
    "sql",
    [
        TWO_ALIASES,
        HONEST_TWO,
        "SELECT 1 FROM people a, people A",
        "SELECT 1 FROM people É WHERE EXISTS (SELECT 1 FROM people é)",
        "WITH People AS (SELECT 1 AS id) SELECT id FROM people",
    ],
)
def test_where_nobody_asked_names_that_differ_in_case_alone_are_refused(exact: str, sql: str) -> None:
    unknown = msgspec.structs.replace(built(exact), table_names="")
    verdict = judged(unknown, sql)
    assert isinstance(verdict, Deny)
    assert verdict.rule in {"sql:ambiguous", "sql:column"}
    assert isinstance(judged(unknown, "SELECT a.id FROM people a, people b"), Statement)


def test_a_session_that_compares_otherwise_than_the_build_runs_nothing(exact: str, folding: str) -> None:
    kept, folded = built(exact), built(folding)
    for location, other in ((folding, kept), (exact, folded)):
        (result,) = run(location, judged(other, "SELECT nick FROM people"), operation="query")
        assert isinstance(result, Failed)
        assert "lower_case_table_names" in result.error.message
        assert "toolgen build" in result.error.suggestion
