"""Time to list a whole catalog over MCP: 1,223 tools of GitHub and Spotify, every page, over HTTP, after a first listing.

`python -m bench.listing` starts a gateway and prints median, minimum and maximum of the rounds in milliseconds, and the gateway's
CPU, for each protocol style. Exit 1 if the minimum is above `MAX_DURATION_MS`: the others depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.calls import cpu_seconds
from bench.fuzz_openapi import CORPUS
from toolgen.generator.build import build

SOURCES = {"github": "octokit-*", "spotify": "sonallux-spotify*"}
TOOLS, MAX_DURATION_MS = 1_223, 20.0
KEY = "bench-key"
VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
ERAS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "2025-11-25": ({}, {"MCP-Protocol-Version": "2025-11-25"}),
    VERSION: ({"_meta": META}, {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}),
}


def write(root: Path) -> None:
    """A project whose one principal may call exactly `TOOLS` tools, listed as they are."""
    sources = {name: {"openapi": str(next(CORPUS.glob(pattern)))} for name, pattern in SOURCES.items()}
    names = sorted(build(sources).tools)[:TOOLS]
    if len(names) < TOOLS:
        raise SystemExit(f"the corpus has {len(names)} tools of these sources, not {TOOLS}")
    policy = {
        "principals": {"bench": {"api_key": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(), "roles": ["bench"]}},
        "rules": [{"id": "all", "to": ["bench"], "tools": names, "verdict": "allow"}],
    }
    (root / "policies").mkdir()
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {"sources": sources, "gateway": {"search_above": "never"}}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "toolgen", "build"], cwd=root, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def gateway(root: Path) -> Iterator[tuple[int, int]]:
    """The project served; its port and process id."""
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield next(int(line.rsplit(":", 1)[1]) for line in process.stderr if "listening on" in line), process.pid
        finally:
            process.terminate()


def listed(wire: http.client.HTTPConnection, protocol_style: str) -> list[bytes]:
    """The pages as they came, each asked for with the cursor of the one before."""
    more, told = ERAS[protocol_style]
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        **told,
    }
    pages: list[bytes] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        params = {**more, **({"cursor": cursor} if cursor else {})}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
        wire.request("POST", "/mcp", body, headers)
        answer = wire.getresponse()
        pages.append(answer.read())
        if answer.status != 200:
            raise SystemExit(pages[-1].decode()[:500])
        # The cursor stands behind the tools; reading those is the client's part, and not what is measured here.
        found = pages[-1].rpartition(b'"nextCursor":"')[2].partition(b'"')[0] if b'"nextCursor"' in pages[-1] else None
        cursor = found.decode() if found is not None else None
    return pages


def main() -> int:
    """Prints a line for each era."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root)
        with gateway(root) as (port, pid):
            wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            for protocol_style in ERAS:
                pages = listed(wire, protocol_style)
                tools = [tool["name"] for page in pages for tool in json.loads(page)["result"]["tools"]]
                assert len(set(tools)) == TOOLS, len(set(tools))
                before, took = cpu_seconds(pid), []
                for _ in range(options.rounds):
                    began = time.perf_counter()
                    listed(wire, protocol_style)
                    took.append((time.perf_counter() - began) * 1000)
                cpu = (cpu_seconds(pid) - before) / options.rounds * 1000
                median = statistics.median(took)
                slow = slow or min(took) > MAX_DURATION_MS
                print(
                    f"{protocol_style}: {TOOLS} tools, {sum(map(len, pages)) / 1e6:.1f} MB in {len(pages)} pages: median {median:.1f} ms, "
                    f"least {min(took):.1f} ms, longest {max(took):.1f} ms, CPU of the gateway {cpu:.1f} ms (at most {MAX_DURATION_MS:g})"
                )
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
