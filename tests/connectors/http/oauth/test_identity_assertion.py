"""Identity assertions (ID-JAG): the person's token goes to the identity provider alone, and only the expected assertion goes on to the
authorization server of the API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.services.authorization import Answered
from tests.services.enterprise import JWT_BEARER, RESOURCE, SECRETS, Enterprise, enterprise_servers, id_token
from toolgen.connectors.http.oauth.call_tokens import CallTokens, NoTokenError
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import SCHEMES
from toolgen.model.call import CredentialProof, Principal
from toolgen.policy.egress import Egress


@dataclass
class Caller:
    form: OAuth
    tokens: CallTokens
    enterprise: Enterprise

    @classmethod
    def at(cls, enterprise: Enterprise, egress: Egress | None = None, **more: Any) -> Caller:
        form = form_of(enterprise.written(**more))
        rules = egress or Egress(private_networks=True)
        grants = OAuthClients(
            secrets=SecretResolver(SECRETS),
            permit=lambda to: rules.check(to.host, to.port, to.address),
            clock=enterprise.clock,
            source="chat",
            jitter=lambda low, high: high,
        )
        return cls(form, CallTokens({"bearer": SCHEMES["bearer"]}, grants), enterprise)

    async def token(self, shown: str, who: str = "ann") -> str:
        principal = Principal(id=who, token=Secret(shown), proof=CredentialProof(issuer="x", subject=who))
        return (await self.tokens.renewal("bearer", self.form, f"{RESOURCE}/messages", principal)).token

    async def of(self, subject: str = "ann", **more: Any) -> str:
        return await self.token(id_token(self.enterprise.provider.origin, subject, **more), subject)


def form_of(written: Mapping[str, Any]) -> OAuth:
    read = read_form(parsed_auth(written))
    assert isinstance(read, OAuth)
    return read


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    with enterprise_servers() as running:
        yield running


async def test_a_token_is_had_with_an_assertion_of_the_identity_provider(enterprise: Enterprise) -> None:
    assert await Caller.at(enterprise).of() == "canary-ann-j1"
    (asked,) = enterprise.provider.asked
    assert asked.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": asked.form["subject_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": enterprise.server.origin,
        "resource": RESOURCE,
        "scope": "chat.read",
    }
    metadata, presented = enterprise.server.asked
    assert metadata.method == "GET"
    assert presented.form == {"grant_type": JWT_BEARER, "assertion": enterprise.given[0]}
    # Each server is shown its own client's secret.
    assert "canary-chat-secret" not in str(asked.headers) + asked.body.decode()
    assert asked.headers["Authorization"] != presented.headers["Authorization"]


async def test_a_token_is_kept_for_its_person_until_it_ends(enterprise: Enterprise) -> None:
    caller, shown = Caller.at(enterprise), id_token(enterprise.provider.origin)
    assert set(await asyncio.gather(*(caller.token(shown) for _ in range(20)))) == {"canary-ann-j1"}
    assert await caller.of("bob") == "canary-bob-j2"
    assert len(enterprise.given) == 2
    enterprise.clock.advance(3600)
    assert await caller.token(shown) == "canary-ann-j3"
    assert (
        await caller.token(shown, "bob") == "canary-ann-j4"
    )  # asked for anew: nobody has what another caller was given
    assert [asked.path for asked in enterprise.server.asked].count("/.well-known/oauth-authorization-server") == 2
    assert len(set(enterprise.given)) == 4  # none is presented twice


async def test_a_named_token_endpoint_needs_no_metadata(enterprise: Enterprise) -> None:
    server = {**enterprise.written()["authorization_server"], "token_url": f"{enterprise.server.origin}/token"}
    assert await Caller.at(enterprise, authorization_server=server).of() == "canary-ann-j1"
    assert [asked.path for asked in enterprise.server.asked] == ["/token"]


async def test_an_access_token_is_shown_where_the_source_says_so(enterprise: Enterprise) -> None:
    caller = Caller.at(enterprise, subject_token_type="access_token")
    assert await caller.of(kind="at+jwt") == "canary-ann-j1"
    assert enterprise.provider.asked[0].form["subject_token_type"].endswith(":access_token")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"claims": {"sub": "bob"}}, "another person"),
        ({"claims": {"sub": None}}, "another person"),
        ({"claims": {"aud": "https://other.example"}}, "another authorization server"),
        ({"claims": {"aud": RESOURCE}}, "another authorization server"),
        ({"claims": {"aud": None}}, "another authorization server"),
        ({"claims": {"iss": "https://evil.example"}}, "another identity provider"),
        ({"claims": {"client_id": "another-app"}}, "another client"),
        ({"claims": {"client_id": None}}, "another client"),
        ({"claims": {"resource": "https://other.example"}}, "another resource"),
        ({"claims": {"exp": 1}}, "has expired"),
        ({"claims": {"exp": None}}, "has expired, or never does"),
        ({"claims": {"exp": True}}, "has expired, or never does"),
        ({"header": {"typ": "JWT"}}, r"another type than oauth-id-jag\+jwt"),
        ({"header": {"typ": "at+jwt"}}, r"another type than oauth-id-jag\+jwt"),
        ({"header": {"typ": None}}, r"another type than oauth-id-jag\+jwt"),
        ({"header": {"alg": "none"}}, "is not signed"),
        ({"answer": {"token_type": "Bearer"}}, "no identity assertion"),
        ({"answer": {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}}, "no identity assertion"),
        ({"answer": {"issued_token_type": None}}, "no identity assertion"),
        ({"answer": {"access_token": "canary-opaque"}}, "is no JWT"),
        ({"answer": {"access_token": "a.b.c"}}, "is no JWT"),
        ({"answer": {"access_token": ["canary"]}}, "is no JWT"),
    ],
)
async def test_token_substitution_by_an_assertion_for_somebody_or_something_else(
    enterprise: Enterprise, changes: dict[str, Any], why: str
) -> None:
    for name, value in changes.items():
        setattr(enterprise, name, value)
    with pytest.raises(SecretError, match=why) as caught:
        await Caller.at(enterprise).of()
    assert "canary" not in str(caught.value)
    assert "/token" not in [asked.path for asked in enterprise.server.asked]


async def test_an_assertion_for_two_audiences_is_sent_to_neither(enterprise: Enterprise) -> None:
    enterprise.claims = {"aud": [enterprise.server.origin, "https://other.example"]}
    with pytest.raises(SecretError, match="another authorization server"):
        await Caller.at(enterprise).of()
    enterprise.claims = {"aud": [enterprise.server.origin]}
    assert (await Caller.at(enterprise).of()).startswith("canary-ann")


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (lambda _: id_token("https://other-idp.example"), "another identity provider"),
        (lambda origin: id_token(origin, kind="at+jwt"), "an access token"),
        (lambda origin: id_token(origin, kind="application/at+JWT"), "an access token"),
        (lambda origin: id_token(origin, subject=""), "without a subject"),
        (lambda _: "opaque", "no JWT"),
        (lambda _: "a.b.c", "no JWT"),
    ],
)
async def test_a_token_of_another_issuer_or_type_is_shown_to_nobody(
    enterprise: Enterprise, shown: Any, why: str
) -> None:
    with pytest.raises(NoTokenError, match=why) as caught:
        await Caller.at(enterprise).token(shown(enterprise.provider.origin))
    assert caught.value.code == "forbidden"
    assert enterprise.provider.asked == enterprise.server.asked == []


async def test_mix_up_by_metadata_of_another_issuer(enterprise: Enterprise) -> None:
    enterprise.metadata = {"issuer": "https://evil.example"}
    with pytest.raises(SecretError, match="names another issuer"):
        await Caller.at(enterprise).of()
    assert enterprise.provider.asked == []


async def test_ssrf_by_metadata_with_an_inner_token_endpoint(enterprise: Enterprise) -> None:
    enterprise.metadata = {"token_endpoint": "http://169.254.169.254/token"}
    with pytest.raises(SecretError, match="no usable https address"):
        await Caller.at(enterprise).of()
    enterprise.metadata = {"token_endpoint": "https://169.254.169.254/token"}
    with pytest.raises(SecretError, match="does not connect"):
        await Caller.at(enterprise).of()


async def test_servers_that_the_policy_does_not_open_are_shown_nothing(enterprise: Enterprise) -> None:
    with pytest.raises(SecretError, match="does not connect"):
        await Caller.at(enterprise, Egress()).of()
    assert enterprise.provider.asked == enterprise.server.asked == []


async def test_a_refusal_says_which_server_refused(enterprise: Enterprise, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    enterprise.server.answer = lambda asked: (
        enterprise.at_server(asked)
        if asked.method == "GET"
        else Answered.json(400, error="invalid_grant", error_description=asked.form["assertion"])
    )
    with pytest.raises(SecretError, match="answered 400") as caught:
        await Caller.at(enterprise).of()
    enterprise.provider.answer = lambda asked: Answered.json(
        403, error="access_denied", hint=asked.form["subject_token"]
    )
    with pytest.raises(SecretError, match="answered 403") as refused:
        await Caller.at(enterprise).of()
    said = f"{caught.value!r} {caught.value} {refused.value} {caplog.text}"
    for secret in (*SECRETS.values(), *enterprise.given, enterprise.provider.asked[0].form["subject_token"]):
        assert secret not in said


async def test_a_token_that_lacks_a_scope_is_not_used(enterprise: Enterprise) -> None:
    caller = Caller.at(enterprise, scopes=["chat.read", "chat.write"])
    with pytest.raises(SecretError, match=r"chat\.write"):
        await caller.of()


SERVER = {"issuer": "https://auth.chat.example", "client_id": "x", "client_secret": "${env:S}"}
WRITTEN = {
    "subject_token": "principal",
    "issuer": "https://login.example",
    "token_url": "https://login.example/token",
    "client_id": "x",
    "client_secret": "${env:S}",
    "authorization_server": SERVER,
}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": ""}, "issuer: is missing"),
        ({"token_url": ""}, "token_url: is missing"),
        ({"issuer": "http://login.example"}, "issuer: must be https"),
        ({"token_url": "http://login.example/token"}, "token_url: must be https"),
        ({"audience": "y"}, "audience: is decided"),
        ({"token_type": "y"}, "token_type: is decided"),
        ({"subject_token_type": "saml2"}, "none of access_token, id_token"),
        ({"subject_token": "other"}, "takes the word principal"),
        ({"authorization_server": "https://auth.chat.example"}, "must be a mapping"),
        ({"authorization_server": {**SERVER, "issuer": ""}}, "issuer: is missing"),
        ({"authorization_server": {**SERVER, "issuer": "http://auth.chat.example"}}, "issuer: must be https"),
        ({"authorization_server": {**SERVER, "scopes": ["x"]}}, "scopes: does not belong here"),
        ({"authorization_server": {**SERVER, "authentication": "private_key_jwt"}}, "takes private_key"),
        ({"authorization_server": {"issuer": SERVER["issuer"]}}, "client_id: is missing"),
        ({"authorization_server": None}, "issuer: belongs to an exchange with an authorization_server"),
    ],
)
def test_a_setting_that_says_two_things_or_too_little_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        form_of({**WRITTEN, **changes})


def test_a_secret_that_is_written_out_is_found() -> None:
    assert literals(parsed_auth(WRITTEN)) == []
    server = {**SERVER, "client_secret": "written-out"}
    assert literals(parsed_auth({**WRITTEN, "authorization_server": server})) == [
        ("authorization_server", "client_secret")
    ]
    assert "written-out" not in repr(form_of({**WRITTEN, "authorization_server": server}))


def test_the_example_of_the_page_is_read() -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "credentials.md").read_text(encoding="utf-8")
    example = page.partition("## Cross-app access")[2].partition("```yaml\n")[2].partition("```")[0]
    form = form_of(yaml.safe_load(example)["sources"]["chat"]["auth"]["login"])
    assert form.authorization_server is not None
    assert (form.audience, form.subject_token_type) == ("https://auth.chat.example", "id_token")
