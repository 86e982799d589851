"""TLS of the client: certificates are held against the name that was asked for, and without a good one nothing is sent."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.authorities import identified
from tests.connectors.http.upstreams import OK, Asking, Server, answers, asked, dialer
from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connector import Timeouts
from toolgen.connectors.http.reply import BrokenError, UnsentError
from toolgen.core.errors import distrust_advice


def certificates(folder: Path, *names: x509.GeneralName) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for these names, and the authority that signed it."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    subjects = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("authority", "server")]

    def certificate(subject: int, extension: x509.ExtensionType) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subjects[subject])
            .issuer_name(subjects[0])
            .public_key(keys[subject].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=subject == 0)
        )
        return identified(builder, keys[subject], keys[0]).sign(keys[0], hashes.SHA256())

    authority = certificate(0, x509.BasicConstraints(ca=True, path_length=None))
    server = certificate(1, x509.SubjectAlternativeName(names))
    (folder / "authority.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(
        server.public_bytes(serialization.Encoding.PEM)
        + keys[1].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context, folder / "authority.pem"


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ssl.SSLContext]:
    """Makes a server's context whose authority is the machine's only one."""

    def trust(*names: x509.GeneralName) -> ssl.SSLContext:
        context, authority = certificates(tmp_path, *names)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        return context

    return trust


@pytest.mark.usefixtures("loop_factory")
async def test_a_certificate_is_held_against_the_name_and_not_the_address(
    trusted: Callable[..., ssl.SSLContext],
) -> None:
    context = trusted(x509.DNSName("api.invalid"))
    server = Server(OK, OK)
    found = await answers(server, asked(), asked("POST", body=b"x"), scheme="https", tls=context)
    assert [reply.body for reply in found] == [b"ok", b"ok"]
    assert server.connections == 1


@pytest.mark.usefixtures("loop_factory")
async def test_an_address_in_a_url_is_held_against_addresses(trusted: Callable[..., ssl.SSLContext]) -> None:
    context = trusted(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    (reply,) = await answers(Server(OK), asked(), scheme="https", host="127.0.0.1", tls=context)
    assert reply.body == b"ok"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("unable to get local issuer certificate", "set SSL_CERT_FILE"),
        ("UnknownIssuer", "set SSL_CERT_FILE"),
        ("Hostname mismatch, certificate is not valid for 'api.invalid'.", "use a name that the certificate is for"),
        ("IP address mismatch, certificate is not valid for '127.0.0.1'.", "use a name that the certificate is for"),
        ("certificate has expired", "have a new certificate made"),
        ("certificate is not yet valid", "set the clock"),
        ("Missing Authority Key Identifier", "key usage and key identifiers"),
        ("CA cert does not include key usage extension", "key usage and key identifiers"),
    ],
)
def test_what_is_wrong_with_a_certificate_says_what_to_do(reason: str, advice: str) -> None:
    assert advice in distrust_advice(reason)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.skipif(sys.version_info < (3, 13), reason="before Python 3.13 nobody asks for identifiers of keys")
async def test_a_certificate_without_identifiers_of_keys_is_told_apart(
    trusted: Callable[..., ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "identified", lambda builder, *_: builder)
    (found,) = await answers(Server(OK), asked(), scheme="https", tls=trusted(x509.DNSName("api.invalid")))
    assert isinstance(found, UnsentError)
    assert "key identifiers" in distrust_advice(found.reason), found.reason


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("name", ["other.invalid", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_sent_nothing(
    name: str, trusted: Callable[..., ssl.SSLContext]
) -> None:
    server = Server(OK)
    (found,) = await answers(server, asked(), scheme="https", tls=trusted(x509.DNSName(name)))
    assert isinstance(found, UnsentError)
    assert "certificate" in found.reason
    assert server.heads == []


@pytest.mark.usefixtures("loop_factory")
async def test_a_certificate_nobody_vouches_for_is_sent_nothing(
    trusted: Callable[..., ssl.SSLContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = trusted(x509.DNSName("api.invalid"))
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates(tmp_path / "other", x509.DNSName("x"))[1]))
    server = Server(OK)
    (found,) = await answers(server, asked(), scheme="https", tls=context)
    assert isinstance(found, UnsentError)
    assert server.heads == []


@pytest.mark.usefixtures("loop_factory")
async def test_old_tls_is_not_spoken(trusted: Callable[..., ssl.SSLContext]) -> None:
    context = trusted(x509.DNSName("api.invalid"))
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    (found,) = await answers(Server(OK), asked(), scheme="https", tls=context)
    assert isinstance(found, UnsentError)


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_without_tls_is_sent_nothing_in_the_clear() -> None:
    server = Server(OK)
    async with server.serving(scheme="https", timeouts=Timeouts(connect_s=0.5)) as client:
        with pytest.raises(UnsentError):
            await client.send(asked())
    assert not any(b"secret" in head for head in server.heads)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("said", [True, False], ids=["said to end", "cut off"])
async def test_an_answer_that_ends_with_its_connection_is_whole_only_when_tls_says_so(
    said: bool, trusted: Callable[..., ssl.SSLContext]
) -> None:
    """Without `close_notify` anybody on the way may have cut the answer (RFC 8446, section 6.1)."""
    context = trusted(x509.DNSName("api.invalid"))
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nall of it, or not")
            if said:
                with contextlib.suppress(OSError):
                    connection.unwrap()
            else:
                os.close(connection.detach())

    asking = Asking(f"https://api.invalid:{listener.getsockname()[1]}", dialer(Timeouts()), asyncio.Semaphore(PLACES))
    serving = threading.Thread(target=serve)
    serving.start()
    try:
        if said:
            assert (await asking.send(asked())).body == b"all of it, or not"
        else:
            with pytest.raises(BrokenError):
                await asking.send(asked())
    finally:
        await asking.dialer.close()
        serving.join()
        listener.close()
