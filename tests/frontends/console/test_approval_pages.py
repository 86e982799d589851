"""Pages on which a person answers for a call: no argument pushes another out of sight, and the record has what was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import client, form_token, needs_chromium, watched
from tests.messages import line_names
from toolgen.gateway.operations.call_rows import argument_rows
from toolgen.model.result import Error

SIZE = {"width": 1280, "height": 800}
LONG = "60.01 EUR " * 390
ASKS: dict[str, Any] = {
    "id": "orders-ask",
    "to": ["bot"],
    "tools": ["orders__create_*", "orders__send_mail"],
    "verdict": "ask",
}
SAFE = {**POLICY, "rules": [*POLICY["rules"][:2], ASKS], "tests": []}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("approvals") / "project", policy=SAFE) as found:
        yield found


def waiting(home: House, arguments: dict[str, Any], tool: str = "orders__create_open_order") -> str:
    """The id of a call that waits for an answer."""
    envelope = home.call(tool, arguments)
    assert envelope.status == "pending", envelope
    return envelope.call_id


def withdraw(home: House, call_id: str) -> None:
    home.run(home.gateway.approvals.calls.cancel(call_id, home.gateway.principal("bot")))


TEXTS = st.text(max_size=90) | st.sampled_from(
    ["\u202e", "\u3164" * 200, "ﷺ" * 40, "𒐫" * 50, LONG, "\u0301" * 300, "שלום " * 60, "漢" * 200, " " * 500]
)
VALUES = st.integers() | st.booleans() | TEXTS | st.lists(TEXTS, max_size=5)
MEMBERS = st.dictionaries(TEXTS.filter(lambda name: len(name) < 300), VALUES, max_size=30)


@needs_chromium
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(MEMBERS)
def test_every_value_begins_on_the_first_screen_or_is_named_as_further_down(
    browser: Browser, home: House, drawn: dict[str, Any]
) -> None:
    body = {**{key: value for key, value in drawn.items() if key}, "tenant_id": "t", "amount_cents": 199_999}
    call_id = waiting(home, {"body": body})
    with watched(browser, home, "olga") as visitor:
        page = visitor.page
        page.set_viewport_size(SIZE)
        visitor.visit(f"{home.url}/console/approvals/{call_id}")
        (known,) = [one for one in home.run(home.gateway.approvals.calls.store.unfinished()) if one.id == call_id]
        rows = argument_rows(known.arguments, home.gateway.manifest.tools[known.tool].input_schema)
        shown = page.evaluate(
            """() => [...document.querySelectorAll('.values[aria-label=Arguments] > div')].map(row => {
                const value = row.querySelector('dd bdi'), box = value.getBoundingClientRect(), all = row.getBoundingClientRect();
                return {name: row.querySelector('dt').innerText, text: value.textContent, bottom: box.bottom,
                        scrolls: [row, ...row.querySelectorAll('*')].some(one => /auto|scroll/.test(getComputedStyle(one).overflowY))};
            })"""
        )
        assert [one["text"] for one in shown] == [row.text for row in rows]
        assert not any(one["scrolls"] for one in shown)
        named = page.locator(".below bdi").all_text_contents()
        beyond = [row.label for row, one in zip(rows, shown, strict=True) if one["bottom"] > SIZE["height"]]
        assert [label for label in beyond if label not in named] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    withdraw(home, call_id)


@needs_chromium
def test_an_amount_behind_a_long_reason_is_on_the_first_screen(browser: Browser, home: House) -> None:
    call_id = waiting(home, {"note": LONG, "tenant_id": "t", "amount_cents": 199_999}, "orders__create_order")
    with watched(browser, home, "paul") as visitor:
        page = visitor.page
        page.set_viewport_size(SIZE)
        rows = ((f"approvals/{call_id}", "dl.values > div"), ("approvals", ".queue .args"))
        for path, row in rows:
            visitor.visit(f"{home.url}/console/{path}")
            amount = page.locator(row, has_text="amount_cents").first
            box = amount.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < SIZE["height"]
            assert "199999" in amount.inner_text()
        page.goto(f"{home.url}/console/approvals/{call_id}")
        note = page.locator(".values[aria-label=Arguments] > div", has_text="note")
        assert "3,900 characters" in note.inner_text()
        assert not note.locator(".whole").is_visible()
        note.locator("summary").click()
        assert note.locator(".whole").inner_text() == json.dumps(LONG)
        request = page.locator(".values[aria-label=Request]").inner_text()
        assert "body.amount_cents" in request
        assert page.evaluate("[...document.querySelectorAll('.values *')].every(one => one.scrollHeight <= one.clientHeight + 2 || "
                             "!/auto|scroll/.test(getComputedStyle(one).overflowY))")  # fmt: skip
    withdraw(home, call_id)


def answered(home: House, call_id: str, who: str = "paul", **fields: str) -> int:
    """The status of an answer that is given on the page of a call."""
    with client(home, who) as http:
        page = http.get(f"/console/approvals/{call_id}").text
        found = {name: page.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("digest", "shown")}
        given = {"form_token": form_token(page), **found}
        return http.post(f"/console/approvals/{call_id}", data={**given, "decision": "approve", **fields}).status_code


def story(home: House, call_id: str) -> str:
    with client(home, "olga") as http:
        return http.get(f"/console/calls/{call_id}").text


def test_the_page_of_a_call_shows_what_the_approver_saw(home: House) -> None:
    call_id = waiting(home, {"note": LONG, "tenant_id": "t", "amount_cents": 199_999}, "orders__create_order")
    assert answered(home, call_id, note="\u200b\u3164") == 200
    page = story(home, call_id)
    assert "As <bdi>paul</bdi> saw it" in page
    assert page.count("recorded digest of what was shown") == 2, "of the arguments and of the request"
    assert "<blockquote>" not in page  # a note that nobody can read is none


def test_an_answer_to_another_request_than_the_one_shown_does_not_count(home: House) -> None:
    call_id = waiting(home, {"to": "ann"}, "orders__send_mail")
    assert answered(home, call_id, shown="sha256:" + "0" * 64) == 409
    assert answered(home, call_id, decision="deny", shown="sha256:" + "0" * 64) == 409
    assert home.run(home.gateway.approvals.calls.store.get(call_id)).status == "pending"
    assert answered(home, call_id, decision="deny") == 200


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policy = {**SAFE, "sensitive": ["$..note"]}
    with house(tmp_path_factory.mktemp("secretive") / "project", policy=policy) as found:
        yield found


def test_a_sensitive_value_was_shown_and_is_a_digest_on_the_page_of_the_call(secretive: House) -> None:
    home = secretive
    call_id = waiting(home, {"note": "4711", "tenant_id": "t", "amount_cents": 5}, "orders__create_order")
    with client(home, "paul") as http:
        assert "4711" in http.get(f"/console/approvals/{call_id}").text
    assert answered(home, call_id) == 200
    page = story(home, call_id)
    assert "4711" not in page
    assert "sensitive: replaced by a digest" in page
    assert line_names(page, "sensitive values", "recorded as digests")
    assert line_names(page, "sensitive values", "made again")
    assert page.count("recorded digest of what was shown") == 1, "of the arguments, and not of the request"


def test_arguments_that_an_approver_changed_are_shown_to_the_next_as_changed(home: House) -> None:
    call_id = waiting(home, {"note": "a", "tenant_id": "t", "amount_cents": 5}, "orders__create_order")
    changed = json.dumps({"note": "a", "tenant_id": "t", "amount_cents": 7})
    assert answered(home, call_id, decision="edit", arguments=changed) == 200
    told = home.run(home.gateway.approvals.calls.outcome(call_id, home.gateway.principal("bot"), 30))
    assert not isinstance(told, Error)
    page = story(home, call_id)
    seen = page.partition("As <bdi>paul</bdi> saw it")[2].partition("</section>")[0]
    assert "<bdi>5</bdi>" in seen
    assert "<bdi>7</bdi>" not in seen
    assert "recorded digest" in seen
