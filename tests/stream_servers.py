"""TCP servers of tests: what they accepted is closed when they end, whatever became of who served it. A transport that is left open is told
of when the garbage collector finds it, in whatever test runs by then."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def stop_listening(server: asyncio.Server) -> None:
    """Closes it without losing what was just accepted, as CPython 3.11 does: it needs its server for two more rounds of the loop."""
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def stream_server(serve: Serve, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Its port on loopback. Each connection is closed when `serve` has ended, and all of them with the server, which waits for nobody."""
    writers, tasks = list[asyncio.StreamWriter](), set[asyncio.Task[None]]()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.get_running_loop().create_task(attend(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_listening(server)
        served = [*tasks]
        for task in served:
            task.cancel()
        ended = await asyncio.gather(*served, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()
        await asyncio.sleep(0)  # the sockets are closed when the loop comes round
        failures = [one for one in ended if isinstance(one, Exception)]
        if failures:
            raise ExceptionGroup("a test's server failed", failures)
