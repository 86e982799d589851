"""Running the command line in a test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from toolgen.cli import main


class Output(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Output]


def run_command(*arguments: str) -> int:
    """Runs `toolgen` with arguments in this process, and returns its exit code.

    In a coroutine it runs in a thread, because a command has an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _exit_code(arguments)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_exit_code, arguments).result()


def _exit_code(arguments: tuple[str, ...]) -> int:
    try:
        main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def runner(capture: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `toolgen` as `run_command` does, and captures its output."""

    def run(*arguments: str) -> Output:
        code = run_command(*arguments)
        out, err = capture.readouterr()
        return Output(code, out.decode(), err.decode())

    return run


@contextlib.contextmanager
def served(project: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Process of `toolgen serve` on a project, and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgen", "serve", "--port", "0"],
        cwd=project,
        env={**os.environ, "TEST_PETS_KEY": "canary"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        # A warning of calls that were left open may stand before it.
        line = next(line for line in process.stderr if "listening on http://" in line)
        yield process, line.rsplit(" ", 1)[1].strip()
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
