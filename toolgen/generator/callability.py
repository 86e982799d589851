"""Callability of tools: a server, usable credentials, and required arguments with possible values."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from toolgen.connectors.syntax import escape
from toolgen.model.auth_schemes import chosen, sendable, takes
from toolgen.model.manifest import Problem, SecurityScheme
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.tool import Tool

__all__ = ["names_in_short", "obstacle", "uncallable", "unfulfillable", "unpaid"]

_SHOWN = 5
_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_MAX_DEPTH = 20


def unfulfillable(tools: Iterable[Tool]) -> list[Problem]:
    """Return a warning for each optional argument without a possible value: a call with it is always refused."""
    possible: dict[int, _Possible] = {}
    found = []
    for tool in tools:
        schema = tool.input_schema
        required = schema.get("required", ())
        for name, one in schema.get("properties", {}).items():
            if name not in required and not _possible_of(schema, possible).has_value(one):
                message = f"{tool.name}: no value exists for its argument {name!r} (/properties/{escape(name)})"
                found.append(
                    Problem(
                        level="warning", source=tool.source, origin=tool.origin, code="unfulfillable", message=message
                    )
                )
    return found


def uncallable(
    tools: Iterable[Tool], schemes: Mapping[str, SecurityScheme], problems: Iterable[Problem]
) -> list[Problem]:
    """Return a warning for each tool of a source to which no call can succeed, whatever the configuration."""
    possible: dict[int, _Possible] = {}
    headers = {one.origin: one.message for one in problems if one.code == "gateway_header"}
    found = []
    for tool in tools:
        if reason := obstacle(tool, schemes, possible) or headers.get(tool.origin, ""):
            message = f"{tool.name} can never be called: {reason}"
            found.append(
                Problem(level="warning", source=tool.source, origin=tool.origin, code="uncallable", message=message)
            )
    return found


def obstacle(tool: Tool, schemes: Mapping[str, SecurityScheme], possible: dict[int, _Possible] | None = None) -> str:
    """Return the reason why no call of a tool can succeed, or "". `possible` is a cache shared by several tools."""
    http = tool.http
    if http is not None:
        if not any(_reachable(server) for server in http.servers):
            return "its description has no usable server; set `server:` for its source in toolgen.yaml"
        if http.security and () not in http.security:
            lacking = [_unshowable(option, schemes) for option in http.security]
            if all(lacking):
                return lacking[0]
    if name := _missing(tool.input_schema, {} if possible is None else possible):
        return f"no value exists for its required argument {name!r}"
    return ""


def _reachable(server: str) -> bool:
    try:
        parts = urlsplit(server)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _unshowable(option: tuple[str, ...], schemes: Mapping[str, SecurityScheme]) -> str:
    for name in option:
        if name not in schemes:
            return (
                f"it needs the security scheme {name[:80]!r}, which is not described; configure it in toolgen.yaml: "
                f"auth: {{{name[:80]}: {{name: …, in: header, value: …}}}}"
            )
        if not sendable(schemes[name]):
            return f"it needs the security scheme {name[:80]!r}, which takes {takes(schemes[name])}; set `auth: none` if it is open"
    return ""


def unpaid(tools: Iterable[Tool], auth: Container[str]) -> dict[str, list[str]]:
    """Return the names of the tools that need an unconfigured credential, by the credential."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        http = tool.http
        if http is not None and chosen(http.security, auth) is None:
            wanted = " or ".join(" and ".join(option) for option in http.security)
            found.setdefault(wanted, []).append(tool.name)
    return found


def names_in_short(names: list[str]) -> str:
    """Return the first few names, and the number of the others."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _missing(schema: Schema, known: dict[int, _Possible]) -> str:
    """Return the first required argument without a possible value; "" if there is none."""
    required = schema.get("required", ())
    if not required:
        return ""
    possible = _possible_of(schema, known)
    properties = schema.get("properties", {})
    return next((name for name in required if not possible.has_value(properties.get(name, True))), "")


def _possible_of(schema: Schema, known: dict[int, _Possible]) -> _Possible:
    definitions: Any = schema.get("$defs", {})
    key, schemas = id(definitions), definitions
    if isinstance(definitions, Closure):
        key, schemas = id(definitions.shared), definitions.shared.schemas
    if key not in known or not definitions:
        known[key] = _Possible(schemas)
    return known[key]


class _Possible:
    """Satisfiability of schemas. A schema that is not understood counts as satisfiable, so only certain faults are reported.

    An object that requires another object of its own kind has no finite value: the least set of satisfiable definitions is computed
    starting from the empty set.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: set[str] = set()
        while found := {name for name, one in definitions.items() if name not in self._known and self.has_value(one)}:
            self._known |= found

    def has_value(self, schema: Any) -> bool:
        """Return True if a schema that refers to these definitions has a value."""
        if not isinstance(schema, (dict, Mapping)):
            return schema is not False
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/$defs/") and ref[8:] not in self._known:
            return False
        if schema.get("not") in ({}, True) or schema.get("enum") == []:
            return False
        if not all(map(self.has_value, schema.get("allOf", ()))):
            return False
        if any(key in schema and not any(map(self.has_value, schema[key])) for key in ("anyOf", "oneOf")):
            return False
        return any(self._of_type(kind, schema) for kind in self._types(schema, 0))

    def _types(self, schema: Any, depth: int) -> frozenset[str]:
        """Return the possible types of a value, by `type`, `enum`, `const` and `allOf`."""
        if not isinstance(schema, (dict, Mapping)) or depth > _MAX_DEPTH:
            return _TYPES
        written = schema.get("type", _TYPES)
        types = frozenset((written,) if isinstance(written, str) else written)
        if "number" in types:
            types |= {"integer"}
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list):
            types &= frozenset(kind for one in values for kind in _kinds(one))
        ref = schema.get("$ref")
        if isinstance(ref, str):
            types &= self._types(self._definitions.get(ref.removeprefix("#/$defs/"), True), depth + 1)
        for one in schema.get("allOf", ()):
            types &= self._types(one, depth + 1)
        return types

    def _of_type(self, kind: str, schema: Mapping[str, Any]) -> bool:
        if kind == "object":
            properties = schema.get("properties", {})
            return all(self.has_value(properties.get(name, True)) for name in schema.get("required", ()))
        low, high = _BOUNDS.get(kind, ("", ""))
        if low in schema and high in schema and schema[low] > schema[high]:
            return False
        if kind == "array" and schema.get("minItems", 0) > 0:
            return schema.get("maxItems", 1) > 0 and (
                "prefixItems" in schema or self.has_value(schema.get("items", True))
            )
        return True


def _kinds(value: object) -> tuple[str, ...]:
    """Return the types of JSON Schema that a value has."""
    match value:
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number", "integer") if value.is_integer() else ("number",)
        case str():
            return ("string",)
        case None:
            return ("null",)
        case Mapping():
            return ("object",)
        case _:
            return ("array",)
