"""Servers that misbehave on purpose: whatever they send, a call ends in time, within its bytes, and says what happened."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.authorities import identified
from tests.connectors.http.bindings import binding, call
from tests.connectors.http.test_executor import Behaviour, Server, executor, run, saying
from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.connector import Timeouts
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Allow, Deny, Verdict
from toolgen.policy.egress import Egress

PATIENT = Timeouts(connect_s=30, first_byte_s=30, total_s=60)
IMPATIENT = Timeouts(connect_s=30, first_byte_s=0.3, total_s=1)
JSON = "Content-Type: application/json\r\n"


def raw(*parts: bytes, hold: bool = False) -> Behaviour:
    """Exactly these bytes, and then the end of the connection, or silence."""

    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if hold:
            await asyncio.Event().wait()

    return behave


def endless(head: bytes, piece: bytes) -> Behaviour:
    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        try:
            while True:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()  # there is always more in its buffer, which nobody will ever read

    return behave


async def reset(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    handle = writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def trickle(_: bytes, writer: asyncio.StreamWriter) -> None:
    """Never silent long enough for a timeout between two pieces, and never done."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        while True:
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)
    except ConnectionError:
        pass


def bomb(pack: Callable[[bytes], bytes], content: bytes, coding: str) -> Behaviour:
    """Packed when it is sent: each process of a run makes every behaviour."""

    async def behave(request: bytes, writer: asyncio.StreamWriter) -> None:
        body = pack(content)
        await saying(body, headers=f"{JSON}Content-Encoding: {coding}\r\n")(request, writer)

    return behave


ZEROS = bytes(64 * 1024 * 1024)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("behaviour", "codes"),
    [
        pytest.param(reset, {"upstream_error"}, id="reset in the body"),
        pytest.param(trickle, {"upstream_timeout", "response_too_large"}, id="one byte at a time"),
        pytest.param(raw(hold=True), {"upstream_timeout"}, id="silence"),
        pytest.param(raw(OK, hold=True), {"upstream_timeout"}, id="silence in the head"),
        pytest.param(
            raw(OK + b"Content-Length: 10\r\n\r\n{", hold=True), {"upstream_timeout"}, id="silence in the body"
        ),
        pytest.param(raw(OK + b"Content-Length: 10\r\n\r\n{}"), {"upstream_error"}, id="shorter than it says"),
        pytest.param(
            raw(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), {"upstream_error"}, id="no last chunk"
        ),
        pytest.param(
            raw(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
            {"upstream_error"},
            id="bad chunk size",
        ),
        pytest.param(
            raw(OK + b"Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}"), {"upstream_error"}, id="two lengths"
        ),
        pytest.param(raw(OK + b"Content-Length: 2, 30\r\n\r\n{}"), {"upstream_error"}, id="two lengths in one"),
        pytest.param(raw(OK + b"Content-Length: -2\r\n\r\n{}"), {"upstream_error"}, id="negative length"),
        pytest.param(
            raw(OK + b"Content-Length: 99999999999999999999999\r\n\r\n{}"), {"upstream_error"}, id="absurd length"
        ),
        # RFC 9112, section 6.3: it ought to be handled as an error.
        pytest.param(
            raw(OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
            {"upstream_error"},
            id="length and chunks",
        ),
        pytest.param(raw(b"220 smtp.test ESMTP\r\n"), {"upstream_error"}, id="another protocol"),
        pytest.param(raw(b"{}"), {"upstream_error"}, id="HTTP/0.9"),
        pytest.param(raw(b"\x16\x03\x01" * 100), {"upstream_error"}, id="TLS on a plain port"),
        pytest.param(raw(OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}"), {"upstream_error"}, id="NUL in a header"),
        pytest.param(raw(OK + b"X : a\r\nContent-Length: 2\r\n\r\n{}"), {"upstream_error"}, id="space before a colon"),
        pytest.param(
            raw(OK + b"A: " + b"a" * 2_000_000 + b"\r\n\r\n{}"), {"upstream_error"}, id="a header without end"
        ),
        pytest.param(endless(OK, b"X-A: b\r\n" * 100), {"upstream_error"}, id="headers without end"),
        pytest.param(
            endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), {"upstream_timeout", "upstream_error"}, id="1xx without end"
        ),
        pytest.param(
            endless(OK + JSON.encode() + b"\r\n", b"[" * 65536), {"response_too_large"}, id="a body without end"
        ),
        pytest.param(
            endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"e" * 60000 + b"\r\nx\r\n"),
            {"upstream_error"},
            id="chunk extensions",
        ),
        pytest.param(bomb(gzip.compress, ZEROS, "gzip"), {"response_too_large"}, id="gzip bomb"),
        pytest.param(bomb(zlib.compress, ZEROS, "deflate"), {"response_too_large"}, id="deflate bomb"),
        # Neither was asked for, so a server that sends it is not understood, and nothing of it is unpacked.
        pytest.param(bomb(zstandard.compress, ZEROS, "zstd"), {"upstream_error"}, id="zstd bomb"),
        pytest.param(bomb(zstandard.compress, b"[1]", "zstd"), {"upstream_error"}, id="zstd"),
        pytest.param(bomb(lambda body: gzip.compress(body)[:-6], b"{}", "gzip"), {"upstream_error"}, id="cut gzip"),
        pytest.param(bomb(lambda body: body, b"not gzip at all", "gzip"), {"upstream_error"}, id="no gzip"),
    ],
)
def test_a_misbehaving_server_is_told_as_what_it_is(behaviour: Behaviour, codes: set[str]) -> None:
    timeouts = IMPATIENT if "upstream_timeout" in codes else PATIENT
    outcome, _ = run(behaviour, binding(), timeouts=timeouts)
    assert isinstance(outcome, Failed), outcome
    assert outcome.error.code in codes, outcome.error


@pytest.mark.parametrize(
    ("behaviour", "data"),
    [
        pytest.param(
            raw(b"HTTP/1.0 200 OK\r\n" + JSON.encode() + b'\r\n{"a":1}'), {"a": 1}, id="HTTP/1.0 until the end"
        ),
        pytest.param(
            raw(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
                + OK
                + JSON.encode()
                + b"Content-Length: 2\r\n\r\n{}"
            ),
            {},
            id="1xx before",
        ),
        pytest.param(
            raw(
                OK
                + JSON.encode()
                + b'Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"evil":1}'
            ),
            {},
            id="more than it says",
        ),
        pytest.param(bomb(zlib.compress, b"[1]", "deflate"), [1], id="deflate"),
        pytest.param(
            saying(b"a\x1b[31mb\xe2\x80\xaec", headers="Content-Type: text/plain\r\n"),
            "a[31mbc",
            id="terminal and bidi controls",
        ),
    ],
)
def test_what_is_odd_but_right_is_read(behaviour: Behaviour, data: Any) -> None:
    outcome, _ = run(behaviour, binding(), timeouts=PATIENT)
    assert isinstance(outcome, Success), outcome
    assert outcome.data == data


async def test_an_answer_behind_another_is_never_taken_for_the_next_calls() -> None:
    """What a server sends beyond its answer must not answer somebody else's request on the same connection."""
    poisoned = (
        OK
        + JSON.encode()
        + b"Content-Length: 2\r\n\r\n{}"
        + OK
        + JSON.encode()
        + b'Content-Length: 10\r\n\r\n{"evil":1}'
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = True
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(poisoned if first else OK + b"Content-Length: 2\r\n\r\n{}")
            await writer.drain()
            first = False

    sender = executor(timeouts=PATIENT)
    async with stream_server(serve) as port:
        bound = binding(servers=(f"http://127.0.0.1:{port}",))
        found = [await sender.execute(call(bound)) for _ in range(4)]
        await sender.close()
    assert all("evil" not in json.dumps(one.data) for one in found)


def test_a_nested_bomb_is_unpacked_once_at_most() -> None:
    outcome, _ = run(
        bomb(lambda body: gzip.compress(gzip.compress(body)), ZEROS, "gzip, gzip"), binding(), timeouts=PATIENT
    )
    if isinstance(outcome, Success):
        assert len(json.dumps(outcome.data)) < 2_000_000
    else:
        assert outcome.error.code in {"response_too_large", "upstream_error"}


async def test_a_name_that_changes_between_two_calls_is_refused_and_never_dialled() -> None:
    """DNS rebinding: public when it is first looked at, loopback once nobody looks."""
    answers: list[Sequence[str]] = [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]]
    dialled: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    def permit(destination: Destination) -> Verdict:
        if destination.address:
            dialled.append(destination.address)
        verdict = Egress().check(destination.host, destination.port, destination.address)
        return Allow(rule="first") if len(dialled) == 1 else verdict

    server = Server(saying(b"{}"))
    async with server.serving() as port:
        first = executor(permit=permit, resolver=resolve)
        bound = binding(servers=(f"http://api.test:{port}",))
        one = await first.execute(call(bound))
        await first.close()
        second = executor(permit=permit, resolver=resolve)
        two = await second.execute(call(bound))
        await second.close()
    asked = len(server.heads)
    assert isinstance(one, Success)
    assert two.error.code == "egress_refused"
    assert asked == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The files of an authority, and of a server that it vouches for."""

    authority: Path
    certificate: Path
    key: Path


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: tuple[str, ec.EllipticCurvePrivateKey], days: int
) -> bytes:
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    builder = x509.CertificateBuilder()
    builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
    builder = builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer[0])]))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + datetime.timedelta(days=3 + days))
    builder = builder.add_extension(x509.BasicConstraints(ca=key is issuer[1], path_length=None), critical=True)
    if key is not issuer[1]:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    builder = identified(builder, key, issuer[1])
    return builder.sign(issuer[1], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def certified(folder: Path, name: str, *, days: int = 1) -> Certified:
    """A certificate for a name, good for as many days from now, or by as many days too old."""
    key, root = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    files = Certified(authority=folder / "ca.pem", certificate=folder / "cert.pem", key=folder / "key.pem")
    files.authority.write_bytes(_signed("authority", root, ("authority", root), 1))
    files.certificate.write_bytes(_signed(name, key, ("authority", root), days))
    encoded = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(*encoded))
    return files


@asynccontextmanager
async def over_tls(files: Certified, heads: list[bytes]) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        await saying(b"{}")(b"", writer)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    async with stream_server(serve, tls=context) as port:
        yield port


async def _loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("name", "days", "trusted", "sent"),
    [
        pytest.param("api.test", 1, True, True, id="good"),
        pytest.param("api.test", 1, False, False, id="an authority nobody knows"),
        pytest.param("other.test", 1, True, False, id="another name"),
        pytest.param("api.test", -1, True, False, id="expired"),
    ],
)
async def test_only_a_good_certificate_hears_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, days: int, trusted: bool, sent: bool
) -> None:
    files = certified(tmp_path, name, days=days)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))

    heads: list[bytes] = []
    async with over_tls(files, heads) as port:
        sender = executor(resolver=_loopback, timeouts=PATIENT)
        outcome = await sender.execute(call(binding(method="POST", servers=(f"https://api.test:{port}",))))
        await sender.close()
    assert isinstance(outcome, Success) is sent
    assert bool(heads) is sent
    if isinstance(outcome, Failed):
        assert outcome.error.code == "upstream_unavailable"
        assert outcome.delivery.unsent
        assert "certificate" in outcome.error.message


async def test_a_refused_destination_is_refused_before_tls(tmp_path: Path) -> None:
    heads: list[bytes] = []
    async with over_tls(certified(tmp_path, "api.test"), heads) as port:
        sender = executor(permit=lambda _: Deny(rule="r", reason="no", code="egress_refused"))
        outcome = await sender.execute(call(binding(servers=(f"https://127.0.0.1:{port}",))))
        await sender.close()
    assert outcome.error.code == "egress_refused"
    assert heads == []
