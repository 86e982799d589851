"""`toolgen sql check` says what the guard says, and what would run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.messages import line_names
from tests.projects import POLICY, make_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.usefixtures("project")
def test_an_allowed_statement_is_shown_as_it_would_run(toolgen: Run) -> None:
    done = toolgen("sql", "check", "SELECT * FROM customers WHERE id = %s", "--parameters", "[1]", "--json")

    assert done.code == 0, done.err
    assert done.json() == {
        "verdict": "allow",
        "rule": "sql",
        "tables": ["customers"],
        "columns": ["customers.id", "customers.name"],
        "functions": [],
        "sql": 'SELECT "customers"."id", "customers"."name"'
        ' FROM (SELECT "id", "name" FROM "main"."customers") AS "customers" WHERE id = ? LIMIT 10',
        "parameters": [1],
        "max_rows": 10,
    }


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("sql", "rule", "said"),
    [
        ("SELECT email FROM customers", "sql:column", "available: id, name"),
        ("DROP TABLE customers", "sql:not-a-query", "send a SELECT"),
        ("SELECT 1; SELECT 2", "sql:one-statement", "one SELECT"),
    ],
)
def test_a_refusal_names_its_rule_and_what_to_change(toolgen: Run, sql: str, rule: str, said: str) -> None:
    done = toolgen("sql", "check", sql)

    assert done.code == 1
    assert done.out.startswith(f"refused by {rule}: ")
    assert said in done.out


@pytest.mark.usefixtures("project")
def test_the_statement_comes_from_standard_input_and_for_people_in_lines(
    toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT upper(name) FROM customers"))

    done = toolgen("sql", "check", "-")

    assert done.code == 0
    assert "  tables: customers\n  columns: customers.name\n  functions: upper\n  sql: SELECT upper(name)" in done.out


@pytest.mark.usefixtures("project")
def test_a_statement_can_be_judged_as_one_of_another_dialect(toolgen: Run) -> None:
    refused = toolgen("sql", "check", "SELECT pg_sleep(1)", "--dialect", "postgresql")
    allowed = toolgen("sql", "check", "SELECT id::text FROM customers", "--dialect", "postgres")

    assert refused.code == 1
    assert "sql:function" in refused.out
    assert allowed.code == 0
    assert 'FROM "public"."customers"' in allowed.out
    assert line_names(allowed.err, "dialect postgres")


def test_row_filters_ask_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolgen: Run) -> None:
    policy: dict[str, Any] = {**POLICY, "sql": {"shop": {"tables": {"customers": {"rows": "name = :name"}}}}}
    policy["principals"] = {
        **POLICY["principals"],
        "bot": {**POLICY["principals"]["bot"], "attributes": {"name": "Ada"}},
    }
    make_project(tmp_path / "project", policy=policy)
    monkeypatch.chdir(tmp_path / "project")

    unsaid = toolgen("sql", "check", "SELECT id FROM customers")
    bot = toolgen("sql", "check", "SELECT id FROM customers", "--as", "bot", "--json")
    other = toolgen("sql", "check", "SELECT id FROM customers", "--as", "reviewer")

    assert (unsaid.code, "--as" in unsaid.err) == (1, True)
    assert bot.json()["parameters"] == ["Ada"]
    assert "refused by sql:row-filter" in other.out


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["SELECT 1", "--source", "shpo"], 1, "there is no database 'shpo'"),
        (["SELECT 1", "--parameters", "{}"], 2, "must be a JSON list"),
        (["SELECT 1", "--parameters", "["], 2, "is not JSON"),
        (["SELECT 1", "--dialect", "oracle"], 2, "oracle"),
        (["SELECT 1", "--as", "nobody"], 1, "nobody"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(toolgen: Run, arguments: list[str], code: int, said: str) -> None:
    done = toolgen("sql", "check", *arguments)

    assert (done.code, said in done.err) == (code, True), done.err
    assert "Traceback" not in done.err
