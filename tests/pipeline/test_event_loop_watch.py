"""Middleware that blocks the event loop: named in the log while it does, and its call refused once it returns."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

import toolgen
from tests.projects import audit_entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.middleware import CallView, Middleware, StepView, ToolView
from toolgen.pipeline.event_loop_watch import WATCH
from toolgen.pipeline.stages import middleware


@toolgen.tool(effect="read")
def counted(limit: int = 1) -> int:
    """Count."""
    return limit


@toolgen.tool(effect="read")
def other() -> int:
    """Count otherwise."""
    return 2


class _Told(logging.Handler):
    """Lets go of what blocks, as soon as the log says that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.freed, self.texts = threading.Event(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        if "blocks the event loop" in self.texts[-1]:
            self.freed.set()


@pytest.fixture
def told() -> Iterator[_Told]:
    handler, logger = _Told(), logging.getLogger("toolgen.middleware")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_what_blocks_without_waiting_is_named_while_it_does(told: _Told) -> None:
    class Holding(Middleware):
        async def before(self, call: CallView) -> None:
            assert told.freed.wait(60)

    class Late(Middleware):
        async def before(self, call: CallView) -> None:
            await asyncio.sleep(0)
            assert told.freed.wait(60)

    for check in (Holding(), Late()):
        told.freed.clear()
        told.texts.clear()
        async with Gateway.from_functions(counted, allow=["read"], middleware=[check]) as gateway:
            answer = await gateway.call("counted", {}, principal="agent")
            assert answer.error is not None
            assert answer.error.code == "middleware_failed"
            (note,) = [one for one in audit_entries(gateway) if one["event"] == "decision"]
            assert note["status"] == "timeout"
        name = f"{__name__}.{type(check).__qualname__}"
        said = [text for text in told.texts if "blocks the event loop" in text]
        assert len(said) == 1
        assert name.rpartition(".")[2] in said[0]
    assert not WATCH.given_over


async def test_a_catalog_that_is_asked_for_too_long_shows_nothing_more(
    told: _Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "_MIN_SHOWS_S", 0.0)
    asked: list[str] = []

    class Slow(Middleware):
        def shows(self, step: StepView, tool: ToolView) -> bool:
            asked.append(tool.name)
            return told.freed.wait(60)

    async with Gateway.from_functions(counted, other, allow=["read"], middleware=[Slow()]) as gateway:
        principal = gateway.principal("agent")
        assert gateway.tool_calls.offered(principal, "s") == ()
        assert asked == ["counted"]
        assert any("Slow.shows blocks" in text for text in told.texts)
        assert any("no more tools" in text for text in told.texts)
        assert len(gateway.tool_calls.offered(principal, "s")) == 2  # it answers at once now
