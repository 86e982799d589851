"""Listed output schema for MCP clients, and its structured content: always both or neither.

Clients refuse an answer without the structured content that a listed schema promises, and some of them show the model nothing else.
Therefore the gateway's additions to an answer are a member of it, `gateway_note`, which every listed schema has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
from msgspec import Struct

from toolgen.generator.emit.dialects import listed_schema
from toolgen.model.schema import Json, Schema
from toolgen.model.tool import Tool

__all__ = ["ListedOutput", "lenient", "listed_output"]

_NOTE = "gateway_note"
_TOLD: Schema = {
    "type": "string",
    "description": "What the gateway adds to this answer; alone, the answer as text.",
}
# Keywords that an answer with only a note would violate; the others stay at the root, where clients expect them.
_WHOLE = frozenset(
    {
        *("required", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "const", "enum"),
        *("minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas"),
    }
)
_MAPS = frozenset({"properties", "patternProperties"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_WORDS = frozenset({"title", "description", "deprecated", "examples"})
_KEPT = _WORDS | {"$ref", "$id", "$anchor", "$schema", "type"}


class ListedOutput(Struct, frozen=True, kw_only=True):
    """Listed output schema. `note` is the member for the gateway's additions; `validators` are those of the described and of the listed
    schema. The listed one accepts less for a part without `type`, and more for a keyword that became words.
    """

    schema: Schema
    note: str
    validators: tuple[jsonschema_rs.Validator, ...]

    def structured(self, data: Json, gateway_note: str, text: Callable[[], str]) -> Json:
        """Return the structured content of an answer, which fits the schema. `gateway_note` is the gateway's addition, "" for none.

        `text` returns the complete answer as text, for an answer that does not fit.
        """
        noted = data
        if gateway_note and isinstance(data, Mapping) and self.note not in data:
            noted = {**data, self.note: gateway_note}
        told = noted is not data or not gateway_note
        return noted if told and all(one.is_valid(noted) for one in self.validators) else {self.note: text()}


def listed_output(tool: Tool, *, any_root: bool = False, written: Schema | None = None) -> ListedOutput | None:
    """Return the output schema that is listed for a tool, or None.

    Answers of functions are validated against their schema before they are returned, so the schema is listed unchanged unless the source
    says otherwise. For any other tool it is listed only if its source says so. MCP versions before 2026-07-28 require the schema of an
    object; since then it may describe any value (`any_root`). `written` is the schema as it was listed before: converting a large one
    takes a tenth of a second.
    """
    form = tool.listed_output or ("strict" if tool.answers_its_schema else "none")
    if form == "none" or tool.output_schema is None:
        return None
    schema = lenient(tool.output_schema) if form == "lenient" else tool.output_schema
    if schema.get("type") != "object" and not any_root:
        return None
    return _noted(schema, written)


def _noted(schema: Schema, written: Schema | None) -> ListedOutput | None:
    """Return the schema, extended so that it also accepts a note alone, and a note in an object; None if it cannot be compiled."""
    described = schema.get("properties")
    properties: Mapping[str, Any] = described if isinstance(described, Mapping) else {}
    note = _NOTE
    while note in properties:
        note += "_"
    alone = {"required": [note]}
    made: dict[str, Any]
    if schema.get("type") == "object":
        made = {key: value for key, value in schema.items() if key not in _WHOLE}
        made["properties"] = {**properties, note: _TOLD}
        if whole := {key: value for key, value in schema.items() if key in _WHOLE}:
            made["anyOf"] = [whole, alone]
    else:
        definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
        bare = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
        made = {"anyOf": [bare, {"type": "object", "properties": {note: _TOLD}, **alone}], **definitions}
    listed = dict(listed_schema(made, "listed", root=False) if written is None else written)
    if made.get("type") == "object":  # also for several forms: clients of 2025-11-25 reject a list with another root
        listed = {"type": "object", **listed}
    try:
        validators = tuple(jsonschema_rs.validator_for(one, offline=True) for one in (made, listed))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None
    fits = all(one.is_valid({note: ""}) for one in validators)
    return ListedOutput(schema=listed, note=note, validators=validators) if fits else None


def lenient(schema: Schema) -> dict[str, Any]:
    """Return a schema with the types and names of another that also accepts null in every place, other values of an enum, unknown
    members and objects without some of their members.
    """
    built: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _KEPT:
            built[key] = value
        elif key == "enum" and isinstance(value, list):
            built.setdefault("examples", value)
        elif key == "const":
            built.setdefault("examples", [value])
        elif key in _MAPS and isinstance(value, Mapping):
            built[key] = {name: _nullable(one) for name, one in value.items()}
        elif key in _DEFINITIONS and isinstance(value, Mapping):
            built[key] = {name: _lenient(one) for name, one in value.items()}
        elif key in _LISTS and isinstance(value, list):
            if key == "prefixItems":
                built[key] = [_nullable(one) for one in value]
            # a value of exactly one schema may fit several lenient ones
            elif key != "oneOf" or "anyOf" not in schema:
                built["anyOf" if key == "oneOf" else key] = [_lenient(one) for one in value]
        elif key == "items" or (key == "additionalProperties" and isinstance(value, Mapping)):
            built[key] = _nullable(value)
    return built


def _lenient(schema: Any) -> dict[str, Any]:
    return lenient(schema) if isinstance(schema, Mapping) else {}


def _nullable(schema: Any) -> dict[str, Any]:
    made = _lenient(schema)
    kind = made.get("type", ())
    if "null" in kind or made.keys() <= _WORDS:
        return made
    return {"anyOf": [made, {"type": "null"}]}
