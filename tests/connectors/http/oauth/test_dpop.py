"""Tokens that are bound to a key (DPoP): what each request proves, nonces of servers, and servers that want bearer tokens instead."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest

from tests.connectors.http.bindings import binding, call, parameter
from tests.services.authorization import Answered
from tests.services.proofs import ProofServers, proof_servers
from toolgen.connectors.http.credentials import Provision
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.http.oauth.dpop import ProofKey
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.core.clock import SystemClock
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, parsed_auth, read_form
from toolgen.model.auth_schemes import SCHEMES
from toolgen.model.result import Failed, Success
from toolgen.model.tool import HttpBinding
from toolgen.model.verdict import Allow

SECRETS = {"SECRET": "canary-client-secret"}


@pytest.fixture
def servers() -> Iterator[ProofServers]:
    with proof_servers() as running:
        yield running


def written(servers: ProofServers, **more: Any) -> dict[str, Any]:
    token_url = f"{servers.authorization.origin}/token"
    return {"client_id": "shop", "client_secret": "${env:SECRET}", "token_url": token_url, "dpop": True, **more}


@asynccontextmanager
async def executor(servers: ProofServers, **more: Any) -> AsyncIterator[HttpExecutor]:
    secrets = SecretResolver(SECRETS)
    grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="test"), clock=SystemClock(), source="shop")
    made = HttpExecutor(
        schemes=SCHEMES,
        auth={"bearer": parsed_auth(written(servers, **more))},
        secrets=secrets,
        permit=lambda to: Allow(rule="test") if to.service != "redirect" else Allow(rule="egress.redirects"),
        provision=Provision(grants=grants, assigned=lambda _: None),
    )
    try:
        yield made
    finally:
        await made.close()


async def sent(made: HttpExecutor, servers: ProofServers, path: str = "/orders?page=2", method: str = "GET") -> Any:
    return await made.execute(call(bound(servers, path, method)))


def bound(servers: ProofServers, path: str, method: str) -> HttpBinding:
    return binding(method=method, path=path, servers=(servers.api.origin,), security=(("bearer",),))


def claims_of(proof: str) -> Mapping[str, Any]:
    return jwt.decode(proof, options={"verify_signature": False})


async def test_each_request_has_a_proof_of_its_own_for_its_method_and_url(servers: ProofServers) -> None:
    async with executor(servers) as made:
        for method in ("GET", "POST", "GET"):
            assert isinstance(await sent(made, servers, method=method), Success)
    assert servers.faults == []
    assert len(servers.authorization.asked) == 1
    proofs = [claims_of(asked.headers["DPoP"]) for asked in servers.api.asked]
    assert [one["htm"] for one in proofs] == ["GET", "POST", "GET"]
    assert {one["htu"] for one in proofs} == {f"{servers.api.origin}/orders"}
    assert len({one["jti"] for one in proofs}) == 3


async def test_a_proof_in_an_answer_is_taken_out(servers: ProofServers) -> None:
    async with executor(servers) as made:
        found = await sent(made, servers)
    assert isinstance(found, Success)
    assert "eyJ" not in str(found.data)


async def test_nonces_of_both_servers_are_taken(servers: ProofServers) -> None:
    servers.nonces |= {"authorization": "first", "api": "second"}
    async with executor(servers) as made:
        found = await sent(made, servers)
        assert isinstance(found, Success)
        assert found.delivery.attempts == 2
        assert isinstance(await sent(made, servers), Success)
    assert servers.faults == []
    assert len(servers.authorization.asked) == 2
    assert [claims_of(asked.headers["DPoP"]).get("nonce") for asked in servers.api.asked] == [None, "second", "second"]


async def test_a_server_that_is_never_content_with_its_nonce_is_asked_twice(servers: ProofServers) -> None:
    """Each answer has a nonce, and none is ever right."""
    numbers = iter(range(100))

    def refuse(_: object) -> Answered:
        headers = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": f"n{next(numbers)}"}
        return Answered(401, b"{}", headers)

    servers.api.answer = refuse
    async with executor(servers) as made:
        assert isinstance(await sent(made, servers), Failed)
        asked = len(servers.api.asked)
        assert asked <= 3  # with the nonce, and with a new token
        servers.authorization.answer = lambda _: Answered(
            400, b'{"error": "use_dpop_nonce"}', {"DPoP-Nonce": f"a{next(numbers)}", "Content-Type": "application/json"}
        )
    servers.authorization.asked.clear()
    async with executor(servers) as made:
        assert isinstance(await sent(made, servers), Failed)
    assert len(servers.authorization.asked) == 2


async def test_the_same_nonce_again_is_no_reason_to_repeat(servers: ProofServers) -> None:
    """A server replays the nonce that the proof already had."""
    servers.nonces["api"] = "one"
    async with executor(servers) as made:
        assert isinstance(await sent(made, servers), Success)
        servers.api.asked.clear()
        headers = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "one"}
        servers.api.answer = lambda _: Answered(401, b"{}", headers)
        assert isinstance(await sent(made, servers), Failed)
    assert len(servers.api.asked) == 2  # the second with a new token


@pytest.mark.parametrize("nonce", ["a b", 'a"b', "a\\b", "ä", "x" * 1025])
async def test_a_nonce_that_is_none_is_ignored(servers: ProofServers, nonce: str) -> None:
    key = ProofKey.generate()
    assert not key.take_nonce("https://api.test/x", nonce)
    assert "nonce" not in claims_of(key.proof("GET", "https://api.test/x", 0))


def test_a_nonce_goes_to_its_own_server_alone() -> None:
    key = ProofKey.generate()
    assert key.take_nonce("https://api.test/x", "mine")
    assert claims_of(key.proof("GET", "https://API.test/y?z", 0))["nonce"] == "mine"
    for other in ("https://api.test:8443/x", "http://api.test/x", "https://api.test.evil.example/x"):
        assert "nonce" not in claims_of(key.proof("GET", other, 0))


async def test_a_redirect_has_a_proof_for_its_own_url(servers: ProofServers) -> None:
    servers.moves = True
    async with executor(servers) as made:
        found = await sent(made, servers)
    assert isinstance(found, Success)
    assert servers.faults == []
    assert [claims_of(asked.headers["DPoP"])["htu"] for asked in servers.api.asked] == [
        f"{servers.api.origin}/orders",
        f"{servers.api.origin}/elsewhere",
    ]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param({"issued": {"token_type": "Bearer"}}, id="downgrade"),
        pytest.param({"issued": {"token_type": "Bearer"}, "opaque": True}, id="downgrade of an opaque token"),
        pytest.param({"issued": {"token_type": None}}, id="no type"),
        pytest.param({"key": "A" * 43}, id="another key"),
    ],
)
async def test_a_token_that_is_not_bound_to_the_key_is_never_sent(
    servers: ProofServers, attack: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in attack.items():
        setattr(servers, name, value)
    caplog.set_level(logging.DEBUG)
    async with executor(servers) as made:
        found = await sent(made, servers)
    assert isinstance(found, Failed)
    assert found.error.code == "secret_unavailable"
    assert servers.api.asked == []
    assert "canary" not in caplog.text + str(found)


async def test_an_opaque_token_is_used_as_its_type_says(servers: ProofServers) -> None:
    servers.opaque = True
    async with executor(servers) as made:
        assert isinstance(await sent(made, servers), Success)


async def test_an_api_that_asks_for_bearer_tokens_gets_none(servers: ProofServers) -> None:
    servers.api.answer = lambda _: Answered(401, b"{}", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
    async with executor(servers) as made:
        assert isinstance(await sent(made, servers), Failed)
    assert {asked.headers["Authorization"].partition(" ")[0] for asked in servers.api.asked} == {"DPoP"}


async def test_a_token_without_dpop_is_no_bound_one(servers: ProofServers) -> None:
    """A server binds a token that nobody asked to be bound: it is not sent as a bearer token."""
    servers.authorization.answer = lambda _: Answered.json(access_token="canary-1", token_type="DPoP")
    async with executor(servers, dpop=False) as made:
        assert isinstance(await sent(made, servers), Failed)
    assert servers.api.asked == []


async def test_each_caller_whose_token_is_exchanged_has_a_key_of_its_own(servers: ProofServers) -> None:
    form = read_form(parsed_auth(written(servers, subject_token="principal")))
    assert isinstance(form, OAuth)
    grants = OAuthClients(secrets=SecretResolver(SECRETS), permit=lambda _: Allow(rule="test"), clock=SystemClock())
    grant = grants.grant(form, form.token_url)
    shown = {who: Secret(f"token-{who}") for who in ("ann", "bob")}
    for who, subject in shown.items():
        await grant.fetch(who, subject)
    ann, bob = (grant.proof_key(who, subject) for who, subject in shown.items())
    assert ann is not None
    assert bob is not None
    assert ann.thumbprint != bob.thumbprint
    assert set(servers.bound.values()) == {ann.thumbprint, bob.thumbprint}


async def test_an_argument_cannot_set_the_proof(servers: ProofServers) -> None:
    tool = binding(
        parameter("header", name="dpop"), method="GET", servers=(servers.api.origin,), security=(("bearer",),)
    )
    async with executor(servers) as made:
        found = await made.execute(call(tool, {"dpop": "x"}))
    assert isinstance(found, Failed)
    assert found.error.code == "validation"
    assert servers.api.asked == []


async def test_a_dry_run_shows_where_the_proof_goes(servers: ProofServers) -> None:
    async with executor(servers) as made:
        shown = made.preview(call(bound(servers, "/orders", "GET")))
    assert ["Authorization", "DPoP ***"] in shown["headers"]  # type: ignore[operator]
    assert ["DPoP", "***"] in shown["headers"]  # type: ignore[operator]


def test_a_key_survives_its_storage_and_is_never_printed() -> None:
    key = ProofKey.generate()
    assert ProofKey.read(key.pem()).thumbprint == key.thumbprint
    assert "***" in repr(key)
    for bad in ("", "-----BEGIN PRIVATE KEY-----", "canary"):
        with pytest.raises(SecretError) as caught:
            ProofKey.read(bad)
        assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"client_id": "shop", "refresh_token": "${env:SECRET}", "dpop": True},
        {"client_id": "shop", "client_secret": "${env:SECRET}", "dpop": "yes"},
        {"username": "a", "password": "${env:SECRET}", "dpop": True},
    ],
)
def test_combinations_that_cannot_work_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="dpop"):
        read_form(parsed_auth(bad))
