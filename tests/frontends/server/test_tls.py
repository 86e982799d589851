"""TLS of the gateway's own: who comes in, what a slow, broken or foreign client gets, and files that change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from tests.authorities import CLIENT, Authority
from tests.exhaustive import spread
from tests.gateway.clients import JSON, bearer
from tests.gateway.gateways import FakeGateway
from tests.gateway.governed import project, upstream
from tests.messages import line_names
from tests.served_workers import HEALTH, serving, until
from toolgen.config.gateway import TlsFiles
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.server import tls
from toolgen.frontends.server.tls import ServerCertificate, TlsConnection

RULES = [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]
HELLO = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"r" * 32  # the beginning of a ClientHello
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    found: Callable[[], asyncio.AbstractEventLoop] = request.param
    return found


@pytest.fixture(name="ca")
def _ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


def files(ca: Authority, *, clients: Authority | None = None, name: str = "server", **issued: Any) -> TlsFiles:
    certificate, key = ca.issue(name, **issued)
    where = "toolgen.yaml:3"
    return TlsFiles(certificate=certificate, key=key, client_ca=clients and clients.path, where=where)


class Listening:
    def __init__(self, port: int, server: HttpServer, pending: Connections, certificate: ServerCertificate) -> None:
        self.port, self.server, self.pending, self.certificate = port, server, pending, certificate


@contextlib.asynccontextmanager
async def listening(found: TlsFiles, most: int = 8, gateway: FakeGateway | None = None) -> AsyncIterator[Listening]:
    """A gateway's connections behind TLS, in this process."""
    server, certificate = HttpServer(App(gateway or FakeGateway()), Connections()), ServerCertificate(found)
    pending = TlsConnection.pending(most=most)
    loop = asyncio.get_running_loop()
    accepting = await loop.create_server(partial(TlsConnection, server, certificate, pending), "127.0.0.1", 0)
    try:
        yield Listening(accepting.sockets[0].getsockname()[1], server, pending, certificate)
    finally:
        accepting.close()
        await server.drain(10)


def trusting(ca: Authority, *, shows: tuple[Path, Path] | None = None, most: Any = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca.path)
    if most is not None:
        context.maximum_version = most
    if shows is not None:
        context.load_cert_chain(*shows)
    return context


async def asked(port: int, context: ssl.SSLContext, sent: bytes = GET) -> bytes:
    """The beginning of the answer over TLS; what the client makes of a refusal raises."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(sent)
        return await reader.read(12)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def raw(port: int, sent: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the connection ends."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("loop_factory")
async def test_calls_are_answered_over_tls(ca: Authority, version: ssl.TLSVersion) -> None:
    async with listening(files(ca)) as gateway:
        url = f"https://127.0.0.1:{gateway.port}"
        async with httpx.AsyncClient(verify=trusting(ca, most=version), headers=bearer()) as http:
            for size in (1, 20_000, 1_000_000):  # the last neither comes nor goes in one piece
                text = "a" * size
                sent = {"arguments": {"text": text}}
                answer = await http.post(f"{url}/v1/tools/test__echo/call", json=sent, headers=JSON)
                assert answer.json()["data"]["text"] == text
        assert gateway.pending.count == 0


@pytest.mark.usefixtures("loop_factory")
async def test_old_versions_and_weak_ciphers_are_refused(ca: Authority) -> None:
    async with listening(files(ca)) as gateway:
        old = trusting(ca)
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        weak = trusting(ca, most=ssl.TLSVersion.TLSv1_2)
        weak.set_ciphers("ECDHE-ECDSA-AES128-SHA256:AES128-SHA")
        for context in (old, weak):
            with pytest.raises(OSError):  # noqa: PT011 - an alert, or the end
                await asked(gateway.port, context)
        assert (await asked(gateway.port, trusting(ca))).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("loop_factory")
async def test_plain_http_is_told_and_ends(ca: Authority) -> None:
    async with listening(files(ca)) as gateway:
        async with raw(gateway.port, GET) as reader:
            answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"use https://" in answer
        assert b"\r\ncontent-length: %d\r\n" % len(answer.partition(b"\r\n\r\n")[2]) in answer


@pytest.mark.parametrize("sent", [b"\x16", HELLO, b"\x16\x03\x01\xff\xff" + b"\xff" * 300, b"\x16" * 5000])
@pytest.mark.usefixtures("loop_factory")
async def test_half_and_broken_handshakes_end_in_time(
    ca: Authority, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_HANDSHAKE_S", 0.2)

    async with listening(files(ca)) as gateway, raw(gateway.port, sent) as reader:
        answer = await ended(reader)
        assert not answer or answer[0] == 0x15  # an alert
        assert gateway.pending.count == 0
        assert gateway.server.open == set()


@pytest.mark.usefixtures("loop_factory")
async def test_slow_handshakes_give_way_to_those_who_come(ca: Authority) -> None:
    async with listening(files(ca), most=3) as gateway, contextlib.AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(raw(gateway.port, HELLO)) for _ in range(8)]
        for _ in range(5):
            assert (await asked(gateway.port, trusting(ca))).startswith(b"HTTP/1.1 200")
        for reader in slow[:6]:
            assert await ended(reader) == b""
        assert gateway.pending.count <= 3
        assert gateway.server.connections.count <= 1  # a handshake takes no place of a connection


@pytest.mark.usefixtures("loop_factory")
async def test_handshakes_under_way_do_not_keep_a_gateway_that_stops(ca: Authority) -> None:
    async with listening(files(ca)) as gateway, raw(gateway.port, HELLO) as reader:
        while not gateway.pending.count:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await gateway.server.drain(60)
        assert await ended(reader) == b""


@pytest.mark.usefixtures("loop_factory")
async def test_nobody_may_renegotiate(ca: Authority, tmp_path: Path) -> None:
    """Python's client cannot ask for it, so OpenSSL's own does."""

    async with listening(files(ca)) as gateway:
        command = [
            "openssl",
            "s_client",
            "-connect",
            f"127.0.0.1:{gateway.port}",
            "-tls1_2",
            "-CAfile",
            str(ca.path),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate(b"R\n")
        assert b"RENEGOTIATING" in out
        assert b"no renegotiation" in out or b"handshake failure" in out
        assert (await asked(gateway.port, trusting(ca))).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("loop_factory")
async def test_a_client_shows_a_certificate_of_its_authority(ca: Authority, tmp_path: Path) -> None:
    clients, foreign = Authority(tmp_path, "clients"), Authority(tmp_path, "foreign")
    good = clients.issue("good", usage=CLIENT)
    others = {
        "none": None,
        "expired": clients.issue("expired", usage=CLIENT, days=-1),
        "of another authority": foreign.issue("stranger", usage=CLIENT),
        "a server's": clients.issue("other"),
    }

    async with listening(files(ca, clients=clients)) as gateway:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            shown = trusting(ca, shows=good, most=version)
            assert (await asked(gateway.port, shown)).startswith(b"HTTP/1.1 200")
            for why, certificate in others.items():
                context = trusting(ca, shows=certificate, most=version)
                with contextlib.suppress(OSError):  # the alert, where it is read before the connection is gone
                    assert await asked(gateway.port, context) == b"", why
        assert gateway.server.connections.count <= 1


@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "session-ids"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("loop_factory")
async def test_client_certificates_are_asked_for_on_every_connection(
    ca: Authority, tmp_path: Path, version: ssl.TLSVersion, *, tickets: bool
) -> None:
    clients = Authority(tmp_path, "clients")
    shown = trusting(ca, shows=clients.issue("good", usage=CLIENT), most=version)
    if not tickets:
        shown.options |= ssl.OP_NO_TICKET

    def connect(port: int, session: ssl.SSLSession | None) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port))
        return shown.wrap_socket(plain, server_hostname="127.0.0.1", session=session)

    def used(secured: ssl.SSLSocket) -> None:
        secured.sendall(GET)
        assert secured.recv(12).startswith(b"HTTP/1.1 200")

    async with listening(files(ca, clients=clients)) as gateway:

        def resumes() -> None:
            with connect(gateway.port, None) as first:
                used(first)
                session = first.session
                for _ in range(2):  # while the first connection is open
                    with connect(gateway.port, session) as again:
                        used(again)
                        assert not again.session_reused
            with connect(gateway.port, session) as again:  # and after it
                used(again)
                assert not again.session_reused

        await asyncio.to_thread(resumes)


@pytest.mark.parametrize("flags", [[], ["-no_ticket"]], ids=["tickets", "session-ids"])
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.usefixtures("loop_factory")
async def test_a_saved_session_does_not_stand_for_a_client_certificate(
    ca: Authority, tmp_path: Path, version: str, flags: list[str]
) -> None:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    clients = Authority(tmp_path, "clients")
    certificate, key = clients.issue("good", usage=CLIENT)
    saved = tmp_path / "session.pem"
    request = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    async with listening(files(ca, clients=clients)) as gateway:

        async def s_client(*options: str) -> bytes:
            process = await asyncio.create_subprocess_exec(
                *(openssl, "s_client", "-connect", f"127.0.0.1:{gateway.port}", version, *flags, *options),
                *("-CAfile", str(ca.path), "-ign_eof"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            return (await process.communicate(request))[0]

        with_it = ("-cert", str(certificate), "-key", str(key))
        assert b"HTTP/1.1 200" in await s_client(*with_it, "-sess_out", str(saved))
        if not saved.exists():  # no session was given to the client at all
            return
        again = await s_client("-sess_in", str(saved))
        assert b"Reused, " not in again
        assert b"HTTP/1.1" not in again
        assert b"HTTP/1.1 200" in await s_client(*with_it, "-sess_in", str(saved))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("loop_factory")
async def test_sessions_are_taken_up_again_where_no_client_certificate_is_asked_for(
    ca: Authority, version: ssl.TLSVersion
) -> None:
    context = trusting(ca, most=version)

    async with listening(files(ca)) as gateway:

        def reused() -> bool:
            session = None
            for _ in range(2):
                plain = socket.create_connection(("127.0.0.1", gateway.port))
                with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secured:
                    secured.sendall(GET)
                    assert secured.recv(12).startswith(b"HTTP/1.1 200")
                    session, reused = secured.session, bool(secured.session_reused)
            return reused

        assert await asyncio.to_thread(reused)


def replaced(found: TlsFiles, by: tuple[Path, Path]) -> None:
    """As certificate managers do it: each file is put in the place of the old one."""
    os.replace(by[0], found.certificate)
    os.replace(by[1], found.key)


@pytest.mark.usefixtures("loop_factory")
async def test_changed_files_are_used_for_new_connections(
    ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "_LOOK_S", 0.01)
    (tmp_path / "b").mkdir()
    other, found = Authority(tmp_path / "b", "ca"), files(ca)
    caplog.set_level(logging.INFO, "toolgen")

    async with listening(found) as gateway:
        watching = asyncio.create_task(gateway.certificate.watch())
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=trusting(ca))
        found.key.write_text("a broken key")
        while "the changed certificate is not used" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert line_names(caplog.text, "server.key ", "not be used")
        assert (await asked(gateway.port, trusting(ca))).startswith(b"HTTP/1.1 200")
        replaced(found, other.issue("next"))
        while "the certificate was read again" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await asked(gateway.port, trusting(other))).startswith(b"HTTP/1.1 200")
        with pytest.raises(ssl.SSLCertVerificationError):
            await asked(gateway.port, trusting(ca))
        writer.write(GET)  # an old connection goes on
        assert (await reader.read(12)).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()
        watching.cancel()
    assert caplog.text.count("is not used") == 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda found: found.certificate.unlink(),
            "gateway.tls.certificate: .*server.crt cannot be read: No such",
        ),
        (lambda found: found.certificate.write_text("x"), "gateway.tls.key: server.key cannot be used"),
        (lambda found: found.key.write_text("x"), "gateway.tls.key: server.key cannot be used"),
        (lambda found: found.client_ca.write_text("x"), "gateway.tls.client_ca: clients.pem contains no certificate"),
        (
            lambda found: os.replace(found.key.parent / "b.key", found.key),
            "server.key is not the key of the certificate",
        ),
        (lambda found: os.replace(found.key.parent / "c.key", found.key), "the key is encrypted"),
    ],
)
def test_files_that_cannot_be_used_are_named(ca: Authority, tmp_path: Path, spoil: Any, said: str) -> None:
    found = files(ca, clients=Authority(tmp_path, "clients"))
    ca.issue("b")
    ca.issue("c", password=b"secret-canary")
    spoil(found)
    with pytest.raises(ConfigError, match=said) as caught:
        ServerCertificate(found)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("days", "said"), [(-1, "has expired on"), (3, "expires on"), (30, "")])
def test_the_end_of_a_certificate_is_told(
    ca: Authority, caplog: pytest.LogCaptureFixture, days: int, said: str
) -> None:
    certificate = ServerCertificate(files(ca, days=days))
    end = certificate.end()
    assert end is not None
    assert end == pytest.approx(time.time() + days * 86_400, abs=86_400)
    assert said in caplog.text
    assert bool(caplog.text) is bool(said)


@pytest.mark.parametrize("workers", spread([1, 2], 2))
def test_a_gateway_serves_over_tls_and_reads_its_files_again(ca: Authority, tmp_path: Path, workers: int) -> None:
    found = files(ca)
    (tmp_path / "b").mkdir()
    other = Authority(tmp_path / "b", "ca")
    who = {"authorization": "Bearer key-of-bot"}
    secured = {"certificate": str(found.certificate), "key": str(found.key)}
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {"rules": RULES}, gateway={"tls": secured})
        with serving(path, "--workers", str(workers)) as served:
            assert served.url.startswith("https://127.0.0.1:")
            told = httpx.get(served.url + "/metrics", verify=trusting(ca), timeout=120).text
            ends = [
                float(one) for one in re.findall(r"^toolgen_tls_certificate_end_seconds{.*} (\S+)$", told, re.MULTILINE)
            ]
            assert ends
            assert set(ends) == {ServerCertificate(found).end()}
            answer = httpx.post(served.url + HEALTH, json={}, headers=who, verify=trusting(ca), timeout=120)
            assert answer.json()["status"] == "ok"
            replaced(found, other.issue("next"))
            served.process.send_signal(signal.SIGHUP)
            until(lambda: all(answers(served.url, other) for _ in range(8 * workers)))
            assert served.end() == 0


def answers(url: str, ca: Authority) -> bool:
    try:
        return httpx.get(f"{url}/healthz", verify=trusting(ca), timeout=120).status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.exhaustive)])
def test_a_gateway_does_not_start_without_its_files(tmp_path: Path, workers: str) -> None:
    secured = {"certificate": "no.crt", "key": "no.key"}
    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": RULES}, gateway={"tls": secured})
    said = r"gateway\.tls\.certificate: .*no\.crt cannot be read"
    with pytest.raises(AssertionError, match=said), serving(path, "--workers", workers):
        pass
