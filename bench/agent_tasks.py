"""Scripted tasks over five systems: how many calls a simple agent needs from the request to the answer, and how many characters it reads.

`python -m bench.agent_tasks` serves the catalog of `bench.agents` through a whole gateway, with an upstream on loopback that answers in
pages. The script searches, describes what came without a schema, calls and answers, and takes what it reads as a model would: an option
that is listed is used, a list that says that it has more is read on. It prints calls, failed calls and characters of each task; exit 1
when an answer is wrong.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from bench.agent_services import ARTIFACTS, CHARGES, ISSUES, ORDERS, TOTALS, TRACKS, Upstream
from bench.agents import operation, sources
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.cli import main as command_line
from toolgen.frontends.http.app import App

STYLE = "2025-11-25"
AUTH: Mapping[str, Any] = {
    "github": {"bearer": "${env:BENCH_TOKEN}"},
    "stripe": {"bearerAuth": "${env:BENCH_TOKEN}"},
    "spotify": {"oauth_2_0": {"token": "${env:BENCH_TOKEN}"}},
}


class Task(Struct, frozen=True, kw_only=True):
    """Task of an agent: the request, a search query, the right operation, and the use of its answer.

    `do` is one of: "call" (once), "top" (the item with the most of `by`, of all there are) and "sql".
    """

    name: str
    queries: tuple[str, ...]
    rel: str
    arguments: Mapping[str, Any]
    do: str = "call"
    by: str = ""
    called: str = ""
    """The operation id that a model knows by heart, and calls before it searches."""
    expected: Any = None


def _most(items: list[dict[str, Any]], *path: str) -> Any:
    def value(item: Any) -> Any:
        for name in path:
            item = item[name]
        return item

    return max(map(value, items))


_REPO = {"owner": "octo", "repo": "app"}
TASKS = (
    Task(
        name="the largest artifact of a run",
        queries=("list artifacts of a workflow run",),
        rel="GET /repos/{owner}/{repo}/actions/runs/{run_id}/artifacts",
        arguments={**_REPO, "run_id": 5},
        do="top",
        by="size_in_bytes",
        expected=_most(ARTIFACTS, "size_in_bytes"),
    ),
    Task(
        name="the issue with the most comments",
        queries=("list open issues of a repository", "list issues"),
        rel="GET /repos/{owner}/{repo}/issues",
        arguments=_REPO,
        do="top",
        by="comments",
        expected=_most(ISSUES, "comments"),
    ),
    Task(
        name="open an issue",
        queries=("create an issue", "open a new issue in a repository"),
        rel="POST /repos/{owner}/{repo}/issues",
        arguments={**_REPO, "title": "Broken link"},
    ),
    Task(
        name="open an issue, by its operation id",
        queries=("create an issue", "open a new issue in a repository"),
        rel="POST /repos/{owner}/{repo}/issues",
        arguments={**_REPO, "title": "Broken link"},
        called="issues_create",
    ),
    Task(
        name="the branches, by an operation id",
        queries=("list the branches",),
        rel="GET /repos/{owner}/{repo}/branches",
        arguments={**_REPO, "per_page": 100},
        called="repos_list_branches",
    ),
    Task(
        name="pause a subscription's collection",
        queries=("pause_collection", "pause a subscription", "update a subscription"),
        rel="POST /v1/subscriptions/{subscription_exposed_id}",
        arguments={"subscription_exposed_id": "sub_1", "pause_collection": {"behavior": "void"}},
    ),
    Task(
        name="cancel a subscription at the end of its period",
        queries=("cancel subscription at period end", "cancel_at_period_end", "update a subscription"),
        rel="POST /v1/subscriptions/{subscription_exposed_id}",
        arguments={"subscription_exposed_id": "sub_1", "cancel_at_period_end": True},
    ),
    Task(
        name="the largest charge",
        queries=("list charges",),
        rel="GET /v1/charges",
        arguments={},
        do="top",
        by="amount",
        expected=_most(CHARGES, "amount"),
    ),
    Task(
        name="refund a charge",
        queries=("refund a charge", "create a refund"),
        rel="POST /v1/refunds",
        arguments={"charge": "ch_0001"},
    ),
    Task(
        name="jump to a time in the song",
        queries=("jump to time in song", "seek to position in the current track"),
        rel="PUT /me/player/seek",
        arguments={"position_ms": 30000},
    ),
    Task(
        name="the most popular liked song",
        queries=("list my liked songs", "get saved tracks"),
        rel="GET /me/tracks",
        arguments={},
        do="top",
        by="track.popularity",
        expected=_most(TRACKS, "track", "popularity"),
    ),
    Task(
        name="an order of the exchange",
        queries=("get an order by id",),
        rel="query order",
        arguments={"id": "o7"},
    ),
    Task(
        name="the dearest order of the exchange",
        queries=("list orders of a seller", "list orders"),
        rel="query orders",
        arguments={
            "sellerId": "s1",
            "first": 100,
            "fields": "{ edges { node { id buyerTotalCents } } pageInfo { hasNextPage endCursor } }",
        },
        do="top",
        by="node.buyerTotalCents",
        expected=_most(ORDERS, "buyerTotalCents"),
    ),
    Task(
        name="the largest order of the database",
        queries=("query the company database", "run a SQL query"),
        rel="company__query",
        arguments={"sql": "SELECT max(total) AS total FROM orders"},
        do="sql",
        expected=max(TOTALS.values()),
    ),
    Task(
        name="all orders of the database",
        queries=("query the company database", "run a SQL query"),
        rel="company__query",
        arguments={"sql": "SELECT id, total FROM orders"},
        do="top",
        by="total",
        expected=max(TOTALS.values()),
    ),
)


@contextmanager
def project(root: Path) -> Iterator[Path]:
    """The project of five sources, built; yields the path of its toolgen.yaml."""
    (root / "policies").mkdir()
    found: dict[str, dict[str, Any]] = dict(sources(root))
    with sqlite3.connect(root / "company.db") as database:
        database.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?)",
            [(number, number % 50, "paid", "2026-01-01", total) for number, total in TOTALS.items()],
        )
    database.close()
    tables = ("customers", "products", "orders", "order_items", "events", "tickets", "employees")
    policy = {
        "principals": {"bot": {"api_key": "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest(), "roles": ["bot"]}},
        "rules": [
            {
                "id": "all",
                "to": ["bot"],
                "tools": ["*"],
                "effects": ["read", "write", "destructive"],
                "verdict": "allow",
            }
        ],
        "sql": {"company": {"tables": {table: {} for table in tables}, "max_rows": 100}},
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    server = LocalServer(("127.0.0.1", 0), Upstream)
    with running(server):
        for name, one in found.items():
            if "openapi" in one:
                one |= {"server": server.url, "auth": AUTH[name]}
            if "graphql" in one:
                one |= {"endpoint": f"{server.url}/graphql"}
        path = root / "toolgen.yaml"
        path.write_text(json.dumps({"sources": found, "gateway": {"search_above": 1000}}), encoding="utf-8")
        try:
            command_line(["build", "--config", str(path)])
        except SystemExit as ended:
            if ended.code:
                raise
        yield path


class Agent:
    """Takes what it reads as a model would, and counts it."""

    def __init__(self, http: httpx.AsyncClient, operations: Mapping[str, str]) -> None:
        self._http, self._operations = http, operations
        self.calls = self.failed = self.characters = 0

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Success of a call, and its text."""
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp-protocol-version": STYLE, "accept": "application/json, text/event-stream"}
        answer = (await self._http.post("/mcp", json=body, headers=headers)).json()
        result = answer["result"]
        text = "\n".join(block.get("text", "") for block in result["content"])
        self.calls += 1
        self.characters += len(text)
        self.failed += bool(result.get("isError"))
        return not result.get("isError"), text

    async def done(self, task: Task) -> Any:
        """The answer to a task; None where it was not found."""
        if task.called:
            worked, text = await self.ask("run_tool", {"name": task.called, "arguments": task.arguments})
            if worked:
                return text
        found = await self._found(task)
        if found is None:
            return None
        name, schema = found
        if task.do == "top":
            return await self._top(name, schema, task)
        worked, text = await self.ask("run_tool", {"name": name, "arguments": task.arguments})
        if not worked:
            return None
        return _values(text, task.by or "rows") if task.expected is None else _rows(text)[0][0]

    async def _found(self, task: Task) -> tuple[str, dict[str, Any]] | None:
        for query in task.queries:
            _, text = await self.ask("search_tools", {"query": query})
            for entry in _json(text)["tools"]:
                if self._operations[entry["name"]] != task.rel:
                    continue
                schema = entry.get("input_schema")
                if schema is None:
                    _, text = await self.ask("describe_tool", {"name": entry["name"]})
                    schema = _json(text)["input_schema"]
                return entry["name"], schema
        return None

    async def _top(self, name: str, schema: Mapping[str, Any], task: Task) -> Any:
        """The most of all items: by the options of the answer where they are listed, otherwise page by page."""
        properties = schema["properties"]
        options = properties.get("answer", {}).get("properties", {})
        arguments = dict(task.arguments)
        if "top" in options:
            arguments["answer"] = {"sort": [f"-{task.by}"], "top": 1} | ({"pages": 20} if "pages" in options else {})
        else:
            for size in ("per_page", "limit"):
                if size in properties:
                    arguments[size] = properties[size].get("maximum", 100)
            if "fields" in options and "." not in task.by:
                arguments["answer"] = {"pages": 20}
        best: list[Any] = []
        for _ in range(20):
            worked, text = await self.ask("run_tool", {"name": name, "arguments": arguments})
            if not worked:
                return None
            values = _values(text, task.by)
            best = [max([*best, *values])] if values else best
            following = self._following(text, properties, arguments, len(values))
            if following is None:
                break
            arguments |= following
        return best[0] if best else None

    def _following(
        self, text: str, properties: Mapping[str, Any], arguments: Mapping[str, Any], count: int
    ) -> dict[str, Any] | None:
        """Return the arguments that an agent would change for the next page."""
        said = re.search(r"read on with (\{.*?\})(?:[;.\s]|$)", text)
        if said:
            return {**json.loads(said[1])}
        if "There are more rows than" in text:
            return {"sql": f"{arguments['sql']} ORDER BY id"}
        if "top" in arguments.get("answer", {}):
            return None
        if "after" in properties:
            info = re.search(r'"hasNextPage": ?true.*?"endCursor": ?"(\w+)"|"endCursor": ?"(\w+)".*?Page": ?true', text)
            return {"after": info[1] or info[2]} if info else None
        if "sql" in properties:
            return None if "OFFSET" not in arguments["sql"] and count < 100 else _next_rows(arguments["sql"], count)
        if "page" in properties:
            pages = arguments.get("answer", {}).get("pages", 1)
            return {"page": arguments.get("page", 1) + pages} if count else None
        if "offset" in properties:
            return {"offset": arguments.get("offset", 0) + count} if count else None
        last = re.findall(r'"id": ?"(ch_\d+)"', text)
        return {"starting_after": last[-1]} if last else None


def _next_rows(sql: str, count: int) -> dict[str, Any] | None:
    if not count:
        return None
    found = re.search(r" ORDER BY id LIMIT 100 OFFSET (\d+)", sql)
    begin = int(found[1]) if found else 0
    return {"sql": f"{sql.partition(' ORDER')[0]} ORDER BY id LIMIT 100 OFFSET {begin + 100}"}


def _json(text: str) -> Any:
    return json.loads(text[text.index("{") :])


def _rows(text: str) -> Any:
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["rows"]


def _values(text: str, path: str) -> list[Any]:
    """All numbers of this name in an answer, as somebody finds them who reads it."""
    name = path.rpartition(".")[2]
    found = [json.loads(one) for one in re.findall(rf'"{name}": ?(-?[\d.]+)', text)]
    if not found and '"rows"' in text:
        found = [row[-1] for row in _rows(text)]
    return found


async def run(path: Path) -> int:
    wrong = 0
    totals = [0, 0, 0]
    async with (
        Gateway.load(path) as gateway,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(App(gateway)),
            base_url="http://127.0.0.1:8080",
            headers={"authorization": "Bearer key-of-bot"},
            timeout=60,
        ) as http,
    ):
        operations = {tool.name: operation(tool) for tool in gateway.manifest.tools.values()}
        print(f"{'':48} calls failed characters")
        for task in TASKS:
            agent = Agent(http, operations)
            answer = await agent.done(task)
            right = answer is not None and task.expected in (None, answer)
            wrong += not right
            counts = (agent.calls, agent.failed, agent.characters)
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
            print(f"{task.name:48} {counts[0]:5} {counts[1]:6} {counts[2]:10,}{'' if right else '   WRONG'}")
    print(f"{'together':48} {totals[0]:5} {totals[1]:6} {totals[2]:10,}   {wrong} wrong")
    return int(wrong > 0)


def main() -> int:
    os.environ.setdefault("BENCH_TOKEN", "of-the-bench")
    with tempfile.TemporaryDirectory() as folder, project(Path(folder)) as path:
        return asyncio.run(run(path))


if __name__ == "__main__":
    sys.exit(main())
