"""Statements on SQL Server: python-tds and the session, against messages that are played back. No SQL Server took part."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pytds", reason="python-tds is not installed: make mssql")

from tests.authorities import Authority
from tests.connectors.sql.execution import tds_server as tds
from tests.connectors.sql.execution.tds_server import Asked, TdsServer, served
from tests.databases import sql_call, statement
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution import tsql
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.tds_connection import BrokenConnectionError, TdsConnection, TdsServerError, dial
from toolgen.connectors.sql.execution.tsql import numbered
from toolgen.connectors.sql.reading.tsql import read_tsql
from toolgen.connectors.sql.reading.tsql_rights import tsql_rights
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Failed, Success
from toolgen.model.secret import SecretReference
from toolgen.model.verdict import Deny

_PASSWORD: Final = "pa55-CANARY"
_SELECT: Final = "SELECT [id] FROM [dbo].[t]"
# Section 4.7 of MS-TDS: the answer to a batch `select 'foo' as 'bar'`.
_FOO: Final = bytes.fromhex(
    "04 01 00 33 00 00 01 00 81 01 00 00 00 00 00 20 00 A7 03 00 09 04 D0 00 34 03 62 00 61 00 72 00 D1 03 00 66 6F 6F FD 10 00 C1 00 01 00"
    " 00 00 00 00 00 00"
)
# Section 4.9: the end of an answer to an RPC, without its header.
_RPC_END: Final = bytes.fromhex(
    "FF 11 00 C1 00 01 00 00 00 00 00 00 00 79 00 00 00 00 FE 00 00 E0 00 00 00 00 00 00 00 00 00"
)
# Section 4.10.
_ATTENTION: Final = bytes.fromhex("06 01 00 08 00 00 01 00")


@pytest.fixture(name="password", autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TDS_PASSWORD", _PASSWORD)


def _server(handler: tds.Handler, **settings: Any) -> Any:
    return served(handler, **({"password": _PASSWORD} | settings))


def _location(server: TdsServer, options: str = "sslmode=disable", host: str = "127.0.0.1") -> str:
    return f"mssql://reader@{host}:{server.port}/lab?connect_timeout=2&{options}"


async def _ran(
    server: TdsServer, *asked: Statement, options: str = "sslmode=disable", **given: Any
) -> list[Success | Failed]:
    executor = SqlExecutor(
        _location(server, options, given.pop("host", "127.0.0.1")),
        password=SecretReference("env", "TDS_PASSWORD"),
        **given,
    )
    try:
        return [await executor.execute(sql_call("", "query", one)) for one in asked]
    finally:
        await executor.close()


def _data(found: Success | Failed) -> Any:
    assert isinstance(found, Success), found
    return found.data


def _code(found: Success | Failed) -> str:
    assert isinstance(found, Failed), found
    assert "CANARY" not in repr(found)
    return found.error.code


async def test_a_statement_runs_with_bound_values_in_a_transaction_that_is_rolled_back() -> None:
    with _server(lambda asked: tds.result(["id"], [[1]])) as server:
        asked = statement("SELECT [id] FROM [a?] WHERE [b] = ? AND [c] = 'x?' AND [d] = ?", 5, "é' OR 1 = 1 --")
        (found,) = await _ran(server, asked)
    assert _data(found)["rows"] == [[1]]
    (sent,) = server.asked
    assert sent.sql == "SELECT [id] FROM [a?] WHERE [b] = @P1 AND [c] = 'x?' AND [d] = @P2"
    assert (sent.declared, sent.values) == ("@P1 bigint, @P2 nvarchar(4000)", [5, "é' OR 1 = 1 --"])
    assert [batch.rpartition(" SET ")[2] or batch for batch in server.batches] == [
        "LOCK_TIMEOUT 2000; BEGIN TRANSACTION;",
        "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;",
    ]
    for setting in ("QUOTED_IDENTIFIER ON", "ANSI_NULLS ON", "XACT_ABORT ON", "IMPLICIT_TRANSACTIONS OFF"):
        assert f"SET {setting};" in server.batches[0]


async def test_values_have_the_types_of_the_server() -> None:
    values: list[Any] = [None, True, 1.5, -(2**63), 2**70, "x" * 5_000]
    with _server(lambda asked: tds.result(["id"], [[1]])) as server:
        await _ran(server, statement("SELECT [id] FROM [t]", *values), statement("SELECT [id] FROM [t]", 10**40))
    (sent,) = server.asked  # a number of 41 digits has no type
    assert sent.declared == "@P1 nvarchar(4000), @P2 bit, @P3 float, @P4 bigint, @P5 decimal(38, 0), @P6 nvarchar(max)"
    assert sent.values == values


def _described(*columns: tuple[str, bytes, bytes]) -> bytes:
    kinds = tds.columns(*(tds.column(name, kind) for name, kind, _ in columns))
    return kinds + tds.row(*(value for _, _, value in columns)) + tds.ended(1)


async def test_rows_of_the_main_types_are_read() -> None:
    """Values in the formats of 2.2.5.5, each with its length or without, as its type has it."""
    uuid = bytes.fromhex("00112233445566778899AABBCCDDEEFF")
    answer = _described(
        ("tinyint", b"\x26\x01", b"\x01\xff"),
        ("smallint", b"\x26\x02", b"\x02\xff\xff"),
        ("int", b"\x38", struct.pack("<i", -7)),
        ("bigint", b"\x26\x08", b"\x08" + struct.pack("<q", 2**60)),
        ("bit", b"\x32", b"\x01"),
        ("real", b"\x6d\x04", b"\x04" + struct.pack("<f", 1.1)),
        ("float", b"\x3e", struct.pack("<d", 0.1)),
        ("money", b"\x6e\x08", b"\x08" + struct.pack("<iI", 0, 12_345)),
        ("decimal", b"\x6a\x05\x05\x02", b"\x05\x00" + struct.pack("<I", 12_345)),
        ("varchar", b"\xa7\x0a\x00" + bytes.fromhex("0904D00034"), b"\x03\x00ab\xe9"),
        ("nvarchar", tds.NVARCHAR, tds.nvarchar("é🙂")),
        ("long", tds.NVARCHAR_MAX, struct.pack("<Q", 0xFFFFFFFFFFFFFFFE) + struct.pack("<I", 4) + "ab".encode("utf-16-le")
         + struct.pack("<I", 2) + "c".encode("utf-16-le") + bytes(4)),
        ("binary", b"\xa5\x08\x00", b"\x02\x00\x01\x02"),
        ("uuid", b"\x24\x10", b"\x10" + uuid),
        ("date", b"\x28", b"\x03" + (738_000).to_bytes(3, "little")),
        ("time", b"\x29\x07", b"\x05" + (36_000_000_000 + 5_000_000).to_bytes(5, "little")),
        ("datetime", b"\x6f\x08", b"\x08" + struct.pack("<iI", 1, 300)),
        ("datetime2", b"\x2a\x03", b"\x07" + (1_500).to_bytes(4, "little") + (0).to_bytes(3, "little")),
        ("offset", b"\x2b\x00", b"\x08" + (0).to_bytes(3, "little") + (1).to_bytes(3, "little") + struct.pack("<h", 60)),
        ("nothing", b"\x26\x04", b"\x00"),
    )  # fmt: skip
    with _server(lambda asked: answer) as server:
        (found,) = await _ran(server, statement(_SELECT))
    data = _data(found)
    assert dict(zip([one["name"] for one in data["columns"]], data["rows"][0], strict=True)) == {
        "tinyint": 255,
        "smallint": -1,
        "int": -7,
        "bigint": str(2**60),
        "bit": True,
        "real": 1.1,
        "float": 0.1,
        "money": 1.2345,
        "decimal": -123.45,
        "varchar": "abé",
        "nvarchar": "é🙂",
        "long": "abc",
        "binary": {"base64": "AQI="},
        "uuid": "33221100-5544-7766-8899-aabbccddeeff",
        "date": "2021-07-30",
        "time": "01:00:00.500000",
        "datetime": "1900-01-02 00:00:01",
        "datetime2": "0001-01-01 00:00:01.500000",
        "offset": "0001-01-02 01:00:00+01:00",
        "nothing": None,
    }
    types = {one["name"]: one["type"] for one in data["columns"]}
    assert (types["tinyint"], types["real"], types["money"], types["datetime"]) == (
        "tinyint",
        "real",
        "money",
        "datetime",
    )


async def test_the_examples_of_the_specification_are_read() -> None:
    sparse = (Path(__file__).parent / "tds_sparse_columns.txt").read_text(encoding="ascii")
    answers = iter([_FOO, tds.message(_FOO[8:-13] + _RPC_END), bytes.fromhex(sparse)])
    with _server(lambda asked: next(answers)) as server:
        batch, rpc, rows = await _ran(server, *[statement(_SELECT)] * 3)
    assert _data(batch)["rows"] == _data(rpc)["rows"] == [["foo"]]
    assert _data(rows)["row_count"] == 10
    assert _data(rows)["rows"][0] == [1, "<sparseProp1>1000</sparseProp1><sparseProp2>foo</sparseProp2>"]
    assert _data(rows)["rows"][-1] == [10, None]


async def test_a_row_over_several_packets_is_read() -> None:
    text = "x" * 3_000
    with _server(lambda asked: tds.message(tds.result(["a"], [[text], [text]]), size=520)) as server:
        (found,) = await _ran(server, statement(_SELECT))
    assert _data(found)["rows"] == [[text], [text]]


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (245, "sql_failed", "convert"),
        (8134, "sql_failed", "zero"),
        (208, "sql_failed", "does not exist"),
        (229, "sql_failed", "account"),
        (102, "sql_failed", "differently"),
        (1205, "upstream_error", "locked"),
        (1222, "upstream_error", "locked"),
        (99_999, "upstream_error", "could not run"),
    ],
)
async def test_errors_of_the_server_are_told_in_our_words(number: int, code: str, words: str, caplog: Any) -> None:
    """The text of error 245 quotes the value that could not be converted."""
    caplog.set_level(logging.DEBUG)
    spoken = tds.error(number, "Conversion failed when converting the varchar value 'CANARY' to data type int.")
    answers = iter([spoken + tds.done(0xFF, 3) + b"\x79" + bytes(4) + tds.done(0xFE, 2), tds.result(["id"], [[1]])])
    with _server(lambda asked: next(answers)) as server:
        found, after = await _ran(server, statement(_SELECT, "CANARY"), statement(_SELECT))
    assert _code(found) == code
    assert isinstance(found, Failed)
    assert words in found.error.message
    assert _data(after)["rows"] == [[1]]
    assert len(server.logins) == 1
    assert "CANARY" not in caplog.text


async def test_an_error_after_rows_gives_no_rows() -> None:
    rows = tds.columns(tds.column("id", tds.BIGINT)) + tds.row(b"\x08" + struct.pack("<q", 1))
    spoken = rows + tds.error(8134, "Divide by zero error encountered.") + tds.done(0xFF, 3) + tds.done(0xFE, 2)
    with _server(lambda asked: spoken) as server:
        (found,) = await _ran(server, statement(_SELECT))
    assert _code(found) == "sql_failed"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: tds.done(0xFF, 0x11, 1) + b"\x79" + bytes(4) + tds.done(0xFE), id="no rows"),
        pytest.param(lambda: tds.result(["id"], [[1]])[:-13] + tds.done(0xFE, 1) + tds.result(["x"], [["CANARY"]]), id="two results"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_of_one_query_is_refused(answer: Callable[[], bytes]) -> None:
    with _server(lambda asked: answer()) as server:
        (found,) = await _ran(server, statement(_SELECT))
    assert _code(found) == "sql_failed"


def _cut(asked: Asked) -> bytes:
    raise ConnectionError


def _truncated(asked: Asked) -> bytes:
    """A value that ends within a message which says that it is the last one."""
    kind = tds.columns(tds.column("a", tds.NVARCHAR_MAX))
    return tds.message(kind + b"\xd1" + struct.pack("<Q", 0xFFFFFFFFFFFFFFFE) + struct.pack("<I", 1_000) + b"CANARY")


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(_cut, id="cut"),
        pytest.param(_truncated, id="a value without its end"),
        pytest.param(lambda asked: b"\x81\xff\xfe", id="no columns"),
        pytest.param(lambda asked: b"\x04CANARY-is-no-token", id="no tokens"),
        pytest.param(lambda asked: b"\xac" + bytes(3) + b"\x05" + b"x" * 40, id="a returned value"),
        pytest.param(lambda asked: bytes.fromhex("0401000400000100"), id="a short header"),
        pytest.param(lambda asked: tds.environment(4, tds.short_text("9" * 12), b"\0") + tds.done(), id="huge packets"),
        pytest.param(lambda asked: tds.columns(tds.column("a", b"\x99")) + tds.done(), id="a type that is unknown"),
        pytest.param(lambda asked: tds.environment(3, tds.short_text("no-charset"), b"\0") + tds.done(), id="a charset that is unknown"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_tds_ends_the_connection(handler: tds.Handler) -> None:
    began = time.monotonic()
    with _server(handler) as server:
        found, again = await _ran(server, *[statement(_SELECT, timeout_s=3.0)] * 2)
    assert _code(found) == "upstream_error"
    assert _code(again) == "upstream_error"
    assert len(server.logins) == 2
    assert time.monotonic() - began < 3


async def test_a_statement_over_its_time_is_stopped_by_an_attention() -> None:
    with _server(lambda asked: None) as server:
        (found,) = await _ran(server, statement(_SELECT, timeout_s=0.2))
    assert _code(found) == "upstream_timeout"
    assert server.attentions == 1


async def test_a_cancelled_call_stops_its_statement_and_leaves_room_for_others() -> None:
    waiting = threading.Event()

    def handler(asked: Asked) -> bytes | None:
        waiting.set()
        return None if asked.values else tds.result(["id"], [[1]])

    with _server(handler) as server:
        executor = SqlExecutor(
            _location(server, "sslmode=disable&pool_size=1"), password=SecretReference("env", "TDS_PASSWORD")
        )
        call = asyncio.create_task(executor.execute(sql_call("", "query", statement(_SELECT, 1, timeout_s=30.0))))
        await asyncio.to_thread(waiting.wait, 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert server.attentions == 1
        after = await executor.execute(sql_call("", "query", statement(_SELECT)))
        await executor.close()
    assert _data(after)["rows"] == [[1]]


async def test_a_server_that_does_not_acknowledge_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsql, "_ATTENTION_S", 0.1)
    with _server(lambda asked: None, acknowledges=False) as server:
        (found,) = await _ran(server, statement(_SELECT, timeout_s=0.2))
        assert _code(found) == "upstream_timeout"
        assert server.attentions == 1
    threads = [one for one in threading.enumerate() if one.name.startswith("tds")]
    await asyncio.to_thread(lambda: [one.join(5) for one in threads])
    assert not any(one.is_alive() for one in threads)


async def test_a_server_that_reads_nothing_of_a_statement_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsql, "_ATTENTION_S", 0.2)
    with _server(lambda asked: None, deaf=True) as server:
        (found,) = await _ran(server, statement(_SELECT, "x" * 20_000_000, timeout_s=0.2))
    assert _code(found) == "upstream_timeout"
    assert server.attentions == 0


async def test_a_closed_engine_answers_with_an_error() -> None:
    with _server(lambda asked: tds.result(["id"], [[1]])) as server:
        executor = SqlExecutor(_location(server), password=SecretReference("env", "TDS_PASSWORD"))
        assert _data(await executor.execute(sql_call("", "query", statement(_SELECT))))["rows"] == [[1]]
        await executor.close()
        assert _code(await executor.execute(sql_call("", "query", statement(_SELECT)))) == "upstream_unavailable"


async def test_a_login_that_does_not_end_is_cut_off() -> None:
    endless = tds.message(tds.environment(2, tds.short_text("x" * 100), b"\0") * 10_000, last=False)
    with _server(lambda asked: None, login_answer=b"") as server:
        server.login_message = endless
        (found,) = await _ran(server, statement(_SELECT))
    assert _code(found) in {"upstream_unavailable", "response_too_large"}


async def test_rows_beyond_the_limits_are_not_taken_and_the_statement_is_stopped() -> None:
    rows = [["x" * 100]] * 50
    with _server(lambda asked: tds.result(["a"], rows)) as server:
        few, small, after = await _ran(
            server, statement(_SELECT, max_rows=3), statement(_SELECT, max_bytes=1_000), statement(_SELECT, max_rows=50)
        )
    assert (_data(few)["row_count"], few.truncated) == (3, True)  # type: ignore[union-attr]  # a Success
    assert 0 < _data(small)["row_count"] < 12
    assert _data(after)["row_count"] == 50
    assert len(server.logins) == 1
    assert server.attentions == 2


async def test_an_answer_larger_than_the_caps_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsql, "most_received", lambda statement: 100_000)
    endless = tds.columns(tds.column("a", tds.NVARCHAR_MAX)) + b"\xd1" + struct.pack("<Q", 0xFFFFFFFFFFFFFFFE)
    chunk = struct.pack("<I", 60_000) + bytes(60_000)
    with _server(lambda asked: tds.message(endless + chunk * 10, last=False)) as server:
        (found,) = await _ran(server, statement(_SELECT))
    assert _code(found) == "response_too_large"


async def test_a_large_cell_is_cut() -> None:
    with _server(lambda asked: tds.result(["a"], [["y" * 3_000]])) as server:
        (found,) = await _ran(server, statement(_SELECT, max_cell_bytes=100))
    assert _data(found)["rows"] == [["y" * 100]]
    assert isinstance(found, Success)
    assert found.truncated


# the login


async def test_the_login_tells_nothing_of_this_machine() -> None:
    with _server(lambda asked: tds.result(["id"], [[1]])) as server:
        await _ran(server, statement(_SELECT))
    (login,) = server.logins
    assert login == {
        "machine": "toolgen",
        "user": "reader",
        "password": _PASSWORD,
        "program": "toolgen",
        "server": "127.0.0.1",
        "database": "lab",
        "hardware": "000000000000",
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"password": "another"}, "credentials"),
        ({"login_answer": tds.error(4060, "Cannot open database CANARY") + tds.done(status=2)}, "no such database"),
        ({"login_answer": tds.done()}, "no session"),
        (
            {"login_answer": tds.LOGIN_ANSWER.replace(bytes.fromhex("74000004"), bytes.fromhex("72090002"))},
            "no session",
        ),
        ({"rights": [["lab", "ALTER"]]}, "more than read"),
    ],
)
async def test_a_login_that_does_not_fit_is_refused(settings: dict[str, Any], words: str) -> None:
    with _server(lambda asked: tds.result(["id"], [[1]]), **settings) as server:
        (found,) = await _ran(server, statement(_SELECT))
    assert _code(found) == "upstream_unavailable"
    assert isinstance(found, Failed)
    assert words in found.error.message
    assert server.asked == []


async def test_a_redirection_to_another_server_is_not_followed() -> None:
    """ENVCHANGE 20 names a server and a port: 2.2.7.9. The driver would connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        name = "127.0.0.1"
        route = struct.pack("<BHH", 0, other.getsockname()[1], len(name)) + name.encode("utf-16-le")
        body = b"\x14" + struct.pack("<H", len(route)) + route + b"\0\0"
        routed = tds.LOGIN_ANSWER[:-13] + b"\xe3" + struct.pack("<H", len(body)) + body + tds.done()
        with _server(lambda asked: tds.result(["id"], [[1]]), login_answer=routed) as server:
            (found,) = await _ran(server, statement(_SELECT))
        assert _code(found) == "upstream_unavailable"
        with pytest.raises(TimeoutError):
            other.accept()


async def test_a_forbidden_address_is_not_dialled() -> None:
    with _server(lambda asked: tds.result(["id"], [[1]])) as server:
        (found,) = await _ran(
            server, statement(_SELECT), permit=lambda _: Deny(rule="egress", reason="closed", code="egress_refused")
        )
        assert server.logins == []
    assert _code(found) == "egress_refused"


@pytest.fixture(name="tls")
def _tls(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("db", hosts=("db.test",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, authority.path


async def _found(*_: Any) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("options", "host", "opens"),
    [
        ("sslmode=prefer", "127.0.0.1", True),
        ("sslmode=require", "127.0.0.1", True),
        ("sslmode=verify-ca&sslrootcert={}", "127.0.0.1", True),
        ("sslmode=verify-full&sslrootcert={}", "db.test", True),
        ("sslmode=verify-full&sslrootcert={}", "other.test", False),
        ("sslmode=verify-full", "db.test", False),
        ("sslmode=disable", "127.0.0.1", False),
    ],
)
async def test_the_whole_connection_is_encrypted(
    tls: tuple[ssl.SSLContext, Path], options: str, host: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.connectors.sql.execution.server_address.Reach.addresses", _found)
    context, authority = tls
    with _server(lambda asked: tds.result(["id"], [["é" * 4_000]]), encryption=tds.ON, context=context) as server:
        (found,) = await _ran(server, statement(_SELECT, "x" * 20_000), options=options.format(authority), host=host)
        assert bool(server.logins) is opens
    if opens:
        assert _data(found)["rows"] == [["é" * 4_000]]
    else:
        assert _code(found) == "upstream_unavailable"


@pytest.mark.parametrize("answered", [tds.OFF, tds.NOT_SUPPORTED])
async def test_a_server_that_does_not_encrypt_gets_no_password(answered: int) -> None:
    with _server(lambda asked: tds.result(["id"], [[1]]), encryption=answered) as server:
        (found,) = await _ran(server, statement(_SELECT), options="sslmode=prefer")
        assert server.logins == []
    assert _code(found) == "upstream_unavailable"


async def test_a_statement_over_tls_is_stopped_too(tls: tuple[ssl.SSLContext, Path]) -> None:
    with _server(lambda asked: None, encryption=tds.ON, context=tls[0]) as server:
        (found,) = await _ran(server, statement(_SELECT, timeout_s=0.2), options="sslmode=require")
    assert _code(found) == "upstream_timeout"
    assert server.attentions == 1


def test_the_attention_is_that_of_the_specification() -> None:
    from toolgen.connectors.sql.execution.tds_transport import ATTENTION  # noqa: PLC0415 - beside its only use

    assert ATTENTION == _ATTENTION


# the schema


_CATALOG: Final[dict[str, tuple[list[str], list[list[object]]]]] = {
    "Collation": (["c"], [["SQL_Latin1_General_CP1_CI_AS"]]),
    "sys.tables": (
        ["s", "o", "v", "e"],
        [["dbo", "orders", 0, "Orders of customers"], ["hr", "staff", 0, None], ["dbo", "open_orders", 1, None], ["dbo", "a]b", 0, None]],
    ),
    "sys.columns AS c JOIN sys.objects": (
        ["s", "o", "c", "t", "l", "p", "sc", "n", "co", "i", "h", "d", "e", "x"],
        [
            ["dbo", "orders", "id", "int", 4, 10, 0, False, False, True, False, None, None, False],
            ["dbo", "orders", "note", "nvarchar", 80, 0, 0, True, False, False, False, "((0))", "A note", False],
            ["dbo", "orders", "total", "decimal", 9, 12, 2, True, True, False, False, None, None, True],
            ["dbo", "orders", "naïve", "int", 4, 10, 0, True, False, False, False, None, None, False],
            ["dbo", "open_orders", "id", "int", 4, 10, 0, True, False, False, False, None, None, False],
            ["hr", "staff", "id", "varchar", -1, 0, 0, True, False, False, True, None, None, False],
        ],
    ),
    "sys.key_constraints": (["s", "o", "c"], [["dbo", "orders", "id"]]),
    "sys.foreign_key_columns": (["s", "o", "c", "a", "b", "d"], [["hr", "staff", "id", "dbo", "orders", "id"]]),
    "permission_name = N'SELECT'\n": (["s", "o", "c"], [["dbo", "orders", ""], ["dbo", "orders", "id"], ["hr", "staff", "id"]]),
    "SELECT COUNT(*)": (["n"], [[0]]),
}  # fmt: skip


def _catalog(asked: Asked) -> bytes:
    return tds.result(*next(answer for words, answer in _CATALOG.items() if words in asked.sql))


def _server_location(server: TdsServer) -> ServerLocation:
    location = location_of(_location(server))
    assert isinstance(location, ServerLocation)
    return location


def test_the_schema_is_read_from_the_catalog() -> None:
    with _server(_catalog) as server:
        read = read_tsql(_server_location(server), _PASSWORD)
    tables = {(one.schema, one.name): one for one in read.database.tables}
    assert set(tables) == {("", "orders"), ("hr", "staff"), ("", "open_orders")}
    orders = tables["", "orders"]
    assert [(one.name, one.type, one.nullable, one.default, one.computed) for one in orders.columns] == [
        ("id", "int", False, "auto_increment", False),
        ("note", "nvarchar(40)", True, "0", False),
        ("total", "decimal(12, 2)", True, "", True),
    ]
    assert (orders.primary_key, orders.comment) == (("id",), "Orders of customers")
    staff = tables["hr", "staff"]
    assert (staff.columns[0].type, staff.columns[0].invisible, dict(staff.references)) == (
        "varchar(max)",
        True,
        {"id": "orders.id"},
    )
    assert tables["", "open_orders"].view
    assert sorted(note.code for note in read.notes) == ["encrypted", "name", "name", "view_owner_rights"]


@pytest.mark.parametrize(
    "collation", ["Latin1_General_BIN2", "Latin1_General_100_CS_AS", "Turkish_CI_AS", "SQL_Latin1_General_CP1_CS_AS"]
)
def test_a_database_whose_names_are_compared_otherwise_is_not_read(collation: str) -> None:
    with (
        _server(lambda asked: tds.result(["c"], [[collation]])) as server,
        pytest.raises(DescriptionError, match="collation"),
    ):
        read_tsql(_server_location(server), _PASSWORD)


def test_a_reader_with_a_wrong_password_says_so_without_it() -> None:
    with _server(_catalog, password="another") as server, pytest.raises(DescriptionError) as told:
        read_tsql(_server_location(server), _PASSWORD)
    assert "refuses user reader" in str(told.value)
    assert _PASSWORD not in repr(told.value)


def test_the_rights_of_the_account_are_read() -> None:
    with _server(_catalog, rights=[["dbo.orders", "DELETE"], ["", "CONTROL SERVER"]]) as server:
        rights = tsql_rights(_server_location(server), _PASSWORD)
    assert [(one.table, one.privilege, one.column) for one in rights.grants] == [
        ("hr.staff", "SELECT", "id"),
        ("orders", "SELECT", ""),
    ]
    assert [power.message for power in rights.powers] == [
        "has CONTROL SERVER on the server",
        "has DELETE on dbo.orders",
    ]


def test_question_marks_outside_of_quotes_are_numbered() -> None:
    assert numbered("? [?] '?''?' N'?' ? @P9") == "@P1 [?] '?''?' N'?' @P2 @P9"


def test_errors_of_the_driver_carry_no_text_of_the_server() -> None:
    spoken = tds.error(18456, "CANARY") + tds.done(status=2)
    with _server(lambda asked: None, login_answer=spoken) as server:
        location = _server_location(server)
        connection = TdsConnection(dial("127.0.0.1", location), location, None)
        with pytest.raises(TdsServerError) as told:
            connection.login(_PASSWORD)
        connection.close()
        assert "CANARY" not in repr(told.value)
        assert told.value.__cause__ is None
        with pytest.raises(BrokenConnectionError):
            connection.batch("SELECT 1")
