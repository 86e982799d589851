"""Questions of bridged servers in calls that waited for approval: to a caller that is there or returns, and refused where none does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.frontends.mcp.peers import TASKS, OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import SERVERS, STYLES, Person, client, policy, project, recorded
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Error

pytestmark = pytest.mark.usefixtures("in_tmp_path")

CUP = {"action": "accept", "content": {"size": "large"}}
ORDER: dict[str, Any] = {"name": "far__order", "arguments": {}}
FORMS: dict[str, Any] = {"elicitation": {}}


def asking(root: Path, allow: Any, elicitation: str = "allow") -> None:
    """Write the policy, under which orders wait for approval."""
    made = policy(allow, verdict="ask") | {"approvals": {"approvers": ["chief"], "elicitation": elicitation}}
    made["principals"]["chief"] = {"roles": ["chief"]}
    (root / "policies" / "p.yaml").write_text(json.dumps(made), encoding="utf-8")


class Approving(Person):
    """A person that approves the call first, and then says which cup."""

    async def elicit(self, context: Any, params: Any) -> Any:
        if "approve" in params.requested_schema["properties"]:
            self.asked.append("approval")
            return type(await super().elicit(context, params))(action="accept", content={"approve": True})
        return await super().elicit(context, params)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SERVERS)
async def test_a_caller_that_approves_its_call_is_asked_by_the_server_too(
    tmp_path: Path, toolgen: Run, kind: str, style: str
) -> None:
    person = Approving()
    async with project(tmp_path, toolgen, kind, ["elicitation"]) as path:
        asking(tmp_path, ["elicitation"])
        async with Gateway.load(path) as gateway, listening(App(gateway)) as url, client(url, style, person) as made:
            found = await made.call_tool("far__order", {})
            assert found.is_error is False, found
            assert json.loads(found.content[0].text)["content"] == {"count": 2, "size": "large"}  # type: ignore[union-attr]
    # A person that approved is recorded once more by the list above.
    assert [one for one in person.asked if one != "approval" and "approve" not in one.requested_schema["properties"]]
    found_events = [entry["event"] for entry in recorded(tmp_path, "intent", "question", "answer", "outcome")]
    assert found_events[-3:] == ["question", "answer", "outcome"]


async def approve(gateway: Gateway) -> None:
    """Have the chief agree to the one call that waits."""
    approvals = gateway.tool_calls.approvals
    chief = gateway.principal("chief")
    async with asyncio.timeout(20):
        while not (waiting := await approvals.calls.store.unfinished()):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)
    found = await approvals.decide(waiting[0].id, approve=True, note="", principal=chief)
    assert not isinstance(found, Error), found


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_task_that_was_approved_asks_its_caller(tmp_path: Path, toolgen: Run, kind: str) -> None:
    async with project(tmp_path, toolgen, kind, ["elicitation"]) as path:
        asking(tmp_path, ["elicitation"], "deny")
        async with Gateway.load(path) as gateway, listening(App(gateway)) as url, asyncio.timeout(60):
            peer = Peer(url, capabilities=TASKS | FORMS)
            task = await peer.ask("tools/call", **ORDER)
            await approve(gateway)
            while "inputRequests" not in task:
                task = await peer.ask("tasks/get", taskId=task["taskId"])
                assert task["status"] in {"working", "input_required"}, task
            await peer.ask(
                "tasks/update", taskId=task["taskId"], inputResponses=dict.fromkeys(task["inputRequests"], CUP)
            )
            ended = await peer.ended(task["taskId"])
            assert json.loads(ended["result"]["content"][0]["text"])["content"] == {"size": "large"}
            await close_peers()


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_caller_that_does_not_return_is_not_asked_and_the_server_is_told_why(
    tmp_path: Path, toolgen: Run, kind: str
) -> None:
    async with project(tmp_path, toolgen, kind, ["elicitation"]) as path:
        asking(tmp_path, ["elicitation"])
        async with Gateway.load(path) as gateway, listening(App(gateway)) as url, asyncio.timeout(60):
            peer = OldPeer(url)
            await peer.open()
            pending = await peer.ask("tools/call", **ORDER)
            assert "approval_required" in json.dumps(pending)
            await approve(gateway)
            (known,) = await gateway.tool_calls.approvals.calls.store.ended_since(0.0) or (None,)
            while known is None:
                await asyncio.sleep(0.05)
                (known,) = await gateway.tool_calls.approvals.calls.store.ended_since(0.0) or (None,)
            assert known.envelope is not None
            assert "waited for approval" in known.envelope["error"]["message"]
            await close_peers()
    (question,) = recorded(tmp_path, "question")
    assert (question["verdict"], question["status"]) == ("deny", "refused")
    assert recorded(tmp_path, "answer") == []


async def test_the_policy_of_the_time_of_the_question_counts(tmp_path: Path, toolgen: Run) -> None:
    person = Approving()
    async with project(tmp_path, toolgen, "pipes", ["elicitation"]) as path:
        asking(tmp_path, ["roots"])
        async with (
            Gateway.load(path) as gateway,
            listening(App(gateway)) as url,
            client(url, "legacy", person) as made,
        ):
            assert (await made.call_tool("far__order", {})).is_error
    (question,) = recorded(tmp_path, "question")
    assert question["verdict"] == "deny"
