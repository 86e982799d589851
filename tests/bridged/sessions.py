"""A session with a server, directly or through the gateway: the same requests, and what is answered to each."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension
from mcp.types import (
    PromptReference,
    ResourceTemplateReference,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel

from toolgen.model.apps import APP_TYPE, APPS_EXTENSION, tool_app

__all__ = ["PREFIX", "Request", "Session", "Told", "spelled"]

PREFIX = "far__"
# Different from one run to the next, whoever asks: times, durations and ids; in a browser also the names of files for them.
_VARYING = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:[.-]\d+)?(?:Z|[+-]\d\d:\d\d)?"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d \d{4} [\d:]{8} GMT|\b\d\d?:\d\d:\d\d [AP]M\b|\b\d+(?:\.\d+)?ms\b"
)


@dataclass(frozen=True, eq=False)
class Request:
    """A request: the method, the name, URI or reference that it is about, and its arguments. `valid`: the gateway has to pass it on.
    `sent` are the arguments that reach the server, where the gateway leaves some out."""

    method: str
    about: str
    arguments: dict[str, Any] = field(default_factory=dict)
    valid: bool = True
    sent: dict[str, Any] | None = None


@dataclass
class Told:
    """What a client is told: lists, then an answer or an error for each request, with the progress of it."""

    tools: dict[str, Tool]
    prompts: dict[str, Any]
    resources: dict[str, Any]
    templates: dict[str, Any]
    answers: list[dict[str, Any]]
    completes: bool


def is_link(block: dict[str, Any]) -> bool:
    """True for a link to a resource."""
    return bool(block.get("type") == "resource_link")


def decoded(blob: str) -> str:
    """Bytes in base64 as text; those that are no text stay as they are."""
    try:
        return base64.b64decode(blob, validate=True).decode()
    except UnicodeDecodeError:
        return blob


def spelled(name: str) -> str:
    """The name of a tool or prompt in one spelling: the gateway writes names in lower case with `_`."""
    return name.removeprefix(PREFIX).replace("-", "_").lower()


class ShowsApps(ClientExtension):
    """Declares that the client shows apps."""

    identifier = APPS_EXTENSION

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": [APP_TYPE]}


class Session:
    """A client of a server, or of the gateway before it."""

    def __init__(self, server: StdioServerParameters | str, *, direct: bool) -> None:
        self._server = server
        self._direct = direct

    async def tell(self, requests: Sequence[Request]) -> Told:
        """Ask for all lists, and make the requests."""
        async with Client(self._server, mode="legacy", read_timeout_seconds=60, extensions=[ShowsApps()]) as client:
            offers = client.server_capabilities
            listed = (await client.list_tools()).tools
            if any(one.name.startswith(PREFIX) for one in listed):  # and not the tools of the gateway itself
                listed = [one for one in listed if one.name.startswith(PREFIX)]
            tools = {spelled(one.name): one for one in listed}
            prompts = (await client.list_prompts()).prompts if offers.prompts else []
            resources = (await client.list_resources()).resources if offers.resources else []
            templates: list[Any] = []
            if offers.resources:
                with contextlib.suppress(MCPError):
                    templates = (await client.list_resource_templates()).resource_templates
            told = Told(
                tools,
                {spelled(one.name): one for one in prompts},
                {str(one.uri): one for one in resources},
                {one.uri_template: one for one in templates},
                [],
                offers.completions is not None,
            )
            told.answers += [await self._answer(client, told, request) for request in requests]
            return told

    async def _answer(self, client: Client, told: Told, request: Request) -> dict[str, Any]:
        progress: list[Any] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            progress.append([done, total, message])

        try:
            found = await self._send(client, told, request, on_progress)
        except MCPError as error:
            return _same({"error": {"code": error.error.code, "message": error.error.message}})
        said = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        linked = [await self._read(client, block["uri"]) for block in said.get("content", []) if is_link(block)]
        return _same({"result": said, "progress": progress, "linked": linked})

    @staticmethod
    async def _read(client: Client, uri: str) -> list[Any]:
        """The content of what an answer links to: its texts, and its bytes as text where they are some."""
        try:
            found = (await client.read_resource(uri)).contents
        except MCPError as error:
            return ["error", error.error.code]
        return [getattr(one, "text", None) or decoded(getattr(one, "blob", "")) for one in found]

    async def _send(self, client: Client, told: Told, request: Request, progress: Any) -> BaseModel:
        about, arguments = request.about, request.arguments
        if self._direct and request.sent is not None:
            arguments = request.sent
        match request.method:
            case "tools/call":
                tool = told.tools.get(spelled(about))
                name = about if tool is None else tool.name
                return await client.call_tool(name, arguments, progress_callback=progress)
            case "prompts/get":
                return await client.get_prompt(self._prompt(told, about), arguments)
            case "resources/read":
                return await client.read_resource(about)
            case "completion/complete":
                kind, _, name = about.partition(":")
                if kind == "prompt":
                    reference: Any = PromptReference(type="ref/prompt", name=self._prompt(told, name))
                else:
                    reference = ResourceTemplateReference(type="ref/resource", uri=name)
                typed = {"name": arguments["name"], "value": arguments["value"]}
                return await client.complete(reference, typed, arguments.get("context"))
            case method:
                raise AssertionError(method)

    @staticmethod
    def _prompt(told: Told, name: str) -> str:
        found = told.prompts.get(spelled(name))
        return name if found is None else str(found.name)


def _same(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what varies from run to run."""
    result = answer.get("result", {})
    for block in [*result.get("content", []), *result.get("contents", [])]:
        inner = block.get("resource", block)
        with contextlib.suppress(KeyError, UnicodeDecodeError):  # a text with the time in it, as base64
            inner["blob"] = base64.b64decode(inner["blob"], validate=True).decode()
    found: dict[str, Any] = json.loads(_VARYING.sub("TIME", json.dumps(answer)))
    return found


def shown(tool: Tool) -> dict[str, Any]:
    """A tool with what MCP has for each title and hint that a server leaves out (2025-11-25, schema, Tool and ToolAnnotations)."""
    hints = tool.annotations or ToolAnnotations()
    reads = bool(hints.read_only_hint)
    return {
        "title": tool.title or hints.title or tool.name.removeprefix(PREFIX),
        "description": (tool.description or "").strip(),
        "input": tool.input_schema,
        "app": tool_app(tool.meta),
        "reads": reads,
        "destroys": not reads and hints.destructive_hint is not False,
        "may be repeated": reads or bool(hints.idempotent_hint),
        "open world": hints.open_world_hint is not False,
    }
