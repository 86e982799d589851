"""Values of BigQuery's REST interface, in which every scalar is a text: types of columns, cells of rows, and parameters.

https://cloud.google.com/bigquery/docs/reference/rest/v2/tables#TableFieldSchema
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

from toolgen.model.schema import Json

__all__ = ["UnknownValueError", "decoded", "fields_of", "parameters", "type_name"]

_MAX_DEPTH: Final = 15  # levels of structs that a table can have
_NAMES: Final = MappingProxyType({"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECLARED: Final = MappingProxyType({"integer": "INT64", "number": "FLOAT64", "boolean": "BOOL", "string": "STRING"})


class UnknownValueError(Exception):
    """Schema or value in a form that the interface does not describe."""


def type_name(field: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type of a field as GoogleSQL writes it: `ARRAY<STRUCT<city STRING>>`. Raises `UnknownValueError`."""
    written = field.get("type")
    if not isinstance(written, str) or depth > _MAX_DEPTH:
        raise UnknownValueError
    name = _NAMES.get(written, written)
    if name == "STRUCT":
        inner = (f"{one.get('name')} {type_name(one, depth + 1)}" for one in fields_of(field))
        name = f"STRUCT<{', '.join(inner)}>"
    return f"ARRAY<{name}>" if field.get("mode") == "REPEATED" else name


def fields_of(schema: object) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a schema or of a struct. Raises `UnknownValueError`."""
    found = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in found
    ):
        raise UnknownValueError
    return found


def decoded(cell: object, field: Mapping[str, Any]) -> object:
    """Return the value of a cell `{"v": …}` of a field. Raises `UnknownValueError`."""
    value = cell.get("v") if isinstance(cell, dict) else None
    if field.get("mode") == "REPEATED":
        if not isinstance(value, list):
            raise UnknownValueError
        return [_one(item.get("v") if isinstance(item, dict) else None, field) for item in value]
    return _one(value, field)


def _one(value: object, field: Mapping[str, Any]) -> object:
    if value is None:
        return None
    kind = _NAMES.get(str(field.get("type")), field.get("type"))
    if kind == "STRUCT":
        fields, cells = fields_of(field), value.get("f") if isinstance(value, dict) else None
        if not isinstance(cells, list) or len(cells) != len(fields):
            raise UnknownValueError
        return {one["name"]: decoded(cell, one) for cell, one in zip(cells, fields, strict=True)}
    if not isinstance(value, str):
        raise UnknownValueError
    try:
        return _scalar(value, kind)
    except (ValueError, InvalidOperation, binascii.Error, OverflowError):
        raise UnknownValueError from None


def _scalar(value: str, kind: object) -> object:
    match kind:
        case "INT64":
            return int(value)
        case "FLOAT64":
            return float(value)
        case "BOOL":
            if value not in {"true", "false"}:
                raise UnknownValueError
            return value == "true"
        case "NUMERIC" | "BIGNUMERIC":
            return Decimal(value)
        case "BYTES":
            return base64.b64decode(value, validate=True)
        case "TIMESTAMP":
            return _timestamp(value)
        case "DATETIME":
            return value.replace("T", " ")
        case _:
            return value


def _timestamp(value: str) -> str:
    """Return a time of UTC. It is a number of microseconds, as was asked for; an emulator may have texts."""
    if not value.lstrip("-").isdigit():
        return value
    written = (_EPOCH + timedelta(microseconds=int(value))).isoformat(" ")
    return written.replace("+00:00", "") + "+00:00"


def parameters(values: Sequence[Json], types: Sequence[str]) -> list[dict[str, object]]:
    """Return the parameters of a statement. `types` are their declared JSON types, of which one without a value takes its type."""
    return [_parameter(value, types[place] if place < len(types) else "") for place, value in enumerate(values)]


def _parameter(value: Json, declared: str) -> dict[str, object]:
    match value:
        case None:
            kind, written = _DECLARED.get(declared, "STRING"), None
        case bool():
            kind, written = "BOOL", "true" if value else "false"
        case int():
            kind, written = "INT64", str(value)
        case float():
            kind, written = "FLOAT64", repr(value)
        case _:
            kind, written = "STRING", str(value)
    return {"parameterType": {"type": kind}, "parameterValue": {"value": written}}
