"""Presets of authorization servers, each held against metadata and answers that are written after its public documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.services.account_provider import query_of
from toolgen.connectors.account_providers import checked_account, providers, with_preset
from toolgen.connectors.http.oauth.account_client import AccountClient, RejectedGrantError, _as_json
from toolgen.connectors.http.oauth.server_metadata import ServerMetadata, _metadata
from toolgen.connectors.http.outbound.request import OutboundRequest, OutboundResponse
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.model.auth import UserAccount, parsed_auth, read_form
from toolgen.model.verdict import Deny

FIXTURES = Path(__file__).parent.parent / "fixtures" / "account_providers"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))


def form_of(name: str, **more: Any) -> UserAccount:
    """An account with a preset."""
    written = {"account": "user", "provider": name, "client_id": "gateway", "client_secret": "${env:SECRET}", **more}
    form = read_form(parsed_auth(written))
    assert isinstance(form, UserAccount)
    checked_account(form)
    return form


def recorded(name: str) -> dict[str, Any]:
    """The fixture of a provider."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def client_of(name: str) -> AccountClient:
    """A client that reaches nobody: its metadata is that of the fixture."""
    said = recorded(name)
    more = {"issuer": said["issuer"]} if "issuer" in said else {}
    client = AccountClient(
        form_of(name, scopes=said["scopes"], **more),
        secrets=SecretResolver({"SECRET": "canary"}),
        permit=lambda _: Deny(rule="egress", reason="nobody is asked", code="egress_refused"),
        clock=FixedClock(),
    )
    if "metadata" in said:
        client._metadata = (_metadata(client.form, said["metadata"]), float("inf"))
    return client


def answered(status: int, body: Any) -> OutboundResponse:
    """An answer of the token endpoint."""
    return OutboundResponse(status=status, content_type="application/json", body=json.dumps(body).encode())


def test_every_preset_has_a_fixture() -> None:
    assert sorted(providers()) == NAMES


@pytest.mark.parametrize("name", NAMES)
async def test_the_authorization_request(name: str) -> None:
    said, client = recorded(name), client_of(name)
    asked = await client.begin("https://gateway.example.com/accounts/callback/x")
    assert asked.url.partition("?")[0] == said["authorize"]
    query = query_of(asked.url)
    assert said["parameters"].items() <= query.items()
    assert (query["code_challenge_method"], query["client_id"]) == ("S256", "gateway")
    assert "canary" not in asked.url


@pytest.mark.parametrize("name", NAMES)
async def test_the_endpoints(name: str) -> None:
    said, server = recorded(name), await client_of(name).metadata()
    assert isinstance(server, ServerMetadata)
    assert server.revocation_url == said.get("revoke", "")
    assert server.device_url == said.get("device", "")
    assert server.token_url.startswith("https://")
    assert client_of(name).form.authentication == said["authentication"]


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_with_tokens(name: str) -> None:
    said, client = recorded(name), client_of(name)
    for answer in (said["answer"], said.get("refresh_answer", said["answer"])):
        tokens = client._read(answered(200, answer))
        assert tokens.seconds == said["expected"]["seconds"]
        assert bool(tokens.refresh_token) == said["expected"]["refreshes"]
        assert list(tokens.scopes) == said["expected"].get("scopes", list(tokens.scopes))
        assert "canary" not in repr(tokens)
        assert tokens.access_token not in repr(tokens)


@pytest.mark.parametrize("name", NAMES)
def test_a_refresh_token_that_is_refused(name: str) -> None:
    refusal = recorded(name)["refusal"]
    with pytest.raises(RejectedGrantError):
        client_of(name)._read(answered(refusal["status"], refusal["body"]))


def test_what_is_given_counts_before_a_preset() -> None:
    given = with_preset(form_of("github", authentication="client_secret_basic"))
    assert (given.authentication, given.token_url) == (
        "client_secret_basic",
        "https://github.com/login/oauth/access_token",
    )
    own = with_preset(form_of("google", issuer="https://login.example.com"))
    assert (own.issuer, own.token_url, own.device_url) == ("https://login.example.com", "", "")


def test_requests_in_json() -> None:
    asked = OutboundRequest(method="POST", url="https://x", headers={}, body=b"grant_type=refresh_token&code=a%2Bb")
    assert json.loads(_as_json(asked).body) == {"grant_type": "refresh_token", "code": "a+b"}
    assert [name for name, one in providers().items() if one.body == "json"] == ["notion"]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ({"provider": "githab"}, "github"),
        ({"provider": "oidc"}, "issuer"),
        ({}, "provider"),
        ({"account": "me", "provider": "github"}, "user"),
        ({"provider": "github", "refresh_token": "${env:X}"}, "refresh_token"),
        ({"issuer": "http://login.example.com"}, "https"),
        ({"authorization_url": "https://login.example.com/a"}, "token_url"),
        ({"issuer": "https://login.example.com#x"}, "fragment"),
    ],
)
def test_settings_that_do_not_fit_are_refused(written: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        checked_account(read_form(parsed_auth({"account": "user", "client_id": "x", **written})))  # type: ignore[arg-type]
