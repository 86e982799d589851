"""Cost of telemetry over OTLP: CPU of the gateway per call without a collector, and with one that gets traces, metrics and log lines.

`python -m bench.telemetry` serves a project for each way, measures them in turn (16 in flight, CPU of the gateway's threads), and prints
the median of the ratios of each round with its standard error. `--routes MCP` measures one route.
The exit status is 1 where telemetry costs over 10 %.
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
from collections.abc import Iterator
from pathlib import Path

from bench.calls import ROUTES, UPSTREAM, load, made_project, serving, thread_seconds

LANES, MOST = 16, 1.10
_JUDGED = 5
"""Number of rounds from which on the exit status says something."""
COLLECTOR = """
import asyncio, contextlib

async def serve(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
        await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\\r\\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/x-protobuf\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
        await writer.drain()
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
Place = tuple[int, int]
"""Port and process id of a gateway."""


@contextlib.contextmanager
def _served(folder: Path, upstream: str, telemetry: dict[str, object] | None) -> Iterator[Place]:
    project = made_project(folder, upstream)
    settings = json.loads((project / "toolgen.yaml").read_text(encoding="utf-8"))
    if telemetry is not None:
        settings["telemetry"] = telemetry
    (project / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    environment = {**os.environ, "TEST_PETS_KEY": "bench"}
    with subprocess.Popen(command, cwd=project, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield int(process.stderr.readline().rsplit(":", 1)[1]), process.pid
        finally:
            process.terminate()


def _cost(place: Place, route: str, calls: int) -> float:
    before = thread_seconds(place[1])
    asyncio.run(load(place[0], ROUTES[route], LANES, calls))
    return (thread_seconds(place[1]) - before) / calls * 1e6


def main() -> int:
    """Exit status: 1 where telemetry costs more than its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=1600)
    parser.add_argument("--routes", nargs="+", choices=[*ROUTES], default=[*ROUTES])
    parser.add_argument("--more", type=json.loads, default={}, help="further keys of telemetry:, as JSON")
    chosen = parser.parse_args()
    good = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        upstream, collector = stack.enter_context(serving(UPSTREAM)), stack.enter_context(serving(COLLECTOR))
        off = stack.enter_context(_served(Path(folder) / "off", upstream, None))
        on = stack.enter_context(_served(Path(folder) / "on", upstream, {"otlp": collector, **chosen.more}))
        for route in chosen.routes:
            costs: dict[Place, list[float]] = {off: [], on: []}
            for place in costs:
                asyncio.run(load(place[0], ROUTES[route], LANES, chosen.calls))
            for turn in range(chosen.rounds):
                for place in (off, on) if turn % 2 else (on, off):
                    costs[place].append(_cost(place, route, chosen.calls))
            ratios = [after / before for before, after in zip(costs[off], costs[on], strict=True)]
            error = 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else 0.0
            ratio = statistics.median(ratios)
            medians = " -> ".join(f"{statistics.median(costs[place]):.0f}" for place in (off, on))
            print(f"{route:5} {medians} us a call, ratio {ratio:.3f} (standard error {error:.3f})", flush=True)
            good.append(ratio <= MOST)
    return 0 if all(good) or chosen.rounds < _JUDGED else 1


if __name__ == "__main__":
    sys.exit(main())
