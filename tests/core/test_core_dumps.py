"""A gateway that crashes leaves no core, and nobody of its account looks into its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from tests.projects import make_project
from toolgen.core.core_dumps import ALLOWED

if sys.platform != "linux":
    pytest.skip("cores are Linux's here", allow_module_level=True)

CANARY = "canary-in-memory-4711"
LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
os.execv(sys.argv[1], sys.argv[1:])
"""
STATEMENT = """
import asyncio, os, pathlib, sys
from toolgen.frontends.python.gateway import Gateway
async def main():
    async with Gateway.load("toolgen.yaml") as gateway:
        envelope = await gateway.call("shop__query", {"sql": "SELECT count(*) FROM customers"}, principal="bot")
        assert envelope.status == "ok", envelope
        threads = pathlib.Path(f"/proc/{os.getpid()}/task").glob("*/children")
        print("ready", *(thread.read_text() for thread in threads), flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def started(root: Path, *command: str, **environment: str) -> subprocess.Popen[bytes]:
    """A process that may write as large a core as it wants, in its folder."""
    return subprocess.Popen(
        [sys.executable, "-c", LIMIT, sys.executable, *command],
        cwd=root,
        env={**os.environ, "TEST_PETS_KEY": CANARY, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def crashed(process: subprocess.Popen[bytes], stream: IO[bytes] | None) -> bool:
    """Whether it dumped its core when it was made to crash, once it was ready."""
    assert stream is not None
    assert stream.readline()
    os.kill(process.pid, signal.SIGABRT)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -signal.SIGABRT
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    assert os.WIFSIGNALED(status)
    return os.WCOREDUMP(status)


def cores(root: Path) -> list[Path]:
    return [path for path in root.rglob("core*") if path.is_file()]


def test_a_gateway_that_crashes_leaves_no_core(tmp_path: Path) -> None:
    make_project(tmp_path)
    command = ("-m", "toolgen", "serve", "--port", "0")
    process = started(tmp_path, *command)
    assert not crashed(process, process.stderr)
    assert cores(tmp_path) == []


def test_whoever_debugs_gets_one(tmp_path: Path) -> None:
    make_project(tmp_path)
    process = started(tmp_path, "-m", "toolgen", "serve", "--port", "0", **{ALLOWED: "1"})
    if not crashed(process, process.stderr):
        pytest.skip("this machine writes no cores")
    for core in cores(tmp_path):
        core.unlink()


def test_the_processes_that_read_files_of_databases_leave_none(tmp_path: Path) -> None:
    """Each forbids it to itself: the process that starts it is somebody's own program here, which may dump."""
    make_project(tmp_path)
    process = started(tmp_path, "-c", STATEMENT)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words, process.stderr and process.stderr.read()
        (child,) = (int(word) for word in words[1:])
        limit = next(line for line in Path(f"/proc/{child}/limits").read_text().splitlines() if "core file" in line)
        assert "unlimited" not in limit
        os.kill(child, signal.SIGABRT)
        deadline = time.monotonic() + 60
        while Path(f"/proc/{child}/status").read_text().split("State:")[1].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert cores(tmp_path) == []
    finally:
        process.kill()
        process.communicate()


OWNERS = """
import ctypes, os
from toolgen.core.core_dumps import forbid_core_dumps
os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # which changing the account took away
before = os.stat(f"/proc/{os.getpid()}/mem").st_uid
forbid_core_dumps()
print(before, os.stat(f"/proc/{os.getpid()}/mem").st_uid)
os.listdir("/proc/self/fd"), open("/proc/self/statm").read(), open(f"/proc/self/fd/{os.open('/dev/null', 0)}")  # what we look at
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to have two accounts")
def test_what_the_kernel_shows_of_it_is_roots_alone() -> None:
    shown = subprocess.run([sys.executable, "-c", OWNERS], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.split() == ["65534", "0"]


def test_every_program_of_ours_asks_for_it_first() -> None:
    for module in ("cli/main.py", "frontends/server/worker.py", "connectors/sql/execution/sandbox_process.py"):
        text = (Path(__file__).parents[2] / "toolgen" / module).read_text(encoding="utf-8")
        assert "forbid_core_dumps()" in text, module
