"""What bridged servers request of callers: sampling, elicitation and roots, in both directions' protocol styles, by policy and on record.

Clients and servers are the official SDK's; every server really runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from tests.cli.commands import Run
from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.served_workers import serving
from tests.services.bridged import ROOT, over_http, write_project
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SERVER = [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_asking.py")]
EVERYTHING = ["sampling", "elicitation", "elicitation_url", "roots"]
KEYS = {who: hashlib.sha256(f"key-of-{who}".encode()).hexdigest() for who in ("bot", "other")}
STYLES = ["legacy", "2026-07-28"]
SERVERS = ["pipes", "http", "modern"]


def policy(allow: Any, **rule: Any) -> dict[str, Any]:
    about = {"id": "all", "to": ["bot"], "tools": ["far__*"], "effects": ["read", "write", "destructive"]}
    return {
        "principals": {who: {"api_key": f"sha256:{key}", "roles": ["bot"]} for who, key in KEYS.items()},
        "rules": [{**about, "verdict": "allow", **({"allow": allow} if allow else {}), **rule}],
        "egress": {"private_networks": "allow"},
    }


@asynccontextmanager
async def project(
    root: Path, toolgen: Run, kind: str, allow: Any, offered: Any = EVERYTHING, **rule: Any
) -> AsyncIterator[Path]:
    """A built project over the asking server."""
    with contextlib.ExitStack() as stack:
        url = "" if kind == "pipes" else stack.enter_context(over_http(*SERVER, style=kind))
        server: dict[str, Any] = {"url": url} if url else {"command": SERVER}
        path = write_project(root, policy(allow, **rule), mcp={**server, **({"allow": offered} if offered else {})})
        done = await asyncio.to_thread(toolgen, "build")
        assert done.code == 0, done.err
        yield path


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[str]:
    async with Gateway.load(path) as gateway, listening(App(gateway)) as url:
        yield url


class Person:
    """The client's side: what it was asked, and what it answers."""

    def __init__(self, **answer: Any) -> None:
        self.asked: list[Any] = []
        self.answer = answer or {"action": "accept", "content": {"size": "large", "count": 2}}

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(**(self.answer if getattr(params, "mode", "form") != "url" else {"action": "accept"}))

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params)
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="short"), model="model-1", stop_reason="endTurn"
        )

    async def roots(self, context: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri="file:///home/ann/a", name="a"), Root(uri="file:///b")])


@asynccontextmanager
async def client(url: str, style: str, person: Person | None, who: str = "bot") -> AsyncIterator[Client]:
    callbacks: dict[str, Any] = {}
    if person is not None:
        callbacks = {
            "elicitation_callback": person.elicit,
            "sampling_callback": person.sample,
            "list_roots_callback": person.roots,
        }
    headers = {"authorization": f"Bearer key-of-{who}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=style, **callbacks) as made,
    ):
        yield made


async def said(made: Client, name: str, **arguments: Any) -> str:
    found = await made.call_tool(f"far__{name}", arguments)
    assert found.is_error is False, found
    return str(found.content[0].text)  # type: ignore[union-attr]


def recorded(root: Path, *events: str) -> list[dict[str, Any]]:
    return [dict(entry) for entry in entries(root / "audit") if entry["event"] in events]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SERVERS)
async def test_every_request_reaches_the_caller_and_its_answer_the_server(
    tmp_path: Path, toolgen: Run, kind: str, style: str
) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, kind, EVERYTHING) as path,
        served(path) as url,
        client(url, style, person) as made,
    ):
        answer = json.loads(await said(made, "order", note="\u200b\u202e now"))
        assert answer == {"action": "accept", "content": {"count": 2, "size": "large"}}
        assert await said(made, "pay") == "accept"
        assert await said(made, "summarise", text="a long text") == "model-1: short"
        assert await said(made, "folders") == "file:///home/ann/a file:///b"
        assert await said(made, "add", a=1, b=2) == "3"
    form, page, sampled, roots = person.asked
    assert form.message == "Which cup? now"
    schema = form.requested_schema
    assert schema["properties"]["colour"]["oneOf"][1] == {"const": "g", "title": "Green"}
    assert schema["properties"]["extras"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["lid", "bag"]},
        "default": ["lid"],
    }
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    assert (page.url, page.mode, roots) == ("https://pay.example.com/order/7", "url", "roots")
    assert sampled.max_tokens == 100
    found = recorded(tmp_path, "intent", "question", "answer", "outcome")
    steps = [(entry["event"], entry.get("status")) for entry in found[:4]]
    assert steps == [("intent", None), ("question", "asked"), ("answer", "accept"), ("outcome", "ok")]
    assert len({entry["call_id"] for entry in found[:4]}) == 1
    assert found[1]["arguments"]["fields"] == ["colour", "count", "extras", "gift", "size"]
    assert found[1]["rule"] == "all"
    assert "large" not in json.dumps(recorded(tmp_path, "answer"))  # what a person answered is a digest


@pytest.mark.parametrize(
    ("kind", "style", "allow", "offered"),
    [
        ("pipes", "legacy", [], EVERYTHING),
        ("pipes", "2026-07-28", ["roots"], EVERYTHING),
        ("http", "legacy", ["roots"], EVERYTHING),
        ("modern", "2026-07-28", [], EVERYTHING),
        ("modern", "legacy", [], []),
        ("http", "2026-07-28", [], []),
    ],
)
async def test_nothing_is_requested_that_policy_and_source_do_not_allow(
    tmp_path: Path, toolgen: Run, kind: str, style: str, allow: list[str], offered: list[str]
) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, kind, allow, offered) as path,
        served(path) as url,
        client(url, style, person) as made,
    ):
        for name, arguments in (("order", {}), ("pay", {}), ("summarise", {"text": "x"})):
            found = await made.call_tool(f"far__{name}", arguments)
            assert found.is_error, name
        assert await said(made, "add", a=1, b=2) == "3"
    assert person.asked == []


async def test_a_caller_that_cannot_be_asked_is_not(tmp_path: Path, toolgen: Run) -> None:
    async with (
        project(tmp_path, toolgen, "pipes", EVERYTHING) as path,
        Gateway.load(path) as gateway,
        listening(App(gateway)) as url,
        client(url, "legacy", None) as made,
    ):
        assert (await made.call_tool("far__order", {})).is_error
        assert await said(made, "add", a=1, b=2) == "3"
        failed = await gateway.call("far__order", {}, principal="bot")
        assert (failed.status, failed.error and failed.error.code) == ("error", "upstream_error")


@pytest.mark.parametrize("style", STYLES)
async def test_a_no_of_the_person_is_the_servers_to_deal_with(tmp_path: Path, toolgen: Run, style: str) -> None:
    async with project(tmp_path, toolgen, "pipes", EVERYTHING) as path, served(path) as url:
        for action in ("decline", "cancel"):
            async with client(url, style, Person(action=action)) as made:
                assert json.loads(await said(made, "order", note=action)) == {"action": action, "content": None}
    assert [entry["status"] for entry in recorded(tmp_path, "answer")] == ["decline", "cancel"]


async def test_an_answer_that_does_not_fit_the_form_never_reaches_the_server(tmp_path: Path, toolgen: Run) -> None:
    person = Person(action="accept", content={"size": "huge"})
    async with (
        project(tmp_path, toolgen, "pipes", EVERYTHING) as path,
        served(path) as url,
        client(url, "legacy", person) as made,
    ):
        assert (await made.call_tool("far__order", {})).is_error
    assert len(person.asked) == 1


async def test_budgets_hold_for_a_call_over_time_and_for_tokens_and_pages(tmp_path: Path, toolgen: Run) -> None:
    allow = {
        "sampling": {"max_tokens": 7, "rate": "2/day"},
        "elicitation_url": {"hosts": ["*.example.org"]},
        "elicitation": {"per_call": 1},
    }
    person = Person()
    async with (
        project(tmp_path, toolgen, "pipes", allow) as path,
        served(path) as url,
        client(url, "legacy", person) as made,
    ):
        assert await said(made, "summarise", text="a") == "model-1: short"
        assert await said(made, "summarise", text="b") == "model-1: short"
        assert (await made.call_tool("far__summarise", {"text": "c"})).is_error
        assert (await made.call_tool("far__pay", {})).is_error
        assert (await made.call_tool("far__order", {"times": 2})).is_error
        assert (await made.call_tool("far__folders", {})).is_error
    assert [getattr(one, "max_tokens", 0) for one in person.asked] == [7, 7, 0]
    refused = [entry for entry in recorded(tmp_path, "question") if entry["verdict"] == "deny"]
    assert [entry["arguments"]["method"] for entry in refused] == [
        "sampling/createMessage",
        "elicitation/create",
        "elicitation/create",
        "roots/list",
    ]


@pytest.mark.parametrize("style", STYLES)
async def test_a_page_that_a_server_requires_first_is_shown_to_the_caller(
    tmp_path: Path, toolgen: Run, style: str
) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, "pipes", {"elicitation_url": {"hosts": ["pay.example.com"]}}) as path,
        served(path) as url,
        client(url, style, person) as made,
        client(url, style, None) as other,
    ):
        refused = [await one.call_tool("far__export", {}) for one in (made, other)]
    shown, untold = [one.content[0].text for one in refused]  # type: ignore[union-attr]
    assert [one.is_error for one in refused] == [True, True]
    assert "make the call again" in shown
    assert "pay.example.com" not in untold
    assert [one.url for one in person.asked] == ["https://pay.example.com/order/7"]


async def test_two_callers_of_one_command_are_asked_their_own_questions(tmp_path: Path, toolgen: Run) -> None:
    people = {"bot": Person(), "other": Person(action="decline")}

    async def order(url: str, who: str) -> str:
        async with client(url, "legacy", people[who], who) as made:
            found = [json.loads(await said(made, "order", note=f" {who} {number}")) for number in range(3)]
            return str({one["action"] for one in found})

    async with project(tmp_path, toolgen, "pipes", EVERYTHING) as path, served(path) as url:
        assert await asyncio.gather(order(url, "bot"), order(url, "other")) == ["{'accept'}", "{'decline'}"]
    for who, person in people.items():
        assert [one.message for one in person.asked] == [f"Which cup? {who} {number}" for number in range(3)]


async def test_a_rule_allows_requests_only_of_calls_that_it_applies_to(tmp_path: Path, toolgen: Run) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, "pipes", []) as path,
        served(path) as url,
        client(url, "legacy", person) as made,
    ):
        rules = policy([])
        more = {"id": "some", "to": ["bot"], "tools": ["far__order"], "verdict": "allow", "allow": ["elicitation"]}
        rules["rules"].append({**more, "when": "args.note == 'please'"})
        (tmp_path / "policies" / "p.yaml").write_text(json.dumps(rules))
        end = time.monotonic() + 60  # what an edit gives waits until the files rest
        while (answer := await made.call_tool("far__order", {"note": "please"})).is_error:
            assert time.monotonic() < end, answer
            await asyncio.sleep(0.2)
        assert (await made.call_tool("far__order", {"note": "now"})).is_error
    assert [one.message for one in person.asked] == ["Which cup?please"]


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_a_call_that_is_cancelled_while_its_caller_is_asked_ends(tmp_path: Path, toolgen: Run) -> None:
    caps = {"elicitation": {}}
    async with project(tmp_path, toolgen, "pipes", EVERYTHING) as path, served(path) as url:
        peer = OldPeer(url, capabilities=caps)
        await peer.open()
        async with peer.stream("tools/call", name="far__order", arguments={}) as found:
            async for message in found:
                assert message["method"] == "elicitation/create"
                body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
                await peer.http.post(peer.url, json=body, headers=peer.written("", {})[1])
        await until(lambda: len(recorded(tmp_path, "outcome")) == 1)
        await close_peers()
    assert recorded(tmp_path, "outcome")[0]["status"] != "ok"
    assert recorded(tmp_path, "answer") == []


@pytest.mark.parametrize("style", ["stateful", "stateless"])
async def test_any_worker_takes_the_answer(tmp_path: Path, toolgen: Run, style: str) -> None:
    content = {"action": "accept", "content": {"size": "large"}}
    async with project(tmp_path, toolgen, "pipes", EVERYTHING) as path:
        path.write_text(path.read_text().replace("{", '{"gateway": {"workers": 2}, ', 1))
        with serving(path) as workers:
            for number in range(6):
                kind = OldPeer if style == "stateful" else Peer
                peer = kind(workers.url, capabilities={"elicitation": {}})
                arguments = {"name": "far__order", "arguments": {"note": str(number)}}
                if isinstance(peer, OldPeer):
                    await peer.open()
                    async with peer.stream("tools/call", **arguments) as found:
                        async for message in found:
                            if "method" in message:
                                answering = OldPeer(workers.url)  # on a connection of its own
                                answering.session = peer.session
                                assert await answering.respond(message["id"], content) == 202
                            else:
                                result = message["result"]
                else:
                    asked = await peer.ask("tools/call", **arguments)
                    answers = dict.fromkeys(asked["inputRequests"], content)
                    again = Peer(workers.url, capabilities={"elicitation": {}})
                    more = {"requestState": asked["requestState"], "inputResponses": answers}
                    result = await again.ask("tools/call", **arguments, **more)
                    repeated = await again.ask("tools/call", **arguments, **more)
                    assert repeated["content"] == result["content"]  # the call was made once
                assert json.loads(result["content"][0]["text"])["content"] == {"size": "large"}
                await close_peers()
    assert len(recorded(tmp_path, "question")) == len(recorded(tmp_path, "outcome")) == 6


@pytest.mark.parametrize(
    ("allow", "redact", "said"),
    [
        (
            {"sampling": {"max_tokens": 50, "rate": "20/h"}, "elicitation_url": {"hosts": ["*.example.com"]}},
            [],
            [
                "requests sampling: the source offers it, and all allows it: 8 a call, 50 tokens, limited by",
                "requests elicitation: the source offers it, and no rule that applies allows it",
                "requests elicitation_url: the source offers it, and all allows it: 8 a call, hosts *.example.com",
            ],
        ),
        (
            ["sampling"],
            [{"tools": ["far__*"], "fields": ["$..email"]}],
            ["requests sampling: nothing is requested, as the policy redacts answers of the tool"],
        ),
    ],
)
async def test_an_explanation_says_what_rule_and_source_let_the_server_request(
    tmp_path: Path, toolgen: Run, allow: Any, redact: list[dict[str, Any]], said: list[str]
) -> None:
    async with project(tmp_path, toolgen, "pipes", allow) as path:
        if redact:
            found = policy(allow) | {"redact": redact}
            (file,) = (path.parent / "policies").iterdir()
            file.write_text(json.dumps(found), encoding="utf-8")
        name = min(load(path.parent / "generated" / "manifest.json"))
        done = await asyncio.to_thread(toolgen, "policy", "explain", name, "--as", "bot")
        for line in said:
            assert line in done.out
        shown = json.loads((await asyncio.to_thread(toolgen, "policy", "explain", name, "--as", "bot", "--json")).out)
        assert bool(shown["requests"]) is not bool(redact)


def load(path: Path) -> list[str]:
    return [one["name"] for one in json.loads(path.read_text(encoding="utf-8"))["tools"]]
