"""A gateway behind HAProxy and nginx, which verify client certificates: nobody becomes the principal of one without it."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from tests.authorities import identified
from tests.gateway.raw import Served, rest_of, serving, statuses

DELETE = "/v1/tools/orders__delete_order/call"
BODY = b'{"arguments": {"id": "1"}}'

HAPROXY = """
defaults
  mode http
  timeout connect 60s
  timeout client 60s
  timeout server 60s
frontend front
  bind {socket} ssl crt {folder}/server.pem ca-file {folder}/ca.pem verify optional
  http-request del-header X-Client-Cert
  http-request set-header X-Client-Cert :%[ssl_c_der,base64]: if {{ ssl_c_used }}
  default_backend gateway
backend gateway
  server gateway 127.0.0.1:{port}
"""
NGINX = """
daemon off;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen unix:{socket} ssl;
    ssl_certificate {folder}/server.pem;
    ssl_certificate_key {folder}/server.pem;
    ssl_client_certificate {folder}/ca.pem;
    ssl_verify_client optional;
    location / {{
      proxy_pass http://127.0.0.1:{port};
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_set_header Host $host;
      proxy_set_header X-Client-Cert $ssl_client_escaped_cert;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Certificates:
    """A folder with an authority, a server's and a client's certificate, and the client's as each proxy writes it in a header."""

    folder: Path
    fingerprint: str
    written: tuple[str, ...]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority_key, authority = _certificate("CA", None, None)
    (folder / "ca.pem").write_bytes(_pem(authority))
    for name in ("server", "client"):
        key, made = _certificate(name, authority_key, authority)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.pem").write_bytes(_pem(made) + private)
    der = made.public_bytes(serialization.Encoding.DER)
    written = (f":{base64.b64encode(der).decode()}:", quote(_pem(made).decode(), safe=""))
    return Certificates(folder, hashlib.sha256(der).hexdigest(), written)


def _certificate(
    name: str, signer: ec.EllipticCurvePrivateKey | None, issuer: x509.Certificate | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    )
    signer = key if signer is None else signer
    return key, identified(builder, key, signer).sign(signer, SHA256())


def _pem(made: x509.Certificate) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)


@contextmanager
def proxied(name: str, text: str, port: int, certificates: Certificates, folder: Path) -> Iterator[Path]:
    """A proxy that listens at a socket in the file system, so that no port can be somebody else's; yields its path."""
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    folder.mkdir()
    for file in ("server.pem", "ca.pem"):
        shutil.copy(certificates.folder / file, folder / file)
    where, config = folder / "front", folder / "proxy.conf"
    config.write_text(text.format(socket=where, folder=folder, port=port))
    options = ["-f", str(config), "-db"] if name == "haproxy" else ["-p", str(folder), "-c", str(config)]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([program, *options], stdout=said, stderr=said)
    try:
        while True:
            assert process.poll() is None, (folder / "said").read_text()
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(where)) == 0:
                    break
        yield where
    finally:
        process.terminate()
        process.wait(timeout=60)


def sender(where: Path, certificates: Certificates) -> Callable[[bytes, bool], bytes]:
    """What sends bytes through the proxy over TLS, with the client's certificate or without."""

    def send(sent: bytes, certified: bool) -> bytes:
        context = ssl.create_default_context(cafile=str(certificates.folder / "ca.pem"))
        if certified:
            context.load_cert_chain(certificates.folder / "client.pem")
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(60)
            plain.connect(str(where))
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
                wire.sendall(sent)
                return rest_of(wire)

    return send


@pytest.fixture(scope="module")
def served(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    policy = {
        "principals": {"mesh": {"mtls": {"fingerprint": f"sha256:{certificates.fingerprint}"}, "roles": ["mesh"]}},
        "rules": [
            {"id": "all", "to": ["mesh"], "tools": ["*"], "effects": ["read", "destructive"], "verdict": "allow"}
        ],
    }
    trusted = {
        "client_certificates": {"header": "X-Client-Cert", "proxies": ["127.0.0.1/32"]},
        "trusted_proxies": ["127.0.0.1/32"],
    }
    with serving(tmp_path_factory.mktemp("proxied") / "p", policy, gateway=trusted) as found:
        yield found


@pytest.mark.parametrize(("name", "text"), [("haproxy", HAPROXY), ("nginx", NGINX)])
def test_without_the_certificate_nobody_is_its_principal(
    name: str, text: str, served: Served, certificates: Certificates, tmp_path: Path
) -> None:
    head = f"POST {DELETE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    plain = f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    chunks = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n"
    with proxied(name, text, served.port, certificates, tmp_path / name) as where:
        send = sender(where, certificates)
        before = len(served.seen.requests)
        for written in certificates.written:
            field = f"X-Client-Cert: {written}\r\n".encode()
            for _ in range(5):
                assert statuses(send(chunks + field + b"\r\n", False)) in ([401], [400])
            forged = plain.replace(b"Content-Length", field + b"Content-Length")
            assert statuses(send(forged, False)) in ([401], [400])
        assert len(served.seen.requests) == before
        assert statuses(send(plain, True)) == [200]
        assert statuses(send(chunks + b"X: y\r\n\r\n", True)) == [200]
        assert len(served.seen.requests) == before + 2
