"""An MCP server of the official SDK whose tools request something of the caller: over its pipes, or over HTTP in either protocol style."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import uvicorn
from mcp import UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    NotificationParams,
    SamplingMessage,
    TextContent,
    Tool,
    ToolAnnotations,
    ToolChoice,
    ToolResultContent,
)

server = MCPServer("Asking", version="1.0")
MODERN = "2026-07-28"
Scope: TypeAlias = dict[str, Any]


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["lid", "bag"]}, "default": ["lid"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["size"],
}
PAGE = "https://pay.example.com/order/7"


def _in_rounds(ctx: Context, request: Any) -> Any:
    """The answer to a request in the style of 2026-07-28, or the result that asks for it."""
    answers = ctx.input_responses
    if not answers:
        return InputRequiredResult(input_requests={"it": request}, request_state="round-1")
    assert ctx.request_state == "round-1"
    return answers["it"]


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
async def order(ctx: Context, note: str = "", times: int = 1) -> Any:
    """Orders a cup, after the caller said which."""
    message = f"Which cup?{note}"
    if ctx.protocol_version == MODERN:
        params = ElicitRequestFormParams(message=message, requested_schema=FORM)
        found = _in_rounds(ctx, ElicitRequest(params=params))
        if isinstance(found, InputRequiredResult):
            return found
    else:
        for _ in range(times):
            found = await ctx.session.elicit_form(message, FORM, related_request_id=ctx.request_id)
    return json.dumps({"action": found.action, "content": found.content}, sort_keys=True)


async def _cup_of(ctx: Context) -> Any:
    """The answer about a cup, or the result that asks for it."""
    if ctx.protocol_version == MODERN:
        return _in_rounds(
            ctx, ElicitRequest(params=ElicitRequestFormParams(message="Which cup?", requested_schema=FORM))
        )
    return await ctx.session.elicit_form("Which cup?", FORM, related_request_id=ctx.request_id)


@server.prompt()
async def greet(ctx: Context) -> Any:
    """Greets the caller with a cup."""
    await ctx.report_progress(1, 2, "asking")
    found = await _cup_of(ctx)
    if isinstance(found, InputRequiredResult):
        return found
    return f"A {found.content['size']} cup" if found.action == "accept" and found.content else "No cup"


@server.resource("asking://cups/{name}")
async def cup(name: str, ctx: Context) -> Any:
    """Cup of the caller."""
    await ctx.report_progress(1, 2, "asking")
    found = await _cup_of(ctx)
    if isinstance(found, InputRequiredResult):
        return found
    return f"{name}: {found.content['size']}" if found.action == "accept" and found.content else name


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
async def pay(ctx: Context, page: str = "e-7") -> Any:
    """Has the caller pay on a web page."""
    if ctx.protocol_version == MODERN:
        params = ElicitRequestURLParams(message="Pay here", url=PAGE, elicitation_id=page)
        found = _in_rounds(ctx, ElicitRequest(params=params))
        if isinstance(found, InputRequiredResult):
            return found
        return found.action
    return (await ctx.elicit_url("Pay here", PAGE, page)).action


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def finish(ctx: Context, pages: list[str], when: str = "now") -> str:
    """Says that pages are done: in the stream of this call, or after it."""
    related = ctx.request_id if when == "now" else None

    async def tell() -> None:
        await asyncio.sleep(0 if when == "now" else 0.2)
        for page in pages:
            await ctx.session.send_elicit_complete(page, related_request_id=related)

    if when == "now":
        await tell()
    else:
        LATER.append(asyncio.create_task(tell()))
    return when


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def summarise(ctx: Context, text: str, tokens: int = 100) -> Any:
    """Has the caller's model summarise a text."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=f"Summarise: {text}"))]
    if ctx.protocol_version == MODERN:
        params = CreateMessageRequestParams(messages=messages, max_tokens=tokens)
        found = _in_rounds(ctx, CreateMessageRequest(params=params))
        if isinstance(found, InputRequiredResult):
            return found
    else:
        found = await ctx.session.create_message(messages, max_tokens=tokens, related_request_id=ctx.request_id)
    return f"{found.model}: {found.content.text}"


LOOK = Tool(name="look", description="Looks at a cup.", input_schema={"type": "object"})


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def choose(ctx: Context) -> Any:
    """Has the caller's model choose a cup, with a tool of the server."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text="Which cup?"))]
    choice = ToolChoice(mode="auto")
    if ctx.protocol_version == MODERN:
        params = CreateMessageRequestParams(messages=messages, max_tokens=10, tools=[LOOK], tool_choice=choice)
        found = _in_rounds(ctx, CreateMessageRequest(params=params))
        if isinstance(found, InputRequiredResult):
            return found
        return found.content.name
    for _ in range(4):
        found = await ctx.session.create_message(
            messages, max_tokens=10, tools=[LOOK], tool_choice=choice, related_request_id=ctx.request_id
        )
        used = found.content[0] if isinstance(found.content, list) else found.content
        if used.type != "tool_use":
            return used.text
        result = ToolResultContent(tool_use_id=used.id, content=[TextContent(type="text", text="It is red.")])
        messages += [
            SamplingMessage(role="assistant", content=[used]),
            SamplingMessage(role="user", content=[result]),
        ]
    return "undecided"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def folders(ctx: Context) -> Any:
    """Lists the caller's folders."""
    if ctx.protocol_version == MODERN:
        found = _in_rounds(ctx, ListRootsRequest())
        if isinstance(found, InputRequiredResult):
            return found
    else:
        found = await ctx.session.list_roots()
    return " ".join(str(one.uri) for one in found.roots)


CHANGES: list[str] = []
LATER: list[asyncio.Task[None]] = []


async def _roots_changed(ctx: Any, params: Any) -> None:
    CHANGES.append("roots")


server._lowlevel_server.add_notification_handler("notifications/roots/list_changed", NotificationParams, _roots_changed)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def changes() -> int:
    """Counts the notifications that folders have changed."""
    return len(CHANGES)


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
async def add(a: int, b: int) -> int:
    """Adds two numbers and requests nothing."""
    return a + b


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
async def export(ctx: Context) -> str:
    """Exports what a person has to permit on a web page first."""
    page = ElicitRequestURLParams(message="Permit it", url=PAGE, elicitation_id="e-8")
    raise UrlElicitationRequiredError([page])


def modern_alone(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The application without the handshake."""

    async def inner(scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        if b'"initialize"' in body:
            error = {"code": -32022, "message": "unsupported version"}
            answer = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": error}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": answer})
            return
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(given, None) or await receive()

        await app(scope, again, send)

    return inner


if __name__ == "__main__":
    if sys.argv[1:]:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        app: Any = server.streamable_http_app()
        served = modern_alone(app) if sys.argv[1] == "modern" else app
        uvicorn.Server(uvicorn.Config(served, log_level="error")).run(sockets=[listener])
    else:
        server.run("stdio")
