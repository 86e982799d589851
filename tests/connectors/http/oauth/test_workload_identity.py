"""Tokens for the assertion of a workload (RFC 7523): the file as it is now, once, and no other grant in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.services.authorization import Answered, Asked, Service, serving, token
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, literals, parsed_auth, read_form
from toolgen.model.verdict import Allow

NOW = FixedClock().now()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(lambda asked: token(f"canary-{asked.form['assertion'][-8:]}")) as running:
        yield running


def assertion(subject: str = "system:serviceaccount:tools:gateway", **more: Any) -> str:
    return jwt.encode({"iss": "https://cluster.example", "sub": subject, "exp": NOW + 600, **more}, "k" * 32, "HS256")


def form_of(path: Path, **more: Any) -> OAuth:
    read = read_form(parsed_auth({"assertion": f"${{file:{path}}}", **more}))
    assert isinstance(read, OAuth)
    return read


def client_of(form: OAuth, service: Service, clock: FixedClock | None = None) -> Any:
    secrets = SecretResolver({"SECRET": "canary-secret"})
    grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="test"), clock=clock or FixedClock())
    return grants.grant(form, f"{service.origin}/token")


async def test_the_assertion_of_the_platform_is_presented(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "token"
    path.write_text(assertion(), encoding="utf-8")
    await client_of(form_of(path, client_id="gateway", scopes=["orders"]), service).fetch("", None)
    (asked,) = service.asked
    assert asked.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": path.read_text(encoding="utf-8"),
        "client_id": "gateway",
        "scope": "orders",
    }
    assert "Authorization" not in asked.headers


async def test_each_request_has_the_assertion_of_now(tmp_path: Path, service: Service) -> None:
    path, clock = tmp_path / "token", FixedClock()
    path.write_text(assertion("one"), encoding="utf-8")
    client = client_of(form_of(path), service, clock)
    await client.fetch("", None)
    renewed = tmp_path / "renewed"
    renewed.write_text(assertion("two", exp=NOW + 9000), encoding="utf-8")
    os.replace(renewed, path)
    clock.advance(3600)
    await client.fetch("", None)
    subjects = [
        jwt.decode(asked.form["assertion"], options={"verify_signature": False})["sub"] for asked in service.asked
    ]
    assert subjects == ["one", "two"]


async def test_a_client_may_prove_itself_besides(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "token"
    path.write_text(assertion(), encoding="utf-8")
    await client_of(form_of(path, client_id="gateway", client_secret="${env:SECRET}"), service).fetch("", None)
    assert service.asked[0].headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "text", ["canary", "", "a.b.c", assertion(exp=NOW - 1), jwt.encode({"sub": "canary"}, "k" * 32, "HS256")]
)
async def test_what_no_server_could_accept_is_sent_nowhere(tmp_path: Path, service: Service, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SecretError) as caught:
        await client_of(form_of(path), service).fetch("", None)
    assert service.asked == []
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_a_refusal_is_told_and_not_tried_again(tmp_path: Path, service: Service, code: str) -> None:
    def refuse(_: Asked) -> Answered:
        return Answered.json(400, error=code, error_description="canary")

    service.answer = refuse
    path = tmp_path / "token"
    path.write_text(assertion(), encoding="utf-8")
    client = client_of(form_of(path), service)
    for _ in range(3):
        with pytest.raises(SecretError) as caught:
            await client.fetch("", None)
        assert "canary" not in str(caught.value)
    assert len(service.asked) == 1


def test_a_written_out_assertion_is_a_secret() -> None:
    assert literals(parsed_auth({"assertion": "eyJ"})) == [("assertion",)]
    for more in ({"refresh_token": "${env:R}"}, {"subject_token": "principal"}, {"issuer": "https://x.example"}):
        with pytest.raises(ValueError, match=r"assertion|refresh_token|subject_token|issuer"):
            read_form(parsed_auth({"assertion": "${env:A}", **more}))
