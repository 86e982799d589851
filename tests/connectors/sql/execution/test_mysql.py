"""MariaDB (or MySQL): a real server, a database of the test's own, and statements handed to the session as if every guard had failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from tests.connectors.sql.execution.checks import assert_capped, assert_reworded, assert_timed_out
from tests.databases import mysql, mysql_database, name_of, rows, run_statements, sql_call, statement, with_executor
from tests.patient import until
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

SCRIPT = """
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, credit DECIMAL(38,20), born DATE);
INSERT INTO customers SELECT seq, CONCAT('Customer ', seq), seq + 0.5, '2000-01-01' FROM seq_1_to_300;
CREATE TABLE counter (n INT) ENGINE=InnoDB;
INSERT INTO counter VALUES (0);
CREATE TABLE typed (b BIT(3), e ENUM('good', 'bad'), s SET('x', 'y'), y YEAR, t TIME(6), d DATETIME(6), zero DATE,
  u BIGINT UNSIGNED, f FLOAT);
SET sql_mode = '';
INSERT INTO typed VALUES (b'101', 'good', 'x,y', 2024, '-26:03:04.5', '2024-02-29 10:00:00.5', '0000-00-00', 18446744073709551615, 1.1);
CREATE FUNCTION bump() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE counter SET n = n + 1; RETURN 1; END;
"""


@pytest.fixture(scope="module")
def location() -> Iterator[str]:
    with mysql_database(SCRIPT) as location:
        yield location


run = partial(run_statements, "mysql")


VALUES: list[tuple[str, str, Json]] = [
    ("id FROM customers WHERE id = 1", "int", 1),
    ("9223372036854775807", "bigint", "9223372036854775807"),
    ("1.50", "decimal", 1.5),
    ("CAST('12345678901234567890123.5' AS DECIMAL(30, 1))", "decimal", "12345678901234567890123.5"),
    ("credit FROM customers WHERE id = 1", "decimal", 1.5),
    ("1.5e0", "double", 1.5),
    ("f FROM typed", "float", 1.1),
    ("'é'", "varchar", "é"),
    ("born FROM customers WHERE id = 1", "date", "2000-01-01"),
    ("zero FROM typed", "date", "0000-00-00"),
    ("d FROM typed", "datetime", "2024-02-29 10:00:00.500000"),
    ("t FROM typed", "time", "-26:03:04.500000"),
    ("y FROM typed", "year", 2024),
    ("b FROM typed", "bit", "101"),
    ("e FROM typed", "enum", "good"),
    ("s FROM typed", "set", "x,y"),
    ("u FROM typed", "bigint unsigned", "18446744073709551615"),
    ("x'00ff'", "varbinary", {"base64": "AP8="}),
    ("CAST(NULL AS DATE)", "date", None),
    ("NULL", "null", None),
]


@pytest.mark.parametrize(("value", "kind", "expected"), VALUES)
async def test_every_type_has_a_json_form_and_its_name(location: str, value: str, kind: str, expected: Json) -> None:
    (result,) = await run(location, f"SELECT {value}")
    assert rows(result) == [[expected]]
    assert isinstance(result.data, dict)
    (column,) = result.data["columns"]  # type: ignore[misc]
    assert column["type"] == kind  # type: ignore[index,call-overload]


async def test_types_are_known_without_a_row(location: str) -> None:
    (result,) = await run(location, "SELECT id, born FROM customers WHERE id < 0")
    assert isinstance(result, Success)
    assert isinstance(result.data, dict)
    assert result.data["columns"] == [{"name": "id", "type": "int"}, {"name": "born", "type": "date"}]


async def test_parameters_go_beside_the_statement(location: str) -> None:
    long = "é" * 40_000
    results = await run(
        location,
        statement("SELECT name FROM customers WHERE id = ?", 7),
        statement("SELECT ?", "'; DROP TABLE customers; -- \\' \" \0"),
        statement("SELECT ?, ?, ?, ?", None, True, 1.5, -(2**63)),
        statement("SELECT LENGTH(?)", long),
        statement("SELECT id FROM customers ORDER BY id LIMIT ? OFFSET ?", 2, 5),
    )
    assert [rows(result) for result in results] == [
        [["Customer 7"]],
        [["'; DROP TABLE customers; -- \\' \" \0"]],
        [[None, 1, 1.5, str(-(2**63))]],
        [[80_000]],
        [[6], [7]],
    ]


CAPPED = [
    ("SELECT id FROM customers ORDER BY id", {"max_rows": 70}, 70),
    ("SELECT name FROM customers WHERE id < 10 ORDER BY id", {"max_bytes": 69}, 5),
    ("SELECT REPEAT('x', 1000)", {"max_cell_bytes": 10}, 1),
]


@pytest.mark.parametrize(("sql", "changes", "count"), CAPPED)
async def test_an_answer_is_cut_at_its_caps(location: str, sql: str, changes: dict[str, object], count: int) -> None:
    result, after = await run(location, statement(sql, **changes), "SELECT 1")
    assert_capped(result, count)
    assert rows(after) == [[1]]


STOPPED = [
    "INSERT INTO counter VALUES (1)",
    "INSERT INTO counter VALUES (1) RETURNING n",
    "UPDATE counter SET n = 9",
    "DELETE FROM counter",
    "SELECT 1; DROP TABLE customers",
    "SELECT name FROM customers INTO OUTFILE '/tmp/toolgen_stolen'",
    "SELECT name FROM customers LIMIT 1 INTO DUMPFILE '/tmp/toolgen_stolen'",
    "SELECT 1 INTO @x",
    "SET GLOBAL max_connections = 1",
    "SET @x = 1",
    "CREATE TABLE stolen AS SELECT * FROM customers",
    "CREATE TEMPORARY TABLE stolen AS SELECT * FROM customers",
    "DROP TABLE customers",
    "TRUNCATE TABLE counter",
    "ANALYZE TABLE counter",
    "OPTIMIZE TABLE counter",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE counter",
    "LOCK TABLES counter WRITE",
    "DO SLEEP(0)",
    "HANDLER counter OPEN",
    "SELECT bump()",
    "KILL 1",
    "COMMIT",
]


@pytest.mark.parametrize("operation", ["query", "explain"])
@pytest.mark.parametrize("sql", STOPPED)
async def test_the_session_itself_stops_what_no_guard_should_let_through(
    location: str, sql: str, operation: str
) -> None:
    """Over the server's own administrator: the worst there is."""
    result, after = await run(location, sql, "SELECT n FROM counter", operation=operation)
    if operation == "query" or "bump" not in sql:
        assert isinstance(result, Failed), result
    if operation == "query":
        assert rows(after) == [[0]]
    with closing(mysql(name_of(location))) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT n FROM counter")
        assert cursor.fetchall() == ((0,),)
        cursor.execute("SHOW TABLES LIKE 'stolen'")
        assert cursor.fetchall() == ()


async def test_nothing_of_a_statement_is_left_for_the_next(location: str) -> None:
    seen = "SELECT CONNECTION_ID(), @@sql_mode, @x, @@tx_read_only, @@character_set_client, @@optimizer_search_depth"
    before, _, _, after = await run(location, seen, "SELECT @x := 5", "SELECT GET_LOCK('toolgen', 0)", seen)
    assert rows(before) == rows(after)
    assert rows(after)[0][1:] == [
        "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
        None,
        1,
        "utf8mb4",
        0,
    ]


async def test_quotes_and_backslashes_mean_what_the_guard_reads(location: str) -> None:
    """Whatever the server's own sql_mode is: ANSI_QUOTES would make a column of a text, NO_BACKSLASH_ESCAPES end one early."""
    (result,) = await run(location, r"""SELECT "a", 'it\'s', 1 || 0""")
    assert rows(result) == [["a", "it's", 1]]


ERRORS = [
    ("SELECT missing FROM customers", "a column, or a column number in ORDER BY or GROUP BY, does not exist"),
    ("SELECT (SELECT id FROM customers)", "a subquery returns more than one row where one is allowed"),
    ("SELECT 18446744073709551615 * id FROM customers", "a number is out of range"),
    ("SELECT name FROM customers WHERE name REGEXP '['", None),
]


@pytest.mark.parametrize(("sql", "message"), ERRORS)
async def test_what_the_server_says_is_put_in_our_own_words(location: str, sql: str, message: str | None) -> None:
    failed, after = await run(location, sql, "SELECT 1")
    assert_reworded(failed, after, message)


async def test_a_plan_is_made_and_nothing_is_run(location: str) -> None:
    (result,) = await run(location, "SELECT COUNT(*), SLEEP(60) FROM customers", operation="explain")
    assert "customers" in json.dumps(rows(result))


async def test_a_statement_ends_when_its_time_is_up(location: str) -> None:
    slow = "SELECT COUNT(*) FROM customers a, customers b, customers c, customers d WHERE a.name < d.name"
    failed, after = await run(location, statement(slow, timeout_s=0.05), "SELECT 1")
    assert_timed_out(failed, after)


def running(location: str, text: str) -> int:
    with closing(mysql("mysql")) as admin, admin.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s AND info LIKE %s",
            (name_of(location), f"%{text}%"),
        )
        ((count,),) = cursor.fetchall()
    return int(count)


async def test_a_cancelled_call_is_cancelled_on_the_server(location: str) -> None:
    async with with_executor(location) as executor:
        asked = sql_call("mysql", "query", statement("SELECT SLEEP(61)", timeout_s=60.0))
        task = asyncio.create_task(executor.execute(asked))
        await until(lambda: running(location, "SLEEP(61)") > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: running(location, "SLEEP(61)") == 0)


async def test_a_cancelled_change_is_cancelled_on_the_server_and_nothing_of_it_stays(location: str) -> None:
    slow = "(SELECT COUNT(*) FROM customers a, customers b, customers c, customers d WHERE a.name < d.name)"

    async with with_executor(location) as executor:
        tables = frozenset({f"{name_of(location)}.counter"})
        options = {"tables": tables, "timeout_s": 60.0, "writes": "update", "max_changes": 1}
        change = statement(f"UPDATE counter SET n = n + 1 + {slow}", **options)
        task = asyncio.create_task(executor.execute(sql_call("mysql", "change", change)))
        await until(lambda: running(location, "UPDATE counter%") > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(30):  # it would take its sixty otherwise
            await until(lambda: running(location, "UPDATE counter%") == 0)
    assert rows((await run(location, "SELECT n FROM counter"))[0]) == [[0]]


async def test_what_is_cut_short_does_not_go_on_on_the_server(location: str) -> None:
    many = "SELECT a.name, b.name, c.name, SLEEP(0) FROM customers a, customers b, customers c"
    cut, after = await run(location, statement(many, max_rows=5, timeout_s=30.0), "SELECT 1")
    assert len(rows(cut)) == 5
    assert rows(after) == [[1]]
    await until(lambda: running(location, "SLEEP(0)") == 0)


async def test_no_free_connection_is_an_answer_and_not_a_hang(location: str) -> None:
    async with with_executor(f"{location}?pool_size=1") as executor:
        asked = sql_call("mysql", "query", statement("SELECT SLEEP(62)", timeout_s=60.0))
        task = asyncio.create_task(executor.execute(asked))
        await until(lambda: running(location, "SLEEP(62)") > 0)
        refused = await executor.execute(sql_call("mysql", "query", statement("SELECT 1")))
        assert isinstance(refused, Failed)
        assert (refused.error.code, refused.error.retry_after_s) == ("upstream_unavailable", 1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_connection_that_died_is_replaced(location: str) -> None:
    async with with_executor(location) as executor:
        asked = sql_call("mysql", "query", statement("SELECT CONNECTION_ID()"))
        ((first,),) = rows(await executor.execute(asked))
        with closing(mysql("mysql")) as admin, admin.cursor() as cursor:
            cursor.execute(f"KILL {first}")
        ((second,),) = rows(await executor.execute(asked))
        assert first != second


async def test_tls_that_was_asked_for_is_never_done_without(location: str) -> None:
    """This server has none: an open line is refused before the user's name is sent."""
    (result,) = await run(f"{location}?sslmode=require", "SELECT 1")
    with closing(mysql("mysql")) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT @@have_ssl")
        ((has,),) = cursor.fetchall()
    if has == "YES":
        pytest.skip("this server has TLS")
    assert isinstance(result, Failed)
    assert (result.error.code, "TLS" in result.error.message) == ("upstream_unavailable", True)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    (result,) = await run("mysql://nobody@127.0.0.1:1/nothing", "SELECT 1")
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_unavailable"
    assert "nobody" not in repr(result)


async def test_a_password_that_is_wrong_is_said_without_the_user(location: str) -> None:
    (result,) = await run(location.replace("://root@", "://toolgen_nobody@"), "SELECT 1")
    assert isinstance(result, Failed)
    assert (result.error.code, "credentials" in result.error.message) == ("upstream_unavailable", True)
    assert "toolgen_nobody" not in repr(result)
