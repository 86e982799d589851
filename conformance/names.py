"""Names of tools over the upgrades of a description: `python -m conformance.names [FILE …]`.

FILES are the versions of one description, the oldest first. Each is built in the same project, which keeps its `toolgen.lock`.
Without FILES the project's own histories are built (`tests/connectors/histories`). Exit code 1 if an operation that is still there has
another name, or if a name went over to another operation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolgen.connectors.assigned_names import identity_of

__all__ = ["Upgrade", "described", "upgrades"]

OWN = Path(__file__).parents[1] / "tests" / "connectors" / "histories"


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """One version, and against all before it: operations with another name, and names that another operation has now."""

    version: str
    tools: int
    renamed: Sequence[tuple[str, str, str]]
    moved: Sequence[tuple[str, str, str]]


def upgrades(versions: Mapping[str, bytes], folder: Path) -> Iterator[Upgrade]:
    """The upgrades from each version of a description to the next, in a project of the folder. The first has nothing before it."""
    sources = {"api": {"openapi": "api.json", "server": "http://127.0.0.1:9"}}
    (folder / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    for version, description in versions.items():
        (folder / "api.json").write_bytes(description)
        command = [sys.executable, "-m", "toolgen", "build", "--partial", "--config", str(folder / "toolgen.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise RuntimeError(f"{version}: {done.stderr[-2000:]}")
        now = _names(folder / "generated" / "manifest.json")
        yield Upgrade(
            version=version,
            tools=len(now),
            renamed=[(one, names[one], name) for one, name in now.items() if names.get(one, name) != name],
            moved=[(name, owners[name], one) for one, name in now.items() if owners.get(name, one) != one],
        )
        names |= now
        owners |= {name: owner for owner, name in now.items()}


def _names(manifest: Path) -> dict[str, str]:
    """The names of the tools that were built, by operation."""
    tools = json.loads(manifest.read_bytes())["tools"]
    return {identity_of("openapi", tool["origin"], ""): tool["name"] for tool in tools}


def described(operations: Mapping[str, str]) -> bytes:
    """A description of operations (`GET /pets`), each with its operationId, or without one where that is empty."""
    paths: dict[str, Any] = {}
    for operation, identifier in operations.items():
        method, _, path = operation.partition(" ")
        parts = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        made: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
        made["parameters"] = [
            {"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts
        ]
        if identifier:
            made["operationId"] = identifier
        paths.setdefault(path, {})[method.lower()] = made
    return json.dumps({"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "paths": paths}).encode()


def _history(path: Path) -> dict[str, bytes]:
    """The versions of a history of the project."""
    versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
    return {f"{path.stem} {number}": described(version) for number, version in enumerate(versions, 1)}


def main(files: Sequence[Path]) -> int:
    """Print what each upgrade does to names; return the exit code."""
    given = {str(path): path.read_bytes() for path in files}
    faults = 0
    for versions in [given] if files else map(_history, sorted(OWN.glob("*.json"))):
        with tempfile.TemporaryDirectory(prefix="toolgen-names-") as folder:
            for one in upgrades(versions, Path(folder)):
                print(f"{one.version}: {one.tools} tools, {len(one.renamed)} renamed, {len(one.moved)} names moved")
                for operation, old, new in one.renamed:
                    print(f"  {operation}: {old} is {new} now")
                for name, old, new in one.moved:
                    print(f"  {name}: was {old}, is {new} now")
                faults += len(one.renamed) + len(one.moved)
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m conformance.names", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    sys.exit(main(parser.parse_args().files))
