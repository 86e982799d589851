"""The pool: never more than its size, nobody waits for ever, and nothing unclear is handed out again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from toolgen.connectors.sql.execution.connections import LostConnectionError, Pool, PoolExhaustedError
from toolgen.core.clock import SystemClock


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Driver:
    """Counts connections; those in `dead` fail as they begin."""

    opened: int = 0
    dead: set[int] = field(default_factory=set)
    abandoned: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    broken_end: bool = False
    lingers: bool = False  # what was abandoned goes on until it is `over`
    unreachable: bool = False
    over: bool = False
    asked: list[int] = field(default_factory=list)

    async def open(self) -> int:
        self.opened += 1
        return self.opened

    async def begin(self, connection: int, timeout_s: float) -> None:
        if connection in self.dead:
            raise LostConnectionError

    async def end(self, connection: int) -> None:
        if self.broken_end:
            raise ConnectionError
        self.ended.append(connection)

    async def abandon(self, connection: int) -> bool:
        await asyncio.sleep(0)
        self.abandoned.append(connection)
        return not self.lingers

    async def gone(self, connection: int) -> bool:
        self.asked.append(connection)
        if self.unreachable:
            raise ConnectionError
        return self.over


@asynccontextmanager
async def with_pool(
    *, size: int = 2, wait_s: float = 0.0, clock: object = None
) -> AsyncIterator[tuple[Pool[int], Driver]]:
    driver = Driver()
    yield Pool(driver, size=size, wait_s=wait_s, clock=clock or SystemClock()), driver


async def test_a_connection_is_used_again_after_it_ended() -> None:
    async with with_pool() as (pool, driver):
        for _ in range(3):
            async with pool.session(1.0) as connection:
                assert connection == 1
        assert driver.ended == [1, 1, 1]


async def test_there_are_never_more_than_its_size() -> None:
    async with with_pool() as (pool, driver):
        async with pool.session(1.0), pool.session(1.0):
            with pytest.raises(PoolExhaustedError):
                async with pool.session(1.0):
                    pytest.fail("a third one")
        async with pool.session(1.0):
            pass
        assert driver.opened == 2


async def test_whoever_waits_gets_the_next_free_one() -> None:
    async with with_pool(size=1, wait_s=60.0) as (pool, driver):

        async def one() -> int:
            async with pool.session(1.0) as connection:
                await asyncio.sleep(0)
                return connection

        assert await asyncio.gather(*(one() for _ in range(20))) == [1] * 20
        assert driver.opened == 1


async def test_what_leaves_with_an_exception_is_abandoned() -> None:
    async with with_pool() as (pool, driver):
        with pytest.raises(KeyError):
            async with pool.session(1.0):
                raise KeyError
        assert driver.abandoned == [1]
        async with pool.session(1.0) as connection:
            assert connection == 2


async def test_whoever_is_cancelled_while_dead_connections_are_thrown_away_gets_no_other() -> None:
    async with with_pool() as (pool, driver):
        async with pool.session(1.0), pool.session(1.0):
            pass
        driver.dead = {1, 2}
        begun: list[int] = []

        async def one() -> None:
            async with pool.session(1.0) as connection:
                begun.append(connection)

        task = asyncio.create_task(one())
        await asyncio.sleep(0)  # it finds the first dead, and abandons it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (begun, sorted(driver.abandoned), driver.opened) == ([], [1, 2], 2)
        async with pool.session(1.0) as connection:
            assert connection == 3


async def test_abandoning_goes_to_its_end_when_the_caller_is_cancelled_twice() -> None:
    async with with_pool() as (pool, driver):
        entered = asyncio.Event()

        async def one() -> None:
            async with pool.session(1.0):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(one())
        await entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert driver.abandoned == [1]


async def test_one_dead_connection_says_that_its_idle_siblings_are() -> None:
    async with with_pool() as (pool, driver):
        async with pool.session(1.0), pool.session(1.0):
            pass
        driver.dead = {1, 2}
        async with pool.session(1.0) as connection:
            assert connection == 3
        assert sorted(driver.abandoned) == [1, 2]


async def test_a_new_connection_that_is_dead_at_once_is_the_callers_to_know() -> None:
    async with with_pool() as (pool, driver):
        driver.dead = {1, 2}
        with pytest.raises(LostConnectionError):
            async with pool.session(1.0):
                pytest.fail("it began")
        assert driver.abandoned == [1]


async def test_one_that_cannot_be_ended_is_thrown_away() -> None:
    async with with_pool() as (pool, driver):
        driver.broken_end = True
        async with pool.session(1.0):
            pass
        async with pool.session(1.0) as connection:
            assert connection == 2
        assert driver.abandoned == [1, 2]


async def test_an_old_one_is_replaced() -> None:
    clock = Clock()

    async with with_pool(clock=clock) as (pool, driver):
        async with pool.session(1.0):
            pass
        clock.now = 301.0
        async with pool.session(1.0) as connection:
            assert connection == 2
        assert driver.abandoned == [1]


async def test_closing_closes_what_is_idle_now_and_the_rest_as_it_comes_back() -> None:
    async with with_pool() as (pool, driver):
        async with pool.session(1.0):
            async with pool.session(1.0):
                pass
            await pool.close()
            assert driver.abandoned == [2]
        assert driver.abandoned == [2, 1]


async def test_what_goes_on_after_it_was_abandoned_counts_until_the_server_says_it_is_gone() -> None:
    async with with_pool(wait_s=0.1) as (pool, driver):
        driver.lingers = True
        for _ in range(2):
            with pytest.raises(RuntimeError):
                async with pool.session(1.0):
                    raise RuntimeError
        for driver.unreachable in (False, True):
            with pytest.raises(PoolExhaustedError):
                async with pool.session(1.0):
                    pass
        assert set(driver.asked) == {1, 2}
        driver.unreachable = False
        driver.over = True
        await asyncio.gather(*pool._lingering)
        async with pool.session(1.0), pool.session(1.0):
            with pytest.raises(PoolExhaustedError):
                async with pool.session(1.0):
                    pass


async def test_a_pool_that_closes_waits_for_nothing_that_lingers() -> None:
    async with with_pool() as (pool, driver):
        driver.lingers = True
        with pytest.raises(RuntimeError):
            async with pool.session(1.0):
                raise RuntimeError
        await pool.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not pool._lingering
