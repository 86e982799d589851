"""Event loops that tests of the HTTP client run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.connectors.http.upstreams import LOOPS, Run


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    found: Callable[[], asyncio.AbstractEventLoop] = request.param
    return found


@pytest.fixture
def run(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    def go(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(main)

    return go  # type: ignore[return-value]
