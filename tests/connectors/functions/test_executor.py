"""What runs functions: bounded shares, threads and loops that hang, and what one function can do to the others."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from tests.messages import line_names
from tests.patient import until
from toolgen.connectors.functions.context import ToolContext
from toolgen.connectors.functions.decorator import ToolMark
from toolgen.connectors.functions.runtime import FunctionRuntime
from toolgen.connectors.functions.signature import FunctionTool
from toolgen.connectors.functions.threads import Escaped, LoopWatch, Shares, ThreadsBusy
from toolgen.model.call import Principal
from toolgen.model.client_channel import InputNeeded
from toolgen.model.schema import Json, JsonObject

SHARES = Shares(all=4, each=2, lost_all=3, lost_each=2)
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")


def offer(function: Callable[..., Any]) -> FunctionTool:
    return FunctionTool(
        name="f",
        function=function,
        mark=ToolMark(effect="read"),
        summary="",
        input_schema={},
        output_schema=None,
        struct=None,
        context="",
        content=False,
        code="",
        line=0,
    )


@contextlib.asynccontextmanager
async def opened(watch: LoopWatch | None = None) -> AsyncIterator[FunctionRuntime]:
    """Runtime of functions with small shares, closed at the end."""
    runtime = FunctionRuntime(SHARES, watch or LoopWatch())
    try:
        yield runtime
    finally:
        await runtime.close()


class Hanging:
    """A function that hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self) -> str:
        self.begun.release()
        self.go.wait()
        return "late"

    async def hold(self, runtime: FunctionRuntime, who: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(runtime.run(offer(self), {}, who=who, name="f"))
        await asyncio.to_thread(self.begun.acquire)
        return task

    async def lose(self, runtime: FunctionRuntime, who: str) -> None:
        (task := await self.hold(runtime, who)).cancel()
        await asyncio.wait([task])


async def runs(runtime: FunctionRuntime, who: str) -> bool:
    try:
        return bool(await runtime.run(offer(lambda: "fine"), {}, who=who, name="g") == "fine")
    except ThreadsBusy:
        return False


async def test_a_principal_whose_functions_hang_takes_its_share_and_nobody_elses() -> None:
    async with opened() as runtime:
        hanging = Hanging()
        held = [await hanging.hold(runtime, "ann") for _ in range(2)]
        assert not await runs(runtime, "ann")
        assert await runs(runtime, "ben")
        held += [await hanging.hold(runtime, "ben") for _ in range(2)]
        assert not await runs(runtime, "cid"), "all are taken"
        assert runtime.counts.threads == 4
        hanging.go.set()
        assert await asyncio.gather(*held) == ["late"] * 4
        assert await runs(runtime, "ann")
        assert runtime.counts.threads == 0


async def test_a_lost_thread_is_replaced_and_counted_until_one_principal_lost_too_many() -> None:
    async with opened() as runtime:
        hanging = Hanging()
        for lost in (1, 2):
            await hanging.lose(runtime, "ann")
            assert (runtime.counts.threads, runtime.counts.threads_lost) == (0, lost)
            assert await runs(runtime, "ann")
        await hanging.lose(runtime, "ann")  # its two are used up: this one is not replaced
        assert (runtime.counts.threads, runtime.counts.threads_lost) == (1, 2)
        assert await runs(runtime, "ann")
        await hanging.lose(runtime, "ann")
        assert not await runs(runtime, "ann")
        await hanging.lose(runtime, "ben")
        assert runtime.counts.threads_lost == 3
        await hanging.lose(runtime, "ben")  # nor is there any more for anybody
        assert (runtime.counts.threads, runtime.counts.threads_lost) == (3, 3)
        assert runtime.counts.threads_abandoned == 6
        assert await runs(runtime, "cid")
        hanging.go.set()
        await until(lambda: not (runtime.counts.threads or runtime.counts.threads_lost))
        assert await runs(runtime, "ann")


async def test_as_many_functions_as_may_run_at_once_are_run_by_the_same_threads_again() -> None:
    every = asyncio.Barrier(SHARES.all)

    async def one(runtime: FunctionRuntime, who: str) -> int:
        def thread() -> int:
            time.sleep(0.05)
            return threading.get_ident()

        await every.wait()
        return int(await runtime.run(offer(thread), {}, who=who, name="f"))

    async with opened() as runtime:
        rounds = [await asyncio.gather(*(one(runtime, who) for who in ("ann", "ann", "ben", "ben"))) for _ in range(3)]
        assert all(len(set(found)) == SHARES.all for found in rounds)
        assert {ident for found in rounds for ident in found} == set(rounds[0])


@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, uvloop.Loop])
async def test_async_functions_run_on_a_loop_of_the_gateways_kind(
    loop_factory: type[asyncio.AbstractEventLoop],
) -> None:
    async def loop() -> str:
        return type(asyncio.get_running_loop()).__qualname__

    assert isinstance(asyncio.get_running_loop(), loop_factory)
    async with opened() as runtime:
        found = await runtime.run(offer(loop), {}, who="ann", name="f")
    assert found == type(asyncio.get_running_loop()).__qualname__


async def test_no_thread_of_a_function_keeps_the_process() -> None:
    async with opened() as runtime:
        hanging = Hanging()
        await hanging.lose(runtime, "ann")

        async def there() -> threading.Thread:
            return threading.current_thread()

        loop = await runtime.run(offer(there), {}, who="ann", name="g")
        assert loop.daemon
        assert [one.name for one in threading.enumerate() if one.name.startswith("toolgen-") and not one.daemon] == []
        hanging.go.set()


class _Ends(BaseException):
    """What is no error of anybody's."""


def _raising(error: BaseException) -> tuple[Callable[[], Any], Callable[[], Any]]:
    def inside() -> None:
        raise error

    async def waiting() -> None:
        raise error

    return inside, waiting


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("error", "comes"),
    [
        (ValueError("x"), ValueError),
        (TimeoutError("x"), TimeoutError),
        (InputNeeded(), InputNeeded),
        (BaseExceptionGroup("both", [InputNeeded(), ValueError()]), BaseExceptionGroup),
        (SystemExit(3), Escaped),
        (KeyboardInterrupt(), Escaped),
        (asyncio.CancelledError(), Escaped),
        (GeneratorExit(), Escaped),
        (_Ends(), Escaped),
        (BaseExceptionGroup("both", [SystemExit(3), ValueError()]), Escaped),
    ],
)
async def test_whatever_a_function_raises_ends_its_call_and_nothing_else(
    error: BaseException, comes: type[BaseException], asynchronous: bool
) -> None:
    async with opened() as runtime:
        with pytest.raises(comes):
            await runtime.run(offer(_raising(error)[asynchronous]), {}, who="ann", name="f")
        assert await runs(runtime, "ann")

        async def there() -> str:
            return "fine"

        assert await runtime.run(offer(there), {}, who="ann", name="g") == "fine"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_context_variables_of_the_call_are_the_functions_and_its_own_stay_there(asynchronous: bool) -> None:
    def inside() -> str:
        found = VARIABLE.get()
        VARIABLE.set("changed")
        return found

    async def waiting() -> str:
        return await asyncio.create_task(asyncio.to_thread(inside))

    async with opened() as runtime:
        for value in ("one", "two"):
            VARIABLE.set(value)
            found = await runtime.run(offer(waiting if asynchronous else inside), {}, who="ann", name="f")
            assert (found, VARIABLE.get()) == (value, value)


async def test_a_cancelled_coroutine_ends_before_its_call_does() -> None:
    seen = list[str]()
    begun = threading.Semaphore(0)

    async def waiting() -> None:
        try:
            begun.release()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("tidied")

    async with opened() as runtime:
        task = asyncio.create_task(runtime.run(offer(waiting), {}, who="ann", name="f"))
        await asyncio.to_thread(begun.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["tidied"]


async def test_a_coroutine_that_will_not_be_cancelled_keeps_no_call() -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    async def stubborn() -> None:
        begun.release()
        while not go.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    async with opened() as runtime:
        task = asyncio.create_task(runtime.run(offer(stubborn), {}, who="ann", name="f"))
        await asyncio.to_thread(begun.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not go.is_set()
        go.set()


async def test_a_function_that_blocks_its_loop_is_named_and_the_next_calls_get_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging = Hanging()

    async def blocks() -> str:
        return hanging()

    async def innocent() -> str:
        return "fine"

    async with opened(LoopWatch(every_s=0.01, blocked_s=0.05, lost_s=0.1)) as runtime:
        first = asyncio.create_task(runtime.run(offer(blocks), {}, who="ann", name="own__blocks"))
        await asyncio.to_thread(hanging.begun.acquire)
        stuck = asyncio.create_task(runtime.run(offer(innocent), {}, who="ann", name="own__innocent"))
        await until(lambda: "get a new event loop" in caplog.text)
        assert line_names(caplog.text, "own__blocks", "event loop")
        assert "test_executor.py" in caplog.text
        assert "own__innocent" not in caplog.text
        assert await runtime.run(offer(innocent), {}, who="ann", name="own__innocent") == "fine"
        assert runtime.counts.loops_lost >= 1
        assert not stuck.done()
        hanging.go.set()
        assert (await first, await stuck) == ("late", "fine"), "what was under way ends where it began"
        await until(lambda: not runtime.counts.loops_lost)


async def test_when_too_many_loops_are_blocked_calls_are_refused_at_once() -> None:
    hanging = Hanging()

    async def blocks() -> str:
        return hanging()

    async with opened(LoopWatch(every_s=0.01, blocked_s=0.05, lost_s=0.1)) as runtime:
        tasks = list[asyncio.Task[Any]]()
        for lost in range(1, 5):
            tasks.append(asyncio.create_task(runtime.run(offer(blocks), {}, who="ann", name="f")))
            await asyncio.to_thread(hanging.begun.acquire)
            await until(lambda lost=lost: runtime.counts.loops_lost >= lost)
        with pytest.raises(ThreadsBusy):
            await runtime.run(offer(blocks), {}, who="ann", name="f")
        assert await runs(runtime, "ann"), "threads are something else"
        hanging.go.set()
        assert await asyncio.gather(*tasks) == ["late"] * 4


async def test_a_call_given_up_while_its_loop_was_blocked_never_begins() -> None:
    hanging, ran = Hanging(), list[str]()

    async def blocks() -> str:
        return hanging()

    async def late() -> None:
        ran.append("late")

    async with opened() as runtime:
        first = asyncio.create_task(runtime.run(offer(blocks), {}, who="ann", name="f"))
        await asyncio.to_thread(hanging.begun.acquire)
        with pytest.raises(TimeoutError):
            async with runtime.time_limit(0.01):
                await runtime.run(offer(late), {}, who="ann", name="g")
        hanging.go.set()
        await first
        await runtime.run(offer(lambda: None), {}, who="ann", name="h")
        assert ran == []


async def test_when_functions_are_given_up_everybody_who_waits_is_answered() -> None:
    async with opened() as runtime:
        hanging = Hanging()

        async def one() -> str:
            try:
                async with runtime.time_limit(3600):
                    await runtime.run(offer(hanging), {}, who="ann", name="f")
            except TimeoutError:
                return "given up"
            return "ended"

        task = asyncio.create_task(one())
        await asyncio.to_thread(hanging.begun.acquire)
        runtime.give_up()
        assert await task == "given up"
        assert await one() == "given up", "and what begins now has no time at all"
        hanging.go.set()


class _Answering:
    """A caller that answers on the gateway's loop, and nowhere else."""

    capabilities = frozenset({"elicitation"})

    def __init__(self) -> None:
        self.home = asyncio.get_running_loop()
        self.told = list[float]()
        self.asked_while = asyncio.Event()

    def disconnected(self) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None:
        assert asyncio.get_running_loop() is self.home
        self.told.append(done)

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        assert asyncio.get_running_loop() is self.home
        self.asked_while.set()
        await asyncio.sleep(0.2)
        return {"action": "accept", "content": {"key": key}}


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_questions_and_progress_reach_the_caller_on_its_own_loop_and_cost_the_function_no_time(way: str) -> None:
    async with opened() as runtime:
        line = _Answering()
        context = ToolContext(call_id="c", principal=Principal(id="ann"), line=line, loop=asyncio.get_running_loop())

        async def asks() -> Any:
            await context.progress(1)
            return (await context.elicit("which?", {"type": "object"}, key="k")).content["key"]

        def inside() -> Any:
            return asyncio.run(asks())

        await runs(runtime, "ann")
        async with runtime.time_limit(30) as time_limit:
            time_limit.reschedule(asyncio.get_running_loop().time() + 30)
            context.limited(time_limit)
            task = asyncio.create_task(runtime.run(offer(asks if way == "async" else inside), {}, who="ann", name="f"))
            await line.asked_while.wait()
            assert time_limit.when() is None, "while somebody is asked, time stands still"
            assert await task == "k"
            assert time_limit.when() is not None
            context.limited(None)
        assert line.told == [1]


async def test_a_question_is_withdrawn_when_its_function_is_cancelled() -> None:
    async with opened() as runtime:
        line, withdrawn = _Answering(), asyncio.Event()

        async def ask(key: str, method: str, params: JsonObject) -> Json:
            line.asked_while.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
            return None

        line.ask = ask  # type: ignore[method-assign]
        context = ToolContext(call_id="c", principal=Principal(id="ann"), line=line, loop=asyncio.get_running_loop())

        async def asks() -> None:
            await context.elicit("which?", {"type": "object"})

        task = asyncio.create_task(runtime.run(offer(asks), {}, who="ann", name="f"))
        await line.asked_while.wait()
        task.cancel()
        await asyncio.wait([task])
        await withdrawn.wait()
