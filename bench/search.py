"""Finding the right tool: recall on labelled sets, how long an index and a query take, and what the listing costs a model.

`python -m bench.search [DIR...]` reads sets of tools.jsonl and queries.jsonl (see corpus/retrieval) and prints recall@5 and recall@10 of
each, and of its even and odd queries apart; then times an index of 3,000 tools made of them, and says what listing GitHub's tools costs
a model. `--hybrid` prints recall by words and meaning, with the extra `minilm`, and what that costs. Exit 1 when a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.formats import CORPUS
from bench.tokens import LARGE
from toolgen.builder.build import build
from toolgen.gateway.search_tools import stand_ins
from toolgen.gateway.tool_discovery import static_cost
from toolgen.search import bm25 as engine
from toolgen.search.bm25 import ToolIndex
from toolgen.search.hybrid import HybridIndex
from toolgen.search.minilm import MiniLM

SETS = Path(__file__).parents[1].parent / "shared" / "corpus" / "retrieval"
HYBRID = {"restbench_tmdb": 0.64, "metatool_single_400": 0.88, "stb_sub": 0.89}
BUDGETS = {"restbench_tmdb": 0.60, "metatool_single_400": 0.77, "stb_sub": 0.85}
MANY, MAX_BUILD_S, MAX_QUERY_S = 3_000, 1.0, 0.003
MAX_TOKENS = 2_000


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def index_of(tools: list[dict[str, Any]]) -> ToolIndex:
    """The index of a set's tools."""
    return ToolIndex.from_texts((item["id"], item["name"], item["text"], item["params"]) for item in tools)


def recall(index: ToolIndex | HybridIndex, queries: list[dict[str, Any]], depth: int) -> float:
    """The mean share of a query's right tools among the first `depth`."""
    shares = []
    for query in queries:
        right = set(query["rel"])
        found = {hit.id for hit in index.search(query["q"], limit=depth)}
        shares.append(len(right & found) / len(right))
    return statistics.fmean(shares)


def measured(sets: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> tuple[float, float, int]:
    """Seconds for an index of `MANY` distinct tools, nothing remembered, and the median seconds of a query; and its tools."""
    tools = [item for found, _ in sets.values() for item in found]
    many = [
        (f"{item['id']}#{number}", f"{item['name']} {number}", f"{item['text']} Variant {number}.", item["params"])
        for number in range(1 + MANY // len(tools))
        for item in tools
    ][:MANY]
    engine._read.cache_clear()
    started = time.perf_counter()
    index = ToolIndex.from_texts(many)
    built = time.perf_counter() - started
    times = []
    for query in [query["q"] for _, queries in sets.values() for query in queries]:
        started = time.perf_counter()
        index.search(query)
        times.append(time.perf_counter() - started)
    print(f"slowest query {max(times) * 1000:.2f} ms")
    return built, statistics.median(times), len(index)


def listing_cost() -> bool:
    """Prints what GitHub's two catalogs cost as a list and as the three tools in its place; true when that is over budget."""
    over = False
    for kind, path in (("openapi", CORPUS / LARGE["github"]), ("graphql", SETS.parent / "graphql" / "github.graphql")):
        tools = tuple(build({"github": {kind: str(path)}}).tools.values())
        engine._read.cache_clear()
        started = time.perf_counter()
        index = ToolIndex(tools)
        built = time.perf_counter() - started
        index.search("close an issue")
        started = time.perf_counter()
        hits = index.search("add a label to an issue", limit=3)
        took = time.perf_counter() - started
        cost = static_cost(stand_ins(tools))
        over |= cost > MAX_TOKENS
        print(
            f"GitHub {kind}: {len(tools):,} tools cost {static_cost(tools):,} tokens, the three in their place {cost:,}; "
            f"index {built:.2f} s, query {took * 1000:.2f} ms: {', '.join(hit.id for hit in hits)}"
        )
    return over


def hybrid(sets: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> int:
    """Prints recall by words and meaning, and what it costs; 1 when a set is not above its budget."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: CPU is what is measured
    encoder = MiniLM()
    over = False
    for name, (tools, queries) in sets.items():
        index = HybridIndex(encoder)
        started = time.process_time()
        index.add_texts((item["id"], item["name"], item["text"], item["params"]) for item in tools)
        built = time.process_time() - started
        started = time.process_time()
        five, ten = recall(index, queries, 5), recall(index, queries, 10)
        each = (time.process_time() - started) / len(queries) / 2
        print(
            f"{name:24} {len(tools):6} {len(queries):8} {five:9.3f} {ten:10.3f}   "
            f"{built / len(tools) * 1000:.1f} ms CPU a tool, {each * 1000:.1f} ms a query"
        )
        over |= ten <= HYBRID.get(name, 0.0)
    return 1 if over else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", type=Path)
    parser.add_argument("--hybrid", action="store_true")
    options = parser.parse_args()
    paths = options.sets or sorted(path for path in SETS.glob("*") if (path / "queries.jsonl").is_file())
    if not paths:
        print(f"there are no sets in {SETS}", file=sys.stderr)
        return 1
    sets = {path.name: (lines(path / "tools.jsonl"), lines(path / "queries.jsonl")) for path in paths}
    if options.hybrid:
        return hybrid(sets)
    over = False
    print(f"{'':24} {'tools':>6} {'queries':>8} {'recall@5':>9} {'recall@10':>10}   @10 of even and odd queries")
    for name, (tools, queries) in sets.items():
        index = index_of(tools)
        five, ten = recall(index, queries, 5), recall(index, queries, 10)
        halves = " ".join(f"{recall(index, queries[half::2], 10):.3f}" for half in (0, 1))
        print(f"{name:24} {len(tools):6} {len(queries):8} {five:9.3f} {ten:10.3f}   {halves}")
        over |= ten < BUDGETS.get(name, 0.0)
    built, query, count = measured(sets)
    print(f"index of {count:,} tools {built:.2f} s, median query {query * 1000:.2f} ms")
    over |= listing_cost()
    return 1 if over or built > MAX_BUILD_S or query > MAX_QUERY_S else 0


if __name__ == "__main__":
    sys.exit(main())
