"""Growth of a gateway's cost with the number of tools, principals, keys, rules, audit entries, sessions, approvals and bridged servers.

`python -m bench.scale` serves two projects for each dimension, a small and a large one, and measures them in turn: CPU of a call over REST,
with 16 in flight, as the median of rounds; CPU and memory of the start; CPU of a reload of an edited policy. `--only tools keys` measures
some, `--part 0.1` takes a tenth of each large number. The exit status is 1 where a call costs over 5 % more in a large project.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from bench.bridged import SERVER
from bench.calls import REST, UPSTREAM, load, made_project, resident_mb, serving, thread_seconds
from bench.index import make_log, take_record
from tests.projects import KEY

LANES, CALLS, MORE = 16, 1600, 1.05
_KEYS_EACH, _PENDING_EACH, _PRINCIPALS_EACH = 10, 20, 2_000
_JUDGED = 5
"""Number of rounds from which on the exit status says something."""
_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Dimension(Struct, frozen=True, kw_only=True):
    """Number that grows from `small` to `large`. `prepare` edits a project for it, `occupy` makes requests once it is served."""

    small: int
    large: int
    prepare: Callable[[Path, int], None] | None = None
    occupy: Callable[[int, int], Awaitable[None]] | None = None


class Place(Struct, kw_only=True):
    """A served project and what was measured of it."""

    project: Path
    port: int
    pid: int
    start_s: float
    memory_mb: float
    costs: list[float]


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def _settings(project: Path, change: Callable[[dict[str, Any]], None]) -> None:
    _edit(project / "toolgen.yaml", change)


def _policy(project: Path, change: Callable[[dict[str, Any]], None]) -> None:
    _edit(project / "policies" / "policy.yaml", change)


def _tools(project: Path, count: int) -> None:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("filter", "page", "order")]
    answers = {"200": {"description": "ok"}}
    paths = {
        f"/things{number}": {
            "get": {"operationId": f"listThings{number}", "summary": f"List things of the kind {number}", "parameters": parameters,
                    "responses": answers}
        }
        for number in range(count)
    }  # fmt: skip
    document = {"openapi": "3.1.0", "info": {"title": "Things", "version": "1"}, "paths": paths}
    (project / "specs" / "things.json").write_text(json.dumps(document), encoding="utf-8")

    def change(settings: dict[str, Any]) -> None:
        settings["sources"]["things"] = {
            "openapi": "specs/things.json",
            "server": settings["sources"]["pets"]["server"],
        }

    _settings(project, change)


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _add_principals(project: Path, many: dict[str, dict[str, Any]]) -> None:
    """Write principals to policy files of a size that is accepted."""
    names = [*many]
    for first in range(0, len(names), _PRINCIPALS_EACH):
        part = {name: many[name] for name in names[first : first + _PRINCIPALS_EACH]}
        path = project / "policies" / f"principals-{first}.yaml"
        path.write_text(json.dumps({"principals": part}), encoding="utf-8")


def _principals(project: Path, count: int) -> None:
    many = {
        f"agent-{number}": {
            "api_key": _digest(f"agent {number}"),
            "roles": [f"role-{number % 20}"],
            "attributes": {"tenant": number},
        }
        for number in range(count)
    }
    _add_principals(project, many)


def _keys(project: Path, count: int) -> None:
    many = {
        f"agent-{number}": {"api_key": [_digest(f"{number} {key}") for key in range(_KEYS_EACH)], "roles": ["other"]}
        for number in range(count // _KEYS_EACH)
    }
    _add_principals(project, many)


def _rules(project: Path, count: int) -> None:
    many = [
        {"id": f"rule-{number}", "to": ["other", "bot"][number % 2 :][:1], "tools": [["pets__*"], ["shop__*"]][number % 2],
         "effects": ["read"], "verdict": "allow"}
        for number in range(count)
    ]  # fmt: skip

    def change(policy: dict[str, Any]) -> None:
        policy["rules"] += many
        policy["principals"]["other"] = {"api_key": _digest("other"), "roles": ["other"]}

    _policy(project, change)


def _record(project: Path, count: int, *, kept: Path | None = None) -> None:
    if kept is not None and (kept / str(count)).exists():
        take_record(project, kept / str(count))
        return
    make_log(project / "var" / "audit", count)
    # A gateway that starts on a log without an index fills it, beside the calls that are measured.
    subprocess.run([sys.executable, "-m", "toolgen", "audit", "index"], cwd=project, check=True, capture_output=True)


def _asked(project: Path, count: int) -> None:
    rule = {"id": "asked", "to": ["bot"], "tools": ["pets__delete_pet"], "verdict": "ask"}

    def change(policy: dict[str, Any]) -> None:
        policy["rules"].append(rule)
        policy["approvals"] = {"approvers": ["reviewer"], "expires": "1h"}
        for number in range(count // _PENDING_EACH + 1):
            policy["principals"][f"asking-{number}"] = {"api_key": _digest(_asking(number)), "roles": ["bot"]}

    _policy(project, change)


def _bridged(project: Path, count: int) -> None:
    program = [sys.executable, "-B", "-c", SERVER]
    sources = {f"s{number}": {"mcp": {"command": program, "annotations": "trusted"}} for number in range(count)}
    _settings(project, lambda settings: settings["sources"].update(sources))


def _asking(number: int) -> str:
    return f"key-of-asking-{number}"


def _headers(key: str = KEY) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}


async def _sessions(port: int, count: int) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=_headers()) as client:
        for _ in range(count):
            answer = await client.post("/mcp", json=body)
            if answer.status_code != 200 or "mcp-session-id" not in answer.headers:
                raise RuntimeError(f"no session: {answer.status_code} {answer.text[:200]}")


async def _pending(port: int, count: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for number in range(count):
            headers = _headers(_asking(number // _PENDING_EACH))
            body = {"arguments": {"petId": number}, "wait": 0}
            answer = await client.post("/v1/tools/pets__delete_pet/call", json=body, headers=headers)
            if answer.status_code != 202:
                raise RuntimeError(f"not pending: {answer.status_code} {answer.text[:200]}")


DIMENSIONS = {
    "tools": Dimension(small=100, large=10_000, prepare=_tools),
    "more tools": Dimension(small=100, large=50_000, prepare=_tools),
    "principals": Dimension(small=10, large=10_000, prepare=_principals),
    "keys": Dimension(small=100, large=100_000, prepare=_keys),
    "rules": Dimension(small=10, large=1_000, prepare=_rules),
    "entries of the record": Dimension(small=1_000, large=10_000_000, prepare=_record),
    "open sessions": Dimension(small=10, large=5_000, occupy=_sessions),
    "pending approvals": Dimension(small=10, large=2_000, prepare=_asked, occupy=_pending),
    "bridged servers": Dimension(small=1, large=100, prepare=_bridged),
}


@contextlib.contextmanager
def _served(dimension: Dimension, count: int, folder: Path, address: str) -> Iterator[Place]:
    project = made_project(folder, address)
    if dimension.prepare is not None:
        dimension.prepare(project, count)
    environment = {**os.environ, "TEST_PETS_KEY": "bench"}
    subprocess.run(
        [sys.executable, "-m", "toolgen", "build"], cwd=project, env=environment, check=True, capture_output=True
    )
    log = project / "serve.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=project, env=environment, stderr=out)
    try:
        while "listening on" not in (said := log.read_text(encoding="utf-8")):
            if process.poll() is not None:
                raise RuntimeError(said[-600:])
            time.sleep(0.02)
        port = int(said.split("listening on ", 1)[1].split()[0].rsplit(":", 1)[1])
        start = thread_seconds(process.pid)
        if dimension.occupy is not None:
            asyncio.run(dimension.occupy(port, count))
        asyncio.run(load(port, REST, LANES, 320))
        yield Place(
            project=project, port=port, pid=process.pid, start_s=start, memory_mb=resident_mb(process.pid), costs=[]
        )
    finally:
        process.terminate()
        process.wait()


def _reload_seconds(place: Place) -> float:
    """CPU of the gateway from an edit of its policy until all of it is in force: what it takes away, then what it gives."""
    before = thread_seconds(place.pid)
    limit = {"id": f"edit-{time.monotonic_ns()}", "per": ["principal"], "rate": "999999999/s"}
    _policy(place.project, lambda policy: policy["limits"].append(limit))
    deadline = time.monotonic() + 120
    headers = _headers()
    metrics = f"http://127.0.0.1:{place.port}/metrics"
    reloads = re.compile(r'^toolgen_policy_reloads_total{status="ok"[^}]*} (\d+)', re.MULTILINE)
    while sum(map(int, reloads.findall(httpx.get(metrics, headers=headers, timeout=60).text))) < 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the edited policy of {place.project} is not in force")
        time.sleep(0.1)
    return thread_seconds(place.pid) - before


def measure(name: str, dimension: Dimension, rounds: int) -> bool:
    """Print one row. Return True if a call of the large project is within its budget."""
    with tempfile.TemporaryDirectory() as folder, serving(UPSTREAM) as address, contextlib.ExitStack() as stack:
        places = [
            stack.enter_context(_served(dimension, count, Path(folder) / str(count), address))
            for count in (dimension.small, dimension.large)
        ]
        for turn in range(rounds):
            for place in places if turn % 2 else reversed(places):
                before = thread_seconds(place.pid)
                asyncio.run(load(place.port, REST, LANES, CALLS))
                place.costs.append((thread_seconds(place.pid) - before) / CALLS * 1e6)
        reloads = [_reload_seconds(place) for place in places]
    small, large = (statistics.median(place.costs) for place in places)
    ratio = statistics.median(after / before for before, after in zip(places[0].costs, places[1].costs, strict=True))
    columns = zip(*((place.start_s, place.memory_mb) for place in places), strict=True)
    start, memory = (f"{first:.2f} -> {second:.2f}" for first, second in columns)
    print(
        f"{name:22} {dimension.small:>7} -> {dimension.large:<10} call {small:5.0f} -> {large:5.0f} us ({ratio:.2f})   start {start} s"
        f"   memory {memory} MB   reload {reloads[0]:.2f} -> {reloads[1]:.2f} s",
        flush=True,
    )
    return ratio <= MORE


def main() -> int:
    """Exit status: 1 where a call costs more than its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*DIMENSIONS], default=[*DIMENSIONS])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--part", type=float, default=1.0, help="share of each large number")
    parser.add_argument("--records", type=Path, help="folder of the records that `bench.long_record --keep` left")
    chosen = parser.parse_args()
    good = []
    for name in chosen.only:
        dimension = DIMENSIONS[name]
        large = max(dimension.small + 1, int(dimension.large * chosen.part))
        prepare = partial(_record, kept=chosen.records) if dimension.prepare is _record else dimension.prepare
        one = Dimension(small=dimension.small, large=large, prepare=prepare, occupy=dimension.occupy)
        good.append(measure(name, one, chosen.rounds))
    return 0 if all(good) or chosen.rounds < _JUDGED else 1


if __name__ == "__main__":
    sys.exit(main())
