"""What a tool of an MCP server answered, as the data of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolgen.execute.mcp.messages import failed
from toolgen.model.result import Failed, Success, bounded
from toolgen.model.schema import Json, JsonObject

__all__ = ["answered"]

_LONGEST_SAID = 800
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name", "title", "description", "mimeType"),
}


def answered(outcome: Success) -> Success | Failed:
    """Structured content where there is some, text where there is nothing else, and otherwise `{"content": […]}`.

    A result that wants something of its caller, or that is no result yet, is Failed: none of that was offered.
    """
    result, facts = outcome.data, outcome.facts
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    kind = result.get("resultType", "complete")
    if kind != "complete":
        message = "the server wants something of its caller before it answers, which is not passed on"
        return failed("upstream_error", message, "use a tool that answers at once", facts)
    blocks = _blocks(result.get("content"))
    if result.get("isError") is True:
        said = bounded(" ".join(_text(blocks).split()), _LONGEST_SAID) or "it does not say why"
        return failed("upstream_error", f"the tool failed: {said}", "change the arguments as the answer says", facts)
    structured = result.get("structuredContent")
    if structured is not None:
        return Success(data=structured, facts=facts)
    if blocks and all(block["type"] == "text" for block in blocks):
        return Success(data=_text(blocks), facts=facts)
    content: list[Json] = [*blocks]
    return Success(data={"content": content}, facts=facts)


def _blocks(content: Json) -> list[JsonObject]:
    """The blocks of the known kinds, each with what belongs to its kind."""
    found: list[JsonObject] = []
    for block in content if isinstance(content, list) else []:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, Mapping) and isinstance(kind, str) and kind in _KEPT:
            found.append({"type": kind, **{key: block[key] for key in _KEPT[kind] if key in block}})
    return found


def _text(blocks: list[JsonObject]) -> str:
    return "\n".join(text for block in blocks if isinstance(text := block.get("text"), str))
