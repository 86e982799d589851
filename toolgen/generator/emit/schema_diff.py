"""Changes between two schemas, in words, and the side that each change breaks: writers of values or readers of values.

For a writer a change is compatible if the new schema accepts every value that the old one accepted, with the same meaning. For a reader
it is compatible if every value that may come now could have come before, and all descriptions are kept. One exception: naming a property
that the old schema neither named nor described breaks no writer, because writers are assumed not to have sent it.

The comparison is sound and not complete. A schema is a conjunction of keywords, so it is enough that each keyword of the other side
follows from one keyword. Otherwise forms are tried one by one, listed values are validated against the other schema, and a recursive
schema is assumed to be contained while its parts are compared. A change that does not follow even so is called breaking, and its text
says that it cannot be decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations
from typing import Any, Final

import jsonschema_rs
from msgspec.structs import replace

from toolgen.generator.emit.schema_equality import Equality, same, text
from toolgen.generator.emit.schema_forms import SchemaPair, Side, forms
from toolgen.generator.emit.schema_keywords import Path, SchemaChange, bounds, notes, texts, types, values
from toolgen.generator.emit.schema_unchanged import UnchangedSchemas, written
from toolgen.generator.emit.schema_view import ANNOTATIONS, SchemaView, mentioned
from toolgen.model.schema import Schema

__all__ = ["Path", "SchemaChange", "SchemaChangeCache", "schema_changes"]

_MAX_DEPTH: Final = 60
_MAX_STEPS: Final = 10_000  # places compared; only schemas made to cost much have more
_MAX_TRIED: Final = 3_000  # places compared to see whether one form covers another
_MAX_TRIAL_DEPTH: Final = 3  # trials within trials
_MAX_PATTERNS: Final = 4
_MAX_VALUES: Final = 1_000
_MEANING: Final = frozenset({"removed", "default"})  # what is no question of which values conform
_COMPARED: Final = frozenset(
    {
        *("type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties"),
        *("items", "prefixItems", "anyOf", "oneOf", "uniqueItems", "multipleOf", "pattern", "format"),
        *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "contentEncoding", "contentMediaType"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
_TOGETHER: Final = (("if", "then", "else"), ("contains", "minContains", "maxContains"))


def schema_changes(old: Schema, new: Schema) -> list[SchemaChange]:
    """Return the differences between two self-contained schemas (references into their own `$defs`), in the order of the new one.

    Differences of a shared definition are reported once, at the first place where it is used. The result is empty only for equal schemas.
    """
    found: dict[tuple[Path, str, str], SchemaChange] = {}
    for change in SchemaComparison(old, new).compare(old, new, ()):
        key = (change.path, change.code, change.text)
        other = found.get(key, change)
        found[key] = replace(
            change,
            breaks_writer=change.breaks_writer or other.breaks_writer,
            breaks_reader=change.breaks_reader or other.breaks_reader,
        )
    if not found and not same(old, new, old, new):
        return [_both((), "schema", "changed in a way that cannot be told apart here")]
    return list(found.values())


class SchemaChangeCache:
    """Cache of `schema_changes` for one comparison of manifests: many tools answer with the same schema."""

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, bytes], list[SchemaChange]] = {}

    def changes(self, old: Schema, new: Schema) -> list[SchemaChange]:
        """Return the differences between two schemas, as `schema_changes` does."""
        key = (written(old), written(new))
        if key[0] == key[1]:
            return []
        if key not in self._found:
            self._found[key] = schema_changes(old, new)
        return self._found[key]


class SchemaComparison:
    """Comparison of two schemas, with the places that were reported and those under comparison."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._equality = Equality(old, new)
        self._unchanged = UnchangedSchemas(old, new)
        self._active: list[object] = []
        self._told: dict[object, None] = {}
        self._refuted: set[object] = set()
        self._depth = 0
        self._steps = self._tried = self._trials = 0
        self._trial: Side | None = None
        self._strict = False  # whether properties nobody named count as well

    def compare(self, old: Any, new: Any, path: Path, around: SchemaPair | None = None) -> list[SchemaChange]:
        """The changes from one schema to another. `around` is given where both are forms of a place rather than places of their own."""
        if old in (True, {}) and new in (True, {}):
            return []
        if (around is None or around.was == around.now) and self._unchanged.holds(old, new):
            return []
        key = self._key(old, new, around)
        if key is not None and (key in self._told or key in self._active):
            return []
        if self._depth >= _MAX_DEPTH or self._exhausted():
            return [] if not self._trial and self.same(old, new) else [_both(path, "schema", _TOO_DEEP)]
        mark = len(self._told)
        self._active.append(key)
        if key is not None:
            self._told[key] = None
        self._depth += 1
        try:
            place = SchemaPair(
                SchemaView(old, self._old),
                SchemaView(new, self._new),
                path,
                around.was if around else mentioned(old, self._old),
                around.now if around else mentioned(new, self._new),
            )
            return self._proved(place, self._changes(place), mark + (key is not None))
        finally:
            self._depth -= 1
            self._active.pop()

    def holds(self, old: Any, new: Any, side: Side, around: SchemaPair | None) -> bool:
        """Return True if no change between two schemas breaks a side. Without `around`, properties that no schema names count as well."""
        if self._trials >= _MAX_TRIAL_DEPTH or self._tried > _MAX_TRIED:
            return False
        question = (text(old), text(new), side, around and (around.was, around.now))
        if question in self._refuted:
            return False
        saved = (self._told, self._active, self._trial, self._strict)
        # What is being compared may be supposed only for the side that it is supposed for, and for smaller values.
        supposed = around is not None and self._trial in (None, side)
        self._told, self._active, self._trial = {}, list(self._active) if supposed else [], side
        self._strict = self._strict or around is None
        self._trials += 1
        try:
            held = not any(_breaks(change, side) for change in self.compare(old, new, (), around))
        finally:
            self._told, self._active, self._trial, self._strict = saved
            self._trials -= 1
        if not held:  # what held may have leant on what was supposed then; what did not is asked in vain for good
            self._refuted.add(question)
        return held

    def disjoint(self, one: Any, other: Any) -> bool:
        """Return True if it is certain that no value conforms to both an old and a new schema."""
        return self._disjoint(SchemaView(one, self._old), SchemaView(other, self._new), 4)

    def same(self, old: Any, new: Any) -> bool:
        """Return True if an old and a new schema mean the same."""
        return self._equality.holds(old, new)

    def _key(self, old: Any, new: Any, around: SchemaPair | None) -> object:
        """Return the key that identifies a comparison if the schemas may be recursive, else None."""
        if not any(
            isinstance(schema, Mapping) and {"$ref", "allOf", "anyOf", "oneOf"} & schema.keys() for schema in (old, new)
        ):
            return None
        return (text(old), text(new), None if around is None else (around.was, around.now))

    def _exhausted(self) -> bool:
        if self._trial is None:
            self._steps += 1
            return self._steps > _MAX_STEPS
        self._tried += 1
        return self._tried > _MAX_TRIED

    def _changes(self, place: SchemaPair) -> list[SchemaChange]:
        old, new, path = place.old, place.new, place.path
        found = [*types(old, new, path), *values(old, new, path), *bounds(old, new, path), *texts(old, new, path)]
        found += self._within("object", place, self._properties(place))
        found += self._within("array", place, self._items(place))
        found += forms(self, place)
        found += self._others(place)
        found += notes(old, new, path)
        return found

    def _proved(self, place: SchemaPair, changes: list[SchemaChange], mark: int) -> list[SchemaChange]:
        """Return the changes, marked harmless for each side for which the new schema as a whole is proved compatible."""
        sides: tuple[Side, ...] = (self._trial,) if self._trial else ("writer", "reader")
        for side in sides:
            if any(_breaks(change, side) for change in changes) and self._implied(place, side):
                changes = [change if change.code in _MEANING else _harmless(change, side) for change in changes]
                self._forget(mark)
        return changes

    def _within(self, kind: str, place: SchemaPair, changes: Iterable[SchemaChange]) -> list[SchemaChange]:
        """Return changes of values of one type, marked harmless for a side if the other schema has no values of this type."""
        mark = len(self._told)
        found = list(changes)
        kept = found
        if kind not in place.old.types:
            kept = [_harmless(change, "writer") for change in kept]
        if kind not in place.new.types:
            kept = [_harmless(change, "reader") for change in kept]
        if kept != found:
            self._forget(mark)
        return kept

    def _forget(self, mark: int) -> None:
        """Forget the places reported since `mark`: the changes were harmless here, but may be harmful elsewhere."""
        for key in list(self._told)[mark:]:
            del self._told[key]

    def _implied(self, place: SchemaPair, side: Side) -> bool:
        inner = place.old if side == "writer" else place.new
        if not inner.types:
            return True
        finite = inner.finite
        if finite is not None and len(finite) <= _MAX_VALUES:
            return _all_accepted(finite, *((place.old, place.new) if side == "writer" else (place.new, place.old)))
        branches = inner.split()
        if side == "writer":
            return bool(branches) and all(self.holds(one, place.new.schema, side, place) for one in branches)
        return bool(branches) and all(self.holds(place.old.schema, one, side, place) for one in branches)

    def _properties(self, place: SchemaPair) -> Iterator[SchemaChange]:
        old, new, path = place.old, place.new, place.path
        for name in [*new.names(), *(name for name in old.names() if name not in new.names())]:
            here = (*path, name)
            if not new.parts:  # anything is taken now, and what that gives up is said there
                yield from self._required(place, name)
                yield from self.compare(old.property(name), True, here)
            elif name not in place.now.names:
                yield _both(here, "removed", "was removed")
            elif name not in place.was.names:
                yield from self._added(place, name)
            else:
                yield from self._required(place, name)
                yield from self.compare(old.property(name), new.property(name), here)
        named = {*old.names(), *new.names()}
        for name in {**new.required(), **old.required()}:
            if name not in named:
                yield from self._required(place, name)
        yield from self._unnamed(place)

    def _required(self, place: SchemaPair, name: str) -> Iterator[SchemaChange]:
        was, must = name in place.old.required(), name in place.new.required()
        if was != must:
            said = "is now required" if must else "is no longer required"
            here = (*place.path, name)
            yield SchemaChange(path=here, code="required", text=said, breaks_writer=must, breaks_reader=was)

    def _added(self, place: SchemaPair, name: str) -> Iterator[SchemaChange]:
        here = (*place.path, name)
        was, required = name in place.old.required(), name in place.new.required()
        before, after = place.old.property(name), place.new.property(name)
        closed = not SchemaView(before, self._old).types
        said = "is new and required" if required else "is new"
        yield SchemaChange(
            path=here,
            code="added",
            text=f"{said}, where no others were taken" if closed else said,
            breaks_writer=required and not was,
            breaks_reader=closed and bool(SchemaView(after, self._new).types),
        )
        if was and not required:
            yield from self._required(place, name)
        if (place.was.others or self._strict or was) and not closed:
            yield from self.compare(before, after, here)

    def _unnamed(self, place: SchemaPair) -> Iterator[SchemaChange]:
        """Yield changes of properties without a declared name, for each set of patterns that a name may match."""
        old, new, path = place.old, place.new, place.path
        patterns = sorted(old.patterns() | new.patterns())
        if len(patterns) > _MAX_PATTERNS:
            if not self.same(_unnamed_of(old), _unnamed_of(new)):
                yield _both(path, "pattern_properties", _untold("patternProperties"))
            return
        for matching in chain.from_iterable(combinations(patterns, size) for size in range(len(patterns) + 1)):
            before, after = old.other(frozenset(matching)), new.other(frozenset(matching))
            yield from self._open(before, after, path)
        stated, states = (any("additionalProperties" in part for part in view.parts) for view in (old, new))
        if stated != states and old.other(frozenset()) is True and new.other(frozenset()) is True:
            said = "says that it takes other properties" if states else "no longer says that it takes other properties"
            yield SchemaChange(path=path, code="additional_properties", text=said)

    def _open(self, old: Any, new: Any, path: Path) -> Iterator[SchemaChange]:
        was, now = SchemaView(old, self._old).types, SchemaView(new, self._new).types
        if was and not now:
            said = "no longer takes other properties"
            yield SchemaChange(path=path, code="additional_properties", text=said, breaks_writer=True)
        elif now and not was:
            said = "now takes other properties"
            yield SchemaChange(path=path, code="additional_properties", text=said, breaks_reader=True)
        elif was:
            yield from self.compare(old, new, (*path, "{}"))

    def _items(self, place: SchemaPair) -> Iterator[SchemaChange]:
        old, new, here = place.old, place.new, (*place.path, "[]")
        fixed = (old.fixed_items(), new.fixed_items())
        if fixed[0] != fixed[1]:
            said = f"has {fixed[1]} fixed items (before: {fixed[0]})"
            yield SchemaChange(path=here, code="items", text=said)
        for index in range(max(fixed) + 1):
            yield from self.compare(old.item(index), new.item(index), here)
        stated, states = (any("items" in part for part in view.parts) for view in (old, new))
        if stated != states and old.item(max(fixed)) is True and new.item(max(fixed)) is True:
            said = "says that they may be anything" if states else "no longer says that they may be anything"
            yield SchemaChange(path=here, code="items", text=said)

    def _others(self, place: SchemaPair) -> Iterator[SchemaChange]:
        """Yield changes of keywords that are compared for equality only: a changed value of such a keyword cannot be judged."""
        before, after = list(_demands(place.old)), list(_demands(place.new))
        left = [one for one in before if not any(one[0] == other[0] and self.same(one[1], other[1]) for other in after)]
        came = [one for one in after if not any(one[0] == other[0] and self.same(other[1], one[1]) for other in before)]
        for keyword in dict.fromkeys(one[0] for one in [*came, *left]):
            was, now = (any(one[0] == keyword for one in side) for side in (left, came))
            said = _untold(keyword) if was and now else f"now has the `{keyword}`" if now else f"has no `{keyword}` now"
            found = SchemaChange(path=place.path, code=keyword, text=said, breaks_writer=now, breaks_reader=was)
            kinds = _DOMAINS.get(keyword)
            yield from self._within(kinds, place, [found]) if kinds else [found]

    def _disjoint(self, one: SchemaView, other: SchemaView, depth: int) -> bool:
        shared = one.types & other.types
        if not shared:
            return True
        finite = one.finite if one.finite is not None else other.finite
        if finite is not None and len(finite) <= _MAX_VALUES:
            return not _accepted(_accepted(finite, one), other)
        if depth and (branches := one.split()):
            return all(self._disjoint(SchemaView(branch, one.root), other, depth - 1) for branch in branches)
        if depth and (branches := other.split()):
            return all(self._disjoint(one, SchemaView(branch, other.root), depth - 1) for branch in branches)
        return (
            bool(depth)
            and shared == {"object"}
            and any(
                self._disjoint(
                    SchemaView(one.property(name), one.root), SchemaView(other.property(name), other.root), depth - 1
                )
                for name in {**one.required(), **other.required()}
            )
        )


_TOO_DEEP: Final = "changed below the depth that is compared"
_DOMAINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("contains", "unevaluatedItems"), "array"),
    **dict.fromkeys(("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"), "object"),
}


def _demands(view: SchemaView) -> Iterator[tuple[str, Any]]:
    """Keyword by keyword, as schemas: what one that is judged nowhere else demands, and what belongs to it."""
    yield from view.unevaluated
    for part in view.parts:
        together = {key for group in _TOGETHER for key in group}
        for group in _TOGETHER:
            if group[0] in part and (group[0] != "if" or part.keys() & {"then", "else"}):
                yield group[0], {key: part[key] for key in group if key in part}
        for keyword, value in part.items():
            known = keyword in _COMPARED | ANNOTATIONS | together or keyword.startswith("x-")
            if not known and (value != {} or keyword == "not"):
                yield keyword, {keyword: value}


def _unnamed_of(view: SchemaView) -> Schema:
    keywords = ("patternProperties", "additionalProperties")
    return {"allOf": [{key: part[key] for key in keywords if key in part} for part in view.parts]}


def _untold(keyword: str) -> str:
    return f"has another `{keyword}`, and whether that takes less or more cannot be told"


def _breaks(change: SchemaChange, side: Side) -> bool:
    return change.breaks_writer if side == "writer" else change.breaks_reader


def _harmless(change: SchemaChange, side: Side) -> SchemaChange:
    return replace(change, breaks_writer=False) if side == "writer" else replace(change, breaks_reader=False)


def _accepted(values: list[Any], view: SchemaView) -> list[Any]:
    """Return the values that a schema accepts, or all of them if no validator can compile it."""
    definitions = {key: view.root[key] for key in ("$defs", "definitions") if key in view.root}
    try:
        validator = jsonschema_rs.Draft202012Validator({**definitions, "allOf": [view.schema]}, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return values
    return [value for value in values if validator.is_valid(value)]


def _all_accepted(values: list[Any], inner: SchemaView, outer: SchemaView) -> bool:
    found = _accepted(values, inner)
    definitions = {key: outer.root[key] for key in ("$defs", "definitions") if key in outer.root}
    try:
        validator = jsonschema_rs.Draft202012Validator({**definitions, "allOf": [outer.schema]}, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False
    return all(validator.is_valid(value) for value in found)


def _both(path: Path, code: str, said: str) -> SchemaChange:
    return SchemaChange(path=path, code=code, text=said, breaks_writer=True, breaks_reader=True)
