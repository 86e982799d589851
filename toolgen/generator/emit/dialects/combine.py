"""Combinations of schemas in their listed form: a schema for the values of any of several, or of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from toolgen.model.schema import Schema

__all__ = [
    "CONSTRAINTS",
    "MAX_BRANCHES",
    "NESTED",
    "OF_TYPE",
    "SCALARS",
    "TYPED",
    "TYPES",
    "Combiner",
    "annotations_of",
    "distinct_values",
    "has_type",
    "values_of",
    "with_words",
]

MAX_BRANCHES: Final = 64  # maximum forms of a union that are joined
_MAX_REPEATED: Final = 1_000  # bytes of common parts that the forms of an object may repeat
_MAX_TOLD: Final = 400

SCALARS = frozenset({"string", "integer", "number", "boolean"})
TYPES = SCALARS | {"object", "array", "null"}
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"})
OF_TYPE: Mapping[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "object": frozenset(
        {
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties", "dependentRequired"),
        }
    ),
}
TYPED = frozenset().union(*OF_TYPE.values())
_MAPS = frozenset({"properties", "patternProperties"})
_LISTS = frozenset({"anyOf", "prefixItems"})
NESTED = _MAPS | _LISTS | {"items", "additionalProperties", "propertyNames"}
CONSTRAINTS = TYPED | {"type", "enum", "const", "anyOf"}
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


class Combiner:
    """Combiner of built schemas, which must not be modified. An object may be used at several places of a schema, so results that grow with
    these places, such as the total length, are computed once for each object.

    `shares` is True if objects may be shared; nested schemas are then not compared for equality. `overflowed` is True if a union was left
    out because it had too many forms.
    """

    def __init__(self, sizes: dict[int, tuple[Any, int]] | None = None) -> None:
        """Create a combiner. `sizes` are those of schemas of other combiners that are used too."""
        self.shares = False
        self.overflowed = False
        self._joined: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        self._sizes = {} if sizes is None else sizes

    def any_of(self, base: dict[str, Any], branches: Iterable[dict[str, Any]]) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for branch in branches:
            about = {"description": branch["description"]} if "anyOf" in branch and "description" in branch else {}
            found += [{**about, **one} for one in branch["anyOf"]] if "anyOf" in branch else [branch]
        self.overflowed = self.overflowed or len(found) > MAX_BRANCHES
        if not 0 < len(found) <= MAX_BRANCHES or not all(map(has_type, found)):
            return base
        constraints = {key: value for key, value in base.items() if key in CONSTRAINTS}
        if constraints:
            if "anyOf" in constraints:
                return base
            found = [one for one in found if not _disjoint(constraints, one)]
            if "properties" in base and len(found) > 1 and self.size_of(base) * (len(found) - 1) > _MAX_REPEATED:
                return self.one_object(base, found)
            self.shares = True
            found = [self.both(constraints, one) for one in found]
            if not found:
                return base
        found = _one_enum(_distinct(found))
        annotations = annotations_of(base)
        if len(found) == 1:
            return {**found[0], **annotations}
        if flat := self._discriminated(found):
            return {**flat, **annotations}
        return {"anyOf": found, **annotations}

    def _discriminated(self, branches: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Return forms of an object that one member distinguishes as one object; None if information would be lost."""
        if not all(
            one.get("type") == "object"
            and "properties" in one
            and one.keys() <= {"type", "properties", "required", "description", "title"}
            for one in branches
        ):
            return None
        name = next((name for name in branches[0].get("required", ()) if _tells_apart(name, branches)), None)
        if name is None:
            return None
        values = [_single(one["properties"][name]) for one in branches]
        properties: dict[str, Any] = {}
        for branch in branches:
            for key, one in branch["properties"].items():
                if key != name and not self._same(properties.setdefault(key, one), one):
                    return None
        required = [key for key in branches[0]["required"] if all(key in one["required"] for one in branches)]
        first = branches[0]["properties"][name]
        kept = {
            key: value
            for key, value in first.items()
            if key not in {"const", "enum", "default", "title", "description", "examples"}
        }
        about = [
            f"{value}: {words}"
            for value, one in zip(values, branches, strict=True)
            if (words := one.get("description") or one.get("title"))
        ]
        texts = {str(one["properties"][name].get("description", "")) for one in branches} - {""}
        said = " ".join([*(texts if len(texts) == 1 else ()), *about])
        if len(said) > _MAX_TOLD or len(texts) > 1:
            return None
        for key, one in properties.items():
            properties[key] = _with_condition(one, name, values, branches, key)
        shape = {**kept, "enum": values, **({"description": said} if said else {})}
        return {"type": "object", "properties": {name: shape, **properties}, "required": required}

    def _same(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if self.shares and not (_is_flat(one) and _is_flat(other)):
            return False
        return bool(one == other)

    def both(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that accepts every value that both accept. Constraints that one schema cannot combine are those of the first."""
        key = (id(one), id(other))
        if key not in self._joined:
            self._joined[key] = (one, other, self._joined_schema(one, other))
        built: dict[str, Any] = self._joined[key][2]
        return built

    def _joined_schema(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        if one is other:
            return one
        annotations = {**annotations_of(other), **annotations_of(one)}
        first = {key: value for key, value in one.items() if key in CONSTRAINTS}
        second = {key: value for key, value in other.items() if key in CONSTRAINTS}
        if not first or not second:
            return {**(first or second), **annotations}
        if "anyOf" in first and "anyOf" in second:
            return {**first, **annotations}
        if "anyOf" in first or "anyOf" in second:
            union, plain = (first, second) if "anyOf" in first else (second, first)
            fitting = [self.both(branch, plain) for branch in union["anyOf"] if not _disjoint(branch, plain)]
            self.shares = True
            if len(fitting) == 1:
                return {**fitting[0], **annotations}
            return {**({"anyOf": fitting} if fitting else first), **annotations}
        if has_type(first) != has_type(second):
            typed, bounds = (first, second) if has_type(first) else (second, first)
            own = OF_TYPE.get(typed["type"], frozenset())
            return {**self._all_of(typed, {key: value for key, value in bounds.items() if key in own}), **annotations}
        if _disjoint(first, second):
            return {**first, **annotations}
        return {**self._all_of(first, second), **annotations}

    def _all_of(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        built = dict(one)
        for key, value in other.items():
            if key not in built:
                built[key] = value
            elif key == "type":
                built[key] = "integer" if "integer" in {built[key], value} else built[key]
            elif key == "properties":
                members = dict(built[key])
                for name, schema in value.items():
                    members[name] = self.both(members[name], schema) if name in members else schema
                built[key] = members
            elif key == "items":
                built[key] = (
                    self.both(built[key], value)
                    if "prefixItems" not in one and "prefixItems" not in other
                    else built[key]
                )
            elif key == "required":
                built[key] = [*dict.fromkeys([*built[key], *value])]
            elif key == "enum":
                built[key] = [item for item in built[key] if item in value] or built[key]
            elif not isinstance(value, (int, float)) or not isinstance(built[key], (int, float)):
                continue
            elif key in _LOWER:
                built[key] = max(built[key], value)
            elif key in _UPPER:
                built[key] = min(built[key], value)
        if "const" in built and "enum" in built:
            del built["enum"]
        return built

    def one_object(self, base: dict[str, Any], forms: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return an object with the members of its forms; those required by every form are required."""
        self.shares = True
        members: dict[str, list[dict[str, Any]]] = {}
        for form in forms:
            for name, one in form.get("properties", {}).items():
                members.setdefault(name, []).append(one)
        of_forms = {name: self.any_of({}, _distinct(several)) for name, several in members.items()}
        demanded = [
            [name for name in form.get("required", ()) if name not in base.get("required", ())] for form in forms
        ]
        common = [name for name in (demanded[0] if demanded else ()) if all(name in one for one in demanded)]
        required = [*base.get("required", ()), *common]
        whole = {
            **base,
            "properties": {**of_forms, **base["properties"]},
            **({"required": required} if required else {}),
        }
        wanted = [" and ".join(name for name in one if name not in common) for one in demanded]
        return with_words(whole, f"Give {' or '.join(wanted)}.") if wanted and all(wanted) else whole

    def size(self, built: Any) -> int:
        """Return the length of a built schema as JSON, in bytes."""
        if not self.shares:
            return _length(built)
        return self.size_of(built)

    def size_of(self, schema: dict[str, Any]) -> int:
        known = self._sizes.get(id(schema))
        if known is not None:
            return known[1]
        total = 2
        for key, value in schema.items():
            total += len(key) + 4
            if key in _MAPS:
                total += 2 + sum(len(name) + 4 + self.size_of(one) for name, one in value.items())
            elif key in _LISTS:
                total += 2 + sum(self.size_of(one) + 1 for one in value)
            else:
                total += self.size_of(value) if key in NESTED else _length(value)
        self._sizes[id(schema)] = (schema, total)
        return total


def has_type(built: Schema) -> bool:
    return "type" in built or "anyOf" in built


def annotations_of(built: Schema) -> dict[str, Any]:
    return {key: value for key, value in built.items() if key not in CONSTRAINTS}


def values_of(schema: Schema) -> Sequence[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, (list, tuple)) and values else None


def distinct_values(values: Iterable[Any]) -> list[Any]:
    """Return the values without repetitions; true and 1 are different."""
    found: dict[bytes, Any] = {}
    for value in values:
        found.setdefault(value.encode() if value.__class__ is str else msgspec.json.encode([value]), value)
    return [*found.values()]


def _is_flat(schema: Any) -> bool:
    return isinstance(schema, Mapping) and not (schema.keys() & NESTED)


def _distinct(branches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for branch in branches:
        if not any(one is branch or (_is_flat(one) and _is_flat(branch) and one == branch) for one in kept):
            kept.append(branch)
    return kept


def _one_enum(branches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the branches with single values of one type, without descriptions, combined in one branch."""
    values: dict[str, list[Any]] = {}
    found: list[dict[str, Any]] = []
    for branch in branches:
        kind = branch.get("type")
        if kind != "string" or branch.keys() not in ({"type", "const"}, {"type", "enum"}):
            found.append(branch)
            continue
        if kind not in values:
            values[kind] = []
            found.append({"type": kind, "enum": values[kind]})
        values[kind] += branch.get("enum") or [branch["const"]]
    for kind, several in values.items():
        values[kind][:] = distinct_values(several)
    return found


def _disjoint(one: Schema, other: Schema) -> bool:
    kinds = {one.get("type"), other.get("type")}
    return None not in kinds and len(kinds) == 2 and kinds != {"integer", "number"}


def _single(schema: Schema) -> Any:
    """Return the only text that a schema accepts; None for any other schema."""
    values = values_of(schema)
    return values[0] if values is not None and len(values) == 1 and isinstance(values[0], str) else None


def _tells_apart(name: str, branches: Sequence[dict[str, Any]]) -> bool:
    values = [_single(one["properties"].get(name, {})) if name in one.get("required", ()) else None for one in branches]
    return None not in values and len(set(values)) == len(values)


def _with_condition(
    schema: dict[str, Any], name: str, values: Sequence[str], branches: Sequence[dict[str, Any]], key: str
) -> dict[str, Any]:
    """Return a member of some forms, with the values of the discriminator that it belongs to."""
    having = [value for value, one in zip(values, branches, strict=True) if key in one["properties"]]
    needing = [value for value, one in zip(values, branches, strict=True) if key in one["required"]]
    words = [f"Only with {name} {', '.join(having)}."] if len(having) < len(values) else []
    if needing and needing != having:
        words.append(f"Required with {', '.join(needing)}.")
    elif needing and len(having) < len(values):
        words = [f"Only and always with {name} {', '.join(having)}."]
    return with_words(schema, " ".join(words)) if words else schema


def with_words(schema: dict[str, Any], words: str) -> dict[str, Any]:
    """Return the schema with a sentence after its description, unless the sentence is long."""
    if len(words) > _MAX_TOLD:
        return schema
    before = str(schema.get("description", "")).rstrip()
    stop = "" if not before or before.endswith((".", "!", "?", "…", ":")) else "."
    return {**schema, "description": f"{before}{stop} {words}".lstrip()}


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value, enc_hook=dict))
