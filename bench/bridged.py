"""Cost of a call of a bridged server over pipes: CPU of the gateway and of the server per call, with 1 and 16 in flight.

The command is a child of this process, or of another one as with several workers, whose CPU is included. Rounds are interleaved.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from toolgen.connectors.mcp.command import CommandSpec
from toolgen.connectors.mcp.command_client import CommandClient
from toolgen.connectors.mcp.command_server import CommandServer
from toolgen.connectors.mcp.executor import McpExecutor
from toolgen.connectors.mcp.stdio import StdioWire
from toolgen.connectors.secrets import SecretResolver
from toolgen.model.call import Call, Principal
from toolgen.model.mcp import parts_of
from toolgen.model.result import Failed, Success
from toolgen.model.tool import Effect, McpBinding, Tool

CALLS = 1_000
ROUNDS = 3
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]},
        "tools/call": {"content": [{"type": "text", "text": "x" * 200}]},
    }.get(asked["method"], {})
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def call_of(executor: McpExecutor) -> Call:
    """A call of the one tool, pinned as it is listed now."""
    listing = await executor.listing()
    if isinstance(listing, Failed):
        raise SystemExit(listing.error.message)
    binding = McpBinding(tool="echo", url="", parts=parts_of(listing.tools[0]))
    tool = Tool(
        name="far__echo",
        title="echo",
        description="Echoes.",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.WRITE,
        idempotent=False,
        source="far",
        origin="echo",
        binding=binding,
    )
    return Call(id="c", tool=tool, arguments={"a": 1}, principal=Principal(id="ann"))


def holder_cpu_s(pid: int) -> float:
    """Seconds of CPU that all threads of another process took, as the scheduler counts them (to the nanosecond)."""
    found = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in found) / 1e9


async def measured(executor: McpExecutor, call: Call, lanes: int, holder: int) -> float:
    """CPU microseconds a call, of this process and of the holder where there is one."""

    async def lane() -> None:
        for _ in range(CALLS // lanes):
            assert isinstance(await executor.execute(call), Success)

    held = holder_cpu_s(holder) if holder else 0.0
    began = time.process_time()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    taken = time.process_time() - began + (holder_cpu_s(holder) - held if holder else 0.0)
    return taken / (CALLS // lanes * lanes) * 1e6


def hold(spec: CommandSpec, link: socket.socket) -> None:
    """Supervisor process: it holds the command until the other end of `link` is closed."""

    async def main() -> None:
        server = CommandServer((spec,))
        with await server.connect() as theirs:
            socket.send_fds(link, [b"x"], [theirs.fileno()])
        await asyncio.to_thread(link.recv, 1)
        await server.close()

    uvloop.run(main())


async def main(spec: CommandSpec, descriptor: int, holder: int) -> None:
    alone = StdioWire(spec, secrets=SecretResolver())
    shared = StdioWire(spec, secrets=SecretResolver(), command=CommandClient(descriptor).command(spec.source))
    executors = {"held here": McpExecutor(alone, shared=True), "held by another": McpExecutor(shared, shared=True)}
    calls = {way: await call_of(executor) for way, executor in executors.items()}
    for lanes in (1, 16):
        found: dict[str, list[float]] = {way: [] for way in executors}
        for _ in range(ROUNDS):
            for way, executor in executors.items():
                found[way].append(await measured(executor, calls[way], lanes, holder if way != "held here" else 0))
        for way, taken in found.items():
            least, median = min(taken), statistics.median(taken)
            print(f"{lanes:>3} in flight, {way:<15} {median:6.1f} us of CPU a call ({least:.1f} at the least)")
    for executor in executors.values():
        await executor.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spec = CommandSpec(source="far", words=(sys.executable, "-c", SERVER), folder=folder)
        ours, theirs = socket.socketpair()
        holder = multiprocessing.get_context("fork").Process(target=hold, args=(spec, theirs))
        holder.start()
        theirs.close()
        _, (descriptor, *_), _, _ = socket.recv_fds(ours, 1, 1)
        assert holder.pid is not None
        uvloop.run(main(spec, descriptor, holder.pid))
        ours.shutdown(socket.SHUT_RDWR)  # the other process has a copy of it: closing alone would not be seen
        ours.close()
        holder.join()
