"""Cost of bridged MCP servers for a gateway: CPU per call over REST and MCP compared with a function, and the start of twenty servers.

A call over pipes is compared with a call of a function with an equal answer over the same front end, and with a client that only
writes a line to the server and reads one. Some rows count only the process of the gateway, and say so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.bridged import SERVER
from bench.calls import LANES, children, cpu_seconds, load
from tests.projects import POLICY
from tests.redis_server import RedisServer

FUNCTION = 'from toolgen import tool\n\n@tool(effect="read")\nasync def echo() -> str:\n    """Echoes."""\n    return "x" * 200\n'
COLD = 8  # servers that are started one by one
COMMAND = [sys.executable, "-I", "-S", "-c", SERVER]
GREETING: list[dict[str, object]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]
CALL: dict[str, object] = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {}},
}
Route = tuple[str, dict[str, object]]


def rest(tool: str) -> Route:
    return f"/v1/tools/{tool}/call", {"arguments": {}}


def mcp(tool: str) -> Route:
    params = {"name": tool, "arguments": {}}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@contextlib.contextmanager
def gateway(servers: int, workers: int) -> Iterator[tuple[int, int]]:
    """A gateway in front of some servers, none of them started, and of a function; its port and process id.

    Several workers share their limits in a Redis.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder)
        mcps = {f"s{at}": {"mcp": {"command": COMMAND, "annotations": "trusted"}} for at in range(servers)}
        (root / "policies").mkdir()
        (root / "own.py").write_text(FUNCTION, encoding="utf-8")
        sources = {**mcps, "own": {"python": "own"}}
        shared: dict[str, object] = {}
        if workers > 1:
            redis = RedisServer(root)
            redis.start()
            stack.callback(redis.stop)
            shared = {"state": f"redis://127.0.0.1:{redis.port}/0"}
        (root / "toolgen.yaml").write_text(json.dumps({"sources": sources, **shared}), encoding="utf-8")
        limits = [{"id": str(number), "per": ["principal"], "rate": "999999999/s"} for number in range(3)]
        policy = {key: value for key, value in POLICY.items() if key != "sql"}
        policy["rules"] = [{"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}]
        (root / "policies" / "p.yaml").write_text(json.dumps({**policy, "limits": limits}), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "toolgen", "build"], cwd=root, check=True, capture_output=True)
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0", "--workers", str(workers)]
        process = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            said = next(line for line in process.stderr if "listening on" in line)
            yield int(said.rsplit(":", 1)[1]), process.pid
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()


def gateway_cpu_seconds(pid: int) -> float:
    """CPU of a gateway and its workers so far; of no server."""
    workers = [
        one for one in children(pid) if b"toolgen.frontends.server.worker" in Path(f"/proc/{one}/cmdline").read_bytes()
    ]
    return sum(map(cpu_seconds, (pid, *workers)))


def resident(pid: int) -> float:
    """MB of memory that a process alone holds: without pages of files and what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


async def greeted() -> asyncio.subprocess.Process:
    """A server on its own, past its handshake and list."""
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe)
    for message in GREETING:
        await said(server, message)
    return server


async def said(server: asyncio.subprocess.Process, message: dict[str, object]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(message).encode() + b"\n")
    if "id" in message:
        await server.stdout.readline()


async def ended(server: asyncio.subprocess.Process) -> None:
    server.kill()
    await server.wait()


async def own_start() -> float:
    """Seconds from starting one server to its first answer to a call."""
    began = time.perf_counter()
    server = await greeted()
    await said(server, CALL)
    taken = time.perf_counter() - began
    await ended(server)
    return taken


async def own_starts(servers: int) -> float:
    """Time until the last of several servers has started, side by side."""
    began = time.perf_counter()
    await asyncio.gather(*(own_start() for _ in range(servers)))
    return time.perf_counter() - began


async def direct(calls: int) -> tuple[float, float]:
    """CPU us a call of the barest client, and of the server."""
    server = await greeted()
    client, before = time.process_time(), cpu_seconds(server.pid)
    for _ in range(calls):
        await said(server, CALL)
    taken = (time.process_time() - client) / calls * 1e6, (cpu_seconds(server.pid) - before) / calls * 1e6
    await ended(server)
    return taken


async def costs(port: int, pid: int, rounds: int, calls: int) -> None:
    """CPU of the gateway's process a call, interleaved."""
    fronts = {"REST": rest, "MCP": mcp}
    names = {"bridged": "s0__echo", "function": "own__echo"}
    for front in fronts.values():
        for name in names.values():
            await load(port, front(name), 4, 200)
    print("CPU us per call, of the gateway's processes alone: bridged, a function, median difference (least)")
    for lanes in LANES:
        for kind, front in fronts.items():
            taken: dict[str, list[float]] = {name: [] for name in names}
            for _ in range(rounds):
                for name, tool in names.items():
                    before = gateway_cpu_seconds(pid)
                    await load(port, front(tool), lanes, calls)
                    taken[name].append((gateway_cpu_seconds(pid) - before) / (calls // lanes * lanes) * 1e6)
            medians = {name: statistics.median(found) for name, found in taken.items()}
            more = [one - other for one, other in zip(taken["bridged"], taken["function"], strict=True)]
            print(
                f"  {kind:<4} c={lanes:<3} bridged {medians['bridged']:6.0f}  function {medians['function']:6.0f}"
                f"  bridging adds {statistics.median(more):6.0f} ({min(more):.0f})"
            )


async def twenty(port: int, pid: int, servers: int) -> None:
    """Starting: the first call of one, the others side by side, and what they hold of the gateway's memory."""
    await load(port, rest("own__echo"), 1, 50)
    own, first = [], []
    for at in range(COLD):
        own.append(await own_start() * 1e3)
        began = time.perf_counter()
        await load(port, rest(f"s{at}__echo"), 1, 1)
        first.append((time.perf_counter() - began) * 1e3)
    more = statistics.median(one - other for one, other in zip(first, own, strict=True))
    print(
        f"first call of a cold server: {statistics.median(first):.0f} ms ({min(first):.0f} at the least); its own start and"
        f" first answer, spoken to directly in between: {statistics.median(own):.0f} ms ({min(own):.0f}); median difference {more:.0f} ms"
    )
    before = resident(pid)
    alone = await own_starts(servers - COLD)
    began = time.perf_counter()
    await asyncio.gather(*(load(port, rest(f"s{at}__echo"), 1, 1) for at in range(COLD, servers)))
    taken = time.perf_counter() - began
    after = resident(pid)
    print(f"{servers - COLD} more, side by side: {taken:.2f} s to the last first answer; on their own: {alone:.2f} s")
    print(
        f"memory of the gateway: {(after - before) / (servers - COLD):.2f} MB a server ({before:.1f} to {after:.1f} MB)"
    )
    print(f"children of the gateway: {len(children(pid))}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--servers", type=int, default=28)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with gateway(options.servers, options.workers) as (port, pid):
        await twenty(port, pid, options.servers)
        client, server = await direct(options.calls)
        print(
            f"spoken to directly, one at a time: {client:.0f} us of CPU a call for the barest client, {server:.0f} for the server"
        )
        await costs(port, pid, options.rounds, options.calls)


if __name__ == "__main__":
    asyncio.run(main())
