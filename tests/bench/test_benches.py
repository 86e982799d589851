"""Every module of bench/ runs to its end, with the smallest sizes it takes. What it measures is not judged here: machines differ.

TOOLGEN_BENCHES=1 python -m pytest tests/bench/test_benches.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exhaustive import EXHAUSTIVE

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
ENTIRE = EXHAUSTIVE or bool(os.environ.get("TOOLGEN_BENCHES"))
# The arguments of each, and the parts of the shared corpus it cannot do without.
BENCHES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "accounts": (("--accounts", "100", "--rounds", "1"), ()),
    "agent_tasks": ((), ("openapi", "graphql")),
    "agents": ((), ("openapi", "graphql")),
    "audit": (("--rounds", "1", "--calls", "50"), ()),
    "bridged": ((), ()),
    "bridged_gateway": (("--rounds", "1", "--calls", "64", "--servers", "10"), ()),
    "bodies": (("--bodies", "10"), ()),
    "build": ((), ("openapi",)),
    "calls": (("--rounds", "1", "--calls", "20"), ()),
    "clients": (("--calls", "20", "--in-flight", "2"), ()),
    "code_mode": (("--calls", "3"), ()),
    "console": (("--entries", "4000", "--rounds", "1"), ()),
    "credentials": ((), ()),
    "descriptions": ((), ("openapi",)),
    "door": (("--no-install",), ()),
    "effect": (("--workers", "2", "--rounds", "1"), ()),
    "examples": ((str(CORPUS / "openapi"), "--only", "petstore"), ("openapi",)),
    "failures": ((), ()),
    "formats": ((), ("openapi",)),
    "functions": ((), ()),
    "fuzz_http": (("--seconds", "1"), ()),
    "fuzz_openapi": (("--rounds", "1", "--seconds", "0.05", "--largest", "20000"), ("openapi",)),
    "fuzz_sql": (("--rounds", "20", "--execute"), ("sql",)),
    "graphql": ((), ("graphql",)),
    "guard": (("--rounds", "1"), ()),
    "identity": ((), ()),
    "index": (("--entries", "2000", "--rounds", "1"), ()),
    "inspect_results": (("--rounds", "1", "--count", "200"), ()),
    "large": (("/dev/null", "--operations", "10"), ()),
    "limits": ((), ()),
    "listing": (("--rounds", "1"), ()),
    "middleware": (("--rounds", "1", "--calls", "50"), ()),
    "mutants": (("--most", "1", "--seconds", "60", "toolgen/policy/limits.py"), ()),
    "path": (("--modules",), ()),
    "peers": (("--rounds", "1", "--seconds", "1", "--plot", os.devnull), ()),
    "pending": (("--rounds", "1", "--calls", "16", "--count", "20", "--pieces", "1"), ()),
    "policy": ((), ()),
    "policy_edits": (("--rounds", "1"), ()),
    "record_window": (("--entries", "20000"), ()),
    "replay": (("--calls", "1000"), ()),
    "long_record": (("--entries", "2000"), ()),
    "scale": (("--rounds", "1", "--part", "0.001", "--only", "rules", "open sessions"), ()),
    "screenshots": (("--to", "dist/pictures"), ()),
    "search": ((), ("retrieval",)),
    "telemetry": (("--rounds", "1", "--calls", "64"), ()),
    "size": ((), ()),
    "startup": (("--rounds", "1", "--only", "help"), ()),
    "tokens": ((), ()),
    "tpc": (("duckdb",), ()),
    "verify": ((str(CORPUS / "openapi"), "--only", "petstore", "--examples", "1"), ("openapi",)),
    "workers": (("--rounds", "1", "--calls", "64"), ()),
}

PARTS = {"agent_services", "faults", "fuzz_sql_execute", "promises", "result_corpus", "unseen_texts"}
"""What other benches are made of."""


def test_every_bench_is_run() -> None:
    modules = {path.stem for path in (ROOT / "bench").glob("*.py") if path.stem != "__init__"}
    assert modules | {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")} == BENCHES.keys() | PARTS


@pytest.mark.sweep
@pytest.mark.skipif(not ENTIRE, reason="takes minutes: set TOOLGEN_BENCHES=1")
@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_runs_to_its_end(name: str) -> None:
    arguments, parts = BENCHES[name]
    if missing := [part for part in parts if not (CORPUS / part).is_dir()]:
        pytest.skip(f"needs the shared corpus: {', '.join(missing)}")
    if name == "peers" and not (ROOT / ".venv-peers" / ".installed").exists():
        pytest.skip("FastMCP and MCP Toolbox are not installed: `make peers` installs them")
    ended = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.returncode in {0, 1}, ended.stderr  # 1: a budget, which a busy machine may break
    assert ended.stdout.strip(), "it printed nothing"
