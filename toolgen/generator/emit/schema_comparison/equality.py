"""Equality of two schemas: as text, or in meaning, where descriptions are ignored and every constraint counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from toolgen.generator.emit.schema_comparison.view import ANNOTATIONS, exact, parts_of
from toolgen.model.schema import Schema

__all__ = ["Equality", "UnchangedSchemas", "same", "text", "written"]

_ONE: Final = frozenset({"additionalProperties", "not", "propertyNames", "contentSchema", "items", "contains"})
_MANY: Final = frozenset({"anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_TOGETHER: Final = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"prefixItems", "items"}),
)
_OPEN: Final = frozenset({"patternProperties", "additionalProperties"})
_IDLE: Final[Mapping[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("minLength", "minItems", "minProperties"), (0,)),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas", "dependentRequired", "propertyNames"), ({},)),
    **dict.fromkeys(("required", "allOf"), ([],)),
    "uniqueItems": (False,),
}  # fmt: skip
"""Values without an effect, by keyword. Any `items` or `additionalProperties` has an effect: the values they describe are evaluated."""
_MAX_DEPTH: Final = 100
_MAX_STEPS: Final = 30_000
_REFERENCE: Final = re.compile(rb'"\$(?:ref|dynamicRef)":"((?:[^"\\]|\\.)*)"')
_DEFINITION: Final = re.compile(rb"#/\$defs/([^/~%\\]+)")

Demand = tuple[tuple[str, ...], Any]
"""Demand of one keyword, or several related ones: its kind, and its value."""


def same(old: Any, new: Any, old_root: Schema, new_root: Schema) -> bool:
    """Return True only if no value distinguishes the two. References are followed; two recursive schemas may be the same."""
    return Equality(old_root, new_root).holds(old, new)


def text(schema: Any) -> str:
    """Return a schema as JSON, for numbers of any size."""
    return json.dumps(schema, ensure_ascii=False, default=dict)


class Equality:
    """Comparisons of schemas below two roots, with a common limit.

    A pair that recurs is assumed to be the same, which is correct if nothing else distinguishes the two.
    """

    def __init__(self, old_root: Schema, new_root: Schema) -> None:
        self._old, self._new = old_root, new_root
        self._met: dict[tuple[str, str], None] = {}
        self._steps = 0

    def holds(self, old: Any, new: Any) -> bool:
        """Return True if two schemas are the same, as `same` does."""
        self._met.clear()
        return self.schemas(old, new, 0)

    def schemas(self, old: Any, new: Any, depth: int) -> bool:
        """Return True if two nested schemas are the same."""
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return False
        mark = len(self._met)
        if any(isinstance(schema, Mapping) and schema.keys() & {"$ref", "allOf"} for schema in (old, new)):
            key = (text(old), text(new))
            if key in self._met:
                return True
            self._met[key] = None
        before, after = list(_demands(old, self._old)), list(_demands(new, self._new))
        found = self._all_in(before, after, depth) and self._all_in(after, before, depth, swapped=True)
        if not found:  # the assumptions on the way are no longer valid
            for key in list(self._met)[mark:]:
                del self._met[key]
        return found

    def _all_in(self, some: list[Demand], others: list[Demand], depth: int, *, swapped: bool = False) -> bool:
        """Return True if each demand is among others; repeated demands count once."""
        kinds: dict[tuple[str, ...], list[Any]] = {}
        for kind, value in others:
            kinds.setdefault(kind, []).append(value)
        return all(
            any(
                self._values(kind[0], *((other, value) if swapped else (value, other)), depth)
                for other in kinds.get(kind, ())
            )
            for kind, value in some
        )

    def _values(self, keyword: str, old: Any, new: Any, depth: int) -> bool:
        if keyword in ("property", *_ONE):
            return self.schemas(old, new, depth + 1)
        if keyword == "together":
            return set(old) == set(new) and all(self._values(key, old[key], new[key], depth) for key in old)
        if keyword in ("if", "then", "else", "whole"):
            return self.schemas(old, new, depth + 1)
        if keyword in _NAMED and isinstance(old, Mapping) and isinstance(new, Mapping):
            return set(old) == set(new) and all(self.schemas(old[key], new[key], depth + 1) for key in old)
        if keyword in _MANY and isinstance(old, list) and isinstance(new, list):
            return len(old) == len(new) and self._listed(keyword, old, new, depth)
        if keyword == "enum":
            return {exact(value) for value in old} == {exact(value) for value in new}
        if keyword == "type":
            return _types(old) == _types(new)
        return exact(old) == exact(new)

    def _listed(self, keyword: str, old: list[Any], new: list[Any], depth: int) -> bool:
        """Compare fixed items one by one; forms in any order, each with a different partner."""
        left = list(new)
        for schema in old:
            rest = left[:1] if keyword == "prefixItems" else left
            found = next((index for index, other in enumerate(rest) if self.schemas(schema, other, depth + 1)), None)
            if found is None:
                return False
            del left[found]
        return True


def _demands(schema: Any, root: Schema) -> Iterator[Demand]:
    parts, unevaluated = parts_of(schema, root)
    for keyword, whole in unevaluated:
        rest = {key: value for key, value in whole.items() if key != keyword}
        yield ("together", keyword), {"whole": rest, "then": whole[keyword]}
    for part in parts:
        left = {key: value for key, value in part.items() if not _idle(key, value)}
        if not left.keys() & _OPEN:
            for name, inner in (left.pop("properties", None) or {}).items():
                yield ("property", name), inner
        else:
            yield ("together", "object"), {key: left.pop(key) for key in ("properties", *_OPEN) if key in left}
        for name in left.pop("required", ()):
            yield ("required", str(name)), None
        for group in _TOGETHER:
            if len(group & left.keys()) > 1:
                yield ("together", *sorted(group)), {key: left.pop(key) for key in sorted(group) if key in left}
        if "const" in left and "enum" not in left:
            left["enum"] = [left.pop("const")]
        for keyword, value in left.items():
            yield (keyword,), value


def _idle(keyword: str, value: Any) -> bool:
    return (
        keyword in ANNOTATIONS
        or keyword.startswith("x-")
        or any(exact(value) == exact(one) for one in _IDLE.get(keyword, ()))
    )


def _types(written: Any) -> frozenset[str]:
    named = {written} if isinstance(written, str) else set(written) if isinstance(written, (list, tuple)) else set()
    return frozenset(named | {"integer"} if "number" in named else named)


class UnchangedSchemas:
    """Test whether two schemas below two roots have the same text. Only references into `$defs` are followed; with any other one the
    result is False.
    """

    def __init__(self, old_root: Schema, new_root: Schema) -> None:
        before, after = _definitions(old_root), _definitions(new_root)
        texts = {name: written(schema) for name, schema in before.items()}
        self._alike = {name for name in before.keys() & after.keys() if texts[name] == written(after[name])}
        references = {name: _names(texts[name]) for name in self._alike}
        while changed := {name for name in self._alike if not self._known(references[name])}:
            self._alike -= changed

    def holds(self, old: Any, new: Any) -> bool:
        """Return True if both have the same text, and all definitions that they use too."""
        before = written(old)
        return before == written(new) and self._known(_names(before))

    def _known(self, references: frozenset[str] | None) -> bool:
        return references is not None and references <= self._alike


def _definitions(root: Schema) -> Mapping[str, Any]:
    found = root.get("$defs")
    return found if isinstance(found, Mapping) else {}


def written(schema: Any) -> bytes:
    """Return a schema as JSON, in the order of its keys."""
    try:
        return msgspec.json.encode(schema, enc_hook=dict)
    except (OverflowError, TypeError, ValueError, RecursionError):  # a number of any size
        return text(schema).encode("utf-8", "surrogatepass")


def _names(schema: bytes) -> frozenset[str] | None:
    """Return the names of the definitions that a schema uses; None if it refers to anything else."""
    found = set()
    for reference in _REFERENCE.findall(schema):
        name = _DEFINITION.fullmatch(reference)
        if name is None:
            return None
        found.add(name[1].decode("utf-8", "surrogateescape"))
    return frozenset(found)
