"""Description of an MCP server's tools as far as callers rely on it: the part that is pinned, and the part compared with the pin.

Content blocks of an MCP result, converted for programs that do not know blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import msgspec

from toolgen.core.canonical import schema_digest
from toolgen.core.json_codec import decode_json, encode_json
from toolgen.model.icons import icons_in
from toolgen.model.mcp_context import ListedContext, ListedPrompt, ListedResource, ListedTemplate, key_of
from toolgen.model.schema import Json

__all__ = [
    "URI_HERE",
    "ListedTool",
    "ServerTools",
    "blocks_of",
    "parts_of",
    "plain_data",
    "read_listing",
    "structured_of",
    "text_repeats",
    "texts_beside",
    "texts_of",
    "write_listing",
]

URI_HERE = "toolgen/uri"
"""The member of a link's `_meta` with the URI that the gateway reads it by."""

_PARTS: Mapping[str, str] = {
    "title": "title",
    "description": "description",
    "input_schema": "input schema",
    "output_schema": "output schema",
    "annotations": "annotations",
    "execution": "execution",
}


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool as its server lists it (MCP, server/tools); `_meta` and whatever else there may be reach no agent and are left out. Icons are
    pinned with the listing, and are no part of a tool that a call is compared with: agents are given the pinned ones."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    execution: dict[str, Any] = {}
    icons: Any = ()

    def __post_init__(self) -> None:
        """Icons that cannot be passed on are left out, and are no reason to refuse a list.

        Of `execution` only a demand counts; what a tool merely may do as a task says nothing about a plain call of it."""
        msgspec.structs.force_setattr(self, "icons", icons_in(self.icons))
        if self.execution and not self.demands_task:
            msgspec.structs.force_setattr(self, "execution", {})

    @property
    def demands_task(self) -> bool:
        """True if the tool can only be called as a task (MCP 2025-11-25, utilities/tasks, Tool-Level Negotiation)."""
        return self.execution.get("taskSupport") == "required"


class ServerTools(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All tools of a server, its prompts, resources and templates: their order is nobody's promise. `completes`: it proposes values of
    arguments. `instructions`, `website_url` and `icons` are what it says of itself."""

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

    @property
    def context(self) -> tuple[ListedContext, ...]:
        """Its prompts, resources and templates."""
        return (*self.prompts, *self.resources, *self.templates)


def parts_of(tool: ListedTool) -> dict[str, str]:
    """The digest of each part of a tool that an agent or a reviewer goes by; raises `CanonicalError`."""
    found = {said: getattr(tool, field) for field, said in _PARTS.items()}
    return {said: schema_digest(value) for said, value in found.items() if value}


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


def write_listing(listing: ServerTools) -> bytes:
    """Encode a listing for its pin file: formatted for review, in ASCII, so that invisible characters appear as escapes."""
    ordered = msgspec.structs.replace(
        listing,
        tools=tuple(sorted(listing.tools, key=lambda one: one.name)),
        prompts=tuple(sorted(listing.prompts, key=key_of)),
        resources=tuple(sorted(listing.resources, key=key_of)),
        templates=tuple(sorted(listing.templates, key=key_of)),
    )
    return (json.dumps(msgspec.to_builtins(ordered), indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def read_listing(data: bytes) -> ServerTools:
    """Decode a pin file; raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=ServerTools)


_WHOLE_LEVELS = 2
_MAX_COMPARED_LENGTH = 262_144


def blocks_of(content: Json) -> Sequence[Json]:
    """The blocks of `{"content": […]}`."""
    blocks = content.get("content") if isinstance(content, Mapping) else None
    if isinstance(blocks, str):  # a redaction of all of them
        return ({"type": "text", "text": blocks},)
    return blocks if isinstance(blocks, list | tuple) else ()


def structured_of(content: Json) -> Json:
    """The structured content beside them; None where there is none."""
    return content.get("structuredContent") if isinstance(content, Mapping) else None


def texts_beside(content: Json) -> list[str]:
    """The texts of a result that repeat no part of its structured content."""
    texts = [text for block in blocks_of(content) if (text := _text_of(block))]
    structured = structured_of(content)
    if structured is None or not texts:
        return texts
    said = set(_sayings(structured))
    return [text for text in texts if text not in said and _saying(text) not in said]


def _text_of(block: Json) -> str:
    return str(block["text"]) if isinstance(block, Mapping) and block.get("type") == "text" else ""


def text_repeats(content: Json) -> bool:
    """Return True if the text blocks of a result repeat its structured content, as MCP asks of servers: as a whole, or member by member."""
    texts = {_text_of(block) for block in blocks_of(content)}
    return _is_said(structured_of(content), texts | {_saying(text) for text in texts})


def _is_said(value: Json, said: Set[str]) -> bool:
    if (value if isinstance(value, str) else _written(value)) in said:
        return True
    match value:
        case Mapping() if len(value) == 1:
            return _is_said(next(iter(value.values())), said)
        case list() | tuple() if value:
            return all(_is_said(item, said) for item in value)
        case _:
            return False


def plain_data(content: Json) -> Json:
    """The text where there is nothing else, structured content where all text repeats a part of it, and otherwise both, as they came."""
    blocks, structured = blocks_of(content), structured_of(content)
    texts = [str(block["text"]) for block in blocks if isinstance(block, Mapping) and block.keys() == {"type", "text"}]
    if len(texts) < len(blocks):
        return content
    if structured is None:
        return "\n".join(texts)
    if not texts:
        return structured
    return content if texts_beside(content) else structured


def _sayings(value: Json, depth: int = 0) -> Iterator[str]:
    """Whatever a text could say to repeat a part of this: the text of a member, its JSON, or that of an object near the top."""
    if isinstance(value, str):
        yield value
        return
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if items is None or depth <= _WHOLE_LEVELS:
        yield _written(value)
    for item in items or ():
        yield from _sayings(item, depth + 1)


def _saying(text: str) -> str:
    """A text that is JSON, as `_sayings` writes it."""
    if len(text) > _MAX_COMPARED_LENGTH:
        return text
    try:
        return _written(decode_json(text.encode()))
    except ValueError:
        return text


def _written(value: Json) -> str:
    return encode_json(_sorted(value)).decode()


def _sorted(value: Json) -> Json:
    match value:
        case Mapping():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list() | tuple():
            return [_sorted(item) for item in value]
        case _:
            return value
