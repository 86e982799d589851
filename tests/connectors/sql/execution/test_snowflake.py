"""Snowflake over its SQL API, at the emulator, and statements handed to the connection as if every guard had failed.

The emulator knows no rights, no plans and no time limit of its own: those parts of the API are answered by the program before it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import date, time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.databases import SnowflakeLab, rows, run_statements, snowflake_database, sql_call, statement, with_executor
from toolgen.connectors.executor import Destination
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError, DatabaseUnreachableError
from toolgen.connectors.sql.execution.snowflake_api import ApiColumn, ApiConnection, ApiStatement, api_account, connect
from toolgen.connectors.sql.execution.snowflake_rights import RolePrivilege, RoleRights
from toolgen.connectors.sql.execution.snowflake_values import bindings, cell, type_name
from toolgen.connectors.sql.reading.read import prepare, read_rights
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.database_url import ServerLocation
from toolgen.model.egress_proxy import EgressProxy
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json
from toolgen.model.secret import parse_reference
from toolgen.model.verdict import Allow, Deny

KEY = parse_reference("${env:KEY}")
SCRIPT = (
    "CREATE TABLE customers (id INTEGER, name VARCHAR(40) COMMENT 'Full name', seen TIMESTAMP_NTZ, due DATE, amount NUMBER(10, 2),"
    " share FLOAT, active BOOLEAN, at_time TIME) COMMENT = 'People who buy'",
    "INSERT INTO customers SELECT 1, 'Ann', '2024-02-29 10:00:00.5'::TIMESTAMP_NTZ, '2024-02-29'::DATE, 1.50, 0.1, TRUE,"
    " '10:00:01.25'::TIME",
    "INSERT INTO customers (id, name) VALUES (2, 'Bo'), (3, 'Cy'), (4, 'Di'), (5, 'Ed')",
)
SLOW = "SELECT count(*) FROM " + ", ".join(f"(SELECT * FROM customers) AS t{place}" for place in range(16))


def options(lab: SnowflakeLab, key: str = "") -> dict[str, Any]:
    return {"password": KEY, "secrets": SecretResolver({"KEY": key or lab.key})}


async def run(lab: SnowflakeLab, *sqls: object, **more: Any) -> list[Success | Failed]:
    return await run_statements("snowflake", lab.location, *sqls, **{**options(lab), **more})


def submitted(lab: SnowflakeLab) -> list[str]:
    """The statements that the emulator has received, without those about rights."""
    found = [one["body"]["statement"] for one in lab.seen() if "statement" in one["body"]]
    return [sql for sql in found if not sql.startswith(("SELECT CURRENT_ROLE", "SHOW GRANTS", "SHOW PARAMETERS"))]


@pytest.fixture(scope="module", name="lab")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeLab]:
    with snowflake_database(tmp_path_factory.mktemp("snow"), *SCRIPT) as lab:
        yield lab


def located(url: str) -> ServerLocation:
    location = location_of(url)
    assert isinstance(location, ServerLocation)
    return location


def test_the_account_is_named_by_the_host() -> None:
    found = api_account(located("snowflake://app@myorg-acc.snowflakecomputing.com/SALES?role=READER&warehouse=WH"))
    assert (found.url, found.account, found.user) == (
        "https://myorg-acc.snowflakecomputing.com:443",
        "MYORG-ACC",
        "APP",
    )
    assert (found.role, found.warehouse, found.database) == ("READER", "WH", "SALES")


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("myorg.snowflakecomputing.com/SALES", "role"),
        ("db.example.com/SALES?role=READER", "host"),
        ("snowflakecomputing.com.example/SALES?role=READER", "host"),
        ("myorg.snowflakecomputing.com/SALES?role=READER&sslmode=disable", "emulator"),
        ("10.0.0.5/SALES?role=READER&account=x&sslmode=disable", "emulator"),
        ("myorg.snowflakecomputing.com/SALES?role=RE%22ADER", "quote"),
        ("myorg.snowflakecomputing.com/SA%5CLES?role=READER", "quote"),
        ("myorg.snowflakecomputing.com/SALES?role=READER&sslcert=/x", "certificate"),
        ("myorg.snowflakecomputing.com/SALES?role=READER&sslrootcert=/nothing/here", "sslrootcert"),
    ],
)
def test_a_location_that_is_not_safe_is_refused(rest: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        api_account(located(f"snowflake://app@{rest}"))


CELLS: list[tuple[str, int, str | None, object]] = [
    ("FIXED", 0, "42", 42),
    ("FIXED", 0, "99999999999999999999999999999999999999", 99999999999999999999999999999999999999),
    ("REAL", 0, "0.1", 0.1),
    ("BOOLEAN", 0, "true", True),
    ("BOOLEAN", 0, "false", False),
    ("DATE", 0, "19782", "2024-02-29"),
    ("DATE", 0, "-1", "1969-12-31"),
    ("TIME", 9, "82919.000000000", "23:01:59"),
    ("TIMESTAMP_NTZ", 9, "1709200800.500000000", "2024-02-29 10:00:00.500000"),
    ("TIMESTAMP_NTZ", 9, "1709200800.123456789", "2024-02-29 10:00:00.123456789"),
    ("TIMESTAMP_NTZ", 9, "-1.500000000", "1969-12-31 23:59:58.500000"),
    ("TIMESTAMP_LTZ", 9, "1709200800.000000000", "2024-02-29 10:00:00+00:00"),
    ("TIMESTAMP_TZ", 9, "1709200800.000000000 1500", "2024-02-29 11:00:00+01:00"),
    ("TIMESTAMP_TZ", 9, "1709200800.000000000", "1709200800.000000000"),
    ("TEXT", 0, "it's", "it's"),
    ("TEXT", 0, None, None),
    ("BINARY", 0, "ff41", b"\xffA"),
    ("VARIANT", 0, '{"a": [1, null]}', {"a": [1, None]}),
    ("VARIANT", 0, "undefined", "undefined"),
    ("DATE", 0, "2024-02-29", "2024-02-29"),
]


@pytest.mark.parametrize(("kind", "scale", "text", "expected"), CELLS)
def test_a_cell_is_decoded_by_its_type(kind: str, scale: int, text: str | None, expected: object) -> None:
    value = cell(text, ApiColumn(name="x", type=kind, scale=scale))
    assert (str(value) if isinstance(value, date | time) else value) == expected


def test_types_have_the_names_of_the_engine() -> None:
    kinds = [ApiColumn(name="x", type="FIXED", precision=10, scale=2), ApiColumn(name="x", type="TEXT")]
    assert [type_name(one) for one in kinds] == ["NUMBER(10,2)", "VARCHAR"]


def test_parameters_are_bound_with_their_types() -> None:
    assert bindings(["'; DROP TABLE x; --", 7, 0.5, True, None]) == {
        "1": {"type": "TEXT", "value": "'; DROP TABLE x; --"},
        "2": {"type": "FIXED", "value": "7"},
        "3": {"type": "REAL", "value": "0.5"},
        "4": {"type": "BOOLEAN", "value": "true"},
        "5": {"type": "TEXT", "value": None},
    }


READS = RolePrivilege(privilege="SELECT", kind="TABLE", name="LAB.PUBLIC.T")


@pytest.mark.parametrize(
    ("privilege", "kind", "public"),
    [
        ("INSERT", "TABLE", False),
        ("UPDATE", "TABLE", False),
        ("DELETE", "TABLE", False),
        ("TRUNCATE", "TABLE", False),
        ("OWNERSHIP", "TABLE", False),
        ("ALL PRIVILEGES", "SCHEMA", False),
        ("CREATE TABLE", "SCHEMA", False),
        ("USAGE", "ROLE", False),
        ("USAGE", "DATABASE_ROLE", False),
        ("USAGE", "PROCEDURE", False),
        ("USAGE", "INTEGRATION", False),
        ("USAGE", "STAGE", False),
        ("READ", "STAGE", False),
        ("WRITE", "STAGE", False),
        ("OPERATE", "WAREHOUSE", False),
        ("EXECUTE TASK", "ACCOUNT", False),
        ("MANAGE GRANTS", "ACCOUNT", False),
        ("SOMETHING NEW", "TABLE", False),
        ("INSERT", "TABLE", True),
        ("OWNERSHIP", "VIEW", True),
    ],
)
def test_a_privilege_that_does_more_than_read_is_excess(privilege: str, kind: str, public: bool) -> None:
    grant = RolePrivilege(privilege=privilege, kind=kind, name="x")
    own, others = ((READS,), (grant,)) if public else ((READS, grant), ())
    assert RoleRights(role="READER", secondary=False, folds=False, own=own, public=others).excess() == (grant,)


def test_privileges_that_read_are_no_excess() -> None:
    own = (
        READS,
        RolePrivilege(privilege="SELECT", kind="VIEW", name="v"),
        RolePrivilege(privilege="REFERENCES", kind="TABLE", name="t"),
        *(RolePrivilege(privilege="USAGE", kind=kind, name="x") for kind in ("DATABASE", "SCHEMA", "WAREHOUSE")),
        RolePrivilege(privilege="USAGE", kind="FUNCTION", name="f"),
    )
    rights = RoleRights(role="READER", secondary=False, folds=False, own=own, public=())
    assert rights.excess() == ()
    assert [one.name for one in rights.calls()] == ["f"]


async def test_rows_of_all_partitions_have_their_types(lab: SnowflakeLab) -> None:
    sql = 'SELECT "ID", "NAME", "SEEN", "DUE", "AMOUNT", "SHARE", "ACTIVE", "AT_TIME" FROM "PUBLIC"."CUSTOMERS" ORDER BY "ID"'
    (result,) = await run(lab, sql)
    first = [1, "Ann", "2024-02-29 10:00:00.500000", "2024-02-29", 1.5, 0.1, True, "10:00:01.250000"]
    assert rows(result)[0] == first
    assert [row[0] for row in rows(result)] == [1, 2, 3, 4, 5]  # the emulator's partitions have two rows
    assert isinstance(result.data, dict)
    kinds = [column["type"] for column in result.data["columns"]]  # type: ignore[index, union-attr, call-overload]
    assert kinds[1:] == ["VARCHAR", "TIMESTAMP_NTZ", "DATE", "NUMBER(10,2)", "FLOAT", "BOOLEAN", "TIME"]


async def test_no_more_partitions_are_read_than_rows_are_answered(lab: SnowflakeLab) -> None:
    before = len(lab.seen())
    (result,) = await run(lab, statement("SELECT id FROM customers ORDER BY id", max_rows=2))
    assert rows(result) == [[1], [2]]
    assert isinstance(result, Success)
    assert result.truncated
    assert not [one for one in lab.seen()[before:] if "partition=2" in one["path"]]
    (body,) = [one["body"] for one in lab.seen()[before:] if one["body"].get("statement", "").startswith("SELECT id")]
    assert body["parameters"]["rows_per_resultset"] == 3


async def test_parameters_keep_their_value(lab: SnowflakeLab) -> None:
    values: list[Json] = [
        "'; DROP TABLE customers; --",
        "a\\tb",
        "a\tb\nc",
        "$$x$$",
        "?",
        ":1",
        "it's",
        "é😀",
        7,
        -(2**63),
        0.1,
        True,
        None,
    ]
    sql = f"SELECT {', '.join('?' for _ in values)}"
    (result,) = await run(lab, statement(sql, *values))
    shown = [str(value) if type(value) is int and abs(value) > 2**53 else value for value in values]
    assert rows(result) == [shown]


async def test_a_request_names_role_and_limits_and_no_secret(lab: SnowflakeLab) -> None:
    before = len(lab.seen())
    await run(lab, statement("SELECT 1", timeout_s=2.4))
    body = next(one["body"] for one in lab.seen()[before:] if one["body"].get("statement") == "SELECT 1")
    assert body["parameters"] == {
        "multi_statement_count": 1,
        "rows_per_resultset": 101,
        "query_tag": "toolgen",
        "timezone": "UTC",
    }
    assert (body["role"], body["warehouse"], body["database"], body["timeout"]) == ("READER", "WH", "LAB", 3)
    assert "PRIVATE" not in json.dumps(lab.seen())


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nothing FROM customers", "sql_failed"),
        ("SELECT id FROM nothing", "sql_failed"),
        ("SELECT FROM FROM", "sql_failed"),
        ("SELECT name::INT FROM customers", "sql_failed"),
    ],
)
async def test_an_error_says_nothing_of_the_data(lab: SnowflakeLab, sql: str, code: str) -> None:
    (result,) = await run(lab, sql)
    assert isinstance(result, Failed)
    assert result.error.code in {code, "upstream_error"}
    assert "Ann" not in str(result.error)
    assert "nothing" not in result.error.message


async def test_a_statement_over_its_time_is_cancelled(lab: SnowflakeLab) -> None:
    before = len(lab.seen())
    (result,) = await run(lab, statement(SLOW, timeout_s=0.3))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_timeout"
    assert [one for one in lab.seen()[before:] if one["path"].endswith("/cancel")] or [
        one for one in lab.seen()[before:] if one["body"].get("timeout") == 1
    ]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


async def test_a_statement_whose_caller_left_is_cancelled(lab: SnowflakeLab) -> None:
    before = len(lab.seen())
    async with with_executor(lab.location, **options(lab)) as executor:
        await executor.execute(sql_call("snowflake", "query", statement("SELECT 1")))
        task = asyncio.create_task(executor.execute(sql_call("snowflake", "query", statement(SLOW, timeout_s=30))))
        await _until(lambda: any(one["body"].get("statement") == SLOW for one in lab.seen()[before:]))
        polled = {one["path"] for one in lab.seen()[before:]}
        await _until(lambda: {one["path"] for one in lab.seen()[before:]} > polled)  # its handle has arrived
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [one for one in lab.seen()[before:] if one["path"].endswith("/cancel")]


async def test_a_change_is_refused_and_not_sent(lab: SnowflakeLab) -> None:
    before = submitted(lab)
    changing = statement("DELETE FROM customers", writes="delete", max_changes=10)
    (result,) = await run(lab, changing, operation="change")
    assert isinstance(result, Failed)
    assert submitted(lab) == before


@pytest.mark.parametrize("kind", ["another key", "no PEM", "another algorithm"])
async def test_a_key_that_is_not_the_users_is_refused_and_not_shown(lab: SnowflakeLab, kind: str) -> None:
    made: Any = (
        rsa.generate_private_key(65537, 2048) if kind == "another key" else ec.generate_private_key(ec.SECP256R1())
    )
    pem = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    (result,) = await run(lab, "SELECT 1", **options(lab, "CANARY" if kind == "no PEM" else pem))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_unavailable"
    assert "key" in f"{result.error.message} {result.error.suggestion}"
    assert "CANARY" not in str(result)
    assert "BEGIN" not in str(result)


async def test_an_address_that_the_policy_does_not_open_is_not_connected_to(lab: SnowflakeLab) -> None:
    asked: list[Destination] = []

    def permit(destination: Destination) -> Allow | Deny:
        asked.append(destination)
        return Deny(rule="egress", reason="not here", code="egress_refused") if destination.address else Allow(rule="x")

    before = len(lab.seen())
    (result,) = await run(lab, "SELECT 1", permit=permit)
    assert isinstance(result, Failed)
    assert (result.error.code, result.error.rule) == ("egress_refused", "egress")
    assert [one.address for one in asked if one.address] == ["127.0.0.1"]
    assert {one.service for one in asked} == {"database"}
    assert len(lab.seen()) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grants": [("INSERT", "TABLE", "LAB.PUBLIC.CUSTOMERS")]}, "more than read"),
        ({"grants": [("USAGE", "ROLE", "SYSADMIN")]}, "more than read"),
        ({"public": [("OWNERSHIP", "TABLE", "LAB.PUBLIC.X")]}, "more than read"),
        ({"role": "ACCOUNTADMIN"}, "another role"),
        ({"secondary": '{"roles":"SYSADMIN","value":"ALL"}'}, "secondary roles"),
        ({"secondary": "null"}, "secondary roles"),
        ({"folds": "true"}, "names in quotes"),
        ({"folds": ""}, "names in quotes"),
    ],
)
async def test_a_role_that_may_write_is_not_served(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with snowflake_database(tmp_path, *SCRIPT[:1], **changes) as lab:
        (result,) = await run(lab, "SELECT id FROM customers")
        assert isinstance(result, Failed)
        assert result.error.code == "upstream_unavailable"
        assert said in result.error.message
        assert submitted(lab) == []
        if "role" not in changes:
            config = SourceConfig(name="lab", kind="sql", location=lab.location)
            powers = await asyncio.to_thread(lambda: read_rights(config, lab.key).powers)
            assert [power for power in powers if not power.harmless]


def test_the_schema_has_comments_and_types_and_no_row(lab: SnowflakeLab) -> None:
    reading = CONNECTORS["sql"].read(SourceConfig(name="lab", kind="sql", location=lab.location), lambda: lab.key)
    assert reading.info.database is not None
    (table,) = reading.info.database.tables
    assert (table.name, table.comment, table.primary_key) == ("CUSTOMERS", "People who buy", ())
    assert table.columns[1].comment in {"Full name", ""}  # the emulator keeps no comment of a column
    assert [column.type for column in table.columns[:5]] == [
        "NUMBER(38,0)",
        "VARCHAR(40)",
        "TIMESTAMP_NTZ",
        "DATE",
        "NUMBER(10,2)",
    ]
    assert reading.info.database.functions == ("twice",)
    assert not [sql for sql in submitted(lab) if "CUSTOMERS" in sql and "LIMIT 0" not in sql and '"ID"' not in sql]


def test_a_source_that_writes_is_refused_at_the_build(lab: SnowflakeLab) -> None:
    config = SourceConfig(name="lab", kind="sql", location=lab.location, writes=True)
    with pytest.raises(DescriptionError, match="cannot be changed"):
        CONNECTORS["sql"].read(config, lambda: lab.key)


def test_named_queries_are_prepared_without_a_row(lab: SnowflakeLab) -> None:
    checked = prepare(
        lab.location, lab.key, [statement("SELECT id, name FROM customers"), statement("SELECT x FROM nothing")]
    )
    assert checked[0].types[1] == "VARCHAR"
    assert "rejects it" in checked[1].fault


def test_a_server_that_does_not_answer_is_named_without_the_key(lab: SnowflakeLab) -> None:
    location = lab.location.replace(f":{lab.port}/", ":1/")
    with pytest.raises(DescriptionError) as caught:
        CONNECTORS["sql"].read(SourceConfig(name="lab", kind="sql", location=location), lambda: lab.key)
    assert "does not answer" in str(caught.value)
    assert "BEGIN" not in str(caught.value)


@asynccontextmanager
async def answering(*answers: tuple[str, bytes, dict[str, str]]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server on loopback that gives one answer after the other, and what it was asked."""
    left, asked = [*answers], list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")), 0
                )
                asked.append(head + await reader.readexactly(length))
                status, body, headers = left.pop(0)
                lines = [
                    f"HTTP/1.1 {status}",
                    f"Content-Length: {len(body)}",
                    *(f"{k}: {v}" for k, v in headers.items()),
                ]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"snowflake://agent@127.0.0.1:{port}/LAB?account=org-lab&role=READER&sslmode=disable", asked


def _key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _submitted() -> tuple[str, bytes, dict[str, str]]:
    return "202 Accepted", b'{"statementHandle": "abc-1"}', {}


ODD: list[tuple[str, tuple[str, bytes, dict[str, str]]]] = [
    ("a redirect", ("302 Found", b"", {"Location": "http://127.0.0.1:1/"})),
    ("no JSON", ("200 OK", b"<html>", {})),
    ("a list", ("200 OK", b"[]", {})),
    ("no handle", ("202 Accepted", b"{}", {})),
    ("a handle with a path", ("202 Accepted", b'{"statementHandle": "../../session?x"}', {})),
    ("an unknown encoding", ("200 OK", b"x", {"Content-Encoding": "br"})),
    ("no gzip", ("200 OK", b"x", {"Content-Encoding": "gzip"})),
]


@pytest.mark.parametrize("answer", [answer for _, answer in ODD], ids=[name for name, _ in ODD])
async def test_an_odd_answer_is_an_error_of_the_server(answer: tuple[str, bytes, dict[str, str]]) -> None:
    async with answering(answer, answer) as (location, asked):
        (result,) = await run_statements(
            "snowflake", location, "SELECT 1", password=KEY, secrets=SecretResolver({"KEY": _key()})
        )
        assert isinstance(result, Failed)
        assert result.error.code in {"upstream_unavailable", "upstream_error"}
        assert len(asked) == 1  # nothing is sent again, and no redirect is followed


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_without_end_is_not_read_to_its_end(packed: bool) -> None:
    body = (
        b'{"resultSetMetaData": {"rowType": [{"name": "A", "type": "text"}]}, "data": [["' + b"x" * 3_000_000 + b'"]]}'
    )
    answer = ("200 OK", gzip.compress(body) if packed else body, {"Content-Encoding": "gzip"} if packed else {})
    async with answering(_submitted(), answer) as (location, _):
        reach = Reach(password=None, secrets=SecretResolver(), permit=None)
        connection = await connect(located(location), reach, Secret(_key()))
        try:
            with pytest.raises(AnswerTooLargeError):
                await connection.execute(ApiStatement(sql="SELECT 1", timeout_s=5, max_rows=1, most=1_000_000))
        finally:
            await connection.close()


async def test_a_token_is_short_and_names_the_account() -> None:
    import jwt  # noqa: PLC0415 - for this test alone

    key = _key()
    async with answering(("401 Unauthorized", b"{}", {})) as (location, asked):
        reach = Reach(password=None, secrets=SecretResolver(), permit=None)
        connection = await connect(located(location), reach, Secret(key))
        try:
            with pytest.raises(DatabaseUnreachableError, match="key of this user"):
                await connection.ask("SELECT 1", 5)
        finally:
            await connection.close()
    token = asked[0].split(b"Bearer ")[1].split(b"\r\n")[0].decode()
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["sub"] == "ORG-LAB.AGENT"
    assert claims["iss"].startswith("ORG-LAB.AGENT.SHA256:")
    assert claims["exp"] - claims["iat"] <= 300
    assert b"X-Snowflake-Authorization-Token-Type: KEYPAIR_JWT" in asked[0]
    assert key[60:120].encode() not in asked[0]


def test_a_token_is_signed_again_before_it_ends() -> None:
    key = load_pem_private_key(_key().encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    account = api_account(located("snowflake://app@myorg.snowflakecomputing.com/SALES?role=READER"))
    connection = ApiConnection(account, key, httpx.AsyncClient(), [])
    first = connection._signed_in(1_000_000.0)
    assert connection._signed_in(1_000_119.0) == first
    assert connection._signed_in(1_000_121.0) != first
    assert connection._signed_in(999_000.0) != first  # the clock was set back
    assert "eyJ" not in repr(connection)


@asynccontextmanager
async def proxying() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy on loopback that makes tunnels, and the requests for them."""
    asked: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        host, _, port = head.split()[1].decode().rpartition(":")
        upstream = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(relay(reader, upstream[1]), relay(upstream[0], writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def test_statements_go_through_the_proxy_of_the_policy(lab: SnowflakeLab) -> None:
    async with proxying() as (port, asked):
        proxy = EgressProxy(scheme="http", host="127.0.0.1", port=port)

        def permit(destination: Destination) -> Allow:
            return Allow(rule="x", proxy=None if destination.service == "proxy" else proxy)

        (result,) = await run(lab, "SELECT 1", permit=permit)
        assert rows(result) == [[1]]
        assert asked[0].startswith(f"CONNECT 127.0.0.1:{lab.port} ".encode())
        assert b"Bearer" not in asked[0]
