"""Notes on hidden rows: each answer from a table with a note says that a part of its rows is seen, and no other answer does."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.databases import duckdb_file, mysql_database, postgres_database
from tests.gateway.test_hostile_answers import META
from toolgen.connectors.inner_calls import RowNotes
from toolgen.core.errors import PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import data_text, error_text

_SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40), tenant varchar(40));
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer);
INSERT INTO customers VALUES (1, 'Ada', 'acme'), (2, 'Ben', 'acme'), (3, 'Cid', 'other');
INSERT INTO orders VALUES (1, 1), (2, 3);
"""
NOTE = "customers of\n your company"
TOLD = "customers: customers of your company"
SENTENCE = f"[Only a part of the rows is shown here. {TOLD}]"
COUNT = "SELECT count(*) AS n FROM customers"
JOINED = "SELECT o.id FROM orders AS o WHERE o.customer_id IN (SELECT id FROM customers)"


def project(root: Path, location: str, rows: Any, **sources: Any) -> Path:
    customers = {"columns": ["id", "name"], "rows": rows, "writes": ["update"], "writable": ["name"]}
    policy = {
        "principals": {
            "bot": {
                "api_key": "sha256:2b60e4ea9ce55e8ba2b1ba6dd2a06b50e4a2eb5a9bf9fc5d5ea9eb0b5d8a8e5d",
                "roles": ["bot"],
                "attributes": {"tenant": "acme"},
            }
        },
        "rules": [{"id": "reads", "to": ["bot"], "tools": ["lab__*"], "verdict": "allow"}],
        "egress": {"private_networks": "allow"},
        "sql": {"lab": {"tables": {"customers": customers, "orders": {}}}},
    }
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {"sources": {"lab": {"sql": location, "writes": True}}, **sources}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return root / "toolgen.yaml"


def sqlite_shop(root: Path) -> str:
    root.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(root / "shop.db")) as connection:
        connection.executescript(_SHOP)
    return f"sqlite:///{root / 'shop.db'}"


async def answers(settings: Path, *asked: tuple[str, dict[str, Any]]) -> list[Any]:
    async with Gateway.load(settings) as gateway:
        return [await gateway.call(f"lab__{tool}", arguments, principal="bot") for tool, arguments in asked]


@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgres", "mysql"])
async def test_an_answer_from_a_table_with_a_note_says_that_a_part_is_seen(tmp_path: Path, engine: str) -> None:
    async def held(location: str) -> None:
        settings = project(tmp_path / "project", location, {"where": "tenant = :tenant", "note": NOTE})
        counted, joined, other = await answers(
            settings, *(("query", {"sql": sql}) for sql in (COUNT, JOINED, "SELECT id FROM orders"))
        )
        assert counted.data["rows"] == [[2]]
        for envelope in (counted, joined):
            assert list(envelope.to_dict()["meta"]["row_notes"]) == [TOLD]
            assert data_text(envelope).endswith(SENTENCE)
        assert other.status == "ok"
        assert "row_notes" not in other.to_dict()["meta"]
        assert "part" not in data_text(other)

    match engine:
        case "sqlite":
            await held(sqlite_shop(tmp_path))
        case "duckdb":
            await held(duckdb_file(tmp_path / "shop.duckdb", _SHOP))
        case "postgres":
            with postgres_database(_SHOP) as location:
                await held(location)
        case _:
            with mysql_database(_SHOP) as location:
                await held(location)


async def test_tables_that_are_listed_and_described_have_the_note(tmp_path: Path) -> None:
    settings = project(tmp_path / "project", sqlite_shop(tmp_path), {"note": NOTE})
    listed, described = await answers(settings, ("list_tables", {}), ("describe_table", {"table": "customers,orders"}))
    assert [table.get("rows") for table in listed.data["tables"]] == ["customers of your company", None]
    customers, orders = described.data["tables"]
    assert customers["rows"] == "customers of your company"
    assert "rows" not in orders


async def test_a_note_alone_filters_nothing_and_keeps_the_count_of_rows(tmp_path: Path) -> None:
    settings = project(tmp_path / "project", sqlite_shop(tmp_path), {"note": NOTE})
    counted, described = await answers(settings, ("query", {"sql": COUNT}), ("describe_table", {"table": "customers"}))
    assert counted.data["rows"] == [[3]]
    assert counted.meta.row_notes == (TOLD,)
    assert "row_estimate" not in described.data


@pytest.mark.parametrize(
    "rows", ["tenant = :tenant", {"where": "tenant = :tenant"}, {"where": "tenant = :tenant", "note": ""}]
)
async def test_without_a_note_nothing_tells_of_hidden_rows(tmp_path: Path, rows: Any) -> None:
    settings = project(tmp_path / "project", sqlite_shop(tmp_path), rows)
    counted, listed = await answers(settings, ("query", {"sql": COUNT}), ("list_tables", {}))
    assert counted.data["rows"] == [[2]]
    assert "row_notes" not in counted.to_dict()["meta"]
    assert data_text(counted).count("[") == data_text(counted).count("]") == json.dumps(counted.data).count("[")
    assert all("rows" not in table for table in listed.data["tables"])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"note": "x" * 301}, "300"),
        ({"where": ""}, "length"),
        ({"where": "nobody = :tenant", "note": "n"}, "row filter"),
        ({"nota": "n"}, "nota"),
        (7, "str"),
    ],
)
async def test_a_filter_or_a_note_that_is_none_is_refused(tmp_path: Path, rows: Any, said: str) -> None:
    settings = project(tmp_path / "project", sqlite_shop(tmp_path), rows)
    with pytest.raises(PolicyError, match=said):
        await answers(settings)


async def test_a_kept_answer_has_the_note_too(tmp_path: Path) -> None:
    location = sqlite_shop(tmp_path)
    settings = project(tmp_path / "project", location, {"note": NOTE}, tools={"lab__query": {"cache": "60s"}})
    first, again = await answers(settings, ("query", {"sql": COUNT}), ("query", {"sql": COUNT}))
    assert again.meta.age_s is not None
    assert first.meta.row_notes == again.meta.row_notes == (TOLD,)


async def test_every_front_end_has_the_note(tmp_path: Path) -> None:
    settings = project(tmp_path / "project", sqlite_shop(tmp_path), {"where": "tenant = :tenant", "note": NOTE})
    policy = settings.parent / "policies" / "policy.yaml"
    said = json.loads(policy.read_text(encoding="utf-8"))
    said["principals"]["bot"]["api_key"] = "sha256:" + hashlib.sha256(b"k").hexdigest()
    policy.write_text(json.dumps(said), encoding="utf-8")

    async with Gateway.load(settings) as gateway:
        transport = httpx.ASGITransport(app=App(gateway))
        headers = {"authorization": "Bearer k", "accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
            arguments = {"sql": COUNT}
            rest = await http.post("/v1/tools/lab__query/call", json={"arguments": arguments})
            batch = await http.post(
                "/v1/tool_calls", json=[{"type": "tool_use", "id": "1", "name": "lab__query", "input": arguments}]
            )
            params = {"name": "lab__query", "arguments": arguments, "_meta": META}
            named = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "lab__query"}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            mcp = await http.post("/mcp", json=message, headers=named)
            rest, batch, mcp = tuple(msgspec.json.decode(one.content) for one in (rest, batch, mcp))
    assert rest["meta"]["row_notes"] == [TOLD]
    assert SENTENCE in json.dumps(batch)
    assert any(SENTENCE in block["text"] for block in mcp["result"]["content"])


BOTH = f"[Only a part of the rows is shown here. {TOLD}; orders: orders of this year]"


def calling_project(root: Path, **sources: Any) -> Path:
    """A project whose tables both have notes, with sources that call its tools."""
    settings = project(root / "project", sqlite_shop(root), {"where": "tenant = :tenant", "note": NOTE})
    policy = settings.parent / "policies" / "policy.yaml"
    said = json.loads(policy.read_text(encoding="utf-8"))
    said["sql"]["lab"]["tables"]["orders"] = {"rows": {"note": "orders of this year"}}
    said["rules"] = [{"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["destructive"], "verdict": "allow"}]
    said["rules"] += [{**said["rules"][0], "id": "reads", "effects": ["read", "write"]}]
    policy.write_text(json.dumps(said), encoding="utf-8")
    written = json.loads(settings.read_text(encoding="utf-8"))
    written["sources"] |= sources
    settings.write_text(json.dumps(written), encoding="utf-8")
    return settings


async def called(settings: Path, *asked: tuple[str, dict[str, Any], str]) -> list[Any]:
    async with Gateway.load(settings) as gateway:
        return [
            await gateway.call(tool, arguments, principal="bot", **({"idempotency_key": key} if key else {}))
            for tool, arguments, key in asked
        ]


async def test_the_answer_of_a_workflow_has_the_notes_of_its_steps_each_once(tmp_path: Path) -> None:
    each = {"id": "counts", "call": "lab__query", "with": {"sql": COUNT}, "for_each": "$inputs.often", "at_most": 3}
    steps = [each, {"id": "orders", "call": "lab__query", "with": {"sql": "SELECT count(*) AS n FROM orders"}}]
    failing = [*steps, {"id": "wrong", "call": "lab__query", "with": {"sql": "SELECT nothing FROM orders"}}]
    often = {"often": {"type": "array", "items": {"type": "integer"}}}
    workflows = {
        "counted": {"inputs": often, "steps": steps},
        "failed": {"inputs": often, "steps": failing},
    }
    settings = calling_project(tmp_path, flows={"workflow": "flows.yaml"})
    (settings.parent / "flows.yaml").write_text(json.dumps({"workflows": workflows}), encoding="utf-8")
    fine, failed = await called(
        settings,
        ("flows__counted", {"often": [1, 2, 3]}, ""),
        ("flows__failed", {"often": [1, 2]}, ""),
    )
    assert fine.status == "ok", fine
    assert list(fine.to_dict()["meta"]["row_notes"]) == [TOLD, "orders: orders of this year"]
    assert data_text(fine).endswith(BOTH)
    assert failed.status == "error", failed
    assert BOTH[1:-1] in error_text(failed)


async def test_the_answer_of_code_has_the_notes_of_its_calls_each_once(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty", reason="the extra `code` is not installed")
    code = f"""
for _ in range(2):
    counted = await lab__query(sql={COUNT!r})
counted['rows'][0][0]
"""
    settings = calling_project(tmp_path, sandbox={"code": {}})
    first, replayed, none, failed = await called(
        settings,
        ("sandbox__run_code", {"code": code}, "once"),
        ("sandbox__run_code", {"code": code}, "once"),
        ("sandbox__run_code", {"code": "1 + 1"}, ""),
        ("sandbox__run_code", {"code": f"{code}\nprint(counted)\n1 / 0"}, ""),
    )
    assert first.data["result"] == 2
    assert first.data["calls"] == replayed.data["calls"], "it was not run again"
    for envelope in (first, replayed):
        assert envelope.meta.row_notes == (TOLD,)
        assert data_text(envelope).count(SENTENCE) == 1
    assert "row_notes" not in none.to_dict()["meta"]
    assert failed.error.code == "code_failed"
    assert failed.meta.row_notes == (TOLD,)
    assert error_text(failed).count(SENTENCE[1:-1]) == 1


async def test_the_answer_of_a_function_has_the_notes_of_its_calls(tmp_path: Path) -> None:
    functions = f"""
from toolgen import ToolContext, tool

@tool(effect="read")
async def count(context: ToolContext) -> int:
    "Count customers."
    return (await context.call("lab__query", {{"sql": {COUNT!r}}})).data["rows"][0][0]
"""
    settings = calling_project(tmp_path, own={"python": "row_note_functions"})
    (settings.parent / "row_note_functions.py").write_text(functions, encoding="utf-8")
    (counted,) = await called(settings, ("own__count", {}, ""))
    assert counted.data == 2, counted
    assert counted.meta.row_notes == (TOLD,)


def test_notes_are_bounded_and_the_others_are_counted() -> None:
    notes = RowNotes()
    for _ in range(2):
        notes.add(f"table{number}: a part" for number in range(60))
    assert len(notes.told) == 51
    assert notes.told[-1] == "and 10 more such notes"
