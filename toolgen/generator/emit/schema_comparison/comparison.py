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
from typing import Any, Final, Literal, TypeAlias

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace

from toolgen.generator.emit.schema_comparison.equality import Equality, UnchangedSchemas, same, text, written
from toolgen.generator.emit.schema_comparison.keywords import Path, SchemaChange, bounds, notes, texts, types, values
from toolgen.generator.emit.schema_comparison.view import ANNOTATIONS, Names, SchemaView, mentioned
from toolgen.model.schema import Schema

__all__ = ["Path", "SchemaChange", "SchemaChangeCache", "schema_changes"]

Side: TypeAlias = Literal["writer", "reader"]
_MAX_DEPTH: Final = 60
_MAX_STEPS: Final = 10_000  # compared places; only schemas built to be expensive have more
_MAX_TRIED: Final = 3_000  # places compared to decide whether one form covers another
_MAX_TRIAL_DEPTH: Final = 3  # nested trials
_MAX_PATTERNS: Final = 4
_MAX_VALUES: Final = 1_000
_MAX_PAIRS: Final = 2_500  # pairs of forms that are compared with each other
_MEANING: Final = frozenset({"removed", "default"})  # codes of changes that do not concern which values conform
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
        return [_both((), "schema", "changed in a way that toolgen does not classify")]
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


class SchemaPair(Struct, frozen=True):
    """Two schemas of one place, with `was` and `now`: the property names that each whole schema mentions there."""

    old: SchemaView
    new: SchemaView
    path: Path
    was: Names
    now: Names


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
        self._strict = False  # True if properties without a name in either schema count as well

    def compare(self, old: Any, new: Any, path: Path, around: SchemaPair | None = None) -> list[SchemaChange]:
        """Return the changes from one schema to another. `around` is given if both are forms of a place and not separate places."""
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
        # A pair under comparison may be assumed only for the same side, and for smaller values.
        supposed = around is not None and self._trial in (None, side)
        self._told, self._active, self._trial = {}, list(self._active) if supposed else [], side
        self._strict = self._strict or around is None
        self._trials += 1
        try:
            held = not any(_breaks(change, side) for change in self.compare(old, new, (), around))
        finally:
            self._told, self._active, self._trial, self._strict = saved
            self._trials -= 1
        if not held:  # a positive result may depend on that assumption; a negative result is final
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
        found += _forms(self, place)
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
            if not new.parts:  # any value is accepted now: the comparison with True reports the lost constraints
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
            said = (
                "now declares that it takes other properties"
                if states
                else "no longer declares that it takes other properties"
            )
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
            said = (
                "now declares that they may be anything" if states else "no longer declares that they may be anything"
            )
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


def _forms(judge: SchemaComparison, place: SchemaPair) -> Iterator[SchemaChange]:
    """Compare the unions of two schemas.

    Equal unions are paired, the others are paired in order, and a union without a partner must follow from the whole other side.
    """
    left = list(place.old.unions)
    pairs: list[tuple[str, list[Any], list[Any]]] = []
    came: list[tuple[str, list[Any]]] = []
    for keyword, branches in place.new.unions:
        alike = [union for union in left if union[0] == keyword]
        chosen = next((union for union in alike if text(union[1]) == text(branches)), alike[0] if alike else None)
        if chosen is None:
            came.append((keyword, branches))
        else:
            left.remove(chosen)
            pairs.append((keyword, chosen[1], branches))
    for keyword, before, after in pairs:
        yield from _Forms(judge, place, keyword, before, after).changes()
    for keyword, branches in came:
        covered = _one_covers(judge, place, keyword, branches, "writer")
        said = "may now be one of several forms" if covered else "must now be one of several forms"
        yield SchemaChange(path=place.path, code=keyword, text=said, breaks_writer=not covered)
    for keyword, branches in left:
        covered = _one_covers(judge, place, keyword, branches, "reader")
        said = "need no longer be one of several forms" if covered else "may now take any form"
        yield SchemaChange(path=place.path, code=keyword, text=said, breaks_reader=not covered)


def _one_covers(judge: SchemaComparison, place: SchemaPair, keyword: str, branches: list[Any], side: Side) -> bool:
    """Return True if the whole schema of one side fits one branch of the other's union and, for `oneOf`, is disjoint from all others."""
    for index, branch in enumerate(branches):
        before, after = (place.old.schema, branch) if side == "writer" else (branch, place.new.schema)
        if not judge.holds(before, after, side, place):
            continue
        others = [other for number, other in enumerate(branches) if number != index]
        if keyword == "anyOf":
            return True
        if side == "writer":
            return all(judge.disjoint(place.old.schema, other) for other in others)
        return all(judge.disjoint(other, place.new.schema) for other in others)
    return False


class _Forms:
    """Unions of both sides. `forward` maps an old form to a new one that accepts all its values; `back` maps a new form to an old one."""

    def __init__(
        self, judge: SchemaComparison, place: SchemaPair, keyword: str, old: list[Any], new: list[Any]
    ) -> None:
        self._judge, self._place, self._keyword = judge, place, keyword
        self._old, self._new = old, new
        self._pairs = _paired(judge, old, new)
        self._forward = dict(self._pairs)
        self._back = {j: i for i, j in self._pairs}

    def changes(self) -> Iterator[SchemaChange]:
        judge, place, old, new = self._judge, self._place, self._old, self._new
        for i, j in self._pairs:
            yield from judge.compare(old[i], new[j], place.path, place)
        lost = [i for i in range(len(old)) if i not in self._forward]
        gained = [j for j in range(len(new)) if j not in self._back]
        room = len(old) * len(new) <= _MAX_PAIRS
        for i in lost if room else ():
            covering = [j for j in range(len(new)) if judge.holds(old[i], new[j], "writer", place)]
            if covering:
                self._forward[i] = covering[0]
        for j in gained if room else ():
            covering = [i for i in range(len(old)) if judge.holds(old[i], new[j], "reader", place)]
            if covering:
                self._back[j] = covering[0]
        if lost:
            missing = [i for i in lost if i not in self._forward]
            said = f"no longer takes {len(missing)} of its {len(old)} forms"
            if not missing:
                said = f"no longer lists {len(lost)} of its {len(old)} forms, which the others cover"
            yield self._change(said, writer=bool(missing))
        if gained:
            yield self._change(f"takes {len(gained)} more forms", reader=any(j not in self._back for j in gained))
        if self._keyword == "oneOf":
            yield from self._overlaps(room)

    def _overlaps(self, room: bool) -> Iterator[SchemaChange]:
        """Yield changes by `oneOf`, which refuses values of two forms: a new or wider form may refuse what another one accepted."""
        pairs = self._pairs
        if len(pairs) == len(self._old) == len(self._new) and all(
            self._judge.same(self._old[i], self._new[j]) for i, j in pairs
        ):
            return
        if not room or not self._apart_for_writers():
            said = "may now refuse values that fit several of its forms; the existence of such values is unknown"
            yield self._change(said, writer=True)
        if not room or not self._apart_for_readers():
            said = "may now accept values that fitted several of its forms; the existence of such values is unknown"
            yield self._change(said, reader=True)

    def _apart_for_writers(self) -> bool:
        """Return True if a value of exactly one old form is a value of exactly one new form: every other is disjoint from it, or within
        another old one.
        """
        within = {
            j: [i for i in self._back_to(j) if self._within(self._old[i], self._new[j], "reader")]
            for j in range(len(self._new))
        }
        return all(
            any(other != i for other in within[j]) or self._judge.disjoint(self._old[i], self._new[j])
            for i, kept in self._forward.items()
            for j in range(len(self._new))
            if j != kept
        )

    def _apart_for_readers(self) -> bool:
        within = {
            i: [j for j in self._forward_to(i) if self._within(self._old[i], self._new[j], "writer")]
            for i in range(len(self._old))
        }
        return all(
            any(other != j for other in within[i]) or self._judge.disjoint(self._old[i], self._new[j])
            for j, kept in self._back.items()
            for i in range(len(self._old))
            if i != kept
        )

    def _back_to(self, j: int) -> list[int]:
        return [i for i in dict.fromkeys([*(i for i, k in self._pairs if k == j), self._back.get(j)]) if i is not None]

    def _forward_to(self, i: int) -> list[int]:
        return [
            j for j in dict.fromkeys([*(j for k, j in self._pairs if k == i), self._forward.get(i)]) if j is not None
        ]

    def _within(self, old: Any, new: Any, side: Side) -> bool:
        return self._judge.same(old, new) or self._judge.holds(old, new, side, None)

    def _change(self, said: str, *, writer: bool = False, reader: bool = False) -> SchemaChange:
        return SchemaChange(
            path=self._place.path, code=self._keyword, text=said, breaks_writer=writer, breaks_reader=reader
        )


def _paired(judge: SchemaComparison, old: list[Any], new: list[Any]) -> list[tuple[int, int]]:
    """Pair schemas with equal text (their references may differ), else with equal meaning, else the only remaining ones."""
    pairs: list[tuple[int, int]] = []
    spelled: dict[str, list[int]] = {}
    for index, branch in enumerate(old):
        spelled.setdefault(text(branch), []).append(index)
    left = dict.fromkeys(range(len(old)))
    over: list[int] = []
    for index, branch in enumerate(new):
        if alike := spelled.get(text(branch)):
            pairs.append((alike.pop(0), index))
            del left[pairs[-1][0]]
        else:
            over.append(index)
    if len(left) * len(over) <= _MAX_PAIRS:
        for index in list(over):
            found = next((one for one in left if judge.same(old[one], new[index])), None)
            if found is not None:
                pairs.append((found, index))
                del left[found]
                over.remove(index)
    if len(left) == len(over) == 1:
        pairs.append((next(iter(left)), over[0]))
    return pairs


_TOO_DEEP: Final = "changed below the depth that is compared"
_DOMAINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("contains", "unevaluatedItems"), "array"),
    **dict.fromkeys(("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"), "object"),
}


def _demands(view: SchemaView) -> Iterator[tuple[str, Any]]:
    """Return each keyword's demand as a schema: a keyword that is judged nowhere else, with the keywords that belong to it."""
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
    return f"has another `{keyword}`, with unknown effect on accepted values"


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
