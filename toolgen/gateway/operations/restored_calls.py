"""Calls that wait in restored state although the audit log shows that they were executed or closed: they are ended, never made again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from toolgen.audit.call_window import CallWindow
from toolgen.core.clock import SystemClock
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.gateway.operations.lost_calls import NOT_BEGUN
from toolgen.model.result import Envelope, Error, Meta
from toolgen.state.call_states import Kind
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_sqlite import SqliteInvocations

__all__ = ["end_recorded"]

_KINDS: tuple[Kind, ...] = get_args(Kind)


def end_recorded(database: Path, record: Path) -> int:
    """End the calls in `database` that the audit log shows as begun or over. Returns their number.

    Raises `AuditError` if the log cannot be read, `StateError` for the database.
    """
    return asyncio.run(_end_recorded(database, record)) if database.exists() else 0


async def _end_recorded(database: Path, record: Path) -> int:
    store = SqliteInvocations(database, SystemClock())
    try:
        kept = {known.id: known for kind in _KINDS for known in await store.unfinished(kind)}
        if not kept:
            return 0
        over = [row for row in CallWindow(record).only(kept) if _is_over(kept[row["call_id"]], row)]
        for row in over:
            known = kept[row["call_id"]]
            envelope = envelope_json(_envelope(known, row))
            ended = msgspec.structs.replace(
                known, status="ended", lease=0.0, ended=await store.now(), envelope=envelope, asks={}, replies={}
            )
            await store.replace(known, ended)
        return len(over)
    finally:
        await store.close()


def _is_over(known: Invocation, row: Mapping[str, Any]) -> bool:
    status = row["status"]
    if status == "pending" or (status == "refused" and row.get("code") in NOT_BEGUN):
        return False
    if known.kind == "call" or known.status == "running":
        return bool(status != "unfinished")  # its intent is that of the running call
    return True


def _envelope(known: Invocation, row: Mapping[str, Any]) -> Envelope:
    """Return the result for the caller of a restored call: it was closed, or its answer was lost."""
    closed = row["status"] in {"refused", "cancelled"}
    if closed:
        error = Error(code=row.get("code") or "cancelled", message="this call was closed after the backup was taken")
    else:
        error = Error(
            code="outcome_unknown",
            message="this call was executed after the backup was taken, and its answer was lost; the audit log has its outcome",
            suggestion="check what it should have changed before you make it again",
            rule=known.rule,
        )
    return Envelope(
        status=row["status"] if closed else "error",
        tool=known.tool,
        call_id=known.id,
        data=None,
        error=error,
        meta=Meta(duration_ms=0.0, truncated=False, audit_seq=row.get("outcome_seq")),
    )
