"""A session of MCP's Inspector, the tool that people look at a server with: what it lists and what its calls answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.async_api import Error as BrowserError
from playwright.async_api import async_playwright, expect

__all__ = ["PACKAGE", "VERSION", "session"]

PACKAGE, VERSION = "@modelcontextprotocol/inspector", "2.12.0"
MAX_DURATION_S = 120


async def session(node: Path, folder: Path, url: str) -> int:
    """Lists what a gateway has and uses some of it, on the command line and in the web page; prints a line, and what went wrong. 1 if
    anything did."""
    entry = folder / "node_modules" / PACKAGE / "clients" / "launcher" / "build" / "index.js"
    environment = {**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}", "NO_COLOR": "1"}

    async def ask(method: str, *options: str) -> Mapping[str, Any]:
        """The result of one method, as the Inspector prints it."""
        process = await asyncio.create_subprocess_exec(
            *(node, entry, "--cli", url, "--transport", "http", "--method", method, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        try:
            async with asyncio.timeout(MAX_DURATION_S):
                said, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return {"failed": "it did not end in time"}
        try:
            found: Mapping[str, Any] = json.loads(said)
        except ValueError:
            return {"failed": f"it printed no JSON: {(said or complaint)[:2000]!r}"}
        # An error of a tool ends it too, and its result is printed.
        failed = process.returncode and found.get("isError") is not True
        return {"failed": complaint.decode("utf-8", "replace")[-2000:]} if failed else found

    async def call(tool: str, **arguments: str) -> Mapping[str, Any]:
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        return await ask("tools/call", "--tool-name", tool, *pairs)

    listed, text, image, error, unknown = (
        await ask("tools/list", "--strict"),
        await call("test_simple_text"),
        await call("test_image_content"),
        await call("test_error_handling"),
        await call("no_such_tool"),
    )
    prompt = await ask(
        "prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=a", "arg2=b"
    )
    resource = await ask("resources/read", "--uri", "test://static-text")
    templates = await ask("resources/templates/list")
    names = [tool.get("name") for tool in listed.get("tools", ())]
    page = await in_browser(node, entry, url, environment)
    checks = {
        "tools/list lists the catalog in its order": (listed, names == sorted(names) and "test_simple_text" in names),
        "every tool has a schema": (listed, bool(names) and all("inputSchema" in tool for tool in listed["tools"])),
        "a text is answered": (text, _first(text).get("text") == "This is a simple text response for testing."),
        "a picture is answered": (image, _first(image).get("mimeType") == "image/png"),
        "an error is a result": (error, error.get("isError") is True and bool(_first(error).get("text"))),
        "an unknown tool is not there": (unknown, "tool_not_found" in str(unknown)),  # it looks at the list first
        "a prompt has its arguments": (
            prompt,
            "a" in str(prompt.get("messages")) and "b" in str(prompt.get("messages")),
        ),
        "a resource is read": (resource, "static text resource" in str(resource.get("contents"))),
        "templates are listed": (templates, "test://template/{id}/data" in str(templates.get("resourceTemplates"))),
        "the page calls a tool, gets a prompt and reads a resource": (page, not page),
    }
    failed = {name: said for name, (said, fine) in checks.items() if not fine}
    verdict = "NOT OK" if failed else "ok"
    print(
        f"inspector {VERSION}: {len(checks) - len(failed)} checks passed, {len(failed)} failed: {verdict}", flush=True
    )
    for name, said in failed.items():
        print(f"  {name}: {json.dumps(said)[:2000]}")
    return 1 if failed else 0


async def in_browser(node: Path, entry: Path, url: str, environment: Mapping[str, str]) -> str:
    """Use the Inspector's page in Chromium; returns what went wrong, "" for nothing. Without Chromium only the command line is tried."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return ""
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
        port, sandbox = str(free.getsockname()[1]), str(other.getsockname()[1])
    process = await asyncio.create_subprocess_exec(
        *(node, entry, "--web", "--server-url", url, "--transport", "http"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **environment,
            "CLIENT_PORT": port,
            "MCP_SANDBOX_PORT": sandbox,
            "MCP_AUTO_OPEN_ENABLED": "false",
            "MCP_INSPECTOR_SECRET_STORE": "memory",
        },
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(MAX_DURATION_S):
            address = None
            while address is None and (line := await process.stdout.readline()):
                address = re.search(rb"http://127\.0\.0\.1:\d+/?\?\S+", line)
            return await _used(chromium, address[0].decode()) if address else "the page was not served"
    except (TimeoutError, BrowserError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"[:1000]
    finally:
        process.kill()
        await process.wait()


async def _used(chromium: str, address: str) -> str:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(20_000)
            await page.goto(address)
            await page.locator("[role=switch], input[type=checkbox]").first.click(force=True)
            await page.get_by_text("Connected", exact=True).wait_for()
            await page.locator('label:has-text("Tools")').first.click()
            await page.get_by_text("Test simple text").first.click()
            await page.get_by_role("button", name=re.compile("Execute|Run|Call")).first.click()
            await expect(page.get_by_text("This is a simple text response for testing.").first).to_be_visible()
            await page.locator('label:has-text("Prompts")').first.click()
            await page.get_by_text("Test prompt with arguments").first.click()
            for name in ("arg1", "arg2"):
                await page.get_by_placeholder(f"Enter {name}...").fill(f"value of {name}")
            await page.get_by_role("button", name="Get Prompt").click()
            await expect(page.get_by_text(re.compile("value of arg2")).last).to_be_visible()
            await page.locator('label:has-text("Resources")').first.click()
            await page.get_by_text("Static text").first.click()
            await expect(page.get_by_text("This is the content of the static text resource.").first).to_be_visible()
        finally:
            await browser.close()
    return ""


def _first(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    content = answer.get("content") or [{}]
    first: Mapping[str, Any] = content[0]
    return first
