"""Which credentials are sent, where they go, and that nothing but the request ever shows them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.attacks.canary import leaks
from tests.connectors.http.bindings import binding, parameter
from toolgen.connectors.http.credentials import SourceCredentials
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.request_builder import HttpRequest, bind
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpParameter

CANARY = "canary-/+=7f3a"
SCHEMES = {
    "key": SecurityScheme(type="apiKey", in_="header", name="X-Key"),
    "query": SecurityScheme(type="apiKey", in_="query", name="api key"),
    "cookie": SecurityScheme(type="apiKey", in_="cookie", name="sid"),
    "basic": SecurityScheme(type="http", scheme="basic"),
    "bearer": SecurityScheme(type="http", scheme="bearer"),
    "oauth": SecurityScheme(type="oauth2", token_url="http://h.test/token"),
    "digest": SecurityScheme(type="http", scheme="digest"),
    "mutual": SecurityScheme(type="mutualTLS"),
}
SECRET = SecretReference("env", "CANARY")
USER = SecretReference("literal", "shop")


def credentials(**auth: object) -> SourceCredentials:
    return SourceCredentials(schemes=SCHEMES, auth=auth, secrets=SecretResolver({"CANARY": CANARY}))


def request(**headers: str) -> HttpRequest:
    return HttpRequest(method="GET", url="http://h.test/e", headers=tuple(headers.items()), body=None)


@pytest.mark.parametrize(
    ("security", "chosen"),
    [
        ((), ()),
        (((),), ()),
        ((("key",),), ("key",)),
        ((("bearer",), ("key",)), ("key",)),
        ((("key", "bearer"), ("cookie",)), ("cookie",)),
        ((("key", "cookie"),), ("key", "cookie")),
        ((("bearer",), ()), ()),
        (((), ("bearer",)), ()),
        (((), ("key",)), ("key",)),
        ((("key",), ()), ("key",)),
        ((("unknown",), ("key",)), ("key",)),
    ],
)
def test_the_first_alternative_that_is_wholly_configured_is_chosen(
    security: tuple[tuple[str, ...], ...], chosen: tuple[str, ...]
) -> None:
    assert credentials(key=SECRET, cookie=SECRET).choose(security) == chosen


@pytest.mark.parametrize(
    ("auth", "name"),
    [
        ({}, "key"),
        ({"basic": SECRET}, "basic"),
        ({"basic": {"username": USER}}, "basic"),
        ({"oauth": {"client_id": USER}}, "oauth"),
        ({"digest": SECRET}, "digest"),
        ({"mutual": {"certificate": SECRET}}, "mutual"),
        ({"unknown": SECRET}, "unknown"),
    ],
)
def test_without_a_credential_that_can_be_sent_the_call_is_refused_by_scheme_name(
    auth: dict[str, object], name: str
) -> None:
    with pytest.raises(SecretError, match=name) as caught:
        credentials(**auth).choose(((name,),))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "auth", "url", "headers", "masked"),
    [
        ("key", SECRET, "http://h.test/e", {"X-Key": CANARY}, {"X-Key": "***"}),
        ("query", SECRET, "http://h.test/e?api%20key=canary-%2F%2B%3D7f3a", {}, {}),
        ("cookie", SECRET, "http://h.test/e", {"Cookie": f"sid={CANARY}"}, {"Cookie": "sid=***"}),
        ("bearer", SECRET, "http://h.test/e", {"Authorization": f"Bearer {CANARY}"}, {"Authorization": "Bearer ***"}),
        (
            "oauth",
            {"token": SECRET},
            "http://h.test/e",
            {"Authorization": f"Bearer {CANARY}"},
            {"Authorization": "Bearer ***"},
        ),
        (
            "basic",
            {"username": USER, "password": SECRET},
            "http://h.test/e",
            {"Authorization": "Basic c2hvcDpjYW5hcnktLys9N2YzYQ=="},
            {"Authorization": "Basic ***"},
        ),
    ],
)
async def test_each_scheme_goes_where_it_belongs_and_is_masked_there(
    name: str, auth: object, url: str, headers: dict[str, str], masked: dict[str, str]
) -> None:
    bound = credentials(**{name: auth})
    signed = await bound.sign(request(), (name,))
    assert (signed.request.url, dict(signed.request.headers)) == (url, headers)
    assert CANARY in signed.secrets
    assert CANARY not in repr(signed)
    shown = bound.mask(request(), (name,))
    assert dict(shown.headers) == masked
    assert shown.url in {"http://h.test/e", "http://h.test/e?api%20key=***"}


async def test_a_credential_joins_the_arguments_cookies_and_query() -> None:
    bound = binding(parameter("cookie", name="theme"), parameter("query", name="a"))
    both = credentials(cookie=SECRET, query=SECRET)
    signed = await both.sign(bind(bound, {"theme": "dark", "a": 1}), ("cookie", "query"))
    assert ("Cookie", f"theme=dark; sid={CANARY}") in signed.request.headers
    assert signed.request.url.endswith("/e?a=1&api%20key=canary-%2F%2B%3D7f3a")


@pytest.mark.parametrize(
    ("scheme", "sent"),
    [
        ("key", request(**{"x-key": "mine"})),
        ("cookie", request(Cookie="a=1; sid=mine")),
        ("query", HttpRequest(method="GET", url="http://h.test/e?api+key=mine", headers=(), body=None)),
    ],
)
async def test_an_argument_that_says_what_a_credential_says_is_refused(scheme: str, sent: HttpRequest) -> None:
    with pytest.raises(UnbindableError, match="credential"):
        await credentials(**{scheme: SECRET}).sign(sent, (scheme,))


async def test_two_schemes_for_one_header_are_refused() -> None:
    both = credentials(bearer=SECRET, basic={"username": USER, "password": SECRET})
    with pytest.raises(SecretError, match="Authorization"):
        await both.sign(request(), ("bearer", "basic"))


@pytest.mark.parametrize("name", ["key", "bearer", "cookie"])
@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\0", "line\n"])
async def test_a_secret_that_could_break_out_of_its_place_is_not_sent(name: str, value: str) -> None:
    held = SourceCredentials(schemes=SCHEMES, auth={name: SECRET}, secrets=SecretResolver({"CANARY": value}))
    with pytest.raises(SecretError) as caught:
        await held.sign(request(), (name,))
    assert value not in str(caught.value)


async def test_a_secret_that_is_not_set_is_named_by_its_reference() -> None:
    held = SourceCredentials(schemes=SCHEMES, auth={"key": SECRET}, secrets=SecretResolver({}))
    with pytest.raises(SecretError, match="CANARY"):
        await held.sign(request(), ("key",))


@pytest.mark.parametrize("name", ["key", "query", "cookie", "basic", "bearer"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("behind", ["", ";a", "; ab", "&x=1"])
async def test_an_echo_in_base64_of_what_a_credential_stood_in_is_scrubbed(
    name: str, encode: Callable[[bytes], bytes], behind: str
) -> None:
    """A service that repeats a whole header or a whole path, encoded: the credential begins anywhere in it."""
    looked_for = [CANARY, quote(CANARY, safe="")]
    held: object = {"username": USER, "password": SECRET} if name == "basic" else SECRET
    signed = await credentials(**{name: held}).sign(request(), (name,))
    sent = dict(signed.request.headers) | {"path": signed.request.url.partition("h.test")[2]}
    stood = sent[{"key": "X-Key", "query": "path", "cookie": "Cookie"}.get(name, "Authorization")]
    scrubbed = Scrubber(signed.secrets).text(
        encode((stood + (behind if name in {"query", "cookie"} else "")).encode()).decode()
    )
    assert leaks(looked_for, [scrubbed]) == []
    shown = encode(stood.encode()).decode()
    assert name == "basic" or leaks(looked_for, [shown])  # there was something to be found


@pytest.mark.parametrize(
    ("name", "one", "argument"),
    [
        ("key", parameter("header", name="x_key"), "x"),
        ("key", parameter("header", name="X-KEY"), "x"),
        ("query", parameter("query", name="api key"), "x"),
        ("query", parameter("query", name="apiKey"), "x"),
        ("query", parameter("query", name="api_key[]"), "x"),
        ("cookie", parameter("cookie", name="Sid"), "x"),
        ("cookie", parameter("cookie", name="opts"), {"SID": "x"}),
        ("cookie", parameter("query", name="opts"), {"sid[]": "x"}),
        ("key", parameter("query", name="opts"), {"x_key": "x"}),
        (
            "key",
            parameter("query", name="opts"),
            {"access_token": "x"},
        ),  # another scheme's, which this call does not need
    ],
)
async def test_what_some_service_takes_for_a_credentials_name_is_refused(
    name: str, one: HttpParameter, argument: object
) -> None:
    request_ = bind(binding(one), {one.argument: argument})
    bound = credentials(**{name: SECRET})
    with pytest.raises(UnbindableError, match="credential"):
        bound.mask(request_, (name,))
    with pytest.raises(UnbindableError, match="credential"):
        await bound.sign(request_, (name,))
