"""An MCP server with prompts and resources that does what a file says, which it reads again before every answer: over its pipes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1])
TRACE = ("traceparent", "tracestate", "baggage")
LISTS = {
    "skills/list": "skills",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answered(method: str, params: dict[str, Any], text: str) -> dict[str, Any]:
    """The result of a request that says a text."""
    match method:
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {"contents": [{"uri": params.get("uri", "x://y"), "text": text}]}


def answer(message: dict[str, Any]) -> None:
    said = json.loads(STATE.read_text(encoding="utf-8"))
    method, params = message["method"], message.get("params", {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        capabilities = said.get("capabilities", {"tools": {}, "prompts": {}, "resources": {}, "completions": {}})
        who = {"name": "context", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": who}
        write({**reply, "result": {**result, **said.get("introduction", {})}})
        return
    if method == "tools/list":
        write({**reply, "result": {"tools": said.get("tools", [])}})
        return
    if method in said.get("lacks", []):
        write({**reply, "error": {"code": -32601, "message": "Method not found"}})
        return
    if method in LISTS:
        found = said.get(LISTS[method], [])
        more = {"nextCursor": "again"} if said.get("circular") == method else {}
        write({**reply, "result": {LISTS[method]: found, **more}})
        return
    with (STATE.parent / "calls").open("a", encoding="utf-8") as calls:
        calls.write(f"{method} {params.get('name') or params.get('uri') or params['argument']}\n")
    with (STATE.parent / "traces").open("a", encoding="utf-8") as traces:
        traces.write(json.dumps({name: params.get("_meta", {}).get(name) for name in TRACE}) + "\n")
    match said.get("answers", {}).get(params.get("name") or params.get("uri") or "completion"):
        case "hang":
            time.sleep(60)
        case "big":
            write({**reply, "result": answered(method, params, "x" * 100_000_000)})
        case "deep":
            nested = "[" * 10_000 + "]" * 10_000
            member = next(iter(answered(method, params, "")))
            sys.stdout.write(f'{{"jsonrpc":"2.0","id":{message["id"]},"result":{{"{member}":{nested}}}}}\n')
            sys.stdout.flush()
        case "flood":
            for _ in range(5_000):
                write({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://y"}})
            write({**reply, "result": answered(method, params, "after the flood")})
        case "other":
            write({**reply, "id": message["id"] + 1000, "result": answered(method, params, "another answer")})
            write({**reply, "result": answered(method, {"uri": "other://secret"}, "own answer")})
        case None:
            write({**reply, "error": {"code": -32002, "message": "no such thing"}})
        case found:
            write({**reply, "result": found})


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        answer(received)
