"""Finding a table among a thousand, and nothing that the policy hides."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import toolgen
from toolgen.connectors.sql.execution.executor import search_schema
from toolgen.connectors.sql.reading.tools import MIN_SEARCHED
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.database import Column, Database, Table


def table(name: str, *columns: str, comment: str = "", **more: Any) -> Table:
    made = tuple(Column(name=column, type="text") for column in columns)
    return Table(name=name, columns=made, comment=comment, **more)


MANY = Database(
    dialect="postgres",
    tables=(
        *(table(f"archive_{number:04}", "id", "payload", "created_at") for number in range(1_000)),
        table("customers", "id", "full_name", "email", "city"),
        table("OrderItems", "id", "orderId", "sku", "quantity", comment="what was bought"),
        table("invoices", "id", "customer_id", "due_date", "amount_cents"),
        table("hr_staff", "id", "salary", comment="employees and what they earn", schema="hr"),
        Table(name="parcels", columns=(Column(name="state", type="text", labels=("shipped", "returned")),)),
    ),
)


@pytest.mark.parametrize(
    ("query", "first", "column"),
    [
        ("customer email addresses", "customers", "email"),
        ("order items", "OrderItems", "orderId"),
        ("quantity of an order item", "OrderItems", "quantity"),
        ("invoices due", "invoices", "due_date"),
        ("who are the employees", "hr.hr_staff", "id"),
        ("returned parcels", "parcels", "state"),
        ("cust", "customers", "id"),
        ("SKU", "OrderItems", "sku"),
    ],
)
def test_a_table_is_found_among_a_thousand(query: str, first: str, column: str) -> None:
    found: Any = search_schema(MANY, query, 5)
    assert found["tables"][0]["name"] == first
    assert column in [one["name"] for one in found["tables"][0]["columns"]]
    assert found["searched"] == 1_005
    assert len(found["tables"]) <= 5


@pytest.mark.parametrize("query", ["", "???", "the xylophone", "'; DROP TABLE x"])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    found: Any = search_schema(MANY, query, 5)
    assert found["tables"] == []
    assert found["matching"] == 0


def test_many_matches_are_counted_and_cut() -> None:
    found: Any = search_schema(MANY, "archive payload", 3)
    assert [one["name"] for one in found["tables"]] == ["archive_0000", "archive_0001", "archive_0002"]
    assert found["matching"] == 1_000


async def test_only_what_the_policy_opens_is_searched(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(MIN_SEARCHED)]
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (id integer, salary integer, city text)")
        connection.execute("CREATE TABLE salaries (id integer, amount integer)")
        connection.execute("CREATE TABLE people (id integer, salary integer, city text)")
    tables: dict[str, Any] = {name: {"columns": ["id", "city"]} for name in names}
    policy = {
        "principals": {"bot": {"api_key": f"sha256:{'0' * 64}", "roles": ["bot"]}},
        "rules": [{"id": "reads", "to": ["bot"], "tools": ["lab__*"], "verdict": "allow"}],
        "sql": {"lab": {"tables": {**tables, "people": {"columns": ["id", "city"]}}}},
    }
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    sources = {"lab": {"sql": f"sqlite:///{tmp_path / 'a.db'}"}}
    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")

    async with Gateway.load(tmp_path / "toolgen.yaml") as gateway:
        assert "lab__search_schema" in gateway.manifest.tools
        hidden = await gateway.call("lab__search_schema", {"query": "salary"}, principal="bot")
        assert hidden.data == {"tables": [], "matching": 0, "searched": MIN_SEARCHED + 1}
        found = await gateway.call("lab__search_schema", {"query": "city people", "limit": 1}, principal="bot")
        assert isinstance(found.data, dict)
        (people,) = found.data["tables"]
        assert people["name"] == "people"
        assert [column["name"] for column in people["columns"]] == ["city"]
        assert "salar" not in json.dumps(found.data)
        refused = await gateway.call("lab__search_schema", {"query": "x", "limit": 0}, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "validation"


def test_a_small_database_is_listed_and_needs_no_search(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (id integer)")
    assert "lab__search_schema" not in toolgen.build({"lab": {"sql": f"sqlite:///{tmp_path / 'a.db'}"}}).tools
