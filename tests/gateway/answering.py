"""A project whose tools answer in every way there is: an API, functions and an MCP server that say what they are asked to say."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.cli.commands import run_command
from tests.services.bridged import hostile, listed
from tests.services.local import LocalServer, running

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PHOTO = PIXEL + bytes(300_000)
PAPER = b"%PDF-1.7\n" + bytes(range(256)) * 1_200
ITEMS = [{"id": number, "name": f"item {number}", "note": "x" * 100} for number in range(2_700)]
PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name", "kind"],
    "additionalProperties": False,
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "kind": {"enum": ["cat", "dog"]}},
}
LIST: dict[str, Any] = {
    "type": "object",
    "required": ["items", "total"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object", "required": ["id", "name", "note"], "properties": {}}},
        "total": {"type": "integer"},
    },
}
PROBLEM = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "There is no pet 5."}
JSON = "application/json"
# What the API answers by its path: status, type, body, and the schema that its description has for it.
ANSWERS: dict[str, tuple[int, str, bytes, Any]] = {
    "pet": (200, JSON, json.dumps({"id": 5, "name": "Rex", "kind": "dog"}).encode(), PET),
    "other_kind": (200, JSON, json.dumps({"id": 5, "name": "Rex", "kind": "owl", "age": 3}).encode(), PET),
    "null_name": (200, JSON, json.dumps({"id": 5, "name": None, "kind": "dog"}).encode(), PET),
    "nothing": (204, JSON, b"", PET),
    "words": (200, "text/plain", b"The shop is closed.", PET),
    "numbers": (200, JSON, b"[1,2,3]", {"type": "array", "items": {"type": "integer"}}),
    "number": (200, JSON, b"42", {"type": "integer"}),
    "null": (200, JSON, b"null", PET),
    "text": (200, "text/plain", "Grüße aus dem Laden".encode(), None),
    "list": (200, JSON, json.dumps({"items": ITEMS, "total": len(ITEMS)}).encode(), LIST),
    "picture": (200, "image/png", PIXEL, None),
    "photo": (200, "image/png", PHOTO, None),
    "paper": (200, "application/pdf", PAPER, None),
    "no_picture": (200, "image/png", b"<html>not a picture</html>", None),
    "missing": (404, "application/problem+json", json.dumps(PROBLEM).encode(), PET),
    "refused_by_it": (422, JSON, json.dumps({"message": "no such colour", "code": "E17"}).encode(), PET),
    "busy": (429, JSON, json.dumps({"message": "Slow down, please."}).encode(), PET),
}
FUNCTIONS = '''
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict
from tests.gateway.answering import PIXEL
from toolgen import Image, ToolError, tool

@dataclass
class Point:
    """A place."""
    x: int
    y: int
    label: str | None = None

class Tree(TypedDict):
    name: str
    below: NotRequired[list["Tree"]]

@tool(effect="read")
def point(x: int) -> Point:
    """Makes a point."""
    return Point(x, -x)

@tool(effect="read")
def tree() -> Tree:
    """Makes a tree."""
    return {"name": "a", "below": [{"name": "b"}]}

@tool(effect="read")
def squares(count: int) -> list[int]:
    """Lists squares."""
    return [number * number for number in range(count)]

@tool(effect="read")
def length(text: str) -> int:
    """Counts."""
    return len(text)

@tool(effect="read")
def prices() -> dict[str, float]:
    """Lists prices."""
    return {"tea": 2.5, "gateway_note": 1.0}

@tool(effect="read")
def nothing() -> None:
    """Answers nothing."""

@tool(effect="read")
def greeting() -> str:
    """Greets."""
    return "Hello there"

@tool(effect="read")
def anything() -> Any:
    """Answers with something."""
    return {"some": "thing"}

@tool(effect="read")
def drawing() -> list[Any] | Image:
    """Draws."""
    return [Image(PIXEL, "image/png"), "a point"]

@tool(effect="read")
def fails() -> Point:
    """Fails."""
    raise ToolError("the pen is empty", suggestion="fill it")
'''
POLICY: dict[str, Any] = {
    "principals": {
        "bot": {"api_key": "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest(), "roles": ["bot"]},
        "other": {"api_key": "sha256:" + hashlib.sha256(b"key-of-other").hexdigest(), "roles": ["bot"]},
        "lead": {"api_key": "sha256:" + hashlib.sha256(b"key-of-lead").hexdigest(), "roles": ["lead"]},
    },
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write", "destructive"], "verdict": "allow"},
        {"id": "asks", "to": ["bot"], "tools": ["api__buy"], "verdict": "ask"},
        {"id": "never", "to": ["bot"], "tools": ["api__get_pet"], "when": "has(args.secret)", "verdict": "deny"},
    ],
    "approvals": {"approvers": ["lead"]},
    "limits": [{"id": "few", "per": ["principal"], "rate": "1000/h", "burst": 1000, "cost": {"api__get_limited": 900}}],
    "egress": {"private_networks": "allow"},
    "sql": {"db": {"tables": {"items": {}}, "max_rows": 5}},
}


def description() -> dict[str, Any]:
    """What the API says of itself."""

    def operation(path: str, status: int, kind: str, schema: Any) -> dict[str, Any]:
        content = {kind: {"schema": {"type": "string"} if schema is None else schema}}
        described = {"application/json": {"schema": schema}} if schema is not None else content
        parameters = [{"name": "secret", "in": "query", "schema": {"type": "string"}}]
        return {
            "operationId": f"get_{path}",
            "summary": path,
            "parameters": parameters,
            "responses": {"200": {"description": "ok", "content": described}},
        }

    paths: dict[str, Any] = {
        f"/{path}": {"get": operation(path, status, kind, schema)}
        for path, (status, kind, _, schema) in ANSWERS.items()
    }
    paths["/limited"] = {"get": operation("limited", 200, JSON, PET)}
    paths["/buy"] = {"post": {**operation("buy", 200, JSON, PET), "operationId": "buy"}}
    return {"openapi": "3.1.0", "info": {"title": "Everything", "version": "1"}, "paths": paths}


@contextmanager
def upstream() -> Iterator[str]:
    """The API; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/")
            status, kind, body, _ = ANSWERS["pet" if path == "limited" else path]
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "2")
            if status != 204:
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url


def far_tools() -> list[dict[str, Any]]:
    """The tools of the MCP server: each answers as its argument `result` says; `promises` has an output schema."""
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    takes = {"inputSchema": {"type": "object", "properties": {"result": {}}}}
    lists = listed("lists", outputSchema={"type": "array", "items": {"type": "integer"}})
    counts = listed("counts", outputSchema={"type": "integer"})
    return [{**tool, **takes} for tool in (*listed("says"), *listed("promises", outputSchema=output), *lists, *counts)]


def write_project(root: Path, url: str, form: str = "", **gateway: Any) -> Path:
    """Writes and builds the project; `form` is what every source says of output schemas. Returns the path of toolgen.yaml."""
    module = f"answering_{uuid.uuid4().hex}"  # modules stay in memory under their names
    (root / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "api.json").write_text(json.dumps(description()), encoding="utf-8")
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    said = {"output_schema": form} if form else {}
    sources = {
        "api": {"openapi": "api.json", "server": url, "retries": "never", **said},
        "fn": {"python": module, **said},
        "far": {"mcp": {"command": hostile(root, *far_tools())}, **said},
        "db": {"sql": f"sqlite:///{root / 'items.db'}", **said},
    }
    with closing(sqlite3.connect(root / "items.db")) as database:
        database.executescript(
            "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT);"
            "INSERT INTO items (name) VALUES ('one'), ('two'), ('three'), ('four'), ('five'), ('six'), (NULL);"
        )
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "gateway": {"search_above": "never", **gateway}}), encoding="utf-8")
    run_command("build", "--config", str(path))
    return path


LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain", "size": 7}
PICTURE = {"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"}
NUMBER = {"structuredContent": {"n": 5}}


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in said]


class Kind:
    """A kind of answer: the call, whether it succeeds, and what an agent must read of it, and see, whatever its client shows."""

    def __init__(
        self, tool: str, arguments: Mapping[str, Any], *says: str, ok: bool = True, picture: bytes = b""
    ) -> None:
        self.tool, self.arguments, self.says, self.ok, self.picture = tool, dict(arguments), says, ok, picture


def said(**result: Any) -> dict[str, Any]:
    return {"result": result}


KINDS: dict[str, Kind] = {
    "object": Kind("api__get_pet", {}, '"name":"Rex"'),
    "a value that the enum has not": Kind("api__get_other_kind", {}, "owl", "age"),
    "a null that the description forgot": Kind("api__get_null_name", {}, "null", "dog"),
    "declared, and 204": Kind("api__get_nothing", {}, "Done (no content)."),
    "function that answers nothing": Kind("fn__nothing", {}, "Done (no content)."),
    "bridged, nothing": Kind("far__says", said(content=[]), "Done (no content)."),
    "bridged, a list as promised": Kind("far__lists", said(content=[], structuredContent=[1, 2]), "[1,2]"),
    "bridged, a list and other text": Kind("far__lists", said(content=texts("two"), structuredContent=[1, 2]), "[1,2]", "two"),
    "bridged, a number as promised": Kind("far__counts", said(content=[], structuredContent=0), "0"),
    "bridged, a list of another type": Kind("far__lists", said(content=[], structuredContent={"a": "x"}), '"a":"x"'),
    "text in place of JSON": Kind("api__get_words", {}, "The shop is closed."),
    "array": Kind("api__get_numbers", {}, "[1,2,3]"),
    "number": Kind("api__get_number", {}, "42"),
    "null": Kind("api__get_null", {}, "null"),
    "text": Kind("api__get_text", {}, "Grüße"),
    "cut": Kind("api__get_list", {}, "item 7", "cut short at", "cursor "),
    "dropped arguments": Kind("api__get_pet", {"colour": "red"}, '"name":"Rex"', "'colour'"),
    "picture": Kind("api__get_picture", {}, "toolgen://answers/", "read_file", picture=PIXEL),
    "large picture": Kind("api__get_photo", {}, "read_file", "toolgen://answers/", str(len(PHOTO)), picture=PHOTO),
    "large file": Kind("api__get_paper", {}, "read_file", "toolgen://answers/", "application/pdf"),
    "no picture after all": Kind("api__get_no_picture", {}, "toolgen://answers/", "text/plain"),
    "404": Kind("api__get_missing", {}, "There is no pet 5.", ok=False),
    "422": Kind("api__get_refused_by_it", {}, "no such colour", "E17", ok=False),
    "pending": Kind("api__buy", {}, "approval_required", "The call has not been executed", "call_", ok=False),
    "refused": Kind("api__get_pet", {"secret": "x"}, "forbidden", "never", ok=False),
    "invalid": Kind("fn__point", {"x": "a"}, "validation", "/x", ok=False),
    "unknown": Kind("api__no_such", {}, "unknown_tool", ok=False),
    "function with a type": Kind("fn__point", {"x": 3}, '"y":-3'),
    "function with a type, and dropped arguments": Kind("fn__point", {"x": 3, "colour": 1}, '"y":-3', "'colour'"),
    "function with a type that holds itself": Kind("fn__tree", {}, '"name":"b"'),
    "function that lists": Kind("fn__squares", {"count": 4}, "[0,1,4,9]"),
    "function that counts": Kind("fn__length", {"text": "four"}, "4"),
    "function with a member of the note's name": Kind("fn__prices", {}, '"tea":2.5', "gateway_note"),
    "function that says": Kind("fn__greeting", {}, "Hello there"),
    "function without a type": Kind("fn__anything", {}, '"some":"thing"'),
    "function that draws": Kind("fn__drawing", {}, "a point", picture=PIXEL),
    "function that fails": Kind("fn__fails", {}, "handler_error", "the pen is empty", "fill it", ok=False),
    "rows": Kind("db__query", {"sql": "SELECT id, name FROM items WHERE id < 3"}, '"rows":[[1,"one"],[2,"two"]]'),
    "rows that are cut": Kind("db__query", {"sql": "SELECT name FROM items"}, '["five"]]', "There are more rows"),
    "rows with null": Kind("db__query", {"sql": "SELECT name FROM items WHERE id = 7"}, '"rows":[[null]]'),
    "a statement that is refused": Kind("db__query", {"sql": "DELETE FROM items"}, "sql_refused", ok=False),
    "tables": Kind("db__list_tables", {}, "items"),
    "bridged text": Kind("far__says", said(content=texts("one", "two")), "one", "two"),
    "bridged data, and other text": Kind("far__says", said(content=texts("five"), **NUMBER), "five", '"n":5'),
    "bridged data alone": Kind("far__says", said(content=[], **NUMBER), '"n":5'),
    "bridged data, said as text": Kind("far__says", said(content=texts('{"n":5}'), **NUMBER), '"n":5'),
    "bridged link": Kind("far__says", said(content=[LINK]), "a.txt", "file:///a.txt", "read_file", "toolgen://answers/"),
    "bridged picture": Kind("far__says", said(content=[*texts("see"), PICTURE]), "see", picture=PIXEL),
    "bridged, as promised": Kind("far__promises", said(content=texts('{"n":5}'), **NUMBER), '"n":5'),
    "bridged, promised and more": Kind("far__promises", said(content=[*texts("five"), LINK], **NUMBER), '"n":5', "five", "a.txt"),
    "bridged, another type": Kind("far__promises", said(content=texts("words"), structuredContent={"n": "x"}), '"n":"x"', "words"),
    "bridged, not as promised": Kind("far__promises", said(content=texts("sorry, only words")), "sorry, only words"),
    "bridged error": Kind(
        "far__promises", said(content=texts("no", "such\nthing"), isError=True, **NUMBER), "upstream_error", "such\nthing", ok=False
    ),
}  # fmt: skip
THROUGH: dict[str, Kind] = {
    "search": Kind("search_tools", {"query": "a pet"}, "api__get_pet"),
    "description": Kind("describe_tool", {"name": "fn__point", "output_schema": True}, "output_schema", '"label"'),
    "called through": Kind("run_tool", {"name": "fn__point", "arguments": {"x": 3}}, '"y":-3'),
    "called through, with a picture": Kind("run_tool", {"name": "fn__drawing"}, "a point", picture=PIXEL),
    "called through, bridged": Kind("run_tool", {"name": "far__says", "arguments": said(content=texts("hi"))}, "hi"),
    "called through, refused": Kind("run_tool", {"name": "api__get_missing"}, "There is no pet 5.", ok=False),
}  # fmt: skip
