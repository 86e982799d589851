"""What a dialect cannot say in keywords, said in the description instead.

What every provider demands of the outermost schema: an object, and no union of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgen.emit.dialects.merge import merged
from toolgen.json_codec import file_json
from toolgen.model.schema import Schema

__all__ = ["described", "rooted"]

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
    """`schema` with the author's description of `node`, followed by what its keywords `unsaid` would have said, in their order.

    Bounded: a value is shown up to 120 characters, all words together up to 400.
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
        return f"For example {_shown(value[0])}." if isinstance(value, list) and value else ""
    if keyword == "additionalProperties" and isinstance(value, bool):
        return "" if value else "No other properties."
    if keyword == "oneOf":
        return ""  # said as anyOf; that the branches exclude each other asks nothing more of the one who fills it in
    template = _PHRASES.get(keyword)
    return template.format(_shown(value)) if template else f"{keyword}: {_shown(value)}."


def _shown(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(_shown(item) for item in value[:30])
        text += ", …" if len(value) > 30 else ""
    elif isinstance(value, str):
        text = value if value and value == value.strip() else f'"{value}"'
    else:
        text = file_json(value).decode()
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."


_REFUSED = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref")


def rooted(schema: Schema) -> Schema:
    """The schema with a root that OpenAI, Anthropic and Bedrock take: `type: object`, its combinators merged or put into words.

    Both APIs answer 400 to `anyOf`, `oneOf`, `allOf`, `not` or `enum` at the top. The result accepts at least what the schema accepts.
    """
    if schema.get("type") == "object" and not any(key in schema for key in _REFUSED):
        return schema
    definitions = schema.get("$defs", {})
    built: dict[str, Any] = dict(schema)
    if "allOf" in built or "$ref" in built:
        flat = merged(built, definitions)
        built = {**built, **flat} if flat is not None else built
        if flat is not None:
            built.pop("allOf", None)
            built.pop("$ref", None)
    unsaid = [key for key in _REFUSED if key in built and key not in ("then", "else", "$ref")]
    kept = {key: value for key, value in built.items() if key not in _REFUSED}
    return described({**kept, "type": "object", "properties": built.get("properties", {})}, built, unsaid)
