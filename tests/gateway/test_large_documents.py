"""Large GraphQL documents and schemas on a served gateway: other calls are answered while they are read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import bearer, listening
from tests.gateway.test_graphql_outcomes import HASH
from toolgen.connectors.graphql.compiled_schema import compile_schema
from toolgen.connectors.graphql.guard import check_document
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_SDL = """
input Filter { ids: [Int!] inner: Filter }
type Post { id: ID! title: String }
type Query { posts(first: Int, filter: Filter): [Post!]! }
"""
_POLICY: dict[str, Any] = {
    "principals": {"bot": {"api_key": HASH, "roles": ["bot"]}},
    "rules": [{"id": "all", "to": ["bot"], "tools": ["db__query", "g__*"], "verdict": "allow"}],
    "sql": {"db": {"tables": {"people": {}}}},
}
_FILTERED = "query ($f: Filter) { posts(first: 1, filter: $f) { id nope } }"
# Each is refused, so that no service is asked.
_LARGE: list[dict[str, Any]] = [
    {"query": "{ posts(first: 1) { " + "id " * 3_500 + "} }"},
    {"query": "{ posts(first: 1) { " + " ".join(f"f{number}" for number in range(1_000)) + " } }"},
    {"query": "{ posts(first: 1, filter: {ids: [" + "1 " * 3_000 + "]}) { nope } }"},
    {"query": "#" + "a" * 9_000 + "\n{ posts(first: 1) { nope } }"},
    {"query": _FILTERED, "variables": {"f": {"ids": ["x"] * 9_000}}},
    {"query": _FILTERED.replace(" nope", ""), "variables": {"f": {"inner": {"ids": [*range(9_000), "x"]}}}},
]
_WAIT_S = 20.0  # for the test to fail; nothing depends on it


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(_POLICY), encoding="utf-8")
    (tmp_path / "g.graphql").write_text(_SDL, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "p.db")) as connection:
        connection.executescript("create table people (id integer primary key, name text)")
    sources = {
        "db": {"sql": "sqlite:///p.db"},
        "g": {"graphql": "g.graphql", "endpoint": "https://api.example/graphql", "queries": True},
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return path


@contextlib.asynccontextmanager
async def _serving(path: Path) -> AsyncIterator[Callable[[str, dict[str, Any]], Any]]:
    async with (
        Gateway.load(path) as gateway,
        listening(App(gateway)) as url,
        httpx.AsyncClient(base_url=url, headers=bearer("key-of-bot"), timeout=_WAIT_S * 2) as client,
    ):

        async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return dict((await client.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})).json())

        yield call


async def test_calls_are_answered_while_a_large_document_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document is held up until the other calls were answered, which they are not if it is read on the event loop."""
    begun, answered = threading.Event(), threading.Event()

    def held(*given: Any, **named: Any) -> Any:
        begun.set()
        assert answered.wait(_WAIT_S), "no other call was answered while the document was read"
        return check_document(*given, **named)

    monkeypatch.setattr("toolgen.connectors.graphql.document_guard.check_document", held)

    async with _serving(path) as call:
        for arguments in _LARGE:
            begun.clear()
            answered.clear()
            document = asyncio.create_task(call("g__run_query", arguments))
            await asyncio.to_thread(begun.wait, _WAIT_S)
            others = [await call("db__query", {"sql": f"SELECT {number} AS n FROM people"}) for number in range(3)]
            answered.set()
            found = await document
            assert [other["status"] for other in others] == ["ok"] * 3
            assert (found["status"], found["error"]["rule"]) == ("refused", "graphql"), found


async def test_calls_are_answered_while_a_schema_is_compiled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answered = threading.Event(), threading.Event()

    def held(*given: Any) -> Any:
        begun.set()
        assert answered.wait(_WAIT_S), "no other call was answered while the schema was compiled"
        return compile_schema(*given)

    monkeypatch.setattr("toolgen.connectors.graphql.document_guard.compile_schema", held)
    async with _serving(path) as call:
        document = asyncio.create_task(call("g__run_query", {"query": "{ posts(first: 1) { nope } }"}))
        await asyncio.to_thread(begun.wait, _WAIT_S)
        other = await call("db__query", {"sql": "SELECT 1 AS n FROM people"})
        answered.set()
        found = await document
    assert other["status"] == "ok"
    assert found["error"]["rule"] == "graphql"
