"""Approving in Chromium: what a refused answer says, what a button grants, and a queue of hundreds of calls."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.frontends.console.axe import violations
from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import arriving, client, needs_chromium, watched
from tests.messages import line_names
from toolgen.gateway.approvals.requests import MAX_EACH

pytestmark = needs_chromium

REMEMBER = {"max_duration": "30m", "max_calls": 5, "any_arguments": True}
MAX_WAITING = 500
PEOPLE = MAX_WAITING // MAX_EACH


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policy = {**POLICY, "approvals": {**POLICY["approvals"], "remember": REMEMBER}}
    with house(tmp_path_factory.mktemp("approving") / "project", policy=policy) as found:
        yield found


def asked(home: House, number: str, **origin: str) -> str:
    return home.call("orders__delete_order", {"id": number}, **origin).call_id


def expect_focus(page: Page, text: str | re.Pattern[str]) -> None:
    """Wait until the element with this text has the focus, which a script sets after the page has loaded."""
    expect(page.locator(":focus")).to_have_text(text, use_inner_text=True, timeout=60_000)


def first_of_main(page: Page) -> str:
    return str(page.evaluate("document.querySelector('main').firstElementChild.innerText"))


@pytest.mark.parametrize(
    ("fill", "says", "field"),
    [
        ({"#minutes": "45"}, "“For how many minutes” takes a number of at most 30.", "minutes"),
        ({"#calls": "0"}, "“For how many calls” takes a whole number from 1 to 5.", "calls"),
        ({"#arguments-field": "{"}, "The arguments are not a JSON object", "arguments-field"),
        ({"#arguments-field": '{"id": 7, "other": 1}'}, "", "arguments-field"),
    ],
)
@pytest.mark.parametrize("script", [True, False])
def test_a_refused_answer_says_so_first_in_the_title_and_with_the_focus(
    browser: Browser, home: House, fill: dict[str, str], says: str, field: str, script: bool
) -> None:
    call_id = asked(home, f"refused {script} {sorted(fill.values())}")
    with watched(browser, home, "paul", script=script) as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/approvals/{call_id}")
        for summary in page.locator(".answer summary").all():
            summary.click()
        for selector, text in fill.items():
            page.fill(selector, text)
        edited = "#arguments-field" in fill
        with arriving(page):
            page.click("button[value=edit]" if edited else "button.approve")
        assert page.title().startswith("Not approved: ")
        assert first_of_main(page).startswith("Not approved:")
        assert says in first_of_main(page)
        if script:
            expect_focus(page, re.compile("^Not approved:"))
        box = page.locator("#notice").bounding_box()
        assert box is not None
        assert box["y"] < 300
        page.click("#notice a")
        expect(page).to_have_url(re.compile(f"#{field}$"))
        if script:
            expect(page.locator(f"#{field}")).to_be_focused()
        assert page.locator(f"#{field}").get_attribute("aria-invalid") == "true"
        assert page.input_value(f"#{field}") == next(iter(fill.values()))
        assert page.locator(f"#{field}").is_visible()
        if script:
            assert violations(page) == []
    assert home.run(home.gateway.approvals.calls.store.get(call_id)).status == "pending"


def test_after_each_action_the_title_says_what_happened_and_the_focus_goes_there(browser: Browser, home: House) -> None:
    first, second, third = (asked(home, f"focus-{number}") for number in range(3))
    with watched(browser, home, "olga") as visitor:
        page = visitor.page
        for call_id, button, word in ((first, "button.approve", "Approved"), (second, "button.deny", "Denied")):
            page.goto(f"{home.url}/console/approvals/{call_id}")
            with arriving(page):
                page.click(button)
            assert page.title().startswith(f"{word}: ")
            expect_focus(page, word)
        # Somebody else was quicker.
        page.goto(f"{home.url}/console/approvals/{third}")
        decided = home.run(
            home.gateway.approvals.decide(third, approve=False, note="", principal=home.gateway.principal("paul"))
        )
        assert decided.id == third
        with arriving(page):
            page.click("button.approve")
        assert page.title().startswith("Not approved: ")
        expect_focus(page, "Not approved")
        assert page.locator("nav[aria-label=Console]").count() == 1
        # Pauses.
        page.goto(f"{home.url}/console/pauses")
        page.fill("#name", "nobody at all")
        with arriving(page):
            page.click("main button:has-text('Pause')")
        assert page.title().startswith("Not paused: ")
        page.fill("#name", "bot")
        with arriving(page):
            page.click("main button:has-text('Pause')")
        assert page.title().startswith("Paused: principal bot")
        expect_focus(page, "Paused: principal bot")
        with arriving(page):
            page.click("button:has-text('Resume')")
        assert page.title().startswith("Resumed: bot")
        # The record.
        page.goto(f"{home.url}/console/record")
        page.click("button:has-text('Verify now')")
        page.wait_for_selector("#verified[tabindex]")
        expect(page).to_have_title(re.compile("^Intact"), timeout=60_000)
        expect_focus(page, re.compile("^Intact"))
        # A tool, and a decision.
        page.goto(f"{home.url}/console/tools/orders__get_health")
        with arriving(page):
            page.click("main button")
        assert page.title().startswith("Ok")
        expect_focus(page, "ok")


def test_no_link_claims_that_something_was_done(home: House) -> None:
    with client(home, "olga") as http, client(home, "rita") as other:
        page = http.get("/console/pauses", params={"done": "0" * 32 + "paused.everything"}).text
        assert "everything" not in page
        token = page.split('name="form_token" value="')[1].split('"')[0]
        form = {"form_token": token, "kind": "source", "name": "orders", "reason": ""}
        there = http.post("/console/pauses", data=form).headers["location"]
        assert "Paused: source orders" in http.get(there).text.replace("</strong>", "")
        assert "source orders" not in other.get(there).text.partition("<table>")[0]
        resumed = {"form_token": token, "principal": "", "source": "orders", "tool": ""}
        assert http.post("/console/pauses/resume", data=resumed).status_code == 303


def test_the_button_says_what_it_grants(browser: Browser, home: House) -> None:
    call_id = asked(home, "grants", session="chat-7")
    for script in (True, False):
        with watched(browser, home, "paul", script=script) as visitor:
            page = visitor.page
            page.goto(f"{home.url}/console/approvals/{call_id}")
            button = page.locator("button.approve")
            assert button.inner_text() == "Approve once"
            page.click("summary:has-text('Approve later calls too')")
            page.fill("#calls", "1")
            if script:
                expect(button).to_have_text(
                    "Approve, and 1 later call with these arguments for 30 minutes", use_inner_text=True
                )
            else:
                expect(button).to_have_text("Approve, and later calls as filled in", use_inner_text=True)
            page.fill("#calls", "")
            expect(button).to_have_text("Approve once", use_inner_text=True)
            page.check("#any_arguments")
            page.check("#session")
            page.fill("#minutes", "10")
            if script:
                granted = "Approve, and 5 later calls whatever their arguments for 10 minutes in this session"
                expect(button).to_have_text(granted, use_inner_text=True)
            for box in page.locator("input[type=checkbox]").all():
                size, label = box.bounding_box(), page.locator(f"label[for={box.get_attribute('id')}]").bounding_box()
                assert size is not None
                assert label is not None
                assert size["width"] <= 24
                assert size["height"] <= 24
                assert abs(size["y"] + size["height"] / 2 - label["y"] - label["height"] / 2) < 6  # beside it
                assert label["x"] > size["x"]
            if script:
                assert violations(page) == []


def _crowd() -> dict[str, Any]:
    policy = json.loads(json.dumps(POLICY))
    digest = "sha256:" + hashlib.sha256(b"x").hexdigest()
    for number in range(PEOPLE):
        policy["principals"][f"agent-{number:02}"] = {"roles": ["bot"], "api_key": digest[:-4] + f"{number:04x}"}
    policy["approvals"] |= {"quorum": 2, "max_waiting": MAX_WAITING}
    policy["limits"] = []
    return dict(policy)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway at which as many calls wait as it takes, each for two people."""
    with house(tmp_path_factory.mktemp("crowd") / "project", policy=_crowd()) as found:
        for number in range(MAX_WAITING):
            envelope = found.call("orders__delete_order", {"id": f"o{number}"}, principal=f"agent-{number % PEOPLE:02}")
            assert envelope.status == "pending", envelope
        assert found.call("orders__delete_order", {"id": "one more"}).error.code == "rate_limited"
        yield found


def test_hundreds_of_waiting_calls_are_a_table_of_fifty(browser: Browser, crowd: House) -> None:
    with watched(browser, crowd, "olga") as visitor:
        page = visitor.page
        visitor.visit(f"{crowd.url}/console/approvals")
        assert page.title().startswith(f"({MAX_WAITING}) Approvals")
        assert "queue is full" in page.locator("main").inner_text()
        assert page.locator(".queue tbody tr").count() == 50
        assert page.evaluate("document.documentElement.scrollHeight") < 8000
        stops = page.locator("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")
        assert stops.count() < 120
        seen = set()
        for _ in range(MAX_WAITING // 50):
            seen |= {link.get_attribute("href") for link in page.locator(".queue a.button").all()}
            more = page.locator("a[rel=next]")
            if more.count():
                with arriving(page):
                    more.click()
        assert len(seen) == MAX_WAITING
        assert violations(page) == []
        for width in (390, 768):
            page.set_viewport_size({"width": width, "height": 900})
            visitor.visit(f"{crowd.url}/console/approvals")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert violations(page) == []


def test_waiting_calls_are_filtered_and_sorted(browser: Browser, crowd: House) -> None:
    with watched(browser, crowd, "olga") as visitor:
        page = visitor.page
        page.goto(f"{crowd.url}/console/approvals")
        page.click("summary:has-text('Filter and sort')")
        page.fill("#principal", "agent-07")
        page.select_option("#sort", "newest")
        with arriving(page):
            page.click("button:has-text('Show')")
        assert page.locator("text=20 found").count() == 1
        rows = page.locator(".queue tbody tr").all_inner_texts()
        assert len(rows) == 20
        assert all("agent-07" in row for row in rows)
        assert f"o{7 + 19 * PEOPLE}" in rows[0]
        page.select_option("#age", "1d")
        with arriving(page):
            page.click("button:has-text('Show')")
        assert page.locator(".queue tbody .empty").count() == 1
        for query, count in (("expiry=1h", 50), ("expiry=10m", 0), ("tool=DELETE", 50), ("tool=list", 0)):
            page.goto(f"{crowd.url}/console/approvals?{query}")
            assert page.locator(".queue tbody tr:not(:has(.empty))").count() == count, query


def test_who_agreed_is_told_so_and_the_badge_does_not_count_the_call(browser: Browser, crowd: House) -> None:
    with watched(browser, crowd, "olga") as visitor:
        page = visitor.page
        page.goto(f"{crowd.url}/console/approvals")
        link = page.locator(".queue a.button").first.get_attribute("href")
        page.goto(f"{crowd.url}{link}")
        with arriving(page):
            page.click("button.approve")
        assert page.locator("h1").inner_text() == "Agreed"
        page.goto(f"{crowd.url}/console/approvals")
        assert page.locator(".badge").inner_text().startswith(str(MAX_WAITING - 1))
        row = page.locator(f".queue tr:has(a[href='{link}'])")
        assert "You agreed" in row.inner_text()
        assert "one more" in row.inner_text()
        page.goto(f"{crowd.url}{link}")
        assert line_names(page.locator("main").inner_text(), "You agreed", "one more")


def test_a_viewer_reads_the_queue_and_answers_for_nothing(browser: Browser, crowd: House) -> None:
    with watched(browser, crowd, "rita") as visitor:
        page = visitor.page
        visitor.visit(f"{crowd.url}/console/overview")
        tile = page.locator(".tiles div:has(dt:text-is('Waiting'))")
        assert tile.inner_text().replace("\n", " ").startswith(f"Waiting {MAX_WAITING}")
        assert "oldest" in tile.inner_text()
        with arriving(page):
            tile.locator("a").click()
        text = page.locator("main").inner_text()
        assert "approvers answer" in text
        assert page.locator(".queue a.button").count() == 0
        assert page.locator(".badge").count() == 0
        assert page.locator(".queue tbody tr").count() == 50
        assert page.locator("main form[method=post]").count() == 0
        with arriving(page):
            page.click(".queue tbody a >> nth=0")
        assert "/console/calls/" in page.url
        assert "pending" in page.locator("main").inner_text()
        visitor.check()


def test_badge_title_and_queue_follow_by_themselves_and_say_so_politely(browser: Browser, tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, watched(browser, home, "paul") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/approvals")
        assert page.title().startswith("Approvals")
        call_id = asked(home, "live")
        page.wait_for_selector(".badge")
        page.wait_for_selector(f".queue a[href$='{call_id}']")
        expect(page).to_have_title(re.compile(r"^\(1\) Approvals"), timeout=60_000)
        announced = page.locator("#announced")
        assert announced.get_attribute("aria-live") == "polite"
        expect(announced).to_have_text("1 call waits for your answer")
        other = asked(home, "another")
        expect(page).to_have_title(re.compile(r"^\(2\) "), timeout=60_000)
        page.wait_for_selector(f".queue a[href$='{other}']")
        for number in (call_id, other):
            home.run(home.gateway.approvals.calls.cancel(number, home.gateway.principal("bot")))
        expect(page).to_have_title(re.compile("^Approvals"), timeout=60_000)
        page.wait_for_selector("text=Nothing waits for your answer.")
        visitor.check()


def test_a_call_that_came_while_the_page_loaded_is_shown(browser: Browser, tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, watched(browser, home, "paul") as visitor:
        page = visitor.page
        made: list[str] = []

        def late(route: Route) -> None:
            if not made:  # between the page and the first look of its script
                made.append(asked(home, "meanwhile"))
            route.continue_()

        page.route("**/console/waiting", late)
        page.goto(f"{home.url}/console/approvals")
        page.wait_for_selector(".badge")
        page.wait_for_selector(f".queue a[href$='{made[0]}']")
        visitor.check()


def test_the_looks_of_the_script_keep_no_session_alive(home: House) -> None:
    with client(home, "paul") as http:
        answer = http.get("/console/waiting")
        assert answer.headers["content-type"] == "application/json"
        assert set(answer.json()) == {"waiting", "mark"}
    with client(home) as http:
        assert http.get("/console/waiting").status_code == 401
