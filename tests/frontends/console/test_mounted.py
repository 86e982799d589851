"""The console of `gateway.asgi()` below a path of another application: links, cookies, redirects, forms, live rows, sign-in."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from playwright.sync_api import Page
from starlette.applications import Starlette
from starlette.routing import Mount

import toolgen
from tests.frontends.console.house import CONSOLE, KEYS, POLICY, House
from tests.frontends.console.people import chromium, form_token, needs_chromium, watched
from tests.frontends.console.provider import CLIENT, SECRET, issuer
from tests.frontends.console.test_sign_in import policy_of
from tests.gateway.governed import project, upstream

# A path of two parts with a character that links have to escape.
PREFIX = "/inner/for%20agents"
ADDRESSES = """() => [...document.querySelectorAll('[href], [action], [src], [data-live]')].map(
    one => one.getAttribute('href') ?? one.getAttribute('action') ?? one.getAttribute('src') ?? one.dataset.live)"""


@contextlib.contextmanager
def mounted(root: Path, policy: dict[str, Any] = POLICY, **console: Any) -> Iterator[House]:
    """A gateway in a Starlette application under uvicorn; its `url` ends with the path that it is mounted at."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}{PREFIX}"
    started: list[House] = []
    ready = threading.Event()
    with upstream() as (seen, behind), listener:
        gateway = toolgen.Gateway.load(project(root, behind, policy, console={**CONSOLE, "url": address, **console}))

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with gateway:
                started.append(House(gateway, address, seen, root, asyncio.get_running_loop()))
                ready.set()
                yield

        app = Starlette(routes=[Mount("/inner/for agents", gateway.asgi())], lifespan=lifespan)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            assert ready.wait(120)
            yield started[0]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with mounted(tmp_path_factory.mktemp("mounted") / "project") as found:
        found.call("orders__get_health", {})
        yield found


def crawled(page: Page, start: str) -> set[str]:
    """The paths of all pages that links lead to, one for each form of a page; every address is below the prefix."""
    seen, waiting = set[str](), [start]
    while waiting:
        answer = page.goto(waiting.pop())
        assert answer is not None
        assert answer.status == 200, answer.url
        found = [one for one in page.evaluate(ADDRESSES) if not one.startswith("#")]
        assert [one for one in found if not urlsplit(one).path.startswith(f"{PREFIX}/console")] == []
        for address in found:
            path = urlsplit(address).path
            is_page = "/static/" not in path and not path.endswith((".csv", ".jsonl", "/events", "/sign-out"))
            if is_page and path not in seen and path.count("/") <= PREFIX.count("/") + 2:
                seen.add(path)
                waiting.append(page.evaluate("path => new URL(path, location).href", address))
    return seen


@needs_chromium
def test_pages_links_forms_and_live_rows_are_below_the_prefix(home: House) -> None:
    waiting, count = home.call("orders__delete_order", {"id": "7"}), len(home.upstream.requests)
    with chromium() as browser, watched(browser, home, "olga") as found:
        page = found.page
        assert {"/approvals", "/tools"} <= {
            path.removeprefix(f"{PREFIX}/console") for path in crawled(page, f"{home.url}/console/approvals")
        }
        (cookie,) = [one for one in page.context.cookies() if one["name"] == "toolgen_session"]
        assert cookie["path"] == f"{PREFIX}/console"
        found.visit(f"{home.url}/console/approvals/{waiting.call_id}")
        with page.expect_response(lambda answer: answer.request.method == "POST") as sent:
            page.click("form.answer button[value=approve]")
        assert sent.value.status < 400
        page.wait_for_url(f"{home.url}/console/**")
        page.wait_for_function("() => !document.querySelector('form.answer')")
        found.check()
        page.click("form.who button")
        page.wait_for_url(f"{home.url}/console/sign-in")
        assert [one for one in page.context.cookies() if one["name"] == "toolgen_session"] == []
    home.upstream.reached(count + 1)
    assert home.upstream.requests[-1][0] == "DELETE"


@needs_chromium
def test_a_viewer_reads_every_page_and_sees_calls_as_they_come(home: House) -> None:
    with chromium() as browser, watched(browser, home, "rita") as found:
        page = found.page
        pages = crawled(page, f"{home.url}/console/overview")
        assert len(pages) >= 12
        found.visit(f"{home.url}/console/live")
        before = page.locator("#rows tr").count()
        made = home.call("orders__list_orders", {"tenant_id": "a"})
        row = page.locator(f"#rows a[href='{PREFIX}/console/calls/{made.call_id}']")
        row.first.wait_for()
        assert page.locator("#rows tr").count() > before
        row.first.click()
        page.wait_for_url(f"{home.url}/console/calls/{made.call_id}")
        found.check()


def test_redirects_and_cookies_without_a_script(home: House) -> None:
    with httpx.Client(base_url=home.url) as http:
        begun = http.get("/", headers={"accept": "text/html"})
        assert (begun.status_code, begun.headers["location"]) == (302, f"{PREFIX}/console")
        assert http.get("/console").headers["location"] == f"{PREFIX}/console/sign-in"
        form = http.get("/console/sign-in", params={"to": "/console/calls?tool=x"})
        assert f"Path={PREFIX}/console/sign-in" in form.headers["set-cookie"]
        data = {"credential": KEYS["rita"], "form_token": form_token(form.text), "to": "/console/calls?tool=x"}
        welcome = http.post("/console/sign-in", data=data)
        assert f'url={PREFIX}/console/calls?tool=x"' in welcome.text
        assert http.get("/console/").headers["location"] == f"{PREFIX}/console/overview"


def test_a_root_path_names_no_other_host(home: House) -> None:
    """Servers take `root_path` from their settings, frameworks from the path that was asked for."""

    async def asked(root: str) -> str:
        scope = {"type": "http", "method": "GET", "path": f"{root}/console", "query_string": b"", "root_path": root}
        scope["headers"] = [(b"host", b"localhost")]
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        await home.gateway.asgi()(scope, receive, send)  # type: ignore[arg-type]
        return dict(said[0]["headers"])[b"location"].decode()

    assert home.run(asked("//other.example")) == "/other.example/console/sign-in"
    assert home.run(asked('/a"><b')) == "/a%22%3E%3Cb/console/sign-in"


def test_signing_in_elsewhere_comes_back_below_the_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLE_SECRET", SECRET)
    with issuer() as provider:
        (tmp_path / "keys.json").write_text(provider.keys())
        settings = {"issuer": provider.url, "client_id": CLIENT, "client_secret": "${env:CONSOLE_SECRET}"}
        settings["scopes"] = ["openid", "groups"]  # type: ignore[assignment]
        policy = policy_of(provider)
        policy["issuers"]["staff"]["jwt"]["jwks"] = str(tmp_path / "keys.json")
        with mounted(tmp_path / "project", policy, sign_in=settings) as home, httpx.Client() as http:
            sent = http.get(f"{home.url}/console/oidc")
            assert f"Path={PREFIX}/console/oidc" in sent.headers["set-cookie"]
            back = httpx.get(sent.headers["location"]).headers["location"]
            assert back.startswith(f"{home.url}/console/oidc/callback?")
            assert http.get(back).status_code == 200
            assert "staff:ann" in http.get(f"{home.url}/console/overview").text
