"""Spellings of paths: one reaches each route, and any other that a proxy could take for another path is answered 400."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.clients import BASE, bearer, listening
from tests.gateway.gateways import FakeGateway
from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import Rejected, read_path
from toolgen.frontends.rest.openapi_document import openapi_json

DESCRIBED = json.loads(openapi_json())["paths"]
FIXED = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/mcp",
    "/openapi.json",
    "/.well-known/oauth-protected-resource",
    "/console",
]
ROUTES = sorted({*FIXED, *(re.sub(r"\{[^}]*\}", "x_1", path) for path in DESCRIBED)})
SAFE = st.text(st.characters(codec="utf-8", exclude_characters="/\\", exclude_categories=["Cc", "Cs"]), min_size=1)


def spellings(path: str) -> list[str]:
    """Other texts that some reader takes for the path. (One that begins otherwise is no target of a request.)"""
    return [one for one in _spelt(path) if one.startswith("/")]


def _spelt(path: str) -> Iterator[str]:
    for place, letter in enumerate(path):
        code = f"%{ord(letter):02x}"
        yield from {path[:place] + one + path[place + 1 :] for one in (code, code.upper())}
        if letter == "/":
            for other in ("//", "/./", "/x/../", "/%2e/", "/x/%2E./", "\\", "%5c", "%5C", "/;/", "/;a=b/"):
                yield path[:place] + other + path[place + 1 :]
    for ending in (
        "/.",
        "/..",
        "/x/..",
        ";",
        ";a=b",
        "//",
        "%00",
        "%0a",
        "%",
        "%g0",
        "%2",
        "%ff",
        "%c0%af",
        "\\",
        "|",
        '"',
    ):
        yield path + ending


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> tuple[int, Any]:
    key = bearer()["authorization"]
    writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: {key}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = int(re.search(r"content-length: (\d+)", head)[1])  # type: ignore[index]
    return int(head.split(" ")[1]), await reader.readexactly(length)


@pytest.mark.parametrize("route", ROUTES)
async def test_another_spelling_of_a_route_is_answered_400(route: str) -> None:
    app = App(FakeGateway())
    async with listening(app) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        status, body = await answered(reader, writer, route) if "events" not in route else (404, b"")
        assert b"plain spelling" not in body, status
        for origin in ("", "http://127.0.0.1:8080"):
            for spelling in spellings(route):
                status, body = await answered(reader, writer, origin + spelling)
                assert (status, b"plain spelling" in body) == (400, True), spelling
        writer.close()


@pytest.mark.parametrize("route", ROUTES)
async def test_another_spelling_of_a_route_is_answered_400_over_asgi(route: str) -> None:
    app = App(FakeGateway())
    for spelling in spellings(route):
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        host = (b"host", b"127.0.0.1:8080")
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": route,
            "query_string": b"",
            "headers": [host],
        }
        await app({**scope, "raw_path": spelling.encode()}, receive, send)
        assert sent[0]["status"] == 400, spelling


async def test_names_in_paths_are_encoded_where_they_have_to_be() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(App(FakeGateway())), base_url=BASE) as http:
        for name in ("a%20b", "%C3%A9", "%c3%a9", "a%3Ab", "a:b", "a%3Bb", "100%25"):
            answer = await http.get(f"/v1/calls/{name}", headers=bearer())
            assert answer.status_code == 404, name


@given(SAFE.filter(lambda text: text not in {".", ".."}))
def test_a_name_that_a_client_encodes_is_read_as_it_was(name: str) -> None:
    target = "/v1/tools/" + "".join(
        letter if re.fullmatch(r"[A-Za-z0-9._~-]", letter) else "".join(f"%{octet:02X}" for octet in letter.encode())
        for letter in name
    )
    assert read_path(target) == f"/v1/tools/{name}"


@given(st.text(st.sampled_from("/a.%2eE5cfFmM;\\0~é"), max_size=12))
def test_two_texts_are_never_read_as_one_route(text: str) -> None:
    """A path that is let in and needs no encoding is the path that was sent, letter by letter."""
    try:
        read = read_path(text)
    except Rejected:
        return
    if re.fullmatch(r"[A-Za-z0-9._~/-]*", read):
        assert read == text
        assert not {"", ".", ".."} & set(read.split("/")[1:-1])
