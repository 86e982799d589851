"""The front ends over the real gateway: a project on disk, a SQLite database, and the audit log it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.clients import BASE, JSON, bearer, listening
from tests.projects import audit_entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.protocol import Facade

BOT_KEY = "bot-key-0123456789"
CLERK_KEY = "clerk-key-0123456789"
REVIEWER_KEY = "reviewer-key-0123456789"
CALL = "/v1/tools/shop__query/call"


def _hash(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


POLICY = f"""
principals:
  bot: {{api_key: "{_hash(BOT_KEY)}", roles: [support]}}
  clerk: {{api_key: "{_hash(CLERK_KEY)}", roles: [clerk]}}
  auditor: {{api_key: "{_hash(REVIEWER_KEY)}", roles: [reviewer]}}
rules:
  - {{id: reads, to: [support], tools: ["shop__*"], effects: [read], verdict: allow}}
  - {{id: tables, to: [clerk], tools: [shop__list_tables], verdict: allow}}
sql:
  shop:
    tables: {{customers: {{columns: [id, name]}}}}
    max_rows: 10
    timeout: 2s
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """toolgen.yaml of a small shop."""
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("create table customers (id integer primary key, name text, phone text)")
        database.executemany("insert into customers values (?, ?, ?)", [(1, "Ann", "555-1"), (2, "Bo", "555-2")])
        database.commit()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "shop.yaml").write_text(POLICY, encoding="utf-8")
    path = tmp_path / "toolgen.yaml"
    path.write_text(
        "sources:\n  shop: {sql: 'sqlite:///shop.db'}\npolicies: policies/\naudit: {dir: audit}\n", encoding="utf-8"
    )
    return path


@contextlib.asynccontextmanager
async def gateway_of(path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.load(path) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def http_on(gateway: Facade, key: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(App(gateway))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(key)) as http:
        yield http


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_queries_the_database(project: Path, mode: str) -> None:
    async with (
        gateway_of(project) as gateway,
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer(BOT_KEY)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        names = [item.name for item in (await client.list_tools()).tools]
        assert names == ["shop__describe_table", "shop__explain", "shop__list_tables", "shop__query"]
        rows = await client.call_tool("shop__query", {"sql": "select name from customers order by id"})
        assert rows.is_error is False
        assert rows.structured_content is None
        assert rows.content[0].type == "text"
        assert '[["Ann"],["Bo"]]' in rows.content[0].text
        refused = await client.call_tool("shop__query", {"sql": "select phone from customers"})
        assert refused.is_error is True
        assert refused.content[0].type == "text"
        assert refused.content[0].text.startswith("sql_refused: ")


async def test_rest_queries_the_database_and_the_record_names_the_conversation(project: Path) -> None:
    async with gateway_of(project) as gateway, http_on(gateway, BOT_KEY) as http:
        body = msgspec.json.encode({"arguments": {"sql": "select name from customers where id = 2"}})
        headers = JSON | {"x-conversation-id": "talk-1", "user-agent": "tester/1"}
        answer = await http.post(CALL, headers=headers, content=body)
        assert (answer.status_code, answer.json()["data"]["rows"]) == (200, [["Bo"]])
        async with http_on(gateway, REVIEWER_KEY) as review:
            entry = (await review.get(f"/v1/audit/{answer.json()['meta']['audit_seq']}")).json()
            assert entry["call_id"] == answer.json()["call_id"]
            entries = (await review.get("/v1/audit")).json()["entries"]
    intent = next(item for item in entries if item["event"] == "intent")
    assert (intent["principal"], intent["session"], intent["client"]) == ("bot", "talk-1", "tester/1")


@pytest.mark.parametrize(
    ("key", "name", "arguments", "status", "code"),
    [
        (CLERK_KEY, "shop__query", {"sql": "select 1"}, 404, "unknown_tool"),
        (CLERK_KEY, "shop__nothing", {}, 404, "unknown_tool"),
        (CLERK_KEY, "../../etc", {}, 404, "not_found"),
        (BOT_KEY, "shop__query", {}, 400, "validation"),
        (BOT_KEY, "shop__query", {"sql": "drop table customers"}, 403, "sql_refused"),
    ],
)
async def test_refusals_have_their_status(
    project: Path, key: str, name: str, arguments: dict[str, str], status: int, code: str
) -> None:
    async with gateway_of(project) as gateway, http_on(gateway, key) as http:
        body = msgspec.json.encode({"arguments": arguments})
        answer = await http.post(f"/v1/tools/{name}/call", headers=JSON, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_forbidden_tool_and_an_unknown_one_look_the_same(project: Path) -> None:
    shapes = []
    async with gateway_of(project) as gateway, http_on(gateway, CLERK_KEY) as http:
        for name in ("shop__query", "shop__absent"):
            answer = (await http.post(f"/v1/tools/{name}/call", headers=JSON, content=b"{}")).json()
            shapes.append(msgspec.json.encode(answer["error"]).decode().replace(name, "NAME"))
    assert shapes[0] == shapes[1]


async def test_each_principal_is_listed_what_it_may_call(project: Path) -> None:
    async with gateway_of(project) as gateway:
        listed = {}
        for key in (BOT_KEY, CLERK_KEY, REVIEWER_KEY):
            async with http_on(gateway, key) as http:
                listed[key] = [item["name"] for item in (await http.get("/v1/tools")).json()["tools"]]
    assert len(listed[BOT_KEY]) == 4
    assert listed[CLERK_KEY] == ["shop__list_tables"]
    assert listed[REVIEWER_KEY] == []


async def test_a_call_whose_client_has_gone_leaves_its_outcome_on_record(project: Path) -> None:
    async with gateway_of(project) as gateway, http_on(gateway, BOT_KEY) as http:
        body = msgspec.json.encode({"arguments": {"sql": "select name from customers"}})
        request = asyncio.create_task(http.post(CALL, headers=JSON, content=body))
        while not gateway._running._tasks:  # noqa: ASYNC110  (nothing to wait on: the gateway announces no beginning)
            await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    events = [entry["event"] for entry in audit_entries(gateway) if entry.get("call_id")]
    assert sorted(events) == ["intent", "outcome"]


async def test_no_key_is_in_the_record_or_in_an_answer(project: Path) -> None:
    async with gateway_of(project) as gateway, http_on(gateway, BOT_KEY) as http:
        answer = await http.post(CALL, headers=JSON, content=b'{"arguments": {"sql": "select 1"}}')
        listed = await http.get("/v1/tools")
    record = b"".join(path.read_bytes() for path in (project.parent / "audit").rglob("*") if path.is_file())
    assert b"shop__query" in record
    assert BOT_KEY.encode() not in record + answer.content + listed.content
