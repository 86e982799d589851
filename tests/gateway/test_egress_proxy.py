"""Calls through the proxy of the policy: what it is asked, what it may answer, and that nothing goes around it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.authorities import Authority
from tests.egress_proxies import PROXIES, ScriptedProxy, installed, real_proxy
from tests.messages import line_names
from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundRequest, RefusedError, UnreachableError, Via
from toolgen.model.result import Envelope
from toolgen.quality.doctor.scratch_gateway import ONE, Scratch, scratch

CANARY = "canary-password"
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'


class Service:
    """Counts connections and keeps the heads of requests."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = self.port = 0

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Service]:
        async with stream_server(self._serve, tls=tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(ANSWER)
            await writer.drain()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", CANARY)


@asynccontextmanager
async def behind(proxy: str, server: str, **egress: Any) -> AsyncIterator[Scratch]:
    async with scratch(server=server, real=True, policy={"egress": {"proxy": proxy, **egress}}) as place:
        yield place


async def called(place: Scratch) -> Envelope:
    return await place.gateway.call("trial__open", ONE, principal="agent")


def failed(answer: Envelope) -> tuple[str, str]:
    assert answer.error is not None, answer
    return answer.error.code, answer.error.message


async def test_the_proxy_is_asked_for_the_name_and_the_service_sees_nothing_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Service().serving() as service, ScriptedProxy(to=service.port).serving() as proxy:
        url = f"http://gateway:${{env:PROXY_PASSWORD}}@127.0.0.1:{proxy.port}"
        async with behind(url, "http://api.invalid:8080", allow=["api.invalid:8080"]) as place:
            for _ in range(3):
                answer = await called(place)
                assert (answer.status, answer.data) == ("ok", {"ok": True})
            record = b"".join(path.read_bytes() for path in place.folder.rglob("*") if path.is_file())
    assert [head.split(b"\r\n")[0] for head in proxy.heads] == [b"CONNECT api.invalid:8080 HTTP/1.1"]
    assert b"Proxy-Authorization: Basic Z2F0ZXdheTpjYW5hcnktcGFzc3dvcmQ=\r\n" in proxy.heads[0]
    assert service.connections == 1
    assert len(service.heads) == 3
    for said in (b"".join(service.heads), record, caplog.text.encode()):
        assert CANARY.encode() not in said
        assert b"Z2F0ZXdheT" not in said
    assert b"proxy" not in b"".join(service.heads).lower()


@pytest.mark.parametrize("name", PROXIES)
async def test_real_proxies_pass_calls_and_want_their_password(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed(name):
        pytest.skip(f"{name} is not installed: `make proxies` does that")
    authority = Authority(tmp_path, "service-ca")
    certificate, key = authority.issue("service")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with real_proxy(name) as port:
        url = f"http://gateway:${{env:PROXY_PASSWORD}}@127.0.0.1:{port}"
        async with Service().serving() as plain, Service().serving(context) as secured:
            for service, scheme in ((plain, "http"), (secured, "https")):
                to = f"127.0.0.1:{service.port}"
                async with behind(url, f"{scheme}://{to}", allow=[to], ca=str(authority.path)) as place:
                    answer = await called(place)
                    assert answer.status == "ok", answer.error
            monkeypatch.setenv("PROXY_PASSWORD", "wrong")
            async with behind(url, f"http://127.0.0.1:{plain.port}", allow=[f"127.0.0.1:{plain.port}"]) as place:
                code, message = failed(await called(place))
                assert code == "upstream_unavailable"
                assert line_names(message, "proxy", "credentials (40")


LIES = {
    "407": (
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        "upstream_unavailable",
        "(407)",
    ),
    "403": (b"HTTP/1.1 403 Forbidden\r\n\r\n<html>", "egress_refused", "refuses connections"),
    "502": (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "upstream_unavailable", "(502)"),
    "504": (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", "upstream_timeout", "(504)"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", "upstream_unavailable", "redirect"),
    "more": (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "upstream_unavailable", "data of its own"),
    "huge": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, "upstream_unavailable", "not HTTP/1.1"),
    "upgrade": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "upstream_unavailable", "not HTTP/1.1"),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "upstream_unavailable", "not HTTP/1.1"),
    "bare": (b"HTTP/1.1 200 OK\n\n", "upstream_unavailable", "not HTTP/1.1"),
    "other": (b"SSH-2.0-OpenSSH\r\n", "upstream_unavailable", "not HTTP/1.1"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_what_a_proxy_says_instead_of_a_tunnel_is_an_error_and_nothing_is_sent(lie: str) -> None:
    script, code, text = LIES[lie]
    async with Service().serving() as service, ScriptedProxy(script).serving() as proxy:
        to = f"127.0.0.1:{service.port}"
        async with behind(f"http://127.0.0.1:{proxy.port}", f"http://{to}", allow=[to]) as place:
            found, message = failed(await called(place))
    assert (found, text in message) == (code, True), (found, message)
    assert not service.connections


async def test_interim_answers_before_the_tunnel_are_skipped() -> None:
    script = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 200 OK\r\nVia: x\r\n\r\n"
    async with (
        Service().serving() as service,
        ScriptedProxy(script, to=service.port).serving() as proxy,
        behind(f"http://127.0.0.1:{proxy.port}", "http://api.invalid") as place,
    ):
        assert (await called(place)).status == "ok"


async def test_a_proxy_that_is_gone_or_silent_is_an_error_and_nothing_goes_around_it() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = closed.getsockname()[1]
        async with Service().serving() as service:
            to = f"127.0.0.1:{service.port}"
            async with behind(f"http://127.0.0.1:{gone}", f"http://{to}", private_networks="allow") as place:
                code, message = failed(await called(place))
            assert (code, line_names(message, "proxy", "reached")) == ("upstream_unavailable", True)
            assert not service.connections


@pytest.mark.parametrize(
    ("server", "egress"),
    [
        ("http://other.invalid", {"allow": ["api.invalid:80"]}),
        ("http://127.0.0.1:9", {}),
        ("http://10.0.0.1", {}),
        ("http://169.254.169.254", {"private_networks": "allow"}),
        ("http://[::ffff:10.0.0.1]", {}),
        ("http://localhost", {}),
        ("http://a.localhost", {}),
        ("http://metadata.google.internal", {"private_networks": "allow"}),
    ],
)
async def test_a_place_that_the_policy_does_not_open_is_refused_before_the_proxy_is_asked(
    server: str, egress: dict[str, Any]
) -> None:
    async with ScriptedProxy().serving() as proxy, behind(f"http://127.0.0.1:{proxy.port}", server, **egress) as place:
        assert failed(await called(place))[0] == "egress_refused"
    assert not proxy.heads


async def test_names_that_the_gateway_resolves_are_checked_and_the_proxy_is_told_the_address() -> None:
    async with Service().serving() as service, ScriptedProxy(to=service.port).serving() as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        async with behind(url, "http://localhost:8080", resolve="local") as place:
            assert failed(await called(place))[0] == "egress_refused"
        assert not proxy.heads
        async with behind(url, "http://localhost:8080", resolve="local", private_networks="allow") as place:
            assert (await called(place)).status == "ok"
    assert proxy.heads[0].split(b"\r\n")[0] in {b"CONNECT 127.0.0.1:8080 HTTP/1.1", b"CONNECT [::1]:8080 HTTP/1.1"}
    assert service.heads[0].split(b"\r\n")[1] == b"Host: localhost:8080"


async def test_direct_places_are_reached_without_the_proxy() -> None:
    async with Service().serving() as service, ScriptedProxy().serving() as proxy:
        to = f"127.0.0.1:{service.port}"
        async with behind(f"http://127.0.0.1:{proxy.port}", f"http://{to}", allow=[to], direct=[to]) as place:
            assert (await called(place)).status == "ok"
    assert not proxy.heads


async def test_a_proxy_over_tls_is_verified_by_its_own_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "proxy-ca")
    certificate, key = authority.issue("proxy")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with Service().serving(context) as service, ScriptedProxy(to=service.port).serving(context) as proxy:
        url = f"https://127.0.0.1:{proxy.port}"
        async with behind(url, "https://localhost:8443", private_networks="allow") as place:
            code, message = failed(await called(place))
            assert (code, "certificate" in message) == ("upstream_unavailable", True)
        assert not proxy.heads
        async with behind(url, "https://localhost:8443", private_networks="allow", ca=str(authority.path)) as place:
            answer = await called(place)
            assert answer.status == "ok", answer
    assert proxy.heads[0].startswith(b"CONNECT localhost:8443 ")


async def test_a_password_that_cannot_be_resolved_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROXY_PASSWORD")
    async with ScriptedProxy().serving() as proxy:
        url = f"http://gateway:${{env:PROXY_PASSWORD}}@127.0.0.1:{proxy.port}"
        async with behind(url, "http://api.invalid") as place:
            assert failed(await called(place))[0] == "secret_unavailable"
    assert not proxy.heads


@pytest.fixture
def asking() -> OutboundRequest:
    return OutboundRequest(method="GET", url="http://login.invalid:8080/keys")


async def test_requests_that_are_no_calls_go_through_the_proxy_too(asking: OutboundRequest) -> None:
    async with Service().serving() as service, ScriptedProxy(to=service.port).serving() as proxy:
        egress = {"allow": ["login.invalid:8080"]}
        async with behind(f"http://127.0.0.1:{proxy.port}", "http://api.invalid", **egress) as place:
            permit = place.gateway.current.permit
            via = Via(permit=permit, destination=Destination(host="", port=0))
            answer = await ask(asking, via)
            assert (answer.status, answer.body) == (200, b'{"ok":true}')
            with pytest.raises(RefusedError):
                await ask(OutboundRequest(method="GET", url="http://other.invalid/keys"), via)
    assert [head.split(b"\r\n")[0] for head in proxy.heads] == [b"CONNECT login.invalid:8080 HTTP/1.1"]


async def test_requests_that_are_no_calls_do_not_go_around_the_proxy(asking: OutboundRequest) -> None:
    async with (
        ScriptedProxy(LIES["407"][0]).serving() as proxy,
        behind(f"http://127.0.0.1:{proxy.port}", "http://api.invalid") as place,
    ):
        with pytest.raises(UnreachableError, match="407"):
            await ask(asking, Via(permit=place.gateway.current.permit))
