"""Apps in the console, in Chromium: pages of a bridged server in a frame of another origin, their calls, and their attacks."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Error as BrowserError
from playwright.async_api import Frame, Page, async_playwright, expect

from tests.connectors.mcp.test_bridged_apps import PAGE, RIGHTS, STATE, build, calls, content, project, tell
from tests.frontends.console.people import CHROMIUM, FLAGS, form_token, needs_chromium
from tests.gateway.clients import listening
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.frontends.console.app import console_of
from toolgen.frontends.console.app_pages import page_policy, permitted
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.apps import AppRights
from toolgen.policy.egress import Egress

KEY = "key-of-olga"
VIEW = """<!doctype html><title>Clock</title><p id="hour">no answer yet</p><script>
const waiting = new Map(), told = [];
let last = 0, host = null;
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((resolve, reject) => {
  waiting.set(++last, { resolve, reject });
  send({ id: last, method, params });
});
addEventListener("message", (event) => {
  const message = event.data;
  if (message.method) {
    told.push(message);
    if (message.method === "ui/notifications/tool-result") {
      document.getElementById("hour").textContent = `hour ${message.params.structuredContent.hour}`;
      send({ method: "ui/notifications/size-changed", params: { height: 5000 } });
    }
    return;
  }
  const { resolve, reject } = waiting.get(message.id);
  if (message.error) reject(new Error(message.error.message)); else resolve(message.result);
});
ask("ui/initialize", { appInfo: { name: "clock", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" })
  .then((found) => { host = found; send({ method: "ui/notifications/initialized", params: {} }); });
</script>"""
READS = {"annotations": {"readOnlyHint": True}}
RULES = [
    {
        "id": "tools",
        "to": ["bot"],
        "tools": ["far__*"],
        "effects": ["read", "write", "destructive"],
        "verdict": "allow",
    },
    {"id": "not-that", "to": ["bot"], "tools": ["far__secret"], "verdict": "deny"},
    {"id": "asks", "to": ["bot"], "tools": ["far__plain"], "effects": ["destructive"], "verdict": "ask"},
    {"id": "pages", "to": ["bot"], "resources": ["ui://far/*"], "verdict": "allow"},
]


def made(root: Path, port: int, **mcp: Any) -> Path:
    """A project whose console shows apps: one of a bridged server, and the gateway's own."""
    path = project(root, allow=["apps"], rules=RULES)
    tools = [{**one, **READS} if one["name"] == "show-time" else one for one in STATE["tools"]]
    secret = {**STATE["tools"][1], "name": "secret"}
    tell(
        root,
        answers={**STATE["answers"], PAGE: content(VIEW), "secret": STATE["answers"]["tick"]},
        tools=[*tools, secret],
    )
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["sources"]["far"]["mcp"] |= {"annotations": "trusted", **mcp}
    settings |= {"console": {"viewers": ["bot"], "apps": f"http://apps.localhost:{port}"}}
    path.write_text(json.dumps(settings), encoding="utf-8")
    policy = root / "policies" / "policy.yaml"
    said = json.loads(policy.read_text(encoding="utf-8"))
    hashed = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
    said |= {"principals": {"bot": {"api_key": hashed, "roles": ["bot"]}, "lead": {"roles": ["lead"]}}}
    said |= {"approvals": {"approvers": ["lead"]}}
    policy.write_text(json.dumps(said), encoding="utf-8")
    done = build(path)
    assert done.returncode == 0, done.stderr
    return path


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[tuple[Gateway, str, str]]:
    """The gateway, the address of its console, and that of its apps."""
    listener = socket.create_server(("127.0.0.1", 0))
    path = made(root, listener.getsockname()[1])
    async with Gateway.load(path) as gateway:
        app = App(gateway)
        console = gateway.settings.console
        app.open_console(lambda authentication: console_of(gateway, authentication), apps_host=console.apps_host)
        async with listening(app, listener) as url:
            yield gateway, url, console.apps
            app.end_streams()
        await app.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Page, list[str]]]:
    """A page of a person who is signed in, and the requests of the browser: method, address, and whether cookies were sent."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            page = await browser.new_page()
            page.set_default_timeout(15_000)
            asked: list[str] = []

            async def note(request: Any) -> None:
                with suppress(BrowserError):  # the browser is closing
                    cookies = "cookie" in await request.all_headers()
                    asked.append(f"{request.method} {request.url}{' with cookies' if cookies else ''}")

            page.on("requestfinished", note)
            await page.goto(f"{url}/console")
            await page.fill("#credential", KEY)
            async with page.expect_navigation():
                await page.click("button[type=submit]")
            await page.wait_for_selector("form.who")
            yield page, asked
        finally:
            await browser.close()


async def tried(page: Page, url: str, tool: str) -> None:
    """Calls a tool with the form of its page."""
    await page.goto(f"{url}/console/tools/{tool}")
    async with page.expect_navigation():
        await page.click("#try-form button[type=submit]")


async def app_of(page: Page, apps: str) -> Frame:
    """The frame of the app, once it was given its answer."""
    await expect(page.frame_locator("iframe").locator("#hour")).to_have_text("hour 12")
    (frame,) = [one for one in page.frames if one.url.startswith(apps)]
    return frame


@needs_chromium
async def test_an_app_is_shown_in_a_frame_of_another_origin_and_calls_tools_as_the_person(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, url, apps), opened(url) as (page, asked):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)
        about = await frame.evaluate("host.hostContext.toolInfo.tool.name")
        given = await frame.evaluate("told.map((one) => one.method)")
        assert (about, given) == (
            "far__show_time",
            ["ui/notifications/tool-input", "ui/notifications/tool-result"],
        )
        assert await page.locator("iframe").get_attribute("height") == "900"  # it asked for 5000
        read = await frame.evaluate("ask('tools/call', { name: 'show-time', arguments: {} })")
        assert (read["isError"], read["structuredContent"]) == (False, {"hour": 12})
        framed = [one for one in asked if apps in one]
        assert len(framed) == 1
        assert "with cookies" not in framed[0]
        assert not gateway.operations.ready()
    recorded = b"".join(one.read_bytes() for one in (tmp_path / "audit").rglob("*") if one.is_file())
    assert recorded.count(b'"client":"console/app"') >= 2  # the read of the page, and the call


@needs_chromium
async def test_a_call_of_an_app_that_changes_something_is_made_once_the_person_agreed(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, _):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)
        before = calls(tmp_path)
        await frame.evaluate(
            "void (window.found = ask('tools/call', { name: 'tick' }).catch((error) => error.message))"
        )
        await expect(page.locator("dialog h2")).to_have_text("This app wants to call far__tick (destructive) as you")
        await page.locator("dialog").get_by_role("button", name="No").click()
        assert "not agree" in await frame.evaluate("found")
        assert calls(tmp_path) == before
        await frame.evaluate("void (window.ticked = ask('tools/call', { name: 'tick' }))")
        await page.locator("dialog").get_by_role("button", name="Call it").click()
        assert (await frame.evaluate("ticked"))["content"][0]["text"] == "tock"
        assert calls(tmp_path) == [*before, "tools/call tick"]


@needs_chromium
async def test_an_app_reads_nothing_of_the_console_and_leads_nobody_away(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, asked):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)

        async def fails(script: str) -> bool:
            """True if a script of the app raises, or resolves to what says so."""
            return bool(
                await frame.evaluate(
                    f"(async () => {{ try {{ await ({script}); return false; }} catch {{ return true; }} }})()"
                )
            )

        for script in (
            "document.cookie",
            "localStorage.length",
            "parent.document.body",
            "parent.location.href",
            "top.document.cookie",
            f"fetch('{url}/console/tools', {{ credentials: 'include' }}).then((found) => found.text())",
            f"fetch('{url}/healthz', {{ mode: 'no-cors' }})",
            "navigator.serviceWorker.register('x.js')",
            "(() => { if (window.open('https://evil.example') === null) throw 1; })()",
            "(() => { top.location = 'https://evil.example/'; })()",
        ):
            assert await fails(script), script
        assert await frame.evaluate("self.origin") == "null"
        assert not [one for one in asked if "/healthz" in one or "evil" in one]
        assert page.url.startswith(f"{url}/console/tools/")
        await frame.evaluate(
            f"void document.body.append(Object.assign(document.createElement('iframe'), {{ src: '{url}/console', id: 'framed' }}))"
        )
        await frame.wait_for_selector("#framed")
        assert [one.url for one in page.frames if "/console" in one.url] == [page.url]


@needs_chromium
async def test_an_app_that_navigates_its_frame_is_closed(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, asked):
        for target in (
            f"{url}/console/tools",
            "about:blank",
            "data:text/html,x",
            "https://evil.example/?what=it-was-shown",
        ):
            await tried(page, url, "far__show_time")
            frame = await app_of(page, apps)
            before = len(asked)
            await frame.evaluate(f"void setTimeout(() => {{ location = {json.dumps(target)}; }})")
            await expect(page.locator(".app-status")).to_have_text("The app left its page, so that it was closed.")
            assert await page.locator("iframe").count() == 0
            assert not [one for one in asked[before:] if "evil" in one or "/console/tools " in f"{one} "]


@needs_chromium
async def test_messages_of_other_windows_and_frames_are_not_the_apps(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, asked):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)
        forged = "{ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'tick', arguments: {} } }"
        await page.evaluate(f"window.postMessage({forged}, '*')")
        await frame.evaluate(
            f"""new Promise((resolve) => {{
              const inner = document.createElement("iframe");
              inner.srcdoc = `<script>top.postMessage({forged}, "*"); parent.postMessage("sent", "*");<\\/script>`;
              addEventListener("message", (event) => {{ if (event.data === "sent") resolve(); }});
              inner.addEventListener("load", () => setTimeout(resolve, 0));
              document.body.append(inner);
            }})"""
        )
        read = await frame.evaluate("ask('ping', {})")  # behind the others in the queue of the page
        assert read == {}
        assert await page.locator("dialog").count() == 0
        assert not [one for one in asked if "/apps/call" in one]


@needs_chromium
async def test_an_app_calls_neither_hidden_tools_nor_those_of_others(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, _):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)
        before = calls(tmp_path)
        told = [
            await frame.evaluate("(name) => ask('tools/call', { name, arguments: {} })", name)
            for name in (
                "secret",
                "far__secret",
                "for-models",
                "plain",
                "far__plain",
                "get_call_result",
                "nothing",
                "__proto__",
            )
        ]
        assert len({json.dumps(one) for one in told}) == 1
        assert told[0]["content"][0]["text"].startswith("unknown_tool")
        assert calls(tmp_path) == before
        for params in (
            "{}",
            "{ name: 5 }",
            "{ name: 'tick', arguments: [] }",
            "{ name: 'tick', arguments: { a: 'x'.repeat(300000) } }",
        ):
            assert (
                await frame.evaluate(f"ask('tools/call', {params}).then(() => 'taken', (error) => error.message)")
                != "taken"
            )
        unknown = "ask('{}', {{}}).then(() => 'taken', (error) => error.message)"
        for method in ("constructor", "resources/read", "ui/message", "ui/update-model-context", "toString"):
            assert await frame.evaluate(unknown.format(method)) == "Method not found"


@needs_chromium
async def test_links_are_opened_by_the_person_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), opened(url) as (page, _):
        await tried(page, url, "far__show_time")
        frame = await app_of(page, apps)
        for link in (
            "javascript:alert(1)",
            "http://evil.example/",
            "data:text/html,x",
            "https://a:b@evil.example/",
            "/console",
            "",
        ):
            answer = "(url) => ask('ui/open-link', { url }).then(() => 'opened', (error) => error.message)"
            assert await frame.evaluate(answer, link) != "opened", link
        assert await page.locator("dialog").count() == 0
        await frame.evaluate("void ask('ui/open-link', { url: 'https://docs.example/\\u202egro' }).catch(() => {})")
        await expect(page.locator("dialog pre")).to_have_text("https://docs.example/%E2%80%AEgro")
        shown = page.locator("dialog a")
        assert await shown.get_attribute("rel") == "noopener noreferrer"
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog")).to_have_count(0)
        for _ in range(2):  # it may ask three times in vain, and then nothing more
            await frame.evaluate(
                "void ask('ui/open-link', { url: 'https://docs.example/' }).catch(() => { window.no = true; })"
            )
            await page.locator("dialog").get_by_role("button", name="No").click()
        assert (
            await frame.evaluate(
                "ask('ui/open-link', { url: 'https://docs.example/' }).then(() => 'opened', (error) => error.message)"
            )
            != "opened"
        )
        assert await page.locator("dialog").count() == 0


@needs_chromium
async def test_a_call_that_waits_has_the_card_and_other_answers_the_table_of_the_gateway(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, url, _), opened(url) as (page, _):
        await tried(page, url, "far__plain")
        card = page.frame_locator("iframe")
        await expect(card.get_by_role("heading")).to_have_text("far__plain")
        (waiting,) = await gateway.tool_calls.approvals.waiting()
        tell(
            tmp_path,
            **json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
            | {"answers": {"plain": {"content": [{"type": "text", "text": '[{"id": 1, "name": "Rex"}]'}]}}},
        )
        lead = gateway.principal("lead")
        await gateway.tool_calls.approvals.decide(waiting.id, approve=True, note="", principal=lead)
        await gateway.tool_calls.approvals.calls.outcome(waiting.id, gateway.principal("bot"), 20)
        await card.get_by_role("button", name="Check again").click()
        await expect(card.locator("th")).to_have_text(["id", "name"])
        await expect(card.locator("td")).to_have_text(["1", "Rex"])


async def test_the_host_of_apps_serves_pages_by_their_tickets_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, url, apps), httpx.AsyncClient() as http:
        port = urlsplit(url).port
        named = {"host": f"apps.localhost:{port}"}
        await http.post(
            f"{url}/console/sign-in",
            data={"credential": KEY, "form_token": form_token((await http.get(f"{url}/console/sign-in")).text)},
        )
        tool = f"{url}/console/tools/far__show_time"
        shown = await http.post(tool, data={"form_token": form_token((await http.get(tool)).text), "once": "1"})
        assert f"frame-src {apps}" in shown.headers["content-security-policy"]
        address = shown.text.partition('data-address="')[2].partition('"')[0]
        assert address.startswith(f"{apps}/apps/")
        path = urlsplit(address).path
        page = await http.get(f"{url}{path}", headers=named)
        assert (page.status_code, page.text) == (200, VIEW)
        policy = page.headers["content-security-policy"]
        assert f"frame-ancestors {url}" in policy
        assert "sandbox allow-scripts" in policy
        assert f"connect-src {RIGHTS['ui']['csp']['connectDomains'][0]}" in policy  # type: ignore[index]
        assert "set-cookie" not in page.headers
        for other, headers in (
            (path, {**named, "sec-fetch-dest": "document"}),
            (f"{path[:-2]}AA", named),
            ("/apps/x", named),
            ("/console/sign-in", named),
            ("/console/static/console.js", named),
            ("/mcp", named),
            ("/healthz", named),
            (path, {**named, "host": f"APPS.localhost.:{port}", "sec-fetch-dest": "document"}),
        ):
            assert (await http.get(f"{url}{other}", headers=headers)).status_code == 404, other
        assert (await http.get(f"{url}{path}")).status_code == 401  # not at the gateway's own host
        assert (await http.post(f"{url}{path}", headers=named)).status_code == 405


async def test_a_ticket_ends_with_its_minute_and_with_its_person(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, url, apps), httpx.AsyncClient() as http:
        await http.post(
            f"{url}/console/sign-in",
            data={"credential": KEY, "form_token": form_token((await http.get(f"{url}/console/sign-in")).text)},
        )
        tool = f"{url}/console/tools/far__show_time"
        shown = await http.post(tool, data={"form_token": form_token((await http.get(tool)).text), "once": "1"})
        path = urlsplit(shown.text.partition('data-address="')[2].partition('"')[0]).path
        policy = tmp_path / "policies" / "policy.yaml"
        said = json.loads(policy.read_text(encoding="utf-8"))
        said["rules"] = [one for one in said["rules"] if one["id"] != "pages"]
        policy.write_text(json.dumps(said), encoding="utf-8")
        assert await gateway.operations.reload()
        hidden = await http.get(f"{url}{path}", headers={"host": urlsplit(apps).netloc})
        assert (hidden.status_code, hidden.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert VIEW not in hidden.text


@pytest.mark.parametrize(
    "hostile",
    [
        "https://a.example; script-src *",
        "https://a.example 'unsafe-eval'",
        "https://a.example'",
        'https://a.example"',
        "https://a.example\r\nset-cookie: a=b",
        "https://a.example, default-src *",
        "*",
        "https:",
        "https://*",
        "'unsafe-inline'",
        "data:",
        "blob:",
        "http://a.example",
        "https://localhost",
        "https://a.example/path;x",
        "https://\u212a.example",
        "https://user@a.example",
    ],
)
def test_a_domain_adds_nothing_to_a_policy_but_its_origin(hostile: str) -> None:
    names = ("connect_domains", "resource_domains", "frame_domains", "base_uri_domains")
    rights = AppRights(**dict.fromkeys(names, (hostile, "https://good.example")))
    asked = "default-src 'none'; script-src 'unsafe-inline' https://good.example; style-src 'unsafe-inline' https://good.example; "
    assert page_policy(rights, "http://127.0.0.1:1", lambda _: True) == (
        f"{asked}img-src data: https://good.example; font-src data: https://good.example; media-src data: https://good.example; "
        "connect-src https://good.example; frame-src https://good.example; base-uri https://good.example; object-src 'none'; "
        "form-action 'none'; frame-ancestors http://127.0.0.1:1; sandbox allow-scripts"
    )


def test_a_policy_is_never_wider_than_where_data_may_go() -> None:
    rights = AppRights(connect_domains=("https://api.example", "wss://api.example:444", "https://*.api.example"))
    listed = Egress(allow=frozenset({("api.example", 443)}), private_networks=True)
    narrowed = Egress(sources={"far": frozenset({("api.example", 444)})})

    def connects(egress: Egress) -> str:
        policy = page_policy(rights, "http://127.0.0.1:1", lambda origin: permitted(egress, origin, "far"))
        return next(one for one in policy.split("; ") if one.startswith("connect-src"))

    assert connects(Egress()) == "connect-src https://api.example wss://api.example:444 https://*.api.example"
    assert connects(listed) == "connect-src https://api.example"
    assert connects(narrowed) == "connect-src wss://api.example:444"
    assert connects(Egress(sources={"far": frozenset()})) == "connect-src 'none'"


@pytest.mark.parametrize(
    ("console", "gateway"),
    [
        ({"apps": "https://gateway.example.com:8443", "url": "https://gateway.example.com"}, {}),
        ({"apps": "https://GATEWAY.example.com", "url": "https://gateway.example.com/tools"}, {}),
        ({"apps": "https://tools.example.com"}, {"url": "https://tools.example.com"}),
        ({"apps": "http://127.0.0.1:9000"}, {}),
        ({"apps": "http://apps.localhost:9000", "url": "https://gateway.example.com"}, {}),
        ({"apps": "http://apps.example.com"}, {}),
        ({"apps": "https://apps.example.com/path"}, {}),
        ({"apps": "https://*.example.com"}, {}),
        ({"apps": "https://apps.example.com;script-src"}, {}),
        ({"apps": "https://apps.example.com 'unsafe-inline'"}, {}),
        ({"apps": "self"}, {}),
        ({"apps": ""}, {}),
    ],
)
def test_an_origin_of_apps_that_is_the_gateways_own_or_none_is_refused(
    tmp_path: Path, console: dict[str, str], gateway: dict[str, str]
) -> None:
    path = tmp_path / "toolgen.yaml"
    settings = {"sources": {"own": {"python": "helpers"}}, "console": console, "gateway": gateway}
    path.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ConfigError, match="apps:"):
        load(path)
