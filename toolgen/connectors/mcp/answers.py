"""Answer of a tool of an MCP server as the data of a call: its content block by block, and structured content beside it."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Final, TypeGuard

from toolgen.connectors.mcp.messages import failed
from toolgen.core.json_codec import encode_json
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Failed, Shape, Success, file_bytes, text_in
from toolgen.model.schema import Json, JsonObject

__all__ = ["MAX_SAID_LENGTH", "answered", "content_block", "contents", "is_size", "kept_meta"]

MAX_SAID_LENGTH = 800
_MAX_META_SIZE = 16_384
# Members that a result of the gateway has itself: its own, and those that MCP reserves (2025-11-25, basic, _meta).
_RESERVED: Final = re.compile(
    r"(?:toolgen[^/]*|[^/.]*\.(?:modelcontextprotocol|mcp)(?:\.[^/]*)?)/.*|progressToken|traceparent|tracestate|baggage|\Z",
    re.DOTALL | re.IGNORECASE,
)


_MEDIA_TYPE: Final = re.compile(r"[!-.0-:<-~]{1,100}/[!-.0-:<-~]{1,100}(?:;[ -~]{0,200})?\Z")
_Check = Callable[[Json], bool]


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_base64(value: Json) -> bool:
    try:
        return isinstance(value, str) and bool(a2b_base64(value, strict_mode=True) or not value)
    except ValueError:
        return False


def _is_media_type(value: Json) -> TypeGuard[str]:
    """A type and a subtype, and parameters without hidden characters."""
    return isinstance(value, str) and _MEDIA_TYPE.match(value) is not None


def _is_resource(value: Json) -> bool:
    """A resource's contents: text or bytes, and where they are from."""
    if not isinstance(value, Mapping) or not isinstance(value.get("uri"), str):
        return False
    named = value.get("mimeType")
    if named is not None and not (isinstance(named, str) and named.isprintable()):
        return False
    return isinstance(value.get("text"), str) != ("blob" in value and _is_base64(value["blob"]))


_EVERY: Final[Mapping[str, _Check]] = {"annotations": _is_object, "_meta": _is_object}


_NEEDED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "text": {"text": _is_text},
    "image": {"data": _is_base64, "mimeType": _is_media_type},
    "audio": {"data": _is_base64, "mimeType": _is_media_type},
    "resource": {"resource": _is_resource},
    "resource_link": {"uri": _is_text, "name": _is_text},
}


_ALLOWED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "resource_link": {
        "title": _is_text,
        "description": _is_text,
        "mimeType": _is_text,
        "size": is_size,
        "icons": _is_list,
    },
}
"""The members of each kind of block (MCP 2025-11-25, schema, ContentBlock). A client may refuse a whole answer for one that is wrong."""


def answered(outcome: Success) -> Success | Failed:
    """`{"content": […]}` with the blocks in their order, and `structuredContent` and `_meta` where there is some.

    A result that wants something of its caller, or that is no result yet, is Failed: none of that was offered.
    """
    result, delivery = outcome.data, outcome.delivery
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    kind = result.get("resultType", "complete")
    if kind != "complete":
        message = "the server wants something of its caller before it answers, which is not passed on"
        return failed("upstream_error", message, "use a tool that answers at once", delivery)
    wrong = result.get("isError", False)
    if not isinstance(wrong, bool):
        message = "the server's answer does not say whether the call worked: its isError is neither true nor false"
        return failed(
            "upstream_error", message, "look at what the call may have changed before it is made again", delivery
        )
    content = result.get("content")
    blocks: list[Json] = [content_block(block) for block in content] if isinstance(content, list) else []
    data: dict[str, Json] = {"content": blocks}
    if (structured := result.get("structuredContent")) is not None:
        data["structuredContent"] = structured
    if meta := kept_meta(result.get("_meta")):
        data["_meta"] = meta
    if wrong:
        written = _text(blocks)
        said = " ".join(written.split())
        message = f"the tool failed: {bounded(said, MAX_SAID_LENGTH) or 'it does not say why'}"
        error = failed("upstream_error", message, "change the arguments as the answer says", delivery).error
        plain = all(map(_is_plain, blocks)) and structured is None and not meta
        whole = written == said and len(said) <= MAX_SAID_LENGTH and plain
        return Failed(error=error, data=None if whole else data, delivery=delivery, shape=Shape.CONTENT)
    return Success(data=data, delivery=delivery, shape=Shape.CONTENT)


def contents(outcome: Success) -> Success | Failed:
    """Return the contents of a resource: a document, a file, or a list of them (MCP 2025-11-25, server/resources).

    A file that is text becomes a document, so that checks of answers read it.
    """
    result, delivery = outcome.data, outcome.delivery
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    found = result.get("contents")
    parts = [_content(one) for one in found] if isinstance(found, list) else []
    if not parts or any(part is None for part in parts):
        message = "the server's answer is no content of a resource as MCP has it"
        return failed("upstream_error", message, delivery=delivery)
    data: Json = parts[0] if len(parts) == 1 else parts
    return Success(data=data, delivery=delivery, shape=Shape.PARTS)


def _content(one: Json) -> Json:
    if not isinstance(one, Mapping) or not _is_resource(one):
        return None
    named = one.get("mimeType")
    if isinstance(text := one.get("text"), str):
        return {"uri": one["uri"], "media_type": named if isinstance(named, str) else "text/plain", "text": text}
    file: JsonObject = {
        "base64": one["blob"],
        "media_type": named.partition(";")[0] if _is_media_type(named) else "application/octet-stream",
    }
    body = file_bytes(file)
    if body is None:
        return None
    if (decoded := text_in(body)) is None:
        return file
    return {"uri": one["uri"], "media_type": named or file["media_type"], "text": visible(decoded)}


def content_block(block: Json) -> JsonObject:
    """A block as it came, with the members that its kind has; what is no block of MCP is text that says so."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in _NEEDED:
        return _unknown("a kind of content that is not passed on")
    if not all(check(block.get(name)) for name, check in _NEEDED[kind].items()):
        return _unknown(f"content of the kind {kind} that is not as MCP has it")
    members = {**_NEEDED[kind], **_ALLOWED.get(kind, {}), **_EVERY}
    kept = {name: item for name, item in block.items() if name in members and members[name](item)}
    if isinstance(resource := kept.get("resource"), Mapping):
        kept["resource"] = _with_kept_meta(resource)
    return {"type": kind, **_with_kept_meta(kept)}


def kept_meta(meta: Json) -> JsonObject:
    """The members of a `_meta` that are passed on: those of other names than the protocol and the gateway have, {} if they are too long."""
    if not isinstance(meta, Mapping):
        return {}
    kept = {name: item for name, item in meta.items() if not _RESERVED.match(name)}
    return kept if kept and len(encode_json(kept)) <= _MAX_META_SIZE else {}


def _with_kept_meta(item: JsonObject) -> JsonObject:
    if "_meta" not in item:
        return item
    rest, meta = {name: value for name, value in item.items() if name != "_meta"}, kept_meta(item["_meta"])
    return {**rest, "_meta": meta} if meta else rest


def _unknown(what: str) -> JsonObject:
    return {"type": "text", "text": f"[here the server sent {what}]"}


def _is_plain(block: Json) -> bool:
    return isinstance(block, Mapping) and block.keys() == {"type", "text"}


def _text(blocks: list[Json]) -> str:
    return "\n".join(
        text for block in blocks if isinstance(block, Mapping) and isinstance(text := block.get("text"), str)
    )
