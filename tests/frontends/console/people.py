"""Ways into the console for tests: a plain HTTP client that signs in as a browser would, and Debian's Chromium."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.frontends.console.house import KEYS, House

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; `make browser` installs it")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


def form_token(text: str) -> str:
    """The token of a page's forms."""
    found = _TOKEN.search(text)
    assert found, text[:500]
    return found[1]


def sign_in(http: httpx.Client, key: str) -> httpx.Response:
    """What a browser sends to sign in."""
    token = form_token(http.get("/console/sign-in").text)
    return http.post("/console/sign-in", data={"credential": key, "form_token": token})


@contextmanager
def client(house: House, who: str = "") -> Iterator[httpx.Client]:
    """A client that keeps cookies and follows nothing, signed in as `who` where it says."""
    with httpx.Client(base_url=house.url) as http:
        if who:
            assert sign_in(http, KEYS[who]).status_code == 200
        yield http


@dataclass
class Watched:
    """A page, and everything that must not happen on it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def visit(self, url: str, *, status: int = 200) -> None:
        answer = self.page.goto(url)
        assert answer is not None
        assert answer.status == status, url
        self.check()

    def check(self) -> None:
        """No script of an agent's ran, nothing broke the policy of the page, nothing failed."""
        assert self.faults == []


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched(
    browser: Browser, house: House, who: str = "", *, script: bool = True, scheme: str = "light", width: int = 1280
) -> Iterator[Watched]:
    """A page of a fresh profile, signed in as `who` where it says. What it must not do is noted."""
    context = browser.new_context(
        java_script_enabled=script,
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
    )
    context.set_default_timeout(15_000)
    try:
        found = Watched(context.new_page())
        page = found.page
        page.on("console", lambda said: found.faults.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: found.faults.append(str(error)))
        page.on("dialog", lambda dialog: (found.faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith(house.url) else found.faults.append(f"asks elsewhere: {asked.url}")
            ),
        )
        if who:
            page.goto(f"{house.url}/console")
            page.fill("#credential", KEYS[who])
            with arriving(page):
                page.click("button[type=submit]")
            page.wait_for_selector("form.who")
        yield found
    finally:
        context.close()


@contextmanager
def arriving(page: Page) -> Iterator[None]:
    """Waits until the page that a click or a key leads to has loaded: until then, everything that is asked is asked of the page before."""
    with page.expect_navigation():
        yield


def tab_to(page: Page, selector: str) -> None:
    """Presses Tab until an element has the focus."""
    for _ in range(120):
        if page.evaluate("found => document.activeElement.matches(found)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never came to {selector}")
