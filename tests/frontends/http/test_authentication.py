"""Who gets in over HTTP: bearer credentials, certificates of trusted proxies, and what being wrong too often costs."""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
import logging
import time
from ipaddress import ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.gateway.clients import BASE, bearer
from tests.gateway.gateways import KEY, FakeGateway
from tests.projects import audit_entries, make_project
from toolgen.config.settings import ClientCertificates
from toolgen.core.clock import FixedClock
from toolgen.frontends.http import authentication
from toolgen.frontends.http.app import App
from toolgen.frontends.http.authentication import TurnQueue
from toolgen.frontends.http.failure_buckets import FailureBuckets
from toolgen.frontends.http.request import ANY_HOST, EventStream, Request, Response
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.identity import DisclosedReason, Identity, KeySets, TokenRejected, principals
from toolgen.gateway.identity.certificates import read_certificate
from toolgen.model.call import Principal
from toolgen.policy.credentials import CertificateRule, PolicyCredentials, PrincipalEntry

PROXIES = ClientCertificates(header="x-client-cert", proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")))


def certificate(name: str = "bot", issuer: str = "Acme CA", *, starts: int = -1, ends: int = 30) -> x509.Certificate:
    """A certificate of this subject and issuer, good from so many days from now until so many."""
    key = ed25519.Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.UTC)

    def named(text: str) -> x509.Name:
        return x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"), x509.NameAttribute(NameOID.COMMON_NAME, text)]
        )

    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=starts))
        .not_valid_after(now + datetime.timedelta(days=ends))
        .sign(key, None)
    )


def der(found: x509.Certificate) -> bytes:
    return found.public_bytes(Encoding.DER)


def rfc9440(found: x509.Certificate) -> str:
    return f":{base64.b64encode(der(found)).decode()}:"


def nginx(found: x509.Certificate) -> str:
    return quote(found.public_bytes(Encoding.PEM).decode(), safe="")


def digest_of(found: x509.Certificate) -> str:
    return hashlib.sha256(der(found)).hexdigest()


def xfcc(found: x509.Certificate) -> str:
    """As Envoy writes it with SANITIZE_SET and all details."""
    by = "By=spiffe://acme/gateway;" if found.serial_number % 2 else ""
    return f'{by}Hash={digest_of(found)};Cert="{nginx(found)}";Subject="CN=a\\"b;Cert=\\"x,O=Acme";URI=;DNS=bot.example;DNS=b2.example'


CERTIFICATE = certificate()
BY_FINGERPRINT = CertificateRule(fingerprints=frozenset({hashlib.sha256(der(CERTIFICATE)).hexdigest()}))
BY_NAME = CertificateRule(subject="CN=bot,O=Acme", issuer="CN=Acme CA,O=Acme")


def identity(rule: CertificateRule, clock: FixedClock | None = None, **revoked: Any) -> Identity:
    entry = PrincipalEntry(
        id="bot",
        keys=(),
        roles=frozenset({"support"}),
        attributes=MappingProxyType({}),
        acts_for=frozenset(),
        certificate=rule,
    )

    async def nothing(location: str, largest: int) -> bytes:
        raise OSError(location)

    clock = clock or FixedClock(time.time())
    given: dict[str, Any] = {"revocations": (), "revoked_keys": frozenset(), **revoked}
    credentials = PolicyCredentials(principals={"bot": entry}, issuers={}, **given)
    return Identity(credentials, clock, KeySets(nothing, clock))


class Certified(FakeGateway):
    def certified(self, value: str) -> Principal | TokenRejected:
        return identity(BY_NAME).certified(value)


class Expired(FakeGateway):
    told = DisclosedReason.NOTHING

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        return TokenRejected("because", self.told)


class Unavailable(Expired):
    told = DisclosedReason.UNAVAILABLE


class NoPages:
    """A console with nothing in it."""

    async def handle(self, request: Request) -> Response | EventStream:
        return Response(status=404)

    def end_streams(self) -> None:
        pass

    def failed(self) -> Response:
        return Response(status=500)

    async def close(self) -> None:
        pass


def http(
    gateway: FakeGateway, peer: str = "10.1.2.3", proxies: ClientCertificates | None = PROXIES
) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(App(gateway, certificates=proxies), client=(peer, 5))
    return httpx.AsyncClient(transport=transport, base_url=BASE)


async def test_hsts_is_said_where_the_public_url_is_https_and_nowhere_else() -> None:
    for url, console, told in (
        ("https://tools.example.com", "", True),
        ("", "https://tools.example.com", True),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", False),
        ("", "", False),
    ):
        app = App(FakeGateway(), hosts=ANY_HOST, url=url)
        app.open_console(lambda _: NoPages(), console)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tools.example.com") as it:
            for path in ("/healthz", "/v1/tools", "/nowhere", "/console/"):
                found = (await it.get(path)).headers.get("strict-transport-security")
                assert found == ("max-age=31536000" if told else None), (url, path)


async def test_a_browser_at_the_root_is_led_to_the_console_and_nobody_else() -> None:
    app = App(FakeGateway(), hosts=ANY_HOST)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tools.example.com") as it:
        assert (await it.get("/", headers={"accept": "text/html"})).status_code == 401  # there is no console
        app.open_console(lambda _: NoPages(), "")
        led = await it.get("/", headers={"accept": "text/html,*/*;q=0.8"})
        assert (led.status_code, led.headers["location"]) == (302, "/console")
        assert (await it.get("/", headers={"accept": "*/*"})).status_code == 401


@pytest.mark.parametrize("written", [rfc9440, nginx, xfcc])
@pytest.mark.parametrize("rule", [BY_FINGERPRINT, BY_NAME])
def test_a_certificate_is_its_principals(written: object, rule: CertificateRule) -> None:
    assert callable(written)
    answer = identity(rule).certified(written(CERTIFICATE))
    assert isinstance(answer, Principal)
    assert answer.id == "bot"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (rfc9440(certificate()), BY_FINGERPRINT),  # the same names, another key
        (rfc9440(certificate("bob")), BY_NAME),
        (rfc9440(certificate(issuer="Evil CA")), BY_NAME),
        (rfc9440(certificate("bot,O=Acme")), BY_NAME),
        (rfc9440(certificate(ends=0, starts=-2)), BY_NAME),
        (rfc9440(certificate(starts=1)), BY_NAME),
        (rfc9440(CERTIFICATE), CertificateRule()),
        ("", BY_NAME),
        ("::", BY_NAME),
        (":AAAA:", BY_NAME),
        (rfc9440(CERTIFICATE) + ", " + rfc9440(CERTIFICATE), BY_NAME),
        (rfc9440(CERTIFICATE)[:-10] + ":", BY_NAME),
        (nginx(CERTIFICATE) + nginx(certificate("eve")), BY_NAME),
        (nginx(CERTIFICATE)[:200], BY_NAME),
        ("CN=bot,O=Acme", BY_NAME),
        (f"Hash={'0' * 64};Subject=CN=bot", BY_NAME),
        (xfcc(CERTIFICATE) + "," + xfcc(certificate()), BY_NAME),  # a second proxy's, or the client's own
        (xfcc(certificate()) + "," + xfcc(CERTIFICATE), BY_NAME),
        (xfcc(CERTIFICATE) + ";" + f'Cert="{nginx(certificate())}"', BY_NAME),
        (f'Hash={digest_of(certificate("eve"))};URI=x;Cert="{nginx(CERTIFICATE)}"', BY_NAME),  # smuggled in a name
        (f"Hash={digest_of(certificate('eve'))};{xfcc(CERTIFICATE)}", BY_NAME),
        (f'Cert="{nginx(CERTIFICATE)}"', BY_NAME),
        (f'Hash={digest_of(CERTIFICATE)};Cert="{nginx(CERTIFICATE)}";', BY_NAME),
        (f'Hash={digest_of(CERTIFICATE)};Cert="{nginx(CERTIFICATE)}', BY_NAME),
        (f'Hash={digest_of(CERTIFICATE)};Cert="{nginx(CERTIFICATE) * 2}"', BY_NAME),
        (f"Hash={digest_of(CERTIFICATE)};Cert={rfc9440(CERTIFICATE)}", BY_NAME),
        (":" + "A" * 4_000_000 + ":", BY_NAME),
        ("\u00e9%00", BY_NAME),
    ],
)
def test_any_other_is_refused(value: str, rule: CertificateRule) -> None:
    assert isinstance(identity(rule).certified(value), TokenRejected)


def test_a_certificate_is_read_once_and_remembered_while_its_dates_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(value: str) -> x509.Certificate:
        read.append(value)
        return read_certificate(value)

    monkeypatch.setattr(principals, "read_certificate", counted)
    clock = FixedClock(time.time())
    who, found = identity(BY_NAME, clock), certificate(ends=2)
    first = who.certified(rfc9440(found))
    assert isinstance(first, Principal)
    assert who.certified(rfc9440(found)) is first
    assert len(read) == 1
    clock.seconds = found.not_valid_after_utc.timestamp()
    assert who.certified(rfc9440(found)) is first
    clock.seconds += 0.001
    expired = who.certified(rfc9440(found))
    assert isinstance(expired, TokenRejected)
    assert "expired" in expired.reason
    clock.seconds = found.not_valid_before_utc.timestamp() - 1
    assert isinstance(who.certified(rfc9440(found)), TokenRejected)
    monkeypatch.setattr(principals, "_MAX_CERTIFICATES", 3)
    clock.seconds = time.time()
    for _ in range(5):
        assert isinstance(who.certified(rfc9440(certificate())), Principal)
        assert isinstance(who.certified(rfc9440(certificate("eve"))), TokenRejected)
    assert len(who._certificates) <= 4


@pytest.mark.parametrize(
    ("peer", "proxies", "status"),
    [
        ("10.1.2.3", PROXIES, 200),
        ("::ffff:10.1.2.3", PROXIES, 200),
        ("fd00::5", PROXIES, 200),
        ("11.1.2.3", PROXIES, 400),
        ("127.0.0.1", PROXIES, 400),
        ("fe80::1%eth0", PROXIES, 400),
        ("", PROXIES, 400),
        ("unix", PROXIES, 400),
        ("10.1.2.3", None, 401),  # nobody's word is believed where none is named
    ],
)
async def test_only_a_trusted_proxy_is_believed(peer: str, proxies: ClientCertificates | None, status: int) -> None:
    async with http(Certified(), peer, proxies) as client:
        answer = await client.get(
            "/v1/tools", headers={"X-Client-Cert": rfc9440(CERTIFICATE), "X-Forwarded-For": "10.0.0.1"}
        )
    assert answer.status_code == status


async def test_a_header_that_came_twice_and_one_beside_a_wrong_key_are_refused() -> None:
    async with http(Certified()) as client:
        twice = [("x-client-cert", rfc9440(CERTIFICATE))] * 2
        assert (await client.get("/v1/tools", headers=twice)).status_code == 400
        both = {"x-client-cert": rfc9440(CERTIFICATE), **bearer("wrong")}
        assert (await client.get("/v1/tools", headers=both)).status_code == 401
        assert (await client.get("/v1/tools", headers={"x-client-cert": ""})).status_code == 401
        assert (await client.get("/v1/tools", headers=bearer(KEY))).status_code == 200


async def test_an_address_that_is_wrong_too_often_waits_and_what_was_right_before_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FixedClock()
    monkeypatch.setattr(
        authentication.Authentication.__init__, "__kwdefaults__", {"certificates": None, "clock": clock}
    )

    with caplog.at_level(logging.WARNING):
        async with http(FakeGateway(), proxies=None) as client:
            answers = [await client.get("/v1/tools", headers=bearer(f"guess-{number}")) for number in range(60)]
            assert [answer.status_code for answer in answers] == [401] * 30 + [429] * 30
            assert answers[-1].headers["retry-after"] == "1"
            assert (await client.get("/v1/tools", headers=bearer(KEY))).status_code == 200
            clock.advance(1)
            assert (await client.get("/v1/tools", headers=bearer("guess"))).status_code == 401
            assert (await client.get("/v1/tools", headers=bearer("guess"))).status_code == 429
            clock.advance(3600)
            assert (await client.get("/v1/tools", headers=bearer("guess"))).status_code == 401
    assert len(caplog.records) == 32  # one for each that was counted
    assert "10.1.2.3" in caplog.text
    assert "guess" not in caplog.text


def test_failures_are_kept_within_bounds_and_an_ipv6_network_is_one_peer() -> None:
    attempts = FailureBuckets(FixedClock())
    for number in range(40):
        attempts.failed(f"2001:db8::{number:x}")
    assert attempts.wait("2001:db8::ffff") > 0
    assert attempts.wait("2001:db8:0:1::1") == 0
    for number in range(20_000):
        attempts.failed(f"10.{number >> 8}.{number & 255}.1")
    assert len(attempts._peers) <= 4096
    for _ in range(40):
        attempts.failed("10.9.9.9")
    assert attempts.wait("::ffff:10.9.9.9") > 0


@pytest.mark.parametrize(
    ("gateway", "status", "challenge"),
    [
        (FakeGateway(), 401, 'Bearer error="invalid_token"'),
        (Expired(), 401, 'Bearer error="invalid_token"'),
        (Unavailable(), 503, None),
    ],
)
async def test_the_challenge_says_what_is_wrong_in_rfc_6750s_words(
    gateway: FakeGateway, status: int, challenge: str | None
) -> None:
    async with http(gateway, proxies=None) as client:
        assert (await client.get("/v1/tools")).headers["www-authenticate"] == "Bearer"
        answer = await client.get("/v1/tools", headers=bearer("wrong"))
    assert (answer.status_code, answer.headers.get("www-authenticate")) == (status, challenge)
    assert "because" not in answer.text


async def test_a_credential_in_the_url_is_recorded_without_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        gateway = FakeGateway()
        async with http(gateway, proxies=None) as client:
            for number in range(100):
                answer = await client.get(f"/v1/tools?Api_Key={KEY}&q={number}")
                assert answer.status_code == 400
                assert KEY not in answer.text
        assert gateway.refusals
        assert len(gateway.refusals) <= 31
        assert set(gateway.refusals) == {("credential_in_url", "10.1.2.3")}
    assert "a credential in its URL" in caplog.text
    assert KEY not in caplog.text


async def test_the_audit_has_it(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    async with Gateway.load(project) as gateway:
        transport = httpx.ASGITransport(App(gateway), client=("192.0.2.7", 5))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            await client.get("/v1/tools?access_token=canary-1")
        (entry,) = [item for item in audit_entries(gateway) if item["event"] == "refusal"]
        assert (entry["code"], entry["client"], entry["status"]) == ("credential_in_url", "192.0.2.7", "refused")
    for path in (tmp_path / "var" / "audit").iterdir():
        assert b"canary-1" not in path.read_bytes()


class Verifying(FakeGateway):
    """Nobody is recognised: everything has to be looked up or verified. `good` is a token that is."""

    good = "a.good.token"

    def __init__(self) -> None:
        super().__init__()
        self.verified: list[str] = []

    def recognised(self, credential: str) -> Principal | None:
        return None

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        self.verified.append(credential)
        return await super().authenticate(KEY if credential == self.good else credential)


async def test_wrong_credentials_keep_no_right_one_from_the_same_address_out() -> None:
    gateway = Verifying()
    async with http(gateway, proxies=None) as client:
        for wrong in ("guess", "a.bad.token"):
            answers = [await client.get("/v1/tools", headers=bearer(wrong)) for _ in range(60)]
            assert answers[-1].status_code == 429
            assert answers[-1].headers["retry-after"]
            for right in (KEY, gateway.good):
                assert (await client.get("/v1/tools", headers=bearer(right))).status_code == 200
        flood = [client.get("/v1/tools", headers=bearer("a.bad.token")) for _ in range(300)]
        right = client.get("/v1/tools", headers=bearer(gateway.good))
        *refused, found = await asyncio.gather(*flood, right)
        assert {answer.status_code for answer in refused} <= {401, 429}
        assert found.status_code == 200


async def test_tokens_of_an_address_that_fails_wait_in_a_line_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    short = TurnQueue(most=3)
    monkeypatch.setattr(authentication, "TurnQueue", lambda: short)
    gateway = Verifying()
    async with http(gateway, proxies=None) as client:
        for _ in range(30):
            await client.get("/v1/tools", headers=bearer("guess"))
        before = len(gateway.verified)
        flood = [client.get("/v1/tools", headers=bearer(f"a.bad.token{number}")) for number in range(10)]
        assert {answer.status_code for answer in await asyncio.gather(*flood)} == {429}
        assert len(gateway.verified) - before == 3
        assert (
            await client.get("/v1/tools", headers=bearer(gateway.good))
        ).status_code == 200  # the line is empty again


async def test_turns_are_taken_in_order_and_given_back_by_who_leaves() -> None:
    turns, order = TurnQueue(most=2), list[int]()

    async def one(number: int) -> bool:
        taken = await turns.take()
        order.append(number)
        return taken

    tasks = [asyncio.create_task(one(number)) for number in range(3)]
    assert await asyncio.gather(*tasks) == [True, True, False]
    assert order == [2, 0, 1]
    task = asyncio.create_task(one(3))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert await asyncio.gather(one(4), one(5)) == [True, True]


async def test_failures_behind_a_trusted_proxy_are_those_of_the_address_it_names() -> None:
    app = App(FakeGateway(), certificates=PROXIES, proxies=PROXIES.proxies)
    transport = httpx.ASGITransport(app, client=("10.1.2.3", 5))
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:

        async def get(key: str, said: str) -> int:
            headers = {**bearer(key), "x-forwarded-for": said}
            return (await client.get("/v1/tools", headers=headers)).status_code

        for number in range(40):
            await get("guess", f"203.0.113.{number}, 192.0.2.1")
        assert await get("guess", "192.0.2.1") == 429
        assert await get("guess", "192.0.2.2") == 401
        assert await get(KEY, "192.0.2.1") == 200
        assert await get("guess", "192.0.2.1, rubbish") == 401  # counts for the proxy itself


async def test_forged_certificate_headers_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with http(Certified(), "192.0.2.1") as client:
            for _ in range(100):
                answer = await client.get("/v1/tools", headers={"X-Client-Cert": "x"})
                assert answer.status_code in {400, 429}
    assert 30 <= len(caplog.records) <= 40


async def test_a_token_that_cannot_be_checked_now_is_no_failure() -> None:
    async with http(Unavailable(), proxies=None) as client:
        answers = [await client.get("/v1/tools", headers=bearer("wrong")) for _ in range(60)]
        assert {answer.status_code for answer in answers} == {503}
