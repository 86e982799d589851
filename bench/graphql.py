"""GraphQL in numbers: what GitHub's schema costs to build and to show, and what the corpus' oracle finds in every schema.

`python -m bench.graphql` builds GitHub's schema cold and again, counts its static catalog (without output schemas, as bench.tokens does)
and the three tools that stand in for it; `--oracle` runs ../shared/corpus/graphql/oracle over every schema and prints one row each.
Exit 1 where a limit is passed or a promise broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.build import measured
from toolgen.gateway.catalog.search_tools import meta_tools
from toolgen.gateway.catalog.tool_discovery import static_cost
from toolgen.generator.build import build
from toolgen.model.shown_schema import shown

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "graphql"
COLD_S, AGAIN_S, STATIC, STAND_INS = 8.0, 0.3, 60_000, 2_000
PAIRS = (
    ("docs", "doc_ok"),
    ("sound", "sound_ok"),
    ("complete", "complete_ok"),
    ("complete", "complete_bind_ok"),
    ("exec", "exec_ok"),
)


def github() -> bool:
    """GitHub's schema against its four limits."""
    path = CORPUS / "github.graphql"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "toolgen", "build", str(path), "-o", "out", "--json"]
        cold, memory = measured(command, Path(folder))
        again, _ = measured(command, Path(folder))
    tools = tuple(
        build({"github": {"graphql": str(path), "endpoint": "https://api.github.com/graphql"}}).tools.values()
    )
    static, three = static_cost(tuple(map(shown, tools))), static_cost(meta_tools(tools))
    print(f"GitHub: {len(tools)} tools, cold build {cold:.2f} s CPU and {memory:.0f} MB, again {again:.2f} s")
    print(f"        static catalog {static} tokens, search/describe/call {three} tokens")
    return cold <= COLD_S and again <= AGAIN_S and static <= STATIC and three <= STAND_INS


def oracle(cap: int) -> bool:
    """Every schema of the corpus through its oracle: whether all are perfect."""
    here = CORPUS / "oracle"
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        command = [sys.executable, "oracle.py", "--name", "toolgen", "--cmd", f"{sys.executable} toolgen_graphql.py"]
        command += ["--schemas", "../*.graphql", "../*.json", "--out", out.name, "--cap", str(cap), "--budget", "20"]
        subprocess.run(
            command, cwd=here, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800
        )
        rows = [json.loads(line) for line in Path(out.name).read_text(encoding="utf-8").splitlines()]
    good = bool(rows)
    for row in rows:
        if "harness_error" in row:  # graphql-core refuses the schema where the oracle reads it for itself
            print(f"?{row['schema']:44} not judged: {row['harness_error']}")
            continue
        whole = (
            "docs" in row
            and row["covered"] + _skipped(CORPUS / row["schema"]) == row["want"]
            and not row["bad_names"] + row["dup_names"] + row["bad_schema"]
        )
        perfect = whole and all(row[made] == row[kept] for made, kept in PAIRS) and not row["refused"]
        told = " ".join(f"{kept} {row.get(kept)}/{row.get(made)}" for made, kept in PAIRS)
        print(
            f"{'' if perfect else '!'}{row['schema']:44} {row.get('covered')}/{row.get('want')} {told} {row.get('why') or ''}"
        )
        good = good and perfect
    return good


def _skipped(path: Path) -> int:
    """Root fields that lead to nothing but the root fields, which a build reports and makes no tool of."""
    return sum(one.code == "leads_to_root" for one in build({"s": {"graphql": str(path)}}).problems)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--cap", type=int, default=8, help="tools of each schema that the oracle looks at")
    options = parser.parse_args()
    if not CORPUS.is_dir():
        print("../shared/corpus/graphql is not here", file=sys.stderr)
        return 1
    return 0 if github() & (oracle(options.cap) if options.oracle else True) else 1


if __name__ == "__main__":
    sys.exit(main())
