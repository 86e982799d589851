"""Schemas of a description as self-contained JSON Schema 2020-12, shared through `$defs` and pruned per tool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jsonschema_rs

from toolgen.sources.documents import Documents, UnresolvedRefError
from toolgen.sources.openapi.describe import MAX_NESTED_LENGTH, MAX_PARAMETER_LENGTH, brief, flatten
from toolgen.sources.openapi.discriminator import discriminate
from toolgen.sources.openapi.keywords import LISTS, MAPS, SCHEMAS, keyword, malformed, modernise, references, shared
from toolgen.sources.openapi.operation import FaultError
from toolgen.sources.openapi.output_schemas import Direction, Outputs, Visibility

__all__ = ["FILE", "Direction", "Schemas", "file_schema", "is_file"]

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SLOPPY_TYPES = {"int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}\Z")
_EXCLUSIVE = frozenset({"exclusiveMinimum", "exclusiveMaximum"})  # booleans before 3.1
_MAX_DEPTH = 60
_NESTED = frozenset({*SCHEMAS, *LISTS, *MAPS})
_COMPOSED = frozenset({"allOf", "anyOf", "oneOf", "$ref"})

FILE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "base64": {"type": "string", "contentEncoding": "base64", "description": "The content, base64-encoded."},
        "filename": {"type": "string"},
        "media_type": {"type": "string"},
    },
    "required": ["base64"],
}


def is_file(schema: Any) -> bool:
    """Whether a schema as written stands for raw bytes: `format: binary`, `type: file` (2.0), or a `contentMediaType` alone (3.1)."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "file":
        return True
    written = schema.get("type", "string")
    kinds = [str(kind) for kind in written] if isinstance(written, list) else [str(written)]
    if set(kinds) - {"null"} != {"string"}:
        return False
    if schema.get("format") == "binary":
        return True
    media = schema.get("contentMediaType")
    return isinstance(media, str) and "contentEncoding" not in schema and not media.endswith(("json", "text/plain"))


def file_schema(description: object) -> dict[str, Any]:
    """The schema of a file argument, with the author's words about it."""
    text = flatten(description, MAX_PARAMETER_LENGTH) if isinstance(description, str) else ""
    return {**FILE, "description": text} if text else dict(FILE)


def _named(name: str, schema: Any) -> Any:
    """The schema of a property, without words that say no more than its name."""
    text = schema.get("description") if isinstance(schema, dict) else None
    if not isinstance(text, str) or (shorter := brief(text, len(text), name)) == text:
        return schema
    return (
        {**schema, "description": shorter} if shorter else {key: schema[key] for key in schema if key != "description"}
    )


class _Place(NamedTuple):
    """Where a schema stands. `gone` is what the composition it is part of keeps out of its object: that cannot be required there."""

    direction: Direction
    depth: int = 0
    gone: frozenset[str] = frozenset()

    def inside(self) -> _Place:
        """For a schema of another value, or of this one under a condition."""
        return _Place(self.direction, self.depth + 1)

    def beside(self) -> _Place:
        """For a schema that holds of the same value."""
        return _Place(self.direction, self.depth + 1, self.gone)


class Schemas:
    """Converts the schemas of one description. What is referred to is converted once per direction and shared.

    `note(code, message)` is told what had to be left out of a schema.
    """

    def __init__(self, documents: Documents, *, version: str, note: Callable[[str, str], None]) -> None:
        self._documents = documents
        self._old = version in {"2.0", "3.0"}
        self._note = note
        self._defs: dict[tuple[Direction, str], dict[str, Any]] = {}
        self._uses: dict[tuple[Direction, str], frozenset[str]] = {}
        self._broken: dict[tuple[Direction, str], FaultError] = {}
        self._home = "#/definitions" if version == "2.0" else "#/components/schemas"
        self._names: dict[tuple[str, frozenset[str]], str] = {}
        self._named: set[str] = set()
        self._waiting: list[tuple[Direction, str, str, frozenset[str]]] = []
        self._seen: set[tuple[Direction, str]] = set()
        self._used: set[str] = set()
        self._patterns: dict[str, bool] = {}
        self._visibility = Visibility(documents)
        self._outputs = Outputs()

    def convert(self, raw: Any, direction: Direction) -> dict[str, Any]:
        """One schema, its references as `#/$defs/…`. Raises `FaultError` (unresolved_ref, schema_too_deep)."""
        return self._object(raw, _Place(direction=direction))

    def close(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """The schema with everything it reaches in `$defs`, and nothing else. Raises `FaultError` where that is broken."""
        self._drain()
        reached: dict[str, dict[str, Any]] = {}
        todo = list(references(schema))
        if direction is Direction.OUTPUT:
            schema, reached = self._outputs.bounded(schema, todo, self._output_definition, self._output_uses)
            todo = []
        while todo:
            name = todo.pop()
            if name in reached:
                continue
            if fault := self._broken.get((direction, name)):
                raise fault
            reached[name] = self._defs[direction, name]
            todo.extend(self._uses[direction, name])
        schema, repeated = shared(schema, reached)
        reached |= repeated
        if not reached:
            return schema
        return {**schema, "$defs": {name: reached[name] for name in sorted(reached)}}

    def _output_definition(self, name: str) -> dict[str, Any]:
        if fault := self._broken.get((Direction.OUTPUT, name)):
            raise fault
        return self._defs[Direction.OUTPUT, name]

    def _output_uses(self, name: str) -> frozenset[str]:
        return self._uses[Direction.OUTPUT, name]

    def resolve(self, raw: Any) -> Any:
        """A schema as written, its own `$ref` followed. Raises `FaultError`."""
        try:
            return self._documents.follow(raw)
        except UnresolvedRefError as error:
            raise FaultError("unresolved_ref", "", str(error)) from error

    def target(self, raw: dict[str, Any]) -> Any:
        """What the `$ref` of a schema leads to, which may be a `$ref` again. Raises `FaultError`."""
        self.resolve(raw)  # a chain that is a circle, or that leads nowhere, is refused before it is followed
        return self._documents.lookup(raw["$ref"])

    @property
    def siblings(self) -> bool:
        """Whether what stands beside a `$ref` counts, as it does from 3.1 on."""
        return not self._old

    def hidden(self, raw: Any, direction: Direction) -> bool:
        """Whether a property takes no part in this direction (readOnly in an input, writeOnly in an output)."""
        return self._visibility.hidden(raw, direction)

    def _drain(self) -> None:
        """Converts what was referred to, one after the other: a chain of references is not a chain of Python frames."""
        while self._waiting:
            direction, name, ref, gone = self._waiting.pop()
            outer, self._used = self._used, set()
            try:
                place = _Place(direction=direction, gone=gone)
                self._defs[direction, name] = self._object(self._documents.lookup(ref), place)
                self._uses[direction, name] = frozenset(self._used)
            except UnresolvedRefError as error:
                self._broken[direction, name] = FaultError("unresolved_ref", "", str(error))
            except FaultError as fault:
                self._broken[direction, name] = fault
            finally:
                self._used = outer

    def _object(self, raw: Any, place: _Place) -> dict[str, Any]:
        """As an object, where a boolean schema will not do."""
        built = self._schema(raw, place)
        if isinstance(built, bool):
            return {} if built else {"not": {}}
        return built

    def _schema(self, raw: Any, place: _Place) -> dict[str, Any] | bool:
        if isinstance(raw, bool):
            return raw
        if not isinstance(raw, dict):
            if raw is not None:
                malformed("schema", raw, self._note)
            return {}
        if place.depth > _MAX_DEPTH:
            raise FaultError("schema_too_deep", "", f"a schema is nested more than {_MAX_DEPTH} levels deep")
        if ("required" in raw or not _COMPOSED.isdisjoint(raw)) and (
            more := self._visibility.names(raw, place.direction)
        ):
            place = place._replace(gone=place.gone | more)
        if isinstance(ref := raw.get("$ref"), str):
            return self._reference(ref, raw, place)
        built: dict[str, Any] = {}
        for key, value in raw.items():
            self._keyword(built, key, value, place)
        patterns = raw.get("patternProperties")
        if isinstance(patterns, dict) and len(patterns) > len(built["patternProperties"]):
            # The names that a pattern nobody understands would have let through are not what is left over for these.
            built.pop("additionalProperties", None)
            built.pop("unevaluatedProperties", None)
        if isinstance(discriminator := raw.get("discriminator"), dict):
            discriminate(built, raw, discriminator, self._documents)
        if self._old:
            modernise(built, raw)
        return _without(built, place.gone)

    def _reference(self, ref: str, raw: dict[str, Any], place: _Place) -> dict[str, Any]:
        try:
            target = self._documents.lookup(ref)
            if isinstance(target, dict) and "$ref" in target:
                self._documents.follow(target)
        except UnresolvedRefError as error:
            if place.direction is Direction.INPUT:
                raise FaultError("unresolved_ref", "", str(error)) from error
            self._note("unresolved_ref", f"{error}; the answer's schema leaves that part open")
            return {}
        gone = place.gone
        if gone:
            # What is shared is right by itself; this use of it must not require what another part of the composition hides.
            gone = (gone - self._visibility.names(target, place.direction)) & self._visibility.required(ref)
        name = self._names.get((ref, gone)) or self._name(ref, gone)
        self._used.add(name)
        if (place.direction, name) not in self._seen:
            self._seen.add((place.direction, name))
            self._waiting.append((place.direction, name, ref, gone))
        built: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        for key, value in raw.items():
            # Before 3.1 whatever stands beside a $ref is ignored (3.0.4, section 4.8.23); words do no harm.
            if key != "$ref" and (not self._old or key == "description"):
                self._keyword(built, key, value, place)
        return _without(built, place.gone)

    def _name(self, ref: str, gone: frozenset[str]) -> str:
        """From the reference alone, so that the same schema has the same name in every tool and on every build."""
        head, _, tail = ref.rpartition("/")
        if head == self._home and not gone and _PLAIN_NAME.match(tail):
            name = tail
        else:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "_", tail)[-40:].strip("_") or "schema"
            text = ref if not gone else repr((ref, sorted(gone)))
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            # Six digits tell apart what a description refers to; where one uses such a name itself, there are more.
            name = next(
                taken
                for length in range(6, len(digest))
                if (taken := f"{name}_{digest[:length]}") not in self._named and not self._is_schema(taken)
            )
        self._names[ref, gone] = name
        self._named.add(name)
        return name

    def _is_schema(self, name: str) -> bool:
        try:
            self._documents.lookup(f"{self._home}/{name}")
        except UnresolvedRefError:
            return False
        return True

    def _keyword(self, built: dict[str, Any], key: str, value: Any, place: _Place) -> None:
        """Copies one keyword if it means something in 2020-12 and is well-formed; anything else is left out."""
        if key in _NESTED:
            self._nested(built, key, value, place)
        elif key == "type":
            if kind := self._type(value):
                built["type"] = kind
        elif key == "description":
            limit = MAX_NESTED_LENGTH if place.depth else MAX_PARAMETER_LENGTH
            if isinstance(value, str) and (text := flatten(value, limit)):
                built["description"] = text
        elif key == "pattern":
            if not isinstance(value, str):
                malformed(key, value, self._note)
            elif self._compiles(value):
                built["pattern"] = value
        elif not (self._old and key in _EXCLUSIVE and isinstance(value, bool)):
            keyword(built, key, value, self._note)

    def _nested(self, built: dict[str, Any], key: str, value: Any, place: _Place) -> None:
        """A keyword that holds other schemas."""
        if key in MAPS and isinstance(value, dict):
            built[key] = self._map(key, value, place)
        elif key == "items" and isinstance(value, list):
            built["prefixItems"] = [self._schema(item, place.inside()) for item in value] or [True]
        elif key in SCHEMAS and isinstance(value, (dict, bool)):
            built[key] = self._schema(value, place.inside())
        elif key in LISTS and isinstance(value, list) and value:
            inside = place.beside() if key == "allOf" else place.inside()
            built[key] = [self._schema(item, inside) for item in value]
        elif value is not None:
            malformed(key, value, self._note)

    def _map(self, key: str, value: dict[str, Any], place: _Place) -> dict[str, Any]:
        inside = place.inside()
        if key == "properties":
            hidden = self._visibility.hidden
            return {
                name: _named(name, self._schema(item, inside))
                for name, item in value.items()
                if not hidden(item, place.direction)
            }
        return {
            name: self._schema(item, inside)
            for name, item in value.items()
            if key != "patternProperties" or self._compiles(name)
        }

    def _type(self, value: Any) -> str | list[str] | None:
        if isinstance(value, list):
            kinds = list(dict.fromkeys(kind for kind in map(self._type, value) if isinstance(kind, str)))
            return kinds or None
        if not isinstance(value, str):
            malformed("type", value, self._note)
            return None
        kind = _SLOPPY_TYPES.get(value, value)
        if kind == "file":
            return "string"
        if kind not in _TYPES:
            self._note("unknown_type", f"the schema type {value[:40]!r} is unknown and was left out")
            return None
        return kind

    def _compiles(self, pattern: str) -> bool:
        """Whether the engine that will check arguments understands a pattern; one that it does not could only refuse every call."""
        known = self._patterns.get(pattern)
        if known is None:
            try:
                jsonschema_rs.validator_for({"pattern": pattern})
                known = True
            except (ValueError, jsonschema_rs.ValidationError):
                known = False
                self._note("bad_pattern", f"the pattern {pattern[:80]!r} cannot be compiled and was left out")
            self._patterns[pattern] = known
        return known


def _without(built: dict[str, Any], gone: frozenset[str]) -> dict[str, Any]:
    """The schema without the demand for what its direction does not show."""
    if gone and "required" in built:
        built["required"] = [name for name in built["required"] if name not in gone]
    if built.get("required") == []:
        del built["required"]
    return built
