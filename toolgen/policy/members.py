"""Members of the objects within arguments, as their schemas name them, and corrections of misspelt members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from toolgen.core.json_codec import MAX_DEPTH, deeper_than, with_integers
from toolgen.core.spelling import near
from toolgen.model.schema import Json, Schema

__all__ = [
    "CHECKED_FORMATS",
    "Changes",
    "SchemaMembers",
    "json_types",
    "never_empty",
    "pointer_step",
    "spelt_out",
]

CHECKED_FORMATS = frozenset({"date", "date-time", "email", "uuid", "uri", "hostname", "ipv4", "ipv6"})
"""Formats that constrain values of arguments."""

_MAX_DEPTH = 64
_MAX_UNKNOWN = 100  # names that are compared with the known ones
_MAX_REPAIR_LENGTH = 65_536
_JSON_SPACE = " \t\r\n"
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_MAX_PARTS = 8  # maximum levels of references and combinators of one object
_MAX_GATHERED = 500  # maximum schemas of one object
_MAX_BRANCHES = 50  # maximum branches of a choice that are compared with a value
_ANYTHING: Schema = {}
_NO_ITEMS: tuple[Sequence[object], object] = ((), None)
_MORE = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties", "if", "dependentSchemas"})
_IMPLIED: Mapping[str, str] = {
    **dict.fromkeys(("properties", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems"), "array"),
}
"""Keywords that imply a type if the schema has no `type`."""
_SAYS_OTHERWISE = frozenset({"const", "enum", "pattern", "minLength", "maxLength", "format", "contentMediaType"})
_SAYS_SOMETHING = frozenset({"properties", "required", "$ref", "allOf", "anyOf", "oneOf"})


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes by `SchemaMembers.known`, as JSON pointers: dropped members, texts read as JSON, and empty texts left out."""

    dropped: list[str]
    repaired: list[str]
    left_out: list[str]


class _MemberShape(msgspec.Struct):
    """Schemas of an object's members: by name, by pattern, and for any other name."""

    names: dict[str, Schema] = {}
    patterns: list[tuple[str, Schema]] = []
    rest: Schema | None = None
    required: set[str] = set()
    found: dict[str, Schema | None] = {}
    closed: bool = False
    """True if no other members are allowed or described."""

    def add(self, name: str, schema: object) -> None:
        """Add a schema for a member, in addition to the known ones."""
        made = schema if isinstance(schema, Mapping) else _ANYTHING
        known = self.names.get(name)
        self.names[name] = made if known is None or known is made else _all([known, made])

    def of(self, name: str) -> Schema | None:
        """Return the schema of a member, or None if the schema does not mention it."""
        if name not in self.found:
            said = [self.names[name]] if name in self.names else []
            said += [schema for pattern, schema in self.patterns if _matches(pattern, name)]
            self.found[name] = _all(said) if said else self.rest
        return self.found[name]


class SchemaMembers:
    """Members of the objects within the arguments of one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        # Each with the schemas that it was made of, so that their ids are not reused.
        self._shapes: dict[tuple[int, ...], tuple[list[Schema], _MemberShape]] = {}
        self._types: dict[int, frozenset[str]] = {}
        self._unknown = 0
        self._parts = 0

    def known(self, value: Json, schema: object, pointer: str, changes: Changes, depth: int = 0) -> Json:
        """Return the value without members that look like a misspelled name of the schema and that it does not mention, without empty
        texts for optional members that cannot be empty, and with JSON in place of texts that encode it; the same object if there are
        none. Other members stay: a schema that does not mention them allows them, like a parent of other schemas."""
        if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return value
        match value:
            case Mapping():
                return self._object(value, schema, pointer, changes, depth)
            case list() | tuple():
                first, rest = self._items(schema)
                items = [
                    self.known(item, first[at] if at < len(first) else rest, f"{pointer}/{at}", changes, depth + 1)
                    for at, item in enumerate(value)
                ]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            case str() if (
                depth and (better := spelt_out(value, json_types(schema, self._root, self._types))) is not None
            ):
                changes.repaired.append(pointer)
                return self.known(better[0], schema, pointer, changes, depth + 1)
            case _:
                return value

    def _object(
        self, value: Mapping[str, Json], schema: Schema, pointer: str, changes: Changes, depth: int
    ) -> Mapping[str, Json]:
        shape = self._of(schema, value)
        made: dict[str, Json] = {}
        for name, item in value.items():
            below = f"{pointer}/{pointer_step(name)}"
            if (found := shape.of(name)) is not None:
                if (
                    item == ""
                    and name not in shape.required
                    and never_empty(found, json_types(found, self._root, self._types))
                ):
                    changes.left_out.append(below)
                    continue
                made[name] = self.known(item, found, below, changes, depth + 1)
            elif shape.closed and self._is_slip(name, shape.names):
                changes.dropped.append(below)
            else:
                made[name] = item
        return made if len(made) < len(value) or any(made[key] is not value[key] for key in made) else value

    def _is_slip(self, name: str, names: Mapping[str, Any]) -> bool:
        """Return True if a name is probably a misspelling of another. The number of unknown names that are tried is bounded."""
        self._unknown += 1
        return self._unknown <= _MAX_UNKNOWN and near(name, names) != ""

    def nearest(self, pointer: str) -> str:
        """Return the member that was probably meant by the one at a JSON pointer, or ""."""
        *steps, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
        schema: object = self._root
        for number, step in enumerate(steps):
            if not isinstance(schema, Mapping):
                return ""
            names = schema.get("properties", {}) if number == 0 else self._of(schema, {}).names
            schema = names[step] if step in names else self._items(schema)[1]
        return near(last, self._of(schema, {}).names) if isinstance(schema, Mapping) else ""

    def _of(self, schema: Schema, value: Mapping[str, Json]) -> _MemberShape:
        """Return the schemas of an object's members. Branches of a choice count if the constants in the value do not exclude them."""
        used = [schema, *self._other_branches(schema, value, 0)]
        key = tuple(map(id, used))
        if key not in self._shapes:
            self._parts = 0
            shape = _MemberShape()
            closed = self._gather(schema, shape, 0, frozenset(key[1:]))
            shape.closed = closed and bool(shape.names)
            self._shapes[key] = (used, shape)
        return self._shapes[key][1]

    def _gather(self, schema: object, shape: _MemberShape, depth: int, left: frozenset[int]) -> bool:
        """Add the statements of a schema, without the branches that are `left`. Return False if other members are allowed, or depend on
        an unresolved choice."""
        self._parts += 1
        if not isinstance(schema, Mapping) or depth > _MAX_PARTS or self._parts > _MAX_GATHERED:
            return False
        closed = _MORE.isdisjoint(schema)
        shape.required.update(schema.get("required") or ())
        for name, member in (schema.get("properties") or {}).items():
            shape.add(name, member)
        shape.patterns += (schema.get("patternProperties") or {}).items()
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            shape.rest = _all([others] if shape.rest is None else [shape.rest, others])
        if isinstance(ref := schema.get("$ref"), str):
            target = self._target(ref)
            said = _SAYS_SOMETHING.intersection(target) != set()
            closed = self._gather(target, shape, depth + 1, left) and said and closed
        for part in schema.get("allOf") or ():
            closed = self._gather(part, shape, depth + 1, left) and closed
        for keyword in ("anyOf", "oneOf"):
            if branches := self._branches(schema, keyword, "object"):
                kept = [one for one in branches if id(one) not in left]
                if len(kept) == 1:
                    closed = self._gather(kept[0], shape, depth + 1, left) and len(branches) == 1 and closed
                else:
                    closed = False
                    self._join(kept, shape, depth + 1, left)
        return closed

    def _join(self, branches: list[Schema], shape: _MemberShape, depth: int, left: frozenset[int]) -> None:
        """Add the statements of alternative branches: a member has to fit one of its schemas."""
        shapes = [_MemberShape() for _ in branches]
        for branch, one in zip(branches, shapes, strict=True):
            self._gather(branch, one, depth, left)
            shape.required |= one.required
        for name in dict.fromkeys(name for one in shapes for name in one.names):
            shape.add(name, {"anyOf": [said for one in shapes if (said := one.of(name)) is not None]})
        if any(one.rest is not None for one in shapes):
            rest = {"anyOf": [one.rest for one in shapes if one.rest is not None]}
            shape.rest = _all([rest] if shape.rest is None else [shape.rest, rest])

    def _other_branches(self, schema: Schema, value: Mapping[str, Json], depth: int) -> list[Schema]:
        """Return the branches that the value contradicts by a constant."""
        if depth > _MAX_PARTS:
            return []
        found: list[Schema] = []
        if isinstance(ref := schema.get("$ref"), str):
            found += self._other_branches(self._target(ref), value, depth + 1)
        for part in schema.get("allOf") or ():
            found += self._other_branches(part, value, depth + 1) if isinstance(part, Mapping) else []
        for keyword in ("anyOf", "oneOf"):
            branches = self._branches(schema, keyword, "object")
            if 1 < len(branches) <= _MAX_BRANCHES:
                found += [one for one in branches if self._contradicts(one, value, 0)]
        return found

    def _contradicts(self, schema: object, value: Mapping[str, Json], depth: int) -> bool:
        """Return True if a text in the value is none of the texts that the schema allows for its member."""
        if not isinstance(schema, Mapping) or depth > _MAX_PARTS:
            return False
        for name, member in (schema.get("properties") or {}).items():
            if isinstance(given := value.get(name), str) and isinstance(member, Mapping):
                choices = [member["const"]] if "const" in member else member.get("enum")
                if isinstance(choices, (list, tuple)) and given not in choices:
                    return True
        parts = [
            *(schema.get("allOf") or ()),
            *([self._target(ref)] if isinstance(ref := schema.get("$ref"), str) else ()),
        ]
        return any(self._contradicts(part, value, depth + 1) for part in parts)

    def _items(self, schema: Schema, depth: int = 0) -> tuple[Sequence[object], object]:
        """Return the schemas of a list's first items, and the schema of all others, if they are stated."""
        first = schema.get("prefixItems") or ()
        if depth > _MAX_PARTS or first or isinstance(schema.get("items"), Mapping):
            return first, schema.get("items")
        parts: list[object] = [self._target(ref)] if isinstance(ref := schema.get("$ref"), str) else []
        parts += schema.get("allOf") or ()
        said = [
            found
            for keyword in ("anyOf", "oneOf")
            for one in self._branches(schema, keyword, "array")
            if (found := self._items(one, depth + 1)) != _NO_ITEMS
        ]
        said += [
            found for one in parts if isinstance(one, Mapping) and (found := self._items(one, depth + 1)) != _NO_ITEMS
        ]
        return said[0] if len(said) == 1 else _NO_ITEMS

    def _branches(self, schema: Schema, keyword: str, kind: str) -> list[Schema]:
        """Return the branches of a choice that may have a type."""
        branches = schema.get(keyword)
        if not isinstance(branches, (list, tuple)):
            return []
        each = [(one, json_types(one, self._root, self._types)) for one in branches if isinstance(one, Mapping)]
        return [one for one, types in each if not types or kind in types]

    def _target(self, ref: str) -> Schema:
        target = self._root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
        return target if isinstance(target, Mapping) else {}


def _all(schemas: list[Schema]) -> Schema:
    """Return a schema that accepts what all of these accept."""
    return schemas[0] if len(schemas) == 1 else {"allOf": schemas}


@lru_cache(maxsize=1024)
def _matches(pattern: str, name: str) -> bool:
    """Return True if a pattern of `patternProperties` matches a name; linear time. A pattern that linear time cannot handle never
    matches."""
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, name, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError:
        return False


def pointer_step(name: str) -> str:
    """Return a name as a step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def json_types(schema: Schema, root: Schema, known: dict[int, frozenset[str]], depth: int = 0) -> frozenset[str]:
    """Return the JSON types of a property, or nothing if they are unknown. `known` caches the types of schemas by identity."""
    if depth > _MAX_PARTS:
        return frozenset()
    if id(schema) not in known:
        known[id(schema)] = frozenset()  # of a schema that refers to itself
        found = [types for types in _said_types(schema, root, known, depth) if types]
        both = (types | {"integer"} if "number" in types else types for types in found)
        types = frozenset.intersection(*both) if found else frozenset()
        known[id(schema)] = types - {"integer"} if "number" in types else types
    return known[id(schema)]


def _said_types(schema: Schema, root: Schema, known: dict[int, frozenset[str]], depth: int) -> Iterator[frozenset[str]]:
    """Yield the types that each keyword of a schema allows."""
    declared = schema.get("type")
    if isinstance(declared, str):
        yield frozenset({declared})
    elif isinstance(declared, Sequence):
        yield frozenset(declared)
    elif _SAYS_OTHERWISE.isdisjoint(schema):
        implied = {_IMPLIED[key] for key in schema if key in _IMPLIED}
        if len(implied) == 1:
            yield frozenset(implied)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        yield json_types(target, root, known, depth + 1) if isinstance(target, Mapping) else frozenset()
    for branch in schema.get("allOf") or ():
        if isinstance(branch, Mapping):
            yield json_types(branch, root, known, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, Sequence) and branches:
            found = [json_types(branch, root, known, depth + 1) for branch in branches if isinstance(branch, Mapping)]
            if len(found) == len(branches) and all(found):
                yield frozenset().union(*found)


def never_empty(schema: Schema, types: frozenset[str]) -> bool:
    """Return True if a schema whose types are known refuses the empty text."""
    if types and "string" not in types:
        return True
    choices = schema.get("enum")
    return schema.get("format") in CHECKED_FORMATS or (isinstance(choices, (list, tuple)) and "" not in choices)


def spelt_out(text: str, types: frozenset[str]) -> tuple[Json] | None:
    """Return the JSON value that a text encodes exactly, if it has a declared type and text itself is not declared."""
    if not types or "string" in types or len(text) > _MAX_REPAIR_LENGTH:
        return None
    if (bare := text.strip(_JSON_SPACE)) != text and bare[:1] not in {"{", "["}:
        return None
    if deeper_than(text.encode("utf-8", "surrogatepass"), MAX_DEPTH):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    kind = _TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return (with_integers(value),)
    return None
