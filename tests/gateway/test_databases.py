"""A database behind the whole gateway: pages of an ordered query, and changes that only a person lets through."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.projects import POLICY, make_project
from toolgen.cli import main
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project, its database written to and read three rows at a time."""
    root = tmp_path / "project"
    policy: dict[str, Any] = json.loads(json.dumps(POLICY))
    policy["rules"].append(
        {"id": "all", "to": ["bot"], "tools": ["shop__*"], "effects": ["read", "destructive"], "verdict": "allow"}
    )
    policy["sql"]["shop"] = {
        "tables": {"customers": {"columns": ["id", "name"], "writes": ["update"], "writable": ["name"]}},
        "max_rows": 3,
    }
    make_project(root, policy=policy)
    settings = json.loads((root / "toolgen.yaml").read_text(encoding="utf-8"))
    settings["sources"]["shop"]["writes"] = True
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    with closing(sqlite3.connect(root / "specs" / "shop.db")) as connection:
        connection.executemany("INSERT INTO customers (name) VALUES (?)", [(f"c{number}",) for number in range(6)])
        connection.commit()
    monkeypatch.chdir(root)
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
    return root


async def call(tool: str, **arguments: object) -> Envelope:
    async with Gateway.load("toolgen.yaml") as gateway:
        return await gateway.call(tool, arguments, principal="bot")  # type: ignore[arg-type]


@pytest.mark.usefixtures("project")
async def test_an_ordered_query_is_read_page_by_page_to_its_end() -> None:
    sql, cursor, names, pages = "SELECT name FROM customers WHERE id <> %s ORDER BY id", "", [], 0
    while True:
        envelope = await call("shop__query", sql=sql, parameters=[2], **({"cursor": cursor} if cursor else {}))
        assert envelope.status == "ok", envelope.error
        names += [row[0] for row in envelope.data["rows"]]  # type: ignore[index,call-overload,union-attr]
        pages, cursor = pages + 1, envelope.meta.next_cursor
        if not cursor:
            break

    assert names == ["Ada", *(f"c{number}" for number in range(6))]
    assert pages == 3


@pytest.mark.usefixtures("project")
async def test_a_page_of_another_statement_is_refused() -> None:
    first = await call("shop__query", sql="SELECT name FROM customers ORDER BY id")

    other = await call("shop__query", sql="SELECT id FROM customers ORDER BY id", cursor=first.meta.next_cursor)

    assert other.error is not None
    assert other.error.rule == "sql:cursor"


async def test_a_change_waits_for_a_person_whatever_the_rules_say(project: Path) -> None:
    before = (project / "specs" / "shop.db").read_bytes()

    envelope = await call("shop__change", sql="UPDATE customers SET name = 'x' WHERE id = 1")

    assert (envelope.status, envelope.error and envelope.error.code) == ("cancelled", "cancelled")
    assert envelope.error is not None
    assert envelope.error.rule == "sql:writes"
    assert (project / "specs" / "shop.db").read_bytes() == before


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("tool", "sql", "rule"),
    [
        ("shop__query", "UPDATE customers SET name = 'x' WHERE id = 1", "sql:not-a-query"),
        ("shop__change", "SELECT name FROM customers", "sql:not-a-change"),
        ("shop__change", "UPDATE customers SET name = 'x'", "sql:where"),
        ("shop__change", "UPDATE customers SET email = 'x' WHERE id = 1", "sql:column"),
        ("shop__change", "DELETE FROM customers WHERE id = 1", "sql:table"),
    ],
)
async def test_each_tool_takes_its_own_kind_of_statement(tool: str, sql: str, rule: str) -> None:
    envelope = await call(tool, sql=sql)

    assert envelope.status == "refused"
    assert envelope.error is not None
    assert envelope.error.rule == rule


@pytest.mark.usefixtures("project")
def test_a_change_can_be_judged_without_a_call(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sql", "check", "UPDATE customers SET name = ? WHERE id = ?", "--parameters", '["x", 1]', "--json"])

    assert ended.value.code == 0
    assert json.loads(capfdbinary.readouterr().out) == {
        "verdict": "ask",
        "rule": "sql:writes",
        "tables": ["customers"],
        "columns": ["customers.id", "customers.name"],
        "functions": [],
        "sql": 'UPDATE "main"."customers" SET name = ? WHERE id = ?',
        "parameters": ["x", 1],
        "max_changes": 1,
    }


def test_without_writes_there_is_no_tool_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path / "other")
    monkeypatch.chdir(tmp_path / "other")

    assert "shop__change" not in Gateway.load("toolgen.yaml").manifest.tools
