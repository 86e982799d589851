"""Step-up: a system that wants more scopes has its person asked for them, once, and the call goes on after that (RFC 6750 section 3.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.accounts.offices import WRITE, link_of, office
from tests.services.account_provider import AccountProvider, query_of
from toolgen.connectors.http.oauth.bearer_challenge import demand_of, missing_scopes
from toolgen.model.account_need import NO_DEMAND, AccountDemand


async def test_a_call_goes_on_after_the_person_gave_more_scopes(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        provider.wants = "repo admin"
        waiting = await here.call(tool=WRITE)
        assert "with more rights" in (waiting.error.message if waiting.error else "")
        link = link_of(waiting)
        shown = (await here.open("ann", link)).text
        assert "<code>admin</code>" in shown
        request = await here.begin("ann", link)
        assert query_of(request)["scope"] == "repo admin"
        assert provider.used == []
        assert (await here.back("ann", provider.authorize(request))).status_code == 303
        assert (await here.ended(waiting)).unwrap() == {"owner": "octocat"}
        assert provider.used == ["octocat"]
        (account,) = await here.gateway.accounts.all()
        assert (account.scopes, account.asked, account.default) == (("repo", "admin"), ("admin", "repo"), True)


async def test_a_person_is_asked_once_for_scopes_that_are_not_given(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        provider.wants, provider.grants = "admin", "repo"
        waiting = await here.call(tool=WRITE)
        await here.link("ann", link_of(waiting))
        ended = await here.ended(waiting)
        assert (ended.status, ended.error and ended.error.code) == ("error", "upstream_error")
        again = await here.call(tool=WRITE)
        assert (again.status, provider.used) == ("error", [])


async def test_a_call_goes_on_after_the_person_authenticated_anew(tmp_path: Path, provider: AccountProvider) -> None:
    """RFC 9470: the person is asked with the classes and the age that the system wants, and the call is made again by itself."""
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        provider.classes = "urn:mfa"
        waiting = await here.call(tool=WRITE)
        assert "to authenticate anew" in (waiting.error.message if waiting.error else "")
        link = link_of(waiting)
        assert "authenticate again" in (await here.open("ann", link)).text
        request = await here.begin("ann", link)
        query = query_of(request)
        assert (query["acr_values"], query["max_age"], query["scope"]) == ("urn:mfa", "0", "repo")
        assert provider.used == []
        assert (await here.back("ann", provider.authorize(request))).status_code == 303
        assert (await here.ended(waiting)).unwrap() == {"owner": "octocat"}
        (account,) = await here.gateway.accounts.all()
        assert account.asked_classes == ("urn:mfa",)


async def test_a_person_is_asked_once_to_authenticate_for_a_system_that_is_never_content(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        provider.classes = "urn:mfa"
        waiting = await here.call(tool=WRITE)
        request = await here.begin("ann", link_of(waiting))
        assert (
            await here.back("ann", provider.authorize(request.replace("urn%3Amfa", "urn%3Aother")))
        ).status_code == 303
        ended = await here.ended(waiting)
        assert (ended.status, ended.error and ended.error.code) == ("error", "upstream_error")
        again = await here.call(tool=WRITE)
        assert (again.status, provider.used) == ("error", [])


@pytest.mark.parametrize(
    ("header", "demand"),
    [
        ('Bearer error="insufficient_user_authentication"', AccountDemand(max_age=0)),
        ('Bearer error="insufficient_user_authentication", max_age=300', AccountDemand(max_age=300)),
        ('Bearer error="insufficient_user_authentication", acr_values="a b a"', AccountDemand(acr_values=("a", "b"))),
        ('Bearer error="insufficient_user_authentication", max_age="-1"', NO_DEMAND),
        ('Bearer error="insufficient_user_authentication", max_age="soon"', NO_DEMAND),
        ('Bearer error="insufficient_user_authentication", max_age="9999999999"', NO_DEMAND),
        (f'Bearer error="insufficient_user_authentication", acr_values="{"x" * 129}"', NO_DEMAND),
        ('Bearer error="insufficient_user_authentication", acr_values="a b c d e f g h i j k"', NO_DEMAND),
        ('Bearer error="insufficient_scope", scope="a", acr_values="b"', AccountDemand(scopes=("a",))),
        ('Basic error="insufficient_user_authentication"', NO_DEMAND),
    ],
)
def test_what_a_challenge_demands(header: str, demand: AccountDemand) -> None:
    assert demand_of(header) == demand


async def test_the_wider_account_of_somebody_else_changes_nothing(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        provider.wants = "admin"
        waiting = await here.call(tool=WRITE)
        provider.grants = "admin"
        await here.link("bob", link_of(await here.call("bob", tool=WRITE)))
        found = await here.ended(waiting, within=2.0)
        assert link_of(found)
        refused = await here.open("bob", link_of(waiting))
        assert refused.status_code == 403


@pytest.mark.parametrize(
    ("header", "scopes"),
    [
        ('Bearer error="insufficient_scope", scope="a b a"', ("a", "b")),
        ('Basic realm="x", Bearer realm="y", error="insufficient_scope", scope="a:b/c"', ("a:b/c",)),
        ('Bearer error="invalid_token", scope="a"', ()),
        ('Bearer error="insufficient_scope"', ()),
        ('Basic error="insufficient_scope", scope="a"', ()),
        ('Bearer error="insufficient_scope", scope="a \\"b"', ()),
        ('Bearer error="insufficient_scope", scope="' + " ".join(f"s{one}" for one in range(21)) + '"', ()),
        ('Bearer error="insufficient_scope", scope="' + "a" * 129 + '"', ()),
        ('Bearer error="insufficient_scope", scope="a\r\nb"', ()),
        ("", ()),
    ],
)
def test_scopes_are_taken_from_a_challenge_that_can_be_passed_on(header: str, scopes: tuple[str, ...]) -> None:
    assert missing_scopes(header) == scopes
