"""Second judge of each fault in a schema or a request. A fault that it does not confirm is disputed, and not a failure.

A validator (jsonschema-rs) judges schemas: it looks for a value that one of the two accepts and the other refuses. The description's schema
is in the form for openapi-core, which the comparison does not use. A difference that no validator can see (formats, encodings, names of
properties) counts without its judgement. openapi-core judges requests. If it cannot read one, the texts of a value are searched in their
place.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote, unquote_plus

import jsonschema_rs

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.agreement import SchemaDisagreement
from toolgen.connectors.openapi.proof.bodies import media_of
from toolgen.connectors.openapi.proof.reader import Absent
from toolgen.connectors.openapi.proof.received import BODY, Received
from toolgen.connectors.openapi.proof.spec_operation import Descriptions, SpecOperation
from toolgen.connectors.proof.counterexample import SCALARS
from toolgen.generator.samples.json_schema import NoSampleError, samples
from toolgen.model.exact_bounds import with_exact_bounds

__all__ = ["Validators", "accepts", "plainly_wrong"]

_SAMPLES = 6
_MAX_CANDIDATES = 400
_ODD: tuple[Any, ...] = ("text", "", 0, -1, 1, 1.5, 10**6, True, False, None, [], {}, [None], {"invented": None})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"enum", "const", "required", "dependentRequired"})
_NO_VALUE = "the validator found no value that only one of the two schemas accepts"
_ALONE = frozenset({*SCALARS}) - {"type", "enum", "const"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Validators:
    """Judge of differences between the schemas of tools and those of one description."""

    def __init__(self, documents: Documents) -> None:
        self._descriptions = {hides: Descriptions(documents, hides=hides) for hides in ("readOnly", "writeOnly")}

    def __call__(self, found: SchemaDisagreement, definitions: Mapping[str, Any], hides: str) -> str:
        """Return the reason why the validator does not confirm a difference, or ""; `definitions` are the tool's."""
        if found.schemas is None:
            return ""
        tool, raw = found.schemas
        written, shared = self._descriptions[hides].schema(raw)
        tool_schema = _schema(tool, definitions)
        described_schema = _schema(modern(written, hides), {name: modern(one, hides) for name, one in shared.items()})
        if not _undecided(found, tool_schema, described_schema):
            return ""
        if found.word not in _ALONE and not (found.word in tool_schema and found.word in described_schema):
            return _NO_VALUE
        return _undecided(found, *(_only_keyword(one, found.word) for one in (tool_schema, described_schema)))


def _undecided(found: SchemaDisagreement, tool_schema: dict[str, Any], described_schema: dict[str, Any]) -> str:
    """Return the reason why the validator does not distinguish two schemas, or ""."""
    try:
        mine, theirs = (
            jsonschema_rs.Draft202012Validator(with_exact_bounds(one), validate_formats=False, offline=True)
            for one in (tool_schema, described_schema)
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return "the validator cannot compile one of the two schemas"
    for value in islice(_candidates(found, tool_schema, described_schema), _MAX_CANDIDATES):
        if mine.is_valid(value) is not theirs.is_valid(value):
            return ""
    return _NO_VALUE


def _only_keyword(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    """Return a schema reduced to one keyword, because the keywords beside it may hide the difference."""
    return {key: schema[key] for key in (word, "$schema") if key in schema}


def _schema(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    body = schema if isinstance(schema, dict) else {} if schema is not False else {"not": {}}
    return {**body, "$schema": _DIALECT, "$defs": dict(definitions)}


def _candidates(found: SchemaDisagreement, *schemas: dict[str, Any]) -> Iterator[Any]:
    """Yield values that may distinguish two schemas: the difference's value, limits of both schemas, samples of both, and similar
    values.
    """
    if not isinstance(found.value, Absent):
        yield found.value
    yield from _ODD
    near: list[Any] = []
    for schema in schemas:
        yield from _edges(schema)
        try:
            near += [*islice(samples(schema), _SAMPLES)]
        except (NoSampleError, RecursionError):
            continue
    yield from near
    for value in near:
        yield from _mutated(value)


def _edges(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from schema.get("enum") or ()
    if "const" in schema:
        yield schema["const"]
    for word, bound in schema.items():
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or abs(bound) > 10_000:
            continue
        around = [bound - 1, bound - 0.5, bound, bound + 0.5, bound + 1]
        match word:
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                yield from around
            case "multipleOf":
                yield from (bound, bound / 2, bound / 4, bound * 3)
            case "minLength" | "maxLength":
                yield from ("a" * max(int(bound) + step, 0) for step in (-1, 0, 1))
            case "minItems" | "maxItems" | "minContains" | "maxContains":
                yield from ([*range(max(int(bound) + step, 0))] for step in (-1, 0, 1))
                yield from ([f"a{n}" for n in range(max(int(bound) + step, 0))] for step in (-1, 0, 1))
            case "minProperties" | "maxProperties":
                yield from ({f"a{n}": None for n in range(max(int(bound) + step, 0))} for step in (-1, 0, 1))
            case _:
                continue
    dependent = schema.get("dependentRequired")
    yield from ({name: 1} for name in dependent or ()) if isinstance(dependent, Mapping) else ()


def _mutated(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            yield from ({key: one for key, one in value.items() if key != name} for name in value)
            yield from ({**value, "invented": odd} for odd in _ODD)
            yield from ({**value, name: odd} for name in list(value)[:8] for odd in _ODD)
        case list():
            yield from ([*value, odd] for odd in _ODD)
            yield [*value, *value]
            yield value[:-1]
            yield value[:1] * 2
        case str():
            yield from (f"{value}a", f"{value}0", value[:-1], value[1:], f"é{value}", value.upper())
        case bool() | None:
            return
        case int() | float():
            yield from (value + 1, value - 1, value + 0.5, -value)
        case _:
            return


def modern(schema: Any, hides: str) -> Any:
    """Return a schema in the form for openapi-core, in keywords of 2020-12. Properties with the keyword `hides` belong to the other
    direction.
    """
    if isinstance(schema, list):
        return [modern(one, hides) for one in schema]
    if not isinstance(schema, dict):
        return schema
    built: dict[str, Any] = {}
    for key, one in schema.items():
        if key in _VALUES:
            built[key] = one
        elif key in _SCHEMA_MAPS and isinstance(one, dict):
            built[key] = {
                name: modern(inner, hides)
                for name, inner in one.items()
                if not (isinstance(inner, dict) and inner.get(hides) is True)
            }
        elif key == "$ref" and isinstance(one, str):
            built[key] = one.replace("#/components/schemas/", "#/$defs/")
        elif key not in {"discriminator", "nullable"}:
            built[key] = modern(one, hides)
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(strict := built.get(exclusive), bool):
            del built[exclusive]
            if strict and bound in built:
                built[exclusive] = built.pop(bound)
    if isinstance(built.get("items"), list):
        built["prefixItems"] = built.pop("items") or [True]
    if schema.get("nullable") is True:
        return _with_null(built)
    return built


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    return schema if isinstance(kind, list) else {"anyOf": [schema, {"type": "null"}]}


def accepts(described: SpecOperation, written: Any, value: Any) -> bool | None:
    """Return True if the validator accepts a value by a schema of an operation's document; None if it cannot compile the schema."""
    shared = {name: modern(one, "readOnly") for name, one in described.document["components"]["schemas"].items()}
    try:
        validator = jsonschema_rs.Draft202012Validator(
            _schema(modern(written, "readOnly"), shared), validate_formats=True, offline=True
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None
    return validator.is_valid(value)


def plainly_wrong(described: SpecOperation, received: Received, where: tuple[str, str], value: Any) -> bool:
    """Return True if every reader would find the request wrong: a text of the value is missing from its place, something is sent although
    nothing was given, or the body has a media type that is not described."""
    place, name = where
    if isinstance(value, Absent):
        return received.body is not None if where == BODY else name in _names(received, place)
    if where == BODY and (received.body is None or media_of(described, received.content_type) is None):
        return True
    held = _held(received, place)
    return any(
        all(form not in held for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]))
        for text in _texts(value)
    )


def _names(received: Received, place: str) -> set[str]:
    pairs = {"query": received.query, "cookie": received.cookies}.get(place, ())
    return {*(name for name, _ in pairs), *(received.headers if place == "header" else ())}


def _held(received: Received, place: str) -> str:
    """Return all texts in a place of the request, decoded once and twice."""
    match place:
        case "path":
            text = "\n".join(received.path.values())
        case "header":
            text = "\n".join(received.headers.values())
        case "cookie":
            text = received.headers.get("cookie", "")
        case "body":
            text = (received.body or b"").decode("utf-8", "surrogateescape")
        case _:
            text = "&".join(f"{name}={value}" for name, value in received.query)
    once = unquote_plus(text, errors="surrogateescape")
    return "\n".join((text, once, unquote(text, errors="surrogateescape"), unquote_plus(once)))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case None | Absent():
            return
        case {"base64": str() as encoded}:
            with contextlib.suppress(ValueError):
                yield base64.b64decode(encoded).decode("utf-8", "surrogateescape")
            yield from _texts(value.get("filename"))
        case Mapping():
            for name, one in value.items():
                if one is not None:
                    yield name
                yield from _texts(one)
        case list() | tuple():
            for one in value:
                yield from _texts(one)
        case str():
            yield value
        case _:
            yield json.dumps(value)
