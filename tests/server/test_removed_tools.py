"""A tool that a program removes, over several workers: none of them calls it, nor one that is started in place of another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, upstream
from tests.redis_server import RedisServer
from tests.served_workers import serving, until
from toolgen.gateway.service import Gateway

TOOL = "orders__get_health"
RULES = [{"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"}]


def done(path: Path, change: Callable[[Gateway], Awaitable[Any]]) -> None:
    """By a program of its own, beside the gateway that is served."""

    async def main() -> None:
        async with Gateway.load(path).short_session() as gateway:
            await change(gateway)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["files", "redis"])
def test_no_worker_calls_what_was_removed_until_it_is_restored(tmp_path: Path, kind: str) -> None:
    redis = RedisServer(tmp_path) if kind == "redis" else None
    if redis is not None:
        redis.start()
    state = "memory" if redis is None else f"redis://127.0.0.1:{redis.port}/0"
    with upstream() as (seen, url):
        path = project(tmp_path / "p", url, {"rules": RULES}, state=state)
        with serving(path, "--workers", "2") as served:
            assert served.codes() == {"ok"}
            done(path, lambda gateway: gateway.tools.remove(TOOL))
            until(lambda: served.codes(8) == {"unknown_tool"})
            reached = len(seen.requests)
            killed = served.workers()[0]
            os.kill(killed, signal.SIGKILL)
            until(lambda: len(served.workers()) == 2 and killed not in served.workers())
            assert served.codes() == {"unknown_tool"}
            assert len(seen.requests) == reached
            done(path, lambda gateway: gateway.tools.restore(TOOL))
            until(lambda: served.codes(8) == {"ok"})
            assert served.end() == 0
    if redis is not None:
        redis.stop()
