"""First steps of a new user: `python -m bench.door`. Lines of README, and time and size of `make setup` and `make demo`.

A copy of the files under version control is made in a temporary folder, without any environment. Packages come from the cache of pip,
which the first of two rounds fills. On a busy machine the CPU seconds are more reliable than the elapsed ones.
`--no-install` leaves out what installs packages.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
README_LINES, DEMO_S, DEMO_MB = 120, 30.0, 200.0


def megabytes(folder: Path) -> float:
    """Return the size of a folder on disk; a file with several links counts once."""
    found = {(one.st_dev, one.st_ino): one.st_blocks * 512 for path in folder.rglob("*") if (one := path.lstat())}
    return sum(found.values()) / 1e6


def timed(target: str, folder: Path) -> tuple[float, float]:
    """Return the seconds, and the CPU seconds, that a target of the Makefile takes. Ends the program if it fails."""
    started, before = time.perf_counter(), os.times()
    variables = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "MAKEFLAGS"}}
    command = ["make", target, f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"make {target} failed:\n{done.stdout}{done.stderr}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


def copied(folder: Path) -> None:
    """Copy the files under version control as they are on disk."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    packed = subprocess.run(
        ["tar", "--create", "--null", "--files-from", "-"], cwd=ROOT, input=listed, capture_output=True, check=True
    )
    subprocess.run(["tar", "--extract"], cwd=folder, input=packed.stdout, check=True)


def main() -> None:
    """Print each figure beside its goal; exit 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-install", action="store_true")
    options = parser.parse_args()
    lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    rows = [("lines of README", float(lines), float(README_LINES))]
    for _ in range(0 if options.no_install else options.rounds):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            copied(folder)
            (first, used), size = timed("demo", folder), megabytes(folder / ".venv")
            again, _ = timed("demo", folder)
        rows[1:] = [
            ("make demo in a new folder, s", first, DEMO_S),
            ("its CPU, s", used, DEMO_S),
            ("its environment, MB", size, DEMO_MB),
            ("make demo again, s", again, DEMO_S),
        ]
    for name, value, goal in rows:
        print(f"{name:32}{value:8.1f}  goal {goal:g}")
    sys.exit(any(value > goal for _, value, goal in rows))


if __name__ == "__main__":
    main()
