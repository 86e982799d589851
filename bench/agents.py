"""Finding the right tool among five systems at once: the rank of the right tool for everyday queries, and how much a model reads.

`python -m bench.agents` builds one catalog of GitHub, Stripe, Spotify, a GraphQL exchange and a company database, and searches it with each
query of `agent_queries.jsonl` ({api, q, rel}; `rel` are the right operations, each of which is as good as the others). It prints
recall@1, @3 and @10 of each system, of the odd queries apart, which nothing is tuned by, and the median characters of an answer. `--misses`
lists the even queries whose right tool is not first, `--hybrid` searches by words and meaning. Descriptions that are absent are left out.
Exit 1 when a budget is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.formats import CORPUS
from bench.search import lines
from bench.tokens import LARGE
from toolgen.core.clock import SystemClock
from toolgen.gateway.catalog.search.hybrid import HybridIndex
from toolgen.gateway.catalog.search_tools import SEARCH
from toolgen.gateway.catalog.tool_discovery import Discovery
from toolgen.generator.build import build
from toolgen.model.call import Principal
from toolgen.model.result import Success
from toolgen.model.tool import GraphQLBinding, HttpBinding, Tool

QUERIES = Path(__file__).with_name("agent_queries.jsonl")
OPENAPI: Mapping[str, str] = {
    "github": LARGE["github"],
    "stripe": LARGE["stripe"],
    "spotify": "sonallux-spotify-web-api__fixed-spotify-open-api.yml",
}
TABLES = """
CREATE TABLE customers(id integer PRIMARY KEY, name text NOT NULL, email text, country text, created_at text NOT NULL);
CREATE TABLE products(id integer PRIMARY KEY, sku text UNIQUE, name text, category text, price real, active int);
CREATE TABLE orders(id integer PRIMARY KEY, customer_id int REFERENCES customers(id), status text, placed_at text, total real);
CREATE TABLE order_items(order_id int REFERENCES orders(id), product_id int REFERENCES products(id), qty int, unit_price real);
CREATE TABLE events(id integer PRIMARY KEY, user_id int, kind text, ts text);
CREATE TABLE tickets(id integer PRIMARY KEY, tenant_id int, subject text, body text);
CREATE TABLE employees(id integer PRIMARY KEY, name text, department text, salary int);
"""
DEPTHS = (1, 3, 10)
BUDGETS = (0.68, 0.82, 0.93)
"""The least recall at each depth, of all queries."""


def sources(folder: Path) -> dict[str, dict[str, str]]:
    """The five systems as a project names them, without those whose descriptions are absent. The database is made in `folder`."""
    found = {name: {"openapi": str(CORPUS / file)} for name, file in OPENAPI.items() if (CORPUS / file).is_file()}
    exchange = CORPUS.parent / "graphql" / "artsy-exchange.graphql"
    if exchange.is_file():
        found["exchange"] = {"graphql": str(exchange), "endpoint": "http://127.0.0.1:9/graphql"}
    with sqlite3.connect(folder / "company.db") as database:
        database.executescript(TABLES)
    database.close()
    return {**found, "company": {"sql": f"sqlite:///{folder / 'company.db'}"}}


def operation(tool: Tool) -> str:
    """A tool's operation as queries name it: a method and a path, a kind of operation and a field, or the tool's name."""
    match tool.binding:
        case HttpBinding() as binding:
            return f"{binding.method} {binding.path}"
        case GraphQLBinding() as binding:
            return f"{binding.type} {binding.field}"
        case _:
            return tool.name


class Found(dict[str, list[int]]):
    """The ranks of the right tools, from 1, by system; 0 where it was not among the first ten."""

    def shown(self, name: str) -> str:
        """Row of the table: recall at each depth, for the queries of one system or of all."""
        ranks = self[name] if name in self else [rank for ranks in self.values() for rank in ranks]
        odd = [rank for own in ([self[name]] if name in self else self.values()) for rank in own[1::2]]
        values = " ".join(f"{recall(ranks, depth):7.3f}" for depth in DEPTHS)
        return f"{name:10} {len(ranks):8} {values}   {' '.join(f'{recall(odd, depth):.3f}' for depth in DEPTHS)}"


def recall(ranks: Sequence[int], depth: int) -> float:
    """The share of queries whose right tool is among the first `depth`."""
    return statistics.fmean(0 < rank <= depth for rank in ranks)


async def searched(tools: tuple[Tool, ...], *, hybrid: bool, misses: bool) -> tuple[Found, list[int]]:
    """The ranks of the right tools, and the characters of each answer of search_tools."""
    discovery = Discovery(above=0.0, clock=SystemClock())
    principal = Principal(id="bench", roles=frozenset(), attributes={})
    by_name = {tool.name: operation(tool) for tool in tools}
    known = {tool.source for tool in tools}
    meant = None
    if hybrid:
        from toolgen.gateway.catalog.search.minilm import MiniLM  # noqa: PLC0415 - an extra

        meant = HybridIndex(MiniLM(), tools)
    found, sizes = Found(), []
    for query in lines(QUERIES):
        if query["api"] not in known:
            continue
        answer = await discovery.answer(SEARCH, {"query": query["q"]}, principal, tools)
        assert isinstance(answer, Success), answer
        sizes.append(len(json.dumps(answer.data, ensure_ascii=False, separators=(",", ":"))))
        data: Any = answer.data
        names = [hit.id for hit in meant.search(query["q"])] if meant else [one["name"] for one in data["tools"]]
        right = set(query["rel"])
        rank = next((place for place, name in enumerate(names, 1) if by_name[name] in right), 0)
        found.setdefault(query["api"], []).append(rank)
        if misses and rank != 1 and len(found[query["api"]]) % 2:
            print(f"{rank:3} {query['api']}: {query['q']}: {', '.join(names[:4])}")
    return found, sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hybrid", action="store_true")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = tuple(build(sources(Path(folder))).tools.values())
        found, sizes = asyncio.run(searched(tools, hybrid=options.hybrid, misses=options.misses))
    print(f"{len(tools)} tools\n{'':10} {'queries':>8}     @1      @3     @10   of the odd queries")
    for name in (*found, "all"):
        print(found.shown(name))
    print(f"characters of an answer: median {statistics.median(sizes):,.0f}, most {max(sizes):,}")
    ranks = [rank for own in found.values() for rank in own]
    return int(any(recall(ranks, depth) < least for depth, least in zip(DEPTHS, BUDGETS, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
