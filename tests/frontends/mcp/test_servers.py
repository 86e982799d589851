"""MCP servers that a gateway is: how each introduces itself, to whom, and what it has, in both protocol styles."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.commands import run_command
from tests.gateway.clients import bearer, listening
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.identity.jwt import TokenRejected

SERVER = Path(__file__).parents[2] / "services" / "mcp_context.py"
MODES = ("legacy", "auto")
_NUMBERS = count()
FUNCTIONS = '''
import toolgen

@toolgen.tool(effect="read")
def get_ticket() -> str:
    """Reads a ticket."""
    return "printer"

@toolgen.tool(effect="read")
def get_salary() -> str:
    """Reads a salary."""
    return "much"

@toolgen.tool(effect="write")
def close_ticket() -> str:
    """Closes a ticket."""
    return "closed"

@toolgen.prompt
def answer_ticket() -> str:
    """Answer a ticket."""
    return "Answer it."

@toolgen.resource("desk://tickets/{id}")
def ticket(id: str) -> str:
    """Ticket."""
    return id
'''
POLICY = """
rules:
  - {id: tools, to: [bot], tools: ["*"], effects: [read, write, destructive], verdict: allow}
  - {id: context, to: [bot], prompts: ["*"], resources: ["*"], verdict: allow}
  - {id: salaries, to: [boss], tools: ["*__get_salary"], verdict: allow}
toolsets:
  support: {tools: ["*__get_ticket"], prompts: ["*__answer_ticket"]}
  closing: {tools: ["*__close_ticket"]}
"""
ICON = {"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48"]}
LISTED = {
    "tools": [
        {"name": "look", "inputSchema": {"type": "object"}, "icons": [ICON, {"src": "http://track.example.com/a.png"}]}
    ],
    "prompts": [{"name": "letter", "icons": [ICON]}],
    "introduction": {
        "instructions": "Look\u200b before you leap. " + "x" * 5000,
        "serverInfo": {
            "name": "far",
            "title": "Far away",
            "version": "2",
            "websiteUrl": "https://far.example.com",
            "icons": [ICON, {"src": "javascript:alert(1)"}, 7],
        },
    },
}


def write_project(root: Path, *, far: dict[str, Any] | None = None, **gateway: Any) -> Path:
    module = f"introduced_{next(_NUMBERS)}"
    (root / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(POLICY, encoding="utf-8")
    people = {
        name: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest(), "roles": [role]}
        for name, role in (("bot", "bot"), ("boss", "boss"), ("eve", "none"))
    }
    (root / "policies" / "people.yaml").write_text(json.dumps({"principals": people}), encoding="utf-8")
    sources: dict[str, Any] = {"desk": {"python": module}}
    if far is not None:
        (root / "state.json").write_text(json.dumps(far), encoding="utf-8")
        sources["far"] = {"mcp": {"command": [sys.executable, str(SERVER), str(root / "state.json")]}}
    path = root / "toolgen.yaml"
    settings = {"sources": sources, "gateway": gateway, "audit": {"dir": "audit"}}
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert run_command("build", "--config", str(path)) == 0
    return path


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[str]:
    async with Gateway.load(path) as gateway, listening(App(gateway)) as url:
        yield url


@asynccontextmanager
async def client(url: str, mode: Any, who: str = "bot", endpoint: str = "") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(f"key-of-{who}")) as http,
        Client(streamable_http_client(f"{url}/mcp{endpoint}", http_client=http), mode=mode) as connected,
    ):
        yield connected


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_says_what_its_caller_may_see_and_nothing_else(tmp_path: Path, mode: str) -> None:
    path = write_project(tmp_path, far=LISTED)

    async with served(path) as url:
        found = []
        for who in ("bot", "boss", "eve"):
            async with client(url, mode, who) as connected:
                found.append(connected.instructions or "")
    bot, boss, eve = found
    assert "- desk: " in bot
    assert "(3 tools, 1 prompt, 1 resource)" in bot
    assert "- far: Far away (1 tool, 1 prompt)" in bot
    assert "far describes itself: Look before" in bot
    assert len(bot) < 1500
    assert "(1 tool)" in boss
    assert "far" not in boss
    assert eve == ""


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_introduces_itself_as_toolgen_yaml_says(tmp_path: Path, mode: str) -> None:
    said = {
        "name": "acme-tools",
        "title": "Acme",
        "website": "https://acme.example.com",
        "icons": [ICON],
        "instructions": "Be kind.",
    }
    path = write_project(tmp_path, mcp=said)

    async with served(path) as url, client(url, mode) as connected:
        info, instructions = connected.server_info, connected.instructions or ""
    assert (info.name, info.title, info.website_url) == ("acme-tools", "Acme", "https://acme.example.com")
    assert [icon.src for icon in info.icons] == [ICON["src"]]
    assert instructions.startswith("Be kind.\n\nSources")


async def test_no_instructions_where_toolgen_yaml_wants_none(tmp_path: Path) -> None:
    path = write_project(tmp_path, mcp={"instructions": ""})

    async with served(path) as url, client(url, "legacy") as connected:
        outcome = connected.instructions
    assert not outcome


@pytest.mark.parametrize("mode", MODES)
async def test_icons_of_bridged_servers_are_passed_on_as_far_as_they_are_pictures(tmp_path: Path, mode: str) -> None:
    path = write_project(tmp_path, far=LISTED)

    async with served(path) as url, client(url, mode) as connected:
        tools = {one.name: one.icons for one in (await connected.list_tools()).tools}
        prompts = {one.name: one.icons for one in (await connected.list_prompts()).prompts}
    assert [icon.src for icon in tools["far__look"]] == [ICON["src"]]
    assert [icon.src for icon in prompts["far__letter"]] == [ICON["src"]]
    assert not tools["desk__get_ticket"]
    manifest = json.loads((tmp_path / "generated" / "manifest.json").read_bytes())
    far = manifest["sources"]["far"]
    assert (far["website"], [icon["src"] for icon in far["icons"]]) == ("https://far.example.com", [ICON["src"]])
    assert "\u200b" not in far["instructions"]


@pytest.mark.parametrize("mode", MODES)
async def test_an_endpoint_has_its_own_catalog_name_and_instructions(tmp_path: Path, mode: str) -> None:
    endpoints = {
        "support": {"toolsets": ["support"], "title": "Support", "instructions": "Help people."},
        "desk": {"toolsets": ["support", "closing"]},
    }
    path = write_project(tmp_path, endpoints=endpoints)

    found = []
    async with served(path) as url:
        for endpoint in ("", "/support", "/desk"):
            async with client(url, mode, endpoint=endpoint) as connected:
                tools = [one.name for one in (await connected.list_tools()).tools]
                prompts = [one.name for one in (await connected.list_prompts()).prompts]
                refused = await connected.call_tool("desk__get_salary", {})
                made = await connected.call_tool("desk__get_ticket", {})
                known = connected.server_info.name, connected.server_info.title
                found.append((tools, prompts, refused.is_error, made.is_error, known, connected.instructions))
    (everything, support, desk) = found
    assert everything[0] == ["desk__close_ticket", "desk__get_salary", "desk__get_ticket"]
    assert (everything[2], everything[4]) == (False, ("toolgen", "toolgen"))
    assert support[:5] == (["desk__get_ticket"], ["desk__answer_ticket"], True, False, ("support", "Support"))
    assert support[5].startswith("Help people.\n\nSources")
    assert "(1 tool, 1 prompt)" in support[5]
    assert desk[:5] == (
        ["desk__close_ticket", "desk__get_ticket"],
        ["desk__answer_ticket"],
        True,
        False,
        ("desk", "desk"),
    )


async def test_an_endpoint_that_has_nothing_for_a_caller_is_as_one_that_there_is_not(tmp_path: Path) -> None:
    path = write_project(tmp_path, endpoints={"support": {"toolsets": ["support"]}})
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def answer(where: str, who: str) -> tuple[int, bytes]:
                made = await http.post(f"/mcp/{where}", json=asked, headers=bearer(f"key-of-{who}"))
                return made.status_code, made.content

            (open_, *hidden, unknown) = [
                await answer("support", "bot"),
                *[
                    await answer(where, who)
                    for where, who in (("support", "boss"), ("other", "boss"), ("other", "bot"))
                ],
                (await http.post("/mcp/support", json=asked)).status_code,
            ]
    assert open_[0] == 200
    assert hidden[0][0] == 404
    assert len(set(hidden)) == 1
    assert unknown == 401


@pytest.mark.parametrize(
    ("gateway", "says"),
    [
        ({"endpoints": {"support": {"toolsets": ["suport"]}}}, "did you mean 'support'"),
        ({"endpoints": {"support": {}}}, "toolsets"),
        ({"endpoints": {"support": {"toolsets": []}}}, "has no toolset"),
        ({"endpoints": {"Support": {"toolsets": ["support"]}}}, "lower-case letters"),
        ({"endpoints": {"support": {"toolset": ["support"]}}}, "toolset"),
        ({"mcp": {"name": "a b"}}, "name: takes"),
        ({"mcp": {"website": "javascript:x"}}, "https URL"),
        ({"mcp": {"icons": [{"src": "data:image/svg+xml;base64,AA=="}]}}, "PNG, JPEG"),
        ({"mcp": {"instructions": "x" * 2001}}, "at most 2000"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, gateway: dict[str, Any], says: str) -> None:
    path = write_project(tmp_path)
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "gateway": gateway}), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        Gateway.load(path)


def bound(path: Path, *toolsets: str, acts_for: list[str] | None = None) -> None:
    """A key `key-of-desk` of the bot that is bound to toolsets."""
    people = path.parent / "policies" / "people.yaml"
    told = json.loads(people.read_text(encoding="utf-8"))
    hashed = "sha256:" + hashlib.sha256(b"key-of-desk").hexdigest()
    known = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
    told["principals"]["bot"] |= {
        "api_key": [known, {"hash": hashed, "toolsets": list(toolsets)}],
        "acts_for": acts_for or [],
    }
    people.write_text(json.dumps(told), encoding="utf-8")


async def listed(http: httpx.AsyncClient, where: str, who: str, **headers: str) -> list[str]:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    made = await http.post(f"/mcp{where}", json=asked, headers=bearer(f"key-of-{who}") | headers)
    return (
        [tool["name"] for tool in made.json()["result"]["tools"]]
        if made.status_code == 200
        else [str(made.status_code)]
    )


async def test_a_key_that_is_bound_to_a_toolset_opens_nothing_else_anywhere(tmp_path: Path) -> None:
    path = write_project(
        tmp_path, endpoints={"support": {"toolsets": ["support"]}, "closing": {"toolsets": ["closing"]}}
    )
    bound(path, "support", acts_for=["boss"])
    boss = {**json.loads((tmp_path / "policies" / "people.yaml").read_text(encoding="utf-8"))}
    boss["principals"]["boss"]["roles"] = ["boss", "bot"]
    (tmp_path / "policies" / "people.yaml").write_text(json.dumps(boss), encoding="utf-8")
    only = ["desk__get_ticket"]
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            assert len(await listed(http, "", "bot")) == 3
            assert await listed(http, "", "desk") == only
            assert await listed(http, "/support", "desk") == only
            assert await listed(http, "/closing", "bot") == ["desk__close_ticket"]
            assert await listed(http, "/closing", "desk") == ["404"]
            assert await listed(http, "", "desk", **{"x-on-behalf-of": "boss"}) == only
            assert await listed(http, "", "desk", **{"x-toolset": "closing"}) == []
            over_rest = await http.get("/v1/tools", headers=bearer("key-of-desk"))
            assert [tool["name"] for tool in over_rest.json()["tools"]] == only
            made = await http.post(
                "/v1/tools/desk__close_ticket/call", json={"arguments": {}}, headers=bearer("key-of-desk")
            )
            assert (made.status_code, made.json()["error"]["code"]) == (404, "unknown_tool")


async def test_a_key_follows_the_toolset_that_it_is_bound_to_when_the_policy_changes(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    bound(path, "support", "closing")
    async with Gateway.load(path) as gateway:
        caller = await gateway.callers.authenticate("key-of-desk")
        assert not isinstance(caller, TokenRejected)
        assert len(gateway.tool_calls.catalog(caller)) == 2
        bound(path, "closing")
        assert await gateway.operations.reload()
        current = gateway.callers.current(caller)
        assert current is not None
        assert [tool.name for tool in gateway.tool_calls.catalog(current)] == ["desk__close_ticket"]


async def test_a_key_is_made_for_a_toolset_and_for_none_that_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_project(tmp_path)

    def new(toolset: str) -> int:
        return run_command("keys", "new", "bot", "--toolset", toolset, "--config", str(path))

    assert new("suport") == 1
    assert "did you mean 'support'" in capsys.readouterr().err
    assert new("support") == 0
    key = capsys.readouterr().out.split()[0]

    async with Gateway.load(path) as gateway:
        caller = await gateway.callers.authenticate(key)
        assert not isinstance(caller, TokenRejected)
        outcome = [tool.name for tool in gateway.tool_calls.catalog(caller)]
    assert outcome == ["desk__get_ticket"]


def test_a_key_that_is_bound_to_no_toolset_of_the_policy_is_refused(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    bound(path, "suport")
    with pytest.raises(PolicyError, match="'support'"):
        Gateway.load(path)
