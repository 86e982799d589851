"""Named queries behind the whole gateway: one question may be opened where `query` is not, and opens nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.projects import POLICY, make_project
from toolgen import preview
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

QUERIES = """\
-- name: customers_of_city
-- description: The customers of a city.
-- parameter: city string = 'Bonn'  The city.
SELECT id, name, email FROM customers WHERE city = :city ORDER BY id;

-- name: people
-- description: Everybody whose name is one of two.
-- parameter: first string
-- parameter: second string = null
SELECT c.id, c.name FROM customers AS c WHERE c.name = :second OR c.name = :first OR c.email = :second;
"""
ROWS = [(1, "Ada", "ada@example.com", "Bonn", "acme"), (2, "Ben", "ben@example.com", "Bonn", "other")]
ROWS += [(number, f"c{number}", f"c{number}@example.com", "Bonn", "acme") for number in range(3, 8)]
ONLY: dict[str, Any] = {"id": "one", "to": ["bot"], "tools": ["shop__customers_of_city"], "verdict": "allow"}

Make = Callable[..., Path]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capfdbinary)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def project(scope: dict[str, Any], *, rule: dict[str, Any] = ONLY, **sections: Any) -> Path:
        root = tmp_path / "project"
        policy: dict[str, Any] = json.loads(json.dumps(POLICY))
        policy["principals"]["bot"]["attributes"] = {"tenant": "acme"}
        policy["rules"] = [rule, {**policy["rules"][1]}]
        policy["sql"]["shop"] = scope
        make_project(root, policy={**policy, **sections})
        (root / "specs" / "shop.sql").write_text(QUERIES, encoding="utf-8")
        settings = json.loads((root / "toolgen.yaml").read_text(encoding="utf-8"))
        settings["sources"]["shop"]["queries"] = "specs/*.sql"
        (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
        with closing(sqlite3.connect(root / "specs" / "shop.db")) as connection:
            connection.executescript(
                "DROP TABLE customers; CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, city TEXT, tenant TEXT)"
            )
            connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?, ?)", ROWS)
            connection.commit()
        monkeypatch.chdir(root)
        monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
        return root

    return project


async def call(tool: str, **arguments: object) -> Envelope:
    async with Gateway.load("toolgen.yaml") as gateway:
        return await gateway.call(tool, arguments, principal="bot")  # type: ignore[arg-type]


def rows(envelope: Envelope) -> Any:
    assert envelope.status == "ok", envelope.error
    data: Any = envelope.data
    return data["rows"]


def code(envelope: Envelope) -> str:
    assert envelope.error is not None
    return envelope.error.code


async def test_a_rule_opens_one_question_and_not_query(make: Make) -> None:
    make({"tables": {"customers": {}}})

    assert rows(await call("shop__customers_of_city"))[0] == [1, "Ada", "ada@example.com"]
    assert code(await call("shop__query", sql="SELECT id FROM customers")) == "unknown_tool"
    assert code(await call("shop__people", first="Ada")) == "unknown_tool"


async def test_row_filters_and_masks_hold(make: Make) -> None:
    redact = [{"tools": ["shop__*"], "fields": ["$..email"], "with": "[hidden]"}]
    make({"tables": {"customers": {"rows": "tenant = :tenant"}}}, redact=redact)

    found = rows(await call("shop__customers_of_city"))

    assert [row[0] for row in found] == [1, 3, 4, 5, 6, 7]
    assert {row[2] for row in found} == {"[hidden]"}


async def test_a_column_or_table_that_is_not_open_is_refused(make: Make) -> None:
    make({"tables": {"customers": {"columns": ["id", "name", "city"]}}})

    refused = await call("shop__customers_of_city")

    assert code(refused) == "sql_refused"
    assert refused.error is not None
    assert "column email" in refused.error.message


async def test_pages_lead_to_the_end_and_belong_to_their_arguments(make: Make) -> None:
    make({"tables": {"customers": {}}, "max_rows": 3})
    first = await call("shop__customers_of_city", city="Bonn")
    cursor = first.meta.next_cursor
    second = await call("shop__customers_of_city", city="Bonn", cursor=cursor)
    third = await call("shop__customers_of_city", city="Bonn", cursor=second.meta.next_cursor)

    assert [row[0] for page in (first, second, third) for row in rows(page)] == [1, 2, 3, 4, 5, 6, 7]
    assert not third.meta.next_cursor
    other = await call("shop__customers_of_city", city="Köln", cursor=cursor)
    assert other.error is not None
    assert other.error.rule == "sql:cursor"


async def test_arguments_are_values_and_never_text(make: Make) -> None:
    make({"tables": {"customers": {}}})

    assert rows(await call("shop__customers_of_city", city="x' OR '1'='1")) == []
    assert code(await call("shop__customers_of_city", city=["Bonn"])) == "validation"
    assert code(await call("shop__customers_of_city", sql="SELECT 1 AS one")) == "validation"


async def test_each_placeholder_gets_its_own_argument_wherever_it_stands(make: Make) -> None:
    make({"tables": {"customers": {}}}, rule={**ONLY, "tools": ["shop__people"]})

    assert rows(await call("shop__people", first="Ada")) == [[1, "Ada"]]
    assert rows(await call("shop__people", first="Ada", second="ben@example.com")) == [[1, "Ada"], [2, "Ben"]]


async def test_the_record_holds_tool_arguments_and_the_sql_that_ran(make: Make) -> None:
    root = make({"tables": {"customers": {}}})

    await call("shop__customers_of_city", city="Bonn")

    entries = [json.loads(line) for path in (root / "var" / "audit").glob("*.jsonl") for line in _lines(path)]
    outcome = next(entry for entry in entries if entry["event"] == "outcome")
    assert outcome["tool"] == "shop__customers_of_city"
    assert "LIMIT 100" in outcome["sql"]


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line.strip(b"\x00 ")]


def test_policy_check_warns_of_a_query_whose_tables_are_not_open(make: Make, run: Run) -> None:
    make({"tables": {"customers": {"columns": ["id", "name", "city"]}}}, rule={**ONLY, "tools": ["shop__customers*"]})

    checked = run("policy", "check", "--json")

    assert checked.code == 0, checked.err
    (warning,) = checked.json()["warnings"]
    assert (warning["code"], warning["level"]) == ("query_not_open", "warning")
    assert "shop__customers_of_city" in warning["message"]
    assert "column email" in warning["message"]
    assert "query_not_open" in run("policy", "check").err


def test_policy_check_says_nothing_of_a_query_that_works_or_that_nobody_may_call(make: Make, run: Run) -> None:
    make({"tables": {"customers": {"columns": ["id", "name", "email", "city"], "rows": "tenant = :tenant"}}})

    assert run("policy", "check", "--json").json()["warnings"] == []


def test_a_preview_needs_no_policy(make: Make) -> None:
    make({"tables": {"customers": {}}})
    manifest = Gateway.load("toolgen.yaml").manifest

    sent = preview(manifest, "shop__people", {"first": "Ada"})

    assert sent["parameters"] == [None, "Ada"]
    assert sent["sql"].startswith("SELECT c.id, c.name FROM ")
