"""Mutations are off until a policy turns them on, whichever way a call comes in: nothing reaches the service, and then it does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import toolgen
from tests.cli.commands import runner
from tests.services.library import SDL, WRITTEN, application, serving
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

READER, WRITER = "key-of-reader", "key-of-writer"
ADD = {"title": "x"}
DOCUMENTS = (
    'mutation { addBook(title: "x") { id } }',
    'mutation { __typename addBook(title: "x") { id } }',
    'mutation { ... on Mutation { addBook(title: "x") { id } } }',
    'mutation { ...F } fragment F on Mutation { addBook(title: "x") { id } }',
    'mutation { a: addBook(title: "x") { id } b: addBook(title: "x") { id } }',
)
CALLS = [
    ("lib__add_book", ADD),
    ("lib__add_book", {**ADD, "fields": "{ id }"}),
    *(("lib__run_mutation", {"query": document}) for document in DOCUMENTS),
    *(("lib__run_query", {"query": document}) for document in DOCUMENTS),
    ("lib__run_query", {"query": f"query A {{ whole {{ __typename }} }} {DOCUMENTS[0]}"}),
]


def _hash(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Iterator[Path]:
    policy = {
        "principals": {
            "reader": {"api_key": _hash(READER), "roles": ["reader"]},
            "writer": {"api_key": _hash(WRITER), "roles": ["writer"]},
        },
        "rules": [
            {"id": "reads", "to": ["reader"], "tools": ["lib__*"], "effects": ["read"], "verdict": "allow"},
            {
                "id": "writes",
                "to": ["writer"],
                "tools": ["lib__*"],
                "effects": ["read", "write", "destructive"],
                "verdict": "allow",
            },
        ],
        "egress": {"private_networks": "allow"},
    }
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (tmp_path / "lib.graphql").write_text(SDL, encoding="utf-8")
    WRITTEN.clear()
    with serving(application()) as origin:
        source = {"graphql": "lib.graphql", "endpoint": f"{origin}/graphql", "queries": True}
        said = {"sources": {"lib": source}, "audit": {"dir": "audit"}, "gateway": {"search_above": 0}}
        path = tmp_path / "toolgen.yaml"
        path.write_text(json.dumps(said), encoding="utf-8")
        yield path


@asynccontextmanager
async def scenario(path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            yield client


def headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}


async def over_mcp(client: httpx.AsyncClient, key: str, name: str, arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return (await client.post("/mcp", json=message, headers=headers(key))).json()


async def test_no_front_end_lets_a_reader_write(path: Path) -> None:
    async with scenario(path) as client:
        for name, arguments in CALLS:
            rest = await client.post(f"/v1/tools/{name}/call", json={"arguments": arguments}, headers=headers(READER))
            assert rest.status_code in {400, 403, 404}, (name, arguments, rest.text)
            told = await over_mcp(client, READER, name, arguments)
            assert "error" in told or told["result"]["isError"] is True
            inner = {"name": name, "arguments": arguments}
            stood_in = await over_mcp(client, READER, "run_tool", inner)
            assert "error" in stood_in or stood_in["result"]["isError"] is True
        batch = [
            {"type": "tool_call", "id": str(index), "name": name, "args": arguments}
            for index, (name, arguments) in enumerate(CALLS)
        ]
        answer = await client.post("/v1/tool_calls", json=batch, headers=headers(READER))
        assert {one["status"] for one in answer.json()} == {"error"}
        found = await client.get("/v1/tools?q=add+a+book", headers=headers(READER))
        assert "lib__add_book" not in found.text
        assert "run_mutation" not in found.text
        described = await over_mcp(client, READER, "run_tool", {"name": "lib__describe_types", "arguments": {}})
        assert "addBook" not in json.dumps(described)
    assert WRITTEN == []


async def test_every_front_end_lets_a_writer_write(path: Path) -> None:
    async with scenario(path) as client:
        call = {"name": "lib__add_book", "arguments": ADD}
        rest = await client.post("/v1/tools/lib__add_book/call", json={"arguments": ADD}, headers=headers(WRITER))
        assert rest.status_code == 200, rest.text
        assert (await over_mcp(client, WRITER, "lib__add_book", ADD))["result"]["isError"] is False
        assert (await over_mcp(client, WRITER, "run_tool", call))["result"]["isError"] is False
        batch = [{"type": "tool_call", "id": "1", "name": "lib__run_mutation", "args": {"query": DOCUMENTS[0]}}]
        answer = await client.post("/v1/tool_calls", json=batch, headers=headers(WRITER))
        assert [one["status"] for one in answer.json()] == ["success"], answer.text
        hidden = await client.post(
            "/v1/tools/lib__run_query/call", json={"arguments": {"query": DOCUMENTS[0]}}, headers=headers(WRITER)
        )
        assert hidden.status_code == 403
    assert WRITTEN == ["x"] * 4


def test_the_command_line_and_a_preview_write_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(path.parent)
    run = runner(capsysbinary)
    assert run("build").code == 0
    for name, arguments in CALLS:
        for dry in ((), ("--dry-run",)):
            assert run("call", name, "--args", json.dumps(arguments), "--as", "reader", *dry).code == 1
    shown = run("call", "lib__add_book", "--args", json.dumps(ADD), "--as", "writer", "--dry-run")
    assert shown.code == 0
    assert shown.json()["variables"] == ADD
    manifest = toolgen.build("lib.graphql")
    name = next(one for one in manifest.tools if one.endswith("__add_book"))
    assert toolgen.preview(manifest, name, ADD)["variables"] == ADD
    assert WRITTEN == []
    assert run("call", "lib__add_book", "--args", json.dumps(ADD), "--as", "writer").code == 0
    assert WRITTEN == ["x"]
