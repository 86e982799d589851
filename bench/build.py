"""Cost of building, each description in a process of its own: CPU seconds (user and system) and peak memory, and what came out.

`python -m bench.build` prints one row for GitHub, Stripe and Kubernetes, cold, unchanged and as a gateway over the tools that is ready
to be asked, and with `--corpus` one for every description of the corpus with the promises that each must keep. Figures beyond their
limit are marked, and make it exit with 1.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toolgen
from bench.fuzz_openapi import CORPUS
from bench.promises import broken, reading
from toolgen.core.errors import DescriptionError

UNCHANGED_S = 0.3
READY_S = 0.9
PROJECT = """
sources: {{api: {{openapi: {path}, server: "http://127.0.0.1:9", auth: none}}}}
policies: policies/
generated: generated/
"""
POLICY = 'principals: {agent: {api_key: "sha256:' + "0" * 64 + '", roles: [agent]}}\n'
POLICY += 'rules: [{id: reads, to: [agent], tools: ["*"], effects: [read], verdict: allow}]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Budget of a cold `toolgen build` of one description, and of the start of a gateway with its tools."""

    label: str
    pattern: str
    cpu_s: float
    memory_mb: int
    served_mb: int


LIMITS = (
    Limit(label="GitHub", pattern="octokit-*", cpu_s=1.6, memory_mb=120, served_mb=130),
    Limit(label="Stripe", pattern="apisguru__stripe*", cpu_s=2.0, memory_mb=200, served_mb=170),
    Limit(label="Kubernetes", pattern="kubernetes-*", cpu_s=2.0, memory_mb=200, served_mb=190),
)


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of a command that must succeed."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    complaint = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(complaint.decode(errors="replace")[-2000:])
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def ready(path: Path, folder: Path) -> tuple[float, float]:
    """CPU seconds of a gateway over the tools of a description until it can be asked, and its memory in MB at most until then."""
    (folder / "policies").mkdir()
    (folder / "toolgen.yaml").write_text(PROJECT.format(path=path), encoding="utf-8")
    (folder / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")
    measured([sys.executable, "-m", "toolgen", "build"], folder)
    serve = [sys.executable, "-m", "toolgen", "serve", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(serve, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            if "listening" not in line:
                raise RuntimeError(line + process.stderr.read())
            nanoseconds = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.terminate()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return nanoseconds / 1e9, int(peak.split()[1]) / 1024


def commands() -> bool:
    """`toolgen build` of the large descriptions, twice in one folder, with compiled modules as installations have them.

    True if all stayed within their limits.
    """
    compileall.compile_dir(Path(toolgen.__file__).parent, quiet=2)
    print(f"{'toolgen build':14} {'CPU s':>7} {'MB':>6} {'again s':>8} {'ready s':>8} {'MB':>6}")
    good = True
    for limit in LIMITS:
        path = next(CORPUS.glob(limit.pattern), None)
        if path is None:
            print(f"{limit.label:14} not here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "toolgen", "build", str(path), "-o", "out", "--json"]
            cold, memory = measured(command, Path(folder))
            again, _ = measured(command, Path(folder))
            start, served = ready(path, Path(folder))
        within = (
            *(cold <= limit.cpu_s, memory <= limit.memory_mb, again <= UNCHANGED_S),
            *(start <= READY_S, served <= limit.served_mb),
        )
        marks = ["" if ok else "!" for ok in within]
        built = f"{cold:7.2f}{marks[0]} {memory:6.0f}{marks[1]} {again:8.2f}{marks[2]}"
        print(f"{limit.label:14} {built} {start:8.2f}{marks[3]} {served:6.0f}{marks[4]}")
        good = good and all(within)
    return good


def corpus() -> bool:
    """Every promise about every description. Whether all were kept."""
    print(f"\n{'description':44} {'operations':>10} {'tools':>6} {'skips':>6}  faults")
    good, totals = True, [0, 0]
    for path in sorted(path for path in CORPUS.iterdir() if path.is_file()):
        report = json.loads(subprocess.check_output([sys.executable, "-m", "bench.build", "--one", str(path)]))
        operations, tools = report["operations"], report["tools"]
        totals = [totals[0] + operations, totals[1] + tools]
        faults = "; ".join(report["faults"]) or "-"
        print(f"{path.name[:44]:44} {operations:10} {tools:6} {operations - tools:6}  {faults}")
        good = good and not report["faults"]
    print(f"{'all':44} {totals[0]:10} {totals[1]:6} {totals[0] - totals[1]:6}")
    return good


def one(path: Path) -> dict[str, Any]:
    """The promises about one description, kept or not."""
    try:
        found = reading(path)
    except DescriptionError as error:
        return {"operations": 0, "tools": 0, "faults": [str(error)]}
    return {"operations": found.operations, "tools": len(found.tools), "faults": broken(path)[:5]}


def main() -> None:
    """Exits with 1 when a limit or a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--corpus", action="store_true", help="hold every description of the corpus to the promises too"
    )
    parser.add_argument("--one", type=Path, metavar="FILE", help="report on one description, as JSON")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one(options.one)))
        return
    good = commands()
    if options.corpus:
        good = corpus() and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
