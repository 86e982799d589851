"""What every provider demands of the outermost schema: an object, and no union of objects."""

from __future__ import annotations

from typing import Any

from toolgen.emit.dialects.merge import merged
from toolgen.emit.dialects.words import described
from toolgen.model.schema import Schema

__all__ = ["rooted"]

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
