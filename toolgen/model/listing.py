"""What an MCP server says of its tools, as far as anybody relies on it: what is pinned, and what is held against the pin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.canonical import digest

__all__ = ["ListedTool", "Listing", "parts_of", "read_listing", "texts_of", "write_listing"]

_PARTS: Mapping[str, str] = {
    "title": "title",
    "description": "description",
    "input_schema": "input schema",
    "output_schema": "output schema",
    "annotations": "annotations",
    "execution": "execution",
}


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool as its server lists it (MCP, server/tools); icons, `_meta` and whatever else there may be reach no agent and are left out."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    execution: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Of `execution` only a demand counts; what a tool merely may do as a task says nothing about a plain call of it."""
        if self.execution and not self.demands_task:
            msgspec.structs.force_setattr(self, "execution", {})

    @property
    def demands_task(self) -> bool:
        """Whether it can be called as a task alone (MCP 2025-11-25, utilities/tasks, Tool-Level Negotiation)."""
        return self.execution.get("taskSupport") == "required"


class Listing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All tools of a server, by name: their order is nobody's promise."""

    server: str
    version: str
    tools: tuple[ListedTool, ...]


def parts_of(tool: ListedTool) -> dict[str, str]:
    """The digest of each part of a tool that an agent or a reviewer goes by; raises `CanonicalError`."""
    found = {said: getattr(tool, field) for field, said in _PARTS.items()}
    return {said: digest(value) for said, value in found.items() if value}


def texts_of(tool: ListedTool) -> Iterator[tuple[str, str]]:
    """Every text of a tool, names of arguments included, with its place in the tool as a JSON pointer; each text once."""
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


def write_listing(listing: Listing) -> bytes:
    """As it is pinned: laid out for a reviewer, and in ASCII, so that what nobody sees stands there as an escape."""
    ordered = msgspec.structs.replace(listing, tools=tuple(sorted(listing.tools, key=lambda one: one.name)))
    return (json.dumps(msgspec.to_builtins(ordered), indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def read_listing(data: bytes) -> Listing:
    """What was pinned; raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=Listing)
