"""The gate against a call that grows by accident: no time is measured, so no machine is too slow for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("options", [(), ("--mcp",)])
def test_a_warm_call_stays_within_its_bounds(options: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.path", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
