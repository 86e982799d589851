"""`make demo`: the whole road once, for real. Every line printed comes from what happened; what must not happen ends it with 1."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from examples.shop.project import Shop, running

CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    # what for, tool, arguments, how it must end: ok, or the error's code
    ("read over REST", "orders__list_orders", {"status": ["open"], "limit": 2}, "ok"),
    ("read over GraphQL", "catalog__list_products", {"first": 2}, "ok"),
    (
        "read over SQL",
        "shop__query",
        {"sql": "SELECT city, count(*) AS customers FROM customers GROUP BY city ORDER BY customers DESC LIMIT 3"},
        "ok",
    ),
    ("ask a named query", "shop__orders_of_customer", {"customer_id": 3, "status": "paid"}, "ok"),
    ("call a tool the policy does not give", "orders__delete_order", {"order_id": "o1"}, "unknown_tool"),
    ("ask for a larger page than the policy allows", "orders__list_orders", {"limit": 100}, "forbidden"),
    (
        "hide a DELETE in SQL",
        "shop__query",
        {"sql": "WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone"},
        "sql_refused",
    ),
    (
        "read a column the policy keeps",
        "shop__query",
        {"sql": "SELECT card_number FROM customers"},
        "sql_refused",
    ),
]
SEARCH = ("search", "catalog__search", {"text": "dog"})
MAX_SEARCHES = 10


class Failed(Exception):  # noqa: N818
    """Something did not happen as it must."""


async def talk(shop: Shop) -> list[tuple[str, str]]:
    """Lists and calls tools with the official SDK's client; returns the tool and the ending of every call made."""
    headers = {"authorization": f"Bearer {shop.keys['support-bot']}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{shop.url}/mcp", http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        print(f"\n{len(tools)} tools over MCP {client.protocol_version}: {', '.join(tool.name for tool in tools)}")
        made = []
        for purpose, name, arguments, expected in CALLS:
            result = await client.call_tool(name, arguments)
            made.append((name, _ending(result)))
            _show(purpose, name, arguments, result)
            if made[-1][1] != expected:
                raise Failed(f"{name} ended {made[-1][1]}, not {expected}")
        for _ in range(MAX_SEARCHES):
            result = await client.call_tool(SEARCH[1], SEARCH[2])
            made.append((SEARCH[1], _ending(result)))
            if _ending(result) == "rate_limited":
                break
        _show(
            f"search once too often (call {sum(name == SEARCH[1] for name, _ in made)})", SEARCH[1], SEARCH[2], result
        )
        if made[-1][1] != "rate_limited":
            raise Failed(f"{MAX_SEARCHES} searches in a row were not limited")
        return made


def review(shop: Shop, made: list[tuple[str, str]]) -> None:
    """Prints the audit, holds it against the calls that were made, and verifies it."""
    listed = shop.toolgen("audit", "list", "--json")
    if listed.returncode:
        raise Failed(listed.stderr)
    rows = json.loads(listed.stdout)
    print(f"\nThe audit of these {len(rows)} calls:")
    print(shop.toolgen("audit", "list").stdout.rstrip())
    recorded = [(row["tool"], row.get("code", row["status"])) for row in rows]
    if recorded != made:
        raise Failed(f"the audit holds {recorded}, the calls were {made}")
    verified = shop.toolgen("audit", "verify")
    print(f"\naudit verify: {verified.stdout.strip()}")
    if verified.returncode:
        raise Failed("the audit does not verify")


def _ending(result: CallToolResult) -> str:
    """`ok`, or the code an error's text starts with."""
    return "ok" if not result.is_error else getattr(result.content[0], "text", "").partition(":")[0]


def _show(purpose: str, name: str, arguments: dict[str, Any], result: CallToolResult) -> None:
    block = result.content[0]
    text = " ".join(getattr(block, "text", "").split())
    print(f"\n> {purpose}: {name} {json.dumps(arguments)}")
    print(f"  {'refused' if result.is_error else 'answer'}: {text if len(text) <= 300 else text[:299] + '…'}")


def main() -> int:
    """Runs the demo; 0 when everything happened as it must."""
    ending = 0
    with tempfile.TemporaryDirectory(prefix="toolgen-demo-") as folder:
        try:
            with running(Path(folder)) as shop:
                print(f"the gateway listens on {shop.url}; its project is in {shop.directory}")
                made = asyncio.run(talk(shop))
                review(shop, made)
        except* Failed as failures:  # a group, because the client's task groups make one
            print(f"\nthe demo failed: {failures.exceptions}", file=sys.stderr)
            ending = 1
    return ending


if __name__ == "__main__":
    sys.exit(main())
