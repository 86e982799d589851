"""Checks that every argument of a tool is sent, and that every described value is filled by an argument or by the gateway."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolgen.connectors.openapi.proof.known_differences import GOOGLES, SIGNATURE, TOKENS
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.model.http import is_gateway_header
from toolgen.model.manifest import SecurityScheme
from toolgen.model.media_types import MEDIA_TYPE
from toolgen.model.parameter_names import described_override, may_be_one
from toolgen.model.tool import HttpBinding, HttpKey, Tool

__all__ = ["no_key", "unbound"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_NAMED_AFTER = 40  # characters; longer names are cut and end in a distinguishing suffix


def unbound(
    tool: Tool, binding: HttpBinding, described: SpecOperation, schemes: Mapping[str, SecurityScheme]
) -> str | None:
    """Return an argument that is not sent, or a described value that no argument fills; None if there is neither."""
    body = binding.body
    bound = {one.argument: one.name for one in binding.parameters}
    if body is not None:
        bound.update({body.argument: ""} if body.argument is not None else body.properties)
    for argument in tool.input_schema.get("properties") or {}:
        if argument not in bound:
            return f"the argument {argument!r} is sent nowhere"
    wires = {one["name"] for one in described.parameters}
    for argument, wire in bound.items():
        if argument == wire or argument.startswith(_UNFIT.sub("_", wire).strip("_.-")[:_NAMED_AFTER]):
            continue
        if argument in wires and wire in wires:
            return f"the argument {argument!r} is sent as {wire!r}, which is another parameter"
    credentials = [(one.in_, one.name) for one in schemes.values() if one.name]
    tokens = any(one.type in {"http", "oauth2", "openIdConnect"} for one in schemes.values())
    places = {(one.in_, one.name) for one in binding.parameters}
    places |= {(one.parameter.in_, one.parameter.name) for one in binding.constants or ()}
    google = {one["name"] for one in described.parameters if one["in"] == "query"} >= {
        "alt",
        "prettyPrint",
        "quotaUser",
    }
    if isinstance(binding.key, HttpKey):
        places.add(("header", binding.key.header))
    for one in described.parameters:
        place, name = one["in"], one["name"]
        if (place, name) in places or any(place == in_ and may_be_one(own, name) for in_, own in credentials):
            continue
        if place == "query" and (described_override(name) or (google and name in GOOGLES)):
            continue
        if (
            tokens
            and name.lower().replace("_", "").replace("-", "") in TOKENS
            and place in {"query", "header", "cookie"}
        ):
            continue
        if name.lower() in SIGNATURE and place in {"query", "header"} and ("header", "Authorization") in credentials:
            continue
        if place == "path" and f"{{{name}}}" not in described.path:
            continue
        if place in {"header", "cookie"} and (is_gateway_header(name) or not _TOKEN.match(name)):
            continue
        return f"no argument reaches the {place} parameter {name!r}"
    return "no argument reaches the body" if body is None and _takes_body(described) else None


def no_key(binding: HttpBinding, described: SpecOperation, key_header: str) -> str | None:
    """Return a header that the gateway fills in although neither its name, its description nor toolgen.yaml calls it an idempotency key."""
    if not isinstance(binding.key, HttpKey):
        return None
    name = binding.key.header
    if key_header.lower() == name.lower():
        return None
    for one in described.written:
        if one.get("in") == "header" and one.get("name") == name:
            said = f"{name} {one.get('description', '')}".lower()
            return (
                None if "idempot" in said else f"the gateway fills in the header {name!r}, which is no idempotency key"
            )
    return f"the gateway fills in the header {name!r}, which the description does not have"


def _takes_body(described: SpecOperation) -> bool:
    """Return True if the description has a body that can be sent: a required one, or one with a valid media type and a non-empty schema."""
    if described.body is None:
        return False
    kinds = [
        kind
        for kind, media in described.body["content"].items()
        if not _is_nothing(described.schema(media.get("schema")))
    ]
    return described.body.get("required") is True or any(
        MEDIA_TYPE.match(kind.strip()) or "*" in kind for kind in kinds
    )


def _is_nothing(schema: Any) -> bool:
    """Return True if the schema is an object that declares no properties and allows none, so an agent has nothing to send."""
    words = {"allOf", "anyOf", "oneOf", "patternProperties"}
    if not isinstance(schema, Mapping) or schema.get("properties") != {} or words & schema.keys():
        return False
    return schema.get("type", "object") in ("object", ["object"]) and schema.get("additionalProperties") in (
        None,
        False,
    )
