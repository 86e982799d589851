"""Workloads as principals: service account tokens of Kubernetes, and JWT-SVIDs of SPIFFE, by the key set of their issuer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.gateway import issuer
from tests.gateway.issuer import Provider, claims, provider, signed, token
from toolgen.core.clock import SystemClock
from toolgen.gateway.identity import Identity, KeySets, TokenRejected
from toolgen.gateway.identity.identity_providers import fetch_key_set
from toolgen.model.call import Principal
from toolgen.model.verdict import Allow
from toolgen.policy.credentials import ALGORITHMS, PolicyCredentials, PrincipalEntry, TokenRule

CLUSTER = "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
DOMAIN = "https://spire.acme.example"
BOT = "system:serviceaccount:agents:bot"
AGENT = "spiffe://acme.example/ns/agents/sa/agent"
GATEWAY = "https://gateway.example.com"


@pytest.fixture
def keys() -> Iterator[Provider]:
    with provider() as found:
        yield found


async def answered(keys: Provider, text: str) -> Principal | TokenRejected:
    """The principal of a token, or why there is none."""

    def rule(name: str) -> TokenRule:
        algorithms = frozenset(ALGORITHMS)
        return TokenRule(issuer=name, audience=frozenset({GATEWAY}), jwks=keys.url, algorithms=algorithms)

    nobody: Any = {"keys": (), "attributes": {}, "acts_for": frozenset()}
    pod = PrincipalEntry(id="pod", roles=frozenset({"agent"}), token=rule(CLUSTER), subject=BOT, **nobody)
    mesh = PrincipalEntry(id="mesh", roles=frozenset({"agent"}), token=rule(DOMAIN), subject=AGENT, **nobody)
    credentials = PolicyCredentials(
        principals={"pod": pod, "mesh": mesh}, issuers={}, revocations=(), revoked_keys=frozenset()
    )
    clock = SystemClock()
    fetch = partial(fetch_key_set, permit=lambda _: Allow(rule="test"))
    return await Identity(credentials, clock, KeySets(fetch, clock)).authenticate(text)


def pod_token(**changes: Any) -> str:
    """A projected service account token, as the API server signs it."""
    bound = {"namespace": "agents", "serviceaccount": {"name": "bot", "uid": "1"}, "pod": {"name": "bot-1", "uid": "2"}}
    given = {"iss": CLUSTER, "sub": BOT, "aud": [GATEWAY], "nbf": issuer.now(), "kubernetes.io": bound}
    return signed({"alg": "RS256", "kid": "rsa"}, claims(**(given | changes)))


def svid(**changes: Any) -> str:
    """A JWT-SVID, as SPIRE signs it with `jwt_issuer`."""
    return token("ec", **({"iss": DOMAIN, "sub": AGENT, "aud": [GATEWAY]} | changes))


@pytest.mark.parametrize(("text", "name"), [(pod_token, "pod"), (svid, "mesh")])
async def test_a_workload_is_its_principal(keys: Provider, text: Any, name: str) -> None:
    found = await answered(keys, text())
    assert isinstance(found, Principal), found
    assert (found.id, found.roles) == (name, frozenset({"agent"}))


@pytest.mark.parametrize(
    "text",
    [
        lambda: pod_token(aud=["https://kubernetes.default.svc"]),
        lambda: pod_token(aud=[f"{GATEWAY}/"]),
        lambda: pod_token(sub="system:serviceaccount:agents:bot2"),
        lambda: pod_token(sub="system:serviceaccount:other:bot"),
        lambda: pod_token(iss="https://oidc.eks.eu-west-1.amazonaws.com/id/other"),
        lambda: pod_token(exp=issuer.now() - 3600),
        lambda: pod_token(iss=DOMAIN),
        lambda: svid(sub="spiffe://acme.example/ns/agents/sa/agent/"),
        lambda: svid(sub="spiffe://acme.example.evil/ns/agents/sa/agent"),
        lambda: svid(sub="SPIFFE://acme.example/ns/agents/sa/agent"),
        lambda: svid(sub="spiffe://acme.example/ns/agents/sa/%61gent"),
        lambda: svid(iss=None),
        lambda: svid(iss=CLUSTER),
        lambda: svid(aud=None),
        lambda: svid(exp=None),
    ],
)
async def test_another_workload_audience_or_issuer_is_nobody(keys: Provider, text: Any) -> None:
    assert isinstance(await answered(keys, text()), TokenRejected)
