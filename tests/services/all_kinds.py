"""Project with tools of every kind, the API behind it, and for each call what a model must be given.

OpenAPI (object, array, scalar, text, 204, picture, 404, 429, slow, 300 KB, nested and union arguments), SQL, Python functions, a bridged
MCP server, a call that asks and one that is denied. Every answer holds a mark of its own: so what is told twice can be counted.
"""

from __future__ import annotations

import base64
import json
import select
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.gateway.governed import PRINCIPALS
from tests.services.local import LocalServer, running

__all__ = ["ASKED", "CASES", "LATE", "PICTURE", "SLOW", "Case", "KindsApi", "kinds_api", "write_kinds_project"]

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SLOW = "api__get_slow"
LATE = "api__get_report"
_SLOW_S = 40.0
_LATE_S = 4.0
_WAIT_S = 30.0
OBJECT = {
    "id": 7,
    "mark": "mark-object",
    "name": "Zoë",
    "tags": ["a", "b"],
    "size": None,
    "inner": {"deep": [True, 1.5]},
}
ROWS = [{"id": 1, "mark": "mark-array"}, {"id": 2, "mark": "second"}]
LONG = [{"id": number, "mark": "mark-long" if number == 0 else "row", "text": "x" * 80} for number in range(2700)]
FILTER: dict[str, Any] = {
    "where": {"kind": "leaf", "column": "name", "value": "Ann", "any": [{"kind": "leaf", "column": "city", "value": 5}]},
    "shape": {"type": "circle", "radius": 2},
    "state": "open",
    "labels": {"mark": "mark-nested"},
}  # fmt: skip

SQUARE: dict[str, Any] = {"shape": {"type": "square", "side": 1}}
CUSTOMERS = "SELECT id, name FROM customers ORDER BY id"
CONVERTED = {"amount": 4.5, "currency": "mark-function"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call and what a model must be given: JSON `data`, a `text`, a `picture`, an error's `code`, or `words` in any of them.

    `mark` occurs exactly once in what the model reads. `structured` says that the tool promises an output schema.
    """

    name: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    data: Any = None
    text: str = ""
    picture: bytes = b""
    code: str = ""
    words: tuple[str, ...] = ()
    mark: str = ""
    structured: bool = False


CASES = (
    Case(name="object", tool="api__get_object", data=OBJECT, mark="mark-object"),
    Case(name="array", tool="api__list_rows", data=ROWS, mark="mark-array"),
    Case(name="scalar", tool="api__get_scalar", text="4711"),
    Case(name="text", tool="api__get_text", text="A mark-text:\n\"two\" lines, 1 < 2.", mark="mark-text"),
    Case(name="no content", tool="api__send_ping"),
    Case(name="undescribed", tool="api__get_odd", data=["mark-odd", None], mark="mark-odd"),
    Case(name="picture", tool="api__get_picture", picture=PICTURE),
    Case(name="404", tool="api__get_missing", code="upstream_error", words=("404", "no such thing"), mark="mark-404"),
    Case(name="429", tool="busy__get_limited", code="upstream_error", words=("429", "Try again in 1 s"), mark="mark-429"),
    Case(name="300 KB", tool="api__list_long", words=("mark-long",), mark="mark-long"),
    Case(name="nested", tool="api__search", arguments=FILTER, data={"received": FILTER}, mark="mark-nested"),
    Case(name="optional", tool="api__search", arguments=SQUARE, data={"received": SQUARE}),
    Case(name="answer", tool="api__get_quiz", arguments={"answer": "mark-quiz"}, data={"answer": "mark-quiz"}, mark="mark-quiz"),
    Case(name="sql", tool="shop__query", arguments={"sql": CUSTOMERS}, words=("mark-sql", "Bob"), mark="mark-sql"),
    Case(name="function", tool="code__convert", arguments={"amount": 2.25}, data=CONVERTED, mark="mark-function", structured=True),
    Case(name="function text", tool="code__greet", arguments={"name": "mark-greet"}, text="Hello, mark-greet.", mark="mark-greet"),
    Case(name="function picture", tool="code__draw", picture=PICTURE, words=("mark-drawn",), mark="mark-drawn"),
    Case(name="bridged text", tool="far__say", arguments={"text": "mark-said"}, text="said mark-said", mark="mark-said"),
    Case(name="bridged structured", tool="far__count", data={"count": 3, "of": "mark-count"}, mark="mark-count", structured=True),
    Case(name="bridged picture", tool="far__picture", picture=PICTURE, words=("mark-picture",), mark="mark-picture"),
    Case(name="bridged link", tool="far__link", words=("mark-link", "file:///notes/one.txt")),
    Case(name="bridged error", tool="far__fail", code="upstream_error", words=("the server is closed",)),
    Case(name="invalid", tool="api__get_quiz", arguments={"answer": ["a"], "level": "x"}, code="validation", words=("level",)),
    Case(name="denied", tool="api__get_secret", code="forbidden", words=("never",)),
)  # fmt: skip
ASKED = Case(
    name="asked",
    tool="api__create_order",
    arguments={"amount": 5},
    code="approval_required",
    words=("The call has not been executed yet",),
)


def _read(
    name: str, schema: dict[str, Any] | None, *parameters: dict[str, Any], media: str = "application/json"
) -> dict[str, Any]:
    content = {} if schema is None else {"content": {media: {"schema": schema}}}
    answers = {"200": {"description": "ok", **content}}
    return {"get": {"operationId": name, "summary": f"{name}.", "parameters": list(parameters), "responses": answers}}


def _query(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["shape"],
    "properties": {
        "where": {"$ref": "#/components/schemas/_Node"},
        "shape": {
            "oneOf": [{"$ref": "#/components/schemas/Circle"}, {"$ref": "#/components/schemas/Square"}],
            "discriminator": {"propertyName": "type"},
        },
        "state": {"type": ["string", "null"], "enum": ["open", "closed", None]},
        "limit": {"type": ["integer", "null"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_SCHEMAS = {
    "_Node": {
        "type": "object",
        "required": ["kind"],
        "additionalProperties": False,
        "properties": {
            "kind": {"type": "string", "enum": ["leaf", "all"]},
            "column": {"type": "string"},
            "value": {"type": ["string", "number", "null"]},
            "any": {"type": "array", "items": {"$ref": "#/components/schemas/_Node"}},
        },
    },
    "Circle": {
        "type": "object",
        "required": ["type", "radius"],
        "properties": {"type": {"const": "circle"}, "radius": {"type": "number"}},
    },
    "Square": {
        "type": "object",
        "required": ["type", "side"],
        "properties": {"type": {"const": "square"}, "side": {"type": "number"}},
    },
}
_ANY = {"type": "object"}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "All kinds", "version": "1"},
    "components": {"schemas": _SCHEMAS},
    "paths": {
        "/object": _read("getObject", {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}),
        "/rows": _read("listRows", {"type": "array", "items": _ANY}, _query("limit", type="integer")),
        "/scalar": _read("getScalar", {"type": "integer"}),
        "/text": _read("getText", {"type": "string"}, media="text/plain"),
        "/odd": _read("getOdd", {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}),
        "/picture": _read("getPicture", {"type": "string", "format": "binary"}, media="image/png"),
        "/missing": _read("getMissing", _ANY),
        "/slow": _read("getSlow", _ANY, _query("caller", type="string")),
        "/report": _read("getReport", _ANY),
        "/long": _read("listLong", {"type": "array", "items": _ANY}),
        "/quiz": _read("getQuiz", _ANY, _query("answer", type="string"), _query("level", type="integer")),
        "/secret": _read("getSecret", _ANY),
        "/ping": {"post": {"operationId": "sendPing", "summary": "Pings.", "responses": {"204": {"description": "done"}}}},
        "/search": {
            "post": {
                "operationId": "search",
                "summary": "Searches.",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}},
                "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": _ANY}}}},
            }
        },
        "/orders": {
            "post": {
                "operationId": "createOrder",
                "summary": "Orders.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"type": "object", "properties": {"amount": {"type": "integer"}}}}},
                },
                "responses": {"201": {"description": "made", "content": {"application/json": {"schema": _ANY}}}},
            }
        },
    },
}  # fmt: skip
BUSY = {
    "openapi": "3.1.0",
    "info": {"title": "Busy", "version": "1"},
    "paths": {"/limited": _read("getLimited", _ANY)},
}

FUNCTIONS = f'''
from dataclasses import dataclass

import toolgen


@dataclass
class Conversion:
    amount: float
    currency: str


@toolgen.tool(effect="read")
def convert(amount: float) -> Conversion:
    """Converts an amount."""
    return Conversion(amount * 2, "mark-function")


@toolgen.tool(effect="read")
def greet(name: str, loud: bool = False) -> str:
    """Greets somebody."""
    return f"Hello, {{name}}."


@toolgen.tool(effect="read")
def draw() -> list[str | toolgen.Image]:
    """Draws a picture."""
    return ["mark-drawn", toolgen.Image({PICTURE!r})]
'''

BRIDGED = f'''
import sys

sys.stdout.reconfigure(newline="\\n")

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("Far", version="1")
READS = ToolAnnotations(read_only_hint=True)
IMAGE = ImageContent(type="image", data={base64.b64encode(PICTURE).decode()!r}, mime_type="image/png")


class Count(BaseModel):
    count: int
    of: str


@server.tool(annotations=READS, structured_output=False)
def say(text: str) -> str:
    """Says a text."""
    return "said " + text


@server.tool(annotations=READS)
def count() -> Count:
    """Counts."""
    return Count(count=3, of="mark-count")


@server.tool(annotations=READS, structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    """Shows a picture."""
    return [TextContent(type="text", text="mark-picture"), IMAGE]


@server.tool(annotations=READS, structured_output=False)
def link() -> list[ResourceLink]:
    """Names a file."""
    return [ResourceLink(type="resource_link", uri="file:///notes/one.txt", name="mark-link", mime_type="text/plain")]


@server.tool(annotations=READS, structured_output=False)
def fail() -> str:
    """Fails."""
    raise ToolError("the server is closed")


server.run("stdio")
'''

READS = ["api__*", "busy__*", "shop__*", "code__*", "far__*"]
RULES: list[dict[str, Any]] = [
    {"id": "reads", "to": ["bot"], "tools": READS, "effects": ["read"], "verdict": "allow"},
    {"id": "writes", "to": ["bot"], "tools": ["api__search", "api__send_ping"], "effects": ["write"], "verdict": "allow"},
    {"id": "never", "to": ["bot"], "tools": ["api__get_secret"], "when": "principal.id == 'bot'", "verdict": "deny"},
    {"id": "asks", "to": ["bot"], "tools": ["api__create_order"], "verdict": "ask"},
]  # fmt: skip


class KindsApi:
    """The API behind the tools: requests that reached it, and which of the slow ones were closed by their client."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.begun: dict[str, float] = {}
        self.closed: dict[str, float] = {}
        self.attempts: dict[str, int] = {}
        self._news = threading.Condition()

    def take(self, method: str, path: str, body: str) -> None:
        with self._news:
            self.requests.append((method, path, body))

    def begin(self, caller: str) -> None:
        with self._news:
            self.attempts[caller] = self.attempts.get(caller, 0) + 1
            self.begun.setdefault(caller, time.monotonic())
            self._news.notify_all()

    def end(self, caller: str) -> None:
        with self._news:
            self.closed[caller] = time.monotonic()
            self._news.notify_all()

    def wait(self, times: dict[str, float], caller: str, seconds: float = _WAIT_S) -> bool:
        """True once a slow request of this caller has begun, or was closed; False if that does not happen in time."""
        with self._news:
            return self._news.wait_for(lambda: caller in times, seconds)


class _Handler(BaseHTTPRequestHandler):
    api: KindsApi

    def _answer(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        if url.path.startswith("/watch/"):  # of a client that cancels: has its call begun, and was it closed?
            times = self.api.begun if url.path == "/watch/begun" else self.api.closed
            self._send(200, {"seen": self.api.wait(times, query["caller"], float(query.get("seconds", _WAIT_S)))})
            return
        self.api.take(self.command, self.path, body)
        match url.path:
            case "/slow":
                self._slow(query.get("caller", ""))
            case "/report":
                time.sleep(_LATE_S)
                self._send(200, {"report": "mark-late"})
            case "/object":
                self._send(200, OBJECT)
            case "/rows":
                self._send(200, ROWS)
            case "/scalar":
                self._send(200, 4711)
            case "/text":
                self._send(200, b'A mark-text:\n"two" lines, 1 < 2.', "text/plain; charset=utf-8")
            case "/odd":
                self._send(200, ["mark-odd", None])
            case "/picture":
                self._send(200, PICTURE, "image/png")
            case "/missing":
                self._send(404, {"message": "no such thing: mark-404"})
            case "/limited":
                self._send(429, {"message": "too many requests: mark-429"}, retry="1")
            case "/long":
                self._send(200, LONG)
            case "/quiz":
                self._send(200, query)
            case "/search":
                self._send(200, {"received": json.loads(body)})
            case "/ping":
                self._send(204, b"")
            case "/orders":
                self._send(201, {"made": True})
            case _:
                self._send(200, {"path": self.path, "mark": "mark-catalog"})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def _slow(self, caller: str) -> None:
        self.api.begin(caller)
        if select.select([self.connection], [], [], _SLOW_S)[0]:
            self.api.end(caller)
            self.close_connection = True
            return
        self._send(200, {"late": True})

    def _send(self, status: int, data: Any, media: str = "application/json", retry: str = "") -> None:
        content = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        if retry:
            self.send_header("retry-after", retry)
        if status != 204:
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def kinds_api() -> Iterator[tuple[KindsApi, str]]:
    """Serve the API on a free port until the block ends."""
    api = KindsApi()
    server = LocalServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    with running(server):
        yield api, server.url


def write_kinds_project(
    root: Path, server: str, sources: dict[str, Any] | None = None, gateway: dict[str, Any] | None = None
) -> Path:
    """Write the project, with more sources if there are any; return its toolgen.yaml. It is not built yet."""
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    (root / "specs" / "api.json").write_text(json.dumps(API), encoding="utf-8")
    (root / "specs" / "busy.json").write_text(json.dumps(BUSY), encoding="utf-8")
    (root / "kinds_functions.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "far.py").write_text(BRIDGED, encoding="utf-8")
    with sqlite3.connect(root / "specs" / "shop.db") as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "mark-sql"), (2, "Bob")])
    database.close()
    tools = [*READS, *(f"{name}__*" for name in sources or {})]
    rules = [{**rule, "tools": tools} if rule["id"] == "reads" else rule for rule in RULES]
    policy = {
        "principals": {name: PRINCIPALS[name] for name in ("bot", "ann", "eve")} | {"lena": {"roles": ["lead"]}},
        "rules": rules,
        "approvals": {"approvers": ["lead"], "elicitation": "allow"},
        "sql": {"shop": {"tables": {"customers": {"columns": ["id", "name"]}}}},
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy, indent=1), encoding="utf-8")
    every = {
        "api": {"openapi": "specs/api.json", "server": server},
        "busy": {"openapi": "specs/busy.json", "server": server, "retries": "never"},
        "shop": {"sql": f"sqlite:///{root}/specs/shop.db"},
        "code": {"python": "kinds_functions"},
        "far": {"mcp": {"command": [sys.executable, "-B", "far.py"], "annotations": "trusted"}},
        **(sources or {}),
    }
    path = root / "toolgen.yaml"
    gateway = gateway or {"search_above": "never", "turn_limit": "never"}
    path.write_text(json.dumps({"sources": every, "gateway": gateway}, indent=1), encoding="utf-8")
    return path
