"""The path of one warm call through toolgen: how many of our own Python functions it enters, in how many modules, and how deep.

A function counts each time it is entered, in whatever thread or task; a coroutine that goes on after waiting is not entered again.
Comprehensions and lambdas are functions too. What libraries do is not counted, nor what dataclasses generate. Memory is what all threads
hold at the call's peak beyond what they held before it, the caller's in this process among them.

The gateway, an upstream on loopback and the caller: key, policy, three limits and a durable record, over the HTTP server that
`toolgen serve` runs. `--list` prints the path in order, `--mcp` takes a tool call over MCP, and `--tool` another tool over REST, for
which there is no bound. Exits with 1 where a figure is over its bound.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol, TypeVar

import toolgen
from bench.calls import FUNCTIONS_MODULE, ROUTES, TOOLS, UPSTREAM, made_project, request_of
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import Front, Pulse, gateway_site, serve_worker
from toolgen.frontends.server.lifeline import Lifeline
from toolgen.frontends.server.sockets import bind

# The most that a call may take: functions, modules, depth, bytes. No more than a tenth above what it took when this was last looked at.
BOUNDS = {"REST": (178, 53, 23, 31_000), "MCP": (192, 59, 28, 38_300)}
WARM, TRACED = 3, 7
T_co = TypeVar("T_co", covariant=True)
_ROOT = f"{Path(toolgen.__file__).parent}{os.sep}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that was entered, and how many of our own frames were on the stack, itself among them."""

    code: CodeType
    depth: int

    @property
    def module(self) -> str:
        """The path of its module below toolgen/."""
        return self.code.co_filename.removeprefix(_ROOT)


class Watch(Protocol[T_co]):
    """Looks at one call after the other, in every thread that is started after it is installed."""

    def install(self) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> T_co:
        """Return the function calls since the start."""
        ...

    def remove(self) -> None: ...


class Recorder:
    """Sees what is entered."""

    def __init__(self) -> None:
        self._active = False
        self._entries: list[Entry] = []
        self._seen: dict[int, FrameType] = {}  # kept alive, so that no two have the same id

    def install(self) -> None:
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def begin(self) -> None:
        self._active = True

    def end(self) -> list[Entry]:
        self._active = False
        entries, self._entries, self._seen = self._entries, [], {}
        return entries

    def remove(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self._active or event != "call" or not frame.f_code.co_filename.startswith(_ROOT):
            return
        if id(frame) not in self._seen:
            self._seen[id(frame)] = frame
            self._entries.append(Entry(frame.f_code, _depth(frame)))


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth += frame.f_code.co_filename.startswith(_ROOT)
        frame = frame.f_back
    return depth


class Memory:
    """Sees how many bytes are held at most, beyond those that were before."""

    def __init__(self) -> None:
        self._before = 0

    def install(self) -> None:
        tracemalloc.start()

    def begin(self) -> None:
        tracemalloc.reset_peak()
        self._before, _ = tracemalloc.get_traced_memory()

    def end(self) -> int:
        return tracemalloc.get_traced_memory()[1] - self._before

    def remove(self) -> None:
        tracemalloc.stop()


def seen(route: tuple[str, dict[str, object]], watch: Watch[T_co]) -> list[T_co]:
    """Return the function calls of several warm calls. The minimum counts, because timers of the gateway run in between."""
    found: list[T_co] = []
    failures: list[BaseException] = []
    lifeline, end = socket.socketpair()
    with _project() as path, contextlib.closing(bind("127.0.0.1", 0)) as listener, lifeline:
        port = listener.getsockname()[1]

        def caller() -> None:
            try:
                found.extend(_calls(port, route, watch))
            except BaseException as error:  # noqa: BLE001 - raised below, where somebody sees it
                failures.append(error)
            finally:
                end.close()  # the server stops

        thread = threading.Thread(target=caller)
        watch.install()
        try:
            gateway = Gateway.load(path)
            pulse = Pulse(ready=thread.start, beat=lambda: None)
            site = gateway_site(gateway, "127.0.0.1", Front())
            serve_worker(site, listener, front=Front(), pulse=pulse, lifeline=Lifeline(lifeline.fileno()))
        finally:
            watch.remove()
        thread.join()
    if failures:
        raise failures[0]
    return found


def _calls(port: int, route: tuple[str, dict[str, object]], watch: Watch[T_co]) -> Iterator[T_co]:
    request = request_of(port, route)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as answers:
        for number in range(WARM + TRACED):
            watch.begin()
            connection.sendall(request)
            head = answers.readline()
            if b" 200 " not in head:
                raise RuntimeError(head.decode())
            length = 0
            while (line := answers.readline().lower()) != b"\r\n":
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if b"xxxx" not in (body := answers.read(length)):
                raise RuntimeError(body.decode()[:300])
            taken = watch.end()
            if number >= WARM:
                yield taken


@contextlib.contextmanager
def _project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        upstream = subprocess.Popen([sys.executable, "-c", UPSTREAM], stdout=subprocess.PIPE, text=True)
        try:
            assert upstream.stdout is not None
            address = f"http://127.0.0.1:{int(upstream.stdout.readline())}"
            yield made_project(Path(folder) / "project", address) / "toolgen.yaml"
        finally:
            sys.modules.pop(FUNCTIONS_MODULE, None)  # the next project has its own
            upstream.terminate()
            upstream.wait()


def main() -> int:
    """Prints the figures, and the path with --list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcp", action="store_true", help="a tool call over MCP, not REST")
    parser.add_argument("--list", action="store_true", help="print every function entered, in order")
    parser.add_argument("--modules", action="store_true", help="print the modules with the number of calls in each")
    parser.add_argument("--tool", choices=TOOLS, help="a call of this tool over REST, for which there is no bound")
    options = parser.parse_args()
    os.environ["TEST_PETS_KEY"] = "bench"
    route = options.tool or ("MCP" if options.mcp else "REST")
    request = {**ROUTES, **TOOLS}[route]
    path = min(filter(None, seen(request, Recorder())), key=len)
    held = min(seen(request, Memory()))
    modules = collections.Counter(entry.module for entry in path)
    if options.list:
        for entry in path:
            print(f"{'  ' * (entry.depth - 1)}{entry.module}:{entry.code.co_firstlineno} {entry.code.co_qualname}")
    if options.modules:
        for module, count in modules.most_common():
            print(f"{count:4} {module}")
    depth = max(entry.depth for entry in path)
    figures = (len(path), len(modules), depth, held)
    if options.tool:
        print(
            route,
            *(f"{name} {figure}" for name, figure in zip(("calls", "modules", "depth", "bytes"), figures, strict=True)),
        )
        return 0
    told = zip(("calls", "modules", "depth", "bytes"), figures, BOUNDS[route], strict=True)
    print(route, *(f"{name} {figure} (bound {most})" for name, figure, most in told))
    return int(any(figure > most for figure, most in zip(figures, BOUNDS[route], strict=True)))


if __name__ == "__main__":
    sys.exit(main())
