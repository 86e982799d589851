"""Schemas of a description as self-contained JSON Schema 2020-12, shared through `$defs` and pruned per tool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import jsonschema_rs

from toolgen.sources.documents import Documents, UnresolvedRefError
from toolgen.sources.openapi.describe import LONGEST_NESTED, LONGEST_PARAMETER, flatten
from toolgen.sources.openapi.keywords import keyword, malformed, modernise
from toolgen.sources.openapi.operation import FaultError
from toolgen.sources.openapi.outputs import Outputs
from toolgen.sources.openapi.sharing import shared

__all__ = ["FILE", "Direction", "Schemas", "file_schema", "is_file"]

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SLOPPY_TYPES = {"int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean"}
_SCHEMAS = frozenset(
    {
        "items",
        "additionalProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_PLAIN_NAME = re.compile(r"#/(?:components/schemas|definitions)/([A-Za-z0-9_.-]{1,80})\Z")
_EXCLUSIVE = frozenset({"exclusiveMinimum", "exclusiveMaximum"})  # booleans before 3.1
_DEEPEST = 60

FILE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "base64": {"type": "string", "contentEncoding": "base64", "description": "The content, base64-encoded."},
        "filename": {"type": "string"},
        "media_type": {"type": "string"},
    },
    "required": ["base64"],
}


class Direction(Enum):
    """Whether a schema says what is sent or what comes back: readOnly belongs to the second alone, writeOnly to the first."""

    INPUT = "readOnly"
    OUTPUT = "writeOnly"


def is_file(schema: Any) -> bool:
    """Whether a schema as written stands for raw bytes: `format: binary`, `type: file` (2.0), or a `contentMediaType` alone (3.1)."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "file":
        return True
    if schema.get("type", "string") not in ("string", ["string"], ["string", "null"]):
        return False
    if schema.get("format") == "binary":
        return True
    media = schema.get("contentMediaType")
    return isinstance(media, str) and "contentEncoding" not in schema and not media.endswith(("json", "text/plain"))


def file_schema(description: object) -> dict[str, Any]:
    """The schema of a file argument, with the author's words about it."""
    text = flatten(description, LONGEST_PARAMETER) if isinstance(description, str) else ""
    return {**FILE, "description": text} if text else dict(FILE)


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
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[Direction, str, str]] = []
        self._seen: set[tuple[Direction, str]] = set()
        self._used: set[str] = set()
        self._patterns: dict[str, bool] = {}
        self._hidden: dict[tuple[str, Direction], bool] = {}
        self._outputs = Outputs()

    def convert(self, raw: Any, direction: Direction) -> dict[str, Any]:
        """One schema, its references as `#/$defs/…`. Raises `FaultError` (unresolved_ref, schema_too_deep)."""
        return self._object(raw, direction, 0)

    def close(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """The schema with everything it reaches in `$defs`, and nothing else. Raises `FaultError` where that is broken."""
        self._drain()
        reached: dict[str, dict[str, Any]] = {}
        todo = list(_references(schema))
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

    def hidden(self, raw: Any, direction: Direction) -> bool:
        """Whether a property takes no part in this direction (readOnly in an input, writeOnly in an output)."""
        if not isinstance(raw, dict):
            return False
        if raw.get(direction.value) is True:
            return True
        ref = raw.get("$ref")
        if not isinstance(ref, str):
            return False
        known = self._hidden.get((ref, direction))
        if known is None:
            try:
                target = self._documents.follow(raw)
            except UnresolvedRefError:
                target = None
            known = isinstance(target, dict) and target.get(direction.value) is True
            self._hidden[ref, direction] = known
        return known

    def _drain(self) -> None:
        """Converts what was referred to, one after the other: a chain of references is not a chain of Python frames."""
        while self._waiting:
            direction, name, ref = self._waiting.pop()
            outer, self._used = self._used, set()
            try:
                self._defs[direction, name] = self._object(self._documents.lookup(ref), direction, 0)
                self._uses[direction, name] = frozenset(self._used)
            except UnresolvedRefError as error:
                self._broken[direction, name] = FaultError("unresolved_ref", "", str(error))
            except FaultError as fault:
                self._broken[direction, name] = fault
            finally:
                self._used = outer

    def _object(self, raw: Any, direction: Direction, depth: int) -> dict[str, Any]:
        """As an object, where a boolean schema will not do."""
        built = self._schema(raw, direction, depth)
        if isinstance(built, bool):
            return {} if built else {"not": {}}
        return built

    def _schema(self, raw: Any, direction: Direction, depth: int) -> dict[str, Any] | bool:
        if isinstance(raw, bool):
            return raw
        if not isinstance(raw, dict):
            if raw is not None:
                malformed("schema", raw, self._note)
            return {}
        if depth > _DEEPEST:
            raise FaultError("schema_too_deep", "", f"a schema is nested more than {_DEEPEST} levels deep")
        if isinstance(ref := raw.get("$ref"), str):
            return self._reference(ref, raw, direction, depth)
        built: dict[str, Any] = {}
        for key, value in raw.items():
            self._keyword(built, key, value, direction, depth)
        if isinstance(discriminator := raw.get("discriminator"), dict):
            self._discriminate(built, raw, discriminator)
        if self._old:
            modernise(built, raw)
        if "properties" in built and "required" in built:
            shown = built["properties"]
            gone = {name for name in raw["properties"] if name not in shown}
            built["required"] = [name for name in built["required"] if name not in gone]
        if built.get("required") == []:
            del built["required"]
        return built

    def _reference(self, ref: str, raw: dict[str, Any], direction: Direction, depth: int) -> dict[str, Any]:
        try:
            target = self._documents.lookup(ref)
            if isinstance(target, dict) and "$ref" in target:
                self._documents.follow(target)
        except UnresolvedRefError as error:
            if direction is Direction.INPUT:
                raise FaultError("unresolved_ref", "", str(error)) from error
            self._note("unresolved_ref", f"{error}; the answer's schema leaves that part open")
            return {}
        name = self._names.get(ref) or self._name(ref)
        self._used.add(name)
        if (direction, name) not in self._seen:
            self._seen.add((direction, name))
            self._waiting.append((direction, name, ref))
        built: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        for key, value in raw.items():
            # Before 3.1 whatever stands beside a $ref is ignored (3.0.4, section 4.8.23); words do no harm.
            if key != "$ref" and (not self._old or key == "description"):
                self._keyword(built, key, value, direction, depth)
        return built

    def _name(self, ref: str) -> str:
        """From the reference alone, so that the same schema has the same name in every tool and on every build."""
        if found := _PLAIN_NAME.match(ref):
            name = found[1]
        else:
            tail = re.sub(r"[^A-Za-z0-9_.-]+", "_", ref.rpartition("/")[2])[-40:].strip("_") or "schema"
            name = f"{tail}_{hashlib.sha256(ref.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
        self._names[ref] = name
        return name

    def _keyword(self, built: dict[str, Any], key: str, value: Any, direction: Direction, depth: int) -> None:
        """Copies one keyword if it means something in 2020-12 and is well-formed; anything else is left out."""
        if key in _SCHEMA_MAPS or key in _SCHEMAS or key in _SCHEMA_LISTS:
            self._nested(built, key, value, direction, depth)
        elif key == "type":
            if kind := self._type(value):
                built["type"] = kind
        elif key == "description":
            limit = LONGEST_NESTED if depth else LONGEST_PARAMETER
            if isinstance(value, str) and (text := flatten(value, limit)):
                built["description"] = text
        elif key == "pattern":
            if not isinstance(value, str):
                malformed(key, value, self._note)
            elif self._compiles(value):
                built["pattern"] = value
        elif not (self._old and key in _EXCLUSIVE and isinstance(value, bool)):
            keyword(built, key, value, self._note)

    def _nested(self, built: dict[str, Any], key: str, value: Any, direction: Direction, depth: int) -> None:
        """A keyword that holds other schemas."""
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            built[key] = {
                name: self._schema(item, direction, depth + 1)
                for name, item in value.items()
                if key != "properties" or not self.hidden(item, direction)
            }
        elif key == "items" and isinstance(value, list):
            built["prefixItems"] = [self._schema(item, direction, depth + 1) for item in value] or [True]
        elif key in _SCHEMAS and isinstance(value, (dict, bool)):
            built[key] = self._schema(value, direction, depth + 1)
        elif key in _SCHEMA_LISTS and isinstance(value, list) and value:
            built[key] = [self._schema(item, direction, depth + 1) for item in value]
        elif value is not None:
            malformed(key, value, self._note)

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

    def _discriminate(self, built: dict[str, Any], raw: dict[str, Any], discriminator: dict[str, Any]) -> None:
        """Says in every branch which value of the discriminator chooses it (3.1.1, section 4.8.25)."""
        name = discriminator.get("propertyName")
        keyword = "oneOf" if "oneOf" in built else "anyOf"
        if not isinstance(name, str) or keyword not in built:
            return
        mapping = discriminator.get("mapping")
        chosen: dict[str, list[str]] = {}
        if isinstance(mapping, dict):
            for value, target in mapping.items():
                if isinstance(target, str):
                    chosen.setdefault(target.rpartition("/")[2], []).append(value)
        branches = []
        for written, branch in zip(raw[keyword], built[keyword], strict=True):
            ref = written.get("$ref") if isinstance(written, dict) else None
            if isinstance(ref, str) and isinstance(branch, dict) and "properties" not in branch:
                tail = ref.rpartition("/")[2]
                values = chosen.get(tail, [tail])
                choice = {"const": values[0]} if len(values) == 1 else {"enum": values}
                branch = {**branch, "properties": {name: choice}, "required": [name]}  # noqa: PLW2901
            branches.append(branch)
        built[keyword] = branches


def _references(value: Any) -> set[str]:
    """The `$defs` a converted schema refers to itself. A `$ref` that is text can only be one of ours."""
    found: set[str] = set()
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str) and ref.startswith("#/$defs/"):
                found.add(ref[8:])
            todo.extend(item for key, item in node.items() if key not in {"examples", "default", "enum", "const"})
        elif isinstance(node, list):
            todo.extend(node)
    return found
