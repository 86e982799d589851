"""Cross-app access for people of hosted clients: the id token of their sign-in goes to the identity provider alone, while it is valid."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.console.people import form_token
from tests.gateway.clients import JSON, bearer
from tests.gateway.sign_in.places import Place, opened, place, policy_of, write_project
from tests.gateway.sign_in.test_registered import CLIENTS, asked, settings
from tests.services.authorization import Answered, Asked, serving
from tests.services.enterprise import RESOURCE, SECRETS, Enterprise, enterprise_servers
from tests.services.identity_provider import CLIENT, IdentityProvider
from toolgen.core.clock import FixedClock
from toolgen.gateway.sign_in.records import SignInGrant

SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Chat", "version": "1"},
    "security": [{"login": []}],
    "paths": {"/messages": {"get": {"operationId": "listMessages", "responses": {"200": {"description": "ok"}}}}},
    "components": {"securitySchemes": {"login": {"type": "http", "scheme": "bearer"}}},
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chat__list_messages", "arguments": {}}}


def sources(root: Path, api: str, auth: dict[str, Any]) -> dict[str, Any]:
    (root / "chat.json").write_text(json.dumps(SPEC))
    chat = {"openapi": str(root / "chat.json"), "server": api, "auth": {"login": auth}}
    return {"shop": {"sql": "sqlite:///specs/shop.db"}, "chat": chat}


def policy(provider: IdentityProvider) -> dict[str, Any]:
    made = policy_of(provider)
    made["rules"] = [{"id": "chat", "to": ["staff"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}]
    made["toolsets"] = {"shop": {"tools": ["shop__query"]}}
    return made


def written(enterprise: Enterprise, provider: IdentityProvider, **changes: Any) -> dict[str, Any]:
    """The credential, at the provider that people sign in at. Its exchange is on another port, as the provider of these tests has none."""
    enterprise.claims["iss"] = provider.issuer
    return {**enterprise.written(issuer=provider.issuer), **changes}


async def called(here: Place, token: str) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(f"{here.url}/mcp", json=CALL, headers=JSON | bearer(token))


async def test_a_person_of_a_hosted_client_acts_upstream_by_an_assertion(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    clock = FixedClock(time.time())
    asked_api: list[Asked] = []

    def api(asked: Asked) -> Answered:
        asked_api.append(asked)
        return Answered.json(messages=[])

    with enterprise_servers() as enterprise, serving(api) as service:
        enterprise.clock = clock
        own = {"sources": sources(tmp_path, service.origin, written(enterprise, provider)), "policy": policy(provider)}
        async with place(tmp_path, provider, clock, **own) as here:
            client = await here.client()
            tokens = await here.tokens(client)
            said = await called(here, tokens["access_token"])
            assert said.json()["result"].get("isError") is not True, said.text
            assert asked_api[0].headers["Authorization"] == "Bearer canary-ann-j1"
            (shown,) = enterprise.provider.asked
            assert shown.form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token"
            assert shown.form["resource"] == RESOURCE
            assert here.gateway.sign_in is not None
            (grant,) = await here.gateway.sign_in.store.all(SignInGrant)
            assert shown.form["subject_token"] == grant.id_token
            kept = b"".join(one.read_bytes() for one in here.gateway.settings.state_dir.glob("sign-in.db*"))
            assert grant.id_token.encode() not in kept
            assert grant.id_token not in repr(grant) + json.dumps(here.recorded())
            # A refresh keeps it, and after its end nobody is asked with it.
            again = (await here.refresh(client, tokens["refresh_token"])).json()
            clock.advance(700)
            again = (await here.refresh(client, again["refresh_token"])).json()
            late = await called(here, again["access_token"])
            assert "sign in again" in late.text
            assert len(asked_api) == len(enterprise.provider.asked) == 1


async def test_token_passthrough(tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a system that is called collects the tokens of the people who call it (MCP's security best practices)."""
    monkeypatch.setenv("CHAT_TOKEN", "token-of-the-gateway")
    asked_api: list[Asked] = []

    def api(asked: Asked) -> Answered:
        asked_api.append(asked)
        return Answered.json(401, messages=[]) if len(asked_api) == 1 else Answered.json(messages=[])

    with serving(api) as service:
        made = sources(tmp_path, service.origin, {})
        made["chat"]["auth"]["login"] = "${env:CHAT_TOKEN}"
        async with place(tmp_path, provider, sources=made, policy=policy(provider)) as here:
            tokens = await here.tokens(await here.client())
            for _ in range(2):
                await called(here, tokens["access_token"])
        assert [one.headers["Authorization"] for one in asked_api] == ["Bearer token-of-the-gateway"] * len(asked_api)
        assert asked_api
        sent = repr([(one.path, dict(one.headers), one.body) for one in asked_api])
        assert not any(token in sent for token in (tokens["access_token"], tokens["refresh_token"], "staff:ann"))


async def test_a_person_in_the_console_acts_upstream_by_an_assertion(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id token is encrypted in the session, and is not used after its end."""
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    own = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": "${env:SIGN_IN_SECRET}"}
    console = {"url": url, "viewers": ["staff"], "sign_in": own}
    with enterprise_servers() as enterprise, serving(lambda _: Answered.json(messages=[])) as service:
        enterprise.clock = FixedClock(time.time())
        chat = sources(tmp_path, service.origin, written(enterprise, provider))
        path = write_project(
            tmp_path / "project", provider, url, policy=policy(provider), sources=chat, console=console
        )
        async with opened(path, listener) as gateway, httpx.AsyncClient(base_url=url) as browser:

            async def called_there() -> str:
                sent = await browser.get("/console/oidc")
                assert (await browser.get(provider.authorize(sent.headers["location"]))).status_code == 200
                page = await browser.get("/console/tools/chat__list_messages")
                form = {"form_token": form_token(page.text)}
                return (await browser.post("/console/tools/chat__list_messages", data=form)).text

            await called_there()
            assert [one.headers["Authorization"] for one in service.asked] == ["Bearer canary-ann-j1"]
            (shown,) = enterprise.provider.asked
            kept = b"".join(one.read_bytes() for one in gateway.settings.state_dir.iterdir() if one.is_file())
            assert shown.form["subject_token"].encode() not in kept
            provider.token["exp"] = int(time.time()) - 1  # within the leeway of a sign-in
            assert "sign in again" in await called_there()
            assert len(service.asked) == len(enterprise.provider.asked) == 1


async def test_an_id_token_is_not_exchanged_as_an_access_token(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    with enterprise_servers() as enterprise:
        exchange = {
            "subject_token": "principal",
            "token_url": f"{enterprise.provider.origin}/token",
            "client_id": "gateway-at-idp",
            "client_secret": "${env:IDP_SECRET}",
        }
        own = {"sources": sources(tmp_path, enterprise.server.origin, exchange), "policy": policy(provider)}
        async with place(tmp_path, provider, **own) as here:
            said = await called(here, (await here.tokens(await here.client()))["access_token"])
            assert "caller's access token" in said.text
            assert not enterprise.provider.asked


async def test_no_id_token_is_kept_where_no_source_needs_it(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path, CLIENTS)) as here:
        chat = {"client_id": "chat", "client_secret": "canary-secret-of-the-runner"}
        answer = await here.agreed({**chat, "redirect_uris": CLIENTS["chat"]["redirect_uris"]})
        assert (
            await here.redeem({**chat, "redirect_uris": CLIENTS["chat"]["redirect_uris"]}, answer["code"])
        ).is_success
        assert (await asked(here)).status_code == 200
        assert here.gateway.sign_in is not None
        assert {one.id_token for one in await here.gateway.sign_in.store.all(SignInGrant)} == {""}
