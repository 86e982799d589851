"""An MCP server whose single answers are unruly, and that keeps something between them: over its pipes, or over HTTP.

A file says what it does, and is read again before every message; what reached it is in the file `heard` beside.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING or sys.argv[2:] == ["http"]:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
else:
    BaseHTTPRequestHandler = object  # over its pipes it starts in half the time

STATE = Path(sys.argv[1])
TOOLS = ("raw", "long", "wait", "who", "fine", "flood")
Send = Callable[[bytes], None]
WRITING = threading.Lock()
CALLED_OFF: dict[object, threading.Event] = {}
CALLS: Counter[str] = Counter()  # by session


def state() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    return found


def heard(what: str) -> None:
    with WRITING, (STATE.parent / "heard").open("a", encoding="utf-8") as log:
        log.write(what + "\n")


def encoded(message: object) -> bytes:
    return json.dumps(message).encode()


def listing(message: dict[str, Any], send: Send) -> None:
    match state().get("listing"):
        case "hang":
            threading.Event().wait()
        case "unreadable":
            send(b'{"jsonrpc": "2.0", "id": %d, "result": {"tools": [\xff]}}' % message["id"])
            return
        case "broken":
            error = {"code": -32603, "message": "no list today"}
            send(encoded({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            return
    takes = {"type": "object", "properties": {"line": {"type": "string"}, "size": {}, "tail": {}, "silent": {}}}
    tools = [
        {"name": name + kind, "inputSchema": takes, "annotations": {"readOnlyHint": True} if kind else {}}
        for name in TOOLS
        for kind in ("", "_read")
    ]
    send(encoded({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}}))


def called(message: dict[str, Any], send: Send) -> None:
    params, number = message["params"], message["id"]
    name, arguments = params["name"].removesuffix("_read"), params.get("arguments", {})
    heard(f"call {name}")
    CALLS[session := message.get("session", "")] += 1
    reply = {"jsonrpc": "2.0", "id": number}
    match name:
        case "raw":
            return send(arguments["line"].replace("@", str(number)).encode("latin-1"))
        case "long":
            result = {"content": [{"type": "text", "text": "x" * int(arguments["size"])}]}
            return send(encoded({"result": result, **reply} if arguments.get("tail") else {**reply, "result": result}))
        case "flood":
            for _ in range(int(arguments["size"])):
                send(encoded({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 100}}))
        case "wait":
            for done in (1, 2):
                said = {"progress": done, "total": 2, "message": f"step\u202e {done}"}
                said["progressToken"] = params.get("_meta", {}).get("progressToken", "none")
                send(encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}))
            heard("waiting")
            if arguments.get("size") is None:
                CALLED_OFF.setdefault(number, threading.Event()).wait()
            if arguments.get("silent"):
                return None
    text = {"who": str(CALLS[session])}.get(name, "done")
    return send(encoded({**reply, "result": {"content": [{"type": "text", "text": f"{text} of {os.getpid()}"}]}}))


def answer(message: dict[str, Any], send: Send) -> None:
    method, number = message.get("method"), message.get("id")
    heard(str(method))
    if method == "notifications/cancelled":
        CALLED_OFF.setdefault(message["params"]["requestId"], threading.Event()).set()
    elif number is None:
        pass
    elif method == "initialize" and state().get("listing") == "no handshake":
        threading.Event().wait()
    elif method == "initialize":
        who = {"name": "unruly", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": who}
        send(encoded({"jsonrpc": "2.0", "id": number, "result": result}))
    elif method == "tools/list":
        listing(message, send)
    elif method == "tools/call":
        called(message, send)
    elif method == "ping" and not state().get("dead"):
        send(encoded({"jsonrpc": "2.0", "id": number, "result": {}}))


def pipes() -> None:
    def send(line: bytes) -> None:
        with WRITING:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line), send), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """Answers in event streams that stay open until the client leaves. `run` in the state is the sessions that it knows."""

    sessions: ClassVar[set[str]] = set()
    kept: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        message, said = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), state()
        run = f"session-{said.get('run', 0)}"
        if said.get("own") and message["method"] == "initialize":  # a session for each handshake
            run = f"{run}-{len(self.sessions)}"
            self.sessions.add(run)
        elif said.get("own") and self.headers.get("Mcp-Session-Id", "").startswith(run):
            run = self.headers["Mcp-Session-Id"]
            heard(f"{run} {message.get('id', 'told')}")
        elif message["method"] != "initialize" and self.headers.get("Mcp-Session-Id") != run:
            heard("stranger")
            error = {"code": -32000, "message": "Bad Request: no valid session"}
            body = encoded({"jsonrpc": "2.0", "error": error, "id": None})
            return self.begin(int(said["unknown"]), "application/json", run, body)
        message["session"] = run
        if message.get("id") is None:
            answer(message, lambda _: None)
            return self.begin(202, "application/json", run, b"")
        if message["method"] == "tools/call" and (drop := said.get("drop")):
            self.begin(200, "text/event-stream", run, size=9999 if drop == "broken" else None)
            self.wfile.write(b"id: first\r\nretry: 20\r\ndata:\r\n\r\n")
            return answer(message, self.kept.append)
        raw = message.get("params", {}).get("name") == "raw"
        self.begin(200, "application/json" if raw else "text/event-stream", run)
        answer(message, self.wfile.write if raw else self.event)
        if not raw and self.connection.recv(1) == b"":  # it ends with the client's end alone
            heard("left")
        return None

    def do_GET(self) -> None:
        """The rest of a stream that was dropped, which it may drop once more."""
        said, last, session = state(), self.headers.get("Last-Event-ID"), self.headers.get("Mcp-Session-Id", "")
        heard(f"resumed after {last} in {session}, {self.headers.get('Accept')}")
        if status := said.get("resumes"):
            return self.begin(int(status), "application/json", session, b"{}")
        self.begin(200, "text/event-stream", session)
        if last == "first":
            self.wfile.write(b"id: second\n\n")
        else:
            self.event(self.kept.pop())
        return None

    def event(self, data: bytes) -> None:
        self.wfile.write(b"event: message\r\ndata: " + data + b"\r\n\r\n")

    def begin(self, status: int, kind: str, session: str, body: bytes | None = None, size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", session)
        if body is not None or size is not None:
            self.send_header("Content-Length", str(size or len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    if sys.argv[2:] == ["http"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
    else:
        pipes()
