"""Tries every client whose environment is installed: `python -m tests.frameworks.run [NAME …] [--write] [--keep FOLDER]`.

Exits with 1 if a client gave its model something else than results.json says. `--write` writes results.json and the table of the
documentation; `--keep` leaves each client's whole report in a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.frameworks import environments
from tests.frameworks.client_list import CLIENTS, FrameworkClient
from tests.frameworks.evaluation import cells
from tests.frameworks.gateways import KEY, Gateways, gateways, task
from tests.frameworks.table import results, write_results

ROOT = Path(__file__).parents[2]
MAX_DURATION_S = 900
FINE = "nothing wrong"


def report_of(client: FrameworkClient, at: Gateways, folder: Path) -> dict[str, Any]:
    """Run a client's script in its environment; return its report."""
    if client.script.suffix == ".py":
        command = [str(environments.python(client.environment)), "-m", f"tests.frameworks.clients.{client.script.stem}"]
    else:
        command = [str(environments.node()), str(beside_packages(client, client.script, folder))]
    report: dict[str, Any] = json.loads(finished(command, json.dumps(task(client.name, at))))
    return report


def example_faults(client: FrameworkClient, at: Gateways, folder: Path) -> list[str]:
    """Run a client's example as a reader does; return what is wrong with it."""
    if client.example.suffix == ".py":
        command = [str(environments.python(client.environment)), str(client.example)]
    else:
        command = [str(environments.node()), str(beside_packages(client, client.example, folder))]
    arguments = ["code__greet", '{"name": "reader"}']
    try:
        said = finished([*command, *arguments], "", TOOLGEN_URL=at.kinds, TOOLGEN_KEY=KEY)
    except RuntimeError as error:
        said = str(error)
    return [] if "Hello, reader." in said else [f"the example says: {said.strip()[-300:]}"]


def beside_packages(client: FrameworkClient, script: Path, folder: Path) -> Path:
    """Copy JavaScript files to where packages are, as Node.js looks for these beside a script."""
    box = folder / script.parent.parent.name / client.name
    (box / "clients").mkdir(parents=True)
    (box / "node_modules").symlink_to(environments.environment(client.environment) / "node_modules")
    for one in script.parent.glob("*.mjs"):
        shutil.copy(one, box / "clients")
    return box / "clients" / script.name


def finished(command: list[str], given: str, **variables: str) -> str:
    """Run a client; return what it printed."""
    quiet = {"NO_PROXY": "*", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **quiet, **variables},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_DURATION_S,
    )
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def differences(
    client: FrameworkClient, found: dict[str, Any], known: dict[str, Any] | None, *, whole: bool
) -> list[str]:
    """Return how a client differs from its entry in results.json, a line for each property; not `whole` without GitHub's catalog."""
    if known is None:
        return [f"{client.name} is not in results.json: `make frameworks-table CLIENTS={client.name}` writes it"]
    lines = []
    if known["version"] != found["version"]:
        lines.append(f"version {found['version']}, not {known['version']}")
    for name, faults in found["cells"].items():
        expected = known["cells"].get(name)
        if expected is None:
            lines.append(f"{name}: not on record")
        elif faults != expected and (whole or name not in {"catalog", "search"}):
            lines.append(f"{name}: {'; '.join(faults) or FINE} (expected: {'; '.join(expected) or FINE})")
    return lines


def tried(client: FrameworkClient, at: Gateways, folder: Path, keep: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Try one client; return its entry for results.json, and what is wrong with its example. Raises `RuntimeError` without a report."""
    report = report_of(client, at, folder)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{client.name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return {"version": report["version"], "cells": cells(report, at.expected)}, example_faults(client, at, folder)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Try agent frameworks at a gateway.")
    parser.add_argument("names", nargs="*", help="clients; all of them if none is named")
    parser.add_argument("--write", action="store_true", help="write results.json and the table of the documentation")
    parser.add_argument("--keep", type=Path, help="folder for each client's report")
    return parser.parse_args()


def main() -> int:
    """Try the clients, one after the other."""
    options = arguments()
    known, failed = results(), []
    wanted = [client for client in CLIENTS if not options.names or client.name in options.names]
    installed = [client for client in wanted if environments.installed(client.environment)]
    with tempfile.TemporaryDirectory(prefix="toolgen-frameworks-") as name, gateways(Path(name)) as at:
        if options.write and not at.catalog:
            raise SystemExit("results.json is written only where GitHub's description is")
        for client in installed:
            begun = time.monotonic()
            try:
                entry, lines = tried(client, at, Path(name), options.keep)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                entry, lines = known.get(client.name, {}), [str(error)]
            else:
                lines += differences(client, entry, known.get(client.name), whole=bool(at.catalog))
            duration = time.monotonic() - begun
            print(f"{client.title} {entry.get('version', '')}: {'other' if lines else 'as known'} ({duration:.0f} s)")
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
            failed += [client.name] if lines else []
            known[client.name] = entry
    if len(installed) < len(wanted):
        print(f"Not installed, so not tried: {', '.join(one.name for one in wanted if one not in installed)}")
    if options.write:
        write_results(known)
    return bool(failed) and not options.write


if __name__ == "__main__":
    sys.exit(main())
