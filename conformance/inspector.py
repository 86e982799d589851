"""A session of MCP's Inspector, the tool that people look at a server with: what it lists and what its calls answer."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["PACKAGE", "VERSION", "session"]

PACKAGE, VERSION = "@modelcontextprotocol/inspector", "0.15.0"
MAX_DURATION_S = 120


async def session(node: Path, folder: Path, url: str) -> int:
    """Lists the tools of a gateway and calls some, prints a line, and what went wrong. 1 if anything did."""
    entry = folder / "node_modules" / PACKAGE / "cli" / "build" / "cli.js"

    async def ask(method: str, *options: str) -> Mapping[str, Any]:
        """The result of one method, as the Inspector prints it."""
        process = await asyncio.create_subprocess_exec(
            *(node, entry, "--cli", url, "--transport", "http", "--method", method, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}", "NO_COLOR": "1"},
        )
        try:
            async with asyncio.timeout(MAX_DURATION_S):
                said, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return {"failed": "it did not end in time"}
        if process.returncode:
            return {"failed": (complaint or said).decode("utf-8", "replace")[-2000:]}
        try:
            found: Mapping[str, Any] = json.loads(said)
        except ValueError:
            return {"failed": f"it printed no JSON: {said[:500]!r}"}
        return found

    async def call(tool: str, **arguments: str) -> Mapping[str, Any]:
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        return await ask("tools/call", "--tool-name", tool, *pairs)

    listed, text, image, error, unknown = (
        await ask("tools/list"),
        await call("test_simple_text"),
        await call("test_image_content"),
        await call("test_error_handling"),
        await call("no_such_tool"),
    )
    names = [tool.get("name") for tool in listed.get("tools", ())]
    checks = {
        "tools/list lists the catalog in its order": (listed, names == sorted(names) and "test_simple_text" in names),
        "every tool has a schema": (listed, bool(names) and all("inputSchema" in tool for tool in listed["tools"])),
        "a text is answered": (text, _first(text).get("text") == "This is a simple text response for testing."),
        "a picture is answered": (image, _first(image).get("mimeType") == "image/png"),
        "an error is a result": (error, error.get("isError") is True and bool(_first(error).get("text"))),
        "so is an unknown tool": (unknown, unknown.get("isError") is True and "unknown_tool" in str(unknown)),
    }
    failed = {name: said for name, (said, fine) in checks.items() if not fine}
    verdict = "NOT OK" if failed else "ok"
    print(
        f"inspector {VERSION}: {len(checks) - len(failed)} checks passed, {len(failed)} failed: {verdict}", flush=True
    )
    for name, said in failed.items():
        print(f"  {name}: {json.dumps(said)[:2000]}")
    return 1 if failed else 0


def _first(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    content = answer.get("content") or [{}]
    first: Mapping[str, Any] = content[0]
    return first
