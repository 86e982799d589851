"""Delivery to one webhook over real HTTP: tried again with pauses, under its id, given up after a day, never in two places at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.notify.test_webhook import OPEN, sender, webhook
from tests.messages import line_names
from tests.receivers import Receiver, receiver
from toolgen.core.background import FaultLog
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError, StateError
from toolgen.gateway.notify.delivery import MAX_AGE_S, DeliveryCounts, WebhookDelivery
from toolgen.state.outbox import WebhookMessage
from toolgen.state.outbox_sqlite import SqliteOutbox


class World:
    """One webhook, its outbox under a clock that is moved, and the record."""

    def __init__(self, folder: Path, to: Receiver, chance: float = 1.0) -> None:
        self.to, self.clock = to, FixedClock()
        self.outbox = SqliteOutbox(folder / "notify.db", self.clock)
        self.counts, self.record, self.refuses = DeliveryCounts(), list[Mapping[str, Any]](), False
        self.workers = [
            WebhookDelivery(
                receiver="ops",
                outbox=self.outbox,
                sender=sender(webhook(to.url), OPEN),
                note=self._note,
                chance=lambda: chance,
                counts=self.counts,
                trouble=FaultLog(self.clock, "delivery"),
            )
            for _ in range(2)
        ]

    async def _note(self, fields: Mapping[str, Any]) -> None:
        if self.refuses:
            raise AuditError("the disk is full")
        self.record.append(fields)

    async def told(self, number: int = 1) -> None:
        message = WebhookMessage(id=f"msg_{number}", receiver="ops", event="e", call_id="call_1", made=0.0, body=b"{}")
        await self.outbox.tell(f"call_{number}", "e", [message], until=1e12)

    async def once(self) -> bool:
        return await self.workers[0].once()

    def ids(self) -> list[str]:
        return [one.id for one in self.to.got]


@asynccontextmanager
async def play(folder: Path, answers: list[Any], chance: float = 1.0) -> AsyncIterator[World]:
    with receiver() as to:
        to.answers = answers

        world = World(folder, to, chance)
        try:
            yield world
        finally:
            await world.outbox.close()


async def test_what_failed_is_sent_again_under_its_id_with_a_new_time_and_signature(tmp_path: Path) -> None:
    async with play(tmp_path, [(500, {}), (200, {})]) as world:
        await world.told()
        assert await world.once()
        assert not await world.once()
        world.clock.advance(4.9)
        assert not await world.once()
        world.clock.advance(0.2)
        assert await world.once()
        assert not await world.once()
        first, second = world.to.got
        assert (first.id, first.body) == (second.id, second.body)
        assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 5
        assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
        assert (world.counts.delivered, world.counts.failed, world.counts.dead) == (1, 1, 0)
        world.clock.advance(MAX_AGE_S)
        assert not await world.once()


async def pauses(folder: Path, chance: float) -> list[float]:
    """How long each message was held back, until it was given up."""
    found: list[float] = []

    async with play(folder, [(500, {})] * 200, chance) as world:
        await world.told()
        began = world.clock.now()
        while (await world.outbox.counts("ops")).waiting:
            before = world.clock.now()
            while not await world.once():
                world.clock.advance(2.5 if len(found) < 7 else 100)
            found.append(world.clock.now() - before)
        assert world.clock.now() - began <= MAX_AGE_S
        (letter,) = await world.outbox.dead("ops")
        assert line_names(letter.why, "in time: ", "500")
        assert [(one["event"], one["status"], one["code"]) for one in world.record] == [
            ("notification", "error", "upstream_error")
        ]
    return found[1:]


async def test_pauses_double_up_to_an_hour_and_jitter_takes_up_to_half(tmp_path: Path) -> None:
    longest = await pauses(tmp_path / "longest", 1.0)
    assert longest[:5] == [5, 10, 20, 40, 80]
    assert set(longest[10:]) == {3600}
    assert (await pauses(tmp_path / "shortest", 0.0))[:5] == [2.5, 5, 10, 20, 40]


async def test_a_receiver_that_asks_us_to_wait_is_sent_nothing_before(tmp_path: Path) -> None:
    async with play(tmp_path, [(429, {"retry-after": "60"})]) as world:
        for number in (1, 2):
            await world.told(number)
        assert await world.once()
        assert not await world.once()
        world.clock.advance(59)
        assert not await world.once()
        world.clock.advance(2)
        assert await world.once()
        assert await world.once()
        assert sorted(world.ids()) == ["msg_1", "msg_1", "msg_2"]


async def test_410_ends_it_at_once_and_closing_or_an_odd_answer_does_not(tmp_path: Path) -> None:
    async with play(tmp_path, [(410, {}), "close", (418, {})]) as world:
        for number in (1, 2, 3):
            await world.told(number)
            assert await world.once()
        assert {one.id for one in await world.outbox.dead("ops")} == {"msg_1"}
        assert (await world.outbox.counts("ops")).waiting == 2


async def test_two_workers_never_send_to_one_webhook_at_once(tmp_path: Path) -> None:
    async with play(tmp_path, ["hang"]) as world:
        for number in (1, 2):
            await world.told(number)
        first = asyncio.create_task(world.workers[0].once())
        await world.to.reached(1)
        assert not await world.workers[1].once()
        world.to.release.set()
        assert await first
        assert await world.workers[1].once()
        assert world.ids() == ["msg_1", "msg_2"]


async def test_a_worker_that_stops_hands_on_what_it_was_sending(tmp_path: Path) -> None:
    async with play(tmp_path, ["hang"]) as world:
        await world.told()
        task = asyncio.create_task(world.workers[0].run())
        await world.to.reached(1)
        task.cancel()
        await asyncio.wait([task])
        assert await world.workers[1].once()
        assert world.ids() == ["msg_1", "msg_1"]


async def test_a_worker_stops_also_where_the_outbox_cannot_be_reached(tmp_path: Path) -> None:
    async with play(tmp_path, ["hang"]) as world:
        await world.told()
        running = asyncio.create_task(world.workers[0].run())
        await world.to.reached(1)
        gone, world.outbox.settle = world.outbox.settle, unreachable  # type: ignore[method-assign]
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=10)
        world.outbox.settle = gone  # type: ignore[method-assign]
        world.to.release.set()
        assert done == {running}
        assert running.cancelled()


async def unreachable(*_: object) -> bool:
    raise StateError("nobody is there")


async def test_a_dead_letter_that_cannot_be_recorded_is_one_all_the_same(tmp_path: Path) -> None:
    async with play(tmp_path, [(410, {})]) as world:
        world.refuses = True
        await world.told()
        assert await world.once()
        assert (await world.outbox.counts("ops")).dead == 1
