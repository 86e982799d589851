"""Attacks on the authorization server, by the names that RFC 9700 section 4 and MCP's security best practices give them.

After each of them nobody has a token that is not their own, nothing was sent to an attacker, and what was refused is on record.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import jwt
import pytest

from tests.frontends.console.people import form_token
from tests.gateway.clients import JSON, bearer
from tests.gateway.issuer import token as provider_token
from tests.gateway.sign_in.places import REDIRECT, VERIFIER, Place, challenge_of, place, policy_of, write_project
from tests.projects import audit_entries
from tests.services.identity_provider import CLIENT, IdentityProvider
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.sign_in.opening import open_sign_in
from toolgen.gateway.sign_in.records import SignInGrant
from toolgen.gateway.sign_in.sign_in_log import MAX_REFUSALS
from toolgen.model.redirect_uris import redirect_fault, redirect_fits


async def grants(here: Place) -> tuple[SignInGrant, ...]:
    assert here.gateway.sign_in is not None
    return await here.gateway.sign_in.store.all(SignInGrant)


def changed(location: str, **changes: str | None) -> str:
    """A response of the provider with other members."""
    url = httpx.URL(location)
    query = {name: value for name, value in ({**dict(url.params), **changes}).items() if value is not None}
    return f"{str(url).partition('?')[0]}?{urlencode(query)}"


# Redirect URIs (section 4.1) and open redirectors (section 4.11)


@pytest.mark.parametrize(
    "redirect",
    [
        "https://evil.example/callback",
        f"{REDIRECT}/",
        f"{REDIRECT}?x=1",
        f"{REDIRECT}#x",
        "https://client.example.com/callback/../x",
        "https://client.example.com:8443/callback",
        "https://client.example.com@evil.example/callback",
        "https://CLIENT.example.com/callback",
        "http://client.example.com/callback",
        "",
        None,
    ],
)
async def test_open_redirect_by_another_redirect_uri(
    tmp_path: Path, provider: IdentityProvider, redirect: str | None
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        answer = await here.browser.get(here.asked(client, redirect_uri=redirect))
        assert (answer.status_code, "location" in answer.headers) == (400, False)
        assert "client.example.com" in answer.text
        assert here.recorded("authorization_refused")


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": "token"},
        {"resource": "https://evil.example/mcp"},
        {"code_challenge": None},
        {"request": "e30.e30."},
        {"response_mode": "fragment"},
    ],
)
async def test_open_redirect_by_an_error_response(
    tmp_path: Path, provider: IdentityProvider, changes: dict[str, str | None]
) -> None:
    """An attacker registers a client, and has the gateway send browsers to it by requests that are wrong (section 4.11.2)."""
    async with place(tmp_path, provider) as here:
        client = await here.client(redirect_uris=["https://phishing.example/"])
        answer = await here.browser.get(here.asked(client, **changes))
        assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://evil.example/cb",
        "https://user@host.example/cb",
        "https:///cb",
        "https://host.example/cb#fragment",
        "https://host.example/c b",
        "https://host.example\\@evil.example/",
        "//host.example/cb",
        "vbscript:x",
        "ws://host.example/",
        "",
        "x" * 3000,
    ],
)
async def test_a_redirect_uri_that_nobody_may_register(tmp_path: Path, provider: IdentityProvider, uri: str) -> None:
    assert redirect_fault(uri)
    async with place(tmp_path, provider) as here:
        answer = await here.register(redirect_uris=[uri])
        assert answer.status_code == 400
        assert answer.json()["error"] in {"invalid_redirect_uri", "invalid_client_metadata"}


@pytest.mark.parametrize(
    ("registered", "asked", "fits"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:5000/cb", True),
        ("http://localhost/cb", "http://localhost:5000/cb", True),
        ("http://[::1]/cb", "http://[::1]:5000/cb", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/other", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb?x=1", False),
        ("http://127.0.0.1/cb", "http://localhost:5000/cb", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:5000/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:x/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1@evil.example/cb", False),
        ("https://client.example/cb", "https://client.example:5000/cb", False),
        ("https://127.0.0.1/cb", "https://127.0.0.1:5000/cb", False),
        ("app://host/cb", "app://host:1/cb", False),
    ],
)
def test_any_port_of_loopback_and_nothing_else(registered: str, asked: str, fits: bool) -> None:
    assert redirect_fits(registered, asked) is fits


# Mix-up (section 4.4)


@pytest.mark.parametrize("iss", ["https://evil.example", "", None])
async def test_mix_up_by_the_answer_of_another_provider(
    tmp_path: Path, provider: IdentityProvider, iss: str | None
) -> None:
    async with place(tmp_path, provider) as here:
        provider.answer = {"iss": iss}
        page = await here.page(here.asked(await here.client()))
        assert page.status_code == 403
        assert await grants(here) == ()
        assert here.recorded("sign_in_refused")


async def test_mix_up_is_seen_by_the_client(tmp_path: Path, provider: IdentityProvider) -> None:
    """The response names the issuer (RFC 9207), also where the person did not agree."""
    async with place(tmp_path, provider) as here:
        client = await here.client()
        assert (await here.agreed(client))["iss"] == here.url
        sent = await here.answer(await here.page(here.asked(client)), answer="deny")
        assert dict(httpx.URL(sent.headers["location"]).params)["iss"] == here.url


# CSRF (section 4.7) and session fixation


async def test_csrf_with_the_answer_of_another_browser(tmp_path: Path, provider: IdentityProvider) -> None:
    """An attacker signs in as themselves, and has the victim's browser come back: the victim would work in the attacker's name."""
    async with place(tmp_path, provider) as here, httpx.AsyncClient() as attacker:
        client = await here.client()
        sent = await attacker.get(here.asked(client))
        location = provider.authorize(sent.headers["location"])
        assert (await here.browser.get(location)).status_code == 403
        await here.browser.get(here.asked(client))
        assert (await here.browser.get(location)).status_code == 403
        assert await grants(here) == ()


@pytest.mark.parametrize("state", [None, "", "guessed"])
async def test_csrf_with_another_state(tmp_path: Path, provider: IdentityProvider, state: str | None) -> None:
    async with place(tmp_path, provider) as here:
        sent = await here.browser.get(here.asked(await here.client()))
        location = provider.authorize(sent.headers["location"])
        assert (await here.browser.get(changed(location, state=state))).status_code == 403
        assert (await here.browser.get(location)).status_code == 403  # the attempt is used up


async def test_csrf_of_the_consent_form(tmp_path: Path, provider: IdentityProvider) -> None:
    """A page of another site sends the form, or somebody sends it with the token of their own page."""
    async with place(tmp_path, provider) as here, httpx.AsyncClient() as attacker:
        client = await here.client()
        page = await here.page(here.asked(client))
        own = await here.page(here.asked(client), attacker)
        form = {"form_token": form_token(page.text), "answer": "allow"}
        cross = await here.browser.post(
            f"{here.url}/oauth/consent", data=form, headers={"sec-fetch-site": "cross-site"}
        )
        assert cross.status_code == 403
        foreign = {"form_token": form_token(own.text), "answer": "allow"}
        assert (await here.browser.post(f"{here.url}/oauth/consent", data=foreign)).status_code == 403
        assert (await here.browser.post(f"{here.url}/oauth/consent", data=form)).status_code == 403  # used up
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.post(f"{here.url}/oauth/consent", data=form)).status_code == 403


async def test_session_fixation_by_a_planted_cookie(tmp_path: Path, provider: IdentityProvider) -> None:
    """An attacker plants the cookie of their attempt. Once the victim has signed in, the cookie is another one, which nobody knew."""
    async with place(tmp_path, provider) as here, httpx.AsyncClient() as attacker:
        client = await here.client()
        sent = await attacker.get(here.asked(client))
        planted = attacker.cookies["toolgen_authorization"]
        here.browser.cookies.set("toolgen_authorization", planted, path="/oauth")
        page = await here.browser.get(provider.authorize(sent.headers["location"]))
        assert page.status_code == 200  # the victim is asked about the attacker's client, by its name and host
        assert f"toolgen_authorization={planted}" not in page.headers["set-cookie"]
        form = {"form_token": form_token(page.text), "answer": "allow"}
        assert (await attacker.post(f"{here.url}/oauth/consent", data=form)).status_code == 403


async def test_the_cookie_of_https_cannot_be_set_by_other_hosts(tmp_path: Path, provider: IdentityProvider) -> None:
    path = write_project(tmp_path / "project", provider, "https://tools.example.com")
    async with Gateway.load(path) as gateway:
        app = App(gateway, url=gateway.settings.url)
        app.open_console(lambda authentication: console_of(gateway, authentication))
        open_sign_in(app, gateway.sign_in, gateway)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://tools.example.com") as http:
            said = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
            client = (await http.post("/oauth/register", json=said)).json()
            query = {
                "response_type": "code",
                "client_id": client["client_id"],
                "redirect_uri": REDIRECT,
                "code_challenge": challenge_of(VERIFIER),
                "code_challenge_method": "S256",
            }
            sent = await http.get("/oauth/authorize", params=query)
            cookie = sent.headers["set-cookie"]
            assert cookie.startswith("__Host-toolgen_authorization=")
            for part in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/;"):
                assert part in cookie
        await app.close()


# Codes: injection (section 4.5), replay, and PKCE downgrade (section 4.8)


async def test_code_injection_with_the_code_of_another_client(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        victim, attacker = await here.client(), await here.client(client_name="Evil")
        answer = await here.agreed(victim)
        stolen = await here.redeem(attacker, answer["code"])
        assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
        assert await grants(here) == ()
        assert (await here.redeem(victim, answer["code"])).status_code == 200


@pytest.mark.parametrize("verifier", ["x" * 50, None, "", "short"])
async def test_code_injection_without_the_verifier(
    tmp_path: Path, provider: IdentityProvider, verifier: str | None
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        answer = await here.agreed(client)
        stolen = await here.redeem(client, answer["code"], code_verifier=verifier)
        assert stolen.status_code == 400
        assert await grants(here) == ()
        assert here.recorded("token_refused")


async def test_code_injection_with_another_redirect_uri(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(redirect_uris=[REDIRECT, "https://client.example.com/other"])
        answer = await here.agreed(client)
        stolen = await here.redeem(client, answer["code"], redirect_uri="https://client.example.com/other")
        assert stolen.json()["error"] == "invalid_grant"


async def test_code_replay_revokes_what_the_code_gave(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        answer = await here.agreed(client)
        tokens = (await here.redeem(client, answer["code"])).json()
        again = await here.redeem(client, answer["code"])
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        assert await grants(here) == ()
        assert (await here.refresh(client, tokens["refresh_token"])).status_code == 400
        assert (await here.tools(tokens["access_token"])).status_code == 401
        assert len(here.recorded("code_replayed")) == 1


async def test_code_replay_at_once_gives_tokens_to_one_at_most(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        answer = await here.agreed(client)
        replies = await asyncio.gather(*(here.redeem(client, answer["code"]) for _ in range(6)))
        assert sum(reply.status_code == 200 for reply in replies) <= 1
        assert await grants(here) == ()  # a second use revokes all of it


async def test_an_old_code_is_none(tmp_path: Path, provider: IdentityProvider) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here:
        client = await here.client()
        answer = await here.agreed(client)
        clock.advance(61)
        assert (await here.redeem(client, answer["code"])).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None},
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge": VERIFIER},
        {"code_challenge": ""},
    ],
)
async def test_pkce_downgrade(tmp_path: Path, provider: IdentityProvider, changes: dict[str, str | None]) -> None:
    async with place(tmp_path, provider) as here:
        answer = await here.browser.get(here.asked(await here.client(), **changes))
        assert answer.status_code == 400
        assert "code_challenge_method=S256" in answer.text


async def test_a_parameter_that_stands_twice(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        url = f"{here.asked(client)}&{urlencode({'redirect_uri': 'https://evil.example/'})}"
        assert (await here.browser.get(url)).status_code == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": "token"},
        {"response_type": "code token"},
        {"response_type": "id_token"},
        {"response_type": None},
        {"response_mode": "fragment"},
        {"response_mode": "form_post"},
        {"response_mode": "web_message"},
        {"request": "eyJhbGciOiJub25lIn0.e30."},
        {"request_uri": "https://evil.example/request"},
    ],
)
async def test_no_token_and_no_code_is_answered_but_in_the_query(
    tmp_path: Path, provider: IdentityProvider, changes: dict[str, str | None]
) -> None:
    """Implicit answers (section 4.6), fragments and messages between windows (section 4.17), and requests that are elsewhere."""
    async with place(tmp_path, provider) as here:
        answer = await here.browser.get(here.asked(await here.client(), **changes))
        assert answer.status_code == 400
        assert "location" not in answer.headers


# Demands for fresh authentication (RFC 9470)


@pytest.mark.parametrize(
    ("demand", "age_s", "status"),
    [
        ({}, None, 200),
        ({}, 9000, 200),
        ({"max_age": "600"}, 10, 200),
        ({"max_age": "600"}, 9000, 403),
        ({"max_age": "600"}, None, 403),
        ({"max_age": "600"}, -9000, 403),
        ({"max_age": "0"}, 1, 200),
        ({"max_age": "0"}, 9000, 403),
        ({"prompt": "consent login"}, 9000, 403),
        ({"max_age": "9000", "prompt": "login"}, 8000, 403),
        ({"max_age": "-1"}, 1, 400),
        ({"max_age": "1e3"}, 1, 400),
        ({"max_age": ""}, 1, 400),
    ],
)
async def test_an_old_session_at_the_provider_does_not_pass_for_a_fresh_sign_in(
    tmp_path: Path, provider: IdentityProvider, demand: dict[str, str | None], age_s: float | None, status: int
) -> None:
    now = int(SystemClock().now())
    provider.claims = {} if age_s is None else {"auth_time": now - int(age_s)}
    async with place(tmp_path, provider) as here:
        client = await here.client()
        sent = await here.browser.get(here.asked(client, **demand))
        if status == 400:
            assert sent.status_code == status
            return
        query = dict(parse_qsl(urlsplit(sent.headers["location"]).query))
        fresh = "login" in str(demand.get("prompt"))
        assert query.get("max_age") == ("0" if fresh else demand.get("max_age"))
        assert query.get("prompt") == ("login" if query.get("max_age") == "0" else None)
        page = await here.browser.get(provider.authorize(sent.headers["location"]))
        assert page.status_code == status
        if status == 403:
            assert "location" not in page.headers
            return
        answer = dict(parse_qsl(urlsplit((await here.answer(page)).headers["location"]).query))
        token = (await here.redeem(client, answer["code"])).json()["access_token"]
        said = jwt.decode(token, options={"verify_signature": False}).get("auth_time")
        assert said == (None if age_s is None else now - int(age_s))


# Sessions of MCP


async def test_session_hijacking_by_the_session_id_of_another_person(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """A session id is no credential: each request is of the person whose token it has (MCP's security best practices)."""
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "shop__query", "arguments": {"sql": "SELECT name FROM customers"}},
    }
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        client = await here.client()
        ann = await here.tokens(client)
        provider.person = "bob"
        bob = await here.tokens(client)
        begun = await http.post("/mcp", json=begin, headers=JSON | bearer(ann["access_token"]))
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert (await http.post("/mcp", json=call, headers=JSON | session)).status_code == 401
        await http.post("/mcp", json=call, headers=JSON | session | bearer(bob["access_token"]))
        made = [one for one in audit_entries(here.gateway, limit=50) if one.get("event") == "intent"]
        assert [one["principal"] for one in made] == ["staff:bob"]


# Refresh tokens (section 4.14)


async def test_refresh_replay_revokes_the_family(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        first = await here.tokens(client)
        second = (await here.refresh(client, first["refresh_token"])).json()
        third = (await here.refresh(client, second["refresh_token"])).json()
        assert (await here.refresh(client, first["refresh_token"])).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, third["refresh_token"])).json()["error"] == "invalid_grant"
        assert (await here.tools(third["access_token"])).status_code == 401
        assert len(here.recorded("refresh_replayed")) == 1


async def test_refresh_replay_at_once_without_grace_gives_tokens_to_one_at_most(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path, provider, sign_in={"refresh_grace": "0s"}) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        replies = await asyncio.gather(*(here.refresh(client, tokens["refresh_token"]) for _ in range(5)))
        assert sum(reply.status_code == 200 for reply in replies) <= 1
        assert await grants(here) == ()


async def test_a_client_that_lost_the_answer_to_a_refresh_gets_the_same_token(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """Within the grace, all requests with one token have one successor. After it, or after the use of the successor, it is a replay."""
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here:
        client, thief = await here.client(), await here.client()
        tokens = await here.tokens(client)
        replies = await asyncio.gather(*(here.refresh(client, tokens["refresh_token"]) for _ in range(3)))
        clock.advance(10)
        replies.append(await here.refresh(client, tokens["refresh_token"]))
        assert [one.status_code for one in replies] == [200] * 4
        (second,) = {one.json()["refresh_token"] for one in replies}
        assert second != tokens["refresh_token"]
        for one in replies:
            assert (await here.tools(one.json()["access_token"])).status_code == 200
        assert len(here.recorded("token_refreshed")) + len(here.recorded("refresh_retried")) == 4
        assert not here.recorded("refresh_replayed")
        third = (await here.refresh(client, second)).json()["refresh_token"]
        clock.advance(11)
        assert (await here.refresh(client, second)).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, third)).json()["error"] == "invalid_grant"
        assert len(here.recorded("refresh_replayed")) == 1
        # The successor is used: then the first is a replay at once.
        first = (await here.tokens(client))["refresh_token"]
        second = (await here.refresh(client, first)).json()["refresh_token"]
        third = (await here.refresh(client, second)).json()["refresh_token"]
        assert (await here.refresh(client, first)).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, third)).json()["error"] == "invalid_grant"
        # Another client that sends a used token ends the sign-in, within the grace as well.
        first = (await here.tokens(client))["refresh_token"]
        second = (await here.refresh(client, first)).json()["refresh_token"]
        assert (await here.refresh(thief, first)).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, second)).json()["error"] == "invalid_grant"
        assert await grants(here) == ()


async def test_a_made_up_refresh_token_revokes_nothing(tmp_path: Path, provider: IdentityProvider) -> None:
    """Whoever sees an access token knows the id of the grant, and could end the sign-in with a token of their own making."""
    async with place(tmp_path, provider) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        (grant,) = await grants(here)
        own = tokens["refresh_token"]
        for made in (f"tgr_{grant.id}.0.{'A' * 43}", f"tgr_{grant.id}.7.{own.rpartition('.')[2]}", own[:-1] + "_"):
            if made != own:
                assert (await here.refresh(client, made)).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, own)).status_code == 200


async def test_the_refresh_token_of_another_client(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        victim, attacker = await here.client(), await here.client()
        tokens = await here.tokens(victim)
        assert (await here.refresh(attacker, tokens["refresh_token"])).json()["error"] == "invalid_grant"
        assert (await here.post("/oauth/revoke", attacker, token=tokens["refresh_token"])).status_code == 400
        assert (await here.refresh(victim, tokens["refresh_token"])).status_code == 200


async def test_a_refresh_ends_with_the_sign_in_and_with_the_person(tmp_path: Path, provider: IdentityProvider) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock, sign_in={"idle": "1h", "expires": "2h"}) as here:
        client = await here.client()
        idle, used = await here.tokens(client), await here.tokens(client)
        clock.advance(3000)
        used = (await here.refresh(client, used["refresh_token"])).json()
        clock.advance(3000)
        assert (await here.refresh(client, idle["refresh_token"])).json()["error"] == "invalid_grant"
        used = (await here.refresh(client, used["refresh_token"])).json()
        clock.advance(1300)
        assert (await here.refresh(client, used["refresh_token"])).json()["error"] == "invalid_grant"


# Tokens of other people, tenants and audiences (sections 4.9 and 4.10)


async def test_token_substitution_by_a_token_of_another_issuer_or_audience(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path / "a", provider) as here, place(tmp_path / "b", provider) as other:
        tokens = await other.tokens(await other.client())
        assert (await here.tools(tokens["access_token"])).status_code == 401
        forged = (
            provider_token("ec", iss=here.url, aud=f"{here.url}/mcp"),
            provider_token("rsa", iss=here.url, aud=f"{here.url}/mcp", sid="x"),
            provider_token("ec", header={"alg": "ES256"}, iss=here.url, aud=f"{here.url}/mcp"),
            provider_token("ed", iss=provider.issuer, aud=f"{here.url}/mcp"),
        )
        for made in forged:
            assert (await here.tools(made)).status_code == 401


async def test_token_substitution_by_the_id_token_of_the_gateways_client(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path, provider) as here:
        made = provider_token(iss=provider.issuer, aud=CLIENT, nonce="x")
        assert (await here.tools(made)).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"aud": "other-client"},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"sub": None},
    ],
)
async def test_token_substitution_by_another_id_token(
    tmp_path: Path, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    provider.token = claims
    async with place(tmp_path, provider) as here:
        assert (await here.page(here.asked(await here.client()))).status_code == 403
        assert await grants(here) == ()


async def test_token_substitution_across_people(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        ann = await here.tokens(client)
        provider.person = "bob"
        bob = await here.tokens(client)
        await here.post("/oauth/revoke", client, token=ann["access_token"])
        assert (await here.tools(ann["access_token"])).status_code == 401
        assert (await here.gateway.callers.authenticate(bob["access_token"])).id == "staff:bob"


async def test_token_substitution_across_resources(tmp_path: Path, provider: IdentityProvider) -> None:
    """A code for one endpoint is not exchanged for tokens of another, and neither is its refresh token."""
    async with place(tmp_path, provider) as here:
        client = await here.client()
        answer = await here.agreed(client, resource=f"{here.url}/mcp/shop")
        wider = await here.redeem(client, answer["code"], resource=f"{here.url}/mcp")
        assert (wider.status_code, wider.json()["error"]) == (400, "invalid_target")
        assert f"{here.url}/mcp/shop" in wider.json()["error_description"]
        tokens = (await here.redeem(client, answer["code"], resource=f"{here.url}/mcp/shop")).json()
        assert (await here.refresh(client, tokens["refresh_token"], resource=f"{here.url}/mcp")).status_code == 400
        assert (await here.refresh(client, tokens["refresh_token"])).status_code == 200


async def test_a_token_for_another_gateway_is_not_taken_here(tmp_path: Path, provider: IdentityProvider) -> None:
    other = "https://other.example.com/mcp"
    async with place(tmp_path, provider, sign_in={"resources": [other]}) as here:
        tokens = await here.tokens(await here.client(), resource=other)
        assert (await here.tools(tokens["access_token"])).status_code == 401


async def test_a_person_whom_the_policy_revokes_has_no_access_after_a_refresh(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """Tokens of a refresh are newer than the revocation: the sign-in counts, which is older."""
    policy = policy_of(provider)
    async with place(tmp_path, provider, policy=policy) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        path = here.gateway.settings.policies / "policy.yaml"
        revoked = [{"principal": "staff:ann", "before": "2100-01-01T00:00:00Z"}]
        path.write_text(json.dumps({**policy, "revoked": revoked}))
        assert await here.gateway.operations.reload()
        assert (await here.tools(tokens["access_token"])).status_code == 401
        assert (await here.refresh(client, tokens["refresh_token"])).json()["error"] == "invalid_grant"


# Consent: confused deputy, look-alike names, clickjacking (section 4.16)


async def test_confused_deputy_by_a_remembered_session_at_the_provider(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """The person is signed in at the provider and agreed to another client before: the attacker's client is asked about all the same."""
    async with place(tmp_path, provider) as here:
        trusted = await here.client(client_name="Chat")
        await here.answer(await here.page(here.asked(trusted)), remember="yes")
        evil = await here.client(client_name="Chat", redirect_uris=["https://evil.example/cb"])
        page = await here.page(here.asked(evil))
        assert (page.status_code, "location" in page.headers) == (200, False)
        assert "evil.example" in page.text
        wider = await here.page(here.asked(trusted, resource=f"{here.url}/mcp/shop"))
        assert wider.status_code == 200


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Claude\u202e", "Claude"),
        ("Cla\u200bude", "Claude"),
        ("Ｃlaude", "Claude"),
        ("<b>Claude</b>", "&lt;b&gt;Claude&lt;/b&gt;"),
        ("Claude\n\nThis client is verified", "Claude This client is verified"),
        ("x" * 500, "x" * 79 + "…"),
    ],
)
async def test_look_alike_names_are_shown_plainly_and_with_the_host(
    tmp_path: Path, provider: IdentityProvider, name: str, shown: str
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(client_name=name, redirect_uris=["https://evil.example/cb"])
        page = await here.page(here.asked(client))
        assert f"<bdi>{shown}</bdi>" in page.text
        assert '<strong id="redirect-host">evil.example</strong>' in page.text
        assert "nobody has checked" in page.text


async def test_clickjacking(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        page = await here.page(here.asked(await here.client()))
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "form-action 'self' https://client.example.com;" in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert "<script>" not in page.text
        assert " on" + "click=" not in page.text
        assert page.headers.get_list("content-security-policy") == [policy]


async def test_the_way_to_the_client_is_a_get_and_has_no_referrer(tmp_path: Path, provider: IdentityProvider) -> None:
    """A 307 would send the form on to the client (section 4.12), and a referrer would carry the code (section 4.2)."""
    async with place(tmp_path, provider) as here:
        sent = await here.answer(await here.page(here.asked(await here.client())))
        assert sent.status_code == 303
        assert sent.headers["referrer-policy"] == "same-origin"
        assert sent.headers["cache-control"] == "no-store"


# Registration, and what is kept


async def test_registration_is_limited_for_an_address(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        statuses = [(await here.register()).status_code for _ in range(21)]
        assert (statuses[:20], statuses[20]) == ([201] * 20, 429)
        assert here.recorded("registration_refused")


async def test_a_client_that_nobody_signed_in_with_is_forgotten(tmp_path: Path, provider: IdentityProvider) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here:
        unused, used = await here.client(), await here.client()
        await here.tokens(used)
        clock.advance(3700)
        assert (await here.browser.get(here.asked(unused))).status_code == 400
        assert (await here.browser.get(here.asked(used))).status_code == 303


async def test_registration_is_off_unless_it_was_permitted(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, sign_in={"clients": {}}) as here:
        answer = await here.register()
        assert answer.status_code == 404
        assert "client ID metadata document" in answer.text


async def test_no_token_or_secret_is_in_logs_or_on_record(
    tmp_path: Path, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    async with place(tmp_path, provider) as here:
        client = await here.client(token_endpoint_auth_method="client_secret_basic")
        answer = await here.agreed(client)
        tokens = (await here.redeem(client, answer["code"])).json()
        again = (await here.refresh(client, tokens["refresh_token"])).json()
        await here.refresh(client, tokens["refresh_token"])
        await here.tools(tokens["access_token"])
        own = [
            record for record in caplog.records if not record.name.startswith(("httpx", "httpcore", "hpack", "asyncio"))
        ]
        said = " ".join(record.getMessage() for record in own) + str(here.recorded())
        found = " ".join(repr(one) for one in (await grants(here), here.gateway.sign_in))
        kept = b"".join(one.read_bytes() for one in here.gateway.settings.state_dir.glob("sign-in.db*"))
        secrets = [
            *(one[name] for one in (tokens, again) for name in ("access_token", "refresh_token")),
            answer["code"],
            client["client_secret"],
            "canary-idp",
        ]
        for secret in secrets:
            assert secret not in said
            assert secret not in found
            assert secret.encode() not in kept
        assert b"staff:ann" not in kept


async def test_a_refused_credential_counts_like_any_other(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time stands still: an address may fail again every two seconds, which a busy machine can take for each request.
    monkeypatch.setitem(Authentication.__init__.__kwdefaults__, "clock", FixedClock())
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        for _ in range(31):
            last = await http.get("/v1/tools", headers=bearer(provider_token("ec", iss=here.url)))
        assert last.status_code == 429


async def test_refusals_that_anybody_can_cause_do_not_fill_the_record(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here, httpx.AsyncClient(base_url=here.url) as http:
        for _ in range(MAX_REFUSALS + 5):
            assert (await http.post("/oauth/token", data={"grant_type": "refresh_token"})).status_code in {400, 401}
        assert len(here.recorded("token_refused")) == MAX_REFUSALS
        clock.advance(61)
        await http.post("/oauth/token", data={"grant_type": "refresh_token"})
        assert here.recorded("token_refused")[0]["arguments"]["left_out"] == "5"
