"""The console's explanation of an SQL statement and of a GraphQL document: the guard's rule, and what would run."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.frontends.console.people import form_token, sign_in
from tests.gateway.clients import listening
from tests.gateway.test_explained_guards import POLICY, SDL
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_CASES = [
    (
        "db__query",
        {"sql": "select salary from people"},
        "deny",
        "sql:column",
        "column salary of people is not available",
    ),
    ("db__query", {"sql": "select id from people"}, "allow", "all", 'FROM "main"."people" WHERE (id < 10)'),
    ("db__query", {"sql": "select * from other"}, "deny", "sql:table", "table other is not available"),
    ("g__run_query", {"query": "{ posts(first: 1) { nope } }"}, "deny", "graphql", "Cannot query field"),
    ("g__run_query", {"query": "{ drafts(first: 1) { id } }"}, "deny", "graphql", "drafts"),
    ("g__run_query", {"query": "{ posts(first: 1) { id } }"}, "allow", "all", "posts(first: 1)"),
]
_OPENS = {"deny": {"sql": "policy&#39;s sql section", "graphql": "more than the policy opens"}}


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (rule,) = POLICY["rules"]
    rules = [{**rule, "tools": [tool for tool in rule["tools"] if not tool.startswith("web")]}]
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps({**POLICY, "rules": rules}), encoding="utf-8")
    (tmp_path / "g.graphql").write_text(SDL, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "p.db")) as connection:
        connection.executescript("create table people (id integer primary key, name text, salary integer)")
    sources = {
        "db": {"sql": "sqlite:///p.db", "writes": True},
        "g": {"graphql": "g.graphql", "endpoint": "https://api.example/graphql", "queries": True},
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "console": {"viewers": ["bot"]}}), encoding="utf-8")
    return path


async def test_an_explanation_shows_the_rule_of_the_guard_and_what_would_run(path: Path) -> None:
    gateway = Gateway.load(path)
    app = App(gateway)
    app.open_console(lambda authentication: console_of(gateway, authentication))
    async with gateway, listening(app) as url:
        try:
            await asyncio.to_thread(_explain_all, url)
        finally:
            await app.close()


async def test_a_refusal_names_column_table_and_the_part_of_the_policy(path: Path) -> None:
    gateway = Gateway.load(path)
    app = App(gateway)
    app.open_console(lambda authentication: console_of(gateway, authentication))
    async with gateway, listening(app) as url:
        try:
            told = {}
            for sql in ("select salary from people", "select * from other", "delete from people where id = 1"):
                envelope = await gateway.call("db__query", {"sql": sql}, principal="bot")
                assert envelope.status == "refused"
                assert envelope.error is not None
                told[envelope.call_id] = envelope.error.message
            pages = await asyncio.to_thread(_stories, url, list(told))
        finally:
            await app.close()
    for page, message in zip(pages, told.values(), strict=True):
        assert message in page
        assert "Nothing left the gateway" in page
    column, table, _ = pages
    assert "<dt>Column</dt><dd><code>salary</code>" in column
    assert "<dt>Table</dt><dd><code>people</code>" in column
    assert "<code>sql.db.tables.people</code> in policies/p.yaml:" in column
    assert "<code>sql.db.tables.other</code>" in table
    assert "the policy does not" in table


def _stories(url: str, calls: list[str]) -> list[str]:
    with httpx.Client(base_url=url) as http:
        assert sign_in(http, "key-of-bot").status_code == 200
        return [html.unescape(http.get(f"/console/calls/{call}").text) for call in calls]


def _explain_all(url: str) -> None:
    with httpx.Client(base_url=url) as http:
        assert sign_in(http, "key-of-bot").status_code == 200
        token = form_token(http.get("/console/policies/explain").text)
        for tool, arguments, verdict, rule, words in _CASES:
            asked = {"principal": "bot", "tool": tool, "json": json.dumps(arguments), "form_token": token}
            page = http.post("/console/policies/explain", data=asked).text
            found = re.search(r'<strong class="verdict \w+">(\w+)</strong> by <code>([^<]*)</code>', page)
            assert found is not None, page
            assert found.groups() == (verdict, rule), arguments
            assert words in html.unescape(page), (arguments, page)
            assert ("What would run" in page) is (verdict == "allow")
            if verdict == "deny":  # the sentence about what such a rule is
                assert _OPENS["deny"][rule.partition(":")[0]] in page
