"""Finding the right tool: recall on labelled sets, how long an index and a query take, and what the listing costs a model.

`--ablation` prints what each part of the search adds to recall@10 of the odd queries (with `--hybrid`: by words and meaning).
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.formats import CORPUS
from bench.tokens import LARGE
from toolgen.gateway.catalog.search import bm25 as engine
from toolgen.gateway.catalog.search import hybrid as meaning
from toolgen.gateway.catalog.search import tokenizer, tool_graph, tool_roles
from toolgen.gateway.catalog.search.bm25 import ToolIndex
from toolgen.gateway.catalog.search.hybrid import HybridIndex
from toolgen.gateway.catalog.search.minilm import MiniLM
from toolgen.gateway.catalog.search_tools import meta_tools
from toolgen.gateway.catalog.tool_discovery import static_cost
from toolgen.generator.build import build
from toolgen.model.tool import HttpBinding, Tool

SETS = Path(__file__).parents[1].parent / "shared" / "corpus" / "retrieval"
HYBRID = {"restbench_tmdb": 0.82, "metatool_single_400": 0.87, "stb_sub": 0.93, "steps": 0.8}
BUDGETS = {"restbench_tmdb": 0.80, "metatool_single_400": 0.79, "stb_sub": 0.90, "steps": 0.8}
STEPS = Path(__file__).with_name("steps.jsonl")
"""Requests of several steps, written for descriptions of the corpus: {api, q, rel: [METHOD /path]}."""
APIS: Mapping[str, str] = {
    "github": LARGE["github"],
    "notion": "makenotion-notion-mcp-server__scripts-notion-openapi.json",
    "discourse": "apisguru__discourse.local.json",
    "vercel": "apisguru__vercel.com.json",
    "netlify": "netlify-open-api__swagger.yml",
    "trains": "bump-sh-examples-train-travel-api__.microcks-openapi.yaml",
}
PARTS: Sequence[tuple[str, Sequence[tuple[Any, str, Any]]]] = (
    ("words that ask for nothing are left out", ((tokenizer, "_ASIDE", frozenset()),)),
    ("more general words", ((engine, "broader", lambda _: []),)),
    ("sources counted together", ((engine, "_SOURCE", 0.0),)),
    ("the tool that finds what a hit needs", ((tool_graph, "_PRODUCER", 0.0),)),
    ("the tool that shows the thing itself", ((tool_graph, "_GETTER", 0.0),)),
    ("searches by name, for a request with a name", ((tool_graph, "_NAMED", 0.0),)),
    ("the parts of a request (meaning only)", ((meaning, "_PART", 0.0),)),
)
"""The parts of the search, and what is set to what where one is left out."""
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


def catalogs() -> dict[str, list[Tool]]:
    """The tools of each description that `STEPS` is about, as a build makes them; nothing where the corpus is not."""
    if not CORPUS.is_dir():
        return {}
    return {api: list(build({api: {"openapi": str(CORPUS / file)}}).tools.values()) for api, file in APIS.items()}


def steps_recall(
    tools: Mapping[str, list[Tool]], index: Callable[[list[Tool]], ToolIndex | HybridIndex] = ToolIndex
) -> float:
    """Recall@10 of requests of several steps, each in the catalog of its own description."""
    indexes = {api: index(found) for api, found in tools.items()}
    shares = []
    for request in lines(STEPS):
        found = tools.get(request["api"], [])
        right = {tool.name for tool in found for wanted in request["rel"] if _operation(tool) == wanted}
        if right:
            hits = {hit.id for hit in indexes[request["api"]].search(request["q"], limit=10)}
            shares.append(len(right & hits) / len(request["rel"]))
    return statistics.fmean(shares)


def _operation(tool: Tool) -> str:
    return f"{tool.binding.method} {tool.binding.path}" if isinstance(tool.binding, HttpBinding) else ""


class _Remembering:
    """An encoder that reads each text once: leaving a part out changes what is asked, and no tool."""

    def __init__(self) -> None:
        self._encoder = MiniLM()
        self._rows: dict[str, Any] = {}
        self.name = self._encoder.name

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy  # noqa: PLC0415 - comes with the extra

        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._rows.update(zip(new, self._encoder.encode(new), strict=True))
        return numpy.stack([self._rows[text] for text in texts])


def ablation(sets: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]], *, by_meaning: bool) -> None:
    """Prints a table of recall@10 from words alone on, one part more in each row: of the odd queries, which nothing was chosen by."""
    encoder = _Remembering() if by_meaning else None
    built = catalogs()
    print(f"| | {' | '.join([*sets, 'steps'])} |\n|---|{'---|' * (len(sets) + 1)}")
    for count in range(len(PARTS) + 1):
        with ExitStack() as without:
            for _, settings in PARTS[count:]:
                for module, name, value in settings:
                    without.enter_context(patch.object(module, name, value))
            row = [recall(_index(tools, encoder), queries[1::2], 10) for tools, queries in sets.values()]
            row.append(steps_recall(built, lambda tools: HybridIndex(encoder, tools) if encoder else ToolIndex(tools)))
        label = f"+ {PARTS[count - 1][0]}" if count else "words and meaning" if encoder else "words alone"
        print(f"| {label} | {' | '.join(f'{value:.3f}' for value in row)} |")


def _index(tools: list[dict[str, Any]], encoder: _Remembering | None) -> ToolIndex | HybridIndex:
    if encoder is None:
        return index_of(tools)
    index = HybridIndex(encoder)
    index.add_texts((item["id"], item["name"], item["text"], item["params"]) for item in tools)
    return index


def measured(sets: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> tuple[float, float, int]:
    """Seconds for an index of `MANY` distinct tools, nothing remembered, and the median seconds of a query; and its tools."""
    tools = [item for found, _ in sets.values() for item in found]
    many = [
        (f"{item['id']}#{number}", f"{item['name']} {number}", f"{item['text']} Variant {number}.", item["params"])
        for number in range(1 + MANY // len(tools))
        for item in tools
    ][:MANY]
    engine._read.cache_clear()
    tool_roles.role_of_text.cache_clear()
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
        cost = static_cost(meta_tools(tools))
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
    if built_tools := catalogs():
        ten = steps_recall(built_tools, lambda tools: HybridIndex(encoder, tools))
        print(f"steps over {len(built_tools)} descriptions {ten:.3f}")
        over |= ten < HYBRID["steps"]
    return 1 if over else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", type=Path)
    parser.add_argument("--hybrid", action="store_true")
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    paths = options.sets or sorted(path for path in SETS.glob("*") if (path / "queries.jsonl").is_file())
    if not paths:
        print(f"there are no sets in {SETS}", file=sys.stderr)
        return 1
    sets = {path.name: (lines(path / "tools.jsonl"), lines(path / "queries.jsonl")) for path in paths}
    if options.ablation:
        ablation(sets, by_meaning=options.hybrid)
        return 0
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
    if built_tools := catalogs():
        ten = steps_recall(built_tools)
        print(f"steps over {len(built_tools)} descriptions {ten:.3f}")
        over |= ten < BUDGETS["steps"]
    built, query, count = measured(sets)
    print(f"index of {count:,} tools {built:.2f} s, median query {query * 1000:.2f} ms")
    over |= listing_cost()
    return 1 if over or built > MAX_BUILD_S or query > MAX_QUERY_S else 0


if __name__ == "__main__":
    sys.exit(main())
