"""`get_call_result`: an agent that knows tools alone reads how its call ended, and nobody else's."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.devices import PHONE
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import http
from tests.gateway.tenants import Boundary, beside, strangers
from toolgen.frontends.python.gateway import Gateway

RESULT = "get_call_result"
MAIL = {"name": "orders__send_mail", "arguments": {"to": "x"}}
ASKS: dict[str, Any] = {
    "rules": [
        {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail", "own__*"], "verdict": "ask"},
        {"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"},
    ],
    "approvals": {"approvers": ["user"], "text": "ask in #ops"},
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
OWN = f'''
import toolgen

@toolgen.tool(effect="write")
def draw() -> toolgen.Image:
    """Draws a picture."""
    return toolgen.Image(data=__import__("base64").b64decode("{PIXEL}"), media_type="image/png")

@toolgen.tool(effect="write")
def measure() -> dict[str, int]:
    """Measures something."""
    return {{"width": 3}}
'''


@asynccontextmanager
async def play(root: Path, policy: dict[str, Any], **settings: Any) -> AsyncIterator[tuple[Gateway, str, Upstream]]:
    """Gateway of a project of the API, a function that draws, and a phone."""
    async with beside_project(root, policy, "principal", **settings) as (boundary, seen):
        yield boundary.gateway, boundary.url, seen


@asynccontextmanager
async def beside_project(
    root: Path, policy: dict[str, Any], stranger: str, **settings: Any
) -> AsyncIterator[tuple[Boundary, Upstream]]:
    """Gateway of the same project, beside another principal or tenant."""
    with upstream() as (seen, server):
        path = project(root / "p", server, policy, **settings)
        module = f"drawing_{abs(hash(str(root))) % 10**9}"
        (path.parent / f"{module}.py").write_text(OWN, encoding="utf-8")
        (path.parent / "specs" / "phone.tools.yaml").write_text(PHONE, encoding="utf-8")
        written = json.loads(path.read_text(encoding="utf-8"))
        written["sources"] |= {"own": {"python": module}, "phone": {"device": "specs/phone.tools.yaml"}}
        path.write_text(json.dumps(written), encoding="utf-8")
        async with beside(path, stranger) as boundary:
            yield boundary, seen
            await close_peers()


async def peer_of(kind: type[Peer], url: str, who: str = "bot") -> Peer:
    """A client of either style that declares nothing."""
    peer = kind(url, who, {})
    if isinstance(peer, OldPeer):
        await peer.open()
    return peer


def text(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def read(peer: Peer, **arguments: Any) -> dict[str, Any]:
    return await peer.ask("tools/call", name=RESULT, arguments=arguments)


async def waiting(gateway: Gateway) -> str:
    """The id of the one call that waits for a person."""
    (known,) = await gateway.approvals.answerable(gateway.principal("ann"))
    return known.id


async def answer(gateway: Gateway, call_id: str, note: str = "", *, approve: bool = True) -> None:
    await gateway.approvals.decide(call_id, approve=approve, note=note, principal=gateway.principal("ann"))


@strangers
@pytest.mark.parametrize("kind", [Peer, OldPeer])
async def test_the_end_of_a_call_that_waits_for_a_person_is_read_by_a_tool(
    tmp_path: Path, kind: type[Peer], stranger: str
) -> None:
    async with beside_project(tmp_path, ASKS, stranger) as (boundary, seen):
        gateway = boundary.gateway
        peer = await peer_of(kind, boundary.url)
        other = await peer_of(kind, boundary.other_url, boundary.other)
        asked = await peer.ask("tools/call", **MAIL)
        call_id = await waiting(gateway)
        said = text(asked)
        assert re.match(r"approval_required: .* role user .*\(ask in #ops\)", said)
        assert f"{RESULT} with call_id {call_id} returns its result" in said
        assert "toolgen" not in said  # no command, and none that approves
        assert text(await read(peer, call_id=call_id, wait_s=0)) == said
        listed = json.loads(text(await read(peer)))["calls"]
        assert [(one["call_id"], one["tool"], one["state"]) for one in listed] == [
            (call_id, "orders__send_mail", "input_required")
        ]
        # Others' calls are the same as none.
        others = [await read(other, call_id=name, wait_s=0) for name in (call_id, "call_" + "0" * 24)]
        assert text(others[0]) == text(others[1])
        assert text(others[0]).startswith("not_found:")
        assert json.loads(text(await read(other)))["calls"] == []
        reading = asyncio.create_task(read(peer, call_id=call_id, wait_s=60))
        await answer(gateway, call_id, "fine, but only once")
        result = await reading
        assert not result["isError"]
        assert text(result).startswith('{"ok":true}')
        assert "fine, but only once" in text(result)
        assert len(seen.requests) == 1
        assert json.loads(text(await read(peer)))["calls"][0]["state"] == "completed"


@pytest.mark.parametrize("kind", [Peer, OldPeer])
async def test_a_no_and_its_reason_are_read_too(tmp_path: Path, kind: type[Peer]) -> None:
    async with play(tmp_path, ASKS) as (gateway, url, seen):
        peer = await peer_of(kind, url)
        await peer.ask("tools/call", **MAIL)
        call_id = await waiting(gateway)
        await answer(gateway, call_id, "not on Fridays", approve=False)
        result = await read(peer, call_id=call_id)
        assert result["isError"]
        assert re.match(r"approval_denied: .*: not on Fridays", text(result))
        assert seen.requests == []


@pytest.mark.parametrize("kind", [Peer, OldPeer])
async def test_the_answer_is_what_the_tool_itself_would_have_answered(tmp_path: Path, kind: type[Peer]) -> None:
    async with play(tmp_path, ASKS) as (gateway, url, _):
        peer = await peer_of(kind, url)
        await peer.ask("tools/call", name="own__draw", arguments={})
        call_id = await waiting(gateway)
        await answer(gateway, call_id)
        result = await read(peer, call_id=call_id, wait_s=60)
        assert result["content"] == [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]


@pytest.mark.parametrize("kind", [Peer, OldPeer])
async def test_the_end_of_a_call_is_text_though_its_tool_lists_a_schema(tmp_path: Path, kind: type[Peer]) -> None:
    """Structured content goes with the schema that the called tool lists, and `get_call_result` lists none."""

    async with play(tmp_path, ASKS) as (gateway, url, _):
        peer = await peer_of(kind, url)
        listed = {tool["name"]: tool.get("outputSchema") for tool in (await peer.ask("tools/list"))["tools"]}
        assert listed["own__measure"] is not None
        assert listed[RESULT] is None
        await peer.ask("tools/call", name="own__measure", arguments={})
        call_id = await waiting(gateway)
        await answer(gateway, call_id)
        result = await read(peer, call_id=call_id, wait_s=60)
        assert result["content"] == [{"type": "text", "text": '{"width":3}'}]
        assert "structuredContent" not in result


async def test_arguments_are_checked_and_waiting_is_bounded(tmp_path: Path) -> None:
    async with play(tmp_path, ASKS) as (_, url, _):
        peer = await peer_of(Peer, url)
        for wrong in ({"call_id": ""}, {"call_id": 5}, {"wait_s": 61}, {"wait_s": -1}, {"call_id": "x" * 129}):
            assert text(await read(peer, **wrong)).startswith("validation:"), wrong
        assert text(await read(peer, call_id="call_1", wait_s="0")).startswith("not_found:")  # "0" is taken for 0
        assert json.loads(text(await read(peer, call_id=None, wait_s=None))) == {"calls": []}


async def test_rest_answers_at_once_and_with_the_status_of_the_call(tmp_path: Path) -> None:
    async with play(tmp_path, ASKS) as (gateway, url, _), http(url) as client:
        path = f"/v1/tools/{RESULT}/call"
        made = await client.post("/v1/tools/orders__send_mail/call", json={"arguments": {}, "wait": 0})
        body = {"arguments": {"call_id": made.json()["call_id"], "wait_s": 0}}
        assert (await client.post(path, json=body)).status_code == 202
        await answer(gateway, made.json()["call_id"], "yes")
        body["arguments"]["wait_s"] = 60
        done = await client.post(path, json=body)
        assert (done.status_code, done.json()["tool"]) == (200, "orders__send_mail")
        assert (done.json()["data"], done.json()["meta"]["note"]) == ({"ok": True}, "yes")
        unknown = await client.post(path, json={"arguments": {"call_id": "call_x"}})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


async def listed(client: httpx.AsyncClient) -> list[str]:
    return [tool["name"] for tool in (await client.get("/v1/tools")).json()["tools"]]


READS = [{"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"}]
APPROVERS = {"approvals": {"approvers": ["user"]}}
LISTED = [
    pytest.param({"rules": READS}, {}, False, id="nothing can be pending"),
    pytest.param({"rules": READS, **APPROVERS}, {}, False, id="approvers, and no rule that asks them"),
    pytest.param({"rules": READS}, {"gateway": {"pending_after": "1h"}}, True, id="pending_after"),
    pytest.param(ASKS, {}, True, id="a rule that asks"),
    pytest.param({"rules": ASKS["rules"]}, {}, False, id="a rule that asks nobody but the client"),
    pytest.param(
        {"rules": [{"id": "d", "to": ["bot"], "tools": ["orders__delete_order"], "verdict": "allow"}], **APPROVERS},
        {},
        True,
        id="a destructive tool",
    ),
    pytest.param(
        {
            "rules": [
                {
                    "id": "d",
                    "to": ["bot"],
                    "tools": ["orders__delete_order"],
                    "effects": ["destructive"],
                    "verdict": "allow",
                }
            ],
            **APPROVERS,
        },
        {},
        False,
        id="a destructive tool that is allowed outright",
    ),
    pytest.param(
        {"rules": [{"id": "p", "to": ["bot"], "tools": ["phone__ring"], "verdict": "allow"}]}, {}, True, id="a device"
    ),
]


@pytest.mark.parametrize(("policy", "settings", "shown"), LISTED)
async def test_it_is_listed_where_a_call_can_be_pending(
    tmp_path: Path, policy: dict[str, Any], settings: dict[str, Any], shown: bool
) -> None:
    async with play(tmp_path, policy, **settings) as (_, url, _):
        async with http(url) as client:
            names = await listed(client)
        assert (RESULT in names) is shown
        assert names == sorted(names)
        peer = await peer_of(Peer, url)
        assert (RESULT in {tool["name"] for tool in (await peer.ask("tools/list"))["tools"]}) is shown


async def test_it_is_listed_beside_the_tools_that_search_and_called_through_them(tmp_path: Path) -> None:
    async with play(tmp_path, ASKS, gateway={"search_above": 1}) as (gateway, url, _):
        peer = await peer_of(Peer, url)
        names = {tool["name"] for tool in (await peer.ask("tools/list"))["tools"]}
        assert {RESULT, "search_tools", "describe_tool"} <= names
        calling = next(name for name in ("run_tool", "call_tool") if name in names)
        asked = await peer.ask("tools/call", name=calling, arguments=MAIL)
        call_id = await waiting(gateway)
        assert f"{RESULT} with call_id {call_id}" in text(asked)
        await answer(gateway, call_id)
        inner = {"name": RESULT, "arguments": {"call_id": call_id, "wait_s": 60}}
        for result in (
            await read(peer, **inner["arguments"]),
            await peer.ask("tools/call", name=calling, arguments=inner),
        ):
            assert not result["isError"]
            assert '"ok":true' in text(result)


async def test_a_device_that_is_asked_is_told_with_the_tool(tmp_path: Path) -> None:
    policy = {"rules": [{"id": "p", "to": ["bot"], "tools": ["phone__ring"], "verdict": "allow"}]}

    async with play(tmp_path, policy) as (_, url, _):
        peer = await peer_of(Peer, url)
        said = text(await peer.ask("tools/call", name="phone__ring", arguments={}))
        assert said.startswith("deferred:")
        (one,) = json.loads(text(await read(peer)))["calls"]
        assert f"{RESULT} with call_id {one['call_id']} returns its result" in said
        assert text(await read(peer, call_id=one["call_id"], wait_s=0)) == said
