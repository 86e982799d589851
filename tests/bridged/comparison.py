"""Comparison of an answer through the gateway with the answer of the server: equal, refused, or different."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tests.bridged.sessions import Request

__all__ = ["Outcome", "compare"]

Outcome = Literal["equal", "refused", "both refuse"]
_REFUSALS = ("validation: ", "forbidden: ", "unknown_tool: ", "not_found: ")
_MAX_SAID_LENGTH = 1500
_MAX_REPEATED_LENGTH = 100
_NOTE = "gateway_note"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def compare(request: Request, direct: Mapping[str, Any], bridged: Mapping[str, Any]) -> Outcome:
    """Say how the two agree. Raises `AssertionError` with the difference."""
    if refused(bridged, request):
        wrong = "error" in direct or direct["result"].get("isError")
        assert not request.valid or wrong, f"refused, although its schema accepts it: {bridged}"
        return "both refuse" if wrong else "refused"
    if "error" in direct:
        assert repeats(first_text(bridged), direct["error"]["message"]), f"another error: {bridged} != {direct}"
        return "equal"
    assert "error" not in bridged, f"an error of the gateway: {bridged} != {direct}"
    expected, found = dict(direct["result"]), dict(bridged["result"])
    if request.method == "tools/call":
        expected, found = without_colours(of_tool(expected)), of_tool(found)
        if expected["isError"]:
            without_head(expected, found)
        else:
            without_additions(expected, found)
    assert found == expected, "; ".join(differences(found, expected))[:_MAX_SAID_LENGTH]
    assert bridged["progress"] == direct["progress"], (bridged["progress"], direct["progress"])
    assert bridged["linked"] == direct["linked"], (bridged["linked"], direct["linked"])
    return "equal"


def differences(found: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Yield each place where two values differ, with both."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted(found.keys() | expected.keys()):
            yield from differences(found.get(name), expected.get(name), f"{place}/{name}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{place}/{number}")
    elif found != expected:
        yield f"{place}: {str(found)[:200]!r} != {str(expected)[:200]!r}"


def refused(answer: Mapping[str, Any], request: Request) -> bool:
    """True if the gateway refused a request by its own checks, before the server was asked."""
    text = first_text(answer)
    if "error" in answer:
        return answer["error"]["code"] in {-32601, -32602, -32002} and not text.startswith("upstream")
    return request.method == "tools/call" and bool(answer["result"].get("isError")) and text.startswith(_REFUSALS)


def first_text(answer: Mapping[str, Any]) -> str:
    """The message of an error, or the first text of a result."""
    if "error" in answer:
        return str(answer["error"]["message"])
    texts = [block["text"] for block in answer["result"].get("content", []) if "text" in block]
    return str(texts[0]) if texts else ""


def repeats(text: str, error: str) -> bool:
    """True if a text of the gateway repeats an error of the server, in one line; a long error is shortened."""
    return _line(error)[:_MAX_REPEATED_LENGTH] in _line(text)


def _line(text: str) -> str:
    return " ".join(text.removeprefix("MCP error ").split())


def of_tool(result: Mapping[str, Any]) -> dict[str, Any]:
    """Content, structured content and whether it failed."""
    return {
        "content": list(result.get("content", [])),
        "structured": result.get("structuredContent"),
        "isError": bool(result.get("isError")),
    }


def without_colours(value: Any) -> Any:
    """A value without terminal colours, as control characters are taken out of answers."""
    match value:
        case str():
            return _COLOUR.sub("", value)
        case list():
            return [without_colours(one) for one in value]
        case dict():
            return {name: without_colours(one) for name, one in value.items()}
        case _:
            return value


def without_head(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Take out the text that the gateway puts before an error. A single line of plain text stands in it and is not repeated."""
    first, *found["content"] = found["content"] or [{"text": ""}]
    assert first["text"].startswith("upstream_error: "), f"no error: {first}"
    if not found["content"]:
        (line,) = expected["content"]
        assert repeats(first["text"], line["text"]), (first, line)
        found["content"] = [line]
    found["structured"] = expected["structured"]


def without_additions(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Take out what docs/how-to/bridging.md says that the gateway adds to an answer: the note on left out arguments, `gateway_note`, the
    text of structured content that no block repeats (in place of texts that are a part of it), and the text before a link."""
    blocks, structured = found["content"], expected["structured"]
    if blocks and blocks[0].get("text", "").startswith("[Left out, as the tool has no such argument"):
        blocks = blocks[1:]
    blocks = [
        block for block in blocks if not ("toolgen://answers/" in block.get("text", "") and block["type"] == "text")
    ]
    if structured is not None and blocks and blocks != expected["content"] and said_as_json(blocks[-1], structured):
        kept = [block for block in expected["content"] if block["type"] != "text"]
        blocks = [*(blocks[:-1] or expected["content"])]
        assert blocks in (expected["content"], kept)
        blocks = expected["content"]
    found["content"] = [with_uri(block, other) for block, other in zip(blocks, expected["content"], strict=False)]
    found["content"] += blocks[len(found["content"]) :]
    if isinstance(found["structured"], dict) and _NOTE in found["structured"]:
        found["structured"] = {name: value for name, value in found["structured"].items() if name != _NOTE}


def said_as_json(block: Mapping[str, Any], structured: Any) -> bool:
    """True for a text block with the JSON of the structured content."""
    try:
        return bool(json.loads(block["text"]) == structured)
    except (KeyError, ValueError):
        return False


def with_uri(block: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """A link with the URI that the server gave it."""
    if block.get("type") != "resource_link" or not str(block.get("uri")).startswith("toolgen://answers/"):
        return block
    meta = {name: value for name, value in block.get("_meta", {}).items() if name != "toolgen/uri"}
    made = {**block, "uri": other.get("uri"), "_meta": meta}
    return made if meta else {name: value for name, value in made.items() if name != "_meta"}
