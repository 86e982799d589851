"""Calls with a token that an identity assertion (ID-JAG) is exchanged for: made as the caller, with no token seen or accepted elsewhere."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.authorization import Answered, Asked, Service, serving
from tests.services.enterprise import KEYS, SECRETS, Enterprise, enterprise_servers, id_token
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.identity.jwt import TokenRejected
from toolgen.model.call import Principal
from toolgen.model.result import Envelope

BEARER = {"type": "http", "scheme": "bearer"}
READ = {
    "operationId": "readMessages",
    "summary": "Read",
    "security": [{"login": []}],
    "responses": {"200": {"description": "ok"}},
}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Chat", "version": "1"},
    "paths": {"/messages": {"get": READ}},
    "components": {"securitySchemes": {"login": BEARER}},
}


@pytest.fixture
def enterprise(monkeypatch: pytest.MonkeyPatch) -> Iterator[Enterprise]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with enterprise_servers() as running:
        running.clock.advance(time.time() - running.clock.now())
        yield running


@pytest.fixture
def chat() -> Iterator[Service]:
    """An API that repeats the credential that it is shown."""
    with serving(lambda asked: Answered.json(shown=asked.headers.get("Authorization"))) as running:
        yield running


def project(root: Path, enterprise: Enterprise, chat: Service) -> Path:
    for name in ("specs", "policies"):
        (root / name).mkdir(parents=True)
    (root / "specs" / "chat.json").write_text(json.dumps(API))
    (root / "keys.json").write_text(json.dumps(KEYS))
    token = {"issuer": enterprise.provider.origin, "audience": "gateway-at-idp", "jwks": "../keys.json"}
    policy = {
        "principals": {"bot": {"roles": ["staff"]}},
        "issuers": {"staff": {"jwt": token, "roles": ["staff"]}},
        "rules": [{"id": "all", "to": ["staff"], "tools": ["*"], "verdict": "allow"}],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy))
    source = {"openapi": "specs/chat.json", "server": chat.origin, "auth": {"login": enterprise.written()}}
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"chat": source}}))
    return path


async def call(gateway: Gateway, who: Principal | str) -> Envelope:
    found = await gateway.call("chat__read_messages", {}, principal=who)
    assert isinstance(found, Envelope)
    return found


async def person(gateway: Gateway, token: str) -> Principal:
    found = await gateway.callers.authenticate(token)
    assert isinstance(found, Principal), found
    return found


def shown(chat: Service) -> list[str]:
    return [asked.headers["Authorization"] for asked in chat.asked]


async def test_a_call_is_made_as_its_caller_and_no_token_is_seen(
    tmp_path: Path, enterprise: Enterprise, chat: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = {name: id_token(enterprise.provider.origin, name) for name in ("ann", "bob")}
    async with Gateway.load(project(tmp_path / "p", enterprise, chat)) as gateway:
        answers = [await call(gateway, await person(gateway, tokens[name])) for name in ("ann", "bob", "ann")]
    assert {answer.status for answer in answers} == {"ok"}
    assert shown(chat) == ["Bearer canary-ann-j1", "Bearer canary-bob-j2", "Bearer canary-ann-j1"]
    texts = [caplog.text, repr(answers), *(json.dumps(answer.to_dict()) for answer in answers)]
    files = [path.read_bytes() for path in (tmp_path / "p").rglob("*") if path.is_file()]
    for secret in (*SECRETS.values(), *tokens.values(), *enterprise.given, "canary-ann-j1", "canary-bob-j2"):
        assert not [text for text in texts if secret in text]
        assert not [file for file in files if secret.encode() in file]


async def test_a_caller_without_a_token_of_its_own_is_refused(
    tmp_path: Path, enterprise: Enterprise, chat: Service
) -> None:
    async with Gateway.load(project(tmp_path / "p", enterprise, chat)) as gateway:
        answer = await call(gateway, "bot")
    assert answer.error is not None
    assert (answer.status, answer.error.code) == ("error", "forbidden")
    assert enterprise.provider.asked == enterprise.server.asked == chat.asked == []


async def test_token_substitution_sends_nothing_to_the_api(
    tmp_path: Path, enterprise: Enterprise, chat: Service
) -> None:
    enterprise.claims = {"sub": "bob"}
    async with Gateway.load(project(tmp_path / "p", enterprise, chat)) as gateway:
        answer = await call(gateway, await person(gateway, id_token(enterprise.provider.origin)))
    assert answer.error is not None
    assert answer.error.code == "secret_unavailable"
    assert "another person" in answer.error.message
    assert chat.asked == []


async def test_replay_of_an_assertion_at_the_gateway_is_refused(
    tmp_path: Path, enterprise: Enterprise, chat: Service
) -> None:
    """Neither one for the API's server, nor one whose audience is the gateway's own."""

    def for_gateway(asked: Asked) -> Answered:
        enterprise.claims = {"aud": "gateway-at-idp"}
        return enterprise.at_provider(asked)

    async with Gateway.load(project(tmp_path / "p", enterprise, chat)) as gateway:
        ann = await person(gateway, id_token(enterprise.provider.origin))
        assert (await call(gateway, ann)).status == "ok"
        enterprise.provider.answer = for_gateway
        await call(gateway, await person(gateway, id_token(enterprise.provider.origin, "bob")))
        assert len(enterprise.given) == 2
        for assertion in enterprise.given:
            assert isinstance(await gateway.callers.authenticate(assertion), TokenRejected)
