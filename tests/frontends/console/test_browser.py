"""The console in Chromium: every page, by mouse, by keyboard and without script, accessible, and deaf to what agents write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.exhaustive import spread
from tests.frontends.console.axe import violations
from tests.frontends.console.house import KEYS, POLICY, House, house
from tests.frontends.console.people import arriving, needs_chromium, tab_to, watched
from tests.gateway.issuer import AUDIENCE, ISSUER, jwk, token

pytestmark = needs_chromium

CANARY = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><svg onload=alert(3)>{{7*7}}javascript:alert(4)"
PLANTED = "main img, main script, main svg[onload], main b, main [onerror]"
PAGES = (
    "overview",
    "overview?over=30d",
    "calls",
    "live",
    "pauses",
    "approvals",
    "tools",
    "tools/orders__list_orders",
    "policies",
    "policies/history",
    "principals?name=bot",
    "sources",
    "sources/orders",
    "limits",
    "keys",
    "policies/explain",
    "policies/explain?principal=bot&tool=orders__list_orders",
    "record",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("console") / "project") as found:
        for number in range(6):
            found.call(
                "orders__list_orders",
                {"tenant_id": "acme", "status": f"s{number}"},
                session=f"chat-{number}",
                client="agent/1",
            )
        found.call("orders__send_mail", {"to": "somebody"})
        found.upstream.status = 500
        found.call("orders__get_health", {})
        found.upstream.status = 200
        yield found


@pytest.mark.parametrize(
    ("scheme", "width"),
    spread([("light", 1280), ("dark", 768), ("light", 390), ("dark", 1280), ("light", 768), ("dark", 390)], 3),
)
def test_every_page_is_accessible_in_both_schemes_and_fits_narrow_screens(
    browser: Browser, home: House, scheme: str, width: int
) -> None:
    waiting = home.call("orders__delete_order", {"id": f"o-{scheme}-{width}"})
    with watched(browser, home, "olga", scheme=scheme, width=width) as visitor:
        paths = [*PAGES, f"approvals/{waiting.call_id}", f"calls/{waiting.call_id}"]
        for path in paths:
            visitor.visit(f"{home.url}/console/{path}")
            assert violations(visitor.page) == [], path
            assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
            assert visitor.page.locator("h1").count() == 1, path
        visitor.check()


def test_the_sign_in_page_is_accessible(browser: Browser, home: House) -> None:
    with watched(browser, home) as visitor:
        visitor.visit(f"{home.url}/console/sign-in")
        assert violations(visitor.page) == []
        visitor.page.fill("#credential", "a key that nobody has")
        with arriving(visitor.page):
            visitor.page.click("button[type=submit]")
        assert "not accepted" in visitor.page.locator("[role=alert]").inner_text()
        assert violations(visitor.page) == []


def test_an_approval_is_given_by_a_click_and_the_call_is_made(browser: Browser, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "o77"})
    before = len(home.upstream.requests)
    with watched(browser, home, "paul") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/approvals")
        with arriving(page):
            page.click(f"a.button[href$='{waiting.call_id}']")
        assert '"o77"' in page.locator(".values[aria-label=Arguments]").inner_text()
        page.fill("#note", "agreed with the customer")
        with arriving(page):
            page.click("button.approve")
        assert page.locator("h1").inner_text() == "Approved"
        visitor.check()
    outcome = home.run(home.gateway.approvals.calls.outcome(waiting.call_id, home.gateway.principal("bot"), 10))
    assert outcome.status == "ok"
    assert [(method, path) for method, path, _ in home.upstream.requests[before:]] == [("DELETE", "/pet/o77")]
    with watched(browser, home, "rita") as visitor:
        visitor.visit(f"{home.url}/console/calls/{waiting.call_id}")
        text = visitor.page.locator("main").inner_text()
        assert "agreed with the customer" in text
        assert "by paul" in text
        assert "deletes-ask" in text
        assert "/pet/o77" in text


def test_a_denied_call_is_never_made(browser: Browser, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "o78"})
    before = len(home.upstream.requests)
    with watched(browser, home, "paul") as visitor:
        visitor.page.goto(f"{home.url}/console/approvals/{waiting.call_id}")
        with arriving(visitor.page):
            visitor.page.click("button.deny")
        assert visitor.page.locator("h1").inner_text() == "Denied"
    outcome = home.run(home.gateway.approvals.calls.outcome(waiting.call_id, home.gateway.principal("bot"), 10))
    assert outcome.error.code == "approval_denied"
    assert len(home.upstream.requests) == before


def test_nothing_an_agent_writes_runs_or_becomes_markup(browser: Browser, tmp_path: Path) -> None:
    policy = json.loads(json.dumps(POLICY))
    policy["principals"]["<b>eve</b>"] = {"roles": ["bot"]}
    with house(tmp_path / "project", policy=policy) as home:
        origin = {"client": CANARY[:120], "parent": CANARY[:120]}
        made = [
            home.call(
                "orders__list_orders",
                {"tenant_id": CANARY, "status": CANARY, CANARY: CANARY},
                session=f"1{CANARY[:100]}",
                **origin,
            ),
            home.call(
                "orders__list_orders",
                {"tenant_id": CANARY},
                principal="<b>eve</b>",
                session=f"2{CANARY[:100]}",
                **origin,
            ),
            home.call("orders__list_orders", {"tenant_id": [CANARY]}, session=f"3{CANARY[:100]}", **origin),
            home.call(CANARY[:150], {CANARY: CANARY}, session=f"4{CANARY[:100]}", **origin),
            home.call("orders__send_mail", {"to": CANARY}, session=f"5{CANARY[:100]}", **origin),
        ]
        waiting = home.call("orders__delete_order", {"id": CANARY}, session=f"6{CANARY[:100]}", **origin)
        denied = home.call("orders__delete_order", {"id": CANARY + "2"}, session=f"7{CANARY[:100]}", **origin)
        home.run(
            home.gateway.approvals.decide(
                denied.call_id, approve=False, note=CANARY, principal=home.gateway.principal("paul")
            )
        )
        with watched(browser, home, "olga") as visitor:
            paths = [
                *PAGES,
                *(f"calls/{call.call_id}" for call in (*made, waiting, denied)),
                f"approvals/{waiting.call_id}",
                f"principals?{urlencode({'name': '<b>eve</b>'})}",
                f"principals?{urlencode({'name': 'bot', 'find': CANARY[:150]})}",
            ]
            for path in paths:
                visitor.visit(f"{home.url}/console/{path}")
                assert visitor.page.locator(PLANTED).count() == 0, path
            visitor.visit(f"{home.url}/console/approvals/{waiting.call_id}")
            assert "<img src=x onerror=alert(1)>" in visitor.page.locator("main").inner_text()
            visitor.page.goto(f"{home.url}/console/live")
            visitor.page.wait_for_selector("#live-status:has-text('Following')")
            assert visitor.page.locator("main img, main script").count() == 0
            for word in ("text", "principal", "tool", "rule", "session"):
                visitor.page.goto(f"{home.url}/console/calls")
                visitor.page.fill(f"#{word}", CANARY)
                with arriving(visitor.page):
                    visitor.page.click(".filters button")
                assert visitor.page.input_value(f"#{word}") == CANARY
            visitor.check()


def test_nothing_an_upstream_or_a_token_says_runs_or_becomes_markup(browser: Browser, tmp_path: Path) -> None:
    """What stands in answers, in errors, and in the subject and the claims of a token that an identity provider signed."""
    policy = json.loads(json.dumps(POLICY))
    policy["issuers"] = {
        "staff": {
            "jwt": {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "../../keys.json"},
            "grants": {"groups": {"leads": ["bot", "reader"]}},
            "attributes": {"team": "team"},
        }
    }
    policy["rules"][0]["when"] = "principal.attributes.team != 'nobody'"
    for name in ("bot", "olga"):
        policy["principals"][name]["attributes"] = {"team": "ours"}
    policy["tests"] = []
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [jwk("rsa")]}))
    said = json.dumps({"error": CANARY, "message": CANARY, CANARY: [CANARY]}).encode()
    with house(tmp_path / "project", policy=policy) as home:
        home.upstream.body = said
        shown = token(sub=f"ann{CANARY}"[:120], groups=["leads"], team=CANARY)
        headers = {"authorization": f"Bearer {shown}", "x-conversation-id": "c1", "user-agent": CANARY}
        calls = []
        for status in (200, 400, 500):
            home.upstream.status = status
            for name in ("orders__list_orders", "orders__get_health"):
                answer = httpx.post(
                    f"{home.url}/v1/tools/{name}/call", json={"arguments": {"tenant_id": "a"}}, headers=headers
                )
                calls.append(answer.json()["call_id"])
        home.upstream.status = 200
        with watched(browser, home, "olga") as visitor:
            for path in (*PAGES, *(f"calls/{call}" for call in calls)):
                visitor.visit(f"{home.url}/console/{path}")
                assert visitor.page.locator(PLANTED).count() == 0, path
            assert "<img src=x" in visitor.page.locator("main").inner_text()
            for status in (200, 400, 500):
                home.upstream.status = status
                visitor.page.goto(f"{home.url}/console/tools/orders__get_health")
                with arriving(visitor.page):
                    visitor.page.click("button:has-text('Call it')")
                assert visitor.page.locator(PLANTED).count() == 0, status
                assert status != 200 or "<img src=x" in visitor.page.locator("#answer").inner_text()
            who = f"staff:ann{CANARY}"[:126]
            visitor.page.goto(f"{home.url}/console/policies/explain")
            visitor.page.fill("[name=user]", who)
            visitor.page.fill("[name=tool]", "orders__list_orders")
            with arriving(visitor.page):
                visitor.page.click("main form button[type=submit]")
            visitor.page.click("summary:has-text('JSON instead')")
            visitor.page.fill("[name=json]", json.dumps({CANARY: CANARY}))
            with arriving(visitor.page):
                visitor.page.click("button:has-text('Explain')")
            assert visitor.page.locator("#result").count() == 1
            assert visitor.page.locator(PLANTED).count() == 0
            named = dict.fromkeys(("principal", "user", "on_behalf_of", "tool"), CANARY)
            visitor.page.goto(f"{home.url}/console/policies/explain?{urlencode(named)}")
            assert visitor.page.input_value("[name=user]") == CANARY
            assert visitor.page.locator(PLANTED).count() == 0
            visitor.page.goto(f"{home.url}/console/pauses")
            visitor.page.select_option("#kind", "tool")
            visitor.page.fill("#name", "orders__send_*")
            visitor.page.fill("#reason", CANARY)
            with arriving(visitor.page):
                visitor.page.click("button:has-text('Pause'):not(#live-pause)")
            assert visitor.page.locator("h2:has-text('Paused now')").count() == 1
            for path in ("pauses", "overview"):
                visitor.page.goto(f"{home.url}/console/{path}")
                assert "<img src=x" in visitor.page.locator("main").inner_text()
                assert visitor.page.locator(PLANTED).count() == 0
            faults = [fault for fault in visitor.faults if "400 (Bad Request)" not in fault]
            assert faults == []


def test_a_tool_is_tried_with_a_form_made_from_its_schema(browser: Browser, home: House) -> None:
    before = len(home.upstream.requests)
    with watched(browser, home, "olga") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/tools/orders__list_orders")
        page.get_by_label("tenant_id").fill(CANARY)
        page.get_by_label("status", exact=True).fill("open")
        with arriving(page):
            page.click("main button")
        assert page.locator("#answer .status.ok").count() == 1
        visitor.check()
        assert page.locator("main img").count() == 0
        with arriving(page):
            page.click("#answer a")
        assert "console" in page.locator("dl.facts").inner_text()
    assert len(home.upstream.requests) == before + 1


def test_the_live_page_shows_a_new_call_without_being_reloaded(browser: Browser, home: House) -> None:
    with watched(browser, home, "rita") as visitor:
        visitor.page.goto(f"{home.url}/console/live")
        call = home.call("orders__get_health", {})
        visitor.page.wait_for_selector(f"a[href='/console/calls/{call.call_id}']")
        visitor.page.click("#live-pause")
        expect(visitor.page.locator("#live-status")).to_have_text("Paused")
        visitor.check()


def test_everything_is_read_and_answered_without_script(browser: Browser, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "o90"})
    with watched(browser, home, "olga", script=False) as visitor:
        for path in PAGES:
            visitor.visit(f"{home.url}/console/{path}")
            assert visitor.page.locator("h1").count() == 1
        visitor.page.goto(f"{home.url}/console/live")
        call = home.call("orders__get_health", {})
        visitor.page.wait_for_selector(f"a[href='/console/calls/{call.call_id}']")
        visitor.page.goto(f"{home.url}/console/approvals/{waiting.call_id}")
        with arriving(visitor.page):
            visitor.page.click("button.deny")
        assert visitor.page.locator("h1").inner_text() == "Denied"


def test_a_reviewer_gets_by_with_the_keyboard_alone(browser: Browser, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "o91"})
    with watched(browser, home) as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/sign-in")
        tab_to(page, "#credential")
        page.keyboard.type(KEYS["paul"])
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/approvals")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_focused()
        tab_to(page, f"a.button[href$='{waiting.call_id}']")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        with arriving(page):
            page.keyboard.press("Enter")
        tab_to(page, "#note")
        page.keyboard.type("by keyboard")
        tab_to(page, "button.deny")
        with arriving(page):
            page.keyboard.press("Enter")
        assert page.locator("h1").inner_text() == "Denied"
        visitor.check()


def test_a_decision_is_explained_by_choosing_who_what_and_with_which_arguments(browser: Browser, home: House) -> None:
    with watched(browser, home, "rita") as visitor:
        page = visitor.page
        page.goto(f"{home.url}/console/policies/explain")
        assert page.locator("#known-tool option").count() == len(home.gateway.manifest.tools)
        page.select_option("#principal", "bot")
        page.fill("#tool", "orders__delete_order")
        with arriving(page):
            page.click("button:has-text('Go on to the arguments')")
        page.get_by_label("id").fill("o1")
        with arriving(page):
            page.click("button:has-text('Explain')")
        assert page.locator("#result .verdict.ask").count() == 1
        assert page.input_value("[name='argument.id']") == "o1"
        assert page.input_value("#principal") == "bot"
        assert violations(page) == []
        visitor.check()


def test_on_a_phone_the_name_of_a_tool_comes_first_and_is_in_sight(browser: Browser, home: House) -> None:
    with watched(browser, home, "rita", width=390) as visitor:
        for path in ("calls", "live"):
            visitor.visit(f"{home.url}/console/{path}")
            visitor.page.locator("table.calls tbody tr").first.wait_for()
            # In one look: the live page puts other rows in their place at any moment.
            name, when = visitor.page.evaluate(
                "['.name a', '.time'].map(one => document.querySelector(`table.calls tbody tr ${one}`).getBoundingClientRect().toJSON())"
            )
            assert name["width"] > 0
            assert name["right"] <= 390
            assert name["y"] < when["y"]


def test_a_name_has_no_line_below_it_that_hides_its_underscores(browser: Browser, home: House) -> None:
    with watched(browser, home, "rita") as visitor:
        for path, link in (("calls", ".calls .name a"), ("tools", ".tools .name a"), ("overview", ".shares .name a")):
            visitor.visit(f"{home.url}/console/{path}")
            found = visitor.page.locator(link).first
            assert "__" in found.inner_text()
            assert found.evaluate("link => getComputedStyle(link).textDecorationLine") == "none"


def test_what_failed_is_red_only_where_something_did(browser: Browser, home: House, tmp_path: Path) -> None:
    tile = "dl.tiles div:has(dt:text-is('Failed')) dd"
    with watched(browser, home, "rita") as visitor:
        visitor.visit(f"{home.url}/console/overview")
        assert visitor.page.locator(tile).get_attribute("class") == "error"
    with house(tmp_path / "quiet") as quiet, watched(browser, quiet, "rita") as visitor:
        quiet.call("orders__get_health", {})
        visitor.visit(f"{quiet.url}/console/overview")
        assert visitor.page.locator(tile).inner_text() == "0"
        assert visitor.page.locator(tile).get_attribute("class") is None


def test_every_page_of_a_project_without_a_call_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    said = {
        "calls": "No call is on record yet. Connect an agent",
        "calls?tool=nothing": "No call fits these filters.",
        "live": "No call is on record yet.",
        "live?status=error": "No call fits these filters.",
        "approvals": "Calls come here when a rule of the policy says verdict: ask",
        "tools?find=nothing": "Show all of them.",
        "overview": "Choose a longer one above",
    }
    with house(tmp_path / "project") as home, watched(browser, home, "olga") as visitor:
        for path, words in said.items():
            visitor.visit(f"{home.url}/console/{path}")
            assert words in visitor.page.locator("main").inner_text(), path
            assert violations(visitor.page) == [], path


def test_the_watch_sees_a_page_that_breaks_its_policy(browser: Browser, home: House) -> None:
    """Otherwise none of the above could fail."""
    with watched(browser, home, "olga") as visitor:
        with visitor.page.expect_console_message(lambda said: "Content Security Policy" in said.text):
            visitor.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
        assert any("Content Security Policy" in fault for fault in visitor.faults), visitor.faults
