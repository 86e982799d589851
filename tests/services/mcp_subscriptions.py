"""An MCP server that tells of changes of its resources, and writes subscriptions down: over its pipes (`stdio`), in the stream of a session
(`session`), or in the answer to `subscriptions/listen` of 2026-07-28 (`stateless`). Over HTTP it says its port first."""

from __future__ import annotations

import json
import queue
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LOG, STYLE = Path(sys.argv[1]), sys.argv[2]
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True, "listChanged": True}, "prompts": {"listChanged": True}}
RESOURCES = [{"uri": "far://notes", "name": "notes"}, {"uri": "far://other", "name": "other"}]
SCHEMA = {
    "type": "object",
    "properties": {"uris": {"type": "array"}, "list": {"type": "string"}, "log": {"type": "string"}},
}
TOOLS = [{"name": "touch", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}]
SUBSCRIBED: set[str] = set()
STREAMS: list[queue.Queue[dict[str, Any]]] = []
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
INFO = {"name": "subscriptions", "version": "1"}


def note(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")


def touched(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Notifications that a call of the tool makes."""
    note(f"touch {arguments}")
    if "list" in arguments:
        return [{"jsonrpc": "2.0", "method": f"notifications/{arguments['list']}/list_changed"}]
    if "log" in arguments:
        params = {"level": "warning", "data": arguments["log"]}
        return [{"jsonrpc": "2.0", "method": "notifications/message", "params": params}]
    method = "notifications/resources/updated"
    return [{"jsonrpc": "2.0", "method": method, "params": {"uri": uri}} for uri in arguments["uris"]]


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "serverInfo": INFO}
        case "tools/list":
            return {"tools": TOOLS}
        case "prompts/list":
            return {"prompts": [{"name": "letter"}]}
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "far://users/{id}", "name": "user"}]}
        case "resources/subscribe":
            note(f"subscribe {params['uri']}")
            SUBSCRIBED.add(params["uri"])
            return {}
        case "resources/unsubscribe":
            note(f"unsubscribe {params['uri']}")
            SUBSCRIBED.discard(params["uri"])
            return {}
        case "tools/call":
            return {"content": [{"type": "text", "text": "touched"}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "text"}]}
        case _:
            return None


def reply(message: dict[str, Any]) -> dict[str, Any]:
    found = result(message["method"], message.get("params", {}))
    if STYLE == "stateless" and message["method"] == "initialize":
        found = None
    if found is None:
        error = {"code": -32601, "message": "Method not found"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    more = {"resultType": "complete"} if STYLE == "stateless" else {}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {**found, **more}}


def over_pipes() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        found = [reply(message)]
        if message["method"] == "tools/call":
            found = [*touched(message["params"]["arguments"]), *found]
        for one in found:
            print(json.dumps(one), flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, uris: list[str] | None, number: object = None) -> None:
        told: queue.Queue[dict[str, Any]] = queue.Queue()
        STREAMS.append(told)
        for uri in uris or ():
            note(f"subscribe {uri}")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(b": open\n\n")
            if uris is not None:
                params = {"notifications": {"resourceSubscriptions": uris}, "_meta": {SUBSCRIPTION: number}}
                acknowledged = {
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": params,
                }
                self.wfile.write(b"data: " + json.dumps(acknowledged).encode() + b"\n\n")
            self.wfile.flush()
            while True:
                try:
                    message = told.get(timeout=0.1)
                except queue.Empty:
                    self.wfile.write(b": still here\n\n")
                    self.wfile.flush()
                    continue
                self.wfile.write(b"data: " + json.dumps(message).encode() + b"\n\n")
                self.wfile.flush()
        except OSError:
            STREAMS.remove(told)
            for uri in uris or ():
                note(f"unsubscribe {uri}")

    def do_GET(self) -> None:
        if STYLE == "session":
            self.stream(None)
        else:
            self.answer(405, b"")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.answer(202, b"")
            return
        if message["method"] == "subscriptions/listen":
            uris = message["params"]["notifications"]["resourceSubscriptions"]
            self.stream(uris, message["id"])
            return
        if message["method"] == "tools/call":
            for one in touched(message["params"]["arguments"]):
                for told in STREAMS:
                    told.put(one)
        new = STYLE == "session" and message["method"] == "initialize"
        headers = {"Mcp_Session_Id": uuid.uuid4().hex} if new else {}
        self.answer(200, json.dumps(reply(message)).encode(), **headers)


if __name__ == "__main__":
    if STYLE == "stdio":
        over_pipes()
    else:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
