"""Cost of starting each command: `python -m bench.startup`. CPU seconds and peak megabytes, each with a budget.

Every command runs in a separate process, in a new project, `--rounds` times; the minimum is printed. The exit status is 1 if a command is
above its budget or has another exit status than expected. The peak starts at the size of this process when it starts another.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "from toolgen.cli.main import main; main()"
AGENT = ("--as", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A way to start Python, with its budget: the CPU seconds and megabytes at most that it may take (infinite: none is set)."""

    words: Sequence[str]
    program: str = PROGRAM
    seconds: float = float("inf")
    megabytes: float = float("inf")
    ends: int = 0

    def __str__(self) -> str:
        return f"toolgen {shlex.join(self.words)}" if self.program == PROGRAM else self.program


STARTS = (
    Start(words=(), program="pass"),
    Start(words=(), program="import toolgen", seconds=0.05),
    Start(words=("--help",), seconds=0.2, megabytes=40),
    Start(words=("--version",), seconds=0.2, megabytes=40),
    Start(words=("bulid",), seconds=0.2, megabytes=40, ends=2),
    Start(words=("build",)),
    Start(words=("build", "--check")),
    Start(words=("diff", "generated/manifest.json", "generated/manifest.json")),
    Start(words=("lint",)),
    Start(words=("verify",)),
    Start(words=("policy", "check")),
    Start(words=("tools",)),
    Start(words=("keys", "list")),
    Start(words=("sql", "check", "--dialect", "sqlite", "select 1")),
    Start(words=("call", "notes__list_tables", *AGENT)),
    Start(words=("pause",)),
    Start(words=("resume",), ends=1),
    Start(words=("approvals", "list", *AGENT)),
    Start(words=("audit", "list")),
    Start(words=("audit", "tail")),
    Start(words=("audit", "show", "1")),
    Start(words=("audit", "stats")),
    Start(words=("audit", "verify")),
    Start(words=("audit", "keys", "list")),
    Start(words=("audit", "export")),
    Start(words=("audit", "reconcile", *AGENT)),
    Start(words=("doctor",)),
    *(Start(words=(name, "--help")) for name in ("init", "mock", "serve")),
)


def measured(start: Start, folder: Path) -> tuple[float, float, int, str]:
    """CPU seconds, megabytes at the peak, the exit code, and what it said where that is another than expected."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-c", start.program, *start.words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read(2000).decode(errors="replace")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="those with this in their text")
    arguments = parser.parse_args()
    over = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "project"
        subprocess.run([sys.executable, "-c", PROGRAM, "init", str(folder)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-c", PROGRAM, "build"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        print(f"{'CPU s':>6} {'budget':>7} {'MB':>5} {'budget':>7}  command")
        for start in STARTS:
            if arguments.only not in str(start):
                continue
            rounds = [measured(start, folder) for _ in range(arguments.rounds)]
            seconds, megabytes = min(one[0] for one in rounds), min(one[1] for one in rounds)
            code, text = rounds[-1][2:]
            bad = seconds > start.seconds or megabytes > start.megabytes or code != start.ends
            over += bad
            line = f"{seconds:6.2f} {start.seconds:7.2f} {megabytes:5.0f} {start.megabytes:7.0f}  {start}"
            print(line.replace("inf", "  -") + ("  OVER" if bad and code == start.ends else ""))
            if code != start.ends:
                print(f"       ended with {code}, not {start.ends}: {text.strip()[:500]}")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
