"""What a call of a bridged server costs this process over pipes: CPU per call, beside what the server takes, with 1 and 16 in flight."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time

import uvloop

from toolgen.execute.mcp import McpExecutor
from toolgen.execute.mcp.command import CommandSpec
from toolgen.execute.mcp.stdio import StdioWire
from toolgen.execute.secrets import Secrets
from toolgen.model.call import Call, Principal
from toolgen.model.mcp import parts_of
from toolgen.model.result import Failed, Success
from toolgen.model.tool import Effect, McpBinding, Tool

CALLS = 2_000
ROUNDS = 5
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


async def measured(executor: McpExecutor, call: Call, lanes: int) -> float:
    """CPU microseconds of this process a call."""

    async def lane() -> None:
        for _ in range(CALLS // lanes):
            assert isinstance(await executor.execute(call), Success)

    began = time.process_time()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    return (time.process_time() - began) / CALLS * 1e6


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spec = CommandSpec(words=(sys.executable, "-c", SERVER), folder=folder)
        wire = StdioWire(spec, secrets=Secrets())
        executor = McpExecutor(wire, shared=True)
        call = await call_of(executor)
        for lanes in (1, 16):
            found = [await measured(executor, call, lanes) for _ in range(ROUNDS)]
            print(
                f"{lanes:>3} in flight: {statistics.median(found):6.1f} us of CPU a call ({min(found):.1f} at the least)"
            )
        await executor.close()


if __name__ == "__main__":
    uvloop.run(main())
