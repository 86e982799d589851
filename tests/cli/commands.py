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


def _exit_code(arguments: tuple[str, ...]) -> int:
    try:
        main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def runner(capture: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `toolgen` with arguments in this process. In a coroutine it runs in a thread: a command has an event loop of its own."""

    def run(*arguments: str) -> Output:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            code = _exit_code(arguments)
        else:
            with ThreadPoolExecutor(1) as thread:
                code = thread.submit(_exit_code, arguments).result()
        out, err = capture.readouterr()
        return Output(code, out.decode(), err.decode())

    return run
