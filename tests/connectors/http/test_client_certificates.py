"""Client certificates, shown to a real TLS server that asks for one, and replaced while the gateway runs."""

from __future__ import annotations

import datetime
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.authorities import identified
from tests.connectors.http.bindings import binding, call
from tests.services.local import LocalServer, running
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.http.tls import client_certificate
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Allow

SCHEMES = {"mutual": SecurityScheme(type="mutualTLS")}
ROOT = ec.generate_private_key(ec.SECP256R1())


def pem(name: str) -> tuple[str, str]:
    """A certificate of the one authority, and its key; of the authority itself where the name is `authority`."""
    key = ROOT if name == "authority" else ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=key is ROOT, path_length=None), critical=True)
    )
    if name == "server":
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
    written = identified(builder, key, ROOT).sign(ROOT, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    return written, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass
class Files:
    """Where the client's PEM files are, and the server that wants to see them."""

    folder: Path
    origin: str

    def replace(self, name: str) -> None:
        certificate, key = pem(name)
        (self.folder / "client.pem").write_text(certificate, encoding="utf-8")
        (self.folder / "client.key").write_text(key, encoding="utf-8")

    def executor(self, **without: None) -> HttpExecutor:
        auth = {
            "certificate": SecretReference("file", str(self.folder / "client.pem")),
            "key": SecretReference("file", str(self.folder / "client.key")),
            "authorities": SecretReference("file", str(self.folder / "authority.pem")),
            **without,
        }
        return HttpExecutor(
            schemes=SCHEMES, auth={"mutual": auth}, secrets=SecretResolver({}), permit=lambda _: Allow(rule="test")
        )

    def call(self) -> Any:
        return call(binding(servers=(self.origin,), security=(("mutual",),)))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])  # type: ignore[attr-defined]
            body = json.dumps({"client": subject["commonName"]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    authority, _ = pem("authority")
    certificate, key = pem("server")
    (tmp_path / "authority.pem").write_text(authority, encoding="utf-8")
    (tmp_path / "server.pem").write_text(certificate + key, encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(tmp_path / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    class Server(LocalServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            try:
                with context.wrap_socket(request, server_side=True) as wrapped:
                    super().finish_request(wrapped, client_address)  # type: ignore[arg-type]
            except OSError:
                pass  # a client that showed nothing is not spoken to

    server = Server(("127.0.0.1", 0), Handler)
    given = Files(tmp_path, f"https://127.0.0.1:{server.server_port}")
    given.replace("client-1")
    with running(server):
        yield given


async def test_a_certificate_is_shown_and_a_replaced_one_is_shown_by_the_next_call(files: Files) -> None:
    executor, seen = files.executor(), []
    try:
        for name in ("client-1", "client-1", "client-2"):
            if name == "client-2":
                files.replace(name)
            outcome = await executor.execute(files.call())
            assert isinstance(outcome, Success), outcome
            seen.append(outcome.data)
    finally:
        await executor.close()
    assert seen == [{"client": "client-1"}, {"client": "client-1"}, {"client": "client-2"}]


async def failed(files: Files, executor: HttpExecutor) -> Failed:
    try:
        outcome = await executor.execute(files.call())
    finally:
        await executor.close()
    assert isinstance(outcome, Failed)
    return outcome


async def test_a_server_that_no_known_authority_vouches_for_is_told_nothing(files: Files) -> None:
    assert (await failed(files, files.executor(authorities=None))).error.code == "upstream_unavailable"


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("client.pem", "canary", "not a PEM certificate"),
        ("client.key", "canary", "not a PEM key"),
        ("authority.pem", "canary", "not PEM certificates"),
        ("client.key", pem("other")[1], "do not belong together"),
        ("client.pem", "", "cannot be read"),
    ],
)
async def test_files_that_do_not_fit_are_named_and_not_shown(files: Files, file: str, content: str, why: str) -> None:
    (files.folder / file).write_text(content, encoding="utf-8")
    error = (await failed(files, files.executor())).error
    assert error.code == "secret_unavailable"
    assert why in error.message
    assert "canary" not in error.message
    assert "PRIVATE" not in error.message


def test_a_certificate_prints_nothing_of_itself() -> None:
    certificate, key = pem("client")
    shown = client_certificate(certificate, key, "")
    assert repr(shown) == f"ClientCertificate({shown.digest[:12]})"
    assert shown != client_certificate(*pem("client"), "")
    with pytest.raises(SecretError):
        client_certificate(key, certificate, "")
