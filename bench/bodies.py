"""Memory while endless answers are refused: `python -m bench.bodies [--bodies 50]`.

A server in a process of its own sends bodies that never end; one executor reads them all at once, as a gateway would. Prints the growth of
this process's peak resident memory, and ends with 1 above the budget.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import socket
import sys
from multiprocessing.connection import Connection

from toolgen.connectors.http.connector import Timeouts
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.secrets import SecretResolver
from toolgen.model.call import Call, Principal
from toolgen.model.result import Failed, Success
from toolgen.model.tool import Effect, HttpBinding, Tool
from toolgen.model.verdict import Allow

BUDGET_MIB = 64.0
BODIES = 50
_KINDS = {"binary": "application/octet-stream", "json": "application/json", "text": "text/plain"}
_PIECES = {"binary": b"\x00\xff" * 32_768, "json": b'{"id": 1, "name": "abc"},' * 2600, "text": b"words " * 10_000}


def serve(said: Connection) -> None:
    """Sends without end what the path asks for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            kind = (await reader.readuntil(b"\r\n\r\n")).split(b"/", 2)[1].split(b" ")[0].decode() or "json"
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {_KINDS[kind]}\r\n\r\n".encode())
            writer.write(b"[" if kind == "json" else b"")
            while True:
                writer.write(_PIECES[kind])
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        server = await asyncio.start_server(answer, sock=listener)
        said.send(listener.getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def call(port: int, kind: str) -> Call:
    """A read of one endless body."""
    binding = HttpBinding(
        method="GET", path=f"/{kind}", servers=(f"http://127.0.0.1:{port}",), parameters=(), body=None, security=()
    )
    tool = Tool(
        name="bench__endless",
        title="",
        description="",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="bench",
        origin="",
        binding=binding,
    )
    return Call(id="c", tool=tool, arguments={}, principal=Principal(id="bench"))


def peak() -> float:
    """MiB of this process's largest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def refused(port: int, kind: str, bodies: int) -> tuple[list[Success | Failed], float]:
    """Return how many endless bodies, read at the same time, had each outcome, and the growth of the peak in MiB."""
    executor = HttpExecutor(
        schemes={},
        auth={},
        secrets=SecretResolver({}),
        permit=lambda _: Allow(rule="bench"),
        timeouts=Timeouts(total_s=60),
    )
    await executor.execute(call(port, kind))  # whatever is made once is made
    base = peak()
    ended = await asyncio.gather(*(executor.execute(call(port, kind)) for _ in range(bodies)))
    grown = peak() - base
    await executor.close()
    return ended, grown


def measured(kind: str, bodies: int) -> tuple[list[str], float]:
    """The codes of the endings, "truncated" for a beginning that could be used, and the growth in MiB."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        ended, grown = asyncio.run(refused(ours.recv(), kind, bodies))
    finally:
        server.terminate()
        server.join()
    codes = [one.error.code if isinstance(one, Failed) else "truncated" if one.truncated else "whole" for one in ended]
    return codes, grown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=BODIES)
    parser.add_argument("--kind", choices=sorted(_KINDS), default="json")
    asked = parser.parse_args()
    codes, grown = measured(asked.kind, asked.bodies)
    print(
        f"{asked.bodies} endless bodies ({asked.kind}): {', '.join(sorted(set(codes)))}; +{grown:.1f} MiB (budget {BUDGET_MIB:.0f})"
    )
    return int(grown > BUDGET_MIB or "whole" in codes)


if __name__ == "__main__":
    sys.exit(main())
