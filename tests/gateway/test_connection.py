from __future__ import annotations

import asyncio

import pytest

from tests.gateway.clients import listening, run
from tests.gateway.gateways import KEY, FakeGateway
from toolgen.gateway import connection, http
from toolgen.gateway.app import App

HEAD = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"


async def exchange(url: str, *parts: bytes) -> bytes:
    """Sends the parts and reads until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    for part in parts:
        writer.write(part)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_connection_whose_head_does_not_arrive_in_time_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SLOWEST_HEAD_S", 0.05)

    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            assert await exchange(url, sent) == b""

    run(main())


def test_a_second_head_on_one_connection_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SLOWEST_HEAD_S", 0.2)

    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            answer = await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /hea")
        assert answer.count(b"HTTP/1.1 200") == 1

    run(main())


def test_a_body_that_does_not_arrive_in_time_is_answered_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOWEST_BODY_S", 0.05)

    async def main() -> None:
        gateway = FakeGateway()
        async with listening(App(gateway)) as url:
            answer = await exchange(url, f"{HEAD}Content-Length: 100\r\n\r\n".encode(), b'{"jsonrpc":')
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert gateway.calls == []

    run(main())


def test_a_client_that_leaves_in_the_middle_of_its_body_calls_nothing() -> None:
    async def main() -> None:
        gateway = FakeGateway()
        async with listening(App(gateway)) as url:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(f"{HEAD}Content-Length: 100\r\n\r\n".encode() + b'{"jsonrpc":')
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            assert (
                await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            ).startswith(b"HTTP/1.1 200")
        assert gateway.calls == []

    run(main())


def test_two_requests_in_one_packet_are_answered_in_order() -> None:
    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            first = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            second = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            answer = await exchange(url, first + second)
        assert answer.index(b"200 OK") < answer.index(b"401 Unauthorized")

    run(main())
