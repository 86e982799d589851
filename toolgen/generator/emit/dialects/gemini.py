"""Gemini's `parameters`: the OpenAPI 3.0 subset of its Schema type, without references, with types in capitals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.generator.emit.dialects.descriptions import described
from toolgen.generator.emit.dialects.merge import ANNOTATIONS, kinds, merged, target, unwrapped
from toolgen.model.schema import Schema

__all__ = ["gemini_schema"]

# google.genai.types.Schema, which forbids unknown fields; the API refuses `default` in function declarations.
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_FORMATS = frozenset({"date-time", "float", "double", "int32", "int64"})
_KEPT: Mapping[str, frozenset[str]] = {
    "string": frozenset({"pattern", "minLength", "maxLength", "format", "enum"}),
    "number": frozenset({"minimum", "maximum", "format"}),
    "integer": frozenset({"minimum", "maximum", "format"}),
    "array": frozenset({"minItems", "maxItems"}),
    "object": frozenset({"minProperties", "maxProperties"}),
}
_STRUCTURE = frozenset({"type", "properties", "items", "anyOf", "oneOf", "required"})
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_MAX_NODES = 1_500  # a Kubernetes pod without references has more than 100,000
_MAX_CHAIN_LENGTH = 100  # references on the path to one place
_DEPTHS = (24, 12, 8, 6, 5, 4, 3, 2, 1)
_ANY = "Any JSON value."


class _GeminiTooLargeError(Exception):
    """Schema that without references, down to this depth, has more nodes than a model should read."""


def gemini_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema for `types.FunctionDeclaration(parameters=...)`, for every schema.

    References are replaced by their targets. A recursive reference, or one that would exceed 1,500 nodes in total, becomes an open object
    with a description. All values of the schema stay accepted; other constraints move to the description.
    """
    for deepest in _DEPTHS:
        try:
            return _GeminiLowering(schema.get("$defs", {}), deepest, _MAX_NODES).root(schema)
        except _GeminiTooLargeError:
            continue
    return _GeminiLowering(schema.get("$defs", {}), _DEPTHS[-1], 0).root(schema)


class _GeminiLowering:
    """Conversion of one schema without references, down to a depth. `most` is the maximum number of nodes; 0 means no limit."""

    def __init__(self, definitions: Mapping[str, Any], deepest: int, most: int) -> None:
        self._definitions = definitions
        self._deepest = deepest
        self._left = most or None

    def root(self, schema: Schema) -> dict[str, Any]:
        node = {key: value for key, value in schema.items() if key != "$defs"}
        flat = self._flat(node)
        lowered = self._object({**flat, "type": "object"}, 0, frozenset())
        unsaid = [key for key in ("anyOf", "oneOf") if key in flat]
        return described(lowered, flat, unsaid) if unsaid else lowered

    def schema(self, node: Any, depth: int, above: frozenset[str]) -> dict[str, Any]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise _GeminiTooLargeError
        if not isinstance(node, dict) or not node:
            return {"description": "No value." if node is False else _ANY}
        node = unwrapped(node)
        if (found := target(node, self._definitions)) is not None:
            name, resolved = found
            if name in above or depth >= self._deepest or len(above) >= _MAX_CHAIN_LENGTH:
                return self._cut(name, resolved, node)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            if not isinstance(resolved, dict) or not (beside.keys() - ANNOTATIONS):
                whole = {**resolved, **beside} if isinstance(resolved, dict) else resolved
            else:
                whole = {"allOf": [resolved, beside], **{key: beside[key] for key in beside if key in ANNOTATIONS}}
            return self.schema(whole, depth, above | {name})
        if depth >= self._deepest and ({"properties", "items", "anyOf", "oneOf", "allOf"} & node.keys()):
            return self._cut(str(node.get("title", "")), node, node)
        flat = self._flat(node)
        for union in ("anyOf", "oneOf"):
            if union in flat and "properties" not in flat:
                return self._union(flat, union, depth, above)
        return self._typed(flat, depth, above)

    def _flat(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return the node without `allOf`: its single merged schema if there is one, else the part beside it, which accepts no less."""
        if "allOf" not in node:
            return node
        flat = merged(node, self._definitions)
        if flat is not None:
            return flat
        beside = {key: value for key, value in node.items() if key != "allOf"}
        return beside or {"description": _ANY}

    def _cut(self, name: str, node: Any, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return the placeholder for a schema that is not written out: its type, and a description of its values."""
        named = kinds(node) if isinstance(node, dict) else None
        solid = [kind for kind in named or () if kind != "null"]
        words = written.get("description") or (node.get("description") if isinstance(node, dict) else None) or ""
        label = name.rpartition(".")[2]
        keys = list(node.get("properties", {}))[:12] if isinstance(node, dict) else []
        named_words = (str(words), f"A {label}." if label else "", f"Properties: {', '.join(keys)}." if keys else "")
        about = " ".join(part for part in named_words if part)
        built: dict[str, Any] = {"type": solid[0].upper()} if len(solid) == 1 else {}
        if solid == ["array"]:
            built["items"] = {"description": _ANY}
        if named and "null" in named:
            built["nullable"] = True
        return {**built, "description": about or _ANY}

    def _union(self, node: dict[str, Any], union: str, depth: int, above: frozenset[str]) -> dict[str, Any]:
        beside = {key: value for key, value in node.items() if key not in ANNOTATIONS and key not in ("anyOf", "oneOf")}
        branches = [{"allOf": [beside, branch]} if beside else branch for branch in node[union]]
        null = any(branch == {"type": "null"} for branch in branches)
        built = [self.schema(branch, depth + 1, above) for branch in branches if branch != {"type": "null"}]
        unsaid = [key for key in node if key in ANNOTATIONS]
        if len(built) == 1:
            inner = described(built[0], node, unsaid) if unsaid else built[0]
            return {**inner, "nullable": True} if null else inner
        shape: dict[str, Any] = {"anyOf": built} if built else {"type": "NULL"}
        return described({**shape, "nullable": True} if null and built else shape, node, unsaid)

    def _typed(self, node: dict[str, Any], depth: int, above: frozenset[str]) -> dict[str, Any]:
        named = kinds(node)
        if not named:
            return described({}, {**node, "description": node.get("description", _ANY)}, list(node))
        solid = [kind for kind in named if kind != "null"]
        if not solid:
            return described({"type": "NULL"}, node, ())
        if len(solid) == 1:
            lowered = self._of(solid[0], node, depth, above)
        else:
            branches = [self._of(kind, self._narrowed(node, kind), depth, above) for kind in solid]
            unsaid = [key for key in node if key in ANNOTATIONS or key == "enum"]
            lowered = described({"anyOf": branches}, node, unsaid)
        return {**lowered, "nullable": True} if "null" in named else lowered

    @staticmethod
    def _narrowed(node: dict[str, Any], kind: str) -> dict[str, Any]:
        kept = _KEPT.get(kind, frozenset()) | (_STRUCTURE if kind in ("object", "array") else frozenset())
        return {**{key: value for key, value in node.items() if key in kept and key != "enum"}, "type": kind}

    def _of(self, kind: str, node: dict[str, Any], depth: int, above: frozenset[str]) -> dict[str, Any]:
        if kind == "object":
            return self._object(node, depth, above)
        built: dict[str, Any] = {"type": kind.upper()}
        if kind == "array":
            items = True if "prefixItems" in node else node.get("items", True)
            built["items"] = self.schema(items, depth + 1, above)
        built |= _leaf(kind, node)
        return described(built, node, _unsaid(node, built))

    def _object(self, node: dict[str, Any], depth: int, above: frozenset[str]) -> dict[str, Any]:
        built: dict[str, Any] = {"type": "OBJECT"}
        properties = {
            name: self.schema(schema, depth + 1, above) for name, schema in node.get("properties", {}).items()
        }
        if properties:
            built["properties"] = properties
        if required := [name for name in node.get("required", ()) if name in properties]:
            built["required"] = required
        built |= _leaf("object", node)
        return described(built, node, _unsaid(node, built))


def _leaf(kind: str, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords without nested schemas that have the same meaning."""
    built: dict[str, Any] = {}
    values = [node["const"]] if "const" in node else node.get("enum", [])
    for key in _KEPT.get(kind, ()) & node.keys():
        if key != "enum" and (key != "format" or node[key] in _FORMATS):
            built[key] = node[key]
    if kind == "string":
        texts = [value for value in values if isinstance(value, str)]
        if texts and "" not in texts:  # the API refuses an empty value
            built["enum"] = texts
    for exclusive, bound in _BOUNDS.items():
        if bound in _KEPT.get(kind, ()) and exclusive in node and bound not in node:
            built[bound] = node[exclusive]
    return dict(sorted(built.items()))


def _unsaid(node: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    said = _STRUCTURE | built.keys() | ({"const"} if "enum" in built else set())
    return [key for key in node if key not in said]
