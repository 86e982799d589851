"""Cost of a request with each HTTP client that could send tool calls: `python -m bench.clients [--calls 2000] [--in-flight 32]`.

Each sends the same GET to the same server on loopback (a process of its own) and reads 1 KB of JSON. Prints microseconds of this process's
CPU per call, its threads included, medians of interleaved rounds. "toolgen" is a tool call's whole exchange: headers checked and read, the
body decoded within its cap. aiohttp and pyreqwest are measured where they are installed; nothing here needs them.

With `--http2` the server is nginx, and each client speaks HTTP/2 over one connection.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import multiprocessing
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import uvloop

from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connector import Dialer, Target, Timeouts
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.resolver import system_resolver
from toolgen.core.clock import SystemClock
from toolgen.model.verdict import Allow

_BODY = b'{"items": [' + b'{"id": 1, "name": "abcdefgh"}, ' * 31 + b'{"id": 2}]}'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
_ROUNDS = 5
_LIMIT = 1024 * 1024
_Send = Callable[[], Awaitable[object]]


class _Serving(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER * data.count(b"\r\n\r\n"))


def serve(said: Connection) -> None:
    """Answers every request alike."""

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        server = await asyncio.get_running_loop().create_server(_Serving, sock=listener)
        said.send(listener.getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def spent(send: _Send, calls: int, in_flight: int) -> float:
    """Microseconds of CPU a call."""

    async def some() -> None:
        for _ in range(calls // in_flight):
            await send()

    began = time.process_time()
    await asyncio.gather(*(some() for _ in range(in_flight)))
    return (time.process_time() - began) / (calls // in_flight * in_flight) * 1e6


async def clients(port: int, *, http2: bool) -> tuple[dict[str, _Send], list[Callable[[], Awaitable[object]]]]:
    """Function that sends the request for each client, and the one that closes all."""
    url = f"http://127.0.0.1:{port}/e"
    asked = HttpRequest(method="GET", url=url, headers=(), body=None)
    dialer = Dialer(
        permit=lambda _: Allow(rule="bench"),
        resolver=system_resolver,
        timeouts=Timeouts(),
        clock=SystemClock(),
        http2=http2,
    )
    ours, places = dialer.client(Target.of(url), "127.0.0.1"), asyncio.Semaphore(PLACES)
    plain = httpx.AsyncClient(trust_env=False, http1=not http2, http2=http2, limits=httpx.Limits(max_connections=None))
    found: dict[str, _Send] = {"toolgen": lambda: ours.send(asked, _LIMIT, places), "httpx": lambda: plain.get(url)}
    closing: list[Callable[[], Awaitable[object]]] = [dialer.close, plain.aclose]
    with contextlib.suppress(ImportError):
        builder = importlib.import_module("pyreqwest.client").ClientBuilder().no_proxy().follow_redirects(False)
        rust = (builder.http2_prior_knowledge() if http2 else builder.http1_only()).build()

        async def by_rust() -> object:
            return await (await rust.get(url).build().send()).bytes()

        found["pyreqwest"] = by_rust
        closing.append(rust.close)
    with contextlib.suppress(ImportError):
        aiohttp = importlib.import_module("aiohttp")
        if not http2:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)

            async def by_aiohttp() -> object:
                async with session.get(url, allow_redirects=False) as response:
                    return await response.read()

            found["aiohttp"] = by_aiohttp
            closing.append(session.close)
    return found, closing


async def compared(port: int, calls: int, in_flight: int, *, http2: bool) -> dict[str, float]:
    """Medians by client."""
    found, closing = await clients(port, http2=http2)
    rounds: dict[str, list[float]] = {name: [] for name in found}
    for number in range(_ROUNDS + 1):
        for name, send in found.items():
            cost = await spent(send, calls, in_flight)
            if number:  # the first one warms up
                rounds[name].append(cost)
    for close in closing:
        await close()
    return {name: statistics.median(costs) for name, costs in rounds.items()}


_NGINX = """
daemon off; error_log stderr crit; pid {folder}/pid; events {{}}
http {{
  access_log off; keepalive_requests 10000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} http2; default_type application/json; location /e {{ root {folder}; }} }}
}}
"""


@contextlib.contextmanager
def nginx() -> Iterator[int]:
    """The port of an nginx that speaks HTTP/2."""
    program = shutil.which("nginx")
    if program is None:
        raise SystemExit("nginx is not installed: `make proxies` installs it")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "e").write_bytes(_BODY)
        (folder / "conf").write_text(_NGINX.format(folder=folder, port=port), encoding="utf-8")
        with subprocess.Popen([program, "-c", str(folder / "conf"), "-p", name], stderr=subprocess.DEVNULL) as process:
            try:
                _await_listening(port, process)
                yield port
            finally:
                process.terminate()


def _await_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit("nginx did not start")


@contextlib.contextmanager
def own_server() -> Iterator[int]:
    """The port of a server of this file."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        yield ours.recv()
    finally:
        server.terminate()
        server.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--http2", action="store_true")
    asked = parser.parse_args()
    with nginx() if asked.http2 else own_server() as port:
        for in_flight in (1, asked.in_flight):
            found = uvloop.run(compared(port, asked.calls, in_flight, http2=asked.http2))
            for name, cost in found.items():
                print(f"{name:18} {in_flight:3} in flight {cost:8.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
