"""The sample device in Chromium: a page that fetches what an agent asks, shows it to its user, and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from examples.device.project import Running, running
from tests.frontends.console.people import needs_chromium

CANARY = "<img src=x onerror=alert(1)><script>alert(2)</script>"
_PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("device") / "p") as found:
        yield found


@contextmanager
def page(browser: Browser, here: Running, *permissions: str) -> Iterator[Page]:
    """The page with these permissions given, that breaks no policy of its own."""
    context = browser.new_context(geolocation={"latitude": 48.137, "longitude": 11.575})
    context.grant_permissions([*permissions], origin=here.page)
    context.set_default_timeout(_PATIENCE_MS)
    faults: list[str] = []
    found = context.new_page()
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    found.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    try:
        found.goto(here.page)
        expect(found.locator("#state")).to_have_text("Ready.", timeout=_PATIENCE_MS)
        yield found
        assert faults == []
    finally:
        context.close()


@contextmanager
def asked(here: Running, tool: str, **arguments: Any) -> Iterator[Future[dict[str, Any]]]:
    """The envelope of a call that the agent makes on behalf of the user, while the block does what the user does."""

    def call() -> dict[str, Any]:
        answer = httpx.post(
            f"{here.gateway}/v1/tools/phone__{tool}/call",
            json={"arguments": arguments, "wait": 120},
            headers={"authorization": f"Bearer {here.bot}", "x-on-behalf-of": "ann"},
            timeout=180,
        )
        found: dict[str, Any] = answer.json()
        return found

    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(call)


@needs_chromium
def test_the_user_shares_a_place_says_yes_and_no_and_copies_a_text(browser: Browser, here: Running) -> None:
    with page(browser, here, "geolocation", "clipboard-write", "clipboard-read") as device:
        with asked(here, "get_location", reason="to find a café") as call:
            expect(device.locator(".display")).to_have_text("Share your location? to find a café", timeout=_PATIENCE_MS)
            device.get_by_role("button", name="Share").click()
            assert call.result()["data"]["latitude"] == 48.137
        for button, confirmed in (("Yes", True), ("No", False)):
            with asked(here, "confirm", question="Order the pizza?") as call:
                device.get_by_role("button", name=button, exact=True).click()
                assert call.result()["data"] == {"confirmed": confirmed}
        with asked(here, "copy_text", text="two\nlines") as call:
            device.get_by_role("button", name="Copy").click()
            assert call.result()["data"] == {"copied": True}
        assert device.evaluate("navigator.clipboard.readText()") == "two\nlines"
        expect(device.locator("#answered li")).to_have_count(4, timeout=_PATIENCE_MS)
        expect(device.locator("#none")).to_be_visible()


@needs_chromium
def test_a_permission_that_is_missing_and_a_user_who_cancels_are_told_to_the_agent(
    browser: Browser, here: Running
) -> None:
    with page(browser, here) as device:
        with asked(here, "get_permission", permission="geolocation") as call:
            status = call.result()["data"]["status"]
            assert status in {"prompt", "denied"}
        with asked(here, "get_location", reason="x") as call:
            told = call.result()
            expected = "authorization_required" if status == "prompt" else "forbidden"
            assert (told["status"], told["error"]["code"]) == ("error", expected)
        with asked(here, "confirm", question="Really?") as call:
            device.get_by_role("button", name="Cancel").click()
            assert (call.result()["status"], call.result()["error"]["code"]) == ("cancelled", "cancelled")


@needs_chromium
def test_what_an_agent_writes_is_shown_as_text_and_a_withdrawn_request_goes_away(
    browser: Browser, here: Running
) -> None:
    headers = {"authorization": f"Bearer {here.bot}", "x-on-behalf-of": "ann"}
    with page(browser, here) as device:
        made = httpx.post(
            f"{here.gateway}/v1/tools/phone__confirm/call",
            json={"arguments": {"question": CANARY}, "wait": 0},
            headers=headers,
            timeout=60,
        ).json()
        expect(device.locator(".display")).to_have_text(CANARY, timeout=_PATIENCE_MS)
        assert device.locator("main img, main script").count() == 0
        httpx.post(f"{here.gateway}/v1/calls/{made['call_id']}/cancel", headers=headers, timeout=60)
        expect(device.locator(".card")).to_have_count(0, timeout=_PATIENCE_MS)


def test_the_page_is_under_a_strict_policy_and_its_server_answers_to_its_own_page_alone(here: Running) -> None:
    found = httpx.get(here.page, timeout=60)
    assert "script-src 'self'" in found.headers["content-security-policy"]
    assert "<script>" not in found.text
    assert "onclick" not in found.text
    body = json.dumps({"jsonrpc": "2.0", "id": "call_1", "result": 1})
    json_headers = {"content-type": "application/json"}
    for headers in ({}, {"origin": "http://evil.example"}, {"origin": here.page, "host": "evil.example"}):
        refused = httpx.post(
            f"{here.page}/v1/tool-messages", content=body, headers={**json_headers, **headers}, timeout=60
        )
        assert refused.status_code == 403
    own = httpx.post(
        f"{here.page}/v1/tool-messages", content=body, headers={**json_headers, "origin": here.page}, timeout=60
    )
    assert own.status_code == 404
    assert httpx.get(f"{here.page}/v1/device/requests", headers={"host": "evil.example"}, timeout=60).status_code == 403
    assert httpx.get(f"{here.page}/v1/tools", timeout=60).status_code == 404
    assert here.ann not in found.text
