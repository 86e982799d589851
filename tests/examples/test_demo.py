"""`make demo` does what it says, and fails when what it shows does not happen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import demo

ROOT = Path(__file__).parents[2]


def test_the_demo_reads_is_refused_and_shows_the_audit_of_exactly_its_calls() -> None:
    command = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "> read over REST",
        "> read over GraphQL",
        "> read over SQL",
        "refused: unknown_tool",
        "refused: forbidden",
        "refused: sql_refused",
        "refused: rate_limited",
        "The audit of these 12 calls:",
        "24 entries in 1 stream(s): intact",
    ):
        assert line in done.stdout, line
    assert "Traceback" not in done.stderr


def test_the_demo_fails_when_a_call_ends_otherwise(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = ("a call that is allowed", "orders__list_orders", {}, "unknown_tool")
    monkeypatch.setattr(demo, "CALLS", [wrong])
    assert demo.main() == 1
    assert "orders__list_orders ended ok, not unknown_tool" in capfd.readouterr().err
