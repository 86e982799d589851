"""Description of an MCP server's tools: the part that is pinned, and the part compared with the pin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.core.canonical import schema_digest
from toolgen.model.apps import AppPage, ToolApp, tool_app
from toolgen.model.icons import icons_in
from toolgen.model.mcp_context import ListedContext, ListedPrompt, ListedResource, ListedSkill, ListedTemplate, key_of

__all__ = ["APP_PART", "URI_HERE", "ListedTool", "ServerTools", "parts_of", "read_listing", "texts_of", "write_listing"]

URI_HERE = "toolgen/uri"
"""Member of a link's `_meta` with the URI that the gateway reads it by."""

APP_PART = "app"
"""Part of a tool that counts if its source allows apps."""

_PARTS: Mapping[str, str] = {
    "title": "title",
    "description": "description",
    "input_schema": "input schema",
    "output_schema": "output schema",
    "annotations": "annotations",
    "execution": "execution",
    "meta": APP_PART,
}


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Tool as its server lists it (MCP, server/tools). Of `_meta` only the app is kept; other members are not passed to agents.

    Icons are pinned with the listing, but not compared before a call: agents get the pinned ones.
    """

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    execution: dict[str, Any] = {}
    icons: Any = ()
    meta: Any = msgspec.field(name="_meta", default=None)

    def __post_init__(self) -> None:
        """Remove invalid icons, which must not invalidate a list.

        Of `execution` only a requirement counts; optional execution as a task does not affect a plain call.
        """
        msgspec.structs.force_setattr(self, "icons", icons_in(self.icons))
        app = tool_app(self.meta)
        msgspec.structs.force_setattr(self, "meta", None if app is None else app.meta)
        if self.execution and not self.demands_task:
            msgspec.structs.force_setattr(self, "execution", {})

    @property
    def app(self) -> ToolApp | None:
        """Return its app, if it has one."""
        return tool_app(self.meta)

    @property
    def demands_task(self) -> bool:
        """True if the tool can only be called as a task (MCP 2025-11-25, utilities/tasks, Tool-Level Negotiation)."""
        return self.execution.get("taskSupport") == "required"


class RegisteredServer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Server found in the MCP registry: `digest` of its entry, and the bridged package or remote server, with the resulting `command` or
    `url`.
    """

    name: str = ""
    version: str = ""
    digest: str = ""
    package: str = ""
    identifier: str = ""
    package_version: str = ""
    sha256: str = ""
    command: tuple[str, ...] = ()
    url: str = ""


class ServerTools(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Tools of a server, with its prompts, resources, templates and skills; their order is not guaranteed. `completes`: it proposes
    values of arguments.

    `instructions`, `website_url` and `icons` come from the server, `registered` is its entry in a registry, and `apps` are the pages of its
    tools' apps.
    """

    server: str
    version: str
    tools: tuple[ListedTool, ...]
    prompts: tuple[ListedPrompt, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    templates: tuple[ListedTemplate, ...] = ()
    completes: bool = False
    instructions: str = ""
    website_url: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    registered: RegisteredServer | None = None
    apps: tuple[AppPage, ...] = ()
    skills: tuple[ListedSkill, ...] = ()

    @property
    def context(self) -> tuple[ListedContext, ...]:
        """Return its prompts, resources and templates."""
        return (*self.prompts, *self.resources, *self.templates)


def parts_of(tool: ListedTool) -> dict[str, str]:
    """Return the digest of each part of a tool that agents or reviewers rely on; raises `CanonicalError`."""
    found = {said: getattr(tool, field) for field, said in _PARTS.items()}
    return {said: schema_digest(value) for said, value in found.items() if value}


def texts_of(tool: ListedTool) -> Iterator[tuple[str, str]]:
    """Return every text of a tool, names of arguments included, with its place in the tool as a JSON pointer; each text once."""
    parts = msgspec.to_builtins(tool)
    todo: list[tuple[str, object]] = [(f"/{name}", parts[name]) for name in reversed(parts) if name != "name"]
    known: set[str] = set()
    while todo:
        place, value = todo.pop()
        if isinstance(value, str):
            if value not in known:
                known.add(value)
                yield place, value
        elif isinstance(value, Mapping):
            todo += [(f"{place}/{_escaped(key)}", item) for key, item in reversed(list(value.items()))]
            todo += [(f"{place}/{_escaped(key)}", key) for key in reversed(list(value))]
        elif isinstance(value, list | tuple):
            todo += [(f"{place}/{number}", item) for number, item in reversed(list(enumerate(value)))]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def write_listing(listing: ServerTools) -> bytes:
    """Encode a listing for its pin file: formatted for review, in ASCII, so that invisible characters appear as escapes."""
    ordered = msgspec.structs.replace(
        listing,
        tools=tuple(sorted(listing.tools, key=lambda one: one.name)),
        prompts=tuple(sorted(listing.prompts, key=key_of)),
        resources=tuple(sorted(listing.resources, key=key_of)),
        templates=tuple(sorted(listing.templates, key=key_of)),
        apps=tuple(sorted(listing.apps, key=lambda one: one.uri)),
        skills=tuple(sorted(listing.skills, key=lambda one: one.uri)),
    )
    return (json.dumps(msgspec.to_builtins(ordered), indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def read_listing(data: bytes) -> ServerTools:
    """Decode a pin file; raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=ServerTools)
