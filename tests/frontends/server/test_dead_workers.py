"""Workers that die in the middle of calls: others go on, a new one is started, the record says what is not known, and SIGTERM ends all."""

from __future__ import annotations

import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests import patient
from tests.gateway.governed import project
from tests.served_workers import Served, serving, until
from toolgen.audit.reader import entries, merged
from toolgen.audit.verify import verify

RULES = [
    {
        "id": "all",
        "to": ["bot"],
        "tools": ["own__*"],
        "effects": ["read", "write", "destructive"],
        "verdict": "allow",
    }
]
TOOLS = '''
"""Functions that end their process, or never end."""
import os
import threading

import toolgen


@toolgen.tool(effect="write")
def abort() -> None:
    """Ends the process as a corrupted heap does."""
    os.abort()


@toolgen.tool(effect="write")
def wait() -> None:
    """Waits in the worker that it names."""
    with open(os.environ["TOLD"], "a") as told:
        told.write(f"{os.getpid()}\\n")
    threading.Event().wait()


@toolgen.tool(effect="read")
def look() -> int:
    """Gives the number of its process."""
    return os.getpid()
'''


def own_project(root: Path) -> Path:
    path = project(
        root, "http://127.0.0.1:9", {"rules": RULES}, sources={"own": {"python": "own_tools"}}, gateway={"drain": "1s"}
    )
    (root / "own_tools.py").write_text(TOOLS.replace('os.environ["TOLD"]', repr(str(root / "told"))))
    return path


def call(served: Served, name: str) -> httpx.Response | None:
    with contextlib.suppress(httpx.HTTPError):
        return patient.post(
            f"{served.url}/v1/tools/own__{name}/call", json={}, headers={"authorization": "Bearer key-of-bot"}
        )
    return None


def test_an_aborted_worker_is_replaced_and_its_calls_end_unknown(tmp_path: Path) -> None:
    root = tmp_path / "p"
    told = root / "told"
    with serving(own_project(root), "--workers", "2") as served, ThreadPoolExecutor(16) as threads:
        old = served.workers()
        assert len(old) == 2
        waiting = [threads.submit(call, served, "wait") for _ in range(4)]
        until(lambda: told.exists() and len(told.read_text().split()) == 4)
        places = [int(number) for number in told.read_text().split()]
        assert call(served, "abort") is None
        until(lambda: len(served.workers()) == 2 and len({*served.workers()} & {*old}) == 1)
        (survivor,) = {*served.workers()} & {*old}
        seen: set[int] = set()

        def looked() -> bool:
            answer = call(served, "look")
            assert answer is not None
            assert answer.json()["status"] == "ok", answer.text
            seen.add(answer.json()["data"])
            return len(seen) == 2

        until(looked)
        assert survivor in seen
        rows = merged(entries(root / "var" / "audit"))
        ended = {row["call_id"]: (row["tool"], row["status"], row.get("code")) for row in rows}
        lost = [end for end in ended.values() if end[2] == "outcome_unknown"]
        assert len(lost) == 1 + sum(place != survivor for place in places), ended
        assert ("own__abort", "error", "outcome_unknown") in lost
        assert sum(row["status"] == "unfinished" for row in rows) == sum(place == survivor for place in places)
        assert "ended (SIGABRT); another is started" in (root / "serve.log").read_text(encoding="utf-8")
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=120)
        for one in waiting:
            one.result()
    report = verify(root / "var" / "audit")
    assert report.ok
    assert report.unfinished == ()


def test_sigterm_ends_the_whole_though_a_worker_hangs(tmp_path: Path) -> None:
    root = tmp_path / "p"
    with serving(own_project(root), "--workers", "2") as served:
        stuck, _ = served.workers()
        os.kill(stuck, signal.SIGSTOP)  # neither a signal that can be handled nor anything else reaches its code
        assert served.end() == 1
        assert not Path(f"/proc/{stuck}").exists()
    assert "is killed" in (root / "serve.log").read_text(encoding="utf-8")
