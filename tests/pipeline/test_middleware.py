"""Whoever asked may leave: what is awaited for them ends, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from toolgen.pipeline.middleware import CallerConnection


async def until_stopped(ended: list[str]) -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended.append("stopped")
        raise
    return "never"


async def test_what_is_awaited_ends_and_the_task_goes_on() -> None:
    caller_connection, ended = CallerConnection(), list[str]()
    asyncio.get_running_loop().call_soon(caller_connection.leave)
    assert await caller_connection.awaiting(until_stopped(ended)) is None
    assert ended == ["stopped"]
    async with asyncio.timeout(5):  # counts the cancellations of its task
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_what_ended_in_spite_of_it_is_told() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    caller_connection = CallerConnection()
    asyncio.get_running_loop().call_soon(caller_connection.leave)
    assert await caller_connection.awaiting(stubborn()) == "done"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_by_somebody_else_stays_one() -> None:
    caller_connection, ended = CallerConnection(), list[str]()
    task = asyncio.create_task(_awaiting(caller_connection, ended))
    await asyncio.sleep(0)
    caller_connection.leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_is_the_callers() -> None:
    async def failing() -> str:
        raise ValueError("broken")

    caller_connection = CallerConnection()
    with pytest.raises(ValueError, match="broken"):
        await caller_connection.awaiting(failing())
    caller_connection.leave()  # finds nobody
    assert await caller_connection.awaiting(until_stopped([])) is None


async def _awaiting(caller_connection: CallerConnection, ended: list[str]) -> str | None:
    return await caller_connection.awaiting(until_stopped(ended))
