"""Schema as a comparison reads it: all keywords that hold at one place, with `$ref` and `allOf` resolved."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs
from msgspec import Struct

from toolgen.model.schema import Schema, json_type

__all__ = ["ALL_TYPES", "ANNOTATIONS", "Names", "SchemaView", "exact", "mentioned", "parts_of", "resolved", "type_of"]

ALL_TYPES: Final = frozenset({"null", "boolean", "object", "array", "integer", "fraction", "string"})
"""JSON's types, with two kinds of numbers: `integer` (includes 1.0, JSON Schema Validation 6.1.1) and `fraction`, all others."""
ANNOTATIONS: Final = frozenset(
    {
        *("title", "description", "examples", "example", "default", "deprecated", "readOnly", "writeOnly"),
        *("$comment", "$defs", "definitions", "$schema", "$id", "$anchor", "discriminator", "xml", "externalDocs"),
    }
)
"""Keywords without an effect on accepted values."""
_UNIONS: Final = ("anyOf", "oneOf")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_IN_PLACE: Final = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")
_MAX_DEPTH: Final = 2  # nested unions whose types are examined


class Names(Struct, frozen=True):
    """Properties of a schema at one place, in any of its forms, and True if it describes unnamed ones."""

    names: frozenset[str]
    others: bool


class SchemaView:
    """Demands of a schema on one value.

    `parts` are schemas without `$ref` and `allOf` that must all hold. `types` are the only types that may conform; `declared` are these
    types without the effect of unions. `values` are the only values that may conform, if the schema lists them.
    """

    def __init__(self, schema: Any, root: Schema) -> None:
        self.root = root
        self._written = schema
        self.parts, unevaluated = parts_of(schema, root)
        closed = [_closed(keyword, whole, root) for keyword, whole in unevaluated]
        self.parts += [part for part in closed if part is not None]
        # Demands on unevaluated parts cannot be separated.
        self.unevaluated = [one for one, part in zip(unevaluated, closed, strict=True) if part is None]
        self.unions = _unions(self.parts)
        self.declared = _declared(self.parts)
        self.values = _values(self.parts, self.declared)
        if self.values is not None:
            self.declared &= frozenset(map(type_of, self.values.values()))
        self.types = _with_unions(self.declared, self.unions, root, 0)

    @property
    def schema(self) -> Any:
        """Return all parts as one schema."""
        return self._written if self.unevaluated else {"allOf": self.parts}

    @property
    def finite(self) -> list[Any] | None:
        """Return all values that may conform, if they are finite."""
        if self.values is not None:
            return list(self.values.values())
        if self.types <= {"null", "boolean"}:
            return [value for value in (None, False, True) if type_of(value) in self.types]
        return None

    def first(self, keyword: str) -> Any:
        """Return an annotation, the outermost one if there are several."""
        return next((part[keyword] for part in self.parts if keyword in part), None)

    def names(self) -> dict[str, None]:
        """Return the named properties, in order."""
        return dict.fromkeys(name for part in self.parts for name in _mapping(part, "properties"))

    def patterns(self) -> set[str]:
        """Return the patterns of `patternProperties`."""
        return {pattern for part in self.parts for pattern in _mapping(part, "patternProperties")}

    def required(self) -> dict[str, None]:
        """Return the required properties, in order."""
        return dict.fromkeys(name for part in self.parts for name in _list(part, "required") if isinstance(name, str))

    def property(self, name: str) -> Any:
        """Return the schema of a property of this name, named or not."""
        return self._property(name, {pattern for pattern in self.patterns() if _matches(pattern, name)})

    def other(self, matching: frozenset[str]) -> Any:
        """Return the schema of an unnamed property whose name matches exactly these patterns."""
        return self._property(None, matching)

    def _property(self, name: str | None, matching: set[str] | frozenset[str]) -> Any:
        found: list[Any] = []
        for part in self.parts:
            named = _mapping(part, "properties")
            here = [named[name]] if name is not None and name in named else []
            here += [item for pattern, item in _mapping(part, "patternProperties").items() if pattern in matching]
            found += here or ([part["additionalProperties"]] if "additionalProperties" in part else [])
        return _all_of(found)

    def fixed_items(self) -> int:
        """Return the number of leading items with their own schemas."""
        return max((len(_list(part, "prefixItems")) for part in self.parts), default=0)

    def item(self, index: int) -> Any:
        """Return the schema of the item at an index."""
        found: list[Any] = []
        for part in self.parts:
            fixed = _list(part, "prefixItems")
            found += [fixed[index]] if index < len(fixed) else [part["items"]] if "items" in part else []
        return _all_of(found)

    def split(self) -> list[Schema]:
        """Return the complete schema once with each branch of its first union: a conforming value conforms to one of these. Empty
        without a union.
        """
        for index, part in enumerate(() if self.unevaluated else self.parts):
            for keyword in _UNIONS:
                if branches := _list(part, keyword):
                    rest = {key: value for key, value in part.items() if key != keyword}
                    others = [*self.parts[:index], rest, *self.parts[index + 1 :]]
                    return [{"allOf": [*others, branch]} for branch in branches]
        return []


def parts_of(schema: Any, root: Schema) -> tuple[list[Mapping[str, Any]], list[tuple[str, Mapping[str, Any]]]]:
    """Return the parts that must all hold, outermost first, and the schemas about values that none of their parts has evaluated."""
    parts: list[Mapping[str, Any]] = []
    unevaluated: list[tuple[str, Mapping[str, Any]]] = []
    met: set[str] = set()  # a repeated or recursive part adds nothing
    todo = [schema]
    while todo:
        node = todo.pop()
        if node is False:
            parts.append({"type": []})
        if not isinstance(node, Mapping):
            continue
        reference = node.get("$ref")
        own = {key: value for key, value in node.items() if key not in ("$ref", "allOf", *_UNEVALUATED)}
        unevaluated += [(key, node) for key in _UNEVALUATED if key in node]
        inner = list(_list(node, "allOf"))
        if isinstance(reference, str) and reference not in met:
            met.add(reference)
            found = resolved(reference, root)
            if found is None:
                own["$ref"] = reference
            else:
                inner.insert(0, found)
        if own:
            parts.append(own)
        todo += reversed(inner)
    return parts, unevaluated


def _closed(keyword: str, whole: Mapping[str, Any], root: Schema) -> Mapping[str, Any] | None:
    """Return `unevaluatedProperties` expressed by property names, if none depends on the value; else None."""
    parts, inner = parts_of({key: value for key, value in whole.items() if key != keyword}, root)
    plain = {"properties", "patternProperties", "required", "type", "enum", "const", "minProperties", "maxProperties"}
    if keyword == "unevaluatedItems" or inner or any(part.keys() - plain - ANNOTATIONS for part in parts):
        return None
    return {
        "properties": {name: True for part in parts for name in _mapping(part, "properties")},
        "patternProperties": {pattern: True for part in parts for pattern in _mapping(part, "patternProperties")},
        "additionalProperties": whole[keyword],
    }


def _declared(parts: list[Mapping[str, Any]]) -> frozenset[str]:
    found = ALL_TYPES
    for part in parts:
        written = part.get("type")
        if isinstance(written, (str, list, tuple)):
            named = {written} if isinstance(written, str) else set(written)
            found &= named | ({"integer", "fraction"} if "number" in named else set())
    return found


def _values(parts: list[Mapping[str, Any]], types: frozenset[str]) -> dict[Any, Any] | None:
    """Return the listed values by their equality key; None if any value may conform."""
    found: dict[Any, Any] | None = None
    for part in parts:
        for listed in ([part["const"]] if "const" in part else None, part.get("enum")):
            if isinstance(listed, (list, tuple)):
                here = {exact(value): value for value in listed}
                found = here if found is None else {key: value for key, value in found.items() if key in here}
    return found if found is None else {key: value for key, value in found.items() if type_of(value) in types}


def _unions(parts: list[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [(key, branches) for part in parts for key in _UNIONS if (branches := _list(part, key))]


def _with_unions(
    types: frozenset[str], unions: list[tuple[str, list[Any]]], root: Schema, depth: int
) -> frozenset[str]:
    if depth > _MAX_DEPTH:
        return types
    for _, branches in unions:
        some: frozenset[str] = frozenset()
        for branch in branches:
            parts, _ = parts_of(branch, root)
            values = _values(parts, declared := _declared(parts))
            named = declared if values is None else frozenset(map(type_of, values.values()))
            some |= _with_unions(named, _unions(parts), root, depth + 1)
        types &= some
    return types


def mentioned(schema: Any, root: Schema) -> Names:
    """Return the properties that a schema names for one value, in any form or condition."""
    names: set[str] = set()
    others = False
    met: set[str] = set()
    todo = [schema]
    while todo:
        node = todo.pop()
        if not isinstance(node, Mapping):
            continue
        names |= _mapping(node, "properties").keys()
        others = others or bool(_mapping(node, "patternProperties"))
        others = others or any(
            node.get(key, False) is not False for key in ("additionalProperties", "unevaluatedProperties")
        )
        todo += _applied(node)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in met:
            met.add(reference)
            todo.append(resolved(reference, root))
    return Names(frozenset(names), others)


def _applied(node: Mapping[str, Any]) -> Iterator[Any]:
    """Return the schemas that are applied to the same value."""
    for keyword in _IN_PLACE:
        found = node.get(keyword)
        yield from found if isinstance(found, list) else [found]
    yield from _mapping(node, "dependentSchemas").values()


def resolved(reference: str, root: Any) -> Any:
    """Return the target of a reference into the schema itself, or None if it does not exist."""
    if not reference.startswith("#"):
        return None
    for token in reference[1:].split("/")[1:]:
        if not isinstance(root, Mapping):
            return None
        name = token.replace("~1", "/").replace("~0", "~")
        root = root[name] if name in root else root.get(unquote(name))
    return root


def type_of(value: Any) -> str:
    """Return the type of a value, one of `ALL_TYPES`."""
    kind = json_type(value)
    return "fraction" if kind == "number" else kind


def exact(value: Any) -> tuple[Hashable, ...]:
    """Return a hashable that is equal for equal JSON: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return ("boolean", value)
        case Mapping():
            return ("object", frozenset((key, exact(item)) for key, item in value.items()))
        case list() | tuple():
            return ("array", tuple(map(exact, value)))
        case _:
            return (type_of(value), value)


@lru_cache(maxsize=4096)
def _matches(pattern: str, name: str) -> bool:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}).is_valid(name)
    except ValueError:
        return False  # no validator accepts such a schema


def _all_of(schemas: list[Any]) -> Any:
    solid = [schema for schema in schemas if schema is not True]
    kept = solid if len(solid) < 2 else list({exact(schema): schema for schema in reversed(solid)}.values())[::-1]
    return True if not kept else kept[0] if len(kept) == 1 else {"allOf": kept}


def _mapping(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return list(found) if isinstance(found, (list, tuple)) else []
