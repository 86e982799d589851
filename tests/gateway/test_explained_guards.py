"""Explanations and tests of a policy: the guards of SQL, GraphQL and egress have their say as in a real call, and nothing is called."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.gateway.test_graphql_outcomes import HASH
from toolgen.cli.main import cli
from toolgen.frontends.python.gateway import Gateway

SDL = """
type Post { id: ID! title: String secret: String }
type Query { posts(first: Int): [Post!]! drafts(first: Int): [Post!]! }
"""
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/a": {"get": {"operationId": "getA", "responses": {"200": {"description": "ok"}}}}},
}
POLICY: dict[str, Any] = {
    "principals": {"bot": {"api_key": HASH, "roles": ["bot"]}},
    "rules": [
        {
            "id": "all",
            "to": ["bot"],
            "tools": ["db__*", "web__*", "g__run_query", "g__list_posts"],
            "effects": ["read", "write", "destructive"],
            "verdict": "allow",
        }
    ],
    "sql": {"db": {"tables": {"people": {"columns": ["id", "name"], "rows": "id < 10", "writes": ["update"]}}}},
    "egress": {"allow": ["api.example:443"]},
}

CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("db__query", {"sql": "select id from people"}, "allow", "all", "id < 10"),
    ("db__query", {"sql": "select salary from people"}, "deny", "sql", ""),
    ("db__query", {"sql": "delete from people"}, "deny", "sql", ""),
    ("db__query", {}, "allow", "all", ""),
    ("db__change", {"sql": "update people set name = 'x' where id = 1"}, "ask", "sql:writes", "UPDATE"),
    ("db__change", {"sql": "update people set salary = 1 where id = 1"}, "deny", "sql", ""),
    ("g__run_query", {"query": "{ posts(first: 1) { id } }"}, "allow", "all", "posts(first: 1)"),
    ("g__run_query", {"query": "{ drafts(first: 1) { id } }"}, "deny", "graphql", ""),
    ("g__run_query", {"query": "{ posts(first: 1) { nope } }"}, "deny", "graphql", ""),
    ("web__get_a", {}, "allow", "all", ""),
    ("closed__get_a", {}, "deny", "default", ""),
]


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    (tmp_path / "g.graphql").write_text(SDL, encoding="utf-8")
    (tmp_path / "web.json").write_text(json.dumps({**API, "servers": [{"url": "https://api.example"}]}))
    (tmp_path / "closed.json").write_text(json.dumps({**API, "servers": [{"url": "https://closed.example"}]}))
    with closing(sqlite3.connect(tmp_path / "p.db")) as connection:
        connection.executescript("create table people (id integer primary key, name text, salary integer)")
    sources = {
        "db": {"sql": "sqlite:///p.db", "writes": True},
        "g": {"graphql": "g.graphql", "endpoint": "https://api.example/graphql", "queries": True},
        "web": {"openapi": "web.json"},
        "closed": {"openapi": "closed.json"},
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return path


def explained(path: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    given = ["--args", json.dumps(arguments), "--as", "bot", "--config", str(path), "--json"]
    result = CliRunner().invoke(cli, ["policy", "explain", tool, *given])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_explain_says_what_the_guards_say_and_what_would_run(path: Path) -> None:
    for tool, arguments, verdict, rule, statement in CASES:
        found = explained(path, tool, arguments)
        assert found["verdict"] == verdict, (tool, arguments, found)
        assert found["rule"].startswith(rule), (tool, arguments, found)
        assert statement in found["statement"], (tool, arguments, found)
        assert bool(found["statement"]) is bool(statement)


def test_a_real_call_is_decided_as_it_was_explained(path: Path) -> None:
    told = [explained(path, tool, arguments) for tool, arguments, *_ in CASES]

    async def work() -> None:
        async with Gateway.load(path) as gateway:
            for (tool, arguments, verdict, *_), explanation in zip(CASES, told, strict=True):
                if not arguments and verdict == "allow":
                    continue  # no service is there
                if tool == "g__run_query" and verdict == "allow":
                    continue
                answer = await gateway.call(tool, arguments, principal="bot")
                if verdict == "allow":
                    assert answer.status == "ok", answer
                elif verdict == "ask":
                    assert answer.status == "cancelled", answer  # there is nobody who could agree
                else:
                    assert answer.status == "refused", answer
                    assert answer.error is not None
                    assert answer.error.rule == explanation["rule"], answer

    asyncio.run(work())


def test_an_egress_that_is_closed_denies(path: Path) -> None:
    policy = json.loads((path.parent / "policies" / "p.yaml").read_text())
    policy["rules"][0]["tools"].append("closed__*")
    (path.parent / "policies" / "p.yaml").write_text(json.dumps(policy))
    found = explained(path, "closed__get_a", {})
    assert found["verdict"] == "deny"
    assert "closed.example" in found["reason"]


@pytest.mark.parametrize(("expect", "passed"), [("deny", True), ("allow", False)])
def test_tests_of_a_policy_are_held_against_the_guards(path: Path, expect: str, passed: bool) -> None:
    test = {"as": "bot", "call": "db__query", "arguments": {"sql": "select salary from people"}, "expect": expect}
    place = path.parent / "policies" / "p.yaml"
    place.write_text(json.dumps({**json.loads(place.read_text()), "tests": [test]}))
    result = CliRunner().invoke(cli, ["policy", "check", "--config", str(path)])
    assert (result.exit_code == 0) is passed, result.output
