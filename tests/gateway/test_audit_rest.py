"""/v1/audit over a real gateway and a real log of several streams: who may read it, what is found, and page after page."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.projects import KEY, POLICY, make_project
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

BASE = "http://127.0.0.1:8080"
REVIEWER_KEY = "reviewer-key"
REVIEWER_FOR = "agent-of-reviewers-key"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    agent = {"api_key": "sha256:" + hashlib.sha256(REVIEWER_FOR.encode()).hexdigest(), "roles": ["bot"]}
    principals = {**POLICY["principals"], "agent": {**agent, "acts_for": ["reviewer"]}}
    return make_project(tmp_path / "project", policy={**POLICY, "principals": principals})


@asynccontextmanager
async def http_on(gateway: Gateway, key: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(App(gateway)), base_url=BASE, headers=headers) as http:
        yield http


async def read(http: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await http.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_all_streams_are_read_by_reviewers_and_by_nobody_else(project: Path) -> None:
    async with Gateway.load(project) as one, Gateway.load(project) as other:
        for gateway, sql in ((one, "SELECT 1"), (other, "SELECT 2"), (other, "DROP TABLE customers")):
            await gateway.call("shop__query", {"sql": sql}, principal="bot")
        for gateway in (one, other):
            for key, more in ((KEY, {}), (REVIEWER_FOR, {}), (REVIEWER_FOR, {"x-on-behalf-of": "reviewer"})):
                async with http_on(gateway, key) as http:
                    for path in ("/v1/audit", "/v1/audit/calls", "/v1/audit/1", "/v1/audit?principal=bot"):
                        answer = await http.get(path, headers=more)
                        assert (answer.status_code, "SELECT" in answer.text) == (403, False)
            async with http_on(gateway, REVIEWER_KEY) as http:
                calls = (await read(http, "/v1/audit/calls"))["calls"]
                assert [call["arguments"]["sql"] for call in calls] == [
                    "DROP TABLE customers",
                    "SELECT 2",
                    "SELECT 1",
                ]
                assert {entry["stream"] for entry in (await read(http, "/v1/audit"))["entries"]} == {
                    "gateway-1",
                    "gateway-2",
                }
                refused = (await read(http, "/v1/audit?status=refused&event=outcome&tool=shop__*"))["entries"]
                assert [(entry["stream"], entry["code"]) for entry in refused] == [("gateway-2", "sql_refused")]
                told = await read(http, "/v1/audit/1", 400)
                assert "gateway-1, gateway-2" in told["error"]["message"]
                entry = await read(http, "/v1/audit/1?stream=gateway-2")
                assert (entry["seq"], entry["stream"], len(entry["hash"])) == (1, "gateway-2", 64)


async def test_pages_go_on_where_they_ended(project: Path) -> None:
    async with Gateway.load(project) as gateway, http_on(gateway, REVIEWER_KEY) as http:
        for number in range(5):
            await gateway.call("shop__query", {"sql": f"SELECT {number}"}, principal="bot")
        for path, name in (("/v1/audit?limit=3", "entries"), ("/v1/audit/calls?limit=2&principal=bot", "calls")):
            found, cursor = [], ""
            while True:
                page = await read(http, path + cursor)
                found += [row["seq"] for row in page[name]]
                if "next_cursor" not in page:
                    break
                cursor = f"&cursor={page['next_cursor']}"
            assert found == sorted(set(found), reverse=True)
            assert len(found) == {"entries": 10, "calls": 5}[name]
        cursor = (await read(http, "/v1/audit?limit=1"))["next_cursor"]
        await read(http, f"/v1/audit?principal=bot&cursor={cursor}", 404)
        for number in ("x", "-1", "1.0", "²", "0", "9999", "1" * 13):
            assert (await read(http, f"/v1/audit/{number}", 404))["error"]["code"] == "not_found"


async def test_a_log_that_was_changed_says_so_beside_what_is_whole(project: Path) -> None:
    async with Gateway.load(project) as gateway, http_on(gateway, REVIEWER_KEY) as http:
        for number in range(3):
            await gateway.call("shop__query", {"sql": f"SELECT {number}"}, principal="bot")
        path = project.parent / "var" / "audit" / "gateway-1.jsonl"
        changed = path.read_bytes().replace(b"SELECT 2", b"SELECT 9")
        with path.open("r+b") as file:
            file.write(changed)
        answer = await read(http, "/v1/audit/calls")
        assert len(answer["calls"]) == 2
        assert "after entry 4" in answer["warnings"][0]
