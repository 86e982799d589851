"""A result of MCP, block by block, as programs read it that know no blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolgen.json_codec import decode_json, encode_json
from toolgen.model.schema import Json

__all__ = ["blocks_of", "plain_data", "structured_of"]

_WHOLE_LEVELS = 2
_LONGEST_COMPARED = 262_144


def blocks_of(content: Json) -> Sequence[Json]:
    """The blocks of `{"content": […]}`."""
    blocks = content.get("content") if isinstance(content, Mapping) else None
    if isinstance(blocks, str):  # a redaction of all of them
        return ({"type": "text", "text": blocks},)
    return blocks if isinstance(blocks, list | tuple) else ()


def structured_of(content: Json) -> Json:
    """The structured content beside them; None where there is none."""
    return content.get("structuredContent") if isinstance(content, Mapping) else None


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
    said = set(_sayings(structured))
    return structured if all(not text or text in said or _saying(text) in said for text in texts) else content


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
    if len(text) > _LONGEST_COMPARED:
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
