"""Presets of authorization servers, each held against metadata and answers that are recorded from public documents, with their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.services.account_provider import query_of
from tests.services.authorization import Answered, Asked, serving
from toolgen.connectors.account_providers import checked_account, providers, with_preset
from toolgen.connectors.http.oauth.account_client import AccountClient, RejectedGrantError, _as_json
from toolgen.connectors.http.oauth.server_metadata import ServerMetadata, _metadata
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.model.auth import UserAccount, parsed_auth, read_form
from toolgen.model.verdict import Allow, Deny

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


def local_client(name: str, origin: str) -> AccountClient:
    """A client with the preset of a provider and the addresses of a service on this machine."""
    paths = {key: f"{origin}/{key}" for key in ("authorization_url", "token_url", "revocation_url")}
    more = {"issuer": recorded(name)["issuer"]} if "issuer" in recorded(name) else {}
    return AccountClient(
        msgspec.structs.replace(form_of(name, **more), **paths),
        secrets=SecretResolver({"SECRET": "canary"}),
        permit=lambda _: Allow(rule="egress.allow"),
        clock=FixedClock(),
    )


def fields_of(asked: Asked) -> dict[str, str]:
    """The fields of a request, of a form or of JSON."""
    found: dict[str, str] = json.loads(asked.body) if asked.body.startswith(b"{") else asked.form
    return found


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


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_a_fixture_have_two_sources_each(name: str) -> None:
    said = recorded(name)
    assert sorted(said["sources"]) == ["endpoints", "pkce", "revocation", "scopes"]
    for sources in said["sources"].values():
        assert len({text.partition("/")[0] + text.partition(":")[0] for text in sources}) >= 2
    assert name == "oidc" or said["about"].startswith("from public documents, on 2026-")


@pytest.mark.parametrize("name", NAMES)
async def test_the_revocation_requests(name: str) -> None:
    said = recorded(name)
    if "revocation" not in said:
        assert not (await client_of(name).metadata()).revocation_url
        return
    with serving(lambda _: Answered.json(**said.get("revoked", {}))) as service:
        client = local_client(name, service.origin)
        for kinds, refresh_token in (
            (said["revocation"], "R"),
            (said.get("revocation_without_refresh_token", {}), ""),
        ):
            if kinds:
                tokens = client.revocable("A", refresh_token)
                assert {kind: token for token, kind in tokens} == {kind: kind[0].upper() for kind in kinds}
                assert [await client.revoke(*one) for one in tokens] == [True] * len(kinds)
                sent = service.asked[-len(kinds) :]
                for asked, fields in zip(sent, kinds.values(), strict=True):
                    assert fields.items() <= fields_of(asked).items()
                    assert not {"token", "token_type_hint", "access_token", "refresh_token"} & (
                        fields_of(asked).keys() - fields.keys()
                    )
                    headers = {key.lower(): value for key, value in asked.headers.items()}
                    assert said.get("revocation_headers", {}).items() <= headers.items()


async def test_a_revocation_that_is_not_confirmed_counts_as_failed() -> None:
    with serving(lambda _: Answered.json(**recorded("slack")["not_revoked"])) as service, pytest.raises(OutboundError):
        await local_client("slack", service.origin).revoke("A", "access_token")
    assert fields_of(service.asked[0])["token"] == "A"


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
