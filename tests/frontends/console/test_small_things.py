"""Small things of the console: long and foreign names, labels of charts, suggestions, paused tools, numbers, and pages of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.frontends.console.axe import violations
from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import client, form_token, needs_chromium, watched
from toolgen.frontends.console.text_format import figure

ARABIC = "\u0639\u0645\u064a\u0644"
LONG = "x" * 120


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policy = json.loads(json.dumps(POLICY))
    for name in (ARABIC, LONG):
        policy["principals"][name] = {"roles": ["bot"]}
    with house(tmp_path_factory.mktemp("small") / "project", policy=policy) as found:
        for name in (ARABIC, LONG, "bot"):
            origin = {"session": "s" * 120, "client": "c" * 120}
            found.call("orders__list_orders", {"tenant_id": "t" * 3000, "status": ARABIC}, principal=name, **origin)
            found.call("orders__delete_order", {"id": "i" * 3000}, principal=name, session="s" * 120)
            found.call("n" * 140, {"k" * 100: "v" * 3000}, principal=name)
        yield found


@needs_chromium
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_long_unbroken_strings_wrap(browser: Browser, home: House, width: int) -> None:
    with watched(browser, home, "olga", width=width) as visitor:
        page = visitor.page
        (waiting, *_) = home.run(home.gateway.approvals.waiting())
        paths = (
            "overview",
            "calls",
            "live",
            "approvals",
            "policies",
            "limits",
            "keys",
            "policies/explain",
            f"principals?name={LONG}",
        )
        for path in (*paths, f"calls/{waiting.id}", f"approvals/{waiting.id}"):
            visitor.visit(f"{home.url}/console/{path}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            if width == 1280:  # no table is wider than its card
                wide = page.evaluate(
                    """() => [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
                        .map(one => one.ariaLabel)"""
                )
                assert wide == [], path
        visitor.check()


@needs_chromium
@pytest.mark.parametrize("width", [390, 600, 768, 861, 1000, 1100, 1280, 1600])
def test_labels_of_charts_are_read(browser: Browser, home: House, width: int) -> None:
    with watched(browser, home, "rita", width=width) as visitor:
        visitor.visit(f"{home.url}/console/overview?over=7d")
        sizes = visitor.page.evaluate(
            """() => [...document.querySelectorAll('text.axis')].filter(one => getComputedStyle(one).display !== 'none')
                .map(one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""
        )
        assert len(sizes) >= 8
        assert min(sizes) >= 11
        overlap = visitor.page.evaluate(
            """() => [...document.querySelectorAll('svg[role=img]')].some(chart => {
                const boxes = [...chart.querySelectorAll('text[text-anchor=middle]')]
                    .filter(one => getComputedStyle(one).display !== 'none')
                    .map(one => one.getBoundingClientRect());
                return boxes.some((box, at) => at && box.left < boxes[at - 1].right);
            })"""
        )
        assert not overlap


@needs_chromium
def test_names_from_right_to_left_turn_nothing_beside_them(browser: Browser, home: House) -> None:
    with watched(browser, home, "olga") as visitor:
        page = visitor.page
        for path in ("overview", "calls", "approvals", "policies", f"principals?name={ARABIC}"):
            visitor.visit(f"{home.url}/console/{path}")
            outside = page.evaluate(
                """name => {
                    const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), found = [];
                    while (walk.nextNode()) {
                        const parent = walk.currentNode.parentElement;
                        if (walk.currentNode.textContent.includes(name) && !parent.closest('bdi, pre, option, datalist, .hidden'))
                            found.push(parent.outerHTML.slice(0, 200));
                    }
                    return found;
                }""",
                ARABIC,
            )
            assert outside == [], path


@needs_chromium
def test_pickers_of_tools_suggest_while_one_types(browser: Browser, home: House) -> None:
    count = len(home.gateway.manifest.tools)
    with watched(browser, home, "olga") as visitor:
        for path, field in (("policies/explain", "#tool"), ("calls", "#tool"), ("live", "#tool"), ("pauses", "#name")):
            visitor.visit(f"{home.url}/console/{path}")
            known = visitor.page.locator(field).get_attribute("list")
            assert visitor.page.locator(f"datalist#{known} option").count() >= count, path
            assert violations(visitor.page) == [], path


def test_a_paused_tool_says_so_on_its_pages_and_in_approvals(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "olga") as http:
        waiting = home.call("orders__delete_order", {"id": "1"})
        token = form_token(http.get("/console/pauses").text)
        given = {"form_token": token, "kind": "tool", "name": "orders__delete_*", "reason": "incident"}
        assert http.post("/console/pauses", data=given).status_code == 303
        tool = http.get("/console/tools/orders__delete_order").text
        assert "<strong>Paused</strong>" in tool
        assert "incident" in tool
        assert "<strong>Paused</strong>" not in http.get("/console/tools/orders__get_health").text
        assert ">paused</strong>" in http.get("/console/tools?find=delete_order").text
        assert ">paused</strong>" in http.get("/console/approvals").text
        assert "approved call is refused" in http.get(f"/console/approvals/{waiting.call_id}").text


def test_pages_of_errors_have_the_navigation(home: House) -> None:
    with client(home, "rita") as http:
        for path, status in (
            ("nothing", 404),
            ("calls/call_none", 404),
            ("calls?since=x", 400),
            ("pauses/resume", 405),
        ):
            page = http.get(f"/console/{path}")
            assert page.status_code == status, path
            assert 'aria-label="Console"' in page.text, path
        with client(home, "paul") as other:
            assert 'aria-label="Console"' in other.get("/console/record").text
    with client(home) as http:
        assert 'aria-label="Console"' not in http.get("/console/nothing").text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (42_600, "42,600"),
        (999.6, "999.6"),
        (1e6, "1,000,000"),
        (4.256, "4.26"),
        (0.0000123, "0.000012"),
        (0, "0"),
        (0.05, "0.05"),
    ],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert figure(value) == text
