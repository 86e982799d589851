"""Ways around a redaction: aliases, functions, predicates and other forms of an answer never show what the policy hides."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import toolgen
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
def test_a_redacted_column_is_masked_wherever_a_statement_reads_it(tmp_path: Path, sql: str, first: list[Any]) -> None:
    path = make_project(tmp_path / "project", policy=REDACTED)

    async def scenario() -> Any:
        async with toolgen.Gateway.load(path) as gateway:
            return (await gateway.call("shop__query", {"sql": sql}, principal="bot")).to_dict()

    answer = asyncio.run(scenario())
    assert answer["status"] == "ok", answer
    assert answer["data"]["rows"][0] == first
    assert "ada@example.com" not in json.dumps(answer)
