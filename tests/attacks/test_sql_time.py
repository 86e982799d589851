"""Statements that spend their time and memory inside single functions: they end, and the next caller is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import toolgen
from tests.projects import POLICY, make_project

LONG = "WITH a(s) AS (SELECT replace(hex(zeroblob(1000)), '0', hex(zeroblob(900))))"
STATEMENTS = [
    f"{LONG}, b(h, n) AS (SELECT s, substr(s, 1, length(s) / 2) || 'b' FROM a) SELECT instr(h, n) FROM b",
    f"{LONG} SELECT trim(s, 'b' || s) FROM a",
    f"{LONG} SELECT {', '.join(f's || {number}' for number in range(300))} FROM a",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
]


@pytest.mark.parametrize("sql", STATEMENTS)
async def test_a_statement_that_wants_too_much_ends_and_the_next_is_answered(tmp_path: Path, sql: str) -> None:
    scope = {"tables": {"customers": {}}, "max_rows": 10, "timeout": "1s"}
    path = make_project(tmp_path / "project", policy={**POLICY, "sql": {"shop": scope}})

    async def scenario() -> None:
        async with toolgen.Gateway.load(path) as gateway:
            calls = [gateway.call("shop__query", {"sql": sql}, principal="bot") for _ in range(8)]
            for envelope in await asyncio.gather(*calls):
                assert envelope.status != "ok"
            after = await gateway.call("shop__query", {"sql": "SELECT 1"}, principal="bot")
            assert after.status == "ok", after.to_dict()

    await asyncio.wait_for(scenario(), 120)
