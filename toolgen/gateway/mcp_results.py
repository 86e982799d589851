"""An envelope as MCP's CallToolResult."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import orjson

from toolgen.gateway.answers import data_json, data_text, envelope_json, error_text
from toolgen.gateway.listings import Listing
from toolgen.gateway.mcp_resources import link_of
from toolgen.gateway.stand_ins import CALL
from toolgen.model.content import blocks_of, structured_of
from toolgen.model.result import Envelope
from toolgen.model.schema import Json

__all__ = ["tool_result"]


def tool_result(envelope: Envelope, name: str, listing: Listing) -> dict[str, object]:
    """MCP's CallToolResult.

    Structured content is the data of a tool that shows an output schema, and the envelope otherwise. Clients hold whatever stands there
    against the schema, even in an error (the TypeScript SDK), so such a tool's error has text alone, and so does an answer that broke
    the upstream's promise: said to have been carried out, because an agent that thinks it failed would do it twice.
    """
    # Whatever tool it calls, what call_tool promises is the envelope.
    declares = name != CALL and listing.declares_output(name)
    if envelope.content is not None:
        return _bridged(envelope, name, listing, declares=declares)
    if envelope.status != "ok":
        result: dict[str, object] = {"content": [_text(error_text(envelope))], "isError": True}
        if not declares:
            result["structuredContent"] = envelope_json(envelope)
        return result
    if listing.answers_content(name):
        shown = envelope_json(msgspec.structs.replace(envelope, data=None))
        return {"content": _blocks(envelope.data), "structuredContent": shown, "isError": False}
    data = data_json(envelope.data)
    text = _text(data_text(envelope, data))
    if not declares and (link := link_of(envelope)) is not None:
        return {"content": [text, link], "structuredContent": envelope_json(envelope, data), "isError": False}
    if not declares:
        structured: object = envelope_json(envelope, data)
    elif listing.fits(name, envelope.data):
        structured = orjson.Fragment(data)
    else:
        return {"content": [_broken(envelope), text], "isError": True}
    return {"content": [text], "structuredContent": structured, "isError": False}


def _bridged(envelope: Envelope, name: str, listing: Listing, *, declares: bool) -> dict[str, object]:
    """An answer of an MCP server: its blocks as they came, and its structured content beside them, neither in the other's place."""
    blocks, structured = [*blocks_of(envelope.content)], structured_of(envelope.content)
    bare = msgspec.structs.replace(envelope, data=structured)
    if envelope.status != "ok":
        told = _text(error_text(msgspec.structs.replace(envelope, data=None)))
        result: dict[str, object] = {"content": [told, *blocks], "isError": True}
        return result if declares else {**result, "structuredContent": envelope_json(bare)}
    if not declares:
        return {"content": blocks, "structuredContent": envelope_json(bare), "isError": False}
    if listing.fits(name, structured):
        return {"content": blocks, "structuredContent": structured, "isError": False}
    said = [_text(data_json(structured).decode("utf-8"))] if structured is not None else []
    return {"content": [_broken(envelope), *blocks, *said], "isError": True}


def _broken(envelope: Envelope) -> dict[str, object]:
    return _text(
        f"The call was carried out (call id {envelope.call_id}): do not repeat it because of this message. "
        "Its answer does not have the shape this tool declares; it follows as text."
    )


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _blocks(data: Json) -> list[dict[str, object]]:
    """What a function answered with pictures, recordings or documents, one content block for each part of it."""
    return [_block(part) for part in (data if isinstance(data, list | tuple) else [data])]


def _block(part: Json) -> dict[str, object]:
    if isinstance(part, str):
        return _text(part)
    if isinstance(part, Mapping) and part.keys() == {"base64", "media_type"}:
        media_type = str(part["media_type"])
        kind = media_type.partition("/")[0]
        if kind in {"image", "audio"}:
            return {"type": kind, "data": part["base64"], "mimeType": media_type}
    if isinstance(part, Mapping) and part.keys() == {"uri", "media_type", "text"}:
        document = {"uri": part["uri"], "mimeType": part["media_type"], "text": part["text"]}
        return {"type": "resource", "resource": document}
    return _text(data_json(part).decode("utf-8"))
