"""Attacks on the linking of accounts, by the names that RFC 9700 section 4 and MCP's security best practices give them.

After each of them nobody has an account that is not their own, and what was refused is on record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from msgspec.structs import replace

from tests.gateway.accounts.offices import link_of, office, refresh_of
from tests.services.account_provider import AccountProvider, account_provider, query_of
from toolgen.connectors.http.oauth.account_client import AccountClient
from toolgen.connectors.http.outbound.request import OutboundError
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError
from toolgen.model.auth import UserAccount, parsed_auth, read_form
from toolgen.model.verdict import Allow, Deny, Verdict
from toolgen.state.accounts import AccountKey


def changed(location: str, **changes: str | None) -> str:
    """A callback with other members."""
    base = location.partition("?")[0]
    query = {key: value for key, value in ({**query_of(location), **changes}).items() if value is not None}
    return f"{base}?{urlencode(query)}"


async def test_account_linking_by_the_link_of_somebody_else(tmp_path: Path, provider: AccountProvider) -> None:
    """An attacker gives the victim the link of the attacker's own call: the attacker's agent would act as the victim."""
    async with office(tmp_path, provider) as here:
        link = link_of(await here.call("bob"))
        page = await here.open("ann", link)
        assert page.status_code == 403
        assert "for somebody else" in page.text
        http = await here.browser("ann")
        own = await http.get("/console/accounts")
        token = own.text.split('name="form_token" value="')[1].split('"')[0]
        assert (await http.post(page.url.path, data={"form_token": token})).status_code == 403
        assert await here.gateway.accounts.all() == ()
        assert {one["principal"] for one in here.recorded("link_refused")} == {"ann"}
        assert (await here.link("bob", link)).status_code == 303  # it was not used up


async def test_a_link_without_signing_in_asks_for_that_first(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        link = link_of(await here.call())
        async with httpx.AsyncClient(base_url=here.url) as stranger:
            page = await stranger.get(refresh_of((await stranger.get(link)).text))
            assert page.status_code == 401
            assert "credential" in page.text
            assert (await stranger.post(page.url.path, data={"form_token": "x"})).status_code == 401


async def test_csrf_with_the_answer_of_another_browser(tmp_path: Path, provider: AccountProvider) -> None:
    """An attacker begins, and has the victim's browser come back with the attacker's code (RFC 9700 section 4.7)."""
    async with office(tmp_path, provider) as here:
        here.allow()
        provider.person = "attacker"
        location = provider.authorize(await here.begin("bob", link_of(await here.call("bob"))))
        await here.begin("ann", link_of(await here.call("ann")))
        assert (await here.back("ann", location)).status_code == 403
        assert await here.gateway.accounts.all() == ()


async def test_csrf_without_an_attempt(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("bob", link_of(await here.call("bob"))))
        assert (await here.back("ann", location)).status_code == 403
        assert (await here.back("bob", location)).status_code == 303


async def test_an_attempt_planted_in_the_browser_of_a_victim(tmp_path: Path, provider: AccountProvider) -> None:
    """An attacker who can set a cookie plants the attempt: the session of the victim is not the one that it was begun in."""
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("bob", link_of(await here.call("bob"))))
        attacker, victim = await here.browser("bob"), await here.browser("ann")
        victim.cookies.set("toolgen_link", attacker.cookies["toolgen_link"], path="/console/accounts/callback")
        assert (await here.back("ann", location)).status_code == 403
        assert await here.gateway.accounts.all() == ()


@pytest.mark.parametrize("state", [None, "", "guessed"])
async def test_an_answer_with_another_state(tmp_path: Path, provider: AccountProvider, state: str | None) -> None:
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        assert (await here.back("ann", changed(location, state=state))).status_code == 403
        assert (await here.back("ann", location)).status_code == 403  # the attempt is used up
        assert provider.tokens == {}


async def test_a_replayed_answer(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        assert (await here.back("ann", location)).status_code == 303
        assert (await here.back("ann", location)).status_code == 403
        assert len(await here.gateway.accounts.all()) == 1


async def test_a_link_is_used_once(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        link = link_of(await here.call())
        await here.begin("ann", link)
        page = await here.open("ann", link)
        assert page.status_code == 403
        assert "was used" in page.text
        assert link_of(await here.call()) != link


@pytest.mark.parametrize("iss", ["https://evil.example.com", "", None])
async def test_mix_up_by_the_issuer_of_the_answer(tmp_path: Path, provider: AccountProvider, iss: str | None) -> None:
    """RFC 9207: the answer of another server, or one that does not say whose it is though this server always does."""
    async with office(tmp_path, provider) as here:
        here.allow()
        provider.answer = {"iss": iss}
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        assert (await here.back("ann", location)).status_code == 403
        assert not any(asked.path == "/token" for asked in provider.service.asked)


async def test_mix_up_by_the_address_of_another_source(tmp_path: Path, provider: AccountProvider) -> None:
    """RFC 9700 section 4.4.2: each source has a redirect URI of its own, so an honest server's code comes to the honest address."""
    async with office(tmp_path, provider) as here:
        here.allow()
        provider.more = {"authorization_response_iss_parameter_supported": False}
        provider.answer = {"iss": None}
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        moved = location.replace("/callback/repos", "/callback/other")
        assert (await here.back("ann", moved)).status_code == 403
        assert not any(asked.path == "/token" for asked in provider.service.asked)


async def test_code_injection(tmp_path: Path, provider: AccountProvider) -> None:
    """RFC 9700 section 4.5: a code that was stolen from another authorization fits no verifier but its own."""
    async with office(tmp_path, provider) as here:
        here.allow()
        provider.person = "victim"
        stolen = query_of(provider.authorize(await here.begin("bob", link_of(await here.call("bob")))))["code"]
        provider.person = "attacker"
        location = provider.authorize(await here.begin("ann", link_of(await here.call("ann"))))
        assert (await here.back("ann", changed(location, code=stolen))).status_code == 403
        assert provider.faults == ["code"]
        assert await here.gateway.accounts.all() == ()


@pytest.mark.parametrize("methods", [["plain"], [], "S256"])
async def test_pkce_downgrade(tmp_path: Path, provider: AccountProvider, methods: object) -> None:
    """RFC 9700 section 4.8: a server that says that it knows no S256 is not used."""
    provider.more = {"code_challenge_methods_supported": methods}
    async with office(tmp_path, provider) as here:
        page = await here.open("ann", link_of(await here.call()))
        http = await here.browser("ann")
        token = page.text.split('name="form_token" value="')[1].split('"')[0]
        left = await http.post(page.url.path, data={"form_token": token})
        assert left.status_code == 403
        assert "PKCE" in left.text


async def test_a_consent_that_was_denied(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        denied = changed(location, code=None, error="access_denied")
        page = await here.back("ann", f"{denied}&error_description=%3Cscript%3Ealert(1)%3C/script%3E")
        assert page.status_code == 403
        assert "alert(1)" not in page.text


@pytest.mark.parametrize("more", ["&code=second", "&state=second", "&iss=https://second.example.com"])
async def test_an_answer_that_says_something_twice(tmp_path: Path, provider: AccountProvider, more: str) -> None:
    async with office(tmp_path, provider) as here:
        here.allow()
        location = provider.authorize(await here.begin("ann", link_of(await here.call())))
        assert (await here.back("ann", location + more)).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/accounts/link/https://evil.example.com/aaaaaaaaaaaaaaaa",
        "/accounts/link/..%2f..%2fevilaaaaaaaaaaaaaaaa",
        "/accounts/callback/https:%2F%2Fevil.example.com",
        "/accounts/callback/repos?to=https://evil.example.com",
        "/console/accounts/link/aaaaaaaaaaaaaaaaaaaaaaaa?to=https://evil.example.com",
        "/console/sign-in?to=https://evil.example.com",
        "/console/sign-in?to=/console/accounts/callback/repos",
    ],
)
async def test_open_redirect(tmp_path: Path, provider: AccountProvider, path: str) -> None:
    """RFC 9700 section 4.11: no page of the gateway leads anywhere but to the gateway and the configured server."""
    async with office(tmp_path, provider) as here:
        answer = await (await here.browser("ann")).get(path)
        assert "evil.example.com" not in answer.headers.get("location", "")
        assert "url=https://evil" not in answer.text
        assert 'value="/console/accounts/callback' not in answer.text


async def test_token_substitution_across_people(tmp_path: Path, provider: AccountProvider) -> None:
    """A row of one person that is put in the place of another's does not open there."""
    async with office(tmp_path, provider) as here:
        provider.person = "cat-of-bob"
        await here.link("bob")
        provider.person = "cat-of-ann"
        await here.link("ann")
        accounts = here.gateway.accounts
        rows = accounts.store._rows
        people = [accounts.person(here.gateway.principal(name)) for name in ("ann", "bob")]
        ann, bob = [await rows.get(AccountKey(person, "repos", "default").id) for person in people]
        assert ann is not None
        assert bob is not None
        await rows.put(replace(ann, version=ann.version + 1, record=bob.record))
        tokens = accounts.tokens("repos")
        assert tokens is not None
        tokens.forget(accounts.person(here.gateway.principal("ann")))
        with pytest.raises(StateError):
            await accounts.of(here.gateway.principal("ann"))
        found = await here.call("ann")
        assert (found.status, found.error and found.error.code) == ("error", "internal")
        assert provider.used == []


async def test_tokens_go_to_no_other_server(tmp_path: Path, provider: AccountProvider) -> None:
    """A changed issuer in toolgen.yaml is never sent the refresh tokens that another server gave."""
    async with office(tmp_path / "one", provider) as here:
        await here.link("ann")
    state = (tmp_path / "one" / "var").rename(tmp_path / "var")
    with account_provider() as evil:
        path = tmp_path / "two"
        path.mkdir()
        state.rename(path / "var")
        async with office(path, evil) as here:
            link_of(await here.call())
            assert not any(asked.path in {"/token", "/repos"} for asked in evil.service.asked)


def client(written: dict[str, Any], permit: Any) -> AccountClient:
    form = read_form(parsed_auth({"account": "user", "client_id": "x", "client_secret": "${env:HOME}", **written}))
    assert isinstance(form, UserAccount)
    return AccountClient(form, secrets=SecretResolver(), permit=permit, clock=FixedClock())


async def test_ssrf_by_an_issuer_at_an_inner_address() -> None:
    asked: list[str] = []

    def permit(destination: Any) -> Verdict:
        asked.append(destination.address)
        if not destination.address:  # the name alone, which decides about a proxy
            return Allow(rule="egress")
        return Deny(rule="egress", reason="not there", code="egress_refused")

    with pytest.raises(OutboundError, match="not there"):
        await client({"issuer": "https://169.254.169.254"}, permit).metadata()
    assert set(asked) == {"", "169.254.169.254"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1.evil.example.com/token",
        "https://user:secret@evil.example.com/token",
        "https://evil.example.com/token#part",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "https://evil.example.com\\@127.0.0.1/token",
        "https://[::1",
        7,
        {},
        "https://" + "a" * 3000,
    ],
)
async def test_ssrf_by_metadata_documents(provider: AccountProvider, endpoint: object) -> None:
    """A metadata document that names another kind of address is refused whole, and one at an inner address is refused as it is dialled."""
    provider.more = {"token_endpoint": endpoint}
    with pytest.raises(OutboundError, match="token_endpoint"):
        await client({"issuer": provider.issuer}, lambda _: Allow(rule="test")).metadata()


async def test_ssrf_by_a_token_endpoint_at_an_inner_address(provider: AccountProvider) -> None:
    provider.more = {"token_endpoint": "https://10.0.0.1/token"}

    def permit(destination: Any) -> Verdict:
        inner = destination.address == "10.0.0.1"
        return Deny(rule="egress", reason="not there", code="egress_refused") if inner else Allow(rule="test")

    with pytest.raises(OutboundError, match="not there"):
        await client({"issuer": provider.issuer}, permit).refresh("canary")


@pytest.mark.parametrize("issuer", ["https://other.example.com", "", None, "slash"])
async def test_metadata_of_another_issuer(provider: AccountProvider, issuer: str | None) -> None:
    """RFC 8414 section 3.3: the issuer of the document is the one that was asked, to the last character."""
    provider.more = {"issuer": f"{provider.issuer}/" if issuer == "slash" else issuer}
    with pytest.raises(OutboundError, match="another issuer"):
        await client({"issuer": provider.issuer}, lambda _: Allow(rule="test")).metadata()
