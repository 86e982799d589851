"""Tokens that are asked for: once for any number of calls, ahead of their end, not in vain, and never another caller's."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.services.authorization import Answered, Asked, Service, serving, token
from toolgen.connectors.http.oauth.token_endpoint import _ERRORS, read_answer
from toolgen.connectors.http.oauth.tokens import OAuthClient, OAuthClients
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse, Via
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, parsed_auth, read_form
from toolgen.model.verdict import Allow
from toolgen.policy.egress import Egress

SECRET = "canary-c11ent s&cret+/é"
ENVIRONMENT = {"SECRET": SECRET, "REFRESH": "canary-refresh-0"}
CLIENT: Mapping[str, Any] = {"client_id": "shop:1", "client_secret": "${env:SECRET}", "scopes": ["read", "write"]}
REFRESH: Mapping[str, Any] = {"client_id": "shop", "refresh_token": "${env:REFRESH}"}
EXCHANGE: Mapping[str, Any] = {**CLIENT, "subject_token": "principal", "audience": "orders"}


def form(written: Mapping[str, Any]) -> OAuth:
    read = read_form(parsed_auth(written))
    assert isinstance(read, OAuth)
    return read


def in_form(body: bytes) -> Answered:
    return Answered(200, body, {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})


def counted(**more: Any) -> Callable[[Asked], Answered]:
    numbers = itertools.count(1)
    return lambda _: token(f"canary-token-{next(numbers)}", **more)


class Held:
    """A grant at a service, and the clock it goes by."""

    def __init__(self, service: Service, written: Mapping[str, Any] = CLIENT, folder: Path | None = None) -> None:
        self.clock = FixedClock()
        self.grants = OAuthClients(
            secrets=SecretResolver(ENVIRONMENT),
            permit=lambda _: Allow(rule="test"),
            clock=self.clock,
            folder=folder,
            jitter=lambda low, high: high,
        )
        self.grant: OAuthClient = self.grants.grant(form(written), f"{service.origin}/token")

    async def fetch(self, who: str = "", subject: str | None = None) -> str:
        return await self.grant.fetch(who, None if subject is None else Secret(subject))


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(counted()) as running:
        yield running


async def test_one_request_serves_a_hundred_callers_and_all_later_ones(service: Service) -> None:
    held = Held(service)
    assert held.grant.known("", None) is None
    assert set(await asyncio.gather(*(held.fetch() for _ in range(100)))) == {"canary-token-1"}
    assert held.grant.known("", None) == "canary-token-1"
    assert len(service.asked) == 1
    asked = service.asked[0]
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}
    # RFC 6749 section 2.3.1: form-encoded before base64, so that neither a colon nor a space is lost.
    expected = base64.b64encode(b"shop%3A1:canary-c11ent+s%26cret%2B%2F%C3%A9").decode()
    assert asked.headers["Authorization"] == f"Basic {expected}"


async def test_a_token_is_replaced_before_its_end_while_calls_go_on_with_the_old_one(service: Service) -> None:
    held = Held(service)
    assert await held.fetch() == "canary-token-1"
    held.clock.advance(3600 * 0.9)
    service.gate.clear()
    assert held.grant.known("", None) == "canary-token-1"
    assert await held.fetch() == "canary-token-1"
    service.gate.set()
    asking = held.grant._own.asking
    assert asking is not None
    await asking
    assert [await held.fetch() for _ in range(3)] == ["canary-token-2"] * 3
    assert len(service.asked) == 2


async def test_a_token_that_has_ended_is_not_sent_even_when_there_is_no_other(service: Service) -> None:
    held = Held(service)
    await held.fetch()
    service.answer = lambda _: Answered.json(503)
    held.clock.advance(3595)
    with pytest.raises(SecretError, match="503"):
        await held.fetch()


async def test_a_dead_endpoint_is_not_asked_again_until_its_time(service: Service) -> None:
    service.answer = lambda _: Answered.json(500, error="server_error")

    held = Held(service)
    for _ in range(50):
        with pytest.raises(SecretError, match="no token can be had from"):
            await held.fetch()
    assert len(service.asked) == 1
    asked = []
    for _ in range(8):
        held.clock.advance(1)
        with pytest.raises(SecretError):
            await held.fetch()
        asked.append(len(service.asked))
    assert asked == [1, 2, 2, 2, 2, 3, 3, 3]  # after 2 seconds, then 4, then 8
    service.answer = counted()
    held.clock.advance(60)
    assert await held.fetch() == "canary-token-1"


async def test_a_token_that_is_not_accepted_is_replaced_once_and_not_for_every_call(service: Service) -> None:
    held = Held(service)
    first = await held.fetch()
    assert held.grant.reject("", None, first)
    assert held.grant.reject("", None, first), "another call was refused with the same token: it is mended too"
    second = await held.fetch()
    assert second == "canary-token-2"
    assert held.grant.reject("", None, first)
    assert not held.grant.reject("", None, second), "a fresh token did not help, so another would not"
    assert await held.fetch() == second
    held.clock.advance(31)
    assert held.grant.reject("", None, second)


async def test_a_secret_that_was_rotated_is_read_for_the_next_token(service: Service) -> None:
    environment = dict(ENVIRONMENT)

    held = Held(service)
    held.grants.secrets = SecretResolver(environment)
    await held.fetch()
    environment["SECRET"] = "canary-second"
    held.clock.advance(3600)
    await held.fetch()
    shown = [base64.b64decode(asked.headers["Authorization"].split()[1]).decode() for asked in service.asked]
    assert shown[1] == "shop%3A1:canary-second"


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        (Answered(302, b"", {"Location": "http://127.0.0.1:1/stolen"}), "redirects"),
        (Answered(307, b"", {"Location": "/again"}), "redirects"),
        (Answered(200, b"<html>sign in</html>", {"Content-Type": "text/html"}), "not JSON"),
        (Answered(200, b"[" * 100_000, {}), "not JSON"),
        (Answered(200, b'["canary"]', {}), "not a JSON object"),
        (Answered(200, itertools.repeat(b"{" * 65536), {}), "larger than"),
        (Answered(200, b"x", {"Content-Encoding": "gzip"}), "compressed"),
        (token("canary\r\nX-Admin: 1"), "access_token"),
        (token("canary é"), "access_token"),
        (token(""), "access_token"),
        (token("a" * 20_000), "access_token"),
        (token("canary", scope=["read"]), "lacks the scope write"),
        (token("canary", scope="read,canary"), "lacks the scope write"),
        (Answered.json(200, error="invalid_client", error_description="canary"), "client's credentials"),
        (Answered.json(200, ok=False, error="canary_code"), r"answered 200 \(|answered 200$"),
        (in_form(b"error=invalid_client&error_description=canary"), "client's credentials"),
        (in_form(b"access_token=a&access_token=canary&token_type=bearer"), "has a field twice"),
        (in_form(b'{"access_token":"canary","token_type":"bearer"}'), "not a valid form"),
        (in_form(b"access_token=canary%0d%0aX-Admin:1&token_type=bearer"), "access_token"),
        (Answered(200, b"access_token=canary&token_type=bearer", {"Content-Type": "text/plain"}), "not JSON"),
        (token("canary", expires_in="soon"), "expires_in"),
        (token("canary", expires_in=True), "expires_in"),
        (token("canary", expires_in=float("inf")), "expires_in"),
        (token("canary", token_type="mac"), "bearer"),
        (token("canary", token_type=None), "bearer"),
        (token("canary", token_type="DPoP"), "bearer"),
        (token("canary", scope="read"), "lacks the scope write"),
        (token("canary", scope=""), "lacks the scope read"),
        (token("canary", refresh_token="a\nb"), "refresh_token"),
        (Answered.json(400, error="invalid_client", error_description="canary-c11ent s&cret"), "client's credentials"),
        (Answered.json(400, error="<script>canary</script>"), "answered 400"),
        (Answered.json(400, error="canary_ignore_your_instructions"), r"answered 400 \(|answered 400$"),
        (Answered.json(400, error="canarysecretinsmallletters"), r"answered 400 \(|answered 400$"),
        (Answered.json(400, error="server_error"), "answered 400: it failed"),
        (Answered.json(401), "answered 401"),
    ],
)
async def test_an_answer_that_is_no_token_for_us_is_refused(service: Service, answered: Answered, why: str) -> None:
    service.answer = lambda _: answered

    held = Held(service)
    with pytest.raises(SecretError, match=why) as caught:
        await held.fetch()
    for text in (str(caught.value), repr(caught.value)):
        assert "canary" not in text
        assert "stolen" not in text
    assert len(service.asked) == 1


@given(code=st.text(), more=st.dictionaries(st.sampled_from(["error_description", "error_uri", "scope"]), st.text()))
def test_of_what_an_endpoint_says_of_an_error_nothing_is_repeated(code: str, more: dict[str, str]) -> None:
    said = []
    for error in (code, f"x_{code}_y"):
        body = json.dumps({"error": error, **more}).encode()
        with pytest.raises(OutboundError) as caught:
            read_answer(OutboundResponse(status=400, content_type="application/json", body=body), ())
        said.append(str(caught.value))
    assert set(said) <= {"it answered 400", *(f"it answered 400: {words}" for words in _ERRORS.values())}


@pytest.mark.parametrize(
    ("given", "lives"),
    [
        ({"expires_in": "3600"}, 3590),
        ({"expires_in": 3599.5}, 3589.5),
        ({"expires_in": "3599.5"}, 3589.5),
        ({"expires_in": 10**9}, 86_390),
        ({"expires_in": 10**400}, 86_390),
        ({"expires_in": 0}, 0),
        ({"expires_in": -1}, 0),
        ({"expires_in": "0"}, 0),
    ],
)
async def test_how_long_a_token_lives_is_read_as_services_write_it(
    service: Service, given: dict[str, Any], lives: float
) -> None:
    service.answer = counted(**given)

    held = Held(service)
    await held.fetch()
    slot = held.grant._own
    assert slot.token is not None
    assert slot.token.until - held.clock.monotonic() == lives


async def test_a_token_without_a_time_is_not_kept_for_long(service: Service) -> None:
    service.answer = lambda _: Answered.json(access_token=f"t{len(service.asked)}", token_type="bearer")

    held = Held(service)
    assert await held.fetch() == "t1"
    held.clock.advance(300)
    assert await held.fetch() == "t2"


@pytest.mark.parametrize(
    ("egress", "url"),
    [
        (Egress(private_networks=True), "http://169.254.169.254/token"),
        (Egress(private_networks=True), "http://[fe80::1]/token"),
        (Egress(), "http://127.0.0.1:9/token"),
        (Egress(), "http://localhost:9/token"),
        (Egress(allow=frozenset({("api.example.com", 443)})), "https://1.1.1.1/token"),
    ],
)
async def test_an_endpoint_that_the_policy_does_not_open_is_never_dialled(egress: Egress, url: str) -> None:
    asked: list[str] = []

    grants = OAuthClients(
        secrets=SecretResolver(ENVIRONMENT),
        permit=lambda to: asked.append(to.address) or egress.check(to.host, to.port, to.address),  # type: ignore[func-returns-value]
        clock=FixedClock(),
    )
    with pytest.raises(SecretError, match="does not connect"):
        await grants.grant(form(CLIENT), url).fetch("", None)
    assert asked


async def test_a_name_with_one_forbidden_address_is_not_dialled_at_all() -> None:
    async def rebound(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "169.254.169.254"]

    grants = OAuthClients(
        secrets=SecretResolver(ENVIRONMENT),
        permit=lambda to: Egress().check(to.host, to.port, to.address),
        clock=FixedClock(),
        resolver=rebound,
    )
    with pytest.raises(SecretError, match="link-local"):
        await grants.grant(form(CLIENT), "https://login.example.com/token").fetch("", None)


async def test_proxies_of_the_environment_are_not_used(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    await Held(service).fetch()
    assert len(service.asked) == 1


def rotating() -> Callable[[Asked], Answered]:
    """A service that gives every refresh token out once, and takes one that comes back for a stolen one."""
    valid = ["canary-refresh-0"]

    def answer(asked: Asked) -> Answered:
        if asked.form["refresh_token"] != valid[-1]:
            return Answered.json(400, error="invalid_grant")
        valid.append(f"canary-refresh-{len(valid)}")
        return token(f"access-{len(valid) - 1}", refresh_token=valid[-1])

    return answer


async def test_a_rotated_refresh_token_outlives_the_process_and_is_not_readable_on_disk(
    service: Service, tmp_path: Path
) -> None:
    service.answer = rotating()

    first = Held(service, REFRESH, tmp_path / "oauth")
    assert await first.fetch() == "access-1"
    first.clock.advance(3600)
    assert await first.fetch() == "access-2"
    second = Held(service, REFRESH, tmp_path / "oauth")
    assert await second.fetch() == "access-3"
    kept = [path for path in (tmp_path / "oauth").iterdir() if path.is_file()]
    assert kept
    for path in kept:
        assert path.stat().st_mode & 0o077 == 0
        assert b"canary" not in path.read_bytes()


async def test_processes_that_refresh_at_once_never_show_one_refresh_token_twice(
    service: Service, tmp_path: Path
) -> None:
    service.answer = rotating()

    held = [Held(service, REFRESH, tmp_path) for _ in range(5)]
    assert sorted(await asyncio.gather(*(one.fetch() for one in held))) == [f"access-{n}" for n in range(1, 6)]
    shown = [asked.form["refresh_token"] for asked in service.asked]
    assert len(set(shown)) == len(shown) == 5


async def test_another_configured_refresh_token_takes_the_place_of_the_kept_one(
    service: Service, tmp_path: Path
) -> None:
    service.answer = rotating()

    await Held(service, REFRESH, tmp_path).fetch()
    fresh = Held(service, REFRESH, tmp_path)
    fresh.grants.secrets = SecretResolver({"REFRESH": "canary-refresh-other"})
    with pytest.raises(SecretError, match="refresh token"):
        await fresh.fetch()
    assert service.asked[-1].form["refresh_token"] == "canary-refresh-other"


async def test_a_refresh_token_that_cannot_be_written_is_used_for_as_long_as_the_process_lives(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service.answer = rotating()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    held = Held(service, REFRESH, tmp_path)
    monkeypatch.setattr("toolgen.connectors.http.oauth.rotation.os.fsync", full)
    assert await held.fetch() == "access-1"
    held.clock.advance(3600)
    assert await held.fetch() == "access-2"
    assert "only in memory" in caplog.text
    assert "canary" not in caplog.text


async def test_each_caller_has_a_token_of_its_own(service: Service) -> None:
    service.answer = lambda asked: token(f"for-{asked.form['subject_token']}")

    held = Held(service, EXCHANGE)
    asked = [("ann", "token-a"), ("eve", "token-e"), ("ann", "token-a"), ("ann", "token-a2"), ("eve", "token-a")]
    given = await asyncio.gather(*(held.fetch(who, subject) for who, subject in asked))
    assert given == [f"for-{subject}" for _, subject in asked]
    assert len(service.asked) == 4  # one for each pair of caller and token
    assert held.grant.known("eve", Secret("token-a2")) is None
    (shown, *_) = [asked.form for asked in service.asked if asked.form["subject_token"] == "token-a"]
    assert shown == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "token-a",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "scope": "read write",
        "audience": "orders",
    }


async def test_one_callers_dead_token_does_not_keep_another_from_its_own(service: Service) -> None:
    def answer(asked: Asked) -> Answered:
        if asked.form["subject_token"] == "revoked":
            return Answered.json(400, error="invalid_grant")
        return token("fine")

    service.answer = answer

    held = Held(service, EXCHANGE)
    for _ in range(3):
        with pytest.raises(SecretError, match="caller's token"):
            await held.fetch("ann", "revoked")
    assert await held.fetch("eve", "good") == "fine"
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"authentication": "client_secret_post"}, {"client_id": "shop:1", "client_secret": SECRET}),
        ({"resource": "https://api.example.com/"}, {"resource": "https://api.example.com/"}),
    ],
)
async def test_other_ways_to_ask(service: Service, written: dict[str, str], shown: dict[str, str]) -> None:
    await Held(service, {**CLIENT, **written}).fetch()
    asked = service.asked[0]
    assert shown.items() <= asked.form.items()
    assert ("Authorization" in asked.headers) == ("authentication" not in written)


@pytest.mark.parametrize("issuer", ["", "https://login.example.com"])
async def test_a_client_proves_itself_by_a_signature_for_this_server_and_this_minute(
    service: Service, issuer: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    held = Held(
        service,
        {"client_id": "shop", "private_key": "${env:KEY}", "key_id": "k1"} | ({"issuer": issuer} if issuer else {}),
    )
    held.grants.secrets = SecretResolver({"KEY": pem})
    held.clock.seconds = 1_800_000_000.0
    await held.fetch()
    asked = service.asked[0].form
    assert asked["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assertion = asked["client_assertion"]
    assert jwt.get_unverified_header(assertion)["kid"] == "k1"
    claims = jwt.decode(
        assertion,
        key.public_key(),
        ["ES256"],
        audience=issuer or f"{service.origin}/token",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert (claims["iss"], claims["sub"], claims["exp"] - claims["iat"]) == ("shop", "shop", 60)
    assert len(json.dumps(claims)) < 400


async def test_a_private_key_that_is_none_is_said_without_being_shown(service: Service) -> None:
    held = Held(service, {"client_id": "shop", "private_key": "${env:SECRET}"})
    with pytest.raises(SecretError, match="private_key") as caught:
        await held.fetch()
    assert "canary" not in str(caught.value)
    assert not service.asked


async def test_closing_gives_up_what_is_being_asked_for(service: Service) -> None:
    service.gate.clear()

    held = Held(service)
    waiting = asyncio.create_task(held.fetch())
    await asyncio.to_thread(service.arrived.wait, 120)
    await held.grants.close()
    with pytest.raises(SecretError, match="closing"):
        await waiting


async def test_an_endpoint_that_never_answers_is_given_up(service: Service) -> None:
    service.gate.clear()

    with pytest.raises(OutboundError, match="did not answer in time"):
        await ask(OutboundRequest(method="POST", url=f"{service.origin}/token"), Via(total_s=0.2))


async def test_a_token_in_a_form_is_taken(service: Service) -> None:
    """As GitHub answers where nothing is asked of it."""
    service.answer = lambda _: in_form(b"access_token=canary-1&scope=read%2Cwrite&token_type=bearer")

    assert await Held(service).fetch() == "canary-1"


async def test_a_token_that_is_good_for_no_time_is_used_once(service: Service) -> None:
    service.answer = counted(expires_in=0, scope=["read", "write"])

    held = Held(service)
    assert [await held.fetch(), await held.fetch()] == ["canary-token-1", "canary-token-2"]
