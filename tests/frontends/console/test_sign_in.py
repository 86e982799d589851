"""Signing in to the console at an OpenID provider: a real one over HTTP, on another site, which also lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.console.house import CONSOLE, POLICY, House, house
from tests.frontends.console.people import chromium, client, needs_chromium
from tests.frontends.console.people import sign_in as post
from tests.frontends.console.provider import CLIENT, SECRET, Issuer, issuer
from tests.gateway.governed import write_policy
from tests.gateway.issuer import token


@contextmanager
def signing_in(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[House, Issuer]]:
    """A gateway whose console sends people to a provider, which its policy knows as `staff`."""
    monkeypatch.setenv("CONSOLE_SECRET", SECRET)
    with issuer() as provider:
        root.mkdir()
        (root / "keys.json").write_text(provider.keys())
        console = {
            **CONSOLE,
            "url": "self",
            "sign_in": {
                "issuer": provider.url,
                "client_id": CLIENT,
                "client_secret": "${env:CONSOLE_SECRET}",
                "scopes": ["openid", "groups"],
            },
        }
        with house(root / "project", policy=policy_of(provider), console=console) as home:
            yield home, provider


def policy_of(provider: Issuer) -> dict[str, Any]:
    policy: dict[str, Any] = json.loads(json.dumps(POLICY))
    policy["issuers"] = {
        "staff": {
            "jwt": {"issuer": provider.url, "audience": CLIENT, "jwks": "../../keys.json"},
            "grants": {"groups": {"leads": ["reviewer", "reader"]}},
        }
    }
    return policy


def go_and_come_back(http: httpx.Client, **changes: str) -> httpx.Response:
    """What a browser does: to the provider, and back with what it says."""
    sent = http.get("/console/oidc")
    assert sent.status_code == 303, sent.text
    back = httpx.get(sent.headers["location"])
    location = httpx.URL(back.headers["location"])
    return http.get(location.path, params={**dict(location.params), **changes})


def test_the_roles_are_those_the_policy_gives_for_the_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        answer = go_and_come_back(http)
        assert answer.status_code == 200, answer.text
        assert "staff:ann" in http.get("/console/overview").text
        assert http.get("/console/approvals/call_1").status_code == 403
        asked = provider.asked[0]
        assert asked["scope"] == "openid groups"
        assert asked["response_type"] == "code"
        assert asked["redirect_uri"] == f"{home.url}/console/oidc/callback"
        provider.claims["groups"] = ["others"]
        with client(home) as other:
            assert go_and_come_back(other).status_code == 403
            assert other.get("/console/overview").status_code == 401


@pytest.mark.parametrize("audience", [{"audience": CLIENT}, {"audience": "toolgen", "sign_in": CLIENT}], ids=["a", "b"])
def test_an_id_token_of_the_console_opens_the_console_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audience: dict[str, str]
) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider):
        changed = policy_of(provider)
        del changed["issuers"]["staff"]["jwt"]["audience"]
        changed["issuers"]["staff"]["jwt"].update(audience)
        write_policy(home.root, changed)
        assert home.run(home.gateway.operations.reload())
        with client(home) as http:
            assert go_and_come_back(http).status_code == 200
            assert http.get("/console/overview").status_code == 200
            shown = token(iss=provider.url, aud=CLIENT, groups=["leads"])
            for path in ("/v1/tools", "/v1/audit", "/v1/approvals"):
                assert httpx.get(f"{home.url}{path}", headers={"authorization": f"Bearer {shown}"}).status_code == 401
            assert post(http, shown).status_code == 401  # typed into the form it is a credential like any other
            access = token(iss=provider.url, aud="toolgen", groups=["leads"])
            opened = httpx.get(f"{home.url}/v1/tools", headers={"authorization": f"Bearer {access}"}).status_code
            assert opened == (200 if "sign_in" in audience else 401)


def test_a_session_ends_with_the_mapping_that_gave_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        assert go_and_come_back(http).status_code == 200
        changed = policy_of(provider)
        changed["issuers"]["staff"]["grants"] = {"groups": {"leads": ["reader"], "others": ["reviewer"]}}
        write_policy(home.root, changed)
        assert home.run(home.gateway.operations.reload())
        assert http.get("/console/overview").status_code == 401


def test_an_answer_that_was_not_asked_for_signs_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider):
        with client(home) as http, client(home) as other:
            sent = http.get("/console/oidc")
            back = httpx.URL(httpx.get(sent.headers["location"]).headers["location"])
            # Somebody else's browser is made to come back with this person's code (RFC 6749, section 10.12).
            assert other.get(back.path, params=dict(back.params)).status_code == 403
            other.get("/console/oidc")
            assert other.get(back.path, params=dict(back.params)).status_code == 403
            assert http.get(back.path, params=dict(back.params)).status_code == 200
            assert http.get(back.path, params=dict(back.params)).status_code == 403
        for changes in ({"state": "x"}, {"iss": "https://evil.example"}, {"code": "stolen"}):
            with client(home) as http:
                assert go_and_come_back(http, **changes).status_code in {403, 502}
                assert http.get("/console/overview").status_code == 401
        provider.authorization = {"error": "access_denied"}
        with client(home) as http:
            sent = http.get("/console/oidc")
            state = httpx.URL(sent.headers["location"]).params["state"]
            params = {"error": "access_denied", "error_description": "<b>no</b>", "state": state}
            answer = http.get("/console/oidc/callback", params=params)
            assert answer.status_code == 403
            assert "<b>no</b>" not in answer.text


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"iss": "https://evil.example"},
        {"aud": "another-client"},
        {"aud": [CLIENT, "another-client"]},
        {"azp": "another-client"},
        {"exp": 1_000},
        {"sub": None},
    ],
    ids=str,
)
def test_an_id_token_that_is_not_exactly_this_ones_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        provider.changes = changes
        assert go_and_come_back(http).status_code in {403, 502}
        assert http.get("/console/overview").status_code == 401


def test_a_token_that_nobody_signed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        sent = http.get("/console/oidc")
        nonce = httpx.URL(sent.headers["location"]).params["nonce"]
        forged = token(
            "ec", header={"kid": "rsa"}, iss=provider.url, aud=CLIENT, nonce=nonce, sub="ann", groups=["leads"]
        )
        provider.answer = {"id_token": forged}
        back = httpx.URL(httpx.get(sent.headers["location"]).headers["location"])
        assert http.get(back.path, params=dict(back.params)).status_code == 403


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": None},
        {"token_endpoint": "http://169.254.169.254/latest"},
    ],
    ids=str,
)
def test_a_provider_that_describes_itself_badly_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: dict[str, Any]
) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        provider.described = described
        answer = http.get("/console/oidc")
        assert answer.status_code == 502
        assert SECRET not in answer.text


def test_whom_the_policy_no_longer_gives_a_role_is_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing_in(tmp_path / "root", monkeypatch) as (home, provider), client(home) as http:
        assert go_and_come_back(http).status_code == 200
        assert http.get("/console/overview").status_code == 200
        policy = policy_of(provider)
        policy["revoked"] = [{"issuer": provider.url, "subject": "ann"}]
        write_policy(home.root, policy)
        for _ in range(2000):
            if http.get("/console/overview").status_code == 401:
                break
        assert http.get("/console/overview").status_code == 401


@needs_chromium
def test_a_browser_comes_back_from_another_site_signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's cookie is strict, and so is not shown by whatever that other site begins."""
    with signing_in(tmp_path / "root", monkeypatch) as (home, _), chromium() as browser:
        page = browser.new_page()
        page.goto(f"{home.url}/console")
        page.click("text=Sign in with localhost")
        page.wait_for_url(f"{home.url}/console/overview")
        assert "staff:ann" in page.locator("form.who").inner_text()
        cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}  # type: ignore[typeddict-item]
        assert cookies["toolgen_session"]["sameSite"] == "Strict"
        assert cookies["toolgen_session"]["httpOnly"]
        assert "toolgen_attempt" not in cookies
