"""JSON form of scalars: exact for GraphQL's own, a careful guess for well-known custom ones, any JSON value for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolgen.model import graphql_schema
from toolgen.model.file_arguments import FILE_SCHEMA
from toolgen.model.schema import Schema

__all__ = ["UPLOAD", "input_scalar", "is_upload", "output_scalar"]

_ANY = ["string", "number", "boolean", "object", "array"]
_TEXT: Schema = {"type": "string"}

# GraphQL spec October 2021, section 3.5: Int is a signed 32-bit integer; an ID is taken as a string or an integer.
_OWN: Mapping[str, Schema] = MappingProxyType(
    {
        "Int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        "Float": {"type": "number"},
        "String": _TEXT,
        "Boolean": {"type": "boolean"},
        "ID": {"type": ["string", "integer"]},
    }
)


def _each(names: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


# Types by lower-case name without underscores. A too narrow type makes a tool useless, a too wide one costs an error from the server; so
# only names with one common meaning are listed. `format` is an annotation in 2020-12, not a check.
_KNOWN: Mapping[str, Schema] = MappingProxyType(
    {
        **_each("datetime iso8601datetime timestamptz", {"type": "string", "format": "date-time"}),
        **_each("date iso8601date", {"type": "string", "format": "date"}),
        **_each("uuid guid", {"type": "string", "format": "uuid"}),
        **_each("uri url", {"type": "string", "format": "uri"}),
        **_each("email emailaddress", {"type": "string", "format": "email"}),
        **_each(
            "time localtime localdate localdatetime duration html markdown citext base64string hexcolorcode", _TEXT
        ),
        **_each(
            "bigint long int64 uint64 unsignedint64 bigserial", {"type": ["integer", "string"], "pattern": "^-?[0-9]+$"}
        ),
        **_each("bigdecimal decimal numeric money float8 double positivedecimal", {"type": ["number", "string"]}),
        **_each("jsonobject map", {"type": "object"}),
    }
)

# A file, for the multipart request specification. A text is passed unchanged, for services that accept a reference.
UPLOAD: Schema = {**FILE_SCHEMA, "type": ["object", "string"]}


def is_upload(name: str) -> bool:
    """Return True if values of this scalar are files."""
    return name == graphql_schema.UPLOAD


def input_scalar(name: str, configured: Mapping[str, Schema]) -> Schema:
    """Return the JSON Schema of a scalar in variables; never null."""
    own = _OWN.get(name, configured.get(name))
    if own is not None:
        return own
    return UPLOAD if is_upload(name) else _KNOWN.get(_plain(name), {"type": _ANY})


def output_scalar(name: str) -> Schema:
    """Return the JSON Schema of a scalar in answers, as far as the spec guarantees it. A custom scalar may be any JSON value."""
    match name:
        case "Int":
            return {"type": "integer"}
        case "ID":
            return _TEXT
        case "Float" | "String" | "Boolean":
            return _OWN[name]
        case _:
            return {}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
