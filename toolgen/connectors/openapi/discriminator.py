"""Conversion of a discriminator to JSON Schema: each branch gets the values of the property that choose it (3.1.1, section 4.8.25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError

__all__ = ["discriminate"]

_MAX_DEPTH = 20


def discriminate(
    built: dict[str, Any], raw: Mapping[str, Any], discriminator: Mapping[str, Any], documents: Documents
) -> None:
    """Add the discriminator's values to the branches of a converted `oneOf` or `anyOf`, except to branches that restrict the property
    themselves.
    """
    name = discriminator.get("propertyName")
    keyword = "oneOf" if "oneOf" in built else "anyOf"
    if not isinstance(name, str) or keyword not in built:
        return
    chosen = _mapped(discriminator.get("mapping"))
    tails = [_tail(written.get("$ref")) if isinstance(written, dict) else "" for written in raw[keyword]]
    fallback = _tail(discriminator.get("defaultMapping"))
    elsewhere = [value for tail in tails if tail and tail != fallback for value in chosen.get(tail, [tail])]
    branches = []
    for tail, written, branch in zip(tails, raw[keyword], built[keyword], strict=True):
        if not tail or not isinstance(branch, dict) or "properties" in branch:
            branches.append(branch)
        elif tail == fallback:
            branches.append(_otherwise(branch, name, elsewhere))
        else:
            branches.append(_chosen(branch, name, chosen.get(tail, [tail]), _allowed(written, name, documents)))
    built[keyword] = branches


def _tail(reference: object) -> str:
    """Return the name of a schema from a reference or a name, because mappings contain either."""
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


def _mapped(mapping: object) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(target, str):
            chosen.setdefault(_tail(target), []).append(value)
    return chosen


def _chosen(
    branch: dict[str, Any], name: str, values: Sequence[str], allowed: Sequence[object] | None
) -> dict[str, Any]:
    """Return the branch restricted to its values, as far as it allows them. A branch that allows none of them is returned unchanged."""
    possible = [value for value in values if allowed is None or value in allowed]
    if not possible or (allowed is not None and all(value in possible for value in allowed)):
        return branch
    choice = {"const": possible[0]} if len(possible) == 1 else {"enum": possible}
    return {
        **branch,
        "properties": {name: choice},
        "required": list(dict.fromkeys((*branch.get("required", ()), name))),
    }


def _otherwise(branch: dict[str, Any], name: str, elsewhere: Sequence[str]) -> dict[str, Any]:
    """Return the branch for all values that choose no other branch, and for an absent value (3.2.0, `defaultMapping`)."""
    if not elsewhere:
        return branch
    other = {"properties": {name: {"enum": list(dict.fromkeys(elsewhere))}}, "required": [name]}
    return {"allOf": [branch, {"not": other}]} if "not" in branch else {**branch, "not": other}


def _allowed(raw: Any, name: str, documents: Documents) -> Sequence[object] | None:
    """Return the values that a schema as written allows for one of its properties; None if it does not restrict them."""
    found: Sequence[object] | None = None
    for part in _parts(raw, documents):
        properties = part.get("properties")
        if isinstance(properties, dict) and name in properties:
            for one in _parts(properties[name], documents):
                found = _both(found, _values(one))
    return found


def _parts(raw: Any, documents: Documents) -> list[dict[str, Any]]:
    """Return a schema and all schemas that it is composed of (`$ref`, `allOf`), with references followed."""
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    todo = [(raw, 0)]
    while todo:
        node, level = todo.pop()
        if not isinstance(node, dict) or id(node) in seen or level > _MAX_DEPTH:
            continue
        seen.add(id(node))
        try:
            node = documents.held(node)
        except UnresolvedRefError:
            continue
        found.append(node)
        if isinstance(node.get("$ref"), str):
            try:
                todo.append((documents.lookup(node["$ref"]), level + 1))
            except UnresolvedRefError:
                continue
        if isinstance(branches := node.get("allOf"), list):
            todo += [(one, level + 1) for one in branches]
    return found


def _values(schema: Mapping[str, Any]) -> Sequence[object] | None:
    if "const" in schema:
        return [schema["const"]]
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    kind = schema.get("type", "string")
    # The values of a mapping are texts, so they cannot choose a branch by a property of another type.
    return None if kind == "string" or (isinstance(kind, list) and "string" in kind) else []


def _both(one: Sequence[object] | None, other: Sequence[object] | None) -> Sequence[object] | None:
    if one is None or other is None:
        return other if one is None else one
    return [value for value in one if value in other]
