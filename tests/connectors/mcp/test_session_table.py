"""Sessions that workers share: one of them begins each, the others wait for it, and none is left waiting for one that is gone."""

from __future__ import annotations

from toolgen.connectors.mcp.command_frames import SessionDropped, SessionReady, SessionReply, SessionRequest
from toolgen.connectors.mcp.session_table import SessionTable

AGREED = SessionReady(number=1, key="k", version="2025-11-25", session="s", server=("Far", "1"))


class Worker:
    """What a worker was told."""

    def __init__(self) -> None:
        self.met: list[SessionReply] = []

    def send(self, said: SessionReply) -> None:
        self.met.append(said)


class World:
    """A table, and three workers that may ask it."""

    def __init__(self) -> None:
        self.dropped: list[SessionDropped] = []
        self.table = SessionTable(self.dropped.append)
        self.first, self.second, self.third = Worker(), Worker(), Worker()

    def meet(self, worker: Worker, number: int = 1, lost: int = 0) -> None:
        self.table.meet(worker, SessionRequest(number=number, key="k", lost=lost))

    def told(self) -> list[list[str]]:
        """The sessions that each was told of, "" where it is to begin one."""
        return [[met.session for met in worker.met] for worker in (self.first, self.second, self.third)]


def test_one_begins_and_the_others_wait_for_it() -> None:
    world = World()
    for worker in (world.first, world.second, world.third):
        world.meet(worker)
    assert world.told() == [[""], [], []]
    world.table.settle(world.first, AGREED)
    assert world.told() == [[""], ["s"], ["s"]]
    assert {met.epoch for worker in (world.first, world.second, world.third) for met in worker.met} == {1}


def test_no_two_workers_count_their_requests_alike() -> None:
    world = World()
    for number in range(1, 5):
        for worker in (world.first, world.second):
            world.meet(worker, number)
        if number == 1:
            world.table.settle(world.first, AGREED)
    above = [met.above for worker in (world.first, world.second) for met in worker.met]
    assert len(set(above)) == len(above) == 8
    assert max(above) + 2**32 < 2**53


def test_one_that_fails_or_dies_or_gives_up_makes_way_for_the_next() -> None:
    for gone in ("fails", "dies", "gives up"):
        world = World()
        for worker in (world.first, world.second, world.third):
            world.meet(worker)
        match gone:
            case "fails":
                world.table.settle(world.first, SessionReady(number=1, key="k"))
            case "dies":
                world.table.forget(world.first)
            case _:
                world.table.forget(world.first, 1)
        assert world.told() == [[""], [""], []]
        world.table.settle(world.first, AGREED)  # too late: its word counts for nothing
        assert world.told() == [[""], [""], []]
        world.table.settle(world.second, AGREED)
        assert world.told() == [[""], [""], ["s"]]


def test_one_that_waits_and_gives_up_is_not_told() -> None:
    world = World()
    for worker in (world.first, world.second, world.third):
        world.meet(worker)
    world.table.forget(world.second, 1)
    world.table.settle(world.first, AGREED)
    assert world.told() == [[""], [], ["s"]]


def test_a_session_that_is_lost_is_dropped_by_all_and_begun_once_more() -> None:
    world = World()
    world.meet(world.first)
    world.table.settle(world.first, AGREED)
    world.meet(world.second)
    for worker in (world.first, world.second):  # both found it lost
        world.meet(worker, 2, lost=1)
    assert world.dropped == [SessionDropped(key="k", epoch=1)]
    assert world.told() == [["", ""], ["s"], []]
    world.table.settle(world.first, SessionReady(number=2, key="k", version="2025-11-25", session="t"))
    assert world.told() == [["", ""], ["s", "t"], []]
    world.meet(world.third, lost=1)  # which is not the one that is used now
    assert world.told()[2] == ["t"]
    assert len(world.dropped) == 1


def test_the_number_of_sessions_is_bounded(monkeypatch: object) -> None:
    world = World()
    for at in range(20_010):
        world.table.meet(world.first, SessionRequest(number=at, key=str(at)))
        world.table.settle(
            world.first, SessionReady(number=at, key=str(at), version="2025-11-25", session="s", server=("", ""))
        )
    assert [one.key for one in world.dropped] == [str(at) for at in range(10)]
