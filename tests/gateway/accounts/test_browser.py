"""An account linked in Chromium: the provider is another site, so what cookies are shown is the browser's own decision."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright

from tests.frontends.console.axe import AXE
from tests.frontends.console.people import CHROMIUM, FLAGS, needs_chromium
from tests.gateway.accounts.offices import KEYS, Office, link_of, office
from tests.services.account_provider import AccountProvider


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """A page of a fresh profile."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            page = await browser.new_page()
            page.set_default_timeout(15_000)
            yield page
        finally:
            await browser.close()


async def sign_in(page: Page, who: str) -> None:
    """Sign in on the page that asks for it."""
    await page.fill("#credential", KEYS[who])
    await page.click("button[type=submit]")


async def violations(page: Page) -> list[Any]:
    """What axe-core finds on a page, however small."""
    await page.evaluate(AXE)  # over the debugger's protocol: the page's own policy lets no script in
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return list(found["violations"])


async def opened(here: Office, page: Page, who: str, link: str) -> None:
    """Open a link as somebody who is not signed in yet."""
    await page.goto(link)
    await page.wait_for_selector("#credential")
    await sign_in(page, who)


@needs_chromium
async def test_a_person_signs_in_agrees_and_comes_back(tmp_path: Path, provider: AccountProvider) -> None:
    provider.service.origin = provider.service.origin.replace("127.0.0.1", "localhost")
    async with office(tmp_path, provider) as here, browsing() as page:
        here.allow()
        faults: list[str] = []
        page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
        await opened(here, page, "ann", link_of(await here.call()))
        await page.wait_for_selector("h1:has-text('Link your account')")
        assert await violations(page) == []
        await page.click("text=Go to")
        await page.wait_for_url(f"{here.url}/console/accounts?**")
        assert await page.locator("text=used by calls").count() == 1
        assert await violations(page) == []
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert [fault for fault in faults if "401" not in fault] == []
        await page.click("button:has-text('Unlink')")
        await page.wait_for_selector("text=No account is linked")
        link_of(await here.call())


@needs_chromium
async def test_the_link_of_somebody_else_is_refused_in_a_browser(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here, browsing() as page:
        await opened(here, page, "bob", link_of(await here.call("ann")))
        await page.wait_for_selector("text=made for somebody else")
        assert await here.gateway.accounts.all() == ()
