"""What the objects within arguments are made of: the members that their schemas name, and slips of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolgen.json_codec import MAX_DEPTH, deeper_than
from toolgen.model.names import near
from toolgen.model.schema import Json, Schema

__all__ = ["Changes", "Members", "json_types", "pointer_step", "spelt_out", "whole"]

_MAX_DEPTH = 64
_EXACT = 2**53  # beyond it a float stands for several integers
_MAX_UNKNOWN = 100  # names that are compared with the known ones
_MAX_REPAIR_LENGTH = 65_536
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_MAX_PARTS = 8  # levels of references and combinators that make up one object
_MORE = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties", "if", "dependentSchemas"})
_SAYS_SOMETHING = frozenset({"properties", "required", "$ref", "allOf", "anyOf", "oneOf"})


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What `Members.known` changed, as JSON pointers: members that it left out, and texts that it read as JSON."""

    dropped: list[str]
    repaired: list[str]


class Members:
    """What the objects within the arguments of one schema are made of."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._found: dict[int, tuple[dict[str, Any], bool]] = {}
        self._unknown = 0

    def known(self, value: Json, schema: object, pointer: str, changes: Changes, depth: int = 0) -> Json:
        """The value without members that look like a slip of one that its schema names and are nothing that it speaks of, and with JSON in
        place of texts that spell it out; the very same where there is none. Other members stay: a schema that is silent of them allows
        them, as that of a parent of other schemas does."""
        if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return value
        match value:
            case Mapping():
                names, closed = self._of(schema)
                made: dict[str, Json] = {}
                for name, item in value.items():
                    below = f"{pointer}/{pointer_step(name)}"
                    if name in names:
                        made[name] = self.known(item, names[name], below, changes, depth + 1)
                    elif closed and self._is_slip(name, names):
                        changes.dropped.append(below)
                    else:
                        made[name] = item
                return made if len(made) < len(value) or any(made[key] is not value[key] for key in made) else value
            case list() | tuple():
                inside = self._items(schema)
                items = [
                    self.known(item, inside, f"{pointer}/{index}", changes, depth + 1)
                    for index, item in enumerate(value)
                ]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            case str() if depth and (better := spelt_out(value, json_types(schema, self._root, 0))) is not None:
                changes.repaired.append(pointer)
                return self.known(better[0], schema, pointer, changes, depth + 1)
            case _:
                return value

    def _is_slip(self, name: str, names: Mapping[str, Any]) -> bool:
        """Whether a name was probably meant to be one of others; not of as many unknown ones that they are no slips."""
        self._unknown += 1
        return self._unknown <= _MAX_UNKNOWN and near(name, names) != ""

    def nearest(self, pointer: str) -> str:
        """The member that was probably meant by one at a JSON pointer, or ""."""
        *steps, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
        schema: object = self._root
        for number, step in enumerate(steps):
            if not isinstance(schema, Mapping):
                return ""
            names = schema.get("properties", {}) if number == 0 else self._of(schema)[0]
            schema = names[step] if step in names else self._items(schema)
        return near(last, self._of(schema)[0]) if isinstance(schema, Mapping) else ""

    def _of(self, schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The members that an object's schema names, and whether it leaves no room for others by saying nothing of them."""
        if id(schema) not in self._found:
            names: dict[str, Any] = {}
            closed = self._gather(schema, names, 0)
            self._found[id(schema)] = (names, closed and bool(names))
        return self._found[id(schema)]

    def _gather(self, schema: object, names: dict[str, Any], depth: int) -> bool:
        """Adds what a schema names. False where others are allowed, or cannot be told from what stands behind a choice."""
        if not isinstance(schema, Mapping) or depth > _MAX_PARTS:
            return False
        closed = _MORE.isdisjoint(schema)
        if isinstance(properties := schema.get("properties"), Mapping):
            names.update(properties)
        if isinstance(ref := schema.get("$ref"), str):
            target = self._target(ref)
            closed = _SAYS_SOMETHING.intersection(target) != set() and self._gather(target, names, depth + 1) and closed
        for part in schema.get("allOf") or ():
            closed = self._gather(part, names, depth + 1) and closed
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), (list, tuple)):
                objects = [one for one in branches if not self._is_scalar(one)]
                closed = len(objects) == 1 and self._gather(objects[0], names, depth + 1) and closed
        return closed

    def _items(self, schema: Mapping[str, Any], depth: int = 0) -> object:
        """The schema of a list's items, where one is said."""
        if isinstance(items := schema.get("items"), Mapping) or depth > _MAX_PARTS:
            return items
        parts: list[object] = [self._target(ref)] if isinstance(ref := schema.get("$ref"), str) else []
        for keyword in ("anyOf", "oneOf"):
            parts += [one for one in schema.get(keyword) or () if not self._is_scalar(one)]
        return self._items(parts[0], depth + 1) if len(parts) == 1 and isinstance(parts[0], Mapping) else None

    def _target(self, ref: str) -> Mapping[str, Any]:
        target = self._root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
        return target if isinstance(target, Mapping) else {}

    def _is_scalar(self, schema: object) -> bool:
        """Whether a branch takes neither objects nor lists."""
        types = json_types(schema, self._root, 0) if isinstance(schema, Mapping) else frozenset()
        return bool(types) and types.isdisjoint({"object", "array"})


def pointer_step(name: str) -> str:
    """A name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def json_types(schema: Mapping[str, Any], root: Schema, depth: int) -> frozenset[str]:
    """The JSON types a property may have, or nothing when that cannot be told."""
    if depth > _MAX_PARTS:
        return frozenset()
    found = [types for types in _said_types(schema, root, depth) if types]
    if not found:
        return frozenset()
    both = frozenset.intersection(*(types | {"integer"} if "number" in types else types for types in found))
    return both - {"integer"} if "number" in both else both


def _said_types(schema: Mapping[str, Any], root: Schema, depth: int) -> Iterator[frozenset[str]]:
    """The types that each keyword of a schema allows."""
    declared = schema.get("type")
    if isinstance(declared, str):
        yield frozenset({declared})
    elif isinstance(declared, Sequence):
        yield frozenset(declared)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        yield json_types(target, root, depth + 1) if isinstance(target, Mapping) else frozenset()
    for branch in schema.get("allOf") or ():
        if isinstance(branch, Mapping):
            yield json_types(branch, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, Sequence) and branches:
            found = [json_types(branch, root, depth + 1) for branch in branches if isinstance(branch, Mapping)]
            if len(found) == len(branches) and all(found):
                yield frozenset().union(*found)


def spelt_out(text: str, types: frozenset[str]) -> tuple[Json] | None:
    """The one JSON value a text spells out, when it is of a declared type and text itself is not one of them."""
    if not types or "string" in types or len(text) > _MAX_REPAIR_LENGTH or text != text.strip():
        return None
    if deeper_than(text.encode("utf-8", "surrogatepass"), MAX_DEPTH):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    kind = _TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return (whole(value),)
    return None


def whole(value: Json, depth: int = 0) -> Json:
    """The value with an integer for every float that is one (`7.0`): JSON and JSON Schema know no difference, services do.

    The very same object where there is none. Beyond 2**53, where a float stands for several integers, it stays what it is.
    """
    match value:
        case float():
            return int(value) if value.is_integer() and -_EXACT <= value <= _EXACT else value
        case str() | bool() | int() | None:
            return value
        case _ if depth > _MAX_DEPTH:  # more than anybody looks at; the record refuses it
            return value
        case Mapping():
            made = {key: whole(item, depth + 1) for key, item in value.items()}
            return made if any(made[key] is not item for key, item in value.items()) else value
        case _:
            items = [whole(item, depth + 1) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
