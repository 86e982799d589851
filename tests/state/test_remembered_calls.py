"""What a process wrote itself of a call is not read again; what others wrote is seen, and a change is made against the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.state.test_invocations import invocation
from toolgen.core.clock import SystemClock
from toolgen.state.invocation_format import as_json
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.remembered_calls import RememberedCalls


class Counted(SqliteInvocations):
    """Says how often it was read."""

    reads = 0
    listed = 0

    async def get(self, call_id: str) -> Invocation | None:
        self.reads += 1
        return await super().get(call_id)

    async def several(self, call_ids: Sequence[str]) -> tuple[Invocation, ...]:
        self.listed += len(call_ids)
        return await super().several(call_ids)


@asynccontextmanager
async def using(path: Path) -> AsyncIterator[tuple[RememberedCalls, Counted, RememberedCalls]]:
    """Remembered calls of one worker, the store below them, and those of another worker."""

    here, there = Counted(path, SystemClock()), SqliteInvocations(path, SystemClock())
    try:
        yield RememberedCalls(here), here, RememberedCalls(there)
    finally:
        await here.close()
        await there.close()


def running(**changes: Any) -> Invocation:
    return invocation(kind="call", status="running", lease=50.0, **changes)


async def added(store: RememberedCalls, item: Invocation) -> Invocation:
    kept = await store.add(item, each=9, total=9)
    assert kept is not None
    return kept


async def test_a_call_of_this_worker_and_its_end_are_not_read_again(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, other):
        known = await added(calls, running())
        assert await calls.get(known.id) == known
        told = await calls.replace(known, msgspec.structs.replace(known, progress={"done": 1.0}))
        assert told is not None
        assert await calls.get(known.id) == told
        ended = await calls.replace(told, msgspec.structs.replace(told, status="ended", ended=60.0))
        assert await calls.get(known.id) == ended
        assert (store.reads, await other.get(known.id)) == (0, ended)


async def test_what_another_worker_wrote_is_seen_once_that_is_noticed(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, _, other):
        known = await added(calls, running())
        await calls.changed()
        cancel_requested = await other.replace(known, msgspec.structs.replace(known, cancel=True))
        assert cancel_requested is not None
        assert (await calls.changed(), calls.by_others) == (True, True)
        assert await calls.get(known.id) == cancel_requested
        lost = await other.replace(
            cancel_requested, msgspec.structs.replace(cancel_requested, status="ended", ended=60.0)
        )
        assert await calls.get(known.id) == lost  # one that is called off is read each time


async def test_no_change_is_made_over_what_another_worker_wrote(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, _, other):
        known = await added(calls, running())
        lost = await other.replace(known, msgspec.structs.replace(known, status="ended", ended=60.0))
        stale = await calls.get(known.id)
        assert stale == known
        assert await calls.replace(stale, msgspec.structs.replace(stale, progress={"done": 1.0})) is None
        assert await calls.get(known.id) == lost


async def test_own_changes_are_no_reason_to_read_again(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, _):
        known = await added(calls, running())
        await calls.changed()
        await calls.replace(known, msgspec.structs.replace(known, progress={"done": 1.0}))
        assert (await calls.changed(), calls.by_others) == (True, False)
        await calls.get(known.id)
        assert store.reads == 0


async def test_what_others_may_answer_or_what_is_large_is_read_each_time(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, _):
        asks = {"q": {"method": "elicitation/create", "params": {}}}
        for number, item in enumerate(
            (
                invocation(),
                running(asks=asks),
                running(parts=("x" * 20_000,)),
                invocation(kind="device", status="running"),
                invocation(kind="workflow", status="running"),
            )
        ):
            known = await added(calls, msgspec.structs.replace(item, id=f"call_{number}"))
            assert await calls.get(known.id) == await calls.get(known.id) == known
        assert store.reads == 10


async def test_what_is_forgotten_is_forgotten_here_too(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, _, _):
        known = await added(calls, running())
        await calls.replace(known, msgspec.structs.replace(known, status="ended", ended=60.0))
        await calls.forget(60.0)
        assert await calls.get(known.id) is not None
        await calls.forget(60.1)
        assert await calls.get(known.id) is None


async def test_no_more_than_some_hundred_are_remembered(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, _):
        for number in range(600):
            await calls.add(running(id=f"call_{number}"), each=999, total=999)
        await calls.get("call_599")
        assert store.reads == 0
        await calls.get("call_0")
        assert store.reads == 1


async def test_a_list_of_calls_for_people_reads_those_that_changed(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, other):
        made = [await added(calls, invocation(number, principal=f"bot-{number}")) for number in range(1, 6)]
        assert await calls.unfinished() == tuple(made)
        assert (await calls.unfinished(), store.listed) == (tuple(made), 5)
        voted = await other.replace(made[1], msgspec.structs.replace(made[1], rule="of another worker"))
        ended = await other.replace(made[2], msgspec.structs.replace(made[2], status="ended", ended=60.0))
        assert (voted is None, ended is None) == (False, False)
        assert await calls.unfinished() == (made[0], voted, *made[3:])
        assert store.listed == 6
        await calls.begin_epoch()
        assert (await calls.unfinished(), store.listed) == ((made[0], voted, *made[3:]), 10)


async def test_the_list_of_calls_for_people_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with using(tmp_path / "calls.db") as (calls, store, other):
        made = [await added(calls, invocation(number, principal=f"bot-{number}")) for number in range(1, 6)]
        monkeypatch.setattr("toolgen.state.remembered_calls._MAX_QUEUE_SIZE", 3 * len(as_json(made[0])))
        assert await calls.unfinished() == tuple(made)
        assert (await calls.unfinished(), store.listed) == (tuple(made), 5 + 2)
        await other.replace(made[0], msgspec.structs.replace(made[0], status="ended", ended=60.0))
        assert (await calls.unfinished(), store.listed) == (tuple(made[1:]), 5 + 2 + 2)
        assert (await calls.unfinished(), store.listed) == (tuple(made[1:]), 5 + 2 + 2 + 1)
