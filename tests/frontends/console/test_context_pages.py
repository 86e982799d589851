"""Prompts and resources in the console, in Chromium: lists, arguments with proposed values, texts, bytes, and contents that stay inert."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import async_playwright, expect

from tests.frontends.console.people import CHROMIUM, FLAGS, form_token, needs_chromium
from tests.gateway.clients import listening
from toolgen.audit.reader import entries
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

KEY = "key-of-olga"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe"
FUNCTIONS = f'''
import toolgen

HOSTILE = {HOSTILE!r}
KINDS = ("refund", "return", "repair")

@toolgen.prompt
def answer_ticket(ticket: str, tone: str = "kind") -> list[toolgen.Message]:
    """Answer a ticket."""
    return [toolgen.Message(f"Answer {{ticket}}, {{tone}}. {{HOSTILE}}"), toolgen.Message("I will.", "assistant")]

@toolgen.completes(answer_ticket, "ticket")
def kinds(value: str, others: dict[str, str]) -> list[str]:
    return [f"{{one}}-{{others.get('tone', '')}}" for one in KINDS if one.startswith(value)]

@toolgen.prompt
def hidden_plan() -> str:
    """Plan that nobody sees."""
    return "plan"

@toolgen.resource("desk://tickets/{{id}}", media_type="text/html")
def ticket(id: str) -> str:
    """Ticket as a page."""
    return f"<h1>{{id}}</h1>{{HOSTILE}}"

@toolgen.completes(ticket, "id")
def ids(value: str) -> list[str]:
    return [one for one in ("T-1", "T-2") if one.startswith(value)]

@toolgen.resource("desk://logo", media_type="image/png")
def logo() -> bytes:
    """Logo."""
    return b"\\x89PNG\\r\\n\\x1a\\n\\x00"

@toolgen.resource("desk://secret")
def secret() -> str:
    """Text that nobody reads."""
    return "plan"
'''
RULES = [
    {
        "id": "desk",
        "to": ["agent"],
        "prompts": ["desk__answer*"],
        "resources": ["desk://tickets/*", "desk://logo"],
        "verdict": "allow",
    }
]


@pytest.fixture(name="path")
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "desk_functions.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "policies").mkdir()
    hashed = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
    policy = {"principals": {"olga": {"api_key": hashed, "roles": ["agent", "reviewer"]}}, "rules": RULES}
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    path = tmp_path / "toolgen.yaml"
    settings = {"sources": {"desk": {"python": "desk_functions"}}, "audit": {"dir": "audit"}, "policies": "policies/"}
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@needs_chromium
async def test_prompts_and_resources_are_got_and_read_and_what_they_hold_is_inert(path: Path) -> None:
    faults: list[str] = []
    async with Gateway.load(path) as gateway, async_playwright() as playwright:
        app = App(gateway)
        app.open_console(lambda authentication: console_of(gateway, authentication))
        async with listening(app) as url:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
            page = await browser.new_page()
            page.set_default_timeout(15_000)
            page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("dialog", lambda dialog: faults.append(dialog.message))
            await page.goto(f"{url}/console")
            await page.fill("#credential", KEY)
            async with page.expect_navigation():
                await page.click("button[type=submit]")
            await page.wait_for_selector("form.who")  # the answer of the form loads the console
            await page.goto(f"{url}/console/tools")
            table = page.get_by_role("region", name="Prompts and resources, a table")
            await expect(table.locator("tbody a")).to_have_text(
                ["desk__answer_ticket", "desk://logo", "desk://tickets/{id}"]
            )
            async with page.expect_navigation():
                await table.get_by_role("link", name="desk__answer_ticket").click()
            await page.get_by_label("tone").fill("short")
            await page.get_by_label("ticket").fill("re")
            await page.get_by_label("ticket").press("p")
            await expect(page.locator("#values-1 option")).to_have_count(1)
            assert await page.locator("#values-1 option").get_attribute("value") == "repair-short"
            await page.get_by_label("ticket").fill("repair-short")
            async with page.expect_navigation():
                await page.get_by_role("button", name="Get it").click()
            await expect(page.locator("#answer h3")).to_have_text(["user", "assistant"])
            await expect(page.locator("#answer pre").first).to_contain_text("Answer repair-short, short. <img src=x")
            await expect(page.locator("#answer pre").last).to_have_text("I will.")
            await page.goto(f"{url}/console/resources?uri=desk%3A%2F%2Ftickets%2F%7Bid%7D")
            await page.get_by_label("id").fill("T")
            await expect(page.locator("#values-1 option")).to_have_count(2)
            await page.get_by_label("id").fill("T/../1 ü")
            async with page.expect_navigation():
                await page.get_by_role("button", name="Read it").click()
            await expect(page.get_by_role("alert")).to_contain_text("Nothing was read")
            await page.get_by_label("id").fill("T-1")
            async with page.expect_navigation():
                await page.get_by_role("button", name="Read it").click()
            await expect(page.locator("#answer pre")).to_contain_text("<h1>T-1</h1><img src=x onerror=alert(1)>")
            await expect(page.locator("#answer pre")).to_contain_text("\\u{202e}")
            assert await page.locator("main img, main script").count() == 0
            faults[:] = [one for one in faults if "400" not in one]  # the refused read
            await page.goto(f"{url}/console/resources?uri=desk%3A%2F%2Flogo")
            async with page.expect_navigation():
                await page.get_by_role("button", name="Read it").click()
            await expect(page.locator("#answer h3")).to_have_text("desk://logo · image/png · 9 bytes")
            async with page.expect_download() as saved:
                await page.get_by_role("button", name="Save as a file").click()
            stored = await (await saved.value).path()
            assert await asyncio.to_thread(Path(stored).read_bytes) == b"\x89PNG\r\n\x1a\n\x00"
            assert faults == []
            await browser.close()
        await app.close()
    recorded = {one["tool"] for one in entries(path.parent / "audit") if one["event"] == "intent"}
    assert {
        "prompt:desk__answer_ticket",
        "prompt:desk__answer_ticket#ticket",
        "resource:desk://tickets/{id}",
        "resource:desk://logo",
    } <= recorded


async def test_what_the_policy_hides_is_the_same_as_what_there_is_not(path: Path) -> None:
    async with Gateway.load(path) as gateway:
        app = App(gateway)
        app.open_console(lambda authentication: console_of(gateway, authentication))
        async with listening(app) as url, httpx.AsyncClient(base_url=url) as http:
            token = form_token((await http.get("/console/sign-in")).text)
            await http.post("/console/sign-in", data={"credential": KEY, "form_token": token})
            token = form_token((await http.get("/console/tools")).text)

            async def answers(*paths: str) -> None:
                for method in ("GET", "POST"):
                    data = {"form_token": token} if method == "POST" else None
                    told = [await http.request(method, one, data=data) for one in paths]
                    assert {one.status_code for one in told} == {404}
                    assert len({one.text for one in told}) == 1

            await answers("/console/prompts/desk__hidden_plan", "/console/prompts/desk__nothing")
            await answers(
                "/console/resources?uri=desk://secret", "/console/resources?uri=desk://nothing", "/console/resources"
            )
            for form in (
                {"prompt": "desk__hidden_plan", "name": "x"},
                {"resource": "desk://secret", "name": "id"},
                {"prompt": "desk__answer_ticket", "name": "nothing"},
            ):
                told = await http.post("/console/complete", data={"form_token": token, "value": "", **form})
                assert (told.status_code, told.json()) == (200, {"values": []})
            assert (await http.post("/console/complete", data={"form_token": "x", "prompt": "p"})).status_code == 403
        await app.close()
