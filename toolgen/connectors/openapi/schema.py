"""Conversion of a description's schemas to self-contained JSON Schema 2020-12, shared through `$defs` and pruned per tool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, NamedTuple

import jsonschema_rs

from toolgen.connectors.openapi.describe import (
    MAX_ARGUMENT_LENGTH,
    MAX_NESTED_OUTPUT_LENGTH,
    MAX_OUTPUT_LENGTH,
    flatten,
    with_own_words,
)
from toolgen.connectors.openapi.discriminator import discriminate
from toolgen.connectors.openapi.documents import Documents, LimitError, UnresolvedRefError
from toolgen.connectors.openapi.examples import with_fitting_examples
from toolgen.connectors.openapi.keywords import keyword, malformed, modernise
from toolgen.connectors.openapi.operation import FaultError
from toolgen.connectors.openapi.output_schemas import Outputs
from toolgen.connectors.openapi.satisfiable import adds_to, consistent, is_closed, overlaps
from toolgen.connectors.openapi.shared_parts import shared
from toolgen.connectors.openapi.units_of_names import UnitsOfNames
from toolgen.connectors.openapi.visibility import Direction, Visibility
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import MAX_OWN_DEFINITIONS, Closure, Definitions
from toolgen.model.subschemas import LISTS, MAPS, SCHEMAS, references, subschemas

__all__ = ["Direction", "Schemas"]

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SLOPPY_TYPES = {"int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}\Z")
_EXCLUSIVE = frozenset({"exclusiveMinimum", "exclusiveMaximum"})  # booleans before 3.1
_MAX_DEPTH = 60
_NESTED = frozenset({*SCHEMAS, *LISTS, *MAPS})
_CLOSING = frozenset({"additionalProperties", "unevaluatedProperties"})
_COMPOSED = frozenset({"allOf", "anyOf", "oneOf", "$ref"})


class _SchemaPosition(NamedTuple):
    """Position of a schema. `gone` are properties that the surrounding composition hides, so they cannot be required there.

    `kept` are properties that it would hide, but that a request requires.
    """

    direction: Direction
    depth: int = 0
    gone: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    optional: bool = False  # some valid arguments have no value for it
    needs: frozenset[str] = frozenset()  # names that the schema itself requires
    # True for the value itself and not for a member of it. Its read-only properties may be given and are not required, because the object
    # may not exist yet.
    root: bool = False
    open: bool = False  # the surrounding composition is closed as a whole

    def inside(self, *, optional: bool = False) -> _SchemaPosition:
        """Return the position for a schema of another value, or of the same value under a condition."""
        return _SchemaPosition(self.direction, self.depth + 1, optional=self.optional or optional)

    def beside(self) -> _SchemaPosition:
        """Return the position for a schema that applies to the same value."""
        return _SchemaPosition(
            self.direction, self.depth + 1, self.gone, self.kept, self.optional, root=self.root, open=self.open
        )

    def alternative(self) -> _SchemaPosition:
        """Return the position for one of several schemas of the same value."""
        return _SchemaPosition(self.direction, self.depth + 1, kept=self.kept, optional=self.optional, root=self.root)


class Schemas:
    """Converter of the schemas of one description. The target of a reference is converted once per direction and shared.

    `note(code, message)` receives each part of a schema that had to be left out.
    """

    def __init__(self, documents: Documents, *, version: str, note: Callable[[str, str], None]) -> None:
        self._documents = documents
        self._old = version in {"2.0", "3.0"}
        self._notes = 0
        self._note = self._counted(note)
        self._defs = {direction: Definitions() for direction in Direction}
        self._own: dict[int, dict[str, Any]] = {}  # `$defs` of arguments, by the bit set of their definitions
        self._broken: dict[tuple[Direction, str], FaultError] = {}
        self._faulty = 0  # bit set of the broken definitions of arguments, by their index
        self._home = "#/definitions" if version == "2.0" else "#/components/schemas"
        self._names: dict[tuple[str, frozenset[str], frozenset[str]], str] = {}
        self._named: set[str] = set()
        self._choices: list[dict[str, Any]] = []  # schemas of arguments with an unchecked `oneOf`
        self._chosen: dict[int, list[Any]] = {}  # overlapping branch lists by identity
        self._waiting: list[tuple[str, str, _SchemaPosition]] = []
        self._seen: set[tuple[Direction, str]] = set()
        self._converted: dict[Hashable, tuple[Any, dict[str, Any]]] = {}
        self._patterns: dict[str, bool] = {}
        self._visibility = Visibility(documents)
        self._outputs = Outputs()
        self.units = UnitsOfNames()

    def convert(
        self, raw: Any, direction: Direction, *, optional: bool = False, nested: bool = False
    ) -> dict[str, Any]:
        """Convert one schema, with its references as `#/$defs/…`. `nested` is True for the schema of a member.

        In an `optional` schema, a part with an unresolved reference is reported and accepts any value. Raises `FaultError` (unresolved_ref,
        limit, schema_too_deep).
        """
        return self._object(raw, _SchemaPosition(direction=direction, optional=optional, root=not nested))

    def known(self, key: Hashable, raw: Any, convert: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the cached conversion of a schema, else the result of `convert`. A conversion with problems is not cached, so that they
        are reported again.

        `raw` is the schema as written whose `id` is in `key`. The result must not be changed.
        """
        if (found := self._converted.get(key)) is not None:
            return found[1]
        notes_before = self._notes
        made = convert()
        if self._notes == notes_before:
            self._converted[key] = (raw, made)
        return made

    def _counted(self, note: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def count_and_note(code: str, message: str) -> None:
            self._notes += 1
            note(code, message)

        return count_and_note

    def close(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """Return the schema with all definitions it reaches in `$defs`, and no others. Raises `FaultError` if one of them is broken."""
        self._drain()
        while self._choices:
            self._choose(self._choices.pop())
        if direction is Direction.INPUT and self._chosen:
            schema = self._with_choices(schema)
        first = references(schema)
        reached: dict[str, Any]
        if direction is Direction.OUTPUT:
            schema, reached = self._outputs.bounded(schema, first, self._output_definition, self._defs[direction].uses)
        else:
            inputs = self._defs[direction]
            found = inputs.reached(first)
            self._refuse_broken(schema, found)
            if found.bit_count() > MAX_OWN_DEFINITIONS:
                return {**schema, "$defs": Closure(inputs, first)}
            if found not in self._own:
                self._own[found] = {name: inputs.schemas[name] for name in inputs.named(found)}
            reached = self._own[found]
        schema, repeated = shared(schema, reached)
        if repeated:
            reached = dict(sorted((reached | repeated).items()))
        return {**schema, "$defs": reached} if reached else schema

    def _choose(self, built: dict[str, Any]) -> None:
        """Replace `oneOf` of arguments by `anyOf` if each value of one branch fits another too."""
        branches = built["oneOf"]
        inputs = self._defs[Direction.INPUT]
        names = set[str]().union(*(references(one) for one in branches if isinstance(one, dict)))
        if names & {name for _, name in self._broken}:
            return
        found = inputs.reached(names)
        if found.bit_count() > MAX_OWN_DEFINITIONS:
            return
        if overlaps(branches, {name: inputs.schemas[name] for name in inputs.named(found)}):
            self._note("repaired_schema", "a value of one alternative of `oneOf` always fits another; `anyOf` is used")
            kept = list(branches)
            # Copies of the schema, with their own texts, share the list.
            branches[:] = [{"anyOf": kept}]
            self._chosen[id(branches)] = branches
            _take_any(built, kept)

    def _with_choices(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of arguments, copied if necessary, with `anyOf` for each overlapping `oneOf`."""
        properties = schema.get("properties", {})
        changed = {}
        for name, one in properties.items():
            found = self._chosen.get(id(one.get("oneOf"))) if isinstance(one, dict) else None
            if found is not None:
                changed[name] = dict(one)
                _take_any(changed[name], found[0]["anyOf"])
        return {**schema, "properties": {**properties, **changed}} if changed else schema

    def _refuse_broken(self, schema: dict[str, Any], found: int) -> None:
        """Raise `FaultError` if a needed part of the arguments is broken; report the other parts that are left open."""
        inputs = self._defs[Direction.INPUT]
        needed: set[str] = set()
        for name in inputs.named(found & self._faulty):
            fault = self._broken[Direction.INPUT, name]
            needed = needed or self._needed(schema)
            if name in needed or name not in inputs.schemas:
                raise fault
            self._note(fault.code, f"{fault.message}; that part of an optional argument is left open")

    def _output_definition(self, name: str) -> Schema:
        if fault := self._broken.get((Direction.OUTPUT, name)):
            raise fault
        return self._defs[Direction.OUTPUT].schemas[name]

    def _held(self, raw: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._documents.held(raw)
        except UnresolvedRefError as error:
            raise FaultError(error.code, "", str(error)) from error

    def resolve(self, raw: Any) -> Any:
        """Return a schema as written with its own `$ref` and those of its containers followed. Raises `FaultError`."""
        try:
            found = self._documents.follow(raw)
            return self._documents.held(found) if isinstance(found, dict) else found
        except UnresolvedRefError as error:
            raise FaultError(error.code, "", str(error)) from error

    def target(self, raw: dict[str, Any]) -> Any:
        """Return the target of a schema's `$ref`, which may contain a `$ref` again. Raises `FaultError`."""
        self.resolve(raw)  # A circular or broken chain of references is refused before it is followed.
        found = self._documents.lookup(raw["$ref"])
        return self._held(found) if isinstance(found, dict) else found

    def demands(self, raw: Any) -> frozenset[str]:
        """Return the properties that a schema as written requires in a request."""
        return self._visibility.demanded(raw)

    @property
    def siblings(self) -> bool:
        """True if keywords beside a `$ref` count, which is the case from 3.1 on."""
        return not self._old

    def hidden(self, raw: Any, direction: Direction) -> bool:
        """Return True if a property is hidden in this direction (readOnly in an input, writeOnly in an output)."""
        return self._visibility.hidden(raw, direction)

    def _drain(self) -> None:
        """Convert the referenced schemas one after the other, so that a chain of references needs no deep recursion."""
        while self._waiting:
            name, ref, position = self._waiting.pop()
            direction = position.direction
            try:
                self._define(name, ref, position)
            except FaultError as fault:
                self._broken[direction, name] = fault
                if direction is Direction.INPUT:
                    self._faulty |= self._defs[direction].place(name)
                if fault.code == UnresolvedRefError.code:
                    with suppress(FaultError):
                        self._define(name, ref, position._replace(optional=True))

    def _define(self, name: str, ref: str, position: _SchemaPosition) -> None:
        try:
            target = self._documents.lookup(ref)
        except UnresolvedRefError as error:
            raise FaultError(error.code, "", str(error)) from error
        built = self._object(target, position)
        self._defs[position.direction].add(name, built, frozenset(references(built)))

    def _needed(self, schema: dict[str, Any]) -> set[str]:
        """Return the definitions that all arguments need: required values of required values."""
        found: set[str] = set()
        todo: list[Schema] = [schema]
        while todo:
            node = todo.pop()
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name and name not in found:
                found.add(name)
                todo.append(self._defs[Direction.INPUT].schemas.get(name, {}))
            required = node.get("required", ())
            todo += [part for steps, part in subschemas(node) if steps[0] != "properties" or steps[-1] in required]
        return found

    def _object(self, raw: Any, position: _SchemaPosition) -> dict[str, Any]:
        """Convert a schema to an object, for places where a boolean schema is not allowed."""
        built = self._schema(raw, position)
        if isinstance(built, bool):
            return {} if built else {"not": {}}
        return built

    def _schema(self, raw: Any, position: _SchemaPosition) -> dict[str, Any] | bool:
        if isinstance(raw, bool):
            return raw
        if not isinstance(raw, dict):
            if raw is not None:
                malformed("schema", raw, self._note)
            return {}
        if position.depth > _MAX_DEPTH:
            raise FaultError("schema_too_deep", "", f"a schema is nested more than {_MAX_DEPTH} levels deep")
        raw = self._held(raw)
        if ("required" in raw or not _COMPOSED.isdisjoint(raw)) and (
            more := self._visibility.names(raw, position.direction)
        ):
            kept = position.kept
            if position.direction is Direction.INPUT:
                kept |= more & self._visibility.demanded(raw)
            position = position._replace(gone=position.gone | (more if position.root else more - kept), kept=kept)
        if isinstance(ref := raw.get("$ref"), str):
            return self._reference(ref, raw, position)
        built: dict[str, Any] = {}
        if isinstance(required := raw.get("required"), list):
            position = position._replace(needs=frozenset(name for name in required if isinstance(name, str)))
        if position.direction is Direction.INPUT:
            raw, position = self._closed_as_a_whole(raw, position)
        for key, value in raw.items():
            self._keyword(built, key, value, position)
        patterns = raw.get("patternProperties")
        if isinstance(patterns, dict) and len(patterns) > len(built["patternProperties"]):
            # A pattern that cannot be compiled was left out. Its names must not be refused by these keywords instead.
            built.pop("additionalProperties", None)
            built.pop("unevaluatedProperties", None)
        if isinstance(discriminator := raw.get("discriminator"), dict):
            discriminate(built, raw, discriminator, self._documents)
        self._agree(built, raw, position)
        return _without(built, position.gone)

    def _agree(self, built: dict[str, Any], raw: dict[str, Any], position: _SchemaPosition) -> None:
        """Convert the schema to keywords of 2020-12, and repair schemas of arguments so that a value can satisfy them."""
        if self._old:
            modernise(built, raw)
        if position.direction is Direction.INPUT:
            if "examples" in built and (fitting := with_fitting_examples(built)) is not built:
                del built["examples"]
                built.update(fitting)
            consistent(built, self._note)
            if len(built.get("oneOf", ())) > 1:
                self._choices.append(built)

    def _closed_as_a_whole(
        self, raw: dict[str, Any], position: _SchemaPosition
    ) -> tuple[dict[str, Any], _SchemaPosition]:
        """Return a schema as written whose composition is closed as a whole if a part of it was closed; otherwise the schema itself.

        A closed member of `allOf` refuses the properties of its siblings, and so does a closed schema beside its `allOf`.
        """
        members = raw.get("allOf")
        if position.open:
            raw = {key: value for key, value in raw.items() if key not in _CLOSING or value is not False}
        if not isinstance(members, list) or position.open:
            return raw, position
        alone = {key: value for key, value in raw.items() if key != "allOf"}
        parts = [alone, *members]
        closing = [
            one
            for number, one in enumerate(parts)
            if is_closed(self._documents, one)
            and adds_to(self._documents, one, [*parts[:number], *parts[number + 1 :]])
        ]
        if not closing:
            return raw, position
        self._note("repaired_schema", "a part of `allOf` is closed against the others; the whole is closed instead")
        opened = [self._documents.opened(one) if is_closed(self._documents, one) else one for one in members]
        kept = {key: value for key, value in raw.items() if key not in _CLOSING or value is not False}
        return {**kept, "allOf": opened, "unevaluatedProperties": False}, position._replace(open=True)

    def _reference(self, ref: str, raw: dict[str, Any], position: _SchemaPosition) -> dict[str, Any]:
        try:
            target = self._documents.lookup(ref)
            if isinstance(target, dict) and "$ref" in target:
                self._documents.follow(target)
        except UnresolvedRefError as error:
            if isinstance(error, LimitError) or (position.direction is Direction.INPUT and not position.optional):
                raise FaultError(error.code, "", str(error)) from error
            whose = (
                "the answer's schema" if position.direction is Direction.OUTPUT else "an optional part of the arguments"
            )
            self._note("unresolved_ref", f"{error}; {whose} leaves that part open")
            return {}
        gone = position.gone
        if gone:
            # The shared definition is valid on its own; this use of it must not require properties that another part of the composition
            # hides.
            own = self._visibility.names(target, position.direction) - position.kept
            gone = (gone - own) & self._visibility.required(ref)
        kept = position.kept and position.kept & self._visibility.names(target, position.direction)
        name = self._names.get((ref, gone, kept)) or self._name(ref, gone, kept)
        if (position.direction, name) not in self._seen:
            self._seen.add((position.direction, name))
            self._waiting.append((name, ref, _SchemaPosition(position.direction, gone=gone, kept=kept)))
        built: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        for key, value in raw.items():
            # Before 3.1 all keywords beside a $ref are ignored (3.0.4, section 4.8.23); a description is harmless.
            if key != "$ref" and (not self._old or key == "description"):
                self._keyword(built, key, value, position)
        return _without(built, position.gone)

    def _name(self, ref: str, gone: frozenset[str], kept: frozenset[str]) -> str:
        """Return a name made from the reference only, so that the same schema has the same name in every tool and build."""
        head, _, tail = ref.rpartition("/")
        if head == self._home and not gone and not kept and _PLAIN_NAME.match(tail):
            name = tail
        else:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "_", tail)[-40:].strip("_") or "schema"
            text = repr((ref, sorted(gone), sorted(kept))) if kept else repr((ref, sorted(gone))) if gone else ref
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            # Six digits distinguish the targets of a description; if it uses such a name itself, more digits are added.
            name = next(
                taken
                for length in range(6, len(digest))
                if (taken := f"{name}_{digest[:length]}") not in self._named and not self._is_schema(taken)
            )
        self._names[ref, gone, kept] = name
        self._named.add(name)
        return name

    def _is_schema(self, name: str) -> bool:
        try:
            self._documents.lookup(f"{self._home}/{name}")
        except UnresolvedRefError:
            return False
        return True

    def _keyword(self, built: dict[str, Any], key: str, value: Any, position: _SchemaPosition) -> None:
        """Copy one keyword if it has a meaning in 2020-12 and is well-formed; any other is left out."""
        if key in _NESTED:
            self._nested(built, key, value, position)
        elif key == "type":
            if kind := self._type(value):
                built["type"] = kind
        elif key == "description":
            limit = MAX_ARGUMENT_LENGTH
            if position.direction is Direction.OUTPUT:
                limit = MAX_NESTED_OUTPUT_LENGTH if position.depth else MAX_OUTPUT_LENGTH
            if isinstance(value, str) and (text := flatten(value, limit)):
                built["description"] = text
        elif key == "pattern":
            if not isinstance(value, str):
                malformed(key, value, self._note)
            elif self._compiles(value):
                built["pattern"] = value
        elif not (self._old and key in _EXCLUSIVE and isinstance(value, bool)):
            keyword(built, key, value, self._note)

    def _nested(self, built: dict[str, Any], key: str, value: Any, position: _SchemaPosition) -> None:
        """Convert a keyword that contains other schemas."""
        if key in MAPS and isinstance(value, dict):
            built[key] = self._map(key, value, position)
        elif key == "items" and isinstance(value, list):
            built["prefixItems"] = [self._schema(item, position.inside()) for item in value] or [True]
        elif key in SCHEMAS and isinstance(value, (dict, bool)):
            # An open definition accepts every value, so these keywords would refuse all.
            inside = (
                _SchemaPosition(position.direction, position.depth + 1) if key in {"not", "if"} else position.inside()
            )
            built[key] = self._schema(value, inside)
        elif key in LISTS and isinstance(value, list) and value:
            inside = (
                position.beside()
                if key == "allOf"
                else position.alternative()
                if key != "prefixItems"
                else position.inside()
            )
            if position.open and key == "allOf":
                value = [self._documents.opened(one) if is_closed(self._documents, one) else one for one in value]
            built[key] = [self._schema(item, inside) for item in value]
        elif value is not None:
            malformed(key, value, self._note)

    def _map(self, key: str, value: dict[str, Any], position: _SchemaPosition) -> dict[str, Any]:
        inside = position.inside()
        if key == "properties":
            hidden = self._visibility.hidden
            open_ = position.inside(optional=True)
            for name, item in value.items():
                self.units.record(name, item)
            return {
                name: with_own_words(name, self._schema(item, inside if name in position.needs else open_))
                for name, item in value.items()
                if name in position.kept or not hidden(item, position.direction)
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
        """Return True if the engine that validates arguments can compile a pattern. Any other pattern would reject every call."""
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


def _take_any(built: dict[str, Any], branches: list[Any]) -> None:
    """Replace `oneOf` by `anyOf`."""
    del built["oneOf"]
    if "anyOf" in built:
        built["allOf"] = [*built.get("allOf", ()), {"anyOf": branches}]
    else:
        built["anyOf"] = branches


def _without(built: dict[str, Any], gone: frozenset[str]) -> dict[str, Any]:
    """Return the schema without the requirement of hidden properties."""
    if gone and "required" in built:
        built["required"] = [name for name in built["required"] if name not in gone]
    if built.get("required") == []:
        del built["required"]
    return built
