"""Calls that are kept while they wait: a question of a call that goes on without its caller, and what the store answers late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.state.test_invocations import invocation
from toolgen.audit.log import AuditLog
from toolgen.core.clock import SystemClock
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_sqlite import SqliteInvocations

LEFT = invocation(kind="call", status="running", lease=9e9, expires=9e9)
QUESTION = invocation(kind="approval", status="pending", expires=9e9)


class LateStore(SqliteInvocations):
    """A store that carries the first change out, which its caller is told was somebody else's to make; and what others make of it then."""

    def __init__(self, path: Path, since: dict[str, Any]) -> None:
        super().__init__(path, SystemClock())
        self.late, self.since = True, since

    async def replace(self, known: Invocation, changed: Invocation, **more: Any) -> Invocation | None:
        kept = await super().replace(known, changed, **more)
        if kept is not None and self.late:
            self.late = False
            if self.since:
                await super().replace(kept, replace(kept, **self.since))
            return None
        return kept


@pytest.mark.parametrize(
    "since",
    [{}, {"status": "approved"}, {"status": "running", "owner": "another"}, {"status": "ended", "ended": 1.0}],
)
async def test_a_question_that_was_kept_though_nobody_said_so_is_kept_once_and_stands_as_it_does(
    tmp_path: Path, since: dict[str, Any]
) -> None:
    store = LateStore(tmp_path / "calls.db", since)
    calls = WaitingCalls(store=store, log=AuditLog(tmp_path / "log", SystemClock()), approval_text=str)
    assert await calls.store.add(LEFT, each=9, total=9) is not None
    calls.worker.left[LEFT.id] = True

    assert await calls.keep(QUESTION, each=9, total=9)

    known = await store.get(LEFT.id)
    assert known is not None
    assert (known.kind, known.status) == ("approval", since.get("status", "pending"))
    await store.close()


async def test_nobody_is_asked_about_a_call_that_was_left_and_is_over_or_called_off(tmp_path: Path) -> None:
    for number, changes in enumerate(({"cancel": True}, {"status": "ended", "ended": 1.0})):
        store = SqliteInvocations(tmp_path / f"{number}.db", SystemClock())
        calls = WaitingCalls(store=store, log=AuditLog(tmp_path / "log", SystemClock()), approval_text=str)
        known = await calls.store.add(LEFT, each=9, total=9)
        assert known is not None
        assert await store.replace(known, replace(known, **changes)) is not None
        calls.worker.left[LEFT.id] = True

        assert not await calls.keep(QUESTION, each=9, total=9)
        await store.close()
