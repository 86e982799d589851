"""`notifications/cancelled` ends its request at whichever worker that runs, and no request of another session or caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.contract.leaving_clients import AT_ONCE_S, STATEFUL, message
from tests.gateway.clients import bearer, listening
from tests.gateway.governed import project, upstream
from tests.gateway.test_shared_calls import machines
from tests.redis_server import RedisServer
from tests.served_workers import serving
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

POLICY: dict[str, Any] = {
    "rules": [{"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"}]
}
CALL = {"name": "orders__get_health", "arguments": {}}


def client(url: str, who: str = "bot") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers=bearer(f"key-of-{who}"), timeout=120)


async def cancel(http: httpx.AsyncClient, request: object = 1, session: str = "0" * 32) -> None:
    headers = {**STATEFUL, "mcp-session-id": session}
    answer = await http.post("/mcp", json=message("notifications/cancelled", requestId=request), headers=headers)
    assert answer.status_code == 202


async def test_a_request_is_ended_on_another_machine(tmp_path: Path, server: RedisServer) -> None:
    with upstream() as (seen, url):
        seen.answers.clear()
        one, two = machines(tmp_path, server, url, POLICY)
        async with (
            asyncio.timeout(120),
            Gateway.load(one) as here,
            Gateway.load(two) as there,
            listening(App(here)) as first,
            listening(App(there)) as second,
            client(first) as calling,
            client(second) as cancelling,
            client(second, "bare") as stranger,
        ):
            asked = asyncio.create_task(calling.post("/mcp", json=message("tools/call", 1, **CALL), headers=STATEFUL))
            await asyncio.to_thread(seen.reached, 1)
            await cancel(stranger)
            await cancel(cancelling, session="1" * 32)
            for request in (2, "1", True):
                await cancel(cancelling, request)
            await asyncio.sleep(1)
            assert not asked.done()
            async with asyncio.timeout(AT_ONCE_S):
                await cancel(cancelling)
                answer = await asked
                assert await asyncio.to_thread(seen.closed)
            assert (answer.status_code, answer.content) == (202, b"")
            # Its id means nothing for a request that comes later.
            again = asyncio.create_task(calling.post("/mcp", json=message("tools/call", 1, **CALL), headers=STATEFUL))
            await asyncio.to_thread(seen.reached, 2)
            await asyncio.sleep(0.5)
            seen.answers.set()
            assert not (await again).json()["result"]["isError"]


@pytest.mark.parametrize("times", [6])
async def test_a_request_is_ended_by_any_of_several_workers(tmp_path: Path, times: int) -> None:
    """Each connection is some worker's: one notification has to do, whichever gets it."""

    with upstream() as (seen, server):
        seen.answers.clear()
        path = project(tmp_path / "p", server, POLICY)
        with serving(path, "--workers", "2") as served:
            url = served.url
            async with asyncio.timeout(240):
                for number in range(1, times + 1):
                    async with client(url) as calling, client(url) as cancelling:
                        request = message("tools/call", number, **CALL)
                        asked = asyncio.create_task(calling.post("/mcp", json=request, headers=STATEFUL))
                        await asyncio.to_thread(seen.reached, number)
                        await cancel(cancelling, number)
                        async with asyncio.timeout(AT_ONCE_S):
                            answer = await asked
                        assert (answer.status_code, answer.content) == (202, b"")
            served.end()
    ended = [one["status"] for one in entries(path.parent / "var" / "audit") if one["event"] == "outcome"]
    assert ended == ["cancelled"] * times
    assert len(seen.requests) == times
