"""The approval form at the caller's own client: tokens in place of values, no arguments that the gateway sets, and nothing hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.mcp.peers import TASKS, OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.projects import audit_entries
from toolgen.core.canonical import digest
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

VALUE, TENANT = "ann.lee@mail.fr", "acme"
POLICY: dict[str, Any] = {
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"},
        {
            "id": "asks",
            "to": ["bot"],
            "tools": ["orders__create_order"],
            "bind": {"tenant_id": "principal.attributes.tenant"},
            "verdict": "ask",
        },
    ],
    "tokens": [{"to": ["bot"], "tools": ["orders__create_order"], "kinds": ["email"]}],
    "approvals": {"approvers": ["user"], "elicitation": "allow"},
}
FORM = {"elicitation": {}}


@asynccontextmanager
async def play(root: Path, **policy: Any) -> AsyncIterator[tuple[Gateway, str, Upstream]]:
    with upstream() as (seen, server):
        looked = [{"detector": "personal_data", "then": "tokenise"}]
        path = project(root / "p", server, {**POLICY, **policy}, inspect_results=looked)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            app = App(gateway)
            async with listening(app) as url:
                try:
                    yield gateway, url, seen
                finally:
                    app.end_streams()
                    await close_peers()


async def tokenised(peer: Peer, seen: Upstream) -> None:
    """Has the peer shown a token for `VALUE` in its conversation."""
    peer.http.headers["x-conversation-id"] = "s"
    seen.body = json.dumps({"a": VALUE}).encode()
    answer = await peer.ask("tools/call", name="orders__get_health", arguments={})
    assert "<email:1>" in json.dumps(answer)


ARGUMENTS = {"note": f"{'x' * 40} <email:1>", "amount_cents": 199_999}
Asked = Callable[[str, Upstream], Awaitable[tuple[str, Callable[[], Awaitable[object]]]]]


async def by_request(url: str, seen: Upstream) -> tuple[str, Callable[[], Awaitable[object]]]:
    """Stateful style: the question is a request of the server's, over the stream of the answer."""
    peer = OldPeer(url, capabilities=FORM)
    await peer.open()
    await tokenised(peer, seen)
    stream = peer.stream("tools/call", name="orders__create_order", arguments=ARGUMENTS)
    heard = await stream.__aenter__()
    question = await anext(heard)
    assert question["method"] == "elicitation/create"

    async def agree() -> object:
        await peer.respond(question["id"], {"action": "accept", "content": {"approve": True}})
        result = await anext(heard)
        await stream.__aexit__(None, None, None)
        return result

    return json.dumps(question, ensure_ascii=False), agree


async def by_result(url: str, seen: Upstream) -> tuple[str, Callable[[], Awaitable[object]]]:
    """Stateless style: the question is the result of the call, which is made again with the answer."""
    peer = Peer(url, capabilities=FORM)
    await tokenised(peer, seen)
    call = {"name": "orders__create_order", "arguments": ARGUMENTS}
    asked = await peer.ask("tools/call", **call)
    assert asked["resultType"] == "input_required"

    async def agree() -> object:
        answer = {"approval": {"action": "accept", "content": {"approve": True}}}
        return await peer.ask("tools/call", **call, requestState=asked["requestState"], inputResponses=answer)

    return json.dumps(asked["inputRequests"], ensure_ascii=False), agree


async def by_task(url: str, seen: Upstream) -> tuple[str, Callable[[], Awaitable[object]]]:
    """Task of the stateless style: the question stands with the task."""
    maker, peer = Peer(url), Peer(url, capabilities={**TASKS, **FORM})
    await tokenised(maker, seen)
    made = await maker.ask("tools/call", name="orders__create_order", arguments=ARGUMENTS)
    task = await peer.ask("tasks/get", taskId=made["taskId"])
    assert task["status"] == "input_required"

    async def agree() -> object:
        answer = {"approval": {"action": "accept", "content": {"approve": True}}}
        await peer.ask("tasks/update", taskId=made["taskId"], inputResponses=answer)
        return await peer.ended(made["taskId"])

    return json.dumps(task, ensure_ascii=False), agree


async def by_old_task(url: str, seen: Upstream) -> tuple[str, Callable[[], Awaitable[object]]]:
    """Task of the stateful style: the question is a request of the server's while the result is waited for."""
    peer = OldPeer(url, capabilities=FORM)
    await peer.open()
    await tokenised(peer, seen)
    made = await peer.ask("tools/call", name="orders__create_order", arguments=ARGUMENTS, task={})
    stream = peer.stream("tasks/result", taskId=made["task"]["taskId"])
    heard = await stream.__aenter__()
    told = []
    async for message in heard:
        told.append(message)
        if message.get("method") == "elicitation/create":
            break

    async def agree() -> object:
        await peer.respond(told[-1]["id"], {"action": "accept", "content": {"approve": True}})
        async for message in heard:
            if "result" in message:
                await stream.__aexit__(None, None, None)
                return message
        raise AssertionError("the task has no result")

    return json.dumps(told, ensure_ascii=False), agree


@pytest.mark.parametrize("ask", [by_request, by_result, by_task, by_old_task])
async def test_the_form_has_tokens_and_no_arguments_that_the_gateway_sets(tmp_path: Path, ask: Asked) -> None:
    async with play(tmp_path) as (gateway, url, seen):
        told, agree = await ask(url, seen)
        pieces = {VALUE[at : at + 6] for at in range(len(VALUE) - 5)}
        assert [piece for piece in pieces if piece in told] == []
        assert TENANT not in told
        assert "tenant_id" not in told
        assert "<email:1>" in told
        assert "amount_cents = 199999" in told
        answer = json.dumps(await agree())
        assert [piece for piece in pieces if piece in answer] == []
        sent = [json.loads(body) for _, path, body in seen.requests if path == "/orders"]
        assert sent == [{"tenant_id": TENANT, "amount_cents": 199_999, "note": f"{'x' * 40} {VALUE}"}]
        (decision,) = [one for one in audit_entries(gateway) if one.get("verdict") == "approve"]
        said = decision["arguments"]
        assert said["channel"] == "mcp"
        assert said["shown"]["arguments"] == digest(ARGUMENTS)
        assert said["shown"]["as_sent"] == {"note": ARGUMENTS["note"]}
        assert VALUE not in json.dumps(audit_entries(gateway))


async def test_what_a_check_of_the_project_made_of_a_value_is_not_shown_either(tmp_path: Path) -> None:
    """The form has the argument as it was sent, so that no spelling of the value that nobody searches for is in it."""

    async with play(tmp_path) as (gateway, url, seen):
        peer = Peer(url, capabilities=FORM)
        await tokenised(peer, seen)
        asked = await peer.ask(
            "tools/call", name="orders__create_order", arguments={"amount_cents": 1, "note": "<email:1>"}
        )
        (known,) = await gateway.tool_calls.approvals.calls.store.unfinished()
        assert known.sent == {"note": "<email:1>"}
        assert 'note = "<email:1>"' in asked["inputRequests"]["approval"]["params"]["message"]


async def test_a_long_value_hides_no_other_and_stands_whole_below(tmp_path: Path) -> None:
    async with play(tmp_path) as (_, url, _):
        peer, long = Peer(url, capabilities=FORM), "60.01 EUR " * 390
        given = {"note": long, "amount_cents": 199_999}
        asked = await peer.ask("tools/call", name="orders__create_order", arguments=given)
        lines = asked["inputRequests"]["approval"]["params"]["message"].split("\n")
        assert lines[1] == "amount_cents = 199999"
        assert lines[2].startswith('note = "60.01 EUR ')
        assert lines[2].endswith("… (3,900 characters; whole below)")
        assert (lines[3], lines[5:]) == ("", [json.dumps(long)])
        assert "note" in lines[4]
        too_long = await peer.ask("tools/call", name="orders__create_order", arguments={**given, "note": "x" * 17_000})
        assert "inputRequests" not in too_long
