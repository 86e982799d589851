"""Resources in links of MCP servers' answers, read as a call of the tool that returned the link."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from toolgen.core.json_codec import encode_json
from toolgen.model.call import Call, Principal
from toolgen.model.mcp import URI_HERE
from toolgen.model.mcp_content import blocks_of
from toolgen.model.result import file_bytes
from toolgen.model.schema import Json
from toolgen.model.tool import Tool

__all__ = ["LINKED", "held_in", "links_in", "resource_call", "with_uris"]

LINKED = "resource_link"
"""Rule that allows such a call: the policy allowed the call that was answered with the link."""


def links_in(content: Json) -> tuple[str, ...]:
    """Return the URIs that the blocks of an answer link to, in their order."""
    return tuple(uri for block in blocks_of(content) if (uri := _uri_of(block)))


def with_uris(content: Json, uris: Sequence[str]) -> Json:
    """Return an answer in which links have the URIs by which they are read here, as far as there are some."""
    if not isinstance(content, Mapping):
        return content
    here = iter(uris)
    blocks = [_with_uri(block, next(here, "")) if _uri_of(block) else block for block in blocks_of(content)]
    return {**content, "content": blocks}


def resource_call(tool: Tool, uri: str, principal: Principal, session: str, *, parent: str) -> Call:
    """Return the call that reads a resource. For limits, checks and redaction it is a call of the tool that answered with the link."""
    reads = tool.linked_resource
    assert reads is not None  # noqa: S101 - no other answer has links
    return Call(
        id=f"call_{secrets.token_hex(12)}",
        tool=msgspec.structs.replace(tool, binding=reads, output_schema=None),
        arguments={"uri": uri},
        principal=principal,
        session=session,
        parent=parent,
    )


def held_in(data: Json) -> Iterator[tuple[str, bytes]]:
    """Yield the media type and the bytes of each document and file in a resource; replacements are read as text."""
    for part in data if isinstance(data, list | tuple) else [data]:
        match part, file_bytes(part):
            case {"media_type": str(kind)}, bytes(body):
                yield kind, body
            case {"uri": _, "media_type": str(kind), "text": str(text)}, _:
                yield kind, text.encode("utf-8", "replace")
            case str(text), _:
                yield "text/plain", text.encode("utf-8", "replace")
            case other, _:
                yield "application/json", encode_json(other)


def _uri_of(block: Json) -> str:
    """Return the URI of a link; "" for any other block."""
    uri = block.get("uri") if isinstance(block, Mapping) and block.get("type") == "resource_link" else None
    return uri if isinstance(uri, str) else ""


def _with_uri(block: Json, uri: str) -> Json:
    if not uri or not isinstance(block, Mapping):
        return block
    meta = block.get("_meta")
    return {**block, "_meta": {**(meta if isinstance(meta, Mapping) else {}), URI_HERE: uri}}
