"""Content blocks of an answer (MCP 2025-11-25, ContentBlock), for agents over MCP and in their own process.

Blocks that some clients do not accept become text: links, and pictures in formats that models do not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.gateway.calls.answer_text import data_text, error_text, notes_of, written
from toolgen.gateway.calls.file_links import is_reference, linked_file, reading_hint, reference_text
from toolgen.model.mcp import URI_HERE
from toolgen.model.mcp_content import blocks_of, plain_data, structured_of, text_repeats, texts_beside
from toolgen.model.media import picture_type
from toolgen.model.result import Envelope, file_bytes
from toolgen.model.schema import Json

__all__ = ["Block", "content_blocks", "is_picture", "is_plain", "own_data", "said_beside", "text_block", "whole_text"]

Block = dict[str, Any]


def content_blocks(envelope: Envelope, text: str | None = None, *, links: bool = False) -> list[Block]:
    """Return the blocks of an answer. `text` is the text of its data, if it exists already; with `links`, a link is a block besides its
    text."""
    if envelope.status != "ok":
        if envelope.content is None:
            return [_text(error_text(envelope))]
        return [_text(error_text(envelope, blocks_follow=True)), *_bridged(envelope.content, links=links)]
    if envelope.content is not None:
        blocks = _bridged(envelope.content, envelope.media, links=links)
    elif envelope.parts:
        parts = envelope.data if isinstance(envelope.data, list | tuple) else [envelope.data]
        blocks = [block for part in parts for block in _part(part, envelope.media)]
    elif is_picture(envelope.data) or (envelope.media and linked_file(envelope) is not None):
        blocks = _part(envelope.data, envelope.media)
    else:
        blocks = [{"type": "text", "text": data_text(envelope, text)}]
        if links and (link := linked_file(envelope)) is not None:
            blocks.append(link)
        return blocks
    notes = [_text(f"[{note}]") for note in notes_of(envelope)]
    return [*notes[:1], *blocks, *notes[1:]] if envelope.meta.dropped else [*blocks, *notes]


def is_plain(envelope: Envelope) -> bool:
    """Return True if an answer is one block with its data as text: no file, no picture, no block of a server, and nothing to note."""
    data = envelope.data
    if (
        envelope.status != "ok"
        or envelope.content is not None
        or envelope.parts
        or envelope.media
        or envelope.empty_status
    ):
        return False
    if type(data) is dict:
        if "media_type" in data or "resource" in data:
            return False
    elif type(data) is not str and type(data) is not list:
        return False
    meta = envelope.meta
    if meta.dropped or meta.joined or meta.partial or meta.note or meta.row_notes or meta.unread_fields:
        return False
    return meta.more is None and not meta.truncated and not meta.next_cursor


def own_data(envelope: Envelope) -> Json:
    """Return the data of a success in its original structure: for an MCP server, its structured content."""
    return envelope.data if envelope.content is None else structured_of(envelope.content)


def said_beside(envelope: Envelope) -> str:
    """Return the text that agents get besides the data of a successful call: notes, and the content of other blocks. "" if there is
    none."""
    said = list(notes_of(envelope))
    if envelope.content is not None:
        said += texts_beside(envelope.content)
        said += [
            _named(block)
            for block in blocks_of(envelope.content)
            if isinstance(block, Mapping) and block.get("type") != "text"
        ]
    elif is_picture(envelope.data):
        said += map(_named, _part(envelope.data, None))
    return "\n\n".join(said)


def whole_text(envelope: Envelope) -> str:
    """Return an answer as one text, which names the blocks with other content."""
    return "\n\n".join(map(text_block, content_blocks(envelope)))


def text_block(block: Block) -> str:
    """Return the text of a block: the content of a document, or a description of anything else."""
    resource = block.get("resource")
    if block["type"] == "text":
        return str(block["text"])
    if isinstance(resource, Mapping) and isinstance(text := resource.get("text"), str):
        return text
    return _named(block)


def is_picture(data: Json) -> bool:
    """Return True if the data is a file with an image in a format that models read."""
    if not isinstance(data, (dict, Mapping)) or data.get("media_type") is None:
        return False
    body = file_bytes(data)
    return body is not None and picture_type(body) == data["media_type"]


def _bridged(content: Json, media: Mapping[str, Json] | None = None, *, links: bool = False) -> list[Block]:
    """Return the blocks of an MCP server's answer unchanged, and its structured content if no text contains it."""
    blocks: list[Block] = []
    for block in blocks_of(content):
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "resource_link":
            blocks.append(_text(_named(block)))
            if links:
                blocks.append(_readable_here(block))
        elif block.get("type") == "resource" and is_reference(block.get("resource")):
            about = {key: block[key] for key in ("annotations", "_meta") if key in block}
            blocks += [{**made, **about} for made in _referenced(block["resource"], media)]
        else:
            blocks.append(dict(block))
    structured = structured_of(content)
    if structured is None or text_repeats(content):
        return blocks
    said = _text(written(structured))
    return [said] if plain_data(content) is structured else [*blocks, said]


def _link_text(link: Mapping[str, Json]) -> str:
    """Return the text for a resource link of an MCP server, with how to read it through the gateway."""
    words = dict.fromkeys(str(link[key]) for key in ("name", "title", "description") if link.get(key))
    size = f"{link['size']} bytes" if "size" in link else ""
    about = ", ".join(filter(None, (str(link.get("mimeType", "")), size)))
    said = f"File {', '.join(words)}{about and f' ({about})'}: {link.get('uri')}"
    here = _here(link)
    return f"{said}\n{reading_hint(here)}" if here else said


def _readable_here(link: Mapping[str, Json]) -> Block:
    """Return a link with the URI by which this gateway reads it."""
    here = _here(link)
    return {**link, "uri": here} if here else dict(link)


def _here(link: Mapping[str, Json]) -> str:
    """Return the URI by which this gateway reads a link; "" if it does not."""
    meta = link.get("_meta")
    here = meta.get(URI_HERE) if isinstance(meta, Mapping) else None
    return here if isinstance(here, str) else ""


def _part(part: Json, media: Mapping[str, Json] | None) -> list[Block]:
    """Return the blocks of one part of a function's answer, or of a file: a text, a picture, a recording, a document."""
    if isinstance(part, Mapping):
        if part.keys() == {"resource"} and is_reference(part["resource"]):
            return _referenced(part["resource"], media)
        if part.keys() == {"base64", "media_type"}:
            kind = str(part["media_type"]).partition("/")[0]
            if kind in {"image", "audio"}:
                return [{"type": kind, "data": part["base64"], "mimeType": part["media_type"]}]
        if part.keys() == {"uri", "media_type", "text"}:
            resource = {"uri": part["uri"], "mimeType": part["media_type"], "text": part["text"]}
            return [{"type": "resource", "resource": resource}]
    return [_text(written(part))]


def _referenced(reference: Json, media: Mapping[str, Json] | None) -> list[Block]:
    """Return the blocks of a stored file: the picture or the recording if a model accepts it, and a text that names it."""
    assert isinstance(reference, Mapping)  # noqa: S101 - a reference is
    named = _text(reference_text(reference))
    shown = None if media is None else media.get(str(reference.get("uri")))
    return [named] if shown is None else [*_part(shown, None), named]


def _named(block: Mapping[str, Any]) -> str:
    """Return a text that names a block without text."""
    if block.get("type") == "resource_link":
        return _link_text(block)
    resource = block.get("resource")
    if is_reference(resource) and isinstance(resource, Mapping):
        return reference_text(resource)
    held = resource if isinstance(resource, Mapping) else block
    kind = held.get("mimeType") or block["type"]
    where = f", {held['uri']}" if "uri" in held else ""
    return f"[{kind}{where}: in the content of this answer]"


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
