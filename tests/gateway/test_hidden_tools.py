"""Hidden tools: whatever is asked, a tool that a caller may not see is answered as one that does not exist, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.mcp.peers import BOTH, OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import PRINCIPALS, nested, project
from tests.gateway.workflows import ALLOWED, served
from toolgen.frontends.adapters.calls import AdapterCaller
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Call
from toolgen.state.pauses import Pause

NAME, OPERATION = "orders__send_mail", "sendMail"
GATE = """
import toolgen

class Gate(toolgen.Middleware):
    def shows(self, step, tool):
        return step.session != "gated" or tool.name != "orders__list_orders"
"""
RULES = [
    {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
]
LIMITS = [
    {"id": "mail", "per": ["principal", "tool"], "rate": "1000/min", "burst": 1000, "cost": {"orders__*": 2}},
    {"id": "all", "per": ["principal"], "rate": "100000/min", "burst": 100000},
]
PAUSES = {
    "nothing": (),
    "its name": (Pause(tool=NAME, reason="mail is down", since=0.0),),
    "names like it": (Pause(tool="*_mail", since=0.0),),
    "its source": (Pause(source="orders", since=0.0),),
    "its caller": (Pause(principal="bot", since=0.0),),
    "everything": (Pause(tool="*", since=0.0),),
}
GIVEN: list[dict[str, Any]] = [{"to": "ann"}, {"to": 5, "unknown": None, "answer": {"fields": ["a"]}}]
VARIES = re.compile(
    r"call_[0-9a-f]{24}|task_[A-Za-z0-9_-]+|\"(?:duration_ms|audit_seq|retry_after_s)\": ?[0-9.]+"
    r"|[0-9T:.-]{19,26}(?:Z|\+00:00)"
)


def plain(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)
    return VARIES.sub("*", text)


def requests() -> Iterator[tuple[str, str, Any]]:
    """Method, path and body of everything at REST that takes the name of a tool."""
    for arguments in GIVEN:
        for more in ({}, {"wait": 0}, {"idempotency_key": "k1"}):
            yield "POST", f"/v1/tools/{NAME}/call", {"arguments": arguments, **more}
        yield "POST", "/v1/tool_calls", [{"type": "tool_call", "id": "a", "name": NAME, "args": arguments}]
        yield "POST", "/v1/tool_calls?wait=0", [{"type": "tool_call", "id": "a", "name": NAME, "args": arguments}]
    for tool in ("run_tool", "run_read_tool", "describe_tool"):
        yield "POST", f"/v1/tools/{tool}/call", {"arguments": {"name": NAME}}
    yield "POST", "/v1/tools/search_tools/call", {"arguments": {"query": "send a mail"}}
    for form in ("manifest", "mcp", "openai"):
        yield "GET", f"/v1/tools?format={form}", None
    yield "GET", "/v1/tools?q=send+mail", None
    yield "GET", f"/v1/answers/{NAME}/{'a' * 64}", None
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        yield method, f"/v1/tools/{NAME}", None
        yield method, f"/v1/tools/{NAME}/call", None


async def over_rest(url: str) -> list[str]:
    told = []
    for conversation in ("", "gated"):
        headers = {
            "authorization": "Bearer key-of-bot",
            **({"x-conversation-id": conversation} if conversation else {}),
        }
        async with httpx.AsyncClient(base_url=url, headers=headers) as http:
            for method, path, body in requests():
                answer = await http.request(method, path, json=body)
                kept = sorted(
                    (name, value) for name, value in answer.headers.items() if name not in {"date", "content-length"}
                )
                told.append(plain(f"{method} {path} {conversation}\n{answer.status_code} {kept}\n{answer.text}"))
    return told


async def over_mcp(peer: Peer) -> list[str]:
    if isinstance(peer, OldPeer):
        await peer.open()
    told = []
    for more in ({}, {"task": {"ttl": 1000}}):
        for arguments in GIVEN:
            told.append(plain(await peer.ask("tools/call", name=NAME, arguments=arguments, **more)))
    for tool in ("run_tool", "run_read_tool", "describe_tool"):
        told.append(plain(await peer.ask("tools/call", name=tool, arguments={"name": NAME})))
    told.append(plain(await peer.ask("tools/call", name="search_tools", arguments={"query": "send a mail"})))
    told.append(plain(await peer.ask("tools/call", name=NAME, arguments={}, requestState="none")))
    told.append(plain(await peer.ask("tools/list")))
    return told


async def in_process(gateway: Gateway) -> list[str]:
    bot = gateway.principal("bot")
    caller = AdapterCaller(gateway=gateway, party="bot", client="test")
    inner = nested(gateway)
    outer: Call = gateway.current.compiled_policy.call("other__outer", {}, bot, "talk")
    told = []
    for arguments in GIVEN:
        told.append(plain((await gateway.call(NAME, arguments, principal="bot")).to_dict()))
        told.append(plain((await gateway.preview(NAME, arguments, principal="bot")).to_dict()))
        told.append(plain((await caller.call(NAME, arguments, key="k")).to_dict()))
        told.append(plain((await inner.call(outer, NAME, arguments)).envelope.to_dict()))
    told.append(plain([tool.name for tool in caller.offered()]))
    return told


async def everything(root: Path, pauses: tuple[Pause, ...], *, exists: bool, search: bool) -> list[str]:
    module = f"gate_{abs(hash(root))}"
    root.mkdir()
    limits = {"search_above": 0 if search else "never", "turn_limit": 1000}
    settings = {"gateway": limits, "middleware": [{"use": f"{module}.Gate", "timeout": "10s"}]}
    path = project(root / "project", "http://127.0.0.1:9", {"rules": RULES, "limits": LIMITS}, **settings)
    (root / "project" / f"{module}.py").write_text(GATE, encoding="utf-8")
    if not exists:
        api = json.loads((root / "project/specs/orders.json").read_text())
        for item in api["paths"].values():
            for method in [method for method, one in item.items() if one.get("operationId") == OPERATION]:
                del item[method]
        (root / "project/specs/orders.json").write_text(json.dumps(api))
    async with Gateway.load(path) as gateway:
        assert (gateway.current.compiled_policy.tool(NAME) is not None) == exists
        gateway.pausing.local.change(lambda _: pauses)
        app = App(gateway)
        async with listening(app) as url:
            try:
                told = [*await in_process(gateway), *await over_rest(url)]
                return [*told, *await over_mcp(Peer(url)), *await over_mcp(OldPeer(url))]
            finally:
                await close_peers()
                app.end_streams()


@pytest.mark.parametrize(
    ("paused", "search"), [*((one, False) for one in PAUSES), ("nothing", True), ("its name", True)]
)
async def test_a_hidden_tool_is_answered_as_one_that_does_not_exist(tmp_path: Path, paused: str, search: bool) -> None:
    hidden = await everything(tmp_path / "hidden", PAUSES[paused], exists=True, search=search)
    absent = await everything(tmp_path / "absent", PAUSES[paused], exists=False, search=search)
    assert hidden == absent
    assert not [one for one in hidden if "paused" in one]
    assert len(hidden) > 80


def gated(root: Path, search_above: object) -> Path:
    """A project whose middleware leaves `orders__list_orders` out of the conversation `gated`."""
    module = f"gate_{abs(hash(root))}"
    settings = {"gateway": {"search_above": search_above}, "middleware": [{"use": f"{module}.Gate", "timeout": "10s"}]}
    path = project(root / "project", "http://127.0.0.1:9", {"rules": RULES}, **settings)
    (root / "project" / f"{module}.py").write_text(GATE, encoding="utf-8")
    return path


LEFT_OUT = "orders__list_orders"


@pytest.mark.parametrize("search_above", ["never", 0], ids=["listed", "searched"])
async def test_what_a_step_leaves_out_is_in_no_list_description_or_search_of_it(
    tmp_path: Path, search_above: object
) -> None:
    async def shown(gateway: Gateway, url: str, conversation: str) -> dict[str, str]:
        """What each way to ask says."""
        found = {}
        headers = {"authorization": "Bearer key-of-bot", "x-conversation-id": conversation}
        async with httpx.AsyncClient(base_url=url, headers=headers) as http:
            for form in ("manifest", "mcp", "openai"):
                found[f"list as {form}"] = (await http.get(f"/v1/tools?format={form}")).text
            found["search"] = (await http.get("/v1/tools?q=list+orders")).text
            answer = await http.get(f"/v1/tools/{LEFT_OUT}")
            found["describe"] = answer.text if answer.status_code == 200 else ""
        meta = {"conversationId": conversation}
        async with httpx.AsyncClient(headers={"authorization": "Bearer key-of-bot", "accept": BOTH}) as http:
            for peer in (Peer(url), OldPeer(url)):
                if isinstance(peer, OldPeer):
                    await peer.open()
                for method, params in (
                    ("tools/list", {}),
                    ("tools/call", {"name": "search_tools", "arguments": {"query": "list orders"}}),
                    ("tools/call", {"name": "describe_tool", "arguments": {"name": LEFT_OUT}}),
                ):
                    body, more = peer.written(method, params)
                    body["params"]["_meta"] = {**body["params"].get("_meta", {}), **meta}
                    told = (await http.post(f"{url}/mcp", json=body, headers=more)).text
                    found[f"{type(peer).__name__} {method} {params}"] = "" if 'isError":true' in told else told
        outer = gateway.current.compiled_policy.call("other__outer", {}, gateway.principal("bot"), conversation)
        inner = nested(gateway)
        for name, arguments in (("search_tools", {"query": "list orders"}), ("describe_tool", {"name": LEFT_OUT})):
            envelope = (await inner.call(outer, name, arguments)).envelope
            found[f"inner {name}"] = json.dumps(envelope.data)
        found["catalog"] = str([tool.name for tool in inner.catalog(outer)])
        return found

    async def run(path: Path) -> None:
        async with Gateway.load(path) as gateway:
            app = App(gateway)
            async with listening(app) as url:
                try:
                    free, gate = await shown(gateway, url, "free"), await shown(gateway, url, "gated")
                finally:
                    await close_peers()
                    app.end_streams()
        assert not [way for way, text in gate.items() if f'"name":"{LEFT_OUT}"' in text.replace(" ", "")]
        assert LEFT_OUT not in gate["catalog"]
        named = [way for way, text in free.items() if LEFT_OUT in text]
        assert {"search", "describe", "catalog"} <= set(named)
        assert any(way.startswith("list as") for way in named) == (search_above == "never")

    await run(gated(tmp_path, search_above))


async def test_how_a_tool_is_called_is_for_those_who_may_read_the_record(tmp_path: Path) -> None:
    rules = [{**RULES[0], "to": ["bot", "reviewer"]}]
    people = {**PRINCIPALS, "ann": {**PRINCIPALS["ann"], "roles": ["reviewer"]}}

    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": rules, "principals": people})
    async with Gateway.load(path) as gateway, listening(App(gateway)) as url:
        for who, whole in (("bot", False), ("ann", True)):
            async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer key-of-{who}"}) as http:
                listed = (await http.get("/v1/tools")).json()["tools"]
                found = (await http.get("/v1/tools?q=list+orders")).json()["tools"]
                one = (await http.get(f"/v1/tools/{LEFT_OUT}")).json()
                assert {("binding" in tool, "origin" in tool) for tool in (*listed, *found, one)} == {(whole, whole)}
                assert ("127.0.0.1:9" in json.dumps([listed, found, one])) == whole
                for form in ("mcp", "openai", "anthropic", "gemini", "bedrock", "langchain"):
                    assert "127.0.0.1:9" not in (await http.get(f"/v1/tools?format={form}")).text


FLOW = {
    "fix": {
        "steps": [
            {"id": "look", "call": "notes__search_issues"},
            {"id": "secretly", "call": "notes__create_note", "with": {"text": "x"}},
            {"id": "later_on", "call": "notes__create_note", "with": {"text": "y"}},
        ]
    }
}


async def test_a_workflow_names_no_step_whose_tool_its_caller_may_not_see(tmp_path: Path) -> None:
    rules = [{**ALLOWED, "tools": ["flows__fix", "notes__search_issues"]}]
    async with served(tmp_path / "hidden", FLOW, rules=rules) as (gateway, _):
        made = await gateway.call("flows__fix", {}, principal="bot")
        preview = await gateway.preview("flows__fix", {}, principal="bot")
    assert made.error.code == "step_failed"
    said = json.dumps([made.to_dict(), preview.to_dict()])
    assert not any(word in said for word in ("secretly", "later_on", "create_note"))
    assert [one["step"] for one in made.data["done"]] == ["look"]
    assert [one["step"] for one in preview.data["steps"]] == ["look"]
    async with served(tmp_path / "seen", FLOW) as (gateway, _):
        whole = await gateway.call("flows__fix", {}, principal="bot")
        preview = await gateway.preview("flows__fix", {}, principal="bot")
    assert [one["step"] for one in preview.data["steps"]] == ["look", "secretly", "later_on"]
    assert whole.status in {"ok", "error"}
