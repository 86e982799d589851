"""PostgreSQL: a real server, a database of the test's own, and statements handed to the session as if every guard had failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.connectors.sql.execution.checks import assert_capped, assert_reworded, assert_timed_out
from tests.databases import (
    name_of,
    postgres,
    postgres_database,
    rows,
    run_statements,
    sql_call,
    statement,
    with_executor,
)
from tests.patient import until
from toolgen.connectors.executor import Destination
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.postgres import PostgresEngine
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json
from toolgen.model.verdict import Deny, Verdict

SCRIPT = """
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, credit numeric(30,20), born date);
INSERT INTO customers SELECT g, 'Customer ' || g, g + 0.5, date '2000-01-01' + g FROM generate_series(1, 300) g;
CREATE TABLE tenants (id int, tenant int);
INSERT INTO tenants SELECT g, g % 2 FROM generate_series(1, 10) g;
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE counter (n int); INSERT INTO counter VALUES (0);
CREATE FUNCTION bump() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'UPDATE counter SET n = n + 1 RETURNING n';
CREATE VIEW bumping AS SELECT bump() AS x;
CREATE SEQUENCE numbers;
CREATE EXTENSION dblink;
"""


@pytest.fixture(scope="module")
def location() -> Iterator[str]:
    with postgres_database(SCRIPT) as location:
        yield location


run = partial(run_statements, "postgres")


VALUES: list[tuple[str, str, Json]] = [
    ("42", "integer", 42),
    ("9223372036854775807", "bigint", "9223372036854775807"),
    ("true", "boolean", True),
    ("1.50::numeric", "numeric", 1.5),
    ("credit FROM customers WHERE id = 1", "numeric", 1.5),
    ("12345678901234567890123.5::numeric(30,1)", "numeric", "12345678901234567890123.5"),
    ("'NaN'::numeric", "numeric", "NaN"),
    ("'-Infinity'::float8", "double precision", "-Infinity"),
    ("1.1::real", "real", 1.1),
    ("'x'::text", "text", "x"),
    ("date '2024-02-29'", "date", "2024-02-29"),
    ("date 'infinity'", "date", "infinity"),
    ("timestamp '2024-02-29 10:00:00.5'", "timestamp without time zone", "2024-02-29 10:00:00.500000"),
    ("timestamptz '2024-02-29 10:00:00+00' AT TIME ZONE 'UTC'", "timestamp without time zone", "2024-02-29 10:00:00"),
    ("time '10:00'", "time without time zone", "10:00:00"),
    ("interval '1 year 2 months -3 days 04:05:06.5'", "interval", "P1Y2M-3DT4H5M6.5S"),
    ("interval '0'", "interval", "PT0S"),
    ("'6ecd8c99-4036-403d-bf84-cf8400f67836'::uuid", "uuid", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
    ("'{\"a\": [1, null]}'::jsonb", "jsonb", {"a": [1, None]}),
    ("'[1e400]'::json", "json", ["1e400"]),
    (f"'{'[' * 32}{']' * 32}'::jsonb", "jsonb", json.loads("[" * 32 + "]" * 32)),
    (f"'{'[' * 65}{']' * 65}'::jsonb", "jsonb", "[" * 65 + "]" * 65),
    (f"'{'[' * 900}{']' * 900}'::json", "json", "[" * 900 + "]" * 900),
    ("ARRAY[1, NULL, 3]", "integer[]", [1, None, 3]),
    ("ARRAY[[1.5], [2]]::numeric[]", "numeric[]", [[1.5], [2]]),
    ("'\\x00ff'::bytea", "bytea", {"base64": "AP8="}),
    ("B'101'::bit(3)", "bit", "101"),
    ("'10.0.0.1/8'::inet", "inet", "10.0.0.1/8"),
    ("'[1,5)'::int4range", "int4range", "[1,5)"),
    ("'good'::mood", "mood", "good"),
    ("ROW(1, 'x')::pair", "pair", "(1,x)"),
    ("NULL::date", "date", None),
]


@pytest.mark.parametrize(("value", "kind", "expected"), VALUES)
async def test_every_type_has_a_json_form_and_its_name(location: str, value: str, kind: str, expected: Json) -> None:
    (result,) = await run(location, f"SELECT {value}")
    assert rows(result) == [[expected]]
    assert isinstance(result.data, dict)
    (column,) = result.data["columns"]  # type: ignore[misc]
    assert column["type"] == kind  # type: ignore[index,call-overload]
    assert "rounded" not in column  # type: ignore[operator]


async def test_types_are_known_without_a_row(location: str) -> None:
    (result,) = await run(location, "SELECT id, born FROM customers WHERE false")
    assert isinstance(result, Success)
    assert isinstance(result.data, dict)
    assert result.data["columns"] == [{"name": "id", "type": "integer"}, {"name": "born", "type": "date"}]


async def test_a_quotient_that_does_not_end_says_that_it_was_rounded_and_a_stored_value_never_is(location: str) -> None:
    quotient, stored = await run(
        location,
        "SELECT 10 / 3.0 AS q",
        "SELECT c.credit FROM customers c WHERE id = 2 UNION ALL SELECT 0.12345678901234567891::numeric",
    )
    assert rows(quotient) == [[3.3333333333333335]]
    assert isinstance(quotient.data, dict)
    assert quotient.data["columns"] == [{"name": "q", "type": "numeric", "rounded": True}]
    assert rows(stored)[0] == [2.5]


async def test_parameters_go_beside_the_statement(location: str) -> None:
    results = await run(
        location,
        statement("SELECT name FROM customers WHERE id = $1", 7),
        statement("SELECT $1::text", "'; DROP TABLE customers; --"),
        statement("SELECT count(*) FROM customers WHERE id = ANY($1)", [1, 2, 3]),
        statement("SELECT $1::int, $2::bool, $3::float8, $4::text", None, True, 1.5, "é"),
    )
    assert [rows(result) for result in results] == [
        [["Customer 7"]],
        [["'; DROP TABLE customers; --"]],
        [[3]],
        [[None, True, 1.5, "é"]],
    ]


CAPPED = [
    ("SELECT id FROM customers ORDER BY id", {"max_rows": 70}, 70),
    ("SELECT name FROM customers WHERE id < 10 ORDER BY id", {"max_bytes": 69}, 5),
    ("SELECT repeat('x', 1000)", {"max_cell_bytes": 10}, 1),
]


@pytest.mark.parametrize(("sql", "changes", "count"), CAPPED)
async def test_an_answer_is_cut_at_its_caps(location: str, sql: str, changes: dict[str, object], count: int) -> None:
    (result,) = await run(location, statement(sql, **changes))
    assert_capped(result, count)


STOPPED = [
    "INSERT INTO counter VALUES (1)",
    "UPDATE counter SET n = 9",
    "WITH w AS (UPDATE counter SET n = 9 RETURNING n) SELECT * FROM w",
    "SELECT * INTO stolen FROM customers",
    "SELECT 1; DROP TABLE customers",
    "COPY customers TO '/tmp/toolgen_stolen'",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SET ROLE postgres",
    "RESET ALL",
    "DO $$ BEGIN UPDATE counter SET n = 9; END $$",
    "CALL nothing()",
    "VACUUM",
    "LISTEN x",
    "SELECT * FROM counter FOR UPDATE",
    "SELECT bump()",
    "SELECT x FROM bumping",
    "SELECT nextval('numbers')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/toolgen_stolen')",
    "SELECT pg_reload_conf()",
    "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t (x int)",
    "SELECT * FROM dblink('host=127.0.0.1 dbname=postgres', 'SELECT 1') AS t (x int)",
]


@pytest.mark.parametrize("operation", ["query", "explain"])
@pytest.mark.parametrize("sql", STOPPED)
async def test_the_session_itself_stops_what_no_guard_should_let_through(
    location: str, sql: str, operation: str
) -> None:
    """Over the role of the server's own superuser: the worst there is."""
    result, after = await run(location, sql, "SELECT n FROM counter", operation=operation)
    if operation == "query":
        assert isinstance(result, Failed), result
        assert rows(after) == [[0]]
    with postgres(name_of(location)) as admin:
        assert admin.execute("SELECT n FROM counter").fetchall() == [(0,)]
        assert admin.execute("SELECT to_regclass('stolen')").fetchall() == [(None,)]


async def test_many_sorts_share_the_memory_of_a_statement(location: str) -> None:
    seen = "SELECT current_setting('work_mem')"
    one, many, after = await run(location, seen, seen + ", count(DISTINCT 1)" * 40, seen)
    assert rows(one)[0][0] == rows(after)[0][0] == "16MB"
    assert rows(many)[0][0] == "2MB"


async def test_nothing_of_a_statement_is_left_for_the_next(location: str) -> None:
    """On one connection: settings, the role, locks, and objects that a read-only transaction lets be."""
    seen = "SELECT pg_backend_pid(), current_setting('work_mem'), current_user::text, current_setting('search_path')"
    before, _, _, _, after, locks = await run(
        location,
        seen,
        "SELECT set_config('work_mem', '1GB', false), set_config('search_path', 'x', false)",
        "SELECT pg_advisory_lock(42)",
        "SELECT lo_creat(-1)",
        seen,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
    )
    assert rows(before) == rows(after)
    assert rows(after)[0][1:] == ["16MB", "pg_read_all_data", "pg_catalog, public"]
    assert rows(locks) == [[0]]
    with postgres(name_of(location)) as admin:
        assert admin.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchall() == [(0,)]


async def test_row_security_decides_as_it_does_for_the_login_role(location: str) -> None:
    (result,) = await run(location, statement("SELECT count(*) FROM tenants", tables=frozenset({"tenants"})))
    assert rows(result) == [[10]]


async def test_a_function_that_stands_in_for_a_built_in_one_is_not_called() -> None:
    """`lower(varchar)` fits a varchar better than the built-in `lower(text)`, wherever in the search path it stands."""
    script = (
        "CREATE TABLE t (v varchar); INSERT INTO t VALUES ('A');"
        "CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql AS 'SELECT ''hijacked''::text'"
    )
    with postgres_database(script) as location:
        with postgres(name_of(location)) as admin:
            assert admin.execute("SELECT lower(v) FROM t").fetchall() == [("hijacked",)]
        (result,) = await run(location, 'SELECT lower(v) FROM "public".t')
        assert rows(result) == [["a"]]


ERRORS = [
    ("SELECT name::int FROM customers", "a value cannot be converted to the required type"),
    ("SELECT 1 / (id - id) FROM customers", "division by zero"),
    ("SELECT missing FROM customers", "a column, or a column number in ORDER BY or GROUP BY, does not exist"),
    ("SELECT (SELECT id FROM customers)", "a subquery returns more than one row where one is allowed"),
    ("SELECT 'a' + ARRAY[1]", None),
    ("SELECT regexp_replace(name, '[', '') FROM customers", "a regular expression is malformed"),
]


@pytest.mark.parametrize(("sql", "message"), ERRORS)
async def test_what_the_server_says_is_put_in_our_own_words(location: str, sql: str, message: str | None) -> None:
    failed, after = await run(location, sql, "SELECT 1")
    assert_reworded(failed, after, message)


async def test_a_plan_is_made_and_nothing_is_run(location: str) -> None:
    (result,) = await run(location, "SELECT count(*), pg_sleep(60) FROM customers", operation="explain")
    assert "customers" in json.dumps(rows(result))


async def test_a_statement_ends_when_its_time_is_up(location: str) -> None:
    failed, after = await run(location, statement("SELECT pg_sleep(60)", timeout_s=0.05), "SELECT 1")
    assert_timed_out(failed, after)


def active(location: str, text: str) -> int:
    with postgres("postgres") as admin:
        found = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state = 'active' AND query LIKE %s",
            (name_of(location), f"%{text}%"),
        ).fetchone()
    assert found is not None
    return int(str(found[0]))


async def test_a_cancelled_call_is_cancelled_on_the_server(location: str) -> None:
    async with with_executor(location) as executor:
        running = asyncio.create_task(
            executor.execute(sql_call("postgres", "query", statement("SELECT pg_sleep(61)", timeout_s=60.0)))
        )
        await until(lambda: active(location, "FETCH") + active(location, "pg_sleep(61)") > 0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: active(location, "FETCH") + active(location, "pg_sleep(61)") == 0)


async def test_no_free_connection_is_an_answer_and_not_a_hang(location: str) -> None:
    async with with_executor(f"{location}?pool_size=1") as executor:
        running = asyncio.create_task(
            executor.execute(sql_call("postgres", "query", statement("SELECT pg_sleep(62)", timeout_s=60.0)))
        )
        await until(lambda: active(location, "FETCH") + active(location, "pg_sleep(62)") > 0)
        refused = await executor.execute(sql_call("postgres", "query", statement("SELECT 1")))
        assert isinstance(refused, Failed)
        assert (refused.error.code, refused.error.retry_after_s) == ("upstream_unavailable", 1.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert rows(await executor.execute(sql_call("postgres", "query", statement("SELECT 1")))) == [[1]]


async def test_a_connection_that_died_is_replaced(location: str) -> None:
    """As after a restart of the server: whoever calls next notices nothing."""

    async with with_executor(location) as executor:
        asked = sql_call("postgres", "query", statement("SELECT pg_backend_pid()"))
        ((first,),) = rows(await executor.execute(asked))
        with postgres("postgres") as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
        ((second,),) = rows(await executor.execute(asked))
        assert first != second


async def test_a_connection_lost_under_a_statement_is_a_failure_and_the_next_call_works(location: str) -> None:
    async with with_executor(location) as executor:
        running = asyncio.create_task(
            executor.execute(sql_call("postgres", "query", statement("SELECT pg_sleep(63)", timeout_s=60.0)))
        )
        await until(lambda: active(location, "FETCH") + active(location, "pg_sleep(63)") > 0)
        with postgres("postgres") as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name_of(location),)
            )
        lost = await running
        assert isinstance(lost, Failed)
        assert lost.error.code == "upstream_error"
        assert rows(await executor.execute(sql_call("postgres", "query", statement("SELECT 1")))) == [[1]]


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    (result,) = await run("postgresql://nobody@127.0.0.1:1/nothing", "SELECT 1")
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_unavailable"
    assert "nobody" not in repr(result)


@pytest.mark.parametrize("database", ["toolgen_is_not_there"])
async def test_a_database_that_is_not_there_is_unavailable(location: str, database: str) -> None:
    (result,) = await run(location.replace(name_of(location), database), "SELECT 1")
    assert isinstance(result, Failed)
    assert (result.error.code, "no such database" in result.error.message) == ("upstream_unavailable", True)


async def test_an_address_that_is_not_permitted_is_never_connected_to() -> None:
    asked: list[Destination] = []

    def permit(destination: Destination) -> Verdict:
        asked.append(destination)
        return Deny(rule="egress", code="egress_refused", reason="no")

    (result,) = await run("postgresql://u@127.0.0.1:1/d", "SELECT 1", permit=permit)
    assert isinstance(result, Failed)
    assert (result.error.code, result.error.rule) == ("egress_refused", "egress")
    assert asked == [Destination(host="127.0.0.1", port=1, address="127.0.0.1", service="database")]


async def test_a_password_is_resolved_at_every_connection_and_shown_nowhere(location: str) -> None:
    environment = {"PGPASS": "CNRY-PASSWORD"}
    reference = SecretReference("env", "PGPASS")

    executor = SqlExecutor(location, password=reference, secrets=SecretResolver(environment))
    result = await executor.execute(sql_call("postgres", "query", statement("SELECT 1")))
    assert rows(result) == [[1]]
    for told in (repr(executor), repr(vars(executor)), repr(result), repr(reference)):
        assert "CNRY" not in told
    await executor.close()


async def test_a_statement_that_is_not_interrupted_keeps_its_place_in_the_pool(location: str) -> None:
    """A search that looks at no clock (https://www.postgresql.org/docs/current/functions-string.html, strpos), for a second or two."""
    search = "SELECT strpos(repeat('a', 1500000), 'b' || repeat('a', 4000))"

    executor = SqlExecutor(f"{location}?pool_size=1")
    try:
        task = asyncio.create_task(executor.execute(sql_call("postgres", "query", statement(search))))
        await until(lambda: active(location, "FETCH") + active(location, "strpos") > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine = executor._opened
        assert isinstance(engine, PostgresEngine)
        pool = engine._sessions._opened()
        assert pool._lingering
        await asyncio.gather(*pool._lingering)
        after = await executor.execute(sql_call("postgres", "query", statement("SELECT 1")))
        assert rows(after) == [[1]]
    finally:
        await executor.close()
