"""OpenAI's strict subset: every object closed, every property required, and only keywords of its grammar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolgen.generator.emit.dialects.descriptions import described
from toolgen.generator.emit.dialects.merge import ANNOTATIONS, accepts_null, kinds, merged, target, unwrapped
from toolgen.model.schema import Schema

__all__ = ["UnfitError", "strict_schema"]

# https://platform.openai.com/docs/guides/structured-outputs, section Supported schemas.
_MAX_DEPTH = 10
_MAX_PROPERTIES = 5_000
_MAX_VALUES = 1_000
_MAX_NAMES_LENGTH = 120_000  # characters of property names, definition names, enum and const values together
_MANY_VALUES, _MAX_MANY_LENGTH = 250, 15_000  # an enum of more values has a limit on characters as well
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_KEPT: Mapping[str, frozenset[str]] = {
    "string": frozenset({"pattern", "format"}),
    "number": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "integer": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "array": frozenset({"minItems", "maxItems"}),
}
_MAX_NODES, _MAX_POINTER_LENGTH = 50_000, 250
_AROUND = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k")
_STRUCTURE = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf"})  # fmt: skip
# Keywords whose schemas may use properties that a closed object would refuse.
_OPENING = ("if", "then", "else", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems")


class UnfitError(Exception):
    """Error for a schema without a strict form. `pointer` is a JSON pointer into it; `reason` is part of a sentence."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or '#'}: {reason}")
        self.pointer = pointer
        self.reason = reason


def strict_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema for strict mode. Raises `UnfitError` if no strict schema accepts the same values.

    Strict mode requires two changes: an object accepts only listed properties, and an omitted optional property is null (`without_absent`
    reverts that). All other values of the schema stay accepted: constraints that cannot be expressed move to the description. A property
    that may be both null and absent has no strict form, since the two could not be distinguished.
    """
    lowering = _Lowering(schema.get("$defs", {}))
    flat = merged(schema, lowering.definitions) if "allOf" in schema or "$ref" in schema else dict(schema)
    if flat is None or flat.get("type", "object") != "object" or "anyOf" in flat or "oneOf" in flat:
        raise UnfitError("", "its root is not a plain object")
    flat.pop("$defs", None)
    built = lowering.object_(flat, "", root=True)
    definitions = lowering.drained()
    if definitions:
        built["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    _measure(built, definitions)
    return built


class _Lowering:
    """Conversion of one schema to strict mode."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self._nodes = 0
        self._wanted: list[str] = []
        self._lowered: dict[str, dict[str, Any]] = {}

    def drained(self) -> dict[str, dict[str, Any]]:
        """Convert the definitions that are still referred to, one after the other."""
        while self._wanted:
            name = self._wanted.pop()
            if name not in self._lowered:
                self._lowered[name] = {}
                self._lowered[name] = self.schema(self.definitions[name], f"/$defs/{name}")
        return self._lowered

    def schema(self, node: Any, pointer: str) -> dict[str, Any]:
        """Convert a schema below the root."""
        if not isinstance(node, dict) or not node:
            raise UnfitError(pointer, "it takes any value" if node is not False else "it takes no value")
        self._nodes += 1
        if self._nodes > _MAX_NODES or pointer.count("/") > _MAX_POINTER_LENGTH:
            raise UnfitError(pointer[:80], "it has no end once its allOf is taken apart")
        node = unwrapped(node)
        if "$ref" in node and not (node.keys() - ANNOTATIONS - {"$ref"}):
            return self._reference(node, pointer)
        if "allOf" in node or "$ref" in node:
            flat = merged(node, self.definitions)
            if flat is None:
                raise UnfitError(pointer, "its allOf has no single schema")
            return self.schema(flat, pointer)
        for key in _OPENING:
            if key in node:
                raise UnfitError(pointer, f"{key} has no strict form")
        for union in ("anyOf", "oneOf"):
            if union in node:
                return self._union(node, union, pointer)
        return self._typed(node, pointer)

    def _reference(self, node: dict[str, Any], pointer: str) -> dict[str, Any]:
        found = target(node, self.definitions)
        if found is None:
            raise UnfitError(pointer, "its reference leads nowhere")
        self._wanted.append(found[0])
        reference = {"$ref": node["$ref"]}
        beside = described({}, node, [key for key in node if key != "$ref"])
        return {"anyOf": [reference], **beside} if beside else reference

    def _union(self, node: dict[str, Any], union: str, pointer: str) -> dict[str, Any]:
        beside = {key: value for key, value in node.items() if key not in ANNOTATIONS and key != union}
        branches = node[union]
        if _only_required(beside, branches):
            return self._typed(node, pointer)
        built: list[dict[str, Any]] = []
        for index, branch in enumerate(branches):
            whole = {"allOf": [beside, branch]} if beside else branch
            lowered = self.schema(whole, f"{pointer}/{union}/{index}")
            built.extend(lowered["anyOf"] if lowered.keys() == {"anyOf"} else [lowered])
        unsaid = [key for key in node if key in ANNOTATIONS]
        return described({"anyOf": _distinct(built)}, node, unsaid)

    def _typed(self, node: dict[str, Any], pointer: str) -> dict[str, Any]:
        named = kinds(node)
        if not named:
            raise UnfitError(pointer, "it takes values of any type")
        solid = [kind for kind in named if kind != "null"]
        if len(solid) > 1:
            built = [self._of(kind, _only(node, kind), pointer) for kind in solid]
            built += [{"type": "null"}] if "null" in named else []
            return described({"anyOf": built}, node, [key for key in node if key in ANNOTATIONS])
        if not solid:
            return described({"type": "null"}, node, ())
        lowered = self._of(solid[0], node, pointer)
        return _nullable(lowered) if "null" in named else lowered

    def _of(self, kind: str, node: dict[str, Any], pointer: str) -> dict[str, Any]:
        if kind == "object":
            return self.object_(node, pointer, root=False)
        built: dict[str, Any] = {"type": kind}
        if "const" in node:
            built["const"] = node["const"]
        elif "enum" in node:
            built["enum"] = [value for value in node["enum"] if value is not None]
        if kind == "array":
            if "prefixItems" in node:
                raise UnfitError(pointer, "prefixItems has no strict form")
            built["items"] = self.schema(node.get("items", True), f"{pointer}/items")
        for key in _KEPT.get(kind, ()) & node.keys():
            if _sayable(key, node[key]):
                built[key] = node[key]
        built = {key: built[key] for key in ("type", *(key for key in node if key in built and key != "type"))}
        unsaid = [key for key in node if key not in built and key not in _STRUCTURE]
        return described(built, node, unsaid)

    def object_(self, node: dict[str, Any], pointer: str, *, root: bool) -> dict[str, Any]:
        """Convert an object to a closed one. The root may be empty: additional arguments of a tool without parameters are dropped
        anyway.
        """
        properties = node.get("properties", {})
        closed = node.get("additionalProperties", not properties and not root)
        if closed is not False and "additionalProperties" in node:
            raise UnfitError(pointer, "it takes properties that it does not list")
        if closed is True or "patternProperties" in node or "enum" in node or "const" in node:
            raise UnfitError(pointer, "it is an object of no known properties")
        if "if" in node or any(key in node for key in _OPENING):
            raise UnfitError(pointer, "its properties depend on each other")
        required = node.get("required", [])
        built: dict[str, Any] = {}
        for name, schema in properties.items():
            here = f"{pointer}/properties/{name}"
            built[name] = self.schema(schema, here)
            if name not in required:
                if accepts_null(schema, self.definitions):
                    raise UnfitError(here, "it may be both null and absent, which strict mode cannot tell apart")
                built[name] = _nullable(built[name])
        if missing := [name for name in required if name not in properties]:
            raise UnfitError(pointer, f"it requires {missing[0][:40]!r}, which it does not describe")
        unsaid = [key for key in node if key not in _STRUCTURE]
        shape = {"type": "object", "properties": built, "required": list(built), "additionalProperties": False}
        return described(shape, node, unsaid)


def _only_required(beside: dict[str, Any], branches: list[Any]) -> bool:
    """Return True if the branches only require some of the properties declared beside them."""
    return "properties" in beside and all(
        isinstance(branch, dict) and not (branch.keys() - ANNOTATIONS - {"required"}) for branch in branches
    )


def _only(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a schema of several types restricted to one of them; keywords for all of them are written once, above."""
    built = {key: value for key, value in node.items() if key not in ANNOTATIONS}
    if "enum" in built:
        built["enum"] = [value for value in built["enum"] if kind in _kinds_of(value)]
        if not built["enum"]:
            del built["enum"]
    return {**built, "type": kind}


def _kinds_of(value: Any) -> tuple[str, ...]:
    named = kinds({"const": value}) or ()
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
    return (*named, "integer") if whole else named


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema changed so that null conforms too."""
    if isinstance(schema.get("type"), str) and schema["type"] != "null" and "const" not in schema:
        built = {**schema, "type": [schema["type"], "null"]}
        if "enum" in built:
            built["enum"] = [*built["enum"], None]
        return built
    if "anyOf" in schema:
        null = {"type": "null"}
        return schema if null in schema["anyOf"] else {**schema, "anyOf": [*schema["anyOf"], null]}
    if isinstance(schema.get("type"), (list, str)) and "const" not in schema:
        return schema
    inner = {key: value for key, value in schema.items() if key != "description"}
    built = {"anyOf": [inner, {"type": "null"}]}
    return {**built, "description": schema["description"]} if "description" in schema else built


def _sayable(key: str, value: Any) -> bool:
    match key:
        case "format":
            return value in _FORMATS
        case "pattern":
            return not _AROUND.search(value)
        case _:
            return True


def _distinct(branches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for branch in branches:
        if branch not in kept:
            kept.append(branch)
    return kept


def _measure(root: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Raise `UnfitError` if the schema exceeds a limit of the API."""
    properties = values = characters = 0
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        properties += len(node.get("properties", ()))
        characters += sum(map(len, node.get("properties", ()))) + sum(map(len, node.get("$defs", ())))
        listed = node.get("enum", [node["const"]] if "const" in node else ())
        length = sum(len(value) for value in listed if isinstance(value, str))
        values += len(listed)
        characters += length
        if len(listed) > _MANY_VALUES and length > _MAX_MANY_LENGTH:
            raise UnfitError("", f"an enum of {len(listed)} values is longer than {_MAX_MANY_LENGTH} characters")
        todo += [*node.get("properties", {}).values(), *node.get("$defs", {}).values(), *node.get("anyOf", ())]
        todo += [node["items"]] if "items" in node else []
    for name, count, most in (
        ("properties", properties, _MAX_PROPERTIES),
        ("enum values", values, _MAX_VALUES),
        ("characters of names", characters, _MAX_NAMES_LENGTH),
    ):
        if count > most:
            raise UnfitError("", f"it has {count} {name}, and strict mode takes {most}")
    if _deeper(root, definitions):
        raise UnfitError("", f"it is nested more than {_MAX_DEPTH} levels deep")


def _deeper(root: dict[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Return True if objects and arrays nest deeper than the API allows. A recursive schema counts until its reference repeats."""
    seen: set[tuple[str, int]] = set()
    todo: list[tuple[dict[str, Any], int, frozenset[str]]] = [(root, 0, frozenset())]
    while todo:
        node, level, above = todo.pop()
        if "$ref" in node:
            name = str(node["$ref"]).removeprefix("#/$defs/")
            if name not in above and (name, level) not in seen:
                seen.add((name, level))
                todo.append((definitions[name], level, above | {name}))
        inner = [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else ())]
        if inner and level >= _MAX_DEPTH:
            return True
        todo += [(child, level + 1, above) for child in inner]
        todo += [(branch, level, above) for branch in node.get("anyOf", ())]
    return False
