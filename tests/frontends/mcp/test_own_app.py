"""The gateway's own app in Chromium: a table of an answer, and a card of a call that waits, in a frame of another origin."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.connectors.mcp.test_bridged_apps import APPS as ANNOUNCED
from tests.connectors.mcp.test_bridged_apps import STATE, ask, build, project, tell
from tests.frontends.console.people import CHROMIUM, FLAGS, needs_chromium
from toolgen.frontends.mcp.messages import Caller, ProtocolStyle, RpcMessage
from toolgen.frontends.mcp.server import Mcp, answer_page
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.model.apps import APP_TYPE, APPS, OWN_PAGE

# The policy of SEP-1865 for a page that declares nothing.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'none'; object-src 'none'; base-uri 'self'; frame-src 'none'"
)
HOST = """<!doctype html><title>Host</title><iframe sandbox="allow-scripts" src="VIEW"></iframe><script>
const frame = document.querySelector("iframe");
addEventListener("message", async (event) => {
  if (event.source !== frame.contentWindow) return;
  const { id, method, params } = event.data;
  const answer = (result) => frame.contentWindow.postMessage({ jsonrpc: "2.0", id, result }, "*");
  const tell = (method, params) => frame.contentWindow.postMessage({ jsonrpc: "2.0", method, params }, "*");
  if (method === "ui/initialize") answer({ protocolVersion: "2026-01-26", hostInfo: {}, hostCapabilities: {}, hostContext: {} });
  if (method === "ui/notifications/initialized") {
    const { given, result } = await window.first();
    tell("ui/notifications/tool-input", { arguments: given });
    tell("ui/notifications/tool-result", result);
  }
  if (method === "tools/call") answer(await window.call(params));
});
</script>"""
LIST = [{"id": 1, "name": "Rex <img src=x onerror=alert(1)>"}, {"id": 2, "name": "Ida", "weight": 2.5}]
RULES = [
    {"id": "asks", "to": ["bot"], "tools": ["far__plain"], "effects": ["destructive"], "verdict": "ask"},
    {"id": "lists", "to": ["bot"], "tools": ["far__show_time"], "effects": ["destructive"], "verdict": "allow"},
]
SAID = {**STATE["answers"], "plain": {"content": [{"type": "text", "text": "removed"}]}}
SAID["show-time"] = {"content": [{"type": "text", "text": json.dumps(LIST)}]}


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    """A project whose gateway shows answers with its own app, and whose calls of far__plain wait for the principal lead."""
    path = project(tmp_path, allow=[], rules=RULES)
    takes = {"inputSchema": {"type": "object", "properties": {"pet": {"type": "integer"}}}}
    tell(tmp_path, answers=SAID, tools=[{**one, **takes} if one["name"] == "plain" else one for one in STATE["tools"]])
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "gateway": {"mcp": {"apps": True}}}), encoding="utf-8")
    policy = tmp_path / "policies" / "policy.yaml"
    said = json.loads(policy.read_text(encoding="utf-8"))
    people = {"bot": {"roles": ["bot"]}, "lead": {"roles": ["lead"]}}
    changed = {**said, "principals": people, "approvals": {"approvers": ["lead"]}}
    policy.write_text(json.dumps(changed), encoding="utf-8")
    done = build(path)
    assert done.returncode == 0, done.stderr
    return path


def test_tools_name_the_app_to_clients_that_show_apps(path: Path) -> None:
    tools, read = ask(path, ("tools/list", {}), ("resources/read", {"uri": OWN_PAGE}))
    named = {one["name"]: one["_meta"]["ui"] for one in tools["tools"]}
    assert {one["resourceUri"] for one in named.values()} == {OWN_PAGE}
    assert named["far__plain"]["visibility"] == ["model"]
    assert named["get_call_result"]["visibility"] == ["model", "app"]
    assert read["contents"] == [{"uri": OWN_PAGE, "mimeType": APP_TYPE, "text": answer_page()}]
    (tools,) = ask(path, ("tools/list", {}), capabilities={})
    assert "_meta" not in json.dumps(tools)
    assert ANNOUNCED


def test_the_page_loads_nothing() -> None:
    page = answer_page()
    assert not [
        one for one in ("src=", "href=", "@import", "url(", "fetch(", "http", "innerHTML", "eval") if one in page
    ]


@pytest.fixture(name="view")
def _view() -> Iterator[tuple[str, list[str]]]:
    """The URL of the host's page, and what was asked of its server. The frame has another origin, and the policy of the specification."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            port = self.server.server_address[1]
            body = HOST.replace("VIEW", f"http://localhost:{port}/view") if self.path == "/" else answer_page()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            if self.path == "/view":
                self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()
        thread.join()


@asynccontextmanager
async def shown(
    path: Path, url: str, name: str, given: dict[str, Any]
) -> AsyncIterator[tuple[Gateway, Page, list[str]]]:
    """A call through the gateway whose answer the host shows, and the tools that the app called."""
    called: list[str] = []
    async with Gateway.load(path) as gateway, async_playwright() as playwright:
        mcp = Mcp(gateway, Listings(gateway))
        caller = Caller(principal=gateway.principal("bot"), capabilities=frozenset({APPS}))

        async def call(params: dict[str, Any]) -> dict[str, Any]:
            called.append(params["name"])
            message = RpcMessage(jsonrpc="2.0", id=1, method="tools/call", params=params)
            reply = await mcp.answer(message, protocol_style=ProtocolStyle.STATEFUL, caller=caller)
            found: dict[str, Any] = msgspec.json.decode(reply.body)
            return found.get("result", found)

        async def first() -> dict[str, Any]:
            return {"given": given, "result": await call({"name": name, "arguments": given})}

        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = await browser.new_page()
        await page.expose_function("first", first)
        await page.expose_function("call", call)
        await page.goto(url)
        yield gateway, page, called
        await browser.close()


@needs_chromium
async def test_a_list_is_a_table_and_its_values_are_text(path: Path, view: tuple[str, list[str]]) -> None:
    url, _ = view
    async with shown(path, url, "far__show_time", {}) as (_, page, _):
        frame = page.frame_locator("iframe")
        await expect(frame.locator("th")).to_have_text(["id", "name", "weight"])
        await expect(frame.locator("tbody td").nth(1)).to_have_text(LIST[0]["name"])
        assert await frame.locator("img").count() == 0


@needs_chromium
async def test_a_call_that_waits_is_a_card_and_shows_its_end(path: Path, view: tuple[str, list[str]]) -> None:
    url, _ = view
    async with shown(path, url, "far__plain", {"pet": 7}) as (gateway, page, called):
        frame = page.frame_locator("iframe")
        await expect(frame.locator("h1")).to_have_text("far__plain")
        await expect(frame.locator("tbody td")).to_have_text(["pet", "7"])
        lead = gateway.principal("lead")
        (waiting,) = await gateway.approvals.answerable(lead)
        await gateway.approvals.decide(waiting.id, approve=True, note="", principal=lead)
        await gateway.approvals.calls.outcome(waiting.id, gateway.principal("bot"), 20)
        await frame.get_by_role("button").click()
        await expect(frame.locator("pre")).to_have_text("removed")
        assert called == ["far__plain", "get_call_result"]


@needs_chromium
async def test_the_frame_reaches_nothing_and_its_calls_are_governed(path: Path, view: tuple[str, list[str]]) -> None:
    url, asked = view
    async with shown(path, url, "far__show_time", {}) as (_, page, _):
        await expect(page.frame_locator("iframe").locator("table")).to_be_visible()
        frame = page.frames[1]
        loads = f"""async () => {{
          const failed = [];
          await fetch("{url}fetched").catch(() => failed.push("fetch"));
          for (const [name, member] of [["img", "src"], ["script", "src"], ["iframe", "src"]]) {{
            const made = document.createElement(name);
            const end = new Promise((resolve) => {{ made.onerror = () => resolve(failed.push(name)); made.onload = resolve; }});
            const broken = new Promise((resolve) => addEventListener("securitypolicyviolation", () => resolve(), {{ once: true }}));
            made[member] = "{url}" + name;
            document.body.append(made);
            await Promise.race([end, broken]);
          }}
          return failed;
        }}"""
        assert "fetch" in await frame.evaluate(loads)
        assert [one for one in asked if one not in {"/", "/view", "/favicon.ico"}] == []
        assert (
            await frame.evaluate("() => { try { return parent.document.title } catch { return 'denied' } }") == "denied"
        )
        refused = await frame.evaluate("() => ask('tools/call', {name: 'far__tick', arguments: {}})")
        assert refused["content"][0]["text"].startswith("unknown_tool")
