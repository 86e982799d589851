"""Bad input to REST, sent as bytes to a gateway in a process of its own: each has its answer, and memory stays where it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.raw import CLOSE, MIB, Served, endless, request, rest_of, serving, statuses


def said(answer: bytes) -> dict[str, Any]:
    """The error of the first answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    error: dict[str, Any] = json.loads(rest[:length])["error"]
    return error


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("bad") / "p") as found:
        yield found


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
    calls = [request(b'{"wait": %d}' % (30 + number % 2 * 1000)) for number in range(40)]
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


@pytest.mark.parametrize("key", ["key-of-bot", "wrong"])
def test_a_gigabyte_is_refused_without_being_kept(served: Served, key: str) -> None:
    served.alive()
    before = served.resident_kib()
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
    before = served.resident_kib()
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
    before, held = served.resident_kib(), [served.connection() for _ in range(300)]
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
