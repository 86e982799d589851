"""An envelope as MCP's CallToolResult.

MCP resources: the files that calls answered with a link, and nothing else (2025-06-18: Resources; Tools, section Resource Links).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import msgspec

from toolgen.gateway.json_body import data_json, data_text, dropped_text, encode, envelope_json, error_text
from toolgen.gateway.protocol import Facade
from toolgen.gateway.response_shaping import SCHEME
from toolgen.gateway.search_tools import CALLING
from toolgen.gateway.tool_lists import Listing
from toolgen.model.call import Principal
from toolgen.model.mcp import blocks_of, structured_of
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import Json

__all__ = ["read_resource", "tool_result"]

_URI = re.compile(re.escape(SCHEME) + r"([^/]{1,128})/([A-Za-z0-9_-]{64})\Z")


async def read_resource(gateway: Facade, principal: Principal, uri: str) -> dict[str, object] | Error:
    """The result of `resources/read`, or why there is nothing for this principal."""
    found = _URI.match(uri)
    if found is None:
        return Error(code="not_found", message="there is no such resource")
    fetched = await gateway.tool_calls.fetch(principal, found[1], found[2])
    if isinstance(fetched, Error):
        return fetched
    blob = base64.b64encode(fetched.body).decode()
    return {"contents": [{"uri": uri, "mimeType": fetched.media_type, "blob": blob}]}


def link_of(envelope: Envelope) -> dict[str, object] | None:
    """The link of an answer that is one. What an upstream wrote to look like one can lead nowhere but here, and there to nothing."""
    data: Json = envelope.data
    link = data.get("resource") if isinstance(data, Mapping) and data.keys() == {"resource"} else None
    uri = link.get("uri") if isinstance(link, Mapping) else None
    if not isinstance(link, Mapping) or not isinstance(uri, str) or not uri.startswith(f"{SCHEME}{envelope.tool}/"):
        return None
    if _URI.match(uri) is None:
        return None
    return {
        "type": "resource_link",
        "uri": uri,
        "name": f"the answer of {envelope.tool}",
        "mimeType": str(link.get("media_type", "")),
        "size": link.get("size"),
    }


def tool_result(envelope: Envelope, name: str, listing: Listing) -> dict[str, object]:
    """MCP's CallToolResult.

    Structured content is the data of a tool that shows an output schema, and the envelope otherwise. Clients hold whatever stands there
    against the schema, even in an error (the TypeScript SDK), so such a tool's error has text alone, and so does an answer that broke
    the upstream's promise: said to have been carried out, because an agent that thinks it failed would do it twice.
    """
    # Whatever tool it calls, what run_tool and run_read_tool promise is the envelope.
    declares = name not in CALLING and listing.declares_output(name)
    if envelope.content is not None:
        return _bridged(envelope, name, listing, declares=declares)
    if envelope.status != "ok":
        result: dict[str, object] = {"content": [_text(error_text(envelope))], "isError": True}
        if not declares:
            result["structuredContent"] = envelope_json(envelope)
        return result
    if listing.answers_content(name):
        shown = envelope_json(msgspec.structs.replace(envelope, data=None))
        return {
            "content": [*_blocks(envelope.data), *_left_out(envelope)],
            "structuredContent": shown,
            "isError": False,
        }
    data = encode(envelope.data)
    text: dict[str, object] = {"type": "text", "text": data_text(envelope, data)}
    if not declares:
        structured: object = envelope_json(envelope, data)
        if (
            isinstance(envelope.data, Mapping)
            and "resource" in envelope.data
            and (link := link_of(envelope)) is not None
        ):
            return {"content": [text, link], "structuredContent": structured, "isError": False}
    elif listing.fits(name, envelope.data):
        structured = msgspec.Raw(data)
    else:
        return {"content": [_broken(envelope), text], "isError": True}
    return {"content": [text], "structuredContent": structured, "isError": False}


def _bridged(envelope: Envelope, name: str, listing: Listing, *, declares: bool) -> dict[str, object]:
    """An answer of an MCP server: its blocks as they came, and its structured content beside them, neither in the other's place."""
    blocks, structured = [*blocks_of(envelope.content), *_left_out(envelope)], structured_of(envelope.content)
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


def _left_out(envelope: Envelope) -> list[dict[str, object]]:
    """A note on arguments that the tool has not, where the answer is blocks."""
    told = dropped_text(envelope) if envelope.status == "ok" else ""
    return [_text(f"[{told}]")] if told else []


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
