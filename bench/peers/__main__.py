"""Prints what one tool call costs here and with others, in one interleaved run: a table with ratios, and a plot beside it.

`make peers` installs nginx and wrk (Debian), FastMCP and MCP Toolbox (`.venv-peers`). Every target stands before the same upstream, an
nginx that answers 1 KB of JSON and counts what reaches it: a target whose calls do not all reach it is an error. CPU is what the process
tree of the target was on a processor, divided by the calls. toolgen runs with everything on (key, policy, three limits, durable record);
FastMCP and Toolbox do none of that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.projects import KEY, PETS, POLICY, make_project

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".venv-peers"
TOOLBOX = INSTALLED / "node_modules" / "@toolbox-sdk" / "server-linux-x64" / "bin" / "toolbox"
BODY = json.dumps({"id": 5, "text": "x" * 1000})
NGINX = """
daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; default_type application/json;
  client_body_temp_path {folder}/{name}-a; proxy_temp_path {folder}/{name}-b; fastcgi_temp_path {folder}/{name}-c;
  uwsgi_temp_path {folder}/{name}-d; scgi_temp_path {folder}/{name}-e;
  {rest}
}}
"""
ANSWERS = "server {{ listen 127.0.0.1:{port} backlog=1024; location = /hits {{ stub_status; }} location / {{ return 200 '{body}'; }} }}"
PASSES = """upstream behind {{ server 127.0.0.1:{upstream}; keepalive 128; }}
  server {{ listen 127.0.0.1:{port} backlog=1024;
    location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Key bench; }} }}"""
TOOLBOX_TOOLS = """kind: source
name: pets
type: http
baseUrl: http://127.0.0.1:{upstream}
timeout: 30s
allowedIpRanges: [127.0.0.0/8]
headers: {{X-Key: bench}}
---
kind: tool
name: getPet
type: http
source: pets
method: GET
path: /pets/{{{{.petId}}}}
description: Get a pet
pathParams:
  - {{name: petId, type: integer, description: The number of the pet}}
"""
LANES = (1, 16, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Measured target: the root of its processes, and the request of one call (GET without a body)."""

    pid: int
    url: str
    headers: Mapping[str, str]
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Measure a target under load for some seconds: CPU us and latencies in us, calls a second."""

    cpu_us: float
    calls_s: float
    p50_us: float
    p99_us: float


def main() -> None:
    """Starts every target, measures them in turn, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--plot", type=Path, default=ROOT / "bench" / "peers.svg")
    options = parser.parse_args()
    measured: dict[tuple[str, int], list[Round]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = _nginx(stack, folder, "upstream", lambda port: ANSWERS.format(port=port, body=BODY))[1]
        targets = _targets(stack, folder, upstream)
        for target in targets.values():
            _run(target, 16, 1, upstream)  # what is compiled at the first call is not what a call costs
        for _ in range(options.rounds):
            for lanes in LANES:
                for name, target in targets.items():
                    measured.setdefault((name, lanes), []).append(_run(target, lanes, options.seconds, upstream))
        memory = {name: _memory(target.pid) for name, target in targets.items()}
    _print(measured, memory, options.rounds, options.seconds)
    _plot(measured, options.plot)


def _targets(stack: contextlib.ExitStack, folder: Path, upstream: int) -> dict[str, Target]:
    """Targets that are installed, started and answering."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getPet", "arguments": {"petId": 5}}}
    ours = {**call, "params": {"name": "pets__get_pet", "arguments": {"petId": 5}}}
    asked = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    key = {**asked, "Authorization": f"Bearer {KEY}"}
    pid, port = _nginx(stack, folder, "proxy", lambda port: PASSES.format(port=port, upstream=upstream))
    targets = {"nginx, a proxy": Target(pid=pid, url=f"http://127.0.0.1:{port}/pets/5", headers={})}
    pid, port = _toolgen(stack, folder, upstream)
    targets["toolgen, MCP"] = Target(pid=pid, url=f"http://127.0.0.1:{port}/mcp", headers=key, body=json.dumps(ours))
    rest = f"http://127.0.0.1:{port}/v1/tools/pets__get_pet/call"
    targets["toolgen, REST"] = Target(pid=pid, url=rest, headers=key, body='{"arguments": {"petId": 5}}')
    (folder / "toolbox.yaml").write_text(TOOLBOX_TOOLS.format(upstream=upstream), encoding="utf-8")
    (folder / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    server = [
        str(INSTALLED / "bin" / "python"),
        str(ROOT / "bench" / "peers" / "fastmcp_server.py"),
        str(folder / "pets.json"),
    ]
    commands: dict[str, Callable[[int], list[str]]] = {
        "MCP Toolbox": lambda port: [
            *(str(TOOLBOX), "--config", str(folder / "toolbox.yaml"), "--port", str(port)),
            *("--log-level", "ERROR", "--disable-version-check", "--disable-reload"),
        ],
        "FastMCP": lambda port: [*server, f"http://127.0.0.1:{upstream}", str(port)],
    }
    for name, command in commands.items():
        port = _free_port()
        process = _start(stack, command(port), folder, name)
        targets[name] = Target(
            pid=process.pid, url=f"http://127.0.0.1:{port}/mcp", headers=asked, body=json.dumps(call)
        )
    for name, target in targets.items():
        _wait_for(name, target)
    return targets


def _toolgen(stack: contextlib.ExitStack, folder: Path, upstream: int) -> tuple[int, int]:
    limits = [{"id": str(number), "per": ["principal"], "rate": "999999999/s"} for number in range(3)]
    made = make_project(folder / "project", server=f"http://127.0.0.1:{upstream}", policy={**POLICY, "limits": limits})
    port = _free_port()
    command = [sys.executable, "-m", "toolgen", "serve", "--port", str(port)]
    return _start(stack, command, made.parent, "toolgen", {"TEST_PETS_KEY": "bench"}).pid, port


def _nginx(stack: contextlib.ExitStack, folder: Path, name: str, rest: Callable[[int], str]) -> tuple[int, int]:
    """An nginx of its own: its process id and port."""
    nginx, port = shutil.which("nginx"), _free_port()
    if nginx is None or shutil.which("wrk") is None or not TOOLBOX.exists():
        sys.exit("nginx, wrk, FastMCP or MCP Toolbox is missing: run `make peers` first.")
    configuration = folder / f"{name}.conf"
    configuration.write_text(NGINX.format(folder=folder, name=name, rest=rest(port)), encoding="utf-8")
    return _start(stack, [nginx, "-c", str(configuration), "-p", str(folder)], folder, name).pid, port


def _start(
    stack: contextlib.ExitStack, command: list[str], folder: Path, name: str, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    said = stack.enter_context((folder / f"{name}.said").open("wb"))
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **(variables or {})}, stdout=said, stderr=said)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(name: str, target: Target) -> None:
    """Until a call is answered with what the upstream said."""
    request = urllib.request.Request(target.url, data=target.body.encode() or None, headers=dict(target.headers))
    found = "nothing"
    for _ in range(1200):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found = answer.read().decode()
        except (urllib.error.URLError, ConnectionError) as error:
            found = str(error)
        if "xxxx" in found and '"isError":true' not in found:
            return
        time.sleep(0.1)
    sys.exit(f"{name} did not answer a call: {found[:300]}")


def _run(target: Target, lanes: int, seconds: int, upstream: int) -> Round:
    """wrk on so many connections; every call must have succeeded and have reached the upstream."""
    script = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in target.headers.items())
    if target.body:
        script += f'wrk.method = "POST"\nwrk.body = [==[{target.body}]==]\n'
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(script)
        lua.flush()
        reached, used, begun = _hits(upstream), _cpu(target.pid), time.monotonic()
        command = [
            "wrk",
            "-t1",
            f"-c{lanes}",
            f"-d{seconds}s",
            "--timeout",
            "20s",
            "--latency",
            "-s",
            lua.name,
            target.url,
        ]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        used, lasted = _cpu(target.pid) - used, time.monotonic() - begun
    calls = int(_found(r"(\d+) requests in", printed))
    reached = _hits(upstream) - reached - 1
    if (
        "Non-2xx" in printed or not calls <= reached <= calls * 1.01 + lanes + 2
    ):  # wrk leaves out a few of its last ones
        sys.exit(f"{target.url}: {calls} calls, {reached} reached the upstream:\n{printed}")
    return Round(
        cpu_us=used / reached * 1e6,
        calls_s=calls / lasted,
        p50_us=_microseconds("50%", printed),
        p99_us=_microseconds("99%", printed),
    )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        sys.exit(f"wrk printed no {pattern}:\n{text}")
    return match.group(1)


def _microseconds(percentile: str, printed: str) -> float:
    match = re.search(rf"\s{percentile}\s+([\d.]+)(us|ms|s)", printed)
    if match is None:
        sys.exit(f"wrk printed no latency of {percentile}:\n{printed}")
    return float(match.group(1)) * {"us": 1, "ms": 1e3, "s": 1e6}[match.group(2)]


def _hits(upstream: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{upstream}/hits", timeout=10) as answer:
        return int(answer.read().decode().splitlines()[2].split()[2])


def _processes(root: int) -> Iterator[Path]:
    """The process and all its descendants."""
    yield Path(f"/proc/{root}")
    for children in Path(f"/proc/{root}/task").glob("*/children"):
        for child in children.read_text(encoding="ascii").split():
            yield from _processes(int(child))


def _cpu(root: int) -> float:
    """Seconds that the threads of a process tree were on a processor (from schedstat, which counts nanoseconds)."""
    threads = [thread for process in _processes(root) for thread in process.glob("task/*/schedstat")]
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def _memory(root: int) -> float:
    """MB of memory that a process tree holds."""
    pages = sum(int((process / "statm").read_text(encoding="ascii").split()[1]) for process in _processes(root))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _median(rounds: list[Round], figure: str) -> float:
    return statistics.median(getattr(one, figure) for one in rounds)


def _print(measured: dict[tuple[str, int], list[Round]], memory: dict[str, float], rounds: int, seconds: int) -> None:
    print(
        f"Medians of {rounds} interleaved rounds of {seconds} s. `times`: CPU per call as a multiple of toolgen's over MCP."
    )
    print(f"{'in flight':>9}  {'target':15}{'CPU us':>8}{'times':>7}{'calls/s':>9}{'p50 ms':>8}{'p99 ms':>8}{'MB':>6}")
    for lanes in LANES:
        ours = _median(measured["toolgen, MCP", lanes], "cpu_us")
        for name, held in memory.items():
            found = measured[name, lanes]
            cpu = _median(found, "cpu_us")
            latencies = "".join(f"{_median(found, figure) / 1e3:8.2f}" for figure in ("p50_us", "p99_us"))
            print(
                f"{lanes:9}  {name:15}{cpu:8.0f}{cpu / ours:7.2f}{_median(found, 'calls_s'):9.0f}{latencies}{held:6.0f}"
            )


def _plot(measured: dict[tuple[str, int], list[Round]], target: Path) -> None:
    """Bars of CPU per call, drawn by the Python of `.venv-peers`, which has matplotlib."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for (name, lanes), rounds in measured.items():
        figures.setdefault(name, {})[str(lanes)] = {"cpu_us": round(_median(rounds, "cpu_us"), 1)}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(figures, file)
        file.flush()
        drawn = str(ROOT / "bench" / "peers" / "plot.py")
        subprocess.run([str(INSTALLED / "bin" / "python"), drawn, file.name, str(target)], check=True)
    print("Drawn:", target.relative_to(ROOT) if target.is_relative_to(ROOT) else target)


if __name__ == "__main__":
    main()
