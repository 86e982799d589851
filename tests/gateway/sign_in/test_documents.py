"""Client ID metadata documents: fetched over https and the egress rules, and never from an inner address that nobody listed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.authorities import Authority
from tests.gateway.sign_in.places import REDIRECT, place, policy_of
from tests.resolvers import resolving
from tests.services.identity_provider import IdentityProvider
from toolgen.config.sign_in import ClientSettings
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.outbound.tls import context_of
from toolgen.core.clock import Clock, FixedClock, SystemClock
from toolgen.gateway.sign_in.client_documents import ClientDocuments, is_document_address
from toolgen.gateway.sign_in.document_cache import (
    ClientDocumentCache,
    DocumentError,
    HostLimits,
    LoadedDocument,
    lifetime_of,
)
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.model.egress_proxy import EgressProxy
from toolgen.model.verdict import Verdict
from toolgen.policy.egress import Egress


@dataclass
class Host:
    """A web server of a client: what it answers, and what it was asked."""

    port: int = 0
    status: int = 200
    said: Any = field(default_factory=dict)
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def client_id(self) -> str:
        return f"https://localhost:{self.port}/client.json"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A client's server over https, whose authority this machine trusts."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    context_of.cache_clear()
    state = Host()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            body = state.said if isinstance(state.said, bytes) else json.dumps(state.said).encode()
            self.send_response(state.status)
            for name, value in {"content-type": state.kind, **state.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    state.port = server.server_address[1]
    state.said = {"client_id": state.client_id, "client_name": "Chat", "redirect_uris": [REDIRECT]}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        context_of.cache_clear()


def documents(
    host: Host, egress: Egress | None = None, settings: ClientSettings | None = None, clock: Clock | None = None
) -> ClientDocuments:
    rules = egress or Egress(allow=frozenset({("localhost", host.port)}))
    return ClientDocuments(
        settings or ClientSettings(),
        lambda place: rules.check(place.host, place.port, place.address),
        clock or SystemClock(),
    )


async def test_a_client_is_known_by_its_document(host: Host) -> None:
    known = documents(host)
    client = await known.client(host.client_id)
    assert (client.name, client.host, client.method, client.document) == ("Chat", "localhost", "none", True)
    await known.client(host.client_id)
    assert host.asked == ["/client.json"]


async def test_a_person_signs_in_with_a_client_of_a_document(
    tmp_path: Path, provider: IdentityProvider, host: Host
) -> None:
    host.said |= {"grant_types": ["authorization_code", "refresh_token"]}
    port = provider.issuer.rpartition(":")[2]
    egress = {"allow": [f"localhost:{host.port}", f"127.0.0.1:{port}"]}
    client = {"client_id": host.client_id, "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    async with place(tmp_path, provider, policy=policy_of(provider, egress=egress), sign_in={"clients": {}}) as here:
        page = await here.page(here.asked(client))
        assert "at <strong>localhost</strong>" in page.text
        tokens = await here.tokens(client)
        assert (await here.refresh(client, tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize(
    "egress",
    [
        Egress(),
        Egress(private_networks=True),
        Egress(allow=frozenset({("client.example.com", 443)})),
    ],
)
async def test_ssrf_by_a_document_at_an_inner_address(host: Host, egress: Egress) -> None:
    """An entry of its own is needed: `private_networks: allow` is for the operator's own services."""
    with pytest.raises(OAuthError, match="cannot be fetched from here"):
        await documents(host, egress).client(host.client_id)
    assert host.asked == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "::ffff:10.0.0.5", "fd00:ec2::254", "100.64.0.1", "0.0.0.0"],
)
async def test_ssrf_by_a_name_that_resolves_to_an_inner_address(host: Host, address: str) -> None:
    resolver = resolving("93.184.216.34", address)
    rules = Egress(private_networks=True)
    known = ClientDocuments(
        ClientSettings(),
        lambda one: rules.check(one.host, one.port, one.address),
        SystemClock(),
        resolver=resolver,
    )
    with pytest.raises(OAuthError, match="cannot be fetched from here"):
        await known.client(f"https://rebound.example:{host.port}/client.json")
    assert host.asked == []


@pytest.mark.parametrize("resolve", ["proxy", "local"])
async def test_ssrf_by_a_name_that_the_proxy_would_resolve(host: Host, resolve: Literal["proxy", "local"]) -> None:
    """A tunnel is asked for an address that was checked, and for no name of a stranger."""

    resolver = resolving("10.0.0.5")
    proxy = EgressProxy(scheme="http", host="localhost", port=host.port, resolve=resolve)
    rules = Egress(private_networks=True, proxy=proxy)

    services: list[str] = []

    def permit(one: Destination) -> Verdict:
        services.append(one.service)
        verdict = rules.check(one.host, one.port, one.address)
        return rules.routed(verdict, one.host, one.port, one.address, proxied=one.proxied)

    known = ClientDocuments(ClientSettings(), permit, SystemClock(), resolver=resolver)
    with pytest.raises(OAuthError, match="cannot be fetched from here"):
        await known.client("https://intranet.example/client.json")
    assert "proxy" not in services


async def test_ssrf_by_a_redirect(host: Host) -> None:
    host.status, host.headers = 302, {"location": "https://localhost/latest/meta-data"}
    with pytest.raises(OAuthError, match="redirects, which is not followed"):
        await documents(host).client(host.client_id)
    assert host.asked == ["/client.json"]


async def test_ssrf_by_the_key_set_of_a_document(host: Host) -> None:
    host.said |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://169.254.169.254/keys"}
    known = documents(host)
    client = await known.client(host.client_id)
    with pytest.raises(OAuthError, match="cannot be fetched from here"):
        await known.key_set(client)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": 404}, "is not there"),
        ({"kind": "text/html"}, "is not sent as application/json"),
        ({"kind": "application/jsonp"}, "is not sent as application/json"),
        ({"said": b"{" + b" " * 20_000 + b"}"}, "is larger than"),
        ({"said": b" " * 400_000}, "cannot be fetched"),
        ({"said": b"[]"}, "is not a JSON object"),
        ({"said": b'{"client_id": "a", "client_id": "b"}'}, "is not JSON with one meaning"),
        ({"said": b"{"}, "is not JSON"),
        ({"headers": {"content-encoding": "gzip"}}, "cannot be fetched"),
    ],
)
async def test_a_document_that_is_none(host: Host, changes: dict[str, Any], why: str) -> None:
    for name, value in changes.items():
        setattr(host, name, value)
    known = documents(host)
    for _ in range(2):
        with pytest.raises(OAuthError, match=why):
            await known.client(host.client_id)
    assert len(host.asked) == 1  # a fault is kept for a while: nobody has the gateway ask a hundred times


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://localhost/client.json"},
        {"client_id": None},
        {"client_secret": "x"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": []},
    ],
)
async def test_a_document_that_is_not_its_own(host: Host, changes: dict[str, Any]) -> None:
    host.said |= changes
    with pytest.raises(OAuthError, match="the metadata document of the client"):
        await documents(host).client(host.client_id)


@pytest.mark.parametrize(
    ("client_id", "is_address"),
    [
        ("https://client.example.com/id", True),
        ("https://client.example.com:8443/id", True),
        ("http://client.example.com/id", False),
        ("https://client.example.com", False),
        ("https://client.example.com/", False),
        ("https://client.example.com/a/../b", False),
        ("https://client.example.com/%2e%2e/b", False),
        ("https://user@client.example.com/id", False),
        ("https://client.example.com/id#x", False),
        ("https://client.example.com/i d", False),
        ("https://client.example.com\\@evil/id", False),
        ("https://client.example.com:99999/id", False),
        ("https://clïent.example.com/id", False),
        ("https://client.example.com/" + "x" * 2000, False),
        ("ftp://client.example.com/id", False),
        ("abc", False),
    ],
)
def test_which_ids_are_addresses(client_id: str, is_address: bool) -> None:
    assert is_document_address(client_id) is is_address


async def test_hosts_that_the_operator_did_not_allow_are_not_asked(host: Host) -> None:
    known = documents(host, settings=ClientSettings(hosts=("claude.ai",)))
    with pytest.raises(OAuthError, match="did not allow"):
        await known.client(host.client_id)
    assert host.asked == []


async def test_many_requests_for_a_document_are_one_fetch(host: Host) -> None:
    host.said |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"https://localhost:{host.port}/keys"}
    known = documents(host)
    clients = await asyncio.gather(*(known.client(host.client_id) for _ in range(100)))
    host.said = {"keys": [{"kid": "1"}]}
    await asyncio.gather(*(known.key_set(one, "1") for one in clients))
    assert host.asked == ["/client.json", "/keys"]


@pytest.mark.parametrize(
    ("cache_control", "kept_s"),
    [("", 300), ("max-age=120", 120), ("public, max-age=60, s-maxage=9", 60), ("max-age=999999999", 3600)],
)
async def test_a_document_is_kept_as_long_as_its_server_permits(host: Host, cache_control: str, kept_s: float) -> None:
    clock = FixedClock()
    known = documents(host, clock=clock)
    host.headers = {"cache-control": cache_control}
    await known.client(host.client_id)
    clock.advance(kept_s - 1)
    host.said["client_name"] = "Changed"
    assert (await known.client(host.client_id)).name == "Chat"
    clock.advance(1)
    assert (await known.client(host.client_id)).name == "Changed"


@pytest.mark.parametrize(
    ("cache_control", "age", "seconds"),
    [
        ("", "", 60.0),
        ("no-store", "", 0.0),
        ("private, NO-CACHE", "", 0.0),
        ('no-cache="set-cookie", max-age=5', "", 0.0),
        ("max-age=0", "", 0.0),
        ("max-age=100", "30", 70.0),
        ("max-age=100", "101", 0.0),
        ("max-age=100", "-1", 100.0),
        ("max-age=100, max-age=10", "", 10.0),
        ("max-age=-5", "", 60.0),
        ("max-age=x", "", 60.0),
        ("max-age=1000", "", 600.0),
    ],
)
def test_the_time_that_an_answer_may_be_kept(cache_control: str, age: str, seconds: float) -> None:
    assert lifetime_of(cache_control, age, usual_s=60.0, longest_s=600.0) == seconds


async def test_a_key_that_is_new_is_found_before_the_set_expires(host: Host) -> None:
    clock = FixedClock()
    host.said |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"https://localhost:{host.port}/keys"}
    known = documents(host, clock=clock)
    client = await known.client(host.client_id)
    host.said, host.headers = {"keys": [{"kid": "1"}]}, {"cache-control": "max-age=600"}
    assert await known.key_set(client, "1") == host.said
    host.said = {"keys": [{"kid": "2"}]}
    assert await known.key_set(client, "2") == {"keys": [{"kid": "1"}]}  # an invented id is not worth a fetch each time
    clock.advance(10)
    assert await known.key_set(client, "2") == host.said
    for _ in range(50):
        await known.key_set(client, "invented")
    assert host.asked == ["/client.json", "/keys", "/keys"]


async def test_fetches_from_a_host_are_limited(host: Host) -> None:
    clock = FixedClock()
    known = documents(host, clock=clock)
    host.status = 404
    codes = set()
    for number in range(60):
        with pytest.raises(OAuthError) as refused:
            await known.client(f"https://localhost:{host.port}/{number}")
        codes.add((refused.value.code, refused.value.status))
    assert len(host.asked) == 30
    assert codes == {("invalid_client", 400), ("temporarily_unavailable", 503)}
    clock.advance(20)
    host.status = 200
    assert (await known.client(host.client_id)).name == "Chat"


def test_the_limits_of_hosts_are_bounded() -> None:
    limits = HostLimits(FixedClock())
    for number in range(3000):
        limits.take(f"{number}.example")
    assert len(limits._buckets) == 1000


async def test_the_cache_is_bounded_and_a_request_that_ends_leaves_the_fetch_to_the_others() -> None:
    gate, loads = asyncio.Event(), []

    async def load(address: str) -> LoadedDocument[str]:
        loads.append(address)
        await gate.wait()
        if address == "bad":
            raise DocumentError("is bad")
        return LoadedDocument(address, 60.0)

    cache = ClientDocumentCache(load, FixedClock())
    first, second = asyncio.create_task(cache.get("a")), asyncio.create_task(cache.get("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.set()
    assert (await second, loads) == ("a", ["a"])
    for number in range(1200):
        await cache.get(str(number))
    assert len(cache._known) == 500
    for _ in range(2):
        with pytest.raises(DocumentError):
            await cache.get("bad")
    assert loads.count("bad") == 1
