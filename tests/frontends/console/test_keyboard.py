"""The console with a keyboard alone: everything that can be used is reached by Tab, in the order of the page, and is seen to be reached."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.frontends.console.house import KEYS, POLICY, House, house
from tests.frontends.console.people import arriving, needs_chromium, tab_to, watched
from tests.gateway.governed import write_policy

pytestmark = needs_chromium

PAGES = (
    "calls",
    "live",
    "policies/history",
    "sources",
    "sources/orders",
    "limits",
    "keys",
)
# What Tab has to reach: what is used, and regions that scroll. Of radio buttons with one name, one is a stop.
USABLE = """() => {
  const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter(one => one.type !== "hidden" && !one.disabled && one.checkVisibility({visibilityProperty: true}));
  found.forEach((one, index) => { one.dataset.stop = index; });
  return found.length;
}"""
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const ours = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  // The calendar within a date has a ring of the browser's own, and the date then none.
  return {stop: one.dataset.stop ?? null, seen: ours || one.type === "datetime-local",
          what: one.outerHTML.slice(0, 120)};
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    limits = [{"id": "per-agent", "per": ["principal"], "rate": "60/min", "burst": 20}]
    with house(tmp_path_factory.mktemp("console") / "project", policy={**POLICY, "limits": limits}) as found:
        for number in range(3):
            found.call("orders__list_orders", {"tenant_id": "acme", "status": f"s{number}"})
        found.call("orders__send_mail", {"to": "somebody"})
        yield found


def test_tab_reaches_everything_on_a_page_in_its_order_and_shows_where(browser: Browser, home: House) -> None:
    with watched(browser, home, "olga") as visitor:
        page = visitor.page
        for path in PAGES:
            visitor.visit(f"{home.url}/console/{path}")
            if path == "live":  # its rows are put in again once
                page.wait_for_selector("#live-status:has-text('Following')")
            expected = page.evaluate(USABLE)
            assert expected > 10, path
            stops: list[int] = []
            for _ in range(3 * expected):  # a date has several places, and a select none
                page.keyboard.press("Tab")
                focused = page.evaluate(FOCUSED)
                if focused["stop"] is None or (focused["stop"] == "0" and len(stops) > 1):
                    break  # behind the last, or around
                assert focused["seen"], (path, focused["what"])
                if not stops or stops[-1] != int(focused["stop"]):
                    stops.append(int(focused["stop"]))
            assert stops == list(range(expected)), path
            page.keyboard.press("Shift+Tab")  # and back
        visitor.check()


def test_pages_of_operators_are_found_from_the_head_of_any_page(browser: Browser, home: House) -> None:
    with watched(browser, home) as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/sign-in")
        tab_to(page, "#credential")
        page.keyboard.type(KEYS["rita"])
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/overview")
        for path, heading in (
            ("sources", "Sources"),
            ("limits", "Limits"),
            ("keys", "Keys"),
            ("policies", "Policies"),
            ("policies/history", "History of the policy"),
        ):
            tab_to(page, f"a[href='/console/{path}']")
            with arriving(page):
                page.keyboard.press("Enter")
            assert page.locator("h1").inner_text() == heading
        page.goto(f"{home.url}/console/sources")
        tab_to(page, "a[href='/console/sources/orders']")
        with arriving(page):
            page.keyboard.press("Enter")
        assert page.locator("#credentials").count() == 1
        visitor.check()


def test_calls_are_filtered_and_exported_by_keyboard(browser: Browser, home: House, tmp_path: Path) -> None:
    with watched(browser, home, "rita") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/calls")
        tab_to(page, "#tool")
        page.keyboard.type("orders__list_*")
        tab_to(page, "#status")
        page.keyboard.type("ok")  # as a select takes it
        expect(page.locator("#status")).to_have_value("ok")
        tab_to(page, ".filters button[type=submit]")
        with arriving(page):
            page.keyboard.press("Enter")
        assert page.locator("table.calls tbody tr").count() == 3
        saved = {}
        for ending in ("csv", "jsonl"):
            tab_to(page, f".foot a[href^='/console/calls.{ending}']")
            with page.expect_download() as download:
                page.keyboard.press("Enter")
            saved[ending] = tmp_path / ending
            download.value.save_as(saved[ending])
        with saved["csv"].open(encoding="utf-8", newline="") as file:
            assert {row["tool"] for row in csv.DictReader(file)} == {"orders__list_orders"}
        assert len([json.loads(line) for line in saved["jsonl"].read_text(encoding="utf-8").splitlines()]) == 3
        tab_to(page, ".filters a.button")
        with arriving(page):
            page.keyboard.press("Enter")
        assert page.url.endswith("/console/calls")
        page.goto(f"{home.url}/console/live")
        tab_to(page, "#principal")
        page.keyboard.type("nobody")
        with arriving(page):
            page.keyboard.press("Enter")
        page.wait_for_selector("text=No call fits these filters.")
        visitor.check()


def test_a_change_of_the_policy_is_read_by_keyboard(browser: Browser, home: House) -> None:
    before = home.gateway.policy.digest
    write_policy(home.root, {**POLICY, "limits": [{"id": "stricter", "rate": "5/min", "burst": 5}]})
    assert home.run(home.gateway.operations.reload())
    assert home.gateway.policy.digest != before
    home.call("orders__get_health", {})
    with watched(browser, home, "rita") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/policies/history")
        tab_to(page, "tbody tr:has(.status.ok) th a")
        with arriving(page):
            page.keyboard.press("Enter")
        assert page.locator("#changed").count() == 1
        tab_to(page, ".diff")
        assert "stricter" in page.locator(".diff").inner_text()
        expect(page.locator("[aria-label=Changes]")).to_be_focused()
        visitor.check()
