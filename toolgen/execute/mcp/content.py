"""What a tool of an MCP server answered, as the data of a call: its content block by block, and structured content beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from toolgen.execute.mcp.messages import failed
from toolgen.model.result import Failed, Shape, Success, bounded
from toolgen.model.schema import Json, JsonObject

__all__ = ["answered"]

_LONGEST_SAID = 800
_Check = Callable[[Json], bool]


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_resource(value: Json) -> bool:
    """A resource's contents: text or bytes, and where they are from."""
    if not isinstance(value, Mapping) or not isinstance(value.get("uri"), str):
        return False
    return isinstance(value.get("text"), str) != isinstance(value.get("blob"), str)


_EVERY: Final[Mapping[str, _Check]] = {"annotations": _is_object, "_meta": _is_object}
_NEEDED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "text": {"text": _is_text},
    "image": {"data": _is_text, "mimeType": _is_text},
    "audio": {"data": _is_text, "mimeType": _is_text},
    "resource": {"resource": _is_resource},
    "resource_link": {"uri": _is_text, "name": _is_text},
}
_ALLOWED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "resource_link": {
        "title": _is_text,
        "description": _is_text,
        "mimeType": _is_text,
        "size": _is_size,
        "icons": _is_list,
    },
}
"""The members of each kind of block (MCP 2025-11-25, schema, ContentBlock). A client may refuse a whole answer for one that is wrong."""


def answered(outcome: Success) -> Success | Failed:
    """`{"content": […]}` with the blocks in their order, and `structuredContent` where there is some.

    A result that wants something of its caller, or that is no result yet, is Failed: none of that was offered.
    """
    result, facts = outcome.data, outcome.facts
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    kind = result.get("resultType", "complete")
    if kind != "complete":
        message = "the server wants something of its caller before it answers, which is not passed on"
        return failed("upstream_error", message, "use a tool that answers at once", facts)
    wrong = result.get("isError", False)
    if not isinstance(wrong, bool):
        message = "the server's answer does not say whether the call worked: its isError is neither true nor false"
        return failed(
            "upstream_error", message, "look at what the call may have changed before it is made again", facts
        )
    content = result.get("content")
    blocks: list[Json] = [_block(block) for block in content] if isinstance(content, list) else []
    data: dict[str, Json] = {"content": blocks}
    if (structured := result.get("structuredContent")) is not None:
        data["structuredContent"] = structured
    if wrong:
        said = " ".join(_text(blocks).split())
        message = f"the tool failed: {bounded(said, _LONGEST_SAID) or 'it does not say why'}"
        error = failed("upstream_error", message, "change the arguments as the answer says", facts).error
        whole = len(said) <= _LONGEST_SAID and all(_is_plain(block) for block in blocks) and structured is None
        return Failed(error=error, data=None if whole else data, facts=facts, shape=Shape.CONTENT)
    return Success(data=data, facts=facts, shape=Shape.CONTENT)


def _block(block: Json) -> JsonObject:
    """A block as it came, with the members that its kind has; what is no block of MCP is text that says so."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in _NEEDED:
        return _unknown("a kind of content that is not passed on")
    if not all(check(block.get(name)) for name, check in _NEEDED[kind].items()):
        return _unknown(f"content of the kind {kind} that is not as MCP has it")
    members = {**_NEEDED[kind], **_ALLOWED.get(kind, {}), **_EVERY}
    kept = {name: item for name, item in block.items() if name in members and members[name](item)}
    return {"type": kind, **kept}


def _unknown(what: str) -> JsonObject:
    return {"type": "text", "text": f"[here the server sent {what}]"}


def _is_plain(block: Json) -> bool:
    return isinstance(block, Mapping) and block.keys() == {"type", "text"}


def _text(blocks: list[Json]) -> str:
    return "\n".join(
        text for block in blocks if isinstance(block, Mapping) and isinstance(text := block.get("text"), str)
    )
