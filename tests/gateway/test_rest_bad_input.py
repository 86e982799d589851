"""Bad input to REST, sent as bytes to a gateway in a process of its own: each has its answer, and memory stays where it was."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import Upstream, project, upstream

CALL = "/v1/tools/orders__get_health/call"
POLICY: dict[str, Any] = {"rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]}
MIB = 1024 * 1024
CLOSE = "Connection: close"


@dataclass(frozen=True)
class Served:
    """A gateway, the process it is, and the API behind it."""

    port: int
    pid: int
    seen: Upstream

    def peak_kib(self) -> int:
        """The most memory the process ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])

    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def exchange(self, *parts: bytes) -> bytes:
        """Everything the gateway says to these bytes until it closes the connection."""
        with self.connection() as wire:
            try:
                for part in parts:
                    wire.sendall(part)
            except OSError:  # it has closed before it had heard everything
                pass
            return rest_of(wire)

    def alive(self) -> None:
        """A good call is answered as ever."""
        answer = self.exchange(request(b"{}", CLOSE))
        assert answer.startswith(b"HTTP/1.1 200 "), answer


def rest_of(wire: socket.socket) -> bytes:
    said = b""
    while True:
        try:
            more = wire.recv(65536)
        except ConnectionResetError:
            return said
        if not more:
            return said
        said += more


def request(body: bytes, *headers: str, path: str = CALL, key: str = "key-of-bot") -> bytes:
    """A request with the headers given, and a Content-Length unless they say how long it is."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", *headers]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("Content-Type: application/json")
    if not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def said(answer: bytes) -> dict[str, Any]:
    """The error of the first answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    error: dict[str, Any] = json.loads(rest[:length])["error"]
    return error


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with upstream() as (seen, server):
        path = project(tmp_path_factory.mktemp("bad") / "p", server, POLICY)
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=path.parent, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            url = next(line.split()[-1] for line in process.stderr if "listening on" in line)
            yield Served(int(url.rpartition(":")[2]), process.pid, seen)
        finally:
            os.kill(process.pid, signal.SIGTERM)
            _, said_there = process.communicate(timeout=120)
    assert "Traceback" not in said_there


def deep(levels: int) -> bytes:
    return b'{"arguments": {"x": ' + b"[" * levels + b"]" * levels + b"}}"


BODIES = [
    ("not JSON", b"{", 400, ""),
    ("two values", b"{}{}", 400, ""),
    ("a byte order mark", b"\xef\xbb\xbf{}", 400, ""),
    ("not UTF-8", b'{"arguments": {"x": "\xff"}}', 400, ""),
    ("an overlong encoding", b'{"arguments": {"x": "\xc0\xaf"}}', 400, ""),
    ("UTF-16", '{"arguments": {}}'.encode("utf-16"), 400, ""),
    ("half a surrogate pair in the idempotency key", b'{"idempotency_key": "\\ud800"}', 400, None),
    ("not a number", b'{"wait": NaN}', 400, ""),
    ("beyond all numbers", b'{"wait": 1e999}', 400, None),
    ("nested deep", deep(1000), 400, ""),
    ("nested as deep as fits", deep(500_000), 400, ""),
    ("a member twice", b'{"arguments": {"a": 1}, "arguments": {"a": 2}}', 400, ""),
    ("a member twice, further in", b'{"arguments": {"x": [{"a": 1, "\\u0061": 2}]}}', 400, ""),
    ("an unknown member", b'{"argument": {}}', 400, "/argument"),
    ("a list", b"[]", 400, ""),
    ("nothing", b"", 400, ""),
    ("one byte too many", b'{"arguments": {"x": "' + b"a" * MIB + b'"}}', 413, None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "pointer"), [pytest.param(*rest, id=name) for name, *rest in BODIES])
def test_a_bad_body_has_its_answer_and_calls_nothing(
    served: Served, body: bytes, status: int, pointer: str | None
) -> None:
    before = len(served.seen.requests)
    answer = served.exchange(request(body, CLOSE))
    assert statuses(answer) == [status]
    error = said(answer)
    assert error["message"]
    if pointer is not None:
        assert error["pointer"] == pointer
    assert len(served.seen.requests) == before
    served.alive()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Type: text/plain", 415),
        ("Content-Type: application/x-www-form-urlencoded", 415),
        ("Content-Type: application/json-patch+json", 415),
        ("Content-Type: application/jsonx", 415),
        ("Content-Type: text/html; application/json", 415),
        ("Content-Type:", 415),
        ("Content-Encoding: gzip", 415),
        ("Content-Encoding: identity, br", 415),
        ("Content-Type: application/json; charset=utf-8", 200),
    ],
)
def test_a_body_of_another_kind_is_refused(served: Served, header: str, status: int) -> None:
    assert statuses(served.exchange(request(b"{}", header, CLOSE))) == [status]


SMUGGLED = b"GET /v1/tools HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key-of-bot\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity, chunked, identity",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked, gzip"),
        ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding:\x0bchunked",),
        ("X: y\r\n Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5, 6",),
        ("Content-Length: +5",),
        ("Content-Length: -1",),
        ("Content-Length: 0x5",),
        ("Content-Length: 5 5",),
        ("Content-Length: 99999999999999999999",),
        ("Content-Length: 5\nX: y",),
        ("X: a\x00b", "Content-Length: 5"),
        ("Bad Name: x", "Content-Length: 5"),
    ],
)
def test_where_a_body_ends_is_never_two_things(served: Served, headers: tuple[str, ...]) -> None:
    """Whatever two readers might read differently is refused with the connection: what stands behind it is never a request (RFC 9112,
    sections 6.1, 6.3 and 11.2)."""
    before = len(served.seen.requests)
    answer = served.exchange(request(b"0\r\n\r\n" + SMUGGLED, *headers))
    found = statuses(answer)
    assert len(found) <= 1, answer
    assert all(400 <= status < 500 or status == 501 for status in found), answer
    assert b'"tools"' not in answer
    assert len(served.seen.requests) == before
    served.alive()


@pytest.mark.parametrize(
    "chunk", [b"5;" + b"x" * 200_000, b"5\r\nabcdeX", b"-5\r\nabcde\r\n0\r\n\r\n", b"zz\r\n", b"5\nabcde\n0\n\n"]
)
def test_a_chunk_that_is_none_ends_the_connection(served: Served, chunk: bytes) -> None:
    answer = served.exchange(request(b"", "Transfer-Encoding: chunked") + chunk + SMUGGLED)
    assert b'"tools"' not in answer
    assert statuses(answer) in ([400], [])
    served.alive()


def test_requests_in_one_packet_are_answered_in_their_order(served: Served) -> None:
    before = len(served.seen.requests)
    calls = [request(b'{"wait": %d}' % (number % 2 * 1000)) for number in range(40)]
    found = statuses(served.exchange(b"".join(calls) + request(b"{}", CLOSE)))
    assert found == [*([200, 400] * 20), 200]
    assert len(served.seen.requests) == before + 21


def test_a_refused_body_is_never_the_next_request(served: Served) -> None:
    """Nobody read it, so the connection ends with the refusal."""
    for first in (
        request(SMUGGLED, key="wrong"),
        request(SMUGGLED, "Content-Type: text/plain"),
        request(SMUGGLED, path="/v1/x"),
    ):
        answer = served.exchange(first + SMUGGLED)
        assert len(statuses(answer)) == 1, answer
        assert b"connection: close" in answer.lower()


def endless(pieces: int, size: int = 65_536) -> Iterator[bytes]:
    piece = b"%x\r\n%s\r\n" % (size, b"a" * size)
    for _ in range(pieces):
        yield piece


@pytest.mark.parametrize("key", ["key-of-bot", "wrong"])
def test_a_gigabyte_is_refused_without_being_kept(served: Served, key: str) -> None:
    served.alive()
    before = served.peak_kib()
    announced = served.exchange(request(b"a" * MIB, f"Content-Length: {1024 * MIB}", key=key))
    assert statuses(announced) == [413 if key == "key-of-bot" else 401]
    streamed = served.exchange(request(b"", "Transfer-Encoding: chunked", key=key), *endless(16_384))
    assert statuses(streamed) in (
        [413 if key == "key-of-bot" else 401],
        [],
    )  # the answer may be lost with what was not read
    assert served.peak_kib() - before < 24 * 1024
    served.alive()


def test_heads_without_end_are_refused_without_being_kept(served: Served) -> None:
    before = served.peak_kib()
    with served.connection() as wire:
        try:
            for _ in range(4096):
                wire.sendall(
                    b"X-Filler: " + b"a" * 16_000 + b"\r\n" if _ else b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                )
        except OSError:
            pass
        assert statuses(rest_of(wire)) in ([400], [])
    assert served.peak_kib() - before < 24 * 1024
    served.alive()


def test_connections_that_dribble_keep_nobody_else_waiting(served: Served) -> None:
    """How long a head and a body may take is held in test_connection.py."""
    before, held = served.peak_kib(), [served.connection() for _ in range(300)]
    try:
        for number, wire in enumerate(held):
            wire.sendall(request(b'{"arguments"', "Content-Length: 1000") if number % 2 else b"POST /v1/tool_calls HT")
        for _ in range(5):
            served.alive()
        assert served.peak_kib() - before < 24 * 1024
    finally:
        for wire in held:
            wire.close()
    served.alive()
