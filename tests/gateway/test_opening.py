"""A gateway that cannot be opened leaves nothing behind: no task, no thread, no open file, no stream of the record that stays taken."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.functions.projects import written
from toolgen.core.background import each
from toolgen.core.errors import AuditError, ConfigError
from toolgen.frontends.python.gateway import Gateway

MODULE = '''
import toolgen

@toolgen.tool(effect="read")
async def one() -> int:
    """Says one."""
    return 1
'''
STEPS = (
    "_meaning.open",
    "_log.open",
    "_shared.start",
    "tools._runtime.start",
    "role_grants.start",
    "_reloader.start",
    "_runner.start",
    "operations.start",
    "monitoring.start",
    "_meaning.start",
)
ENDS = (
    "role_grants.stop",
    "tools._runtime.stop",
    "_reloader.stop",
    "monitoring.stop",
    "_runner.stop",
    "_meaning.close",
    "_running.ended",
    "approvals.background.close",
    "_shared.vault.close",
    "_answering.close",
)


class Meaning:
    """In place of a model that reads the tools."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.opened = False

    async def open(self) -> None:
        self.opened = True

    def start(self) -> None:
        self.task = asyncio.create_task(asyncio.sleep(3600))

    async def close(self) -> None:
        self.opened = False
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))


def left(before: set[threading.Thread]) -> tuple[list[str], list[str], list[str]]:
    """Tasks, threads and files that are still there. The threads of the loop itself are not the gateway's."""
    gc.collect()
    tasks = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    threads = [one.name for one in set(threading.enumerate()) - before if not one.name.startswith("asyncio_")]
    files = [str(one.resolve()) for one in Path("/proc/self/fd").iterdir()]
    return tasks, threads, files


@contextlib.contextmanager
def replaced(gateway: Gateway, place: str, make: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    """Classes with slots are changed whole: only one gateway is open meanwhile."""
    owner, _, name = place.rpartition(".")
    thing = attrgetter(owner)(gateway)
    step = make(getattr(thing, name))
    with pytest.MonkeyPatch.context() as patched:
        if hasattr(thing, "__dict__"):
            patched.setattr(thing, name, step)
        else:
            patched.setattr(type(thing), name, staticmethod(step))
        yield


def failing(error: BaseException, *, afterwards: bool) -> Callable[[Callable[..., Any]], Any]:
    """A step that raises at once, or when it has done its work."""

    def make(step: Callable[..., Any]) -> Any:
        async def work(*given: Any) -> None:
            if afterwards:
                await step(*given)
            raise error

        def begin(*given: Any) -> None:
            if afterwards:
                step(*given)
            raise error

        return work if inspect.iscoroutinefunction(step) else begin

    return make


@pytest.mark.parametrize("afterwards", [False, True], ids=["at-once", "afterwards"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [AuditError("no room"), asyncio.CancelledError()], ids=["fault", "called-off"])
async def test_a_step_that_fails_leaves_nothing_of_those_before_it(
    tmp_path: Path, step: str, error: BaseException, afterwards: bool
) -> None:
    path = written(tmp_path, MODULE)
    threads = set(threading.enumerate())
    gateway = Gateway.load(path)
    gateway._meaning = meaning = Meaning()  # type: ignore[assignment]
    with replaced(gateway, step, failing(error, afterwards=afterwards)), pytest.raises(type(error)):
        async with gateway:
            pytest.fail("it is open")
    assert not gateway.entered
    assert not meaning.opened
    tasks, running, files = left(threads)
    assert (tasks, running) == ([], [])
    assert not [one for one in files if str(tmp_path) in one]
    async with Gateway.load(path) as again:
        assert (await again.call("own__one", {}, principal="bot")).data == 1
    assert len({one.name.partition(".")[0] for one in (tmp_path / "audit").glob("*.jsonl*")}) == 1


@pytest.mark.parametrize("end", ENDS)
async def test_an_end_that_fails_keeps_no_other_from_its_end(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, MODULE)
    threads = set(threading.enumerate())
    gateway = Gateway.load(path)
    gateway._meaning = meaning = Meaning()  # type: ignore[assignment]
    ending = failing(ConfigError("it does not end"), afterwards=True)
    with replaced(gateway, end, ending), pytest.raises(ConfigError, match="does not end"):
        async with gateway:
            assert (await gateway.call("own__one", {}, principal="bot")).data == 1
    tasks, running, files = left(threads)
    assert (tasks, running, meaning.opened) == ([], [], False)
    assert not [one for one in files if str(tmp_path) in one]


@pytest.mark.parametrize("step", ["_log.open", "_shared.start", "tools._runtime.sync", "role_grants.refresh"])
async def test_a_short_session_that_cannot_begin_leaves_nothing(tmp_path: Path, step: str) -> None:
    path = written(tmp_path, MODULE)
    threads = set(threading.enumerate())
    gateway = Gateway.load(path)
    beginning = failing(AuditError("no room"), afterwards=True)
    with replaced(gateway, step, beginning), pytest.raises(AuditError, match="no room"):
        async with gateway.short_session():
            pytest.fail("it is open")
    tasks, running, files = left(threads)
    assert (tasks, running) == ([], [])
    assert not [one for one in files if str(tmp_path) in one]


async def test_each_step_is_taken_in_order_whatever_others_raise() -> None:
    taken: list[int] = []

    def step(number: int) -> Callable[[], Awaitable[None]]:
        async def take() -> None:
            taken.append(number)
            if number in {1, 2}:
                raise ConfigError(f"step {number}")

        return take

    with pytest.raises(ConfigError, match="step 2"):
        await each(*(step(number) for number in range(4)))
    assert taken == [0, 1, 2, 3]
