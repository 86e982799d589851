"""Workers that are stopped, or whose event loop is held up: they are killed and replaced, so that nobody waits for them; all stopped
together, none is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests import patient
from tests.messages import line_names
from tests.served_workers import Served, serving, until
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify

SILENT_S = 3
PROGRAM = f"""
import sys
from toolgen.config.settings import load
from toolgen.frontends.server.supervisor import serve_workers

sys.path.insert(0, sys.argv[2])
sys.exit(not serve_workers(load(sys.argv[1]), host="127.0.0.1", port=0, count=2, silent_s={SILENT_S}))
"""
TOOLS = '''
import os
import re
import time

import toolgen


def hanging() -> None:
    open(os.path.join(os.path.dirname(__file__), f"hanging-{os.getpid()}"), "w").close()


class Block(toolgen.Middleware):
    async def before(self, call: toolgen.CallView) -> None:
        """Holds up the event loop, as somebody who forgot to await."""
        if call.tool.name == "own__block":
            hanging()
            time.sleep(3600)


@toolgen.tool(effect="write")
def block() -> None:
    """Is never reached."""


@toolgen.tool(effect="write", timeout=3600)
def hold() -> None:
    """Holds the interpreter's lock in a thread of its own."""
    hanging()
    re.match("(a|a)*$", "a" * 100 + "b")


@toolgen.tool(effect="read")
async def look() -> int:
    """Looks."""
    return os.getpid()
'''


@contextlib.contextmanager
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    (folder / "hung_worker_tools.py").write_text(TOOLS)
    (folder / "policies").mkdir()
    key = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
    rules = [{"id": "all", "to": ["all"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}]
    policy = {"principals": {"bot": {"api_key": key, "roles": ["all"]}}, "rules": rules}
    (folder / "policies" / "policy.yaml").write_text(json.dumps(policy))
    path = folder / "toolgen.yaml"
    path.write_text(
        json.dumps({"sources": {"own": {"python": "hung_worker_tools"}}, "middleware": ["hung_worker_tools.Block"]})
    )
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")
    with serving(path, str(folder), program=("-c", PROGRAM)) as served:
        yield served


def call(served: Served, tool: str) -> httpx.Response:
    url = f"{served.url}/v1/tools/own__{tool}/call"
    return patient.post(url, json={}, headers={"authorization": "Bearer key-of-bot"})


def log_of(served: Served) -> str:
    return (served.path.parent / "serve.log").read_text(encoding="utf-8")


def assert_replaced(served: Served, hung: int, other: int) -> None:
    """Another worker takes the place of the one that hangs, and every new connection is answered; the other one goes on."""
    until(lambda: len(served.workers()) == 2 and hung not in served.workers())
    assert other in served.workers()
    assert line_names(log_of(served), f"(process {hung}) is killed", f" {SILENT_S} s")
    until(lambda: len(answering(served)) == 2)
    assert answering(served) == set(served.workers())


def answering(served: Served) -> set[int]:
    """The workers that answer so many new connections that each has some of them."""
    return {int(call(served, "look").json()["data"]) for _ in range(24)}


def test_a_worker_that_is_stopped_is_killed_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as served:
        hung, other = served.workers()
        os.kill(hung, signal.SIGSTOP)
        assert_replaced(served, hung, other)
        assert served.end() == 0


@pytest.mark.parametrize("tool", ["block", "hold"])
def test_a_worker_that_a_function_holds_up_is_killed_and_its_call_ends_as_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    with world(tmp_path, monkeypatch) as served, ThreadPoolExecutor(1) as threads:
        before = set(served.workers())
        calling = threads.submit(call, served, tool)
        until(lambda: any(tmp_path.glob("hanging-*")))
        (found,) = tmp_path.glob("hanging-*")
        hung = int(found.name.partition("-")[2])
        (other,) = before - {hung}
        assert_replaced(served, hung, other)
        assert isinstance(calling.exception(), httpx.HTTPError)
        assert served.end() == 0
    report = verify(tmp_path / "var" / "audit")
    assert report.ok
    assert report.unfinished == ()  # the worker in its place recorded how its call ended
    codes = [entry.get("code") for entry in entries(tmp_path / "var" / "audit") if entry["event"] == "outcome"]
    assert {"outcome_unknown", "cancelled"} & set(codes)


def test_a_worker_that_hangs_does_not_keep_the_others_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, monkeypatch) as served:
        hung, _ = served.workers()
        os.kill(hung, signal.SIGSTOP)
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=120)
        assert f"(process {hung}) is killed" in log_of(served)


def test_when_all_were_stopped_together_none_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a debugger, a frozen container, or a laptop that slept."""
    with world(tmp_path, monkeypatch) as served:
        workers = served.workers()
        everybody = [served.process.pid, *workers]
        for process in reversed(everybody):
            os.kill(process, signal.SIGSTOP)
        until(after(2 * SILENT_S))
        for process in everybody:
            os.kill(process, signal.SIGCONT)
        assert answering(served) == set(workers)
        until(after(2))
        assert served.workers() == workers
        assert "is killed" not in log_of(served)
        assert served.end() == 0


def after(seconds: float) -> Callable[[], bool]:
    """True once so many seconds have gone by: the only sign of what should not happen."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
