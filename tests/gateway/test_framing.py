"""Raw bytes to a served gateway: what could be read in two ways is answered 400 and closed, and a trailer is nobody's credential."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from bench.fuzz_http import fuzz
from tests.exhaustive import size
from tests.frontends.http.test_http1 import BAD
from tests.gateway.raw import CALL, CLOSE, Served, request, rest_of, serving, statuses

FUZZ_S = size("TOOLGEN_FUZZ_S", 3, 60)
"""`python -m bench.fuzz_http` runs the fuzzer for as long as one likes."""

HEAD = (f"POST {CALL} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
TRAILERS = {
    "Authorization": "Bearer key-of-bot",
    "X-On-Behalf-Of": "ann",
    "X-Toolset": "nothing",
    "X-Conversation-Id": "a",
    "Content-Type": "text/plain",
    "Host": "evil.example",
    "Content-Length": "5",
    "Origin": "http://evil.example",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("framing") / "p") as found:
        yield found


def parts(*headers: str, trailer: str) -> tuple[bytes, bytes, bytes]:
    head = "\r\n".join((*HEAD, CLOSE, *headers, "", ""))
    return head.encode(), b"2\r\n{}\r\n0\r\n", f"{trailer}\r\n\r\n".encode()


@pytest.mark.parametrize("name", TRAILERS)
def test_a_trailer_is_no_header_however_it_arrives(served: Served, name: str) -> None:
    trailer, key = f"{name}: {TRAILERS[name]}", "Authorization: Bearer key-of-bot"
    for headers, expected in (((), 401), ((key,), 200)):
        head, body, behind = parts(*headers, trailer=trailer)
        whole = head + body + behind
        cuts = [
            [whole],
            [head + body, behind],
            [head, body + behind],
            [head, body, behind],
            [head, body[:3], body[3:] + behind],
        ]
        draw = random.Random(name)
        for _ in range(4):
            at = sorted(draw.sample(range(1, len(whole)), 2))
            cuts.append([whole[: at[0]], whole[at[0] : at[1]], whole[at[1] :]])
        for pieces in cuts:
            assert statuses(served.exchange(*pieces)) == [expected], pieces


@pytest.mark.parametrize("bad", [pytest.param(data, id=name) for name, data in BAD.items()])
def test_what_could_be_read_in_two_ways_is_answered_400_in_our_envelope_and_closed(served: Served, bad: bytes) -> None:
    before = len(served.seen.requests)
    answer = served.exchange(bad)
    found = statuses(answer)
    # A body is only looked at as far as somebody wants it: whoever has no credential is told so first.
    assert found in ([400], [401]), answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-type: application/json" in head
    error = json.loads(body)
    assert error["status"] == "refused"
    assert error["error"]["code"] in {"bad_request", "unauthenticated"}
    assert len(served.seen.requests) == before


def test_a_bad_body_calls_nothing_and_is_answered_400(served: Served) -> None:
    before = len(served.seen.requests)
    for body in (b"5;x=y\r\n", b"2\r\n{}\r\n0;x\r\n\r\n", b"2\n{}\n0\n\n", b"2\r\n{}X", b"2\r\n{}\r\n0\r\nX\r\n\r\n"):
        assert statuses(served.exchange(request(b"", "Transfer-Encoding: chunked") + body)) == [400]
    assert len(served.seen.requests) == before


def test_a_refusal_comes_behind_the_answer_to_the_request_before_it(served: Served) -> None:
    answer = served.exchange(request(b"{}") + b"GET / HTTP/2.0\r\n\r\n")
    assert statuses(answer) == [200, 400]


def test_the_body_of_a_request_that_asks_for_another_protocol_is_its_body(served: Served) -> None:
    inner = request(b"{}", path="/v1/inner")
    for more in ((inner,), (inner[:20], inner[20:])):
        head = request(b"", "Connection: upgrade, close", "Upgrade: h2c", f"Content-Length: {len(inner)}")
        answer = served.exchange(head + more[0], *more[1:])
        assert statuses(answer) == [400]
        assert b"JSON" in answer


def test_what_comes_behind_the_last_request_is_nothing(served: Served) -> None:
    before = len(served.seen.requests)
    assert statuses(served.exchange(request(b"{}", CLOSE) + request(b"{}"))) == [200]
    assert len(served.seen.requests) == before + 1


def test_requests_without_end_in_one_connection_are_not_kept(served: Served) -> None:
    served.alive()
    before = served.resident_kib()
    small = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with served.connection() as wire:
        wire.settimeout(0.5)
        try:
            for _ in range(4_000):  # nobody takes the answers, so at some point nothing more is read
                wire.sendall(small * 50)
        except (TimeoutError, OSError):
            pass
        assert served.peak_kib() - before < 24 * 1024
        wire.settimeout(60)
        served.alive()
    with served.connection() as wire:
        wire.sendall(small * 500 + small.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert statuses(rest_of(wire)) == [200] * 501


@pytest.mark.sweep
def test_what_is_answered_is_what_a_strict_reader_expects(served: Served) -> None:
    counts, fault = fuzz(served.port, seed=15, seconds=FUZZ_S)
    assert not fault, fault
    assert min(counts[200], counts[400], counts[401]) > 0
    served.alive()
