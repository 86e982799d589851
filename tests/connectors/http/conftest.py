"""Event loops that tests of the HTTP client run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.connectors.http.upstreams import LOOPS


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    found: Callable[[], asyncio.AbstractEventLoop] = request.param
    return found
