"""Token endpoints and Vaults behind a private authority that ask for a client's certificate: real TLS servers, right and wrong material."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.connectors.http.test_client_certificates import pem
from tests.services.local import LocalServer, running
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.secrets import SecretResolver, parse_reference
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, literals, parsed_auth, read_form
from toolgen.model.verdict import Allow


@dataclass
class Guarded:
    """A server that talks to clients of the one authority alone. `seen` has who came, and with what form."""

    origin: str
    folder: Path
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def form(self, **more: Any) -> OAuth:
        tls = {name: f"${{file:{self.folder / name}.pem}}" for name in ("certificate", "key", "authorities")}
        written = {
            "client_id": "me",
            "authentication": "tls_client_auth",
            "token_url": f"{self.origin}/token",
            "tls": tls,
            **more,
        }
        found = read_form(parsed_auth({name: value for name, value in written.items() if value is not None}))
        assert isinstance(found, OAuth)
        return found

    async def fetch(self, form: OAuth) -> str:
        secrets = SecretResolver({"S": "secret"})
        grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="test"), clock=FixedClock())
        return await grants.grant(form, f"{self.origin}/token").fetch("", None)

    async def vault(self, **environment: str) -> str:
        names = {"VAULT_CLIENT_CERT": "certificate", "VAULT_CLIENT_KEY": "key", "VAULT_CACERT": "authorities"}
        files = {variable: str(self.folder / f"{name}.pem") for variable, name in names.items()}
        given = {"VAULT_ADDR": self.origin, "VAULT_TOKEN": "t", **files, **environment}
        secrets = SecretResolver({name: value for name, value in given.items() if value}, clock=FixedClock())
        return (await secrets.fetch(parse_reference("${vault:secret/app#token}"))).reveal()

    def show(self, certificate: str, key: str) -> None:
        (self.folder / "certificate.pem").write_text(certificate, encoding="utf-8")
        (self.folder / "key.pem").write_text(key, encoding="utf-8")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    found = Guarded("", tmp_path)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            peer = self.connection.getpeercert()  # type: ignore[attr-defined]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            found.seen.append((dict(pair[0] for pair in peer["subject"])["commonName"], dict(parse_qsl(body))))
            token = {"access_token": f"token-{len(found.seen)}", "token_type": "Bearer"}
            secret = {"data": {"data": {"token": "kept"}}}
            answer = json.dumps(token if self.command == "POST" else secret).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _any

        def log_message(self, *_: Any) -> None: ...

    certificate, key = pem("server")
    (tmp_path / "authorities.pem").write_text(pem("authority")[0], encoding="utf-8")
    (tmp_path / "server.pem").write_text(certificate + key, encoding="utf-8")
    found.show(*pem("gateway"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(tmp_path / "authorities.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = LocalServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        found.origin = server.url.replace("http://", "https://")
        yield found


async def test_a_client_is_known_by_its_certificate_alone(guarded: Guarded) -> None:
    assert await guarded.fetch(guarded.form()) == "token-1"
    assert guarded.seen == [("gateway", {"grant_type": "client_credentials", "client_id": "me"})]


async def test_a_certificate_may_stand_beside_a_secret(guarded: Guarded) -> None:
    form = guarded.form(authentication="client_secret_post", client_secret="${env:S}")
    assert await guarded.fetch(form) == "token-1"
    assert guarded.seen[0][1]["client_secret"] == "secret"


async def test_a_replaced_certificate_is_shown_with_the_next_token(guarded: Guarded) -> None:
    await guarded.fetch(guarded.form())
    guarded.show(*pem("successor"))
    await guarded.fetch(guarded.form())
    assert [name for name, _ in guarded.seen] == ["gateway", "successor"]
    assert await guarded.vault() == "kept"
    guarded.show(*pem("third"))
    assert await guarded.vault() == "kept"
    assert [name for name, _ in guarded.seen[2:]] == ["successor", "third"]


def _encrypted(key: str) -> str:
    loaded = load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"canary-password")).decode()


def _wrong(what: str) -> tuple[str, str]:
    certificate, key = pem("gateway")
    return {
        "another key": (certificate, pem("other")[1]),
        "no PEM": ("canary-certificate", key),
        "no key": (certificate, "canary-key"),
        "an encrypted key": (certificate, _encrypted(key)),
    }[what]


@pytest.mark.parametrize("what", ["another key", "no PEM", "no key", "an encrypted key"])
async def test_material_that_is_none_is_said_and_nothing_is_sent(guarded: Guarded, what: str) -> None:
    guarded.show(*_wrong(what))
    for asking in (lambda: guarded.fetch(guarded.form()), guarded.vault):
        with pytest.raises(SecretError, match="or do not match") as caught:
            await asking()
        assert "canary" not in str(caught.value)
        assert "PRIVATE" not in str(caught.value)
    assert guarded.seen == []


async def test_without_the_authority_or_the_certificate_there_is_no_answer(guarded: Guarded) -> None:
    tls = {name: f"${{file:{guarded.folder / name}.pem}}" for name in ("certificate", "key", "authorities")}
    for without in ({"authorities"}, {"certificate", "key"}):
        left = {name: value for name, value in tls.items() if name not in without}
        form = guarded.form(authentication=None, client_secret="${env:S}", tls=left)
        with pytest.raises(SecretError, match="no answer from 127"):
            await guarded.fetch(form)
    with pytest.raises(SecretError, match="no answer from 127"):
        await guarded.vault(VAULT_CACERT="")
    with pytest.raises(SecretError, match="no answer from 127"):
        await guarded.vault(VAULT_CLIENT_CERT="", VAULT_CLIENT_KEY="")
    with pytest.raises(SecretError, match="VAULT_CACERT"):
        await guarded.vault(VAULT_CACERT="/nowhere/ca.pem")
    (guarded.folder / "authorities.pem").write_text("canary")
    with pytest.raises(SecretError, match="not PEM certificates") as caught:
        await guarded.vault()
    assert "canary" not in str(caught.value)
    assert guarded.seen == []


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"tls": {}}, "tls: takes"),
        ({"tls": "${file:/x}"}, "tls: must be"),
        ({"tls": {"certificate": "${file:/x}"}}, "with its key"),
        ({"tls": {"authority": "${file:/x}"}}, "does not belong here"),
        ({"tls": {"authorities": 5}}, "must be text"),
        (
            {"authentication": "tls_client_auth", "tls": {"authorities": "${file:/x}"}, "client_secret": None},
            "missing|takes",
        ),
        ({"authentication": "tls_client_auth", "tls": {"certificate": "${file:/x}", "key": "${file:/y}"}}, "no secret"),
        ({"token_url": "http://127.0.0.1/token", "tls": {"authorities": "${file:/x}"}}, "of https"),
    ],
)
def test_what_does_not_fit_together_is_an_error(written: Mapping[str, Any], why: str) -> None:
    whole = {"client_id": "me", "client_secret": "${env:S}", **written}
    with pytest.raises(ValueError, match=why):
        read_form(parsed_auth({name: value for name, value in whole.items() if value is not None}))


def test_a_key_that_is_written_out_is_noticed() -> None:
    parsed = parsed_auth({"client_id": "me", "tls": {"certificate": "${file:/x}", "key": "-----BEGIN"}})
    assert literals(parsed) == [("tls", "key")]
