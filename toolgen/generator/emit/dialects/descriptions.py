"""Keywords without an equivalent in a dialect, expressed in the description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgen.core.json_codec import file_json

__all__ = ["described"]

_MAX_VALUE_LENGTH = 120
_MAX_WORDS_LENGTH = 400
_SILENT = frozenset(
    {"description", "title", "$schema", "$id", "$comment", "$defs", "contentEncoding", "readOnly", "writeOnly"}
)
_PHRASES = {
    "default": "Default: {}.",
    "const": "Always {}.",
    "enum": "One of {}.",
    "format": "Format: {}.",
    "pattern": "Matches the regular expression {}.",
    "multipleOf": "A multiple of {}.",
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "minProperties": "At least {} properties.",
    "maxProperties": "At most {} properties.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "additionalProperties": "Other properties match {}.",
    "not": "Does not match {}.",
    "contentMediaType": "Content of type {}.",
}


def described(schema: dict[str, Any], node: dict[str, Any], unsaid: Iterable[str]) -> dict[str, Any]:
    """Return `schema` with the author's description of `node`, followed by texts for its keywords `unsaid`, in their order.

    The length is limited: a value is shown up to 120 characters, all texts together up to 400.
    """
    text = node.get("description")
    parts = [text] if isinstance(text, str) and text else []
    room = _MAX_WORDS_LENGTH
    for keyword in unsaid:
        phrase = _phrase(keyword, node[keyword])
        if not phrase or len(phrase) > room or any(phrase in part for part in parts):
            continue
        room -= len(phrase)
        parts.append(phrase)
    if not parts:
        return schema
    return {**schema, "description": " ".join(_sentence(part) for part in parts)}


def _phrase(keyword: str, value: Any) -> str:
    if keyword in _SILENT:
        return ""
    if keyword == "deprecated":
        return "Deprecated." if value is True else ""
    if keyword == "uniqueItems":
        return "No two items are equal." if value is True else ""
    if keyword == "examples":
        return f"For example {_value(value[0])}." if isinstance(value, list) and value else ""
    if keyword in {"default", "const"}:
        return _PHRASES[keyword].format(_value(value))
    if keyword == "additionalProperties" and isinstance(value, bool):
        return "" if value else "No other properties."
    if keyword == "oneOf":
        return ""  # expressed as anyOf; the exclusion of the branches requires nothing from the author of a value
    template = _PHRASES.get(keyword)
    return template.format(_shown(value)) if template else f"{keyword}: {_shown(value)}."


def _value(value: Any) -> str:
    """Format a value; a list is written as JSON."""
    return _bounded(file_json(value).decode()) if isinstance(value, list) else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(_shown(item) for item in value[:30])
        text += ", …" if len(value) > 30 else ""
    elif isinstance(value, str):
        text = value if value and value == value.strip() else f'"{value}"'
    else:
        text = file_json(value).decode()
    return _bounded(text)


def _bounded(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."
