"""`make demo` does what it says, and fails when what it shows does not happen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def demo(prelude: str = "") -> subprocess.CompletedProcess[str]:
    program = f"import sys\nfrom examples import demo\n{prelude}\nsys.exit(demo.main())"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_demo_reads_is_refused_and_shows_the_audit_of_exactly_its_calls() -> None:
    done = demo()
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


def test_the_demo_fails_when_a_call_ends_otherwise() -> None:
    done = demo('demo.CALLS[3] = ("a call that is allowed", "orders__list_orders", {}, "unknown_tool")')
    assert done.returncode == 1
    assert "orders__list_orders ended ok, not unknown_tool" in done.stderr
