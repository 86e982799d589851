"""Two callers with equal names for everything: sessions, conversations, keys of calls, limits and tools. Neither uses up, reads, joins or
counts what belongs to the other one, be it another principal or the same principal of another tenant."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from tests.gateway.clients import bearer
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import ended
from tests.gateway.tenants import OTHER, OWN, Boundary, beside, strangers, tenants
from tests.stream_servers import stream_server
from toolgen.audit.reader import entries

ALL: dict[str, Any] = {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
ASKS: dict[str, Any] = {"id": "asks", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}
HEALTH, MAIL, ORDER, FRAUD = "orders__get_health", "orders__send_mail", "orders__create_order", "orders__check_fraud"
BODY = {"tenant_id": "a", "amount_cents": 1}


def key_hash(key: str) -> str:
    """The form in which a policy has a key."""
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


async def searched(http: httpx.AsyncClient, query: dict[str, str]) -> list[dict[str, Any]]:
    """Entries and calls that a search of the record finds."""
    found: list[dict[str, Any]] = []
    for path, name in (("/v1/audit", "entries"), ("/v1/audit/calls", "calls")):
        answer = await http.get(path, params=query)
        found += answer.json().get(name, [])
    return found


class Caller:
    """Caller over REST who names the same session in each call."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The envelope of a call."""
        body = {"arguments": arguments or {}, **more}
        answer = await self.http.post(f"/v1/tools/{tool}/call", json=body, headers={"x-conversation-id": "session-1"})
        found: dict[str, Any] = answer.json()
        return found

    async def code(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> str:
        """The code of the error of a call, "ok" without one."""
        found = await self.call(tool, arguments, **more)
        return "ok" if found["status"] == "ok" else str(found["error"]["code"])


@asynccontextmanager
async def two_callers(
    root: Path, stranger: str, policy: dict[str, Any], **settings: Any
) -> AsyncIterator[tuple[Caller, Caller, Boundary, Upstream]]:
    """Two callers with all the rights of `bot` at one API; see `strangers` for the second one."""
    with upstream() as (seen, server):
        given = {"gateway": {"turn_limit": "never", "pending_after": "60s"}, **settings}
        path = project(root / "p", server, {"rules": [ALL], "approvals": {"approvers": ["user"]}, **policy}, **given)
        async with asyncio.timeout(120), beside(path, stranger) as boundary:
            places = ((boundary.url, bearer("key-of-bot")), (boundary.other_url, boundary.headers()))
            async with (
                httpx.AsyncClient(base_url=places[0][0], headers=places[0][1], timeout=60) as mine,
                httpx.AsyncClient(base_url=places[1][0], headers=places[1][1], timeout=60) as theirs,
            ):
                yield Caller(mine), Caller(theirs), boundary, seen


@strangers
async def test_nobody_uses_up_the_limit_of_another(tmp_path: Path, stranger: str) -> None:
    limits = [{"id": "few", "per": ["principal"], "rate": "1/h", "burst": 3}]
    async with two_callers(tmp_path, stranger, {"limits": limits}) as (mine, theirs, _, _):
        for one in (mine, theirs):
            assert [await one.code(HEALTH) for _ in range(4)] == ["ok", "ok", "ok", "rate_limited"]
        assert await mine.code(HEALTH) == "rate_limited"


@tenants
async def test_a_limit_for_all_is_for_all_of_one_tenant(tmp_path: Path, stranger: str) -> None:
    limits = [{"id": "few", "rate": "1/h", "burst": 2}, {"id": "busy", "per": ["tool"], "rate": "1/h", "burst": 2}]
    async with two_callers(tmp_path, stranger, {"limits": limits}) as (mine, theirs, _, _):
        for one in (mine, theirs):
            assert [await one.code(HEALTH) for _ in range(3)] == ["ok", "ok", "rate_limited"]


@strangers
async def test_turns_of_a_conversation_are_those_of_its_caller(tmp_path: Path, stranger: str) -> None:
    async with two_callers(tmp_path, stranger, {}, gateway={"turn_limit": 2}) as (mine, theirs, _, _):
        for one in (mine, theirs):
            assert [await one.code(HEALTH) for _ in range(3)] == ["ok", "ok", "turn_limit"]


@strangers
async def test_nobody_is_given_the_kept_answer_of_another(tmp_path: Path, stranger: str) -> None:
    tools = {HEALTH: {"cache": {"ttl": "1h", "stale_if_error": "1h"}}}
    async with two_callers(tmp_path, stranger, {}, tools=tools) as (mine, theirs, _, seen):
        seen.body = b'{"for":"one"}'
        for _ in range(2):
            assert (await mine.call(HEALTH))["data"] == {"for": "one"}
        seen.body = b'{"for":"the other"}'
        for _ in range(2):
            assert (await theirs.call(HEALTH))["data"] == {"for": "the other"}
        assert len(seen.requests) == 2
        assert (await mine.call(HEALTH))["data"] == {"for": "one"}


@strangers
async def test_nobody_waits_for_the_request_of_another(tmp_path: Path, stranger: str) -> None:
    """Equal reads of one caller at the same time are one request."""
    async with two_callers(tmp_path, stranger, {}, tools={HEALTH: {"cache": "1h"}}) as (mine, theirs, _, seen):
        seen.answers.clear()
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(one.code(HEALTH)) for one in (mine, theirs)]
            await asyncio.to_thread(seen.reached, 2)
            seen.answers.set()
        assert {call.result() for call in calls} == {"ok"}


@strangers
async def test_a_token_in_place_of_a_value_stands_for_nothing_to_another(tmp_path: Path, stranger: str) -> None:
    back = {"to": ["bot"], "tools": [MAIL], "kinds": ["email"], "arguments": ["to"]}
    detectors = [{"detector": "personal_data", "then": "tokenise"}]
    async with two_callers(tmp_path, stranger, {"tokens": [back]}, inspect_results=detectors) as places:
        mine, theirs, _, seen = places
        seen.body = b'{"a":"ann.lee@mail.fr"}'
        assert (await mine.call(HEALTH))["data"] == {"a": "<email:1>"}
        seen.body = b"{}"
        assert await theirs.code(MAIL, {"to": "<email:1>"}) == "validation"
        assert len(seen.requests) == 1
        assert await mine.code(MAIL, {"to": "<email:1>"}) == "ok"
        assert seen.requests[-1][2] == '{"to":"ann.lee@mail.fr"}'


@strangers
async def test_a_session_remembers_the_calls_and_labels_of_its_caller(tmp_path: Path, stranger: str) -> None:
    rules = [
        ALL,
        {"id": "checked", "to": ["bot"], "tools": [ORDER], "verdict": "deny", "when": f"!session.called('{FRAUD}')"},
        {"id": "closed", "to": ["bot"], "tools": [MAIL], "verdict": "deny", "when": "'private' in session.labels"},
    ]
    async with two_callers(tmp_path, stranger, {"rules": rules}, inspect_results=["personal_data"]) as places:
        mine, theirs, _, seen = places
        seen.body = b'{"a":"ann.lee@mail.fr"}'
        assert await mine.code(FRAUD) == "ok"
        seen.body = b"{}"
        assert [await one.code(ORDER, BODY) for one in (mine, theirs)] == ["ok", "forbidden"]
        assert [await one.code(MAIL, {"to": "x"}) for one in (mine, theirs)] == ["forbidden", "ok"]


@strangers
async def test_a_key_of_a_call_is_that_of_its_caller(tmp_path: Path, stranger: str) -> None:
    """The same key with the same arguments."""
    async with two_callers(tmp_path, stranger, {}) as (mine, theirs, _, seen):
        made = [await one.call(ORDER, BODY, idempotency_key="one-key") for one in (mine, theirs, mine, theirs)]
        assert {one["status"] for one in made} == {"ok"}
        ids = [one["call_id"] for one in made]
        assert (ids[0], ids[1], len(set(ids))) == (ids[2], ids[3], 2)
        assert len(seen.requests) == 2


@strangers
async def test_equal_calls_that_wait_are_two_and_a_yes_is_for_one(tmp_path: Path, stranger: str) -> None:
    async with two_callers(tmp_path, stranger, {"rules": [ALL, ASKS]}) as (mine, theirs, boundary, seen):
        ids = [(await one.call(MAIL, {"to": "x"}, wait=0))["call_id"] for one in (mine, theirs)]
        assert ids[0] != ids[1]
        async with httpx.AsyncClient(base_url=boundary.url, headers=boundary.headers("ann")) as ann:
            listed = (await ann.get("/v1/approvals")).json()["approvals"]
            assert (ids[1] in json.dumps(listed)) is (stranger == "principal")
            agreed = await ann.post(f"/v1/approvals/{ids[0]}", json={"decision": "approve"})
            assert agreed.status_code == 200, agreed.text
        assert (await ended(mine.http, ids[0])).json()["status"] == "ok"
        assert (await theirs.http.get(f"/v1/calls/{ids[1]}")).json()["status"] == "pending"
        assert len(seen.requests) == 1


@tenants
async def test_numbers_and_entries_of_a_tenant_are_about_its_own_calls(tmp_path: Path, stranger: str) -> None:
    reviewer = {"principals": {"bot": {"api_key": key_hash("key-of-bot"), "roles": ["bot", "reviewer", "user"]}}}
    async with two_callers(tmp_path, stranger, {"rules": [ALL, ASKS], **reviewer}) as (mine, theirs, _, _):
        ids = [(await mine.call(HEALTH))["call_id"] for _ in range(3)]
        await mine.call(MAIL, {"to": "x"}, wait=0)
        assert (await theirs.call(FRAUD))["status"] == "ok"
        found = (await theirs.http.get("/metrics?detail=all")).text
        calls = [line for line in found.splitlines() if line.startswith("toolgen_calls_total{")]
        assert sum(int(line.rpartition(" ")[2]) for line in calls) == 1
        assert HEALTH not in found
        assert MAIL not in found
        assert FRAUD in found
        (waiting,) = [line for line in found.splitlines() if line.startswith("toolgen_approvals_waiting{")]
        assert waiting.endswith(" 0")
        listed = (await theirs.http.get("/v1/audit/calls")).json()["calls"]
        assert [call["tool"] for call in listed] == [FRAUD]
        for query in ({"tool": HEALTH}, {"q": HEALTH}, {"call_id": ids[0]}, {"principal": "bot", "tool": MAIL}):
            assert not {*ids} & {one.get("call_id") for one in await searched(theirs.http, query)}
        own = (await mine.http.get("/v1/audit/calls")).json()["calls"]
        assert {call["tool"] for call in own} == {HEALTH, MAIL}
        cursor = (await mine.http.get("/v1/audit/calls", params={"limit": 1})).json()["next_cursor"]
        assert cursor
        turned = await theirs.http.get("/v1/audit/calls", params={"limit": 1, "cursor": cursor})
        assert not [one for one in ids if one in turned.text]


@tenants
async def test_a_tool_that_one_tenant_adds_is_unknown_to_another(tmp_path: Path, stranger: str) -> None:
    rules = [ALL, {"id": "added", "to": ["bot"], "tools": ["added__*"], "verdict": "allow"}]

    def whose() -> str:
        """Names the owner of the invoices."""
        return OWN

    async with two_callers(tmp_path, stranger, {"rules": rules}) as (mine, theirs, boundary, _):
        await boundary.gateway.tools.add(whose, effect="read")
        assert (await mine.call("added__whose"))["data"] == OWN
        unknown = [
            await theirs.http.post(f"/v1/tools/{tool}/call", json={}) for tool in ("added__whose", "added__other")
        ]
        assert [one.status_code for one in unknown] == [404, 404]
        assert unknown[0].text.replace("whose", "other").split("call_id")[0] == unknown[1].text.split("call_id")[0]
        for query in ({}, {"q": "owner of the invoices"}):
            assert "added__whose" in (await mine.http.get("/v1/tools", params=query)).text
            assert "added__whose" not in (await theirs.http.get("/v1/tools", params=query)).text


async def test_what_is_copied_in_redis_from_one_tenant_to_another_is_worth_nothing_there(tmp_path: Path) -> None:
    """Whoever may write in Redis copies all keys of one tenant over those of another, with a call that waits and a used key of a call."""
    async with two_callers(tmp_path, "twin", {"rules": [ALL, ASKS]}) as (mine, theirs, boundary, seen):
        assert boundary.redis is not None
        ids = [(await mine.call(MAIL, {"to": "x"}, wait=0))["call_id"]]
        ids.append((await mine.call(ORDER, BODY, idempotency_key="one-key"))["call_id"])
        own = (await theirs.call(MAIL, {"to": "y"}, wait=0))["call_id"]
        made = len(seen.requests)
        redis = Redis(port=boundary.redis.port)
        names = [name for name in redis.scan_iter() if isinstance(name, bytes)]
        assert {name.partition(b":")[0].decode() for name in names} == {"p", OTHER}
        for name in names:
            if name.startswith(b"p:"):
                redis.copy(name, OTHER.encode() + name[1:], replace=True)
        redis.close()
        assert own not in ids
        assert (await theirs.http.get(f"/v1/calls/{ids[0]}")).status_code >= 400
        async with httpx.AsyncClient(base_url=boundary.other_url, headers=boundary.headers("ann")) as ann:
            listed = await ann.get("/v1/approvals")
            assert ids[0] not in listed.text
            agreed = await ann.post(f"/v1/approvals/{ids[0]}", json={"decision": "approve"})
            assert agreed.status_code >= 400
        again = await theirs.call(ORDER, BODY, idempotency_key="one-key")
        assert again.get("call_id") not in ids
        assert again.get("status") != "ok"
        assert not [body for _, path, body in seen.requests[made:] if path == "/mail"]
        assert (await mine.http.get(f"/v1/calls/{ids[0]}")).json()["status"] == "pending"
        kept = [one for one in entries(tmp_path / OTHER / "var" / "audit") if one.get("call_id") in ids]
        assert kept == []


@tenants
async def test_no_request_of_one_tenant_uses_a_connection_of_another(tmp_path: Path, stranger: str) -> None:
    connections: list[list[str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: list[str] = []
        connections.append(asked)
        while head := await reader.readuntil(b"\r\n\r\n"):
            asked.append(head.split(b" ")[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()

    async with stream_server(serve) as port:
        root = tmp_path / "p"
        path = project(root, f"http://127.0.0.1:{port}", {"rules": [ALL]})
        async with asyncio.timeout(120), beside(path, stranger) as boundary, httpx.AsyncClient(timeout=60) as http:
            places = ((boundary.url, bearer("key-of-bot"), "mine"), (boundary.other_url, boundary.headers(), "theirs"))
            for url, headers, name in places * 2:
                body = {"arguments": {"order": name}}
                answer = await http.post(f"{url}/v1/tools/{FRAUD}/call", json=body, headers=headers)
                assert answer.json()["status"] == "ok", answer.text
    assert connections == [["/check?order=mine"] * 2, ["/check?order=theirs"] * 2]
