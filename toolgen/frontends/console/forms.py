"""Form of a tool: its fields by the schema, and the arguments in a sent form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from toolgen.gateway.calls.json_body import Malformed, decode
from toolgen.model.schema import JsonObject, Schema

__all__ = ["FormError", "FormField", "arguments_of", "fields_of"]

_PREFIX = "argument."
_MAX_CHOICES = 200
_LONG_TEXT = 200


class FormField(Struct, frozen=True, kw_only=True):
    """Form field for an argument: how its value is typed (`text`, `number`, `boolean`, `choice`, `json`), with its description and hint."""

    name: str
    kind: str
    required: bool
    description: str
    hint: str
    choices: tuple[str, ...]
    value: str
    long: bool

    @property
    def key(self) -> str:
        """Name of the field in the form data."""
        return _PREFIX + self.name


class FormError(ValueError):
    """Form with fields that are not valid arguments. The text names the field and the remedy."""


def fields_of(schema: Schema, form: Mapping[str, str]) -> tuple[FormField, ...]:
    """Return the fields of a form, required ones first, with the values that were typed before."""
    required = frozenset(schema.get("required", ()))
    found = [
        _field(name, _resolved(part, schema), required=name in required, value=form.get(_PREFIX + name, ""))
        for name, part in schema.get("properties", {}).items()
        if isinstance(part, Mapping)
    ]
    return tuple(sorted(found, key=lambda field: not field.required))


def arguments_of(schema: Schema, form: Mapping[str, str]) -> JsonObject:
    """Return the arguments in a form: the fields that are not empty, or the JSON object in the field `json`. Raises `FormError`."""
    whole = form.get("json", "").strip()
    if whole:
        found = _json(whole, "The arguments")
        if not isinstance(found, dict):
            raise FormError('The arguments are not a JSON object like {"name": 1}.')
        return found
    return dict(_typed(schema, form))


def _typed(schema: Schema, form: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for field in fields_of(schema, form):
        text = field.value if field.kind == "text" else field.value.strip()
        if not text:
            continue
        match field.kind:
            case "text":
                yield field.name, text.replace("\r\n", "\n")
            case "number":  # the gateway refuses a text that is not a number, with its own message
                yield field.name, _json(text, field.name) if _is_number(text) else text
            case "boolean":
                yield field.name, text == "true"
            case _:
                yield field.name, _json(text, field.name)


def _field(name: str, part: Mapping[str, Any], *, required: bool, value: str) -> FormField:
    kinds = part.get("type")
    kind = next((item for item in kinds if item != "null"), "") if isinstance(kinds, list) else kinds
    choices = part.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MAX_CHOICES:
        # A choice is sent back as JSON, so that the text "1" and the number 1 stay different.
        form, listed = "choice", tuple(json.dumps(item, ensure_ascii=False) for item in choices if item is not None)
    else:
        form = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}.get(str(kind), "json")
        listed = ()
    longest = part.get("maxLength")
    return FormField(
        name=name,
        kind=form,
        required=required,
        description=str(part.get("description", "")),
        hint=_hint(part, str(kind or "any JSON")),
        choices=listed,
        value=value,
        long=form == "json" or (isinstance(longest, int) and longest > _LONG_TEXT),
    )


def _hint(part: Mapping[str, Any], kind: str) -> str:
    """Return the bounds of a value as text."""
    words = {
        "format": "format {}",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "pattern": "like {}",
        "default": "{} unless said",
    }
    return ", ".join([kind, *(text.format(part[name]) for name, text in words.items() if name in part)])


def _resolved(part: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """Return the schema of a property; a reference is replaced by the definition of the tool's schema."""
    name = part.get("$ref")
    if not isinstance(name, str) or not name.startswith("#/$defs/"):
        return part
    found = schema.get("$defs", {}).get(name.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~"))
    return (
        {**found, **{key: value for key, value in part.items() if key != "$ref"}}
        if isinstance(found, Mapping)
        else part
    )


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).replace("e", "", 1).replace("+", "").replace("-", "").isdigit()


def _json(text: str, name: str) -> Any:
    try:
        return decode(text.encode("utf-8", "strict"), Any)
    except (Malformed, ValueError):
        raise FormError(f'{name}: this is not JSON. Write text in quotes, like "open".') from None
