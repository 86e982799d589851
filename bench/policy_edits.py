"""Time until an edit of a large policy is in force in both workers of a gateway: `python -m bench.policy_edits [--rounds N]`.

`toolgen serve --workers 2` serves 1,000 tools. Each edit takes something away, so it does not wait until the files have rested. One
connection to each worker calls a tool that the edit takes away, each 20 ms; the time ends when both refuse. CPU is that of one worker, and
these calls are part of it. A file is renamed into its place. A revocation is tried while an edit of a rule is being read. Exit 1 where a
goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.calls import UPSTREAM, children, cpu_seconds, resident_mb
from bench.policy import SIZES, digest_of, large_files

GOALS_S = (1.0, 3.0)
"""The longest time to an edit in force, for each of `SIZES`."""
REVOKED_S = 1.0
"""The longest time to a revocation in force, whatever else is being read."""

_SOURCES, _OPERATIONS = 20, 50
_TOOL = "/v1/tools/source1__list_0/call"
_END = "...\n"  # a file that ends with it is whole, also where it is shorter than before
_LOADING_S = 0.45  # after an edit, when it is being read
_RESTED_S = 3.5
_READY = re.compile(r"listening on http://127\.0\.0\.1:([0-9]+)\n")


def make_project(root: Path, server: str, policy: Mapping[str, str]) -> None:
    """Write a project of 1,000 tools with these policy files, and build it."""
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    sources = {}
    for source in range(_SOURCES):
        paths = {
            f"/list/{number}": {
                "get": {
                    "operationId": f"list_{number}",
                    "summary": f"List number {number}",
                    "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            }
            for number in range(_OPERATIONS)
        }
        described = {"openapi": "3.1.0", "info": {"title": f"Source {source}", "version": "1"}, "paths": paths}
        (root / "specs" / f"source{source}.json").write_text(json.dumps(described), encoding="utf-8")
        sources[f"source{source}"] = {"openapi": f"specs/source{source}.json", "server": server}
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    for name, text in policy.items():
        (root / "policies" / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "toolgen", "build"], cwd=root, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def started(root: Path) -> Iterator[tuple[int, list[int]]]:
    """The project served by two workers; the port and the processes of the workers."""
    command = [sys.executable, "-m", "toolgen", "serve", "--workers", "2", "--port", "0"]
    log = root / "serve.log"
    with log.open("wb") as errors, subprocess.Popen(command, cwd=root, stderr=errors) as process:
        try:
            while (ready := _READY.search(log.read_text(encoding="utf-8"))) is None:
                if process.poll() is not None:
                    raise SystemExit(log.read_text(encoding="utf-8"))
                time.sleep(0.05)
            yield int(ready[1]), sorted(children(process.pid))
        finally:
            process.terminate()


class Prober:
    """A connection to one worker, on which a principal calls a tool again and again."""

    def __init__(self, port: int, workers: list[int], wanted: int) -> None:
        self._port, self._workers, self._wanted = port, workers, wanted
        self._connection = self._connected()

    def _connected(self) -> http.client.HTTPConnection:
        """A new connection that this worker accepted."""
        others: list[http.client.HTTPConnection] = []
        while True:
            found = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            found.connect()
            while (worker := _server_of(found, self._port, self._workers)) == 0:
                time.sleep(0.001)
            if worker == self._wanted:
                break
            others.append(found)
        for one in others:
            one.close()
        return found

    def call(self, key: str) -> int:
        """Status of the answer to a call."""
        if self._connection.sock is None:  # an unknown key ends it
            self._connection = self._connected()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._connection.request("POST", _TOOL, b'{"arguments": {}}', headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def wait(self, key: str, *, allowed: bool) -> float:
        """The time at which calls with this key began to be allowed, or refused."""
        while True:
            asked = time.perf_counter()
            status = self.call(key)
            if (status == 200) == allowed and status in {200, 401, 403, 404}:
                return asked
            time.sleep(0.02)


def _server_of(connection: http.client.HTTPConnection, port: int, workers: list[int]) -> int:
    """The worker that accepted a connection; 0 where none has yet."""
    wanted = (f"{port:04X}", f"{connection.sock.getsockname()[1]:04X}")
    rows = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
    inode = next(row[9] for row in rows if (row[1][-4:], row[2][-4:]) == wanted)
    for worker in workers:
        for descriptor in Path(f"/proc/{worker}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(descriptor) == f"socket:[{inode}]":
                    return worker
    return 0


class Bench:
    """A gateway whose policy is edited and put back."""

    def __init__(self, folder: Path, files: Mapping[str, str], probers: list[Prober], workers: list[int]) -> None:
        self._folder, self._files, self._probers, self._workers = folder, files, probers, workers
        self._pool = ThreadPoolExecutor(len(probers))

    def write(self, name: str, text: str | None) -> float:
        """Replace a file, or remove it; the time at which that was done."""
        path = self._folder / name
        if text is None:
            path.unlink()
        else:
            (self._folder / ".new").write_text(text, encoding="utf-8")
            (self._folder / ".new").replace(path)
        return time.perf_counter()

    def waited(self, key: str, *, allowed: bool) -> float:
        """Wait until both workers allow, or refuse, calls with this key."""
        return max(self._pool.map(lambda one: one.wait(key, allowed=allowed), self._probers))

    def cpu(self) -> float:
        """CPU seconds of the workers so far."""
        return sum(map(cpu_seconds, self._workers))

    def edited(self, name: str, text: str, key: str) -> tuple[float, float]:
        """Seconds until an edit that takes a call away is in force, and CPU seconds of a worker until then."""
        self.waited(key, allowed=True)
        before = self.cpu()
        took = -self.write(name, text) + self.waited(key, allowed=False)
        cpu = (self.cpu() - before) / len(self._workers)
        time.sleep(_RESTED_S)
        self._put_back(name, key)
        return took, cpu

    def revoked(self, name: str, text: str, sha256: str, key: str) -> float:
        """Seconds until a revocation is in force that comes while an edit is being read."""
        self.waited(key, allowed=True)
        self.write(name, text)
        time.sleep(_LOADING_S)
        began = self.write("keys.yaml", f"keys: []\nrevoked:\n  - {{key: 'sha256:{sha256}'}}\n...\n")
        took = self.waited(key, allowed=False) - began
        self.write("keys.yaml", "keys: []\nrevoked: []\n...\n")
        self._put_back(name, key)
        return took

    def _put_back(self, name: str, key: str) -> None:
        self.write(name, self._files[name])
        self.waited(key, allowed=True)
        time.sleep(_RESTED_S)


def measured(size: tuple[int, int, int], rounds: int) -> dict[str, list[float]]:
    """Seconds until each kind of edit was in force in both workers."""
    principals, rules, keys = size
    files = {name: text + _END for name, text in large_files(principals, rules, keys).items()}
    files["keys.yaml"] = "keys: []\nrevoked: []\n" + _END
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        upstream = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", UPSTREAM], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(upstream.terminate)
        assert upstream.stdout is not None
        root = Path(folder) / "project"
        make_project(root, f"http://127.0.0.1:{int(upstream.stdout.readline())}", files | _EGRESS)
        began = time.perf_counter()
        port, workers = stack.enter_context(started(root))
        found["started"] = [time.perf_counter() - began]
        bench = Bench(root / "policies", files, [Prober(port, workers, one) for one in workers], workers)
        # The key number 1 is that of bot-1, whose role is role-1; a key at the end of the last list is another one's that may do the same.
        last = next(
            number
            for number in reversed(range(keys))
            if number % principals % 200 == 1 and number % principals % 50 == 1
        )
        listed = f"keys-{(keys - 1) // 25_000}.yaml"
        line = next(one for one in files[listed].splitlines(keepends=True) if digest_of(last) in one)
        person = next(one for one in files["principals.yaml"].splitlines(keepends=True) if one.startswith("  bot-1:"))
        edits = {
            "a deny rule more": ("rules.yaml", _added(files["rules.yaml"], _DENY), "1"),
            "a key less": (listed, files[listed].replace(line, ""), str(last)),
            "a role less": (
                "principals.yaml",
                files["principals.yaml"].replace(person, person.replace("role-1]", "role-2]")),
                "1",
            ),
        }
        for _ in range(rounds):
            for what, (name, text, key) in edits.items():
                took, cpu = bench.edited(name, text, key)
                found.setdefault(what, []).append(took)
                found.setdefault(f"CPU of a worker, {what}", []).append(cpu)
            took = bench.revoked("rules.yaml", _added(files["rules.yaml"], _DENY_OTHER), digest_of(last), str(last))
            found.setdefault("a key revoked meanwhile", []).append(took)
        found["MB of a worker"] = [max(map(resident_mb, workers))]
    return found


def _added(text: str, entry: str) -> str:
    return text.removesuffix(_END) + entry + _END


_DENY = '  - {id: stop, to: [role-1], tools: ["source1__list_*"], verdict: deny}\n'
_DENY_OTHER = '  - {id: stop, to: [role-2], tools: ["source2__list_*"], verdict: deny}\n'
_EGRESS = {"egress.yaml": "egress: {private_networks: allow}\n"}


def main() -> None:
    """Print a row for each edit of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, choices=range(len(SIZES)), help="only the first or the second size")
    options = parser.parse_args()
    missed = []
    for number, (size, goal) in enumerate(zip(SIZES, GOALS_S, strict=True)):
        if options.size not in {None, number}:
            continue
        principals, rules, keys = size
        print(f"{principals:,} principals, {rules:,} rules, {keys:,} keys, two workers (goal {goal:g} s)")
        for what, values in measured(size, options.rounds).items():
            said = "  ".join(f"{value:.2f}" for value in values)
            print(f"  {what:40} median {statistics.median(values):6.2f}   {said}", flush=True)
            limit = {"a key revoked meanwhile": REVOKED_S}.get(what, goal if what.startswith("a ") else None)
            if limit is not None and statistics.median(values) > limit:
                missed.append(f"{what} ({principals:,} principals)")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
