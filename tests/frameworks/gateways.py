"""Gateways that every client is tried at: with tools of every kind, with prompts and resources, with GitHub's catalog or a search of it."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.frameworks import environments
from tests.frameworks.context import PROMPT_CALL, RESOURCES, write_context_project
from tests.frameworks.evaluation import Expected, Parts
from tests.frontends.mcp.peers import OldPeer
from tests.gateway.governed import PRINCIPALS
from tests.services.all_kinds import ASKED, CASES, LATE, SLOW, Case, kinds_api, write_kinds_project

__all__ = ["KEY", "Gateways", "gateways", "task"]

KEY = "key-of-bot"
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "openapi"
GITHUB = next(iter(CORPUS.glob("octokit-*")), CORPUS / "octokit")
ZEN = "GET /zen"
RUN_READ = ("run_read_tool", "call_read_tool")
SHOWN = "Here's the image you requested:"
CONDITIONS = "everything__get_structured_content"
CITY = {"location": "New York"}
WEATHER = {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
# MCP's own reference server, where its environment is installed.
REFERENCE = (
    Case(name="reference text", tool="everything__echo", arguments={"message": "mark-echo"}, text="Echo: mark-echo", mark="mark-echo"),
    Case(name="reference structured", tool=CONDITIONS, arguments=CITY, data=WEATHER, mark="Cloudy", structured=True),
    Case(name="reference picture", tool="everything__get_tiny_image", picture=b"not known before", words=(SHOWN,), mark=SHOWN),
    Case(name="reference link", tool="everything__get_resource_links", arguments={"count": 1}, words=("Blob Resource 1", "demo://resource/dynamic/blob/1")),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gateways:
    """URLs of the five gateways and of the API behind them, and what clients are held against. Without GitHub's catalog two are empty.

    `leaving` is that of `kinds` with `pending_after`, and `context` has prompts and resources.
    """

    kinds: str
    leaving: str
    context: str
    catalog: str
    search: str
    api: str
    expected: Expected
    run_read: str


@contextmanager
def gateways(root: Path) -> Iterator[Gateways]:
    """Serve all of them from projects below a folder, until the block ends."""
    with ExitStack() as stack:
        _, api = stack.enter_context(kinds_api())
        reference = environments.installed("everything")
        sources = {"everything": _everything()} if reference else {}
        write_kinds_project(root / "kinds", api, sources)
        kinds = stack.enter_context(served(root / "kinds"))
        cases = [*CASES, *(REFERENCE if reference else ())]
        listed, raw = asyncio.run(_raw(kinds, cases))
        cases = [_with_picture(case, raw[case.name]) for case in cases]
        patience = {"search_above": "never", "turn_limit": "never", "pending_after": "2s"}
        write_kinds_project(root / "leaving", api, gateway=patience)
        leaving = stack.enter_context(served(root / "leaving"))
        write_context_project(root / "context")
        context = stack.enter_context(served(root / "context"))
        catalog = search = run_read = zen = ""
        names: list[str] = []
        if GITHUB.exists():
            _write_github(root / "github", api, {"search_above": "never"})
            _write_github(root / "search", api, {})
            catalog, search = (stack.enter_context(served(root / name)) for name in ("github", "search"))
            names, _ = asyncio.run(_raw(catalog, []))
            offered, _ = asyncio.run(_raw(search, []))
            run_read = next(name for name in RUN_READ if name in offered)
            zen = _name_of(root / "github", ZEN)
        else:
            print("GitHub's description is not here: clients are not tried with its catalog", file=sys.stderr)
        yield Gateways(
            kinds=kinds,
            leaving=leaving,
            context=context,
            catalog=catalog,
            search=search,
            api=api,
            expected=Expected(cases, listed, names, raw, zen),
            run_read=run_read,
        )


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Build a project and serve it in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "toolgen"]
    built = subprocess.run([*command, "build"], cwd=root, capture_output=True, text=True, check=False)
    if built.returncode:
        raise RuntimeError(built.stderr)
    with subprocess.Popen([*command, "serve", "--port", "0"], cwd=root, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = next((line.split()[-1] for line in process.stderr if "listening on" in line), "")
        log = threading.Thread(target=_copy, args=(process.stderr, root / "serve.log"))
        log.start()
        try:
            yield url
        finally:
            process.terminate()
            log.join()


def task(name: str, at: Gateways) -> dict[str, Any]:
    """What a client is to do, as its script reads it."""
    zen = at.expected.zen
    return {
        "client": name,
        "url": f"{at.kinds}/mcp",
        "key": KEY,
        "watch": at.api,
        "calls": [(case.name, case.tool, case.arguments) for case in (*at.expected.cases, ASKED)],
        "asked": (ASKED.tool, ASKED.arguments),
        "slow": SLOW,
        "leaving": f"{at.leaving}/mcp",
        "late": LATE,
        "context": f"{at.context}/mcp",
        "prompt": PROMPT_CALL,
        "resources": RESOURCES,
        "catalog": at.catalog and f"{at.catalog}/mcp",
        "catalog_call": (zen, {}),
        "search": at.search and f"{at.search}/mcp",
        "search_calls": [
            ("search_tools", {"query": "Get the Zen of GitHub"}),
            (at.run_read, {"name": zen, "arguments": {}}),
        ],
    }


async def _raw(url: str, cases: Sequence[Case]) -> tuple[list[str], dict[str, Parts]]:
    """Names of the tools of every page, and the content of each case as the protocol carries it."""
    peer = OldPeer(url)
    await peer.open()
    page = await peer.ask("tools/list")
    names = [tool["name"] for tool in page["tools"]]
    while "nextCursor" in page:
        page = await peer.ask("tools/list", cursor=page["nextCursor"])
        names += [tool["name"] for tool in page["tools"]]
    answers = {case.name: await peer.ask("tools/call", name=case.tool, arguments=case.arguments) for case in cases}
    await peer.http.aclose()
    return names, {name: answer["content"] for name, answer in answers.items()}


def _with_picture(case: Case, raw: Sequence[Mapping[str, Any]]) -> Case:
    """A case of the reference server with the picture that it sends."""
    if case not in REFERENCE or not case.picture:
        return case
    data = next(block["data"] for block in raw if block["type"] == "image")
    return replace(case, picture=base64.b64decode(data))


def _everything() -> dict[str, Any]:
    place = environments.environment("everything")
    program = place / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return {"mcp": {"command": [str(environments.node()), str(program)], "annotations": "trusted"}}


def _name_of(root: Path, operation: str) -> str:
    """The name of the tool that a built project has for an operation of GitHub."""
    lock = json.loads((root / "toolgen.lock").read_text(encoding="utf-8"))
    name: str = lock["tools"]["github"][operation]["name"]
    return name


def _write_github(root: Path, server: str, gateway: dict[str, Any]) -> None:
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    shutil.copy(GITHUB, root / "specs" / "github.json")
    rule = {
        "id": "all",
        "to": ["bot"],
        "tools": ["github__*"],
        "effects": ["read", "write", "destructive"],
        "verdict": "allow",
    }
    policy = {
        "principals": {"bot": {"roles": ["bot"], "api_key": PRINCIPALS["bot"]["api_key"]}},
        "rules": [rule],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    sources = {"github": {"openapi": "specs/github.json", "server": server}}
    settings = {"sources": sources, "gateway": {"turn_limit": "never", **gateway}}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")


def _copy(lines: Any, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
