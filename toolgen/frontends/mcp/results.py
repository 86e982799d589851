"""Envelope of a call as MCP's CallToolResult."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.frontends.mcp.messages import INVALID_PARAMS, META_ENVELOPE, ProtocolStyle, RpcFault
from toolgen.gateway.calls.answer_text import written
from toolgen.gateway.calls.content_blocks import content_blocks, is_plain, own_data, said_beside, whole_text
from toolgen.gateway.calls.json_body import encode, envelope_json
from toolgen.gateway.catalog.tool_lists import STATELESS, WITH_TASKS, ToolListing
from toolgen.model.mcp_content import meta_of
from toolgen.model.result import Envelope

__all__ = ["Rendering", "asked_envelope", "tool_result"]


class Rendering(Struct, frozen=True, kw_only=True):
    """Rendering of results for one request: what its caller is listed, its protocol style, whether it asked for the envelope, and
    whether links are blocks too. `app`: an app of the tool shows the result."""

    listing: ToolListing
    protocol_style: ProtocolStyle
    envelope: bool = False
    links: bool = False
    app: bool = False


def asked_envelope(meta: Mapping[str, Any]) -> bool | RpcFault:
    """Return True if the `_meta` of a request asks for the envelope of the call; a fault if the value is not a boolean."""
    asked = meta.get(META_ENVELOPE, False)
    if isinstance(asked, bool):
        return asked
    return RpcFault(code=INVALID_PARAMS, message=f"params._meta.{META_ENVELOPE} must be true or false")


def tool_result(envelope: Envelope, name: str, rendering: Rendering) -> dict[str, object]:
    """MCP's CallToolResult. `name` is the tool that the client named.

    Structured content is the tool's own data, and there for tools that are listed with an output schema alone: many clients show the model
    nothing else, and hold it against that schema, even in an error (the TypeScript SDK). Of such a tool it has the gateway's notes too.
    """
    result: dict[str, object] = {"isError": envelope.status != "ok"}
    form = STATELESS if rendering.protocol_style is ProtocolStyle.STATELESS else WITH_TASKS
    output = rendering.listing.output(form, name) if envelope.status == "ok" else None
    if output is None and is_plain(envelope):
        result["content"] = [{"type": "text", "text": written(envelope.data)}]
    elif output is None:
        result["content"] = content_blocks(envelope, links=rendering.links)
    else:
        raw = encode(envelope.data)
        text = None if isinstance(envelope.data, str) else raw.decode("utf-8")
        result["content"] = content_blocks(envelope, text, links=rendering.links)
        data = own_data(envelope)
        structured = output.structured(data, said_beside(envelope), partial(whole_text, envelope))
        result["structuredContent"] = msgspec.Raw(raw) if structured is envelope.data else structured
    if rendering.app and output is None and envelope.status == "ok" and isinstance(own_data(envelope), Mapping):
        result["structuredContent"] = own_data(envelope)
    meta = None if envelope.content is None else meta_of(envelope.content)
    if rendering.envelope:
        shown = envelope_json(msgspec.structs.replace(envelope, data=None))
        result["_meta"] = {**(meta or {}), META_ENVELOPE: shown}
    elif meta:
        result["_meta"] = meta
    return result
