"""Tasks of a reviewer by keyboard alone, each in at most twelve presses: what is typed into a field is not counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.frontends.console.house import KEYS, House, house
from tests.frontends.console.people import arriving, needs_chromium, watched

pytestmark = needs_chromium

MOST = 12


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        yield found


@dataclass
class Keyboard:
    """A keyboard that counts."""

    page: Page
    presses: int = 0

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)
        self.presses += times

    def to(self, selector: str, key: str = "Tab") -> None:
        """Presses a key until an element has the focus."""
        for _ in range(MOST):
            if self.page.evaluate("found => document.activeElement.matches(found)", selector):
                return
            self.press(key)
        raise AssertionError(f"{selector} takes more than {MOST} presses")

    def skip(self) -> None:
        """Presses Enter on a link within the page, and waits for the focus to be there."""
        self.press("Enter")
        self.page.wait_for_function("location.hash && document.activeElement.id === location.hash.slice(1)")

    def done(self, wait_for: str) -> int:
        """Presses Enter, waits for the page that brings, and returns how many presses it took."""
        with arriving(self.page):
            self.press("Enter")
        self.page.wait_for_selector(wait_for)
        assert self.presses <= MOST
        return self.presses


def opened(page: Page, url: str, link: str = "") -> Keyboard:
    """Open a page with a new keyboard and follow a link within it: by default the first one, which skips the navigation."""
    if page.url != url:
        page.goto(url)
    hand = Keyboard(page)
    if link:
        hand.to(link)
    else:
        hand.press("Tab")
    hand.skip()
    return hand


def test_each_task_takes_twelve_presses_at_most(browser: Browser, home: House) -> None:
    made = home.call("orders__list_orders", {"tenant_id": "acme", "status": "needle"})
    waiting = home.call("orders__delete_order", {"id": "by-keyboard"})
    taken = {}
    with watched(browser, home) as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/sign-in")
        hand = Keyboard(page)
        expect(page.locator("#credential")).to_be_focused()
        page.keyboard.type(KEYS["olga"])
        taken["sign in"] = hand.done("form.who")

        hand = opened(page, f"{home.url}/console/calls")
        hand.to("#text")
        page.keyboard.type("needle")
        taken["find"] = hand.done("#count:has-text('1 call found')")

        hand = opened(page, page.url, "a[href='#count']")
        hand.to(f"a[href$='{made.call_id}']")
        taken["read"] = hand.done(".steps")

        hand = opened(page, f"{home.url}/console/calls", "a[href='#count']")
        hand.to("a.zoned[href*='when=yesterday']", "Shift+Tab")
        taken["filter yesterday"] = hand.done("#count:has-text('0 calls found')")

        hand = opened(page, f"{home.url}/console/approvals")
        hand.to(f"a[href$='{waiting.call_id}']")
        taken["open a waiting call"] = hand.done("form.answer")

        hand = opened(page, page.url, "a[href='#answer']")
        hand.to("button.approve")
        taken["approve"] = hand.done("h1:has-text('Approved')")

        hand = opened(page, f"{home.url}/console/record")
        hand.to("main button")
        taken["verify"] = hand.done("#notice, #verified[tabindex]")

        hand = opened(page, f"{home.url}/console/pauses")
        hand.to("#name")
        page.keyboard.type("orders")
        page.keyboard.press("Home")
        page.keyboard.press("Shift+End")
        page.keyboard.type("bot")
        taken["pause"] = hand.done("#notice:has-text('Paused')")

        hand = opened(page, f"{home.url}/console/keys?principal=bot")
        hand.to("main summary")
        hand.press("Enter")
        hand.to("main button.deny")
        taken["revoke"] = hand.done("#notice:has-text('Revoked')")
        visitor.check()
    assert max(taken.values()) <= MOST, taken
    assert len(taken) == 9
