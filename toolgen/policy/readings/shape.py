"""Shape of a place in a schema: the types that it permits, the places below it, and the value of an absent member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import jsonschema_rs

from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.policy.arguments import Validator
from toolgen.policy.readings.values import SCALARS, kinds, referred

__all__ = ["SchemaShape"]

_MAX_DEPTH = 64
_REFERENCES = 16
_NUMBERS = frozenset({"integer", "number"})


class SchemaShape:
    """A place of a schema, computed on first use and cached: schemas may be recursive."""

    def __init__(self, schema: object, root: Schema, known: dict[tuple[int, ...], SchemaShape] | None = None) -> None:
        self._schema = schema
        self._root = root
        self._known = {} if known is None else known

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Return the types of its values; `number` comes with `integer`."""
        return kinds(self._schema, self._root)

    @cached_property
    def scalars(self) -> frozenset[str]:
        """Return the types of its values that are neither objects nor arrays; integers are included in numbers."""
        found = self.kinds & SCALARS
        return found - {"integer"} if "number" in found else found

    @cached_property
    def twofold(self) -> bool:
        """Return True if a number and its text are both valid here."""
        return "string" in self.kinds and not self.kinds.isdisjoint(_NUMBERS)

    @cached_property
    def identifies(self) -> bool:
        """Return True if the place is an ID as in GraphQL: accepted as text and as an integer, and always text (spec, section 3.5.5)."""
        return self.kinds - {"null"} == {"string", "integer"} and not any("pattern" in one for one in self._parts)

    @cached_property
    def counts(self) -> bool:
        """Return True if the place is a number that may be written as text, like scalars of large or exact numbers."""
        return not self.identifies and self.kinds - {"null"} <= {"string", "integer", "number"}

    @cached_property
    def _parts(self) -> tuple[Mapping[str, Any], ...]:
        """Return the schemas that apply to the same value."""
        return tuple(_applied(self._schema, self._root, 0))

    @cached_property
    def defaults(self) -> JsonObject:
        """Return the default values of missing members."""
        return {
            name: one["default"]
            for part in self._parts
            for name, one in _mapping(part.get("properties")).items()
            if isinstance(one, Mapping) and "default" in one
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the members that the schema names."""
        return tuple(dict.fromkeys(name for part in self._parts for name in _mapping(part.get("properties"))))

    @cached_property
    def has_items(self) -> bool:
        """True if the schema describes the items of a list."""
        return any("items" in part for part in self._parts)

    @cached_property
    def has_defaults(self) -> bool:
        """True if the schema has a default at any depth."""
        return any(one.defaults for one in self.below())

    def below(self) -> Iterator[SchemaShape]:
        """Yield this place and every place below it that the schema names, each once."""
        met: set[int] = set()
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in met:
                met.add(id(one))
                yield one
                waiting += [one.items] if one.has_items else []
                waiting += (one.member(name) for name in one.names)

    def member(self, name: str) -> SchemaShape:
        """Return the place of a member, known or unknown."""
        return self._members.get(name) or self._others

    @cached_property
    def items(self) -> SchemaShape:
        """Place of the items of a list."""
        return self._shape([part["items"] for part in self._parts if "items" in part])

    def accepts(self, value: Json) -> bool:
        """Return True if a value conforms. A schema that cannot be compiled by itself accepts any value."""
        return self._validator is None or self._validator.accepts({"value": value})

    def filled(self, value: Json, depth: int = 0) -> Json:
        """Return the value with every default below it; the same object if there is none."""
        if depth > _MAX_DEPTH or isinstance(value, (str, bool, int, float)) or value is None:
            return value
        if isinstance(value, Mapping):
            made = {name: self.member(name).filled(item, depth + 1) for name, item in value.items()}
            for name, default in self.defaults.items():
                if name not in value:
                    made[name] = self.member(name).filled(default, depth + 1)
            same = len(made) == len(value) and all(made[name] is item for name, item in value.items())
            return value if same else made
        items = [self.items.filled(item, depth + 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    @cached_property
    def _validator(self) -> Validator | None:
        definitions = {"$defs": self._root["$defs"]} if "$defs" in self._root else {}
        try:
            return Validator({"properties": {"value": self._schema}, **definitions}, formats=False)
        except (ValueError, jsonschema_rs.ReferencingError):
            return None

    @cached_property
    def _members(self) -> Mapping[str, SchemaShape]:
        found: dict[str, list[Any]] = {}
        for part in self._parts:
            for name, one in _mapping(part.get("properties")).items():
                found.setdefault(name, []).append(one)
        return {name: self._shape(schemas) for name, schemas in found.items()}

    @cached_property
    def _others(self) -> SchemaShape:
        found = [part["additionalProperties"] for part in self._parts if "additionalProperties" in part]
        return self._shape(found if all(isinstance(one, Mapping) for one in found) else [])

    def _shape(self, schemas: list[Any]) -> SchemaShape:
        key = tuple(id(schema) for schema in schemas)
        found = self._known.get(key)
        if found is None:
            schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else True
            found = self._known[key] = SchemaShape(schema, self._root, self._known)
        return found


def _applied(schema: object, root: Schema, depth: int) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, Mapping) or depth > _REFERENCES:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _applied(referred(reference, root), root, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for item in schema.get(keyword, ()):
            yield from _applied(item, root, depth + 1)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
