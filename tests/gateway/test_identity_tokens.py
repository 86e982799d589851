"""Tokens of identity providers: which are accepted, as whom, and every way to be refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import respx
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from httpx import Response
from jwt.algorithms import get_default_algorithms

from tests.gateway import issuer
from tests.gateway.issuer import (
    AUDIENCE,
    DER,
    ISSUER,
    PEM,
    PRIVATE,
    Provider,
    claims,
    encoded,
    hs256,
    jwk,
    provider,
    signed,
    token,
)
from toolgen.core.clock import FixedClock
from toolgen.gateway.identity import DisclosedReason, Identity, KeySets, TokenRejected
from toolgen.gateway.identity.identity_providers import fetch_key_set
from toolgen.gateway.identity.jwks import FRESH_S, RETRY_S, STALE_S, parse_key_set
from toolgen.gateway.identity.jwt import RefusedTokenError
from toolgen.gateway.identity.token_claims import accepts
from toolgen.model.call import Principal
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.credentials import (
    ALGORITHMS,
    IssuerEntry,
    PolicyCredentials,
    PrincipalEntry,
    Revocation,
    TokenRule,
)

NOW = time.time()


class Clock(FixedClock):
    """A time of day that stands still, and a time for caches that is told to move."""

    def now(self) -> float:
        return NOW


@pytest.fixture(autouse=True)
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the suite has done meanwhile, it is the time that the cases below were written at."""
    monkeypatch.setattr(issuer, "now", lambda: int(NOW))


@pytest.fixture(scope="module")
def keys() -> Iterator[Provider]:
    with provider() as found:
        yield found


def identity_of(
    location: str,
    *,
    revocations: tuple[Revocation, ...] = (),
    algorithms: tuple[str, ...] = ALGORITHMS,
    fetch: Callable[[str, int], Awaitable[bytes]] | None = None,
    clock: FixedClock | None = None,
) -> Identity:
    """A service principal, `ops`, and the users of `staff`."""
    rule = TokenRule(issuer=ISSUER, audience=frozenset({AUDIENCE}), jwks=location, algorithms=frozenset(algorithms))
    nobody: Any = {"keys": (), "attributes": {}, "acts_for": frozenset()}
    ops = PrincipalEntry(id="ops", roles=frozenset({"ops"}), token=rule, subject="service-1", **nobody)
    staff = IssuerEntry(
        name="staff",
        token=rule,
        roles=frozenset({"staff"}),
        grants={"groups": {"eng": frozenset({"engineer"})}, "/realm/roles": {"boss": frozenset({"lead"})}},
        attributes={"tenant": "/org/tenant", "level": "level"},
    )
    credentials = PolicyCredentials(
        principals={"ops": ops}, issuers={"staff": staff}, revocations=revocations, revoked_keys=frozenset()
    )
    time_ = clock or FixedClock(NOW)

    async def over_http(url: str, largest: int) -> bytes:
        return await fetch_key_set(url, largest, permit=lambda _: Allow(rule="test"))

    return Identity(credentials, time_, KeySets(fetch or over_http, time_))


async def refused(location: str, text: str, **options: Any) -> TokenRejected:
    found = await identity_of(location, **options).authenticate(text)
    assert isinstance(found, TokenRejected), found
    return found


async def accepted(location: str, text: str, **options: Any) -> Principal:
    identity = identity_of(location, **options)
    assert identity.recognised(text) is None
    found = await identity.authenticate(text)
    assert identity.recognised(text) is found
    assert isinstance(found, Principal), found
    return found


@pytest.mark.parametrize("key", PRIVATE)
@pytest.mark.parametrize("header", [{}, {"typ": "at+jwt"}, {"typ": "application/AT+JWT"}, {"kid": None}])
async def test_a_good_token_is_its_users(keys: Provider, key: str, header: dict[str, Any]) -> None:
    head = {name: value for name, value in ({"alg": "x", "kid": key} | header).items() if value is not None}
    head["alg"] = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}[key]
    principal = await accepted(keys.url, signed(head, claims(), key))
    assert (principal.id, principal.roles) == ("staff:ann", frozenset({"staff"}))


async def test_the_subject_of_a_principal_is_that_principal(keys: Provider) -> None:
    assert (await accepted(keys.url, token(sub="service-1"))).id == "ops"


async def test_roles_and_attributes_come_from_the_claims_that_are_listed_and_from_no_others(keys: Provider) -> None:
    principal = await accepted(
        keys.url,
        token(
            groups=["eng", "ops", "admin"],
            roles=["ops"],
            realm={"roles": "boss other"},
            org={"tenant": "acme"},
            level=3,
            tenant="evil",
        ),
    )
    assert principal.roles == {"staff", "engineer", "lead"}
    assert principal.attributes == {"tenant": "acme", "level": 3}


async def test_a_users_id_cannot_be_that_of_a_principal(keys: Provider) -> None:
    assert (await accepted(keys.url, token(sub="ops"))).id == "staff:ops"
    assert (await accepted(keys.url, token(sub="staff:ann"))).id == "staff:staff:ann"


NONE = ["none", "None", "NONE", "nOnE", "", None, "HS256", "hs256", "RS256 ", "rs256", ["RS256"], {"a": 1}, 5, "RS1"]


@pytest.mark.parametrize("algorithm", NONE)
async def test_an_algorithm_that_is_not_listed_is_refused(keys: Provider, algorithm: object) -> None:
    good = token()
    _, payload, signature = good.split(".")
    header = encoded({"alg": algorithm, "kid": "rsa"})
    assert (await refused(keys.url, f"{header}.{payload}.{signature}")).told is DisclosedReason.NOTHING
    await refused(keys.url, f"{header}.{payload}.")
    await refused(keys.url, signed({"alg": algorithm, "kid": "rsa"}, claims()))


@pytest.mark.parametrize("secret", [PEM, PEM.strip(), DER, json.dumps(jwk("rsa")).encode(), b"", b"rsa"])
async def test_a_public_key_is_no_secret(keys: Provider, secret: bytes) -> None:
    assert (await refused(keys.url, hs256(secret))).reason == "its algorithm is not one of those accepted"
    await refused(keys.url, hs256(secret, alg="RS256"))
    await refused(keys.url, hs256(secret, alg="EdDSA", kid="ed"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW - 61}, "it has expired (1 min ago by this machine's clock)"),
        ({"exp": 0}, f"it has expired ({NOW / 86_400:.0f} d ago by this machine's clock)"),
        ({"exp": None}, "it never expires"),
        ({"exp": "2099-01-01"}, "one of its times is not a number"),
        ({"exp": True}, "one of its times is not a number"),
        ({"exp": 1e300}, "one of its times is not a valid time"),
        ({"exp": -1}, "one of its times is not a valid time"),
        ({"nbf": NOW + 3600}, "it is not valid yet (1 h ahead of this machine's clock, so one of two clocks is wrong)"),
        ({"nbf": "0"}, "one of its times is not a number"),
        ({"iat": NOW + 3600}, "it is not valid yet (1 h ahead of this machine's clock, so one of two clocks is wrong)"),
        ({"iss": "https://evil.example"}, "its issuer is unknown"),
        ({"iss": ISSUER + "/"}, "its issuer is unknown"),
        ({"iss": [ISSUER]}, "its issuer is unknown"),
        ({"iss": None}, "its issuer is unknown"),
        ({"aud": "other"}, "it is for another audience, or for an unknown subject"),
        ({"aud": []}, "it is for another audience, or for an unknown subject"),
        ({"aud": None}, "its audience is neither a text nor a list of them"),
        ({"aud": {AUDIENCE: 1}}, "its audience is neither a text nor a list of them"),
        ({"aud": [AUDIENCE, 5]}, "its audience is neither a text nor a list of them"),
        ({"sub": None}, "its subject is not 1 to 128 printable characters"),
        ({"sub": ""}, "its subject is not 1 to 128 printable characters"),
        ({"sub": "a\0b"}, "its subject is not 1 to 128 printable characters"),
        ({"sub": "a\u202eb"}, "its subject is not 1 to 128 printable characters"),
        ({"sub": "\ud800"}, "its subject is not 1 to 128 printable characters"),
        ({"sub": "a" * 129}, "its subject is not 1 to 128 printable characters"),
        ({"sub": 5}, "its subject is not 1 to 128 printable characters"),
        ({"groups": {"eng": True}}, "its claim is neither a text nor a list of them"),
        ({"groups": ["eng", 5]}, "its claim is neither a text nor a list of them"),
        ({"cnf": {"jkt": "x"}}, "it is bound to a key whose possession is not proven here"),
    ],
)
async def test_claims_that_do_not_fit_are_refused(keys: Provider, changes: dict[str, Any], reason: str) -> None:
    assert (await refused(keys.url, token(**changes))).reason == reason


async def test_an_attribute_of_another_kind_is_refused(keys: Provider) -> None:
    for value in ({"a": 1}, "x" * 2000, "a\nb", [[1]]):
        assert (await refused(keys.url, token(org={"tenant": value}))).reason.startswith("a claim of its attributes")


async def test_clocks_may_differ_by_a_minute(keys: Provider) -> None:
    await accepted(keys.url, token(exp=NOW - 20, nbf=NOW + 30, iat=NOW + 30, aud=["other", AUDIENCE]))


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"b64": False},
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": None},
        {"kid": 5},
        {"kid": "k" * 257},
        {"kid": "../../../../etc/passwd"},
        {"kid": "rsa' OR '1'='1"},
        {"kid": "rsa\0"},
        {"kid": "RSA"},
        {"kid": "ed"},
    ],
)
async def test_headers_that_ask_for_more_are_refused(keys: Provider, header: dict[str, Any]) -> None:
    await refused(keys.url, token(header=header))


async def test_a_key_that_a_token_brings_along_is_not_looked_at(keys: Provider) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    maker = get_default_algorithms()["RS256"]
    own = maker.to_jwk(other.public_key(), as_dict=True)
    before = keys.asked
    for offer in ({"jwk": own}, {"jku": keys.url}, {"x5u": keys.url}, {"x5c": [encoded(DER)]}):
        head = {"alg": "RS256", "kid": "rsa"} | offer
        text = f"{encoded(head)}.{encoded(claims())}"
        forged = f"{text}.{encoded(maker.sign(text.encode(), other))}"
        assert (await refused(keys.url, forged)).reason == "its signature is wrong"
        await accepted(keys.url, signed(head, claims()))  # it does no harm either
    assert keys.asked == before + 8  # of the configured set alone


def malformed() -> list[str]:
    good = token()
    header, payload, signature = good.split(".")
    deep = encoded(b'{"iss":"' + ISSUER.encode() + b'","a":' + b"[" * 5000 + b"]" * 5000 + b"}")
    twice = json.dumps(claims())[:-1] + ', "sub": "root"}'
    return [
        "",
        "..",
        f"{header}.{payload}.",
        f"{header}..{signature}",
        f".{payload}.{signature}",
        f"{header}.{payload}",
        f"{good}.{signature}",
        f"{header}=.{payload}.{signature}",
        f"{header}.{payload}.{signature}==",
        f"{header}.{payload}.{signature[:-1]}",
        f"{header}.{payload}.{'A' * len(signature)}",
        f"{header}.{payload}.{signature[:-1]}{'B' if signature[-1] == 'A' else 'A'}",
        f"{header}.{payload}\n.{signature}",
        f"{good}\n",
        f" {good}",
        f"{header}.{payload}.{signature}\0",
        f"{header}.{payload}.{signature}\u00e9",
        f"{header}.{payload}.{signature}\ud800",
        f"{header}.{payload}.\u0661\u0662{signature}",
        f"{header}.{deep}.{signature}",
        signed({"alg": "RS256", "kid": "rsa"}, twice),
        signed('{"alg":"none","alg":"RS256","kid":"rsa"}', claims()),
        signed({"alg": "RS256", "kid": "rsa"}, json.dumps(claims())[:-1] + ', "x": {"a": 1, "a": 2}}'),
        signed({"alg": "RS256", "kid": "rsa"}, json.dumps(claims(exp=float("nan")))),
        signed({"alg": "RS256", "kid": "rsa"}, json.dumps(claims(exp=float("inf")))),
        signed({"alg": "RS256", "kid": "rsa"}, json.dumps(claims())[:-1] + ', "exp": 1e999}'),
        signed({"alg": "RS256", "kid": "rsa"}, b"\xff\xfe" + json.dumps(claims()).encode("utf-16-le")),
        signed({"alg": "RS256", "kid": "rsa"}, json.dumps(claims()).encode() + b"\0"),
        signed({"alg": "RS256", "kid": "rsa"}, [claims()]),
        signed([], claims()),
        signed({"alg": "RS256", "kid": "rsa"}, claims(x="y" * 20_000)),
        "A" * 3_000_000,
        f"{header}.{'A' * 3_000_000}.{signature}",
        f"{'A.' * 8000}",
    ]


async def test_what_is_no_token_is_refused_without_asking_anybody(keys: Provider) -> None:
    for text in malformed():
        await refused(keys.url, text)


async def test_a_mangled_token_is_refused_wherever_it_was_mangled(keys: Provider) -> None:
    good = token()
    identity = identity_of(keys.url)
    assert isinstance(await identity.authenticate(good), Principal)
    for place in range(len(good)):
        for letter in "A_.":
            if good[place] != letter:
                mangled = good[:place] + letter + good[place + 1 :]
                assert isinstance(await identity.authenticate(mangled), TokenRejected), place


async def test_only_listed_algorithms_pass(keys: Provider) -> None:
    await accepted(keys.url, token("ed"), algorithms=("EdDSA",))
    await refused(keys.url, token("rsa"), algorithms=("EdDSA",))
    await accepted(keys.url, signed({"alg": "PS256", "kid": "rsa"}, claims(), "rsa", "PS256"))
    await refused(keys.url, signed({"alg": "RS256", "kid": "rsa"}, claims(), "rsa", "PS256"))


@pytest.mark.parametrize(
    ("revocation", "changes", "gone"),
    [
        (Revocation(jwt_id="j1"), {"jti": "j1"}, True),
        (Revocation(jwt_id="j1"), {"jti": "j2"}, False),
        (Revocation(subject="ann"), {}, True),
        (Revocation(subject="bob"), {}, False),
        (Revocation(issuer=ISSUER), {}, True),
        (Revocation(issuer="https://other", subject="ann"), {}, False),
        (Revocation(before=NOW - 60), {}, False),
        (Revocation(before=NOW + 60), {}, True),
        (Revocation(before=NOW - 60), {"iat": None}, True),
        (Revocation(subject="ann", before=NOW - 60), {"iat": NOW - 120}, True),
        (Revocation(subject="bob", before=NOW - 60), {"iat": NOW - 120}, False),
    ],
)
async def test_what_is_revoked_is_refused(
    keys: Provider, revocation: Revocation, changes: dict[str, Any], gone: bool
) -> None:
    if gone:
        assert (await refused(keys.url, token(**changes), revocations=(revocation,))).reason == "it has been revoked"
    else:
        await accepted(keys.url, token(**changes), revocations=(revocation,))


NEW = ed25519.Ed25519PrivateKey.generate()


class Set:
    """A key set that is fetched without a network."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked, self.down = names, 0, False
        self.again: dict[str, str] = {}
        self.more: list[dict[str, Any]] = []

    async def __call__(self, location: str, largest: int) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if self.down:
            raise OSError("it is down")
        again = [jwk(name, kid=kid) for name, kid in self.again.items()]
        return json.dumps({"keys": [*(jwk(name) for name in self.names), *again, *self.more]}).encode()

    @staticmethod
    def used_again(name: str, kid: str, by: ed25519.Ed25519PrivateKey | None = None, **changes: Any) -> str:
        """A token that names this key id, signed by another key where one is given."""
        text = token(name, header={"kid": kid}, **changes)
        head = text.rpartition(".")[0]
        return text if by is None else f"{head}.{encoded(by.sign(head.encode()))}"


async def test_random_key_ids_do_not_hammer_the_provider() -> None:
    source, clock = Set("rsa"), Clock()
    identity = identity_of("x://", fetch=source, clock=clock)
    for number in range(200):
        assert isinstance(await identity.authenticate(token(header={"kid": f"k{number}"})), TokenRejected)
    assert source.asked == 1
    clock.advance(RETRY_S)
    await asyncio.gather(*(identity.authenticate(token(header={"kid": f"n{number}"})) for number in range(50)))
    assert source.asked == 2
    assert isinstance(await identity.authenticate(token()), Principal)


async def test_the_operator_is_told_which_key_set_cannot_be_had(caplog: pytest.LogCaptureFixture) -> None:
    source = Set("rsa")
    source.down = True
    refused = await identity_of("x://keys", fetch=source).authenticate(token())
    assert isinstance(refused, TokenRejected)
    assert "the key set x://keys cannot be used: it is down" in caplog.text


async def test_a_new_key_is_found_and_one_taken_out_stops_working() -> None:
    source, clock = Set("rsa"), Clock()
    identity = identity_of("x://", fetch=source, clock=clock)
    old = token()
    assert isinstance(await identity.authenticate(old), Principal)
    source.names = ("ed",)
    clock.advance(RETRY_S)
    assert isinstance(await identity.authenticate(token("ed")), Principal)
    assert isinstance(await identity.authenticate(token(jti="another")), TokenRejected)


async def test_a_key_id_that_is_used_again_for_a_new_key_is_asked_for_early_once() -> None:
    source, clock = Set("rsa"), Clock()
    identity = identity_of("x://", fetch=source, clock=clock)
    good = Set.used_again("ed", "k")
    assert isinstance(await identity.authenticate(good), TokenRejected)
    source.again = {"ed": "k", "ec": "k"}  # two keys of one id, for two algorithms
    clock.advance(RETRY_S)
    assert isinstance(await identity.authenticate(good), Principal)
    assert source.asked == 2
    source.again = {"ec": "k"}
    replaced = jwk("ed", kid="k", x=encoded(NEW.public_key().public_bytes_raw()))
    source.more = [replaced]
    newer = Set.used_again("ed", "k", by=NEW)
    assert isinstance(await identity.authenticate(newer), TokenRejected)  # asked for a moment ago
    for number in range(20):
        forged = token("ed", header={"kid": "k"}, jti=str(number)).rpartition(".")[0] + "." + encoded(b"\0" * 64)
        assert isinstance(await identity.authenticate(forged), TokenRejected)
    assert source.asked == 2
    clock.advance(RETRY_S)
    assert isinstance(await identity.authenticate(newer), Principal)
    assert source.asked == 3
    assert isinstance(await identity.authenticate(Set.used_again("ed", "k", jti="old")), TokenRejected)
    assert source.asked == 3


async def test_the_last_set_serves_for_an_hour_when_the_provider_is_down_and_no_longer() -> None:
    source, clock = Set("rsa"), Clock()
    identity = identity_of("x://", fetch=source, clock=clock)
    assert isinstance(await identity.authenticate(token()), Principal)
    source.down = True
    clock.advance(FRESH_S)
    assert isinstance(await identity.authenticate(token(jti="1")), Principal)
    clock.advance(STALE_S - FRESH_S)
    answer = await identity.authenticate(token(jti="2"))
    assert answer == TokenRejected("the keys of its issuer cannot be fetched", DisclosedReason.UNAVAILABLE)
    source.down = False
    clock.advance(RETRY_S)
    await identity.authenticate(token(jti="3"))
    async with asyncio.timeout(120):
        while not isinstance(await identity.authenticate(token(jti="4")), Principal):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_remembered_token_ends_when_it_expires() -> None:
    clock = FixedClock(NOW)
    identity = identity_of("x://", fetch=Set("rsa"), clock=clock)
    text = token(exp=NOW + 30)
    assert isinstance(await identity.authenticate(text), Principal)
    clock.advance(80)
    assert identity.recognised(text) is not None
    clock.advance(20)
    assert identity.recognised(text) is None
    assert await identity.authenticate(text) == TokenRejected("it has expired (1 min ago by this machine's clock)")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": []}',
        b"[" * 100_000,
        json.dumps({"keys": [jwk("rsa")] * 2}).encode(),
        json.dumps({"keys": [jwk("rsa", use="enc")]}).encode(),
        json.dumps({"keys": [jwk("rsa", key_ops=["sign"])]}).encode(),
        json.dumps({"keys": [jwk("rsa", kid=5)]}).encode(),
        json.dumps({"keys": [jwk("rsa", n="AQAB")]}).encode(),
        json.dumps({"keys": [jwk("ec", crv="secp256k1")]}).encode(),
        json.dumps({"keys": [jwk("ec", crv=["P-256"], kty=[])]}).encode(),
        json.dumps({"keys": [jwk("ec", x="AA")]}).encode(),
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}, 5, None]}).encode(),
        json.dumps({"keys": [jwk("rsa", kid=str(number)) for number in range(101)]}).encode(),
    ],
)
def test_a_set_without_a_usable_key_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        parse_key_set(body)


def test_a_key_serves_its_own_algorithm_alone() -> None:
    assert list(parse_key_set(json.dumps({"keys": [jwk("rsa", alg="PS256")]}).encode())) == [("rsa", "PS256")]
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    weak = get_default_algorithms()["RS256"].to_jwk(small, as_dict=True)
    assert ("w", "RS256") not in parse_key_set(json.dumps({"keys": [{**weak, "kid": "w"}, jwk("ed")]}).encode())


async def fetched(url: str, permit: Callable[[Any], Any] = lambda _: Allow(rule="test"), largest: int = 1000) -> str:
    """Why a set could not be fetched."""
    with pytest.raises(OSError, match=r"\S") as caught:
        await fetch_key_set(url, largest, permit=permit)
    return str(caught.value)


async def test_a_set_is_fetched_within_bounds() -> None:
    seen = []
    with provider() as keys:
        assert "larger than" in await fetched(keys.url, largest=100)
        keys.status = 302
        assert await fetched(keys.url) == "the answer is 302, not 200"
        before = keys.asked

        def closed(destination: Any) -> Allow | Deny:
            seen.append(destination)
            if not destination.address:  # the name, before it is resolved
                return Allow(rule="egress")
            return Deny(rule="egress", reason="closed", code="egress_refused")

        assert await fetched(keys.url, closed) == "closed"
        assert keys.asked == before
    assert [(one.address, one.service) for one in seen][-1:] == [("127.0.0.1", "keys")]
    assert {one.address for one in seen[:-1]} == {""}
    assert await fetched(keys.url) == "no answer from 127.0.0.1 (connection refused)"
    assert "file" in await fetched("/nonexistent/keys.json")


@respx.mock
async def test_a_set_elsewhere_is_fetched_over_tls_by_its_name() -> None:
    keys = {"keys": [jwk("ed")]}
    route = respx.get("https://login.example.com/keys").mock(return_value=Response(200, json=keys))

    found = await fetch_key_set("https://login.example.com/keys", 10_000, permit=lambda _: Allow(rule="test"))
    assert json.loads(found) == keys
    assert "authorization" not in route.calls[0].request.headers


def test_scopes_are_asked_of_who_calls_and_not_of_who_signs_in() -> None:
    rule = TokenRule(
        issuer=ISSUER,
        audience=frozenset({AUDIENCE}),
        jwks="https://keys.example/",
        algorithms=frozenset({"RS256"}),
        scopes=frozenset({"tools"}),
        sign_in=frozenset({"console"}),
    )
    assert accepts(rule, {"aud": "console"}, sign_in=True)
    assert not accepts(rule, {"aud": AUDIENCE}, sign_in=True)
    assert accepts(rule, {"aud": AUDIENCE, "scope": "tools other"}, sign_in=False)
    with pytest.raises(RefusedTokenError, match="lacks a scope"):
        accepts(rule, {"aud": AUDIENCE, "scope": "other"}, sign_in=False)
