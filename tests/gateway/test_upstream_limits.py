"""A service that says it has had enough is left alone, before it has to refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.projects import make_project
from tests.stream_servers import stream_server
from toolgen.frontends.python.gateway import Gateway


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK", "X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 60\r\n"),
        ("200 OK", 'RateLimit: "default";r=0;t=60\r\n'),
        ("429 Too Many Requests", "Retry-After: 60\r\n"),
        ("503 Service Unavailable", "Retry-After: 60\r\n"),
    ],
)
async def test_a_service_that_has_had_enough_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, headers: str
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "key-0123456789")
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        body = '{"id": 1}'
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())

    async with stream_server(answer) as port:
        address = f"http://127.0.0.1:{port}"
        async with Gateway.load(make_project(tmp_path, server=address)) as gateway:
            first = await gateway.call("pets__get_pet", {"petId": 1}, principal="bot")
            assert first.error is None or first.error.code == "upstream_error"
            second = await gateway.call("pets__get_pet", {"petId": 1}, principal="bot")
            assert second.error is not None
            assert (second.error.code, second.error.rule) == ("rate_limited", "upstream:pets")
            assert second.error.retry_after_s is not None
            assert 50 < second.error.retry_after_s <= 60
            other = await gateway.call("shop__list_tables", {}, principal="bot")
            assert other.status == "ok"
    assert len(heard) == 1
