"""Check of a JSON value against a type of the schema index (GraphQL October 2021, section 3), as a service would coerce it."""

from __future__ import annotations

import math
from typing import Any

from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.graphql_schema import (
    Graph,
    GraphType,
)

__all__ = ["fault_of"]

_MAX_VALUE_DEPTH = 30


def fault_of(graph: Graph, type_: str, value: Any, depth: int = 0) -> str:
    """Return the fault of a value as a sentence without its subject; "" if the value is valid."""
    if depth > _MAX_VALUE_DEPTH:
        return f"is nested more than {_MAX_VALUE_DEPTH} levels deep"
    if type_.endswith("!"):
        return "must not be null" if value is None else fault_of(graph, type_[:-1], value, depth)
    if value is None:
        return ""
    if type_.startswith("["):
        items = value if isinstance(value, list) else [value]  # a single value is a list of one (spec, section 3.11)
        faults = (fault_of(graph, type_[1:-1], item, depth + 1) for item in items)
        return next((fault for fault in faults if fault), "")
    known = graph.types.get(type_)
    if known is None:
        return f"is of the type {type_}, which the index does not have"
    match known.kind:
        case "enum":
            return "" if value in known.members else f"must be one of {', '.join(known.members[:20])}"
        case "input":
            return _input(graph, type_, known, value, depth)
        case _:
            return _scalar(type_, value)


def _scalar(name: str, value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        "Int": whole and -(2**31) <= value < 2**31,
        "Float": whole or (isinstance(value, float) and math.isfinite(value)),  # `1e999` is infinite, which JSON lacks
        "String": isinstance(value, str),
        "Boolean": isinstance(value, bool),
        "ID": whole or isinstance(value, str),
    }
    return "" if fits.get(name, True) else f"must be of the type {name}"


def _input(graph: Graph, name: str, type_: GraphType, value: Any, depth: int) -> str:
    if not isinstance(value, dict):
        return f"must be an object of the type {name}"
    for key, inner in value.items():
        if key not in type_.inputs:
            return f"has {bounded(key, 60)!r}, which {name} does not have{nearest(bounded(key, 60), type_.inputs)}"
        if fault := fault_of(graph, type_.inputs[key].type, inner, depth + 1):
            return f"has {key}, which {fault}"
    missing = [key for key, one in type_.inputs.items() if one.required and key not in value]
    if missing:
        return f"lacks {missing[0]}"
    if type_.one_of and (len(value) != 1 or None in value.values()):
        return f"must have exactly one member of {name}, and not null"
    return ""
