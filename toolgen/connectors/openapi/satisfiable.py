"""Repair of request schemas that no value can satisfy, so that they mean what their author intended.

Services accept requests despite such schemas: enum values of another type than declared, an enum of texts on a list of them, bounds that
exclude each other, `oneOf` with branches that always overlap, and `allOf` with a member that excludes the properties of the others. Answers
are left as they are described.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import jsonschema_rs

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.core.canonical import canonical
from toolgen.core.errors import CanonicalError
from toolgen.generator.samples.json_schema import NoSampleError, samples
from toolgen.model.bound_contradictions import contradictions, excluding, plain_pattern
from toolgen.model.excerpt import bounded

__all__ = ["adds_to", "consistent", "is_closed", "overlaps"]

Note = Callable[[str, str], None]

_CODE = "repaired_schema"
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_NOTHING = object()
_WORDS = frozenset({"title", "description", "examples", "deprecated", "default"})
_SAMPLES = 8  # sample values for each branch of a choice
_MAX_BRANCHES = 32
_MAX_DEPTH = 20


def consistent(built: dict[str, Any], note: Note) -> None:
    """Make the values and bounds of a converted schema agree with its type, in place. `note` receives the changes."""
    types = _types(built)
    if isinstance(values := built.get("enum"), list) and values:
        _agree(built, _distinct(values), types, note)
    elif "const" in built and types and not _fits(built["const"], types):
        found = _converted(built["const"], types)
        if found:
            built["const"] = found[0]
            note(_CODE, f"a constant of another type than {_listed(types)} was converted")
    if isinstance(written := built.get("pattern"), str) and (pattern := plain_pattern(written)) is not None:
        note(
            _CODE,
            f"the pattern {_shown(written)} is a literal of JavaScript, {'and was read as one' if pattern else 'and was left out'}",
        )
        del built["pattern"]
        built |= {"pattern": pattern} if pattern else {}
    for keywords in contradictions(built):
        removed = " and ".join(f"`{key}: {_shown(built[key])}`" for key in keywords)
        note(_CODE, f"{removed} exclude each other, and were left out")
        for key in keywords:
            del built[key]
    if isinstance(values := built.get("enum"), list) and (against := excluding(built, values)):
        removed = ", ".join(f"`{key}: {_shown(built[key])}`" for key in against)
        note(_CODE, f"values of an enum do not fit {removed} beside it, which was left out")
        for key in against:
            del built[key]
    _name_required(built, note)


def _shown(value: Any) -> str:
    return bounded(json.dumps(value), 60)


def _name_required(built: dict[str, Any], note: Note) -> None:
    """Declare each property that a closed object requires without naming it."""
    open_ = built.get("additionalProperties") is not False or "patternProperties" in built
    if open_ or any(key in built for key in ("$ref", "allOf", "anyOf", "oneOf")):
        return
    named, required = built.get("properties", {}), built.get("required", [])
    if not isinstance(named, dict) or not isinstance(required, list):
        return
    unnamed = [name for name in required if isinstance(name, str) and name not in named]
    if unnamed:
        built["properties"] = {**named, **{name: {} for name in unnamed}}
        built["required"] = [name for name in required if name not in unnamed]
        note(
            _CODE,
            f"{', '.join(map(_shown, unnamed[:3]))} is required, but the object does not declare it; it was declared",
        )


def _agree(built: dict[str, Any], values: list[Any], types: Sequence[str], note: Note) -> None:
    items = built.get("items", {})
    if types and set(types) <= {"array", "null"} and not any(isinstance(one, list) for one in values):
        # The values belong to the items.
        del built["enum"]
        if isinstance(items, dict) and "enum" not in items and "$ref" not in items:
            kept = [one for one in values if one is not None]
            built["items"] = {**items, "enum": kept} if kept else items
            consistent(built["items"], note)
        note(_CODE, "an enum of a list was read as the enum of its items")
        return
    if not types:
        built["enum"] = values
        return
    kept, converted = list[Any](), False
    for one in values:
        if _fits(one, types):
            kept.append(one)
        elif found := _converted(one, types):
            kept.append(found[0])
            converted = True
    kept = _distinct(kept)
    if kept and ((set(types) != {"null"} and kept != [None]) or values == [None]):
        built["enum"] = kept
        if converted:
            note(_CODE, f"values of an enum were converted to its type, {_listed(types)}")
        return
    built["enum"] = values
    del built["type"]
    note(_CODE, f"an enum has no value of its type, {_listed(types)}, which was left out")


def _types(built: Mapping[str, Any]) -> tuple[str, ...]:
    written = built.get("type")
    return (written,) if isinstance(written, str) else tuple(written or ())


def _listed(types: Sequence[str]) -> str:
    return " or ".join(types)


def _fits(value: Any, types: Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return isinstance(value, tuple(kind for name in types for kind in _PYTHON[name]))


def _converted(value: Any, types: Sequence[str]) -> tuple[Any] | None:
    """Return the value as one of these types, if its written form is the same; else None."""
    if "string" in types and isinstance(value, bool | int | float):
        return (json.dumps(value),)
    if not isinstance(value, str):
        return None
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return None
    scalar = read is None or isinstance(read, bool | int | float)
    return (read,) if scalar and _fits(read, types) else None


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Return the values without repetitions: `1` and `1.0` are equal, `1` and `true` are not."""
    found: dict[bytes, Any] = {}
    for one in values:
        try:
            found.setdefault(canonical(one), one)
        except CanonicalError:
            found.setdefault(repr(one).encode(), one)
    return list(found.values())


def overlaps(branches: Sequence[Any], definitions: Mapping[str, Any]) -> bool:
    """Return True if, as far as samples show, all values of one branch of `oneOf` fit another branch too, so that no value of it is
    accepted.

    Returns False if that is unknown.
    """
    if not 1 < len(branches) <= _MAX_BRANCHES or _differ(branches):
        return False
    bare = [_bare(one) for one in branches]
    if any(one == other for at, one in enumerate(bare) for other in bare[:at]):
        return True
    whole = [_with(one, definitions) for one in branches]
    try:
        judges = [jsonschema_rs.Draft202012Validator(one, offline=True, validate_formats=True) for one in whole]
    except (ValueError, jsonschema_rs.ReferencingError):
        return False
    for number, branch in enumerate(whole):
        others = [judge for at, judge in enumerate(judges) if at != number]
        drawn = _drawn(branch)
        first = next(drawn, _NOTHING)
        if first is not _NOTHING and all(
            any(judge.is_valid(one) for judge in others) for one in chain((first,), drawn)
        ):
            return True
    return False


def _bare(branch: Any) -> Any:
    """Return a branch without its texts."""
    return {key: value for key, value in branch.items() if key not in _WORDS} if isinstance(branch, dict) else branch


def _differ(branches: Sequence[Any]) -> bool:
    """Return True if no two branches have a type in common, according to their own keywords."""
    seen: set[str] = set()
    for one in branches:
        types = {("number" if kind == "integer" else kind) for kind in _types(one)} if isinstance(one, dict) else set()
        if not types or types & seen:
            return False
        seen |= types
    return True


def _with(branch: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {} if branch is True else {"not": {}} if branch is False else branch
    return {**schema, "$defs": definitions} if definitions else schema


def _drawn(schema: Mapping[str, Any]) -> Iterator[Any]:
    try:
        yield from islice(samples(schema), _SAMPLES)
    except NoSampleError:
        return


def is_closed(documents: Documents, raw: Any, depth: int = 0) -> bool:
    """Return True if a schema as written, or a member of its `allOf`, accepts no property that it does not name."""
    found = _opened(documents, raw)
    if found is None or depth > _MAX_DEPTH:
        return False
    if found.get("additionalProperties") is False or found.get("unevaluatedProperties") is False:
        return True
    members = found.get("allOf")
    return isinstance(members, list) and any(is_closed(documents, one, depth + 1) for one in members)


def adds_to(documents: Documents, raw: Any, others: Sequence[Any]) -> bool:
    """Return True if other schemas name a property that a schema as written does not name. A closed schema refuses that property."""
    own = _named(documents, raw, 0)
    return any(_named(documents, one, 0) - own for one in others)


def _named(documents: Documents, raw: Any, depth: int) -> frozenset[str]:
    """Return the properties that a schema as written names, including those of `allOf` and choices."""
    found = _opened(documents, raw)
    if found is None or depth > _MAX_DEPTH:
        return frozenset()
    properties = found.get("properties")
    names = frozenset(properties) if isinstance(properties, Mapping) else frozenset[str]()
    for key in ("allOf", "anyOf", "oneOf"):
        members = found.get(key)
        for one in members if isinstance(members, list) else ():
            names |= _named(documents, one, depth + 1)
    return names


def _opened(documents: Documents, raw: Any) -> dict[str, Any] | None:
    try:
        found = documents.opened(raw) if isinstance(raw, dict) else None
    except UnresolvedRefError:
        return None
    return found if isinstance(found, dict) else None
