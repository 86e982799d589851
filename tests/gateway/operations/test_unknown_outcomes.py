"""Calls that nobody knows the end of, as they are listed for whoever looks into them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.audit.logs import opened
from tests.catalogs import catalog, http_tool, sql_tool
from tests.state.test_invocations import invocation
from toolgen.audit.log import AuditLog
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ToolgenError
from toolgen.gateway.identity import Identity
from toolgen.gateway.operations.unknown_outcomes import OpenOutcomes, UnknownOutcomes
from toolgen.model.tool import Effect
from toolgen.state.idempotency import SqliteLedger
from toolgen.state.invocations_sqlite import SqliteInvocations

MANIFEST = catalog(
    http_tool("pay__refund", Effect.WRITE),
    http_tool("pay__get_refund"),
    replace(sql_tool("shop__execute"), effect=Effect.WRITE),
)


def _outcomes(directory: Path, notes: AuditLog) -> UnknownOutcomes:
    return UnknownOutcomes(
        directory=directory,
        manifest=lambda: MANIFEST,
        notes=notes,
        ledger=SqliteLedger(directory / "ledger.db", FixedClock()),
        waiting=SqliteInvocations(directory / "calls.db", FixedClock()),
        clock=FixedClock(),
        identity=Nobody,
    )


class Nobody(Identity):
    """Whoever settles a call has nothing to do with it."""

    def __init__(self) -> None:
        pass

    def concerns(self, by: str, parties: Iterable[str]) -> bool:
        return False


async def _listed(directory: Path, log: AuditLog, since: float = 0.0) -> OpenOutcomes:
    found = _outcomes(directory, log)
    try:
        return await found.open(since)
    finally:
        await found.close()


def _intent(call_id: str, tool: str = "pay__refund") -> dict[str, Any]:
    return {"event": "intent", "call_id": call_id, "principal": "bot", "tool": tool, "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("tool", "request_"),
    [("pay__refund", "GET http://127.0.0.1:9/"), ("shop__execute", ""), ("gone__tool", "")],
)
async def test_what_was_to_be_sent_is_told_where_there_is_an_address(tmp_path: Path, tool: str, request_: str) -> None:
    log = opened(tmp_path)
    await log.append(_intent("c1", tool))
    await log.close()

    (row,) = (await _listed(tmp_path, log)).calls

    assert (row["call_id"], row["doubt"], row["request"]) == ("c1", "unfinished", request_)


async def test_reads_that_never_ended_are_counted_and_not_listed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for call_id, tool in (("c1", "pay__get_refund"), ("c2", "pay__refund"), ("c3", "pay__get_refund")):
        await log.append(_intent(call_id, tool))
    await log.close()

    found = await _listed(tmp_path, log)

    assert ([row["call_id"] for row in found.calls], found.unfinished_reads) == (["c2"], 2)


async def test_calls_are_listed_and_found_from_a_moment_on(tmp_path: Path) -> None:
    clock = FixedClock()
    log = opened(tmp_path, clock=clock)
    await log.append(_intent("c1"))
    clock.advance(7200)
    since = clock.now()
    await log.append(_intent("c2"))
    assert [row["call_id"] for row in (await _listed(tmp_path, log)).calls] == ["c1", "c2"]
    assert [row["call_id"] for row in (await _listed(tmp_path, log, since)).calls] == ["c2"]
    outcomes = _outcomes(tmp_path, log)

    with pytest.raises(ToolgenError, match="c1"):
        await outcomes.settle("c1", "happened", by="rita", note="", since=since)
    await outcomes.settle("c2", "happened", by="rita", note="", since=since)
    with pytest.raises(ToolgenError, match="c2"):
        await outcomes.settle("c2", "happened", by="rita", note="")

    assert [row["call_id"] for row in (await outcomes.open()).calls] == ["c1"]
    await outcomes.close()
    await log.close()


def _waits(call_id: str, **more: Any) -> dict[str, Any]:
    return {"event": "outcome", "call_id": call_id, "status": "pending", "code": "approval_required", **more}


async def test_calls_that_wait_on_record_and_are_not_kept_are_listed_until_somebody_found_out(tmp_path: Path) -> None:
    store = SqliteInvocations(tmp_path / "calls.db", FixedClock())
    log = opened(tmp_path)
    for number in range(6):
        await log.append(_intent(_call(number)))
    for number, more in enumerate(({}, {}, {"code": "deferred"}, {}, {"parent": _call(0)}, {"code": "input_required"})):
        await log.append(_waits(_call(number), **more))
    ended = {"verdict": "deny", "status": "refused", "code": "approval_denied"}
    await log.append({"event": "decision", "call_id": _call(3), **ended})
    assert await store.add(invocation(0), each=9, total=9) is not None
    await store.close()
    outcomes = _outcomes(tmp_path, log)

    rows = (await outcomes.open()).calls
    assert [(row["call_id"], row["doubt"]) for row in rows] == [(_call(1), "lost"), (_call(2), "lost")]

    with pytest.raises(ToolgenError, match="has an unknown outcome"):
        await outcomes.settle(_call(0), "happened", by="rita", note="")
    await outcomes.settle(_call(1), "did_not_happen", by="rita", note="")
    assert [row["call_id"] for row in (await outcomes.open()).calls] == [_call(2)]
    await outcomes.close()
    await log.close()


async def test_a_read_that_waits_on_record_and_is_not_kept_is_listed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await log.append(_intent("c1", "pay__get_refund"))
    await log.append(_waits("c1"))
    await log.close()

    found = await _listed(tmp_path, log)

    assert ([row["doubt"] for row in found.calls], found.unfinished_reads) == (["lost"], 0)


def _call(number: int) -> str:
    return invocation(number).id
