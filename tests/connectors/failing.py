"""Servers that fail on purpose, an executor in front of them, and time and chance that a test decides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.connectors.http.bindings import binding
from tests.connectors.http.bindings import call as plain_call
from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.failure_settings import ResilienceConfig, Timeouts
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.http.request_builder import repeatable
from toolgen.connectors.resilience import Chance, ResilientExecutor
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.model.call import Call
from toolgen.model.verdict import Allow, Verdict

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]
PATIENT = Timeouts(connect_s=30.0, first_byte_s=30.0, total_s=60.0)
"""Longer than any machine is busy: for what does answer."""
UNREACHED = Timeouts(connect_s=0.2, first_byte_s=30.0, total_s=60.0)
UNANSWERED = Timeouts(connect_s=30.0, first_byte_s=1.0, total_s=60.0)


def saying(status: str, headers: str = "", body: bytes = b'{"ok": true}') -> Behaviour:
    async def behave(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Type: application/json\r\n{headers}\r\n".encode() + body)
        await writer.drain()

    return behave


async def reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with RST, after the request was read."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


FINE = saying("200 OK")


@dataclass
class Server:
    """Does with one request after the other as `behaviours` say, and with the rest as the last of them; keeps what it was sent."""

    behaviours: Sequence[Behaviour]
    heads: list[bytes] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    inside: int = 0
    most_inside: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with stream_server(self._serve) as port:
            yield f"http://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            self.reached.set()
            await self.behaviours[min(len(self.heads), len(self.behaviours)) - 1](writer)
        finally:
            self.inside -= 1


@contextmanager
def closed() -> Iterator[str]:
    """An address where nobody listens: the port is held, so that nobody else can have it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def dead() -> Iterator[str]:
    """An address where connections are never accepted nor refused: its backlog is full, so the kernel drops whatever comes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        try:
            for _ in range(8):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
                fillers.append(filler)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for filler in fillers:
                filler.close()


@dataclass
class Luck:
    """Jitter that is always `drawn`, and waiting that takes no time but the clock's. `waits` are the pauses there were."""

    clock: FixedClock = field(default_factory=FixedClock)
    drawn: float = 0.5
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.clock.advance(seconds)
        await asyncio.sleep(0)


def allow(_: Destination) -> Verdict:
    return Allow(rule="t")


def steady(luck: Luck | None = None, *, resolver: Resolver = system_resolver, **resilience: Any) -> ResilientExecutor:
    """An executor of HTTP behind the resilience of the test; its clock stands still but for pauses."""
    luck = luck or Luck()
    whole = ResilienceConfig(**{"timeouts": PATIENT, **resilience})
    inner = HttpExecutor(
        schemes={},
        auth={},
        secrets=SecretResolver({}),
        permit=allow,
        resolver=resolver,
        timeouts=whole.timeouts,
        key_header=whole.key_header,
    )
    return ResilientExecutor(
        inner,
        resilience=whole,
        repeatable=lambda call: repeatable(call, whole.key_header),
        clock=luck.clock,
        chance=Chance(draw=lambda: luck.drawn, sleep=luck.sleep),
    )


def call(url: str, method: str = "GET", *parameters: Any, **more: Any) -> Call:
    """A call to a server; a POST writes."""
    return plain_call(binding(*parameters, servers=(url,), method=method, path="/e"), more)
