"""Content blocks of an MCP result, converted for programs that do not know blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from toolgen.core.json_codec import decode_json, encode_json
from toolgen.model.schema import Json

__all__ = ["blocks_of", "meta_of", "plain_data", "structured_of", "text_repeats", "texts_beside"]

_WHOLE_LEVELS = 2


_MAX_COMPARED_LENGTH = 262_144


def blocks_of(content: Json) -> Sequence[Json]:
    """Return the blocks of `{"content": […]}`."""
    blocks = content.get("content") if isinstance(content, Mapping) else None
    if isinstance(blocks, str):  # a redaction of all of them
        return ({"type": "text", "text": blocks},)
    return blocks if isinstance(blocks, list | tuple) else ()


def structured_of(content: Json) -> Json:
    """Return the structured content beside them; None if there is none."""
    return content.get("structuredContent") if isinstance(content, Mapping) else None


def meta_of(content: Json) -> Mapping[str, Json]:
    """Return the `_meta` of a result: information of its server for clients, neither data nor text for a model."""
    meta = content.get("_meta") if isinstance(content, Mapping) else None
    return meta if isinstance(meta, Mapping) else {}


def texts_beside(content: Json) -> list[str]:
    """Return the texts of a result that repeat no part of its structured content."""
    texts = [text for block in blocks_of(content) if (text := _text_of(block))]
    structured = structured_of(content)
    if structured is None or not texts:
        return texts
    said = set(_text_forms(structured))
    return [text for text in texts if text not in said and _text_form(text) not in said]


def _text_of(block: Json) -> str:
    return str(block["text"]) if isinstance(block, Mapping) and block.get("type") == "text" else ""


def text_repeats(content: Json) -> bool:
    """Return True if the blocks of a result repeat its structured content, as MCP recommends to servers: completely, or member by
    member. A member may also be another block itself, such as an image.
    """
    blocks = blocks_of(content)
    texts = {_text_of(block) for block in blocks}
    others = {_written(block) for block in blocks if isinstance(block, Mapping) and block.get("type") != "text"}
    return _is_repeated(structured_of(content), texts | others | {_text_form(text) for text in texts})


def _is_repeated(value: Json, said: Set[str]) -> bool:
    if (value if isinstance(value, str) else _written(value)) in said:
        return True
    match value:
        case Mapping() if len(value) == 1:
            return _is_repeated(next(iter(value.values())), said)
        case list() | tuple() if value:
            return all(_is_repeated(item, said) for item in value)
        case _:
            return False


def plain_data(content: Json) -> Json:
    """Return the text if there is nothing else, structured content if all text repeats a part of it, and otherwise both unchanged."""
    if isinstance(content, Mapping) and "_meta" in content:
        content = {name: part for name, part in content.items() if name != "_meta"}
    blocks, structured = blocks_of(content), structured_of(content)
    texts = [str(block["text"]) for block in blocks if isinstance(block, Mapping) and block.keys() == {"type", "text"}]
    if len(texts) < len(blocks):
        return content
    if structured is None:
        return "\n".join(texts)
    if not texts:
        return structured
    return content if texts_beside(content) else structured


def _text_forms(value: Json, depth: int = 0) -> Iterator[str]:
    """Return the texts that repeat a part of a value: the text of a member, its JSON, or that of an object near the top."""
    if isinstance(value, str):
        yield value
        return
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if items is None or depth <= _WHOLE_LEVELS:
        yield _written(value)
    for item in items or ():
        yield from _text_forms(item, depth + 1)


def _text_form(text: str) -> str:
    """Return a text that is JSON, in the form of `_text_forms`."""
    if len(text) > _MAX_COMPARED_LENGTH:
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
