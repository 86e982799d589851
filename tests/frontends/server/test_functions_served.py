"""`toolgen serve` with functions that hang: others are served, and a signal ends the process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from toolgen.audit.reader import entries

ROOT = Path(__file__).parents[3]
READY = re.compile(r"toolgen is listening on (http://127\.0\.0\.1:[0-9]+)\n")
SHARE = 16
TOOLS = '''
"""Functions as people write them: some never end."""
import asyncio
import os
import threading
import time
import toolgen

@toolgen.tool(effect="destructive", timeout=3600)
def hang() -> None:
    """Hangs in a thread."""
    os.write(1, b"hanging\\n")  # in one piece, whoever else writes
    threading.Event().wait()

@toolgen.tool(effect="destructive", timeout=3600)
async def block() -> None:
    """Hangs on the loop, as somebody who forgot to await."""
    os.write(1, b"hanging\\n")  # in one piece, whoever else writes
    time.sleep(3600)

@toolgen.tool(effect="destructive", timeout=3600)
async def hand_over() -> None:
    """Hangs in a thread that is asyncio's, and no daemon."""
    os.write(1, b"hanging\\n")  # in one piece, whoever else writes
    await asyncio.to_thread(threading.Event().wait)

@toolgen.tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"

@toolgen.tool(effect="read")
async def look_async() -> str:
    """Looks."""
    return "seen"

@toolgen.tool(effect="destructive")
async def leave() -> None:
    """Ends the process, as it thinks."""
    raise SystemExit(7)
'''


class Served:
    """A gateway's process, and calls to it."""

    def __init__(self, process: subprocess.Popen[str], url: str, threads: ThreadPoolExecutor) -> None:
        self.process, self.url, self._threads = process, url, threads

    def call(self, tool: str, who: str = "ann") -> Any:
        """The envelope, or None where the connection ended without one."""
        with contextlib.suppress(httpx.HTTPError):
            headers = {"authorization": f"Bearer key-of-{who}"}
            return patient.post(f"{self.url}/v1/tools/own__{tool}/call", json={}, headers=headers).json()
        return None

    def hang(self, tool: str, times: int = 1) -> list[Any]:
        """Calls that hang, once their functions do."""
        calls = [self._threads.submit(self.call, tool) for _ in range(times)]
        assert self.process.stdout is not None
        for _ in calls:
            assert self.process.stdout.readline() == "hanging\n"
        return calls

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=120)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Served]:
    name = f"functions_served_{folder.name}".replace("-", "_")
    folder.joinpath(f"{name}.py").write_text(TOOLS, encoding="utf-8")
    folder.joinpath("policies").mkdir()
    principals = {
        who: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{who}".encode()).hexdigest(), "roles": ["all"]}
        for who in ("ann", "ben")
    }
    effects = ["read", "write", "destructive"]
    rules = [{"id": "all", "to": ["all"], "tools": ["*"], "effects": effects, "verdict": "allow"}]
    policy = {"principals": principals, "rules": rules}
    folder.joinpath("policies", "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {
        "sources": {"own": {"python": name}},
        "gateway": {"drain": "2s"},
        "audit": {"dir": "audit"},
    }
    folder.joinpath("toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-u", "-m", "toolgen", "serve", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, stdout=-1, stderr=-1, text=True
    )
    try:
        assert process.stderr is not None
        ready = READY.fullmatch(process.stderr.readline())
        assert ready is not None
        reading = threading.Thread(target=process.stderr.read)  # so that it can say what it likes
        reading.start()
        with ThreadPoolExecutor(2 * SHARE) as threads:
            try:
                yield Served(process, ready[1], threads)
            finally:
                process.kill()
                reading.join()
    finally:
        process.kill()
        process.communicate()


def test_functions_that_hang_take_their_callers_share_and_keep_no_process(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        hung = served.hang("hang", SHARE)
        refused = served.call("look")
        assert (refused["status"], refused["error"]["code"]) == ("refused", "upstream_unavailable")
        assert served.call("look", "ben")["data"] == "seen"
        assert served.call("look_async")["data"] == "seen"
        assert f'toolgen_function_threads{{worker="gateway-1"}} {SHARE}' in patient.get(f"{served.url}/metrics").text
        assert served.stop() == 0
        told = [call.result() for call in hung]
        assert {one["error"]["code"] for one in told} == {"outcome_unknown"}
        outcomes = [entry for entry in entries(tmp_path / "audit") if entry["event"] == "outcome"]
        assert [one["status"] for one in outcomes].count("error") == SHARE


@pytest.mark.parametrize("tool", ["block", "hand_over"])
def test_an_async_function_that_hangs_keeps_neither_health_nor_the_process(tool: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        hung = served.hang(tool)
        assert patient.get(f"{served.url}/healthz").json() == {"status": "ok"}
        assert served.call("look")["data"] == "seen"
        assert served.stop(signal.SIGINT) == 0
        assert hung[0].result()["error"]["code"] == "outcome_unknown"


def test_a_function_that_wants_to_end_the_process_ends_its_call(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.call("leave")["error"]["code"] == "handler_error"
        assert served.call("look_async")["data"] == "seen"
        assert served.stop() == 0
