"""Search of the documentation's site in a browser: the section that answers a question comes first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.frontends.console.people import chromium, needs_chromium
from tests.pages.built_site import installed

pytestmark = [installed, needs_chromium, pytest.mark.exhaustive]
HELD = {
    "limit an agent to one customer": "docs/how-to/recipes.html#limit-an-agent-to-one-customer",
    "two people approve": "docs/how-to/recipes.html#two-people-approve",
    "rotate a key": "docs/how-to/recipes.html#rotate-a-key",
    "add a database read-only": "docs/how-to/recipes.html#add-a-database-read-only",
    "why was a call refused": "docs/how-to/recipes.html#why-was-a-call-refused",
    "run two gateways": "docs/how-to/recipes.html#run-two-gateways",
    "high availability": "docs/how-to/recipes.html#high-availability",
    "aproval": "docs/how-to/approvals.html",
}
FURTHER = {
    "hide a column": "docs/how-to/databases/hidden-rows.html",
    "stop an agent at once": "docs/how-to/pausing.html",
    "kubernetes": "docs/how-to/deploy.html",
    "how fast is it": "docs/explanation/performance.html",
    "prompt injection": "docs/explanation/faq.html#does-toolgen-stop-prompt-injection",
    "slack notification": "docs/how-to/notifications.html#slack",
    "verify the record without toolgen": "docs/reference/audit-format.html",
    "rate limits per agent": "docs/reference/limits.html",
    "disk is full": "docs/explanation/faq.html#what-happens-when-the-disk-is-full",
    "secrets from vault": "docs/how-to/credentials.html#where-secrets-are",
    "connect claude": "docs/tutorials/claude.html",
    "moving to redis": "docs/how-to/recipes.html#move-to-redis",
    "backup": "docs/how-to/recipes.html#back-up-and-restore",
    "share with my team": "docs/how-to/recipes.html#share-a-gateway-with-a-team",
    "log in with okta": "docs/how-to/identity.html",
    "kuberntes": "docs/how-to/deploy.html",
    "graphql budget": "docs/how-to/graphql.html",
    "expired API key": "docs/how-to/recipes.html#rotate-a-key",
    "four eyes principle": "docs/how-to/recipes.html#two-people-approve",
    "downgrade to the old version": "docs/how-to/upgrade.html#go-back",
    "call my python function": "docs/how-to/functions.html",
    "import an openapi spec": "docs/reference/openapi.html",
    "sign in to the console": "docs/how-to/console.html#signing-in",
    "retry failed requests": "docs/reference/failures.html",
    "allow internal addresses": "docs/reference/egress.html",
    "delete needs approval": "docs/how-to/policy-cookbook/people.html#approval-for-what-cannot-be-undone",
    "export to siem": "docs/how-to/read-the-record.html",
    "convert mcp server": "docs/how-to/bridging.html",
    "tool name changed": "docs/reference/tool-names.html",
    "systemd unit": "docs/how-to/deploy.html",
    "agent must not delete anything": "docs/how-to/policy-cookbook/people.html#approval-for-what-cannot-be-undone",
    "how do I see what an agent did yesterday": "docs/how-to/read-the-record.html",
    "mask email addresses in results": "docs/how-to/inspect-results.html",
    "revoke access of a user": "docs/how-to/identity.html",
    "hide a tool from an agent": "docs/reference/policy.html#selecting-tools-and-toolsets",
    "write my own policy check in python": "docs/how-to/middleware.html",
    "test a policy before deploying": "docs/reference/policy.html#explaining-replaying-and-testing",
    "run in docker": "docs/how-to/deploy.html",
    "export audit log as csv": "docs/how-to/read-the-record.html",
    "oauth token refresh": "docs/how-to/credentials.html#oauth-2-0",
    "masking columns": "docs/how-to/databases/hidden-rows.html",
    "upload a file to an api": "docs/reference/rest.html#files-as-arguments",
    "too many tools in context": "docs/explanation/search.html",
    "429 too many requests": "docs/reference/limits.html",
    "certificate login mtls": "docs/how-to/identity.html",
    "disable a tool temporarily": "docs/how-to/pausing.html",
    "approve in slack": "docs/how-to/notifications.html#slack",
    "lost redis": "docs/reference/shared-state.html#what-happens",
    "idempotency key": "docs/reference/failures.html#idempotency-keys",
    "timeout for slow queries": "docs/how-to/databases.html",
}


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Page]:
    with chromium() as browser:
        found = browser.new_page()
        found.goto((site / "search.html").as_uri())
        yield found


def results(page: Page, query: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("query => searchSections(query)", query)
    return found


def addresses(page: Page, query: str) -> list[str]:
    return [f"{one['page']}#{one['anchor']}".rstrip("#") for one in results(page, query)["found"]]


@pytest.mark.parametrize(("query", "expected"), HELD.items())
def test_the_right_section_is_first(page: Page, query: str, expected: str) -> None:
    assert addresses(page, query)[:1] == [expected]


def test_further_questions_find_their_section(page: Page) -> None:
    first = {query: addresses(page, query)[:3] for query in FURTHER}
    wrong = {query: found for query, found in first.items() if FURTHER[query] not in found[:1]}
    assert len(wrong) <= len(FURTHER) // 10, wrong
    assert {query: found for query, found in first.items() if FURTHER[query] not in found} == {}


@pytest.mark.parametrize("query", ["approval", "redis", "policy", "breaking changes", "audit log"])
def test_changelog_and_internals_come_last(page: Page, query: str) -> None:
    last = [one.startswith(("CHANGELOG", "ARCHITECTURE", "docs/internals/")) for one in addresses(page, query)]
    assert last == sorted(last)


@pytest.mark.parametrize("query", ["approve", "approved", "approving", "aprove", "apprvoe"])
def test_forms_and_near_spellings_of_a_word_are_found(page: Page, query: str) -> None:
    assert any("approv" in one for one in addresses(page, query)[:3])


@pytest.mark.parametrize(
    "query", ["", "  ", "the", "zzzzzzzzzzqq", "<img src=x onerror=alert(1)>", "__proto__", "constructor", "a" * 5000]
)
def test_any_text_is_a_question(page: Page, query: str) -> None:
    assert isinstance(results(page, query)["found"], list)


def test_results_are_shown_and_lead_to_their_section(page: Page, site: Path) -> None:
    page.goto((site / "docs" / "home.html").as_uri())
    page.fill("input.sidebar-search", "rotate <b>a</b> key zzzzqqqq")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results a")
    assert page.locator("article b").count() == 0
    expect(page.locator("#search-status")).to_contain_text("No page has zzzzqqqq.")
    page.fill("#search-words", "rotate a key")
    page.keyboard.press("Enter")
    page.wait_for_function("document.title === 'rotate a key - Search'")
    page.locator("#search-results a").first.click()
    page.wait_for_url("**/recipes.html#rotate-a-key")
    assert page.locator("#rotate-a-key h2").is_visible()
    page.goto((site / "search.html").as_uri())
