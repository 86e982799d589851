"""Steady load on a cluster: clients on connections of their own, which send at a rate that does not depend on how fast answers come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from tests.faults.project import AGENTS, key_of
from tests.simulation.evidence import Told

__all__ = ["Load", "answered_operation"]

_CONNECTIONS = 48
_ANSWER_S = 20.0
_TROUBLED = {997: "hang", 211: "cut", 101: "error"}
"""Each so many calls, the upstream behaves like that."""


class Load:
    """Calls by number. `told` is given each answer, `now` says the time of the campaign."""

    def __init__(self, port: int, told: Callable[[Told], None], now: Callable[[], float]) -> None:
        self._port, self._told, self._now = port, told, now
        self.sent = 0
        self._due: asyncio.Queue[int] = asyncio.Queue(maxsize=_CONNECTIONS)
        self._clients: list[asyncio.Task[None]] = []

    @staticmethod
    def behaviour(number: int) -> str:
        """Behaviour of the upstream in a call: ok, error, cut or hang."""
        return next((how for each, how in _TROUBLED.items() if number % each == each - 1), "ok")

    @staticmethod
    def is_write(number: int) -> bool:
        """True if the call of a number changes something."""
        return number % 2 == 0

    async def measure(self, seconds: float) -> float:
        """Send as fast as answers come. Return the calls per second."""
        self._start()
        began, first = time.monotonic(), self.sent
        while time.monotonic() - began < seconds:
            await self._due.put(self._next())
        await self._stop()
        return (self.sent - first) / (time.monotonic() - began)

    async def run(self, per_second: float, seconds: float) -> None:
        """Send at a rate. A call for which no connection is free in time is not sent."""
        self._start()
        began = time.monotonic()
        made = 0
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(int(passed * per_second) - made):
                made += 1
                if not self._due.full():
                    self._due.put_nowait(self._next())
            await asyncio.sleep(0.01)
        await self._stop()

    def _next(self) -> int:
        self.sent += 1
        return self.sent

    def _start(self) -> None:
        self._clients = [
            asyncio.create_task(self._send_all(AGENTS[place % len(AGENTS)])) for place in range(_CONNECTIONS)
        ]

    async def _stop(self) -> None:
        await self._due.join()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _send_all(self, principal: str) -> None:
        reader: asyncio.StreamReader | None = None
        writer: asyncio.StreamWriter | None = None
        try:
            while True:
                number = await self._due.get()
                began, answer = self._now(), None
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        if reader is None or writer is None:
                            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                        answer, gateway, stays = await _exchange(reader, writer, number, principal)
                except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
                    answer, gateway, stays = None, "", False
                if not stays and writer is not None:
                    writer.transport.abort()
                    reader = writer = None
                self._told(_told(number, began, self._now(), gateway, answer))
                self._due.task_done()
        finally:
            if writer is not None:
                writer.transport.abort()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, principal: str
) -> tuple[Any, str, bool]:
    """Answer to a call, the gateway that sent it, and whether the connection stays open."""
    tool = "shop__create_order" if Load.is_write(number) else "shop__get_item"
    body = json.dumps({"arguments": {"op": f"load{number}"}}).encode()
    writer.write(
        f"POST /v1/tools/{tool}/call HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key_of(principal)}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    content = await reader.readexactly(int(fields["content-length"]))
    answer = None
    with contextlib.suppress(ValueError):
        answer = json.loads(content)
    return answer, fields.get("x-gateway", ""), fields.get("connection", "") != "close"


def _told(number: int, began: float, at: float, gateway: str, answer: Any) -> Told:
    status, code, call_id, text, answered = "fault", "", "", "", ""
    if isinstance(answer, dict):
        error = answer.get("error") or {}
        code, text = str(error.get("code", "")), str(error.get("message", ""))[:80]
        if "call_id" in answer:
            status, call_id, answered = answer["status"], answer["call_id"], answered_operation(answer)
    return Told(
        began=began,
        at=at,
        operation=f"load{number}",
        gateway=gateway,
        status=status,
        code=code,
        call_id=call_id,
        text=text,
        answered=answered,
    )


def answered_operation(envelope: dict[str, Any]) -> str:
    """Operation that the upstream's answer names, "" without such an answer."""
    data = envelope.get("data")
    return str(data.get("op", "")) if isinstance(data, dict) else ""
