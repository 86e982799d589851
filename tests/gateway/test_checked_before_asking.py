"""What can be checked before people are asked is checked before: nobody agrees to a call that would be refused all the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import Upstream, project, upstream
from tests.messages import line_names
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "asks", "to": ["bot"], "tools": ["shop__change", "orders__create_order"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["user"]},
    "sql": {
        "shop": {
            "tables": {
                "customers": {
                    "columns": ["id", "name", "tenant"],
                    "rows": "tenant = :tenant",
                    "writes": ["insert", "update", "delete"],
                }
            },
            "max_changes": 2,
        }
    },
}
ROWS = [(1, "Ann", "acme"), (2, "Bob", "acme"), (3, "Cyd", "acme"), (4, "Dan", "globex"), (5, "Eve", "globex")]


@asynccontextmanager
async def play(root: Path, policy: dict[str, Any] | None = None) -> AsyncIterator[tuple[Gateway, Upstream, Path]]:
    with upstream() as (seen, server):
        path = project(root / "p", server, policy or POLICY)
        database = path.parent / "specs" / "shop.db"
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tenant TEXT)")
            connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", ROWS)
        connection.close()
        written = json.loads(path.read_text(encoding="utf-8"))
        written["sources"]["shop"] = {"sql": f"sqlite:///{database}", "writes": True}
        path.write_text(json.dumps(written), encoding="utf-8")
        async with Gateway.load(path) as gateway:
            yield gateway, seen, path.parent


async def change(gateway: Gateway, sql: str, *parameters: object) -> Envelope:
    return await gateway.call("shop__change", {"sql": sql, "parameters": list(parameters)}, principal="bot")


def names(here: Path) -> list[str]:
    connection = sqlite3.connect(here / "specs" / "shop.db")
    try:
        return [name for (name,) in connection.execute("SELECT name FROM customers ORDER BY id")]
    finally:
        connection.close()


TOO_MANY = [
    ("UPDATE customers SET name = 'x' WHERE id > ?", [0], 3),
    ("DELETE FROM customers WHERE name <> ? AND id < ?", ["Zed", 4], 3),
    ("UPDATE customers SET name = upper(name) WHERE length(name) = 3", [], 3),
    ("UPDATE customers SET name = ? WHERE name IN (?, ?, ?) OR id = ?", ["x", "Ann", "Bob", "Cyd", 9], 3),
]


@pytest.mark.parametrize(("sql", "parameters", "rows"), TOO_MANY)
async def test_a_change_of_too_many_rows_asks_nobody(
    tmp_path: Path, sql: str, parameters: list[Any], rows: int
) -> None:
    async with play(tmp_path) as (gateway, _, here):
        refused = await change(gateway, sql, *parameters)
        assert refused.error is not None
        assert (refused.status, refused.error.code, refused.error.rule) == ("refused", "sql_refused", "sql:changes")
        assert line_names(refused.error.message, f"{rows} rows", "at most 2 ")
        assert await gateway.approvals.calls.store.unfinished() == ()
        assert names(here) == [name for _, name, _ in ROWS]
        written = [one for one in entries(here / "var" / "audit") if one["event"] in {"intent", "outcome"}]
        assert [one.get("code") for one in written] == [None, "sql_refused"]


@pytest.mark.parametrize(
    ("sql", "parameters", "left"),
    [
        ("UPDATE customers SET name = ? WHERE id IN (?, ?)", ["x", 1, 2], ["x", "x", "Cyd", "Dan", "Eve"]),
        # The row filter counts: others' rows are not among those that change.
        ("DELETE FROM customers WHERE id >= 3", [], ["Ann", "Bob", "Dan", "Eve"]),
        ("INSERT INTO customers (id, name) VALUES (?, ?)", [6, "Fay"], ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"]),
    ],
)
async def test_a_change_of_few_rows_is_asked_about_and_made(
    tmp_path: Path, sql: str, parameters: list[Any], left: list[str]
) -> None:
    async with play(tmp_path) as (gateway, _, here):
        asked = await change(gateway, sql, *parameters)
        assert asked.status == "pending", asked
        assert names(here) == [name for _, name, _ in ROWS]
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("ann"))
        done = await gateway.approvals.calls.outcome(asked.call_id, gateway.principal("bot"), 60)
        assert done is not None
        assert done.status == "ok", done
        assert names(here) == left


async def test_rows_that_came_meanwhile_are_counted_again(tmp_path: Path) -> None:
    async with play(tmp_path) as (gateway, _, here):
        asked = await change(gateway, "DELETE FROM customers WHERE id >= 2")
        assert asked.status == "pending"
        connection = sqlite3.connect(here / "specs" / "shop.db")
        with connection:
            connection.execute("INSERT INTO customers VALUES (7, 'Gus', 'acme')")
        connection.close()
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("ann"))
        done = await gateway.approvals.calls.outcome(asked.call_id, gateway.principal("bot"), 60)
        assert done is not None
        assert done.error is not None
        assert done.error.code == "sql_refused"
        assert len(names(here)) == 6


async def test_a_limit_is_taken_once_and_one_that_is_used_up_asks_nobody(tmp_path: Path) -> None:
    limited = {**POLICY, "limits": [{"id": "few", "per": ["principal"], "rate": "2/h", "burst": 2}]}

    async with play(tmp_path, limited) as (gateway, _, _):
        for number in (1, 2):
            asked = await change(gateway, "UPDATE customers SET name = 'x' WHERE id = ?", number)
            assert asked.status == "pending"
            await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("ann"))
            done = await gateway.approvals.calls.outcome(asked.call_id, gateway.principal("bot"), 60)
            assert done is not None
            assert done.status == "ok", done
        refused = await change(gateway, "UPDATE customers SET name = 'x' WHERE id = 3")
        assert refused.error is not None
        assert refused.error.code == "rate_limited"
        assert await gateway.approvals.calls.store.unfinished() == ()


async def test_a_destination_that_is_closed_asks_nobody(tmp_path: Path) -> None:
    async with play(tmp_path, {**POLICY, "egress": {"private_networks": "deny"}}) as (gateway, seen, _):
        order = {"tenant_id": "acme", "amount_cents": 5}
        refused = await gateway.call("orders__create_order", order, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "egress_refused"
        assert await gateway.approvals.calls.store.unfinished() == ()
        assert seen.requests == []
