"""`toolgen serve` of a project in real processes, for the tests that need several workers."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx

from tests import patient
from toolgen.audit.reader import entries

ROOT = Path(__file__).parents[1]
READY = re.compile(r"toolgen is listening on (https?://127\.0\.0\.1:[0-9]+)\n")
SERVE = ("-m", "toolgen", "serve", "--port", "0", "--config")
HEALTH = "/v1/tools/orders__get_health/call"


class Served:
    """`toolgen serve` of one project, and what may be asked of it."""

    def __init__(self, path: Path, process: subprocess.Popen[str], url: str) -> None:
        self.path, self.process, self.url = path, process, url

    def call(self, who: str = "bot", tool: str = HEALTH) -> httpx.Response:
        """One call on a connection of its own, so that any worker may get it."""
        return patient.post(self.url + tool, json={}, headers={"authorization": f"Bearer key-of-{who}"})

    def codes(self, times: int = 24) -> set[str]:
        """How so many calls ended: enough that each of two workers has some of them."""
        return {
            answer.get("error", {}).get("code", answer["status"])
            for answer in (self.call().json() for _ in range(times))
        }

    def lets_nobody_in(self, times: int = 24) -> bool:
        """Whether no worker knows the key. One that was shown it too often says 429, which none says to a key that it knows."""
        return {self.call().status_code for _ in range(times)} <= {401, 429}

    def workers(self) -> list[int]:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(number) for number in found.split()]

    def streams(self) -> dict[str, list[str]]:
        """The outcomes in each stream of the record."""
        found: dict[str, list[str]] = {}
        for entry in entries(self.path.parent / "var" / "audit"):
            if entry["event"] == "outcome":
                found.setdefault(str(entry["stream"]), []).append(str(entry["status"]))
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def serving(path: Path, *options: str, program: Sequence[str] = SERVE) -> Iterator[Served]:
    """The project served by `program`, which is given the path of its toolgen.yaml and these options."""
    log = (path.parent / "serve.log").open("w+", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, *program, str(path), *options],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=log,
        text=True,
    )

    def said() -> str:
        return (path.parent / "serve.log").read_text(encoding="utf-8")

    try:
        until(lambda: READY.search(said()) is not None or process.poll() is not None)
        ready = READY.search(said())
        assert ready is not None, said()
        yield Served(path, process, ready[1])
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()
