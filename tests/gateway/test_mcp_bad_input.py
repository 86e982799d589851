"""Bad input to /mcp, sent as bytes to a gateway in a process of its own: JSON-RPC's own errors, and memory that stays where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.gateway.governed import project
from tests.gateway.raw import (
    CLOSE,
    MIB,
    POLICY,
    Served,
    endless,
    peak_kib,
    request,
    resident_kib,
    rest_of,
    serving,
    statuses,
)

META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
NEW, OLD = "MCP-Protocol-Version: 2026-07-28", "MCP-Protocol-Version: 2025-11-25"
ERAS = [
    pytest.param((), id="no version"),
    pytest.param((OLD,), id="2025"),
    pytest.param((NEW, "Mcp-Method: ping"), id="2026"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("bad") / "p") as found:
        yield found


def post(body: bytes, *headers: str, key: str = "key-of-bot") -> bytes:
    return request(body, *headers, CLOSE, path="/mcp", key=key)


def message(method: str, params: bytes = b"", request_id: bytes = b"7", more: bytes = b"") -> bytes:
    told = b',"params":' + params if params else b""
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b"%b%b}' % (request_id, method.encode(), told, more)


def modern(method: str, params: bytes = b"") -> bytes:
    return message(method, b'{"_meta":' + META + (b"," + params if params else b"") + b"}")


def answered(served: Served, sent: bytes) -> tuple[int, Any]:
    """The status and the JSON of the one answer."""
    head, _, body = served.exchange(sent).partition(b"\r\n\r\n")
    found = statuses(head + b"\r\n\r\n")
    assert len(found) == 1, head
    return found[0], json.loads(body) if body else None


def refused(served: Served, sent: bytes) -> tuple[int, int, Any]:
    """The status, the code and the id of an error, which nothing was called for."""
    before = len(served.seen.requests)
    status, document = answered(served, sent)
    assert document["jsonrpc"] == "2.0"
    assert set(document) == {"jsonrpc", "id", "error"}
    assert document["error"]["message"]
    assert len(served.seen.requests) == before
    served.alive()
    return status, document["error"]["code"], document["id"]


# What is no message

UNREADABLE = [
    ("nothing", b""),
    ("half an object", b'{"jsonrpc":"2.0"'),
    ("two messages", message("ping") * 2),
    ("a byte order mark", b"\xef\xbb\xbf" + message("ping")),
    ("UTF-16", message("ping").decode().encode("utf-16")),
    ("no UTF-8", message("ping", request_id=b'"\xff"')),
    ("no UTF-8 in what nobody reads", message("ping", more=b',"x":"\xc0\xaf"')),
    ("a surrogate alone", message("ping", request_id=b'"\\ud800"')),
    ("a control character", message("ping", request_id=b'"a\x01"')),
    ("no number", message("ping", request_id=b"NaN")),
    ("a number beyond all", message("ping", b'{"x":1e999}')),
    ("a number of a hundred thousand digits", message("ping", b'{"x":' + b"9" * 100_000 + b"}")),
    ("nested deep", message("ping", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}")),
    ("nested as deep as fits", b"[" * (MIB - 1)),
    ("objects nested deep", message("ping", b'{"x":' * 30_000 + b"1" + b"}" * 30_000)),
    ("a string without an end behind brackets", b"[" * 65 + b'"' + b'\\"' * 500_000),
    ("a member twice", b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}'),
    ("a member twice, spelled otherwise", b'{"jsonrpc":"2.0","id":7,"method":"ping","m\\u0065thod":"tools/call"}'),
    ("an argument twice", message("tools/call", b'{"name":"orders__get_health","arguments":{"a":1,"a":2}}')),
    ("a comment", b'/* */{"jsonrpc":"2.0","id":7,"method":"ping"}'),
    ("a comma too many", b'{"jsonrpc":"2.0","id":7,"method":"ping",}'),
]  # fmt: skip


@pytest.mark.parametrize("headers", ERAS)
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in UNREADABLE])
def test_what_is_not_json_with_one_meaning_is_a_parse_error(
    served: Served, body: bytes, headers: tuple[str, ...]
) -> None:
    assert refused(served, post(body, *headers)) == (400, -32700, None)


INVALID = [
    ("a text", b'"ping"', None),
    ("a number", b"7", None),
    ("null", b"null", None),
    ("an empty object", b"{}", None),
    ("another version", b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7),
    ("a version that is a number", b'{"jsonrpc":2.0,"id":7,"method":"ping"}', 7),
    ("no version", b'{"id":7,"method":"ping"}', 7),
    ("no method", b'{"jsonrpc":"2.0","id":7}', 7),
    ("a method that is none", b'{"jsonrpc":"2.0","id":7,"method":{}}', 7),
    ("an id of null", message("ping", request_id=b"null"), None),
    ("an id that is true", message("ping", request_id=b"true"), None),
    ("an id with a fraction", message("ping", request_id=b"1.5"), None),
    ("an id that is a list", message("ping", request_id=b"[1]"), None),
    ("an id that is an object", message("ping", request_id=b'{"a":1}'), None),
]  # fmt: skip


@pytest.mark.parametrize("headers", ERAS)
@pytest.mark.parametrize(("body", "echoed"), [pytest.param(*rest, id=name) for name, *rest in INVALID])
def test_json_that_is_no_message_is_an_invalid_request(
    served: Served, body: bytes, echoed: Any, headers: tuple[str, ...]
) -> None:
    assert refused(served, post(body, *headers)) == (400, -32600, echoed)


@pytest.mark.parametrize("params", [b"[]", b"null", b"7", b'"x"', b"true"])
def test_parameters_that_are_no_object_are_invalid_parameters(served: Served, params: bytes) -> None:
    assert refused(served, post(message("tools/call", params))) == (400, -32602, 7)


@pytest.mark.parametrize(
    "request_id",
    [b"0", b"-1", b"9007199254740993", b"9" * 30, b"9" * 4000, b'""', b'"a b"', b'"\\u0000"', b'"\xc3\xbc"', b'"' + b"x" * 100_000 + b'"'],
)  # fmt: skip
def test_an_id_of_any_length_is_given_back_exactly(served: Served, request_id: bytes) -> None:
    status, document = answered(served, post(message("ping", request_id=request_id)))
    assert (status, document) == (200, {"jsonrpc": "2.0", "id": json.loads(request_id), "result": {}})


# What does not fit


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        pytest.param(message("prompts/list"), (), 200, -32601, id="a method of others"),
        pytest.param(message(""), (), 200, -32601, id="no method's name"),
        pytest.param(message("tools/list\\u0000"), (), 200, -32601, id="a method and more"),
        pytest.param(message("x" * 100_000), (), 200, -32601, id="a long method"),
        pytest.param(modern("initialize"), (NEW, "Mcp-Method: initialize"), 404, -32601, id="a method of the other era"),
        pytest.param(modern("rpc.x"), (NEW, "Mcp-Method: rpc.x"), 404, -32601, id="a method of nobody"),
        pytest.param(message("ping"), ("MCP-Protocol-Version: 2099-01-01",), 400, -32022, id="a version to come"),
        pytest.param(message("ping"), ("MCP-Protocol-Version: 2024-11-05",), 400, -32022, id="a version gone by"),
        pytest.param(message("ping"), ("MCP-Protocol-Version: " + "9" * 9000,), 400, -32022, id="a long version"),
        pytest.param(message("ping"), (OLD, NEW), 400, -32020, id="two versions"),
        pytest.param(modern("tools/list"), (OLD,), 400, -32020, id="a body newer than its header"),
        pytest.param(modern("tools/list"), (), 400, -32020, id="a body with a version, and no header"),
        pytest.param(modern("tools/list"), (NEW, "Mcp-Method: tools/call"), 400, -32020, id="another method"),
        pytest.param(modern("tools/list"), (NEW,), 400, -32020, id="no method in the headers"),
        pytest.param(modern("tools/call", b'"name":"orders__get_health"'), (NEW, "Mcp-Method: tools/call", "Mcp-Name: orders__x"),
                     400, -32020, id="another tool"),
        pytest.param(modern("tools/call", b'"name":"orders__get_health"'), (NEW, "Mcp-Method: tools/call", "Mcp-Name: =?base64?!?="),
                     400, -32020, id="a tool in broken wrapping"),
        pytest.param(message("tools/call", b'{"name":"orders__get_health"}'), ("Mcp-Name: orders__x",), 400, -32020,
                     id="another tool, in the old era"),
        pytest.param(message("tools/call", b"{}"), (), 200, -32602, id="no tool"),
        pytest.param(message("tools/call", b'{"name":7}'), (), 200, -32602, id="a tool that is a number"),
        pytest.param(message("tools/call", b'{"name":"' + b"x" * 129 + b'"}'), (), 200, -32602, id="a tool with a long name"),
        pytest.param(message("tools/call", b'{"name":"orders__get_health","arguments":[]}'), (), 200, -32602, id="a list of arguments"),
        pytest.param(message("tools/call", b'{"name":"orders__get_health","_meta":{"progressToken":{}}}'), (), 200, -32602,
                     id="a token that is none"),
        pytest.param(message("tools/list", b'{"cursor":7}'), (), 200, -32602, id="a cursor that is a number"),
        pytest.param(message("tools/list", b'{"cursor":"../../etc/passwd"}'), (), 200, -32602, id="a cursor nobody gave"),
        pytest.param(message("initialize", b'{"protocolVersion":7}'), (), 200, -32602, id="a version that is a number"),
    ],
)  # fmt: skip
def test_what_does_not_fit_has_the_code_of_its_era(
    served: Served, body: bytes, headers: tuple[str, ...], status: int, code: int
) -> None:
    assert refused(served, post(body, *headers))[:2] == (status, code)


@pytest.mark.parametrize(
    "name", ["orders__nothing", "nothing", "orders__get_health\\u0000", "../orders__get_health", "Orders__get_health"]
)
@pytest.mark.parametrize("protocol_style", ["2025", "2026"])
def test_an_unknown_tool_is_a_result_that_explains_itself(served: Served, name: str, protocol_style: str) -> None:
    before = len(served.seen.requests)
    headers = (
        (NEW, "Mcp-Method: tools/call", f"Mcp-Name: {name}") if protocol_style == "2026" and "\\" not in name else ()
    )
    call = b'"name":"%b","arguments":{}' % name.encode()
    sent = modern("tools/call", call) if headers else message("tools/call", b"{" + call + b"}")
    status, document = answered(served, post(sent, *headers))
    assert status == 200
    assert document["result"]["isError"] is True
    assert "unknown_tool" in document["result"]["content"][0]["text"]
    assert len(served.seen.requests) == before


# What is too much


@pytest.mark.parametrize("key", ["key-of-bot", "wrong"])
def test_a_gigabyte_is_refused_without_being_kept(served: Served, key: str) -> None:
    served.alive()
    status = 413 if key == "key-of-bot" else 401
    before = served.resident_kib()
    announced = served.exchange(post(b"a" * MIB, f"Content-Length: {1024 * MIB}", key=key))
    assert statuses(announced) == [status]
    streamed = served.exchange(post(b"", "Transfer-Encoding: chunked", key=key), *endless(16_384))
    assert statuses(streamed) in ([status], [])  # the answer may be lost with what was not read
    assert served.peak_kib() - before < 24 * 1024
    served.alive()


@pytest.mark.parametrize(
    ("count", "value", "status"), [(340_000, b"[]", 400), (140_000, b'{"":1}', 400), (32_000, b"[]", 200)]
)
def test_bodies_that_take_the_most_memory_for_their_bytes_are_bounded(
    served: Served, count: int, value: bytes, status: int
) -> None:
    """32 at once: what holds too many values is refused before there are any."""
    arguments = b'{"x":[' + b",".join([value] * count) + b"]}"
    body = message("tools/call", b'{"name":"orders__get_health","arguments":' + arguments + b"}")
    assert len(body) < MIB
    served.alive()
    before = served.resident_kib()
    held = [served.connection() for _ in range(32)]
    try:
        for wire in held:
            wire.sendall(post(body))
        said = [rest_of(wire) for wire in held]
    finally:
        for wire in held:
            wire.close()
    assert all(statuses(one) == [status] for one in said)
    assert served.peak_kib() - before < 192 * 1024
    served.alive()


def test_connections_that_dribble_keep_nobody_else_waiting(served: Served) -> None:
    """How long a head and a body may take is held in test_connection.py."""
    before, held = served.resident_kib(), [served.connection() for _ in range(300)]
    try:
        for number, wire in enumerate(held):
            wire.sendall(request(b'{"jsonrpc"', "Content-Length: 1000", path="/mcp") if number % 2 else b"POST /mcp HT")
        for _ in range(5):
            served.alive()
            assert answered(served, post(message("ping")))[0] == 200
        assert served.peak_kib() - before < 24 * 1024
    finally:
        for wire in held:
            wire.close()
    served.alive()


def test_many_messages_in_one_packet_are_answered_in_their_order(served: Served) -> None:
    sent = b"".join(request(message("ping", request_id=b"%d" % number), path="/mcp") for number in range(40))
    said = served.exchange(sent + post(b"[]"))
    assert statuses(said) == [200] * 40 + [400]
    assert [int(part.split(b",")[0]) for part in said.split(b'"id":')[1:41]] == list(range(40))


# The same over standard input


@pytest.mark.sweep
def test_a_line_without_an_end_is_not_kept_and_what_is_no_text_is_answered(tmp_path: Path) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:9", POLICY)
    command = [sys.executable, "-m", "toolgen", "serve", "--stdio", "--as", "bot"]
    with subprocess.Popen(command, cwd=path.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def said() -> dict[str, Any]:
            assert process.stdout is not None
            found: dict[str, Any] = json.loads(process.stdout.readline())
            return found

        def write(data: bytes) -> None:
            assert process.stdin is not None
            process.stdin.write(data)
            process.stdin.flush()

        write(message("ping") + b"\n")
        assert said() == {"jsonrpc": "2.0", "id": 7, "result": {}}
        before = resident_kib(process.pid)
        for _ in range(256 if EXHAUSTIVE else 64):  # several times what it may take
            write(b"a" * MIB)
        assert said()["error"]["code"] == -32600  # as soon as it is longer than a message may be
        write(b"\n" + message("ping") + b"\n")
        assert said()["result"] == {}
        assert peak_kib(process.pid) - before < 24 * 1024
        for _, body in UNREADABLE:
            if body and b"\n" not in body:
                write(body + b"\n")
                assert said()["error"]["code"] in {-32700, -32600}
        for _, body, echoed in INVALID:
            write(body + b"\n")
            found = said()
            assert (found["error"]["code"], found["id"]) == (-32600, echoed)
        write(b"\x00\r\n\xff\xfe\n")
        assert [said()["error"]["code"] for _ in range(2)] == [-32700, -32700]
        write(modern("tools/list") + b"\n")
        assert said()["result"]["resultType"] == "complete"
        process.stdin.close()
        assert process.wait(60) == 0
