"""Tasks that have to go on do: a fault of one is told of, counted, and the task starts again."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import re
from pathlib import Path

import pytest

import toolgen
from tests.messages import line_names
from tests.patient import until
from toolgen.core import background
from toolgen.core.background import Background, FaultLog, SeldomLog, cancel
from toolgen.core.clock import FixedClock


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(background, "_MAX_PAUSE_S", 0.002)
    monkeypatch.setattr(background, "_CANCELLED_AGAIN_S", 0.01)


async def test_a_task_that_fails_starts_again_and_says_so_without_the_words_of_its_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: list[int] = []

    async def work() -> None:
        runs.append(len(runs))
        if len(runs) < 5:
            raise RuntimeError("canary-4711")
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR):
        tasks = Background()
        task = tasks.start("looking after things", work)
        await until(lambda: len(runs) >= 4)
        assert tasks.restarts["looking after things"] >= 3
        await until(lambda: len(runs) == 5 and not tasks.faults())  # it goes on, so nothing is wrong any more
        assert not task.done()
        task.cancel()
        await asyncio.wait((task,))
    assert line_names(caplog.text, "looking after things failed", "again")
    assert "RuntimeError at" in caplog.text
    assert "canary" not in caplog.text


async def test_while_a_task_keeps_failing_it_is_said() -> None:
    async def work() -> None:
        raise ValueError("canary")

    tasks = Background()
    task = tasks.start("looking after things", work)
    await until(lambda: tasks.restarts.get("looking after things", 0) > 3)
    assert [line_names(one, "looking after things failed (ValueError)") for one in tasks.faults()] == [True]
    task.cancel()
    await asyncio.wait((task,))


@pytest.mark.parametrize("ending", ["returns", "cancelled"])
async def test_a_task_that_ends_in_order_is_not_started_again(ending: str) -> None:
    runs: list[str] = []

    async def work() -> None:
        runs.append(ending)
        if ending == "cancelled":
            await asyncio.Event().wait()

    tasks = Background()
    task = tasks.start("one thing", work)
    await until(lambda: bool(runs))
    if ending == "cancelled":
        task.cancel()
    await asyncio.wait((task,))
    assert (tasks.faults(), tasks.restarts) == ((), {})
    assert len(runs) == 1


def test_the_same_fault_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = FixedClock()
    trouble = FaultLog(clock, "calls")
    with caplog.at_level(logging.ERROR):
        for second in range(150):
            trouble.say("another key" if second % 2 else "was changed", passing=False)
            clock.advance(1)
    assert [record.getMessage() for record in caplog.records].count("calls: another key") == 3
    assert len(caplog.records) == 6
    assert trouble.lasting == trouble.fault == "calls: another key"
    trouble.say("Redis cannot be reached", passing=True)
    assert (trouble.lasting, bool(trouble.fault)) == ("", True)
    trouble.clear()
    assert (trouble.lasting, trouble.fault) == ("", "")


def test_what_happens_again_and_again_is_said_once_a_minute_with_how_often(caplog: pytest.LogCaptureFixture) -> None:
    clock = FixedClock()
    told = SeldomLog(logging.getLogger("toolgen.test"), clock)
    for sentence in ("one", "one", "other", "one"):
        told.say(sentence)
    clock.advance(59)
    told.say("one")
    clock.advance(1)
    told.say("one")
    told.say("other")
    messages = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"one \(.*\b3 times\b.*\)", messages.pop(2))
    assert messages == ["one", "other", "other"]


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost: list[int] = []

    async def work() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if len(lost) == 2:
                    raise
                lost.append(1)

    tasks = [asyncio.create_task(work()), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await cancel(*tasks)
    assert all(task.done() for task in tasks)
    assert len(lost) == 2


async def test_a_task_that_was_cancelled_may_fail_without_a_report_of_the_event_loop() -> None:
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, report: reports.append(report))

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise OSError

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel(task)
    del task
    gc.collect()
    assert not reports


WAITS_FOR_EVER = """
async def close(self):
    self._task.cancel()
    await asyncio.gather(self._task, return_exceptions=True)
"""


def cancelled_and_awaited(module: str) -> list[str]:
    """Functions that cancel tasks once, and wait for their end without a time limit."""
    found = []
    for function in ast.walk(ast.parse(module)):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        cancels = {
            (ast.unparse(node.func.value), node.lineno)
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cancel"
        }
        awaits = [(ast.unparse(node.value), node.lineno) for node in ast.walk(function) if isinstance(node, ast.Await)]
        found += [
            function.name
            for awaited, line in awaits
            for name, before in cancels
            if before < line
            and (
                awaited == name
                or (awaited.startswith(("asyncio.gather(", "asyncio.wait(")) and "timeout=" not in awaited)
            )
        ]
    return found


def test_tasks_whose_end_is_awaited_are_cancelled_until_they_end() -> None:
    assert cancelled_and_awaited(WAITS_FOR_EVER) == ["close"]
    root = Path(toolgen.__file__).parent
    found = {str(path.relative_to(root)): cancelled_and_awaited(path.read_text("utf-8")) for path in root.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}
