"""Calls that nobody knows the end of, as they are listed for whoever looks into them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.audit.logs import opened
from tests.catalogs import catalog, http_tool, sql_tool
from toolgen.clock import FixedClock
from toolgen.gateway.unknown_outcomes import UnknownOutcomes
from toolgen.state.idempotency import SqliteLedger

MANIFEST = catalog(http_tool("pay__refund"), sql_tool("shop__query"))


@pytest.mark.parametrize(
    ("tool", "request_"),
    [("pay__refund", "GET http://127.0.0.1:9/"), ("shop__query", ""), ("gone__tool", "")],
)
def test_what_was_to_be_sent_is_told_where_there_is_an_address(tmp_path: Path, tool: str, request_: str) -> None:
    async def scenario() -> list[dict[str, Any]]:
        log = opened(tmp_path)
        await log.append({"event": "intent", "call_id": "c1", "principal": "bot", "tool": tool, "arguments": {"a": 1}})
        found = UnknownOutcomes(
            directory=tmp_path,
            manifest=MANIFEST,
            notes=log,
            ledger=SqliteLedger(tmp_path / "ledger.db", FixedClock()),
            clock=FixedClock(),
            identity=pytest.fail,
        )
        await log.close()
        rows = await found.open()
        await found.close()
        return rows

    (row,) = asyncio.run(scenario())

    assert (row["call_id"], row["doubt"], row["request"]) == ("c1", "unfinished", request_)
