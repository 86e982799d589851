"""Running the command line in a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
