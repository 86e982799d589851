"""`pending_after` of the gateway and of rules: calls of every kind of source, over MCP and REST, for clients that declare nothing."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import http
from tests.gateway.operations.test_call_results import peer_of, read, text
from toolgen.audit.reader import entries
from toolgen.core.errors import PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_NUMBERS = count()
FUNCTIONS = '''
import time
from pathlib import Path

import toolgen

HERE = Path(__file__).parent


@toolgen.tool(effect="write")
def work(text: str) -> str:
    """Works until it is let go on."""
    with (HERE / "worked").open("a") as file:
        file.write("x")
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return f"worked {text}"


@toolgen.tool(effect="read")
async def asking(ctx: toolgen.ToolContext) -> str:
    """Asks its caller twice."""
    said = []
    for key in ("one", "two"):
        try:
            said.append((await ctx.elicit("really?", {"type": "object", "properties": {}}, key=key)).action)
        except Exception as error:
            said.append(type(error).__name__)
    return " ".join(said)
'''
BRIDGED = """
import sys
from pathlib import Path

sys.stdout.reconfigure(newline="\\n")

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

HERE = Path(__file__).parent
server = MCPServer("Far", version="1")


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False), structured_output=False)
def say(text: str) -> str:
    \"\"\"Says a text.\"\"\"
    with (HERE / "said").open("a") as file:
        file.write("x")
    return "said " + text


server.run("stdio")
"""
SCHEMA = "type Query { ship(id: ID!): Ship } type Ship { id: ID! name: String } type Mutation { launch(name: String!): Ship }"
POLICY: dict[str, Any] = {
    "rules": [
        {
            "id": "all",
            "to": ["bot"],
            "tools": ["orders__*", "ships__*", "shop__*", "own__*", "far__*"],
            "effects": ["read", "write"],
            "verdict": "allow",
        }
    ],
    "sql": {"shop": {"tables": {"customers": {"columns": ["id", "name"]}}}},
}
WITHOUT_FAR = {**POLICY, "rules": [{**POLICY["rules"][0], "tools": POLICY["rules"][0]["tools"][:-1]}]}


@asynccontextmanager
async def play(
    root: Path, policy: dict[str, Any] | None = None, *, bridged: bool = False, **gateway: Any
) -> AsyncIterator[tuple[Gateway, str, Upstream, Path]]:
    """Gateway of a project of every kind of source, with a `bridged` server too where that is wanted."""

    with upstream() as (seen, server):
        path = project(root / "p", server, policy or WITHOUT_FAR, **({"gateway": gateway} if gateway else {}))
        here, module = path.parent, f"pending_functions_{next(_NUMBERS)}"
        (here / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
        (here / "far.py").write_text(BRIDGED, encoding="utf-8")
        (here / "specs" / "ships.graphql").write_text(SCHEMA, encoding="utf-8")
        with sqlite3.connect(here / "specs" / "shop.db") as database:
            database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
            database.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "Ann"), (2, "Bob")])
        database.close()
        written = json.loads(path.read_text(encoding="utf-8"))
        written["sources"] |= {
            "ships": {"graphql": "specs/ships.graphql", "endpoint": f"{server}/graphql"},
            "shop": {"sql": f"sqlite:///{here / 'specs' / 'shop.db'}"},
            "own": {"python": module},
        }
        if bridged:
            written["sources"]["far"] = {
                "mcp": {"command": [sys.executable, "-B", str(here / "far.py")], "annotations": "trusted"}
            }
        path.write_text(json.dumps(written), encoding="utf-8")
        if bridged:  # what it offers is pinned once
            subprocess.run([sys.executable, "-m", "toolgen", "build"], cwd=here, capture_output=True, check=True)
        async with asyncio.timeout(120), Gateway.load(path) as loaded, listening(App(loaded)) as url:
            try:
                yield loaded, url, seen, path.parent
            finally:
                seen.answers.set()
                (path.parent / "go").touch()
                await close_peers()


KINDS = {
    "http read": ("orders__get_health", {}, '{"ok":true}'),
    "http write": ("orders__send_mail", {"to": "x"}, '{"ok":true}'),
    "graphql": ("ships__get_ship", {"id": "7"}, "Rocinante"),
    "sql": ("shop__query", {"sql": "SELECT name FROM customers ORDER BY id"}, "Bob"),
    "function": ("own__work", {"text": "hard"}, "worked hard"),
    "bridged": ("far__say", {"text": "hello"}, "said hello"),
}


def id_of(said: str) -> str:
    found = re.search(r"call id (call_[0-9a-f]{24})", said)
    assert found is not None, said
    return found[1]


def executed(here: Path, seen: Upstream, tool: str, call_id: str) -> int:
    """How often a call reached what carries it out; it is on record once."""
    written = [one["event"] for one in entries(here / "var" / "audit") if one.get("call_id") == call_id]
    assert written == ["intent", "outcome"]
    match tool.partition("__")[0]:
        case "own":
            return len((here / "worked").read_text())
        case "far":
            return len((here / "said").read_text())
        case "shop":
            return len([one for one in entries(here / "var" / "audit") if one["event"] == "intent"])
        case _:
            return len(seen.requests)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", [Peer, OldPeer, None])
async def test_a_call_of_every_kind_is_pending_and_its_end_is_read(
    tmp_path: Path, kind: str, way: type[Peer] | None
) -> None:
    tool, arguments, expected = KINDS[kind]

    policy = POLICY if kind == "bridged" else WITHOUT_FAR
    async with play(tmp_path, policy, bridged=kind == "bridged", pending_after="0s") as (_, url, seen, here):
        seen.body = b'{"data":{"ship":{"id":"7","name":"Rocinante"}}}' if kind == "graphql" else seen.body
        if kind != "sql":
            seen.answers.clear()
        async with http(url) as client:
            if way is None:
                answer = await client.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})
                assert (answer.status_code, answer.json()["error"]["code"]) == (202, "deferred")
                call_id = answer.json()["call_id"]
            else:
                peer = await peer_of(way, url)
                said = text(await peer.ask("tools/call", name=tool, arguments=arguments))
                assert said.startswith("deferred: "), said
                call_id = id_of(said)
                assert f"get_call_result with call_id {call_id}" in said
            seen.answers.set()
            (here / "go").touch()
            if way is None:
                body = {"arguments": {"call_id": call_id, "wait_s": 60}}
                done = await client.post("/v1/tools/get_call_result/call", json=body)
                assert (done.status_code, done.json()["tool"]) == (200, tool)
                assert expected.strip('"') in done.text.replace(" ", "") or expected in done.text
            else:
                result = await read(peer, call_id=call_id, wait_s=60)
                assert not result["isError"], result
                assert expected in text(result)
        assert executed(here, seen, tool, call_id) == 1


RULED = {
    **WITHOUT_FAR,
    "rules": [
        *WITHOUT_FAR["rules"],
        {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow", "pending_after": "0s"},
    ],
}


@pytest.mark.parametrize("after", [None, "1h"])
@pytest.mark.parametrize("kind", [Peer, OldPeer])
async def test_a_rule_says_it_for_its_own_tools(tmp_path: Path, kind: type[Peer], after: str | None) -> None:
    async with play(tmp_path, RULED, **{} if after is None else {"pending_after": after}) as (_, url, seen, _):
        peer = await peer_of(kind, url)
        assert "get_call_result" in {tool["name"] for tool in (await peer.ask("tools/list"))["tools"]}
        seen.answers.clear()
        mail = {"name": "orders__send_mail", "arguments": {"to": "x"}}
        waiting = asyncio.create_task(peer.ask("tools/call", name="orders__get_health", arguments={}))
        await asyncio.to_thread(seen.reached, 1)
        direct = id_of(text(await peer.ask("tools/call", **mail)))
        assert not waiting.done()
        async with http(url) as client:
            answer = await client.post("/v1/tools/orders__send_mail/call", json={"arguments": {"to": "y"}})
            batch = [{"type": "tool_call", "id": "a", "name": "orders__send_mail", "args": {"to": "z"}}]
            message = (await client.post("/v1/tool_calls", json=batch)).json()[0]["content"]
        assert answer.status_code == 202
        seen.answers.set()
        for call_id in (direct, answer.json()["call_id"], id_of(message)):
            assert '{"ok":true}' in text(await read(peer, call_id=call_id, wait_s=60))
        assert '{"ok":true}' in text(await waiting)
        assert len(seen.requests) == 4


async def test_a_rule_counts_for_the_call_inside_of_run_tool(tmp_path: Path) -> None:
    async with play(tmp_path, RULED, search_above=1) as (_, url, seen, _):
        peer = await peer_of(OldPeer, url)
        seen.answers.clear()
        inner = {"name": "orders__send_mail", "arguments": {"to": "x"}}
        call_id = id_of(text(await peer.ask("tools/call", name="run_tool", arguments=inner)))
        seen.answers.set()
        wrapped = {"name": "get_call_result", "arguments": {"call_id": call_id, "wait_s": 60}}
        assert '{"ok":true}' in text(await peer.ask("tools/call", name="run_tool", arguments=wrapped))
        assert len(seen.requests) == 1


async def test_a_function_asks_nobody_once_its_caller_was_answered(tmp_path: Path) -> None:
    async with play(tmp_path, pending_after="0s") as (_, url, _, _):
        peer = OldPeer(url, "bot", {"elicitation": {}})
        await peer.open()
        async with peer.stream("tools/call", name="own__asking", arguments={}) as heard:
            messages = [message async for message in heard]
        call_id = id_of(text(messages[-1]["result"]))
        for question in messages[:-1]:  # one where the function was quicker than the answer; that one still counts
            await peer.respond(question["id"], {"action": "accept", "content": {}})
        expected = "accept ToolError" if len(messages) == 2 else "ToolError ToolError"
        assert text(await read(peer, call_id=call_id, wait_s=60)) == expected


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"verdict": "deny", "pending_after": "1s"}, "denies, so pending_after: is not allowed"),
        ({"verdict": "allow", "pending_after": "soon"}, "takes 0s to 1h, like 30s"),
        ({"verdict": "allow", "pending_after": "2h"}, "takes 0s to 1h, like 30s"),
    ],
)
def test_a_rule_that_cannot_have_it_is_an_error_with_its_place(
    tmp_path: Path, rule: dict[str, Any], fault: str
) -> None:
    with upstream() as (_, server):
        policy = {"rules": [{"id": "r", "to": ["bot"], "tools": ["orders__send_mail"], **rule}]}
        with pytest.raises(PolicyError, match=fault) as caught:
            Gateway.load(project(tmp_path / "p", server, policy))
    assert "policy.yaml:" in str(caught.value)
