"""Running the command line in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
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


def runner(capture: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `toolgen` with arguments in this process."""

    def run(*arguments: str) -> Output:
        code = 0
        try:
            main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out, err = capture.readouterr()
        return Output(code, out.decode(), err.decode())

    return run
