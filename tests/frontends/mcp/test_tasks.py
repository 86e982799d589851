"""MCP's tasks of both eras: made, followed, answered and called off at any worker, by their own principal alone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.mcp.peers import OldPeer, Peer, close_peers, messages
from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import http
from tests.gateway.tenants import OTHER, beside, strangers
from toolgen.audit.reader import entries
from toolgen.core.errors import StateUnavailableError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_sqlite import SqliteInvocations

_NUMBERS = itertools.count()
FUNCTIONS = '''
from __future__ import annotations
import toolgen

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

@toolgen.tool(effect="write", requires=("tasks",))
async def greet(ctx: toolgen.ToolContext) -> str:
    """Asks twice."""
    await ctx.progress(1, 4, "asking")
    names = [(await ctx.elicit("Who are you?", NAME, key="who")).content.get("name") for _ in range(2)]
    return " and ".join(str(name) for name in names)

@toolgen.tool(effect="destructive", requires=("tasks",))
def drop(table: str) -> str:
    """Drops a table."""
    return "dropped " + table

@toolgen.tool(effect="read")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b
'''
POLICY: dict[str, Any] = {
    "rules": [
        {"id": "reads", "to": ["bot", "user"], "tools": ["orders__get_health", "own__add"], "verdict": "allow"},
        {"id": "writes", "to": ["bot"], "tools": ["orders__send_mail", "own__greet"], "verdict": "allow"},
        {"id": "drops", "to": ["bot"], "tools": ["own__drop", "orders__delete_order"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["user"], "elicitation": "allow"},
}
HEALTH = {"name": "orders__get_health", "arguments": {}}
MAIL = {"name": "orders__send_mail", "arguments": {"to": "x"}}
DROP = {"name": "own__drop", "arguments": {"table": "t"}}
RELATED = "io.modelcontextprotocol/related-task"


@asynccontextmanager
async def play(
    root: Path, *, gateways: int = 2, after: str | None = "0s", stranger: str = "principal"
) -> AsyncIterator[tuple[list[str], Upstream, Path]]:
    """URLs of so many gateways of one project, as its workers are, or of one and of another tenant; their API and the project."""
    module = f"task_functions_{next(_NUMBERS)}"
    with upstream() as (seen, server):
        sources = {"orders": {"openapi": "specs/orders.json", "server": server}, "own": {"python": module}}
        settings: dict[str, Any] = {"sources": sources}
        if after is not None:
            settings["gateway"] = {"pending_after": after}
        path = project(root / "p", server, POLICY, **settings)
        (path.parent / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
        urls: list[str] = []
        async with asyncio.timeout(120), AsyncExitStack() as stack:
            if stranger != "principal":
                boundary = await stack.enter_async_context(beside(path, stranger))
                urls += [boundary.url, boundary.other_url]
            for _ in range(gateways - len(urls)):
                app = App(await stack.enter_async_context(Gateway.load(path)))
                urls.append(await stack.enter_async_context(listening(app)))
                stack.callback(app.end_streams)
            try:
                yield urls, seen, path
            finally:
                seen.answers.set()
                await close_peers()


async def greeted(url: str, who: str = "bot", **capabilities: Any) -> OldPeer:
    peer = OldPeer(url, who, capabilities)
    await peer.open()
    return peer


async def test_a_task_of_the_handshake_era_is_followed_at_any_worker(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, seen, path):
        one, two = await greeted(urls[0]), await greeted(urls[1])
        listed = {tool["name"]: tool.get("execution") for tool in (await one.ask("tools/list"))["tools"]}
        assert listed["get_call_result"] is None
        assert listed["own__add"] == {"taskSupport": "optional"}
        assert listed["own__greet"] == {"taskSupport": "required"}
        seen.answers.clear()
        created = await one.ask("tools/call", **MAIL, task={"ttl": 60_000})
        task = created.pop("task")
        assert created == {}
        assert task.keys() >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        assert (task["status"], task["createdAt"][-1]) == ("working", "Z")
        for peer in (two, one):
            assert (await peer.ask("tasks/get", taskId=task["taskId"]))["status"] == "working"
        assert [item["taskId"] for item in (await two.ask("tasks/list"))["tasks"]] == [task["taskId"]]
        async with two.stream("tasks/result", taskId=task["taskId"]) as heard:
            first = await anext(heard)
            assert (first["method"], first["params"]["status"]) == ("notifications/tasks/status", "working")
            assert RELATED not in first["params"].get("_meta", {})
            seen.answers.set()
            result = (await anext(heard))["result"]
        assert (result["isError"], result["_meta"]) == (False, {RELATED: {"taskId": task["taskId"]}})
        asked = await two.ask("tasks/result", taskId=task["taskId"], _meta={"toolgen/envelope": True})
        assert asked["_meta"][RELATED] == {"taskId": task["taskId"]}
        assert asked["_meta"]["toolgen/envelope"]["call_id"] == task["taskId"]
        assert (await two.ask("tasks/get", taskId=task["taskId"]))["status"] == "completed"
        assert await one.ask("tasks/result", taskId=task["taskId"]) == result
        assert (await one.ask("tasks/cancel", taskId=task["taskId"]))["code"] == -32602
        written = [
            one["event"] for one in entries(path.parent / "var" / "audit") if one.get("call_id") == task["taskId"]
        ]
        assert (written, len(seen.requests)) == (["intent", "outcome"], 1)


async def test_a_call_that_ends_at_once_is_a_task_all_the_same(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, _, _):
        one, two = await greeted(urls[0]), await greeted(urls[1])
        right, wrong = {"a": 1, "b": 2}, {"a": 1, "b": {}}
        for arguments, status, is_error in ((right, "completed", False), (wrong, "failed", True)):
            task = (await one.ask("tools/call", name="own__add", arguments=arguments, task={}))["task"]
            result = await two.ask("tasks/result", taskId=task["taskId"])
            assert (result["isError"], result["_meta"][RELATED]["taskId"]) == (is_error, task["taskId"])
            assert (await two.ask("tasks/get", taskId=task["taskId"]))["status"] == status


async def test_what_cannot_be_a_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.gateway.operations.background_calls.MAX_CALLS_EACH", 1)

    async with play(tmp_path, gateways=1, after=None) as (urls, seen, _):
        one = await greeted(urls[0])
        for name in ("own__nothing", "orders__create_order"):  # there is none, and none that it may see
            assert (await one.ask("tools/call", name=name, arguments={}, task={}))["code"] == -32601
        assert (await one.ask("tools/call", name="own__greet", arguments={}))["code"] == -32601
        for task in (1, "x", [], {"ttl": "1"}, {"ttl": True}):
            assert (await one.ask("tools/call", **HEALTH, task=task))["code"] == -32602
        seen.answers.clear()
        assert "task" in await one.ask("tools/call", **HEALTH, task={})
        refused = await one.ask("tools/call", **HEALTH, task={})
        assert (refused["code"], refused["message"][:12]) == (-32600, "rate_limited")
        seen.answers.set()
        one.version, one.session = "2025-06-18", ""
        assert (await one.open())["capabilities"].get("tasks") is None
        assert (await one.ask("tools/call", **HEALTH, task={}))["isError"] is False
        assert len(seen.requests) == 2


@strangers
@pytest.mark.parametrize("kind", [OldPeer, Peer], ids=["handshake", "modern"])
async def test_nobody_else_sees_a_task_or_touches_it(tmp_path: Path, kind: type[Peer], stranger: str) -> None:
    async with play(tmp_path, stranger=stranger) as (urls, seen, _):
        seen.answers.clear()
        one = kind(urls[0])
        created = await one.ask("tools/call", **HEALTH, **({"task": {}} if kind is OldPeer else {}))
        task_id = created.get("task", created)["taskId"]
        methods = {"tasks/get", "tasks/cancel", "tasks/result" if kind is OldPeer else "tasks/update"}
        suffix = f"-at-{OTHER}" if stranger == "tenant" else ""
        of_tenant = [(urls[1], f"{who}{suffix}") for who in ("bot", "ann")]
        others = list(itertools.product(urls, ("bare", "ann"))) if stranger == "principal" else of_tenant
        for url, who in others:
            for method, named in itertools.product(methods, (task_id, "call_" + "0" * 24, "x" * 200)):
                answer = await kind(url, who).ask(method, taskId=named, inputResponses={})
                assert answer["code"] == -32602, (method, named, answer)
        if kind is OldPeer:
            assert (await kind(urls[1], others[0][1]).ask("tasks/list"))["tasks"] == []
            for cursor in ("", "x", "MS4w", 5, "x" * 1000):
                assert (await one.ask("tasks/list", cursor=cursor))["code"] == -32602
        assert (await one.ask("tasks/get", taskId=task_id))["status"] == "working"


async def test_tasks_are_listed_by_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.frontends.mcp.tasks._PAGE", 2)

    async with play(tmp_path, gateways=1) as (urls, _, _):
        one, other = await greeted(urls[0]), await greeted(urls[0], "ann")
        made = []
        for number in range(5):
            call = {"name": "own__add", "arguments": {"a": number, "b": 0}, "task": {}}
            made.append((await one.ask("tools/call", **call))["task"]["taskId"])
            await other.ask("tools/call", **call)
        found, cursor = [], {}
        while True:
            page = await one.ask("tasks/list", **cursor)
            assert len(page["tasks"]) <= 2
            found += [task["taskId"] for task in page["tasks"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert found == made


@pytest.mark.parametrize("kind", [OldPeer, Peer], ids=["handshake", "modern"])
@pytest.mark.parametrize(("call", "code"), [(HEALTH, "cancelled"), (MAIL, "outcome_unknown")], ids=["read", "write"])
async def test_calling_a_task_off_closes_its_request(tmp_path: Path, kind: type[Peer], call: Any, code: str) -> None:
    async with play(tmp_path) as (urls, seen, _):
        seen.answers.clear()
        one, two = kind(urls[0]), kind(urls[1])
        created = await one.ask("tools/call", **call, **({"task": {}} if kind is OldPeer else {}))
        task_id = created.get("task", created)["taskId"]
        await asyncio.to_thread(seen.reached, 1)
        answer = await two.ask("tasks/cancel", taskId=task_id)
        assert await asyncio.to_thread(seen.closed)
        assert answer.get("status", "cancelled") == "cancelled"
        for peer in (one, two):
            task = await peer.ended(task_id)
            assert (task["status"], task["statusMessage"].partition(":")[0]) == ("cancelled", code)


async def test_a_long_call_becomes_a_task_where_the_client_takes_one(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, seen, _):
        one, two, other = Peer(urls[0]), Peer(urls[1]), Peer(urls[0], capabilities={})
        seen.answers.clear()
        waiting = asyncio.create_task(other.ask("tools/call", **HEALTH))
        task = await one.ask("tools/call", **HEALTH)
        await asyncio.to_thread(seen.reached, 2)
        assert (task["resultType"], task["status"], task["ttlMs"] >= 3_600_000) == ("task", "working", True)
        assert not task.keys() & {"task", "ttl", "pollInterval", "result", "inputRequests", "requestState"}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            refused = await other.ask(method, taskId=task["taskId"], inputResponses={})
            assert (refused["code"], [*refused["data"]["requiredCapabilities"]]) == (-32021, ["extensions"])
        for method in ("tasks/list", "tasks/result"):
            assert (await one.ask(method, taskId=task["taskId"]))["code"] == -32601
        assert (await two.ask("tasks/get", taskId=task["taskId"])).keys() >= {"status", "ttlMs", "pollIntervalMs"}
        seen.answers.set()
        ended = await two.ended(task["taskId"])
        assert (ended["status"], ended["result"]["content"]) == ("completed", [{"type": "text", "text": '{"ok":true}'}])
        assert (await waiting)["content"][0]["text"].startswith(
            "deferred:"
        )  # who knows no tasks reads its end with a tool
        assert await one.ask("tasks/cancel", taskId=task["taskId"]) | {"_meta": 0} == {
            "resultType": "complete",
            "_meta": 0,
        }
        assert (await one.ask("tasks/get", taskId=task["taskId"]))["status"] == "completed"
        async with http(urls[1]) as rest:  # the same call, at the same place
            assert (await rest.get(f"/v1/calls/{task['taskId']}")).json()["data"] == {"ok": True}


async def test_headers_of_requests_about_tasks_name_the_task(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=1) as (urls, _, _):
        one = Peer(urls[0])
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            body, headers = one.written(method, {"taskId": "call_1", "inputResponses": {}})
            for name in ("call_2", None):
                changed = (
                    {**headers, "mcp-name": name} if name else {k: v for k, v in headers.items() if k != "mcp-name"}
                )
                answer = await one.http.post(one.url, json=body, headers=changed)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


async def test_what_a_task_asks_is_answered_at_any_worker_and_once(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, _, _):
        able = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        one, two, mute = Peer(urls[0], capabilities=able), Peer(urls[1], capabilities=able), Peer(urls[1])
        task_id = (await one.ask("tools/call", name="own__greet", arguments={}))["taskId"]

        async def asked(key: str) -> None:
            while (task := await two.ask("tasks/get", taskId=task_id)).get("inputRequests", {}).keys() != {key}:
                assert task["status"] in {"working", "input_required"}, task
            assert task["inputRequests"][key]["method"] == "elicitation/create"

        def saying(key: str, name: object) -> dict[str, Any]:
            return {"inputResponses": {key: {"action": "accept", "content": {"name": name}}}}

        await asked("who")
        assert (await mute.ask("tasks/get", taskId=task_id))["status"] == "working"  # whom it cannot ask has to wait
        for bad in ({}, {"inputResponses": 1}, {"inputResponses": {"who": 1}}, saying("who", 5)):
            assert (await two.ask("tasks/update", taskId=task_id, **bad))["code"] == -32602
        assert "code" not in await two.ask("tasks/update", taskId=task_id, **saying("other", "Eve"))
        assert "code" in await Peer(urls[1], "bare", able).ask("tasks/update", taskId=task_id, **saying("who", "Eve"))
        await two.ask("tasks/update", taskId=task_id, **saying("who", "Ann"))
        await asked("who-2")
        for peer in (one, two):  # an answer that is sent again is none to the next question
            assert "code" not in await peer.ask("tasks/update", taskId=task_id, **saying("who", "Eve"))
        await one.ask("tasks/update", taskId=task_id, **saying("who-2", "Bob"))
        ended = await one.ended(task_id)
        assert ended["result"]["content"][0]["text"] == "Ann and Bob"


async def test_what_a_task_of_the_handshake_era_asks_comes_with_its_result(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, _, _):
        one, two = await greeted(urls[0], elicitation={}), await greeted(urls[1], elicitation={})
        stranger = await greeted(urls[1], "bare", elicitation={})
        task_id = (await one.ask("tools/call", name="own__greet", arguments={}, task={}))["task"]["taskId"]
        names = iter(("Ann", "Bob"))
        async with one.stream("tasks/result", taskId=task_id) as heard:
            async for message in heard:
                if message.get("method") != "elicitation/create":
                    continue
                assert message["params"]["_meta"] == {RELATED: {"taskId": task_id}}
                assert (await two.ask("tasks/get", taskId=task_id))["status"] == "input_required"
                stolen = {"action": "accept", "content": {"name": "Eve"}}
                assert await stranger.respond(message["id"], stolen) == 202
                answer = {"action": "accept", "content": {"name": next(names)}}
                for _ in range(2):
                    assert await two.respond(message["id"], answer) == 202
        assert message["result"]["content"][0]["text"] == "Ann and Bob"


async def test_a_task_that_somebody_has_to_agree_to_waits_for_them(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, _, path):
        able = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        one, two, old = Peer(urls[0]), Peer(urls[1], capabilities=able), await greeted(urls[1], elicitation={})
        drops = [{**DROP, "arguments": {"table": f"t{number}"}} for number in range(4)]
        tasks = [(await one.ask("tools/call", **drop))["taskId"] for drop in drops]
        assert (await one.ask("tools/call", **drops[0]))["taskId"] == tasks[0]  # an equal call waits already
        for task_id in tasks:  # its own client cannot be asked, so others are waited for
            task = await one.ask("tasks/get", taskId=task_id)
            assert (task["status"], task["statusMessage"].partition(":")[0]) == ("working", "approval_required")
        asked = await two.ask("tasks/get", taskId=tasks[0])
        assert (asked["status"], [*asked["inputRequests"]]) == ("input_required", ["approval"])
        assert 'table = "t0"' in asked["inputRequests"]["approval"]["params"]["message"]

        def saying(approve: object) -> dict[str, Any]:
            return {"inputResponses": {"approval": {"action": "accept", "content": {"approve": approve}}}}

        assert (await two.ask("tasks/update", taskId=tasks[0], **saying("yes")))["code"] == -32602
        await asyncio.gather(*(two.ask("tasks/update", taskId=tasks[0], **saying(True)) for _ in range(5)))
        await two.ask("tasks/update", taskId=tasks[1], **saying(False))
        async with http(urls[0], "ann") as ann:
            assert (await ann.post(f"/v1/approvals/{tasks[2]}", json={"decision": "approve"})).status_code == 200
        async with old.stream("tasks/result", taskId=tasks[3]) as heard:
            async for message in heard:
                if message.get("method") == "elicitation/create":
                    assert (await old.ask("tasks/get", taskId=tasks[3]))["status"] == "input_required"
                    assert await old.respond(message["id"], {"action": "decline"}) == 202
        assert "approval_denied" in message["result"]["content"][0]["text"]
        texts = [(await one.ended(task_id))["result"]["content"][0]["text"] for task_id in tasks]
        assert [text.partition(":")[0] for text in texts] == [
            "dropped t0",
            "approval_denied",
            "dropped t2",
            "approval_denied",
        ]
        ran = [entry for entry in entries(path.parent / "var" / "audit") if entry["event"] == "intent"]
        assert sorted(entry["call_id"] for entry in ran).count(tasks[0]) <= 2


async def test_who_listens_for_a_task_is_told_each_change(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, seen, _):
        seen.answers.clear()
        one, two = Peer(urls[0]), Peer(urls[1])
        task_id = (await one.ask("tools/call", **HEALTH))["taskId"]
        for capabilities, ids, code in (
            ({}, [task_id], -32021),
            (None, "x", -32602),
            (None, [5], -32602),
            (None, ["x"] * 99, -32602),
        ):
            asking = Peer(urls[1], capabilities=capabilities)
            assert (await asking.ask("subscriptions/listen", notifications={"taskIds": ids}))["code"] == code
        wanted = {"taskIds": [task_id, "call_" + "0" * 24]}
        async with Peer(urls[1], "bare").stream("subscriptions/listen", notifications=wanted) as heard:
            assert (await anext(heard))["params"]["notifications"] == {"taskIds": []}
        async with two.stream("subscriptions/listen", notifications=wanted) as heard:
            assert (await anext(heard))["params"]["notifications"] == {"taskIds": [task_id]}
            first = await anext(heard)
            assert (first["method"], first["params"]["status"]) == ("notifications/tasks", "working")
            assert first["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 1}
            seen.answers.set()
            last = (await anext(heard))["params"]
            assert (last["status"], last["result"]["isError"]) == ("completed", False)


@pytest.mark.parametrize("away", [False, True])
async def test_progress_is_kept_where_something_else_of_the_task_was_kept_just_before_or_the_store_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    replace, lost = SqliteInvocations.replace, list[str]()

    async def losing(
        self: SqliteInvocations, known: Invocation, changed: Invocation, **bounds: Any
    ) -> Invocation | None:
        if changed.progress is not None and not lost:
            lost.append(known.id)
            if away:
                raise StateUnavailableError("the disk is full")
            await replace(self, known, known)  # as the question of a call is, which may have been kept before
        return await replace(self, known, changed, **bounds)

    monkeypatch.setattr(SqliteInvocations, "replace", losing)
    async with play(tmp_path, gateways=1) as (urls, _, _):
        peer = await greeted(urls[0], elicitation={})
        made = await peer.ask("tools/call", name="own__greet", arguments={}, task={}, _meta={"progressToken": "p-1"})
        async with asyncio.timeout(60), peer.stream("tasks/result", taskId=made["task"]["taskId"]) as heard:
            while (await anext(heard)).get("method") != "notifications/progress":
                pass
        assert lost == [made["task"]["taskId"]]
        assert (await peer.ask("tasks/cancel", taskId=made["task"]["taskId"]))["status"] == "cancelled"


async def test_progress_of_a_task_is_told_by_the_token_of_the_request_that_made_it(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, _, _):
        one, two = await greeted(urls[0], elicitation={}), await greeted(urls[1], elicitation={})
        wanted = {"name": "own__greet", "arguments": {}, "task": {}}
        for token in ("p-1", None):  # one after the other: equal calls would be one task
            made = await one.ask("tools/call", **wanted, _meta={"progressToken": token} if token else {})
            task_id = made["task"]["taskId"]
            async with two.stream("tasks/result", taskId=task_id) as heard:
                told: list[dict[str, Any]] = []
                async for message in heard:
                    told.append(message)
                    # Another gateway keeps both, and may hear of the question first.
                    heard_of = {item.get("method") for item in told}
                    if heard_of >= {"elicitation/create", *(["notifications/progress"] if token else [])}:
                        break
            progress = [item["params"] for item in told if item["method"] == "notifications/progress"]
            about = {RELATED: {"taskId": task_id}}
            full = {"progressToken": token, "progress": 1, "total": 4, "message": "asking", "_meta": about}
            assert progress == ([full] if token else [])
            assert "input_required" in {item["params"].get("status") for item in told}
            assert (await two.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"


@asynccontextmanager
async def listens(peer: OldPeer) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    headers = {**peer.written("", {})[1], "accept": "text/event-stream"}
    async with peer.http.stream("GET", peer.url, headers=headers) as answer:
        assert answer.status_code == 200
        yield messages(answer)


async def test_a_session_hears_of_its_own_tasks_over_its_stream(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=1) as (urls, seen, _):
        one, other = await greeted(urls[0]), await greeted(urls[0], "ann")
        other.session = one.session  # the id of a session is no secret that anything hangs on
        seen.answers.clear()
        async with listens(one) as heard, listens(other) as heard_elsewhere:
            ids = [(await peer.ask("tools/call", **HEALTH, task={}))["task"]["taskId"] for peer in (one, other)]
            seen.answers.set()
            for messages_of, task_id in ((heard, ids[0]), (heard_elsewhere, ids[1])):
                statuses = []
                async for message in messages_of:
                    assert (message["method"], message["params"]["taskId"]) == ("notifications/tasks/status", task_id)
                    statuses.append(message["params"]["status"])
                    if statuses[-1] == "completed":
                        break
                assert set(statuses) <= {"working", "completed"}


async def test_a_task_is_kept_as_long_as_its_client_asked_and_no_longer_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.gateway.operations.waiting_calls.GRACE_S", 0.0)

    async with play(tmp_path) as (urls, seen, _):
        one, two = await greeted(urls[0]), await greeted(urls[1])
        seen.answers.clear()
        for asked, given in ((100_000, 100_000), (1e18, 3_600_000), (-5, 1000)):
            task = (await one.ask("tools/call", **HEALTH, task={"ttl": asked}))["task"]
            assert given <= task["ttl"] <= given + 60_000
            task = await two.ask("tasks/get", taskId=task["taskId"])
            assert given <= task["ttl"] <= given + 60_000
        short = (await one.ask("tools/call", **HEALTH, task={"ttl": 1}))["task"]["taskId"]
        kept = (await one.ask("tools/call", **HEALTH, task={}))["task"]["taskId"]
        seen.answers.set()
        assert (await one.ask("tasks/result", taskId=kept))["isError"] is False
        while "status" in (gone := await two.ask("tasks/get", taskId=short)):
            pass
        assert gone["code"] == -32602
        assert (await one.ask("tasks/result", taskId=short))["code"] == -32602
        listed = {task["taskId"] for task in (await two.ask("tasks/list"))["tasks"]}
        assert kept in listed
        assert short not in listed
