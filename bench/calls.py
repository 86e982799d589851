"""Cost of one governed call: CPU of the gateway's process per call, over REST and MCP, with all stages and a durable audit log.

`make bench` runs it. An upstream that answers 1 KB of JSON, the gateway and the callers are three processes on loopback; only the
gateway's CPU is counted, because it is stable on a shared machine. Rounds are interleaved, medians reported.
With `--against DIR`, another checkout of toolgen that was set up is measured in the same rounds. `--flat` makes 100,000 calls in place
of rounds, 64 in flight, and prints how long they took and what memory the gateway has after the first 10,000, 50,000 and 100,000, and
the memory of an idle connection.
With `--pairs N` too, N pairs of short rounds, 64 calls in flight, alternate between the two checkouts, and the median difference of a
pair is printed with its standard error: what a small difference needs on a noisy machine.
`--tools` calls a query of SQLite (its statement seen before), a function, a POST with a JSON body and a GraphQL operation over REST, with
the CPU of the processes that the gateway runs for them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.projects import KEY, POLICY, make_project

UPSTREAM = """
import asyncio, json, sys
BODY = b'{"text": "' + b'x' * 1000 + b'"}'
if (size := int(sys.argv[1]) if len(sys.argv) > 1 else 0) > 1000:
    row = {"name": "xxxx of a list", "price": 12.5, "tags": ["a", "b"], "stock": {"here": 5, "there": None}, "id": 0}
    BODY = json.dumps({"items": [{**row, "id": n} for n in range(size // 118)]}).encode()
ANSWER = b'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(BODY) + BODY

DATA = b'{"data": {"note": {"id": "5", "text": "' + b'x' * 1000 + b'"}}}'
DATA = ANSWER.split(b"Content-Length")[0] + b'Content-Length: %d\\r\\n\\r\\n' % len(DATA) + DATA

async def serve(reader, writer):
    with __import__("contextlib").suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            if b"content-length: " in head:
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\\r\\n")[0]))
            writer.write(DATA if b"/graphql " in head.split(b"\\r\\n")[0] else ANSWER)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
REST = ("/v1/tools/pets__get_pet/call", {"arguments": {"petId": 5}})
MCP = (
    "/mcp",
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pets__get_pet", "arguments": {"petId": 5}}},
)

ROUTES: dict[str, tuple[str, dict[str, object]]] = {"REST": REST, "MCP": MCP}
FUNCTIONS_MODULE = "bench_calls_functions"
FUNCTIONS = """
import toolgen

@toolgen.tool(effect="read")
async def text(length: int) -> str:
    return "x" * length
"""
TOOLS: dict[str, tuple[str, dict[str, object]]] = {
    "SQLite": ("/v1/tools/shop__query/call", {"arguments": {"sql": "SELECT id, name, 'xxxx' AS x FROM customers"}}),
    "function": ("/v1/tools/own__text/call", {"arguments": {"length": 1000}}),
    "POST": ("/v1/tools/notes__add_note/call", {"arguments": {"title": "a note", "count": 5, "urgent": True}}),
    "GraphQL": ("/v1/tools/graph__get_note/call", {"arguments": {"id": "5"}}),
}
_NOTE = {"title": {"type": "string"}, "count": {"type": "integer"}, "urgent": {"type": "boolean"}}
NOTES = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "paths": {
        "/notes": {
            "post": {
                "operationId": "addNote",
                "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": _NOTE}}}},
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}
GRAPH = "type Query { note(id: ID!): Note }\ntype Note { id: ID! text: String }\n"
LANES = (1, 16, 64)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
MARKS = (10_000, 50_000, 100_000)
IDLE = 3_000


@contextlib.contextmanager
def serving(text: str) -> Iterator[str]:
    """Run a program that prints its port first, and yield its URL."""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def made_project(root: Path, address: str, state: str = "memory") -> Path:
    """Make the project of all routes and tools here, whose upstream is at this address. Return its folder."""
    limits = [{"id": str(number), "per": ["principal"], "rate": "999999999/s"} for number in range(3)]
    rules = [*POLICY["rules"], {"id": "notes", "to": ["bot"], "tools": ["notes__*"], "verdict": "allow"}]
    policy = {**POLICY, "rules": rules, "limits": limits}
    project = make_project(root, server=address, policy=policy).parent
    settings = json.loads((project / "toolgen.yaml").read_text(encoding="utf-8"))
    (project / f"{FUNCTIONS_MODULE}.py").write_text(FUNCTIONS, encoding="utf-8")
    (project / "specs" / "notes.json").write_text(json.dumps(NOTES), encoding="utf-8")
    (project / "specs" / "graph.graphql").write_text(GRAPH, encoding="utf-8")
    settings["sources"] |= {
        "own": {"python": FUNCTIONS_MODULE},
        "notes": {"openapi": "specs/notes.json", "server": address},
        "graph": {"graphql": "specs/graph.graphql", "endpoint": f"{address}/graphql"},
    }
    (project / "toolgen.yaml").write_text(json.dumps({**settings, "state": state}), encoding="utf-8")
    return project


@contextlib.contextmanager
def gateway(
    python: str = sys.executable, *options: str, state: str = "memory", size: int = 1000
) -> Iterator[tuple[int, int]]:
    """An upstream and a gateway in front of it, run by this Python; yields the gateway's port and process id. `options` are those of
    `toolgen serve`, and `size` is that of an answer in bytes."""
    environment = {**os.environ, "TEST_PETS_KEY": "bench"}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        upstream = subprocess.Popen([sys.executable, "-c", UPSTREAM, str(size)], stdout=subprocess.PIPE, text=True)
        stack.callback(_end, upstream)
        assert upstream.stdout is not None
        address = f"http://127.0.0.1:{int(upstream.stdout.readline())}"
        project = made_project(Path(folder) / "project", address, state)
        command = [python, "-m", "toolgen", "serve", "--port", "0", *options]
        process = subprocess.Popen(command, cwd=project, env=environment, stderr=subprocess.PIPE, text=True)
        stack.callback(_end, process)
        assert process.stderr is not None
        yield int(process.stderr.readline().rsplit(":", 1)[1]), process.pid


def request_of(port: int, route: tuple[str, dict[str, object]]) -> bytes:
    """A call as it is sent to a gateway on this port."""
    path, document = route
    body = json.dumps(document).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, route: tuple[str, dict[str, object]], lanes: int, calls: int) -> list[float]:
    """`calls` requests over `lanes` connections, each answered before the next is sent; every answer must be a success.

    The seconds that each took on the clock.
    """
    request = request_of(port, route)
    took: list[float] = []

    async def lane() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(calls // lanes):
            began = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            text = await reader.readexactly(length)
            took.append(time.perf_counter() - began)
            if b" 200 " not in answer.split(b"\r\n", 1)[0] or b"xxxx" not in text:
                raise RuntimeError(text.decode()[:300])
        writer.close()

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return took


def sizes(against: str | None, rounds: int) -> None:
    """Prints CPU us per call with answers of several sizes, beside those of another checkout in the same rounds."""
    for size in SIZES:
        measured: dict[str, list[float]] = {}
        with contextlib.ExitStack() as stack:
            pythons = {"": sys.executable} | ({} if against is None else {"against": against})
            places = {name: stack.enter_context(gateway(python, size=size)) for name, python in pythons.items()}
            for place in places.values():
                asyncio.run(load(place[0], MCP, 16, 32))
            for _ in range(rounds):
                for name, place in places.items():
                    measured.setdefault(name, []).append(cost(place, MCP, 16, max(32, 3_000_000 // size)))
        row = "  ".join(f"{name or 'here'} {statistics.median(costs):.0f}" for name, costs in measured.items())
        print(f"{size:>9} bytes: {row}", flush=True)


def flat(lanes: int) -> None:
    """Prints a row for each of `MARKS`: of the calls since the one before, and of the gateway's memory at it."""
    with gateway() as (port, pid):
        print(f"{'calls':>8} {'p50 ms':>7} {'p99 ms':>7} {'MB':>6} {'CPU us':>7}   REST, c={lanes}")
        made = 0
        for mark in MARKS:
            before = cpu_seconds(pid)
            took = sorted(asyncio.run(load(port, REST, lanes, mark - made)))
            cost = (cpu_seconds(pid) - before) / len(took) * 1e6
            p50, p99 = (took[int(len(took) * part)] * 1000 for part in (0.5, 0.99))
            print(f"{mark:8} {p50:7.1f} {p99:7.1f} {resident_mb(pid):6.1f} {cost:7.0f}", flush=True)
            made = mark
        print(f"an idle connection, one call answered before: {asyncio.run(idle_kb(port, pid)):.1f} KB")


async def idle_kb(port: int, pid: int) -> float:
    """Memory of the gateway per connection, for `IDLE` connections that are idle after a call over REST."""
    before = resident_mb(pid)
    request = request_of(port, REST)
    writers = []
    for number in range(IDLE):
        local = (f"127.0.0.{2 + number % 16}", 0)  # an address may not have them all
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
        writer.write(request)
        answer = await reader.readuntil(b"xxxx")
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(answer.decode()[:300])
        writers.append(writer)
    held = resident_mb(pid) - before
    for writer in writers:
        writer.close()
    return held * 1024 / IDLE


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(pid: int, *, ended: bool = False) -> float:
    """User and system time of a process so far; with `ended`, that of its children that ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11 : 15 if ended else 13])) / os.sysconf("SC_CLK_TCK")


def thread_seconds(pid: int) -> float:
    """CPU seconds of a process's threads so far, exact to a nanosecond where `cpu_seconds` counts ticks of 10 ms."""
    return (
        sum(int(path.read_text(encoding="ascii").split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        / 1e9
    )


def pairs(python: str, count: int, calls: int, routes: dict[str, tuple[str, dict[str, object]]]) -> None:
    """Prints by how many CPU microseconds a call of this checkout differs from one of the other."""
    with gateway() as new, gateway(python) as old:
        for place in (new, old):
            for request in routes.values():
                asyncio.run(load(place[0], request, 16, 1000))
        for route, request in routes.items():
            differences = []
            for number in range(count):
                found = {}
                for place in (new, old) if number % 2 else (old, new):
                    before = thread_seconds(place[1])
                    asyncio.run(load(place[0], request, LANES[-1], calls))
                    found[place] = (thread_seconds(place[1]) - before) / (calls // LANES[-1] * LANES[-1]) * 1e6
                differences.append(found[new] - found[old])
            # the standard error of a median is 1.25 times that of a mean where the values are spread as a bell
            error = 1.25 * statistics.stdev(differences) / count**0.5
            print(
                f"{route:9}{statistics.median(differences):+.1f} us a call (standard error {error:.1f}, {count} pairs)",
                flush=True,
            )


def main() -> None:
    """Prints a table of CPU microseconds per call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, set up, to be measured too")
    parser.add_argument("--flat", action="store_true", help="memory and times over 100,000 calls, in place of rounds")
    parser.add_argument("--sizes", action="store_true", help="answers of 1 KB to 1 MB over MCP, 16 in flight")
    parser.add_argument("--tools", action="store_true", help="calls of SQLite and of a function, in place of HTTP")
    parser.add_argument(
        "--pairs", type=int, metavar="N", help="with --against: the difference of the two, over N pairs of rounds"
    )
    options = parser.parse_args()
    if options.pairs:
        if not options.against:
            parser.error("--pairs compares with another checkout: say which one with --against")
        python = str(options.against / ".venv" / "bin" / "python")
        pairs(python, options.pairs, options.calls, TOOLS if options.tools else ROUTES)
        return
    if options.sizes:
        sizes(None if options.against is None else str(options.against / ".venv" / "bin" / "python"), options.rounds)
        return
    if options.flat:
        flat(LANES[-1])
        return
    pythons = {"": sys.executable}
    if options.against:
        pythons["against"] = str(options.against / ".venv" / "bin" / "python")
    routes = TOOLS if options.tools else ROUTES
    measured: dict[tuple[str, str, int], list[float]] = {}
    with contextlib.ExitStack() as stack:
        gateways = {name: stack.enter_context(gateway(python)) for name, python in pythons.items()}
        for port, _ in gateways.values():
            for route in routes.values():
                asyncio.run(load(port, route, 16, 500))
        for _ in range(options.rounds):
            for route, request in routes.items():
                for lanes in LANES:
                    for name, place in gateways.items():
                        measured.setdefault((name, route, lanes), []).append(cost(place, request, lanes, options.calls))
    print("CPU us per call, median (least) of", options.rounds, "rounds of", options.calls, "calls")
    for name in gateways:
        for route in routes:
            found = [(lanes, measured[name, route, lanes]) for lanes in LANES]
            row = "  ".join(f"c={lanes} {statistics.median(costs):.0f} ({min(costs):.0f})" for lanes, costs in found)
            print(f"{name} {route:9}{row}".lstrip())


def children(pid: int) -> set[int]:
    """The processes that a process started, whichever of its threads did, and that run."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for path in found for child in path.read_text(encoding="ascii").split()}


def tree_seconds(pid: int) -> float:
    """CPU seconds of a process and of those it started, also of those that ended."""
    return cpu_seconds(pid, ended=True) + sum(tree_seconds(child) for child in children(pid))


def cost(place: tuple[int, int], route: tuple[str, dict[str, object]], lanes: int, calls: int) -> float:
    """CPU microseconds per call of one round."""
    port, pid = place
    calls = max(1, calls // lanes) * lanes  # every connection sends some
    before = tree_seconds(pid)
    asyncio.run(load(port, route, lanes, calls))
    return (tree_seconds(pid) - before) / calls * 1e6


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


if __name__ == "__main__":
    main()
