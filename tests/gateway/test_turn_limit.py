"""The turn limit in a running gateway: what counts as a turn, whose it is, and what becomes of a call that is one too many."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from tests.redis_server import RedisServer
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"},
        {"id": "asks", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
        {"id": "users", "to": ["user"], "tools": ["orders__*"], "verdict": "allow"},
    ],
    "approvals": {"approvers": ["user"]},
}
HEALTH = "orders__get_health"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Caller:
    """A client of one gateway. Each way of calling says how the call ended: "ok" or a code."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        headers = {"authorization": "Bearer key-of-bot", "accept": "application/json"}
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(App(gateway)), base_url="http://127.0.0.1", headers=headers
        )

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return await self._http.post(path, json=body, headers=headers)

    async def rest(self, conversation: str = "c", tool: str = HEALTH, **headers: str) -> str:
        named = {"x-conversation-id": conversation} if conversation else {}
        body = {} if tool == HEALTH else {"wait": 0}
        answer = (await self.post(f"/v1/tools/{tool}/call", body, **named, **headers)).json()
        return "ok" if answer["status"] == "ok" else str(answer["error"]["code"])

    async def batch(self, count: int, conversation: str = "c") -> list[str]:
        calls = [{"name": HEALTH, "args": {}, "id": str(number)} for number in range(count)]
        answers = (await self.post("/v1/tool_calls", calls, **{"x-conversation-id": conversation})).json()
        return ["ok" if one["status"] == "success" else one["content"].partition(":")[0] for one in answers]

    async def python(self, conversation: str = "c") -> str:
        envelope = await self.gateway.call(HEALTH, {}, principal="bot", session=conversation)
        return envelope.error.code if envelope.error else envelope.status

    async def mcp(self, protocol_style: str, conversation: str = "", **headers: str) -> str:
        meta = (META if protocol_style == "2026-07-28" else {}) | (
            {"conversationId": conversation} if conversation else {}
        )
        headers |= {"mcp-protocol-version": protocol_style, "mcp-method": "tools/call", "mcp-name": HEALTH}
        params = {"name": HEALTH, "arguments": {}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = (await self.post("/mcp", body, **headers)).json()["result"]
        return result["content"][0]["text"].partition(":")[0] if result["isError"] else "ok"

    async def mcp_2025(self, conversation: str = "c") -> str:
        return await self.mcp("2025-11-25", conversation)

    async def mcp_2026(self, conversation: str = "c") -> str:
        return await self.mcp("2026-07-28", conversation)


@asynccontextmanager
async def play(root: Path, policy: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Caller of a gateway of its own, and its API."""

    with upstream() as (seen, server):
        path = project(root / "p", server, policy or POLICY, **{"gateway": {"turn_limit": 4}, **settings})
        async with asyncio.timeout(120), Gateway.load(path) as gateway:
            yield Caller(gateway), seen


async def test_the_fifth_turn_is_refused_recorded_and_told_what_to_do(tmp_path: Path) -> None:
    async with play(tmp_path) as (caller, seen):
        assert [await caller.rest() for _ in range(4)] == ["ok"] * 4
        answer = await caller.post(f"/v1/tools/{HEALTH}/call", {}, **{"x-conversation-id": "c"})
        assert answer.status_code == 429
        assert 3590 <= int(answer.headers["retry-after"]) <= 3600
        error = answer.json()["error"]
        assert (error["code"], error["rule"]) == ("turn_limit", "turn_limit")
        assert "4 turns" in error["message"]
        assert "known facts" in error["suggestion"]
        assert len(seen.requests) == 4
        entry = audit_entries(caller.gateway, limit=1)[0]
        wanted = {
            "event": "outcome",
            "status": "refused",
            "code": "turn_limit",
            "verdict": "deny",
            "rule": "turn_limit",
        }
        assert wanted.items() <= entry.items()
        assert await caller.rest("another") == "ok"
        assert [await caller.rest("") for _ in range(6)] == ["ok"] * 6


@pytest.mark.parametrize("way", ["rest", "python", "mcp_2025", "mcp_2026"])
async def test_every_front_end_counts_the_same_turns(way: str, tmp_path: Path) -> None:
    async with play(tmp_path) as (caller, seen):
        assert await caller.batch(8) == ["ok"] * 8  # one turn
        seen.answers.clear()
        together = [asyncio.create_task(getattr(caller, way)()) for _ in range(8)]
        await asyncio.to_thread(seen.reached, 16)
        seen.answers.set()
        assert await asyncio.gather(*together) == ["ok"] * 8  # the second
        assert [await getattr(caller, way)() for _ in range(3)] == ["ok", "ok", "turn_limit"]
        assert await caller.batch(3) == ["turn_limit"] * 3
        assert await caller.rest() == "turn_limit"
        assert len(seen.requests) == 18


async def test_a_transports_own_session_is_no_conversation(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1}) as (caller, _):
        session = {"mcp-session-id": "0" * 32}
        assert [await caller.mcp("2025-11-25", **session) for _ in range(6)] == ["ok"] * 6
        assert audit_entries(caller.gateway, limit=2)[1]["session"] == "0" * 32
        params = {"name": HEALTH, "arguments": {}}
        lines = b"".join(
            msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}) + b"\n"
            for number in range(6)
        )
        sink = io.BytesIO()
        await serve_streams(caller.gateway, caller.gateway.principal("bot"), io.BytesIO(lines), sink)
        answers = [msgspec.json.decode(line) for line in sink.getvalue().splitlines()]
        assert [answer["result"]["isError"] for answer in answers] == [False] * 6


async def test_the_conversation_that_stdio_names_is_counted(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1}) as (caller, _):
        params = {"name": HEALTH, "arguments": {}, "_meta": {"conversationId": "c"}}
        line = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + b"\n"
        ends = []
        for _ in range(2):
            sink = io.BytesIO()
            await serve_streams(caller.gateway, caller.gateway.principal("bot"), io.BytesIO(line), sink)
            ends.append(msgspec.json.decode(sink.getvalue())["result"]["isError"])
        assert ends == [False, True]


async def test_a_user_that_is_acted_for_has_turns_of_its_own(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1}) as (caller, _):
        assert [await caller.rest() for _ in range(2)] == ["ok", "turn_limit"]
        assert [await caller.rest(**{"x-on-behalf-of": "ann"}) for _ in range(2)] == ["ok", "turn_limit"]
        assert await caller.rest(**{"x-on-behalf-of": "eve"}) == "ok"


async def test_a_call_one_too_many_tells_nothing_of_what_there_is(tmp_path: Path) -> None:
    """An unknown tool, a hidden one and an allowed one are refused in the same words."""

    policy = {**POLICY, "rules": [{"id": "one", "to": ["bot"], "tools": [HEALTH], "verdict": "allow"}]}
    async with play(tmp_path, policy, gateway={"turn_limit": 1}) as (caller, _):
        assert await caller.rest() == "ok"
        errors = []
        for tool in (HEALTH, "orders__delete_order", "orders__nothing"):
            answer = await caller.post(f"/v1/tools/{tool}/call", {}, **{"x-conversation-id": "c"})
            error = answer.json()["error"]
            errors.append((answer.status_code, error["code"], error["message"], error["rule"]))
        assert len(set(errors)) == 1


async def test_what_a_person_approved_is_carried_out_without_another_turn(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1}) as (caller, seen):
        assert await caller.rest(tool="orders__send_mail") == "approval_required"
        assert await caller.rest() == "turn_limit"
        approvals = caller.gateway.approvals
        (waiting,) = await approvals.answerable(caller.gateway.principal("ann"))
        await approvals.decide(waiting.id, approve=True, note="", principal=caller.gateway.principal("ann"))
        envelope = await approvals.calls.outcome(waiting.id, caller.gateway.principal("bot"), 20.0)
        assert envelope is not None
        assert envelope.status == "ok"
        assert [path for _, path, _ in seen.requests] == ["/mail"]


async def test_a_caller_that_leaves_begins_no_turn_beside_what_it_left(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1}) as (caller, seen):
        seen.answers.clear()
        left = asyncio.create_task(caller.python())
        await asyncio.to_thread(seen.reached, 1)
        left.cancel()
        await asyncio.wait((left,))
        joined = asyncio.create_task(caller.python())
        await asyncio.to_thread(seen.reached, 2)
        seen.answers.set()
        assert await joined == "ok"


async def test_searching_a_catalog_takes_no_turn_and_the_call_inside_run_tool_does(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": 1, "search_above": 0}) as (caller, _):
        for _ in range(3):
            found = await caller.gateway.call("search_tools", {"query": "health"}, principal="bot", session="c")
            assert found.status == "ok"
        inner = {"name": HEALTH, "arguments": {}}
        ends = [await caller.gateway.call("run_tool", inner, principal="bot", session="c") for _ in range(2)]
        assert [end.status for end in ends] == ["ok", "refused"]


@pytest.mark.parametrize(("given", "ok"), [(1, 1), (7, 7), ("never", 10)])
async def test_the_limit_is_what_toolgen_yaml_says(given: int | str, ok: int, tmp_path: Path) -> None:
    async with play(tmp_path, gateway={"turn_limit": given}) as (caller, _):
        ends = [await caller.rest() for _ in range(10)]
        assert ends == ["ok"] * ok + ["turn_limit"] * (10 - ok)


async def test_a_conversation_has_fifty_turns_unless_toolgen_yaml_says_otherwise(tmp_path: Path) -> None:
    async with play(tmp_path, gateway={}) as (caller, _):
        assert [await caller.python() for _ in range(51)] == ["ok"] * 50 + ["turn_limit"]


@pytest.mark.parametrize("given", [0, -1, "4", "sometimes"])
def test_any_other_limit_is_an_error_with_its_line(given: object, tmp_path: Path) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:9", POLICY, gateway={"turn_limit": given})
    with pytest.raises(ConfigError, match=r"turn_limit: .*never"):
        load(path)


async def test_gateways_that_share_a_redis_share_the_turns_and_refuse_what_they_cannot_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.state.pauses.FRESH_S", 60.0)  # whether turns can be counted is the question here
    redis = RedisServer(tmp_path)
    redis.start()
    state = f"redis://127.0.0.1:{redis.port}/0"

    with upstream() as (seen, server):
        paths = [
            project(tmp_path / name, server, POLICY, state=state, gateway={"turn_limit": 4}) for name in ("one", "two")
        ]
        try:
            one = paths[0]
            two = paths[1]
            async with asyncio.timeout(120), Gateway.load(one) as first, Gateway.load(two) as second:
                callers = (Caller(first), Caller(second))
                assert [await callers[number % 2].rest() for number in range(6)] == ["ok"] * 4 + ["turn_limit"] * 2
                assert await callers[0].batch(64, "d") == ["ok"] * 64
                seen.answers.clear()
                before = len(seen.requests)
                together = [asyncio.create_task(callers[number % 2].python("d")) for number in range(6)]
                await asyncio.to_thread(seen.reached, before + 6)
                seen.answers.set()
                assert await asyncio.gather(*together) == ["ok"] * 6
                assert [await callers[number % 2].mcp_2026("d") for number in range(3)] == ["ok", "ok", "turn_limit"]
                before = len(seen.requests)
                redis.stop()
                assert await callers[0].rest("e") == "upstream_unavailable"
                assert len(seen.requests) == before
        finally:
            redis.stop()
    assert json.loads(paths[0].read_text())["state"] == state
