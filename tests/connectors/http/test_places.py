"""Long answers take turns, and what waits for its turn loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from bench.bodies import BUDGET_MIB, measured
from tests.connectors.http.bindings import binding, call
from tests.connectors.http.test_executor import Server, executor, saying
from toolgen.connectors.http.client import PLACES
from toolgen.model.result import Success


async def test_many_long_answers_at_once_all_arrive_whole() -> None:
    body = b'"' + b"x" * 900_000 + b'"'

    async def scenario() -> list[object]:
        server = Server(saying(body))
        async with server.serving() as port:
            sender = executor()
            bound = binding(servers=(f"http://127.0.0.1:{port}",))
            found = await asyncio.gather(*(sender.execute(call(bound)) for _ in range(20)))
            again = [await sender.execute(call(bound)) for _ in range(PLACES + 2)]
            await sender.close()
        return [*found, *again]

    for outcome in await scenario():
        assert isinstance(outcome, Success)
        assert outcome.data == "x" * 900_000


@pytest.mark.parametrize("kind", ["binary", "json", "text"])
def test_fifty_endless_bodies_at_once_stay_within_their_memory(kind: str) -> None:
    codes, grown = measured(kind, 50)
    assert set(codes) == {"response_too_large" if kind == "binary" else "truncated"}
    assert grown < BUDGET_MIB
