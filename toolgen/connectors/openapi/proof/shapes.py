"""Shapes of the values that a schema allows: one value, an array, an object."""

from __future__ import annotations

from typing import Any

from toolgen.connectors.openapi.proof.spec_operation import SpecOperation

__all__ = ["shapes"]

_MAX_DEPTH = 12


def shapes(described: SpecOperation, schema: Any) -> frozenset[str]:
    """Return the shapes that a schema allows, of `primitive`, `array` and `object`; empty if it does not restrict them."""
    return _shapes(described, schema, 0) or frozenset()


def _shapes(described: SpecOperation, written: Any, depth: int) -> frozenset[str] | None:
    schema = described.schema(written)
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    kinds = schema.get("type")
    found: frozenset[str] | None = None
    if isinstance(kinds, (str, list)):
        names = {kinds} if isinstance(kinds, str) else set(kinds)
        found = frozenset(name if name in {"array", "object"} else "primitive" for name in names - {"null"})
    elif schema.keys() & {"anyOf", "oneOf", "allOf"}:
        pass  # These keywords decide; beside them, keywords for another type have no effect.
    elif "properties" in schema:
        found = frozenset({"object"})
    elif "items" in schema:
        found = frozenset({"array"})
    for key in ("anyOf", "oneOf"):
        branches = [_shapes(described, one, depth + 1) for one in schema.get(key) or ()]
        if branches and None not in branches:
            union = frozenset().union(*(one for one in branches if one is not None))
            found = union if found is None else found & union
    for one in schema.get("allOf") or ():
        part = _shapes(described, one, depth + 1)
        if part is not None:
            found = part if found is None else found & part
    return found
