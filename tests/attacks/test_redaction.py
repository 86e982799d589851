"""Ways around a redaction: aliases, functions, predicates and other forms of an answer never show what the policy hides."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import toolgen
from tests.gateway.governed import API, PRINCIPALS, upstream
from tests.projects import POLICY, make_project

REDACTED: dict[str, Any] = {
    **POLICY,
    "sql": {"shop": {"tables": {"customers": {}}, "max_rows": 10}},
    "redact": [{"tools": ["*"], "fields": ["$..email"], "with": "it's [redacted]"}],
}


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("SELECT email FROM customers ORDER BY id", ["it's [redacted]"]),
        ("SELECT email AS e, name FROM customers ORDER BY id", ["it's [redacted]", "Ada"]),
        ("SELECT upper(email) FROM customers", ["IT'S [REDACTED]"]),
        ("SELECT c.e FROM (SELECT email AS e FROM customers) AS c", ["it's [redacted]"]),
        (
            "WITH x AS (SELECT EMAIL AS y, name FROM customers) SELECT y || name FROM x ORDER BY name",
            ["it's [redacted]Ada"],
        ),
        ("SELECT count(*) FROM customers WHERE email LIKE 'ada%'", [0]),
        ("SELECT count(*) FROM customers AS a JOIN customers AS b ON a.email > b.email", [0]),
        ("SELECT * FROM customers ORDER BY id", [1, "Ada", "it's [redacted]"]),
    ],
)
async def test_a_redacted_column_is_masked_wherever_a_statement_reads_it(
    tmp_path: Path, sql: str, first: list[Any]
) -> None:
    path = make_project(tmp_path / "project", policy=REDACTED)

    async with toolgen.Gateway.load(path) as gateway:
        answer = (await gateway.call("shop__query", {"sql": sql}, principal="bot")).to_dict()
    assert answer["status"] == "ok", answer
    assert answer["data"]["rows"][0] == first
    assert "ada@example.com" not in json.dumps(answer)


EMAIL = "ada.canary@example.com"
SDL = "type Query { viewer: Viewer } type Viewer { email: String name: String }"
FUNCTIONS = f'''
import toolgen

@toolgen.tool(effect="read")
def parts() -> list[toolgen.Image | str]:
    """Answers with parts."""
    return [toolgen.Image(b"{EMAIL}"), '{{"viewer": {{"email": "{EMAIL}"}}}}', "mail {EMAIL}"]

@toolgen.tool(effect="read")
def refuses() -> str:
    """Refuses in its own words."""
    raise toolgen.ToolError("no {EMAIL}", suggestion="ask {EMAIL}")

@toolgen.tool(effect="read")
def nested() -> str:
    """Answers with much depth."""
    return "[" * 150 + '{{"viewer": {{"email": "{EMAIL}"}}}}' + "]" * 150
'''
RULES: dict[str, Any] = {
    "principals": PRINCIPALS,
    "egress": {"private_networks": "allow"},
    "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}],
    "redact": [
        {"tools": ["*"], "fields": ["$.viewer.email"], "with": "***"},
        {"tools": ["own__nested"], "fields": ["$..viewer.email"], "with": "***"},
    ],
}
GRAPH, REST = ("graph__get_viewer",), ("orders__check_fraud", "orders__get_health", "orders__get_health")
BODIES = [  # which tools are answered so, with which status
    (GRAPH, 200, '{"data":{"viewer":{"email":"%s"}}}'),
    (
        GRAPH,
        200,
        '{"data":{"viewer":{"email":"%s","name":null}},"errors":[{"message":"slow","path":["viewer","name"]}]}',
    ),
    (GRAPH, 200, '{"data":{"viewer":null},"errors":[{"message":"not for %s","path":["viewer","email"]}]}'),
    (REST, 200, '{"viewer":{"email":"%s"},"x":1e999}'),
    (REST, 200, '"{\\"viewer\\":{\\"email\\":\\"%s\\"}}"'),
    ((*GRAPH, *REST), 400, '{"errors":[{"message":"no","extensions":{"email":"%s"}}],"data":null}'),
    ((*GRAPH, *REST), 403, '{"title":"no","detail":"%s is not you","email":"%s"}'),
    ((*GRAPH, *REST), 500, "<p>%s</p>"),
    ((*GRAPH, *REST), 200, "mail %s"),
]


def redacted_project(root: Path, server: str) -> Path:
    for folder in ("specs", "policies"):
        (root / folder).mkdir()
    (root / "specs" / "orders.json").write_text(json.dumps(API))
    (root / "specs" / "graph.graphql").write_text(SDL)
    name = f"redacted_functions_{root.name}".replace("-", "_")
    (root / f"{name}.py").write_text(FUNCTIONS)
    (root / "policies" / "policy.yaml").write_text(json.dumps(RULES))
    sources = {
        "orders": {"openapi": "specs/orders.json", "server": server},
        "graph": {"graphql": "specs/graph.graphql", "endpoint": f"{server}/graphql"},
        "own": {"python": name},
    }
    kept = {"tools": {"orders__get_health": {"cache": {"ttl": "60s"}}}}
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources, **kept}))
    return root / "toolgen.yaml"


async def test_no_answer_of_any_source_shows_what_is_redacted(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = redacted_project(tmp_path, server)

        async def scenario() -> list[Any]:
            async with toolgen.Gateway.load(path) as gateway:
                found = []
                for tools, status, body in BODIES:
                    seen.status, seen.body = status, body.replace("%s", EMAIL).encode()
                    for name in tools:
                        found.append(await gateway.call(name, {}, principal="bot"))
                for name in ("own__parts", "own__refuses", "own__nested"):
                    found.append(await gateway.call(name, {}, principal="bot"))
                return [envelope.to_dict() for envelope in found]

        answers = await scenario()
    codes = {answer.get("error", {}).get("code", "ok") for answer in answers}
    assert codes == {"ok", "upstream_error", "handler_error"}
    for answer in answers:
        assert EMAIL not in json.dumps(answer).replace("\\", ""), answer
        assert base64.b64encode(EMAIL.encode()).decode() not in json.dumps(answer)
    assert answers[0]["data"] == {"viewer": {"email": "***"}}
    assert answers[1]["data"] == {"viewer": {"email": "***", "name": None}}
