"""Comparison of a tool's schema with the schema of its description: each keyword of each part, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.known_differences import (
    CONTRARY,
    Deliberate,
    is_bytes,
    is_file_argument,
    without_choice,
)
from toolgen.connectors.openapi.proof.reader import ABSENT
from toolgen.connectors.openapi.proof.spec_references import References
from toolgen.connectors.openapi.satisfiable import consistent, overlaps
from toolgen.connectors.proof.counterexample import LISTS, MAPS, ONES, SCALARS, Words, witness
from toolgen.connectors.syntax import escape

__all__ = ["Agreement", "SchemaDisagreement", "Second", "Side"]

_MAX_CHAIN_LENGTH = 60
_COMPOSED = ("allOf", "anyOf", "oneOf")
_CLOSING = frozenset({"additionalProperties", "unevaluatedProperties"})
_AGREEING = frozenset(
    {
        *("enum", "const", "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"),
        *("maxLength", "pattern", "required"),
    }
)


class SchemaDisagreement(Struct, frozen=True, kw_only=True):
    """Difference between a tool's schema and its description. `path` leads to the value, `pointer` into the description.

    `value` is a value that only one of the two schemas accepts, or `ABSENT` if none is easily named. `schemas` are the tool's schema and
    the description's schema at that place, if a validator can check them.
    """

    path: tuple[str | int, ...]
    pointer: str
    what: str
    value: Any = ABSENT
    schemas: tuple[Any, Any] | None = None
    word: str = ""  # the keyword that differs


Second = Callable[[SchemaDisagreement, Mapping[str, Any], str], str]
"""Second judge of a difference. It takes the difference, the tool's `$defs` and the keyword that hides a property, and returns the
reason why it sees no difference, or "".
"""


class Side(Struct, frozen=True, kw_only=True):
    """Direction of values. `hides` is readOnly for sent values, writeOnly for returned ones."""

    hides: str
    cut: bool = False  # the answer was too large, and some of its parts are open
    files: bool = False  # the values are the parts of a form


class _Pair(Struct, frozen=True, kw_only=True):
    """Pair of schemas that should mean the same for one value. `hidden` are properties left out by the composition that holds them."""

    tool: Any
    written: Any
    pointer: str
    path: tuple[str | int, ...]
    hidden: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()  # properties that would be hidden if the request did not require them
    open: bool = False  # a composition around the schema is closed as a whole


class Agreement:
    """Comparisons with the schemas of one description."""

    def __init__(self, documents: Documents, version: str, second: Second = lambda *_: "") -> None:
        """Store the documents. `disputed` receives differences that `second` does not confirm; the comparison continues after them."""
        self.second = second
        self.disputed: list[str] = []
        self.repaired = (
            False  # True if a compared schema was repaired, so that it accepts values that the description refuses
        )
        self.deliberate = Deliberate(documents)
        self.tools = Words(old=False)
        self.words = Words(old=version in {"2.0", "3.0"}, follow=References(documents).follow)

    def difference(
        self,
        tool: Any,
        definitions: Mapping[str, Any],
        written: Any,
        *,
        pointer: str,
        path: tuple[str | int, ...],
        side: Side,
    ) -> SchemaDisagreement | None:
        """Return the first difference between a tool's schema and the schema as written, or None."""
        return _Comparison(self, definitions, side).run(_Pair(tool=tool, written=written, pointer=pointer, path=path))

    def resolved(self, written: Any) -> Any:
        """Return a schema as written with its references followed, if no other keyword beside them counts."""
        for _ in range(_MAX_CHAIN_LENGTH):
            keywords = self.words.of(written)
            if keywords.keys() != {"$ref"}:
                return written
            written = self.deliberate.target(keywords["$ref"])
        return {}


class _Comparison:
    """Comparison of one tool's schema with its description."""

    def __init__(self, agreement: Agreement, definitions: Mapping[str, Any], side: Side) -> None:
        self._agreement = agreement
        self._deliberate = agreement.deliberate
        self._written = agreement.words
        self._tools = agreement.tools
        self._definitions = definitions
        self._side = side
        self._todo: list[_Pair] = []

    def run(self, first: _Pair) -> SchemaDisagreement | None:
        seen: set[tuple[int, int, frozenset[str], frozenset[str], bool]] = set()
        self._todo.append(first)
        while self._todo:
            pair = self._todo.pop()
            key = (id(pair.tool), id(pair.written), pair.hidden, pair.kept, pair.open)
            if key in seen:
                continue
            seen.add(key)
            if found := self._differ(pair):
                return found
        return None

    def _differ(self, pair: _Pair) -> SchemaDisagreement | None:
        tool, written, opened = self._followed(pair)
        if opened:
            return None
        pair = written
        mine, theirs = self._tools.of(tool), self._written.of(pair.written)
        if "$ref" in theirs and not self._deliberate.resolves(theirs["$ref"]):
            theirs = {}
        if mine == theirs == {}:
            return None
        if self._side.files:
            if is_file_argument(mine) and is_bytes(pair.written):
                return None
            mine, theirs = self._as_form(mine, theirs)
        hidden = pair.hidden
        if not hidden.issuperset(own := self._deliberate.hidden_names(pair.written, self._side.hides)):
            hidden |= own
        kept = pair.kept
        if own and self._side.hides == "readOnly":
            kept |= own & self._deliberate.demanded(pair.written)
        pair = replace(pair, tool=tool, hidden=hidden, kept=kept)
        if self._side.cut:
            mine, theirs = _as_cut(mine, theirs, pair.written)
        elif self._side.hides == "readOnly":
            pair, theirs = self._as_repaired(pair, mine, theirs)
        for word in SCALARS:
            if word in mine or word in theirs:
                ours, wanted = mine.get(word), theirs.get(word)
                if ours != wanted and (found := self._scalar_difference(pair, word, ours, wanted)):
                    return found
        return self._required(pair, mine, theirs) or self._inside(pair, mine, theirs)

    def _followed(self, pair: _Pair) -> tuple[Any, _Pair, bool]:
        """Return both sides with their references followed if no keyword is beside them, and True if the tool's schema was cut off on
        the way.
        """
        tool, written, pointer = pair.tool, pair.written, pair.pointer
        for _ in range(_MAX_CHAIN_LENGTH):
            keywords = self._tools.of(tool)
            if keywords.keys() != {"$ref"}:
                break
            tool = self._definitions.get(keywords["$ref"].removeprefix("#/$defs/"), {})
            if self._side.cut and isinstance(tool, dict) and tool.keys() == {"description"}:
                return tool, pair, True
        for _ in range(_MAX_CHAIN_LENGTH):
            keywords = self._written.of(written)
            if keywords.keys() != {"$ref"}:
                break
            pointer = keywords["$ref"]
            written = self._deliberate.target(pointer)
        return tool, replace(pair, written=written, pointer=pointer), False

    def _scalar_difference(self, pair: _Pair, word: str, ours: Any, wanted: Any) -> SchemaDisagreement | None:
        found = SchemaDisagreement(
            path=pair.path,
            pointer=f"{pair.pointer}/{word}" if wanted is not None else pair.pointer,
            what=_sentence(word, ours, wanted),
            value=witness(word, ours, wanted),
            word=word,
        )
        return found if word in _UNJUDGED else self._confirmed(pair, found)

    def _confirmed(self, pair: _Pair, found: SchemaDisagreement) -> SchemaDisagreement | None:
        """Return a difference that the second judge confirms; any other is added to the disputed differences."""
        if self._side.files:
            return found  # A validator cannot judge bytes.
        found = replace(found, schemas=(pair.tool, pair.written))
        if not (why := self._agreement.second(found, self._definitions, self._side.hides)):
            return found
        where = "/".join(map(str, found.path)) or "the arguments"
        self._agreement.disputed.append(f"{where} at {found.pointer} {found.what}, but {why}")
        return None

    def _required(self, pair: _Pair, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> SchemaDisagreement | None:
        ours, wanted = mine.get("required", frozenset()), theirs.get("required", frozenset())
        if ours == wanted:
            return None
        where = f"{pair.pointer}/required" if wanted else pair.pointer
        for name in sorted(ours - wanted):
            what = f"requires {name!r}, which the description does not"
            if found := self._confirmed(pair, SchemaDisagreement(path=pair.path, pointer=where, what=what, value={})):
                return found
        for name in sorted(wanted - ours - pair.hidden):
            what = f"does not require {name!r}, which the description does"
            if found := self._confirmed(pair, SchemaDisagreement(path=pair.path, pointer=where, what=what, value={})):
                return found
        return None

    def _inside(self, pair: _Pair, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> SchemaDisagreement | None:
        """Queue the nested schemas of both sides for comparison. Return a difference if one side has a nested schema and the other has
        none.
        """
        for word in MAPS:
            if found := self._named(pair, word, mine.get(word, {}), theirs.get(word, {})):
                return found
        for word in LISTS:
            if found := self._listed(pair, word, mine.get(word, []), theirs):
                return found
        for word in ONES:
            if found := self._single(pair, word, mine.get(word), theirs.get(word)):
                return found
        return self._referred(pair, mine.get("$ref"), theirs.get("$ref"))

    def _listed(self, pair: _Pair, word: str, ours: list[Any], theirs: Mapping[str, Any]) -> SchemaDisagreement | None:
        wanted = theirs.get(word, [])
        if len(ours) != len(wanted):
            return self._scalar_difference(pair, word, len(ours) or None, len(wanted) or None)
        chosen = theirs.get("discriminator") if word in {"anyOf", "oneOf"} else None
        for index, (one, other) in enumerate(zip(ours, wanted, strict=True)):
            branch = without_choice(one, chosen, other) if chosen else one
            step = (index,) if word == "prefixItems" else ()
            self._push(pair, branch, other, f"{word}/{index}", step, same=word in _COMPOSED)
        return None

    def _single(self, pair: _Pair, word: str, ours: Any, wanted: Any) -> SchemaDisagreement | None:
        if ours is not None and wanted is not None:
            self._push(pair, ours, wanted, word, _STEPS.get(word, ()))
            return None
        # In a form, a schema without keywords may be a file.
        if ours is wanted or (_open(word, ours, wanted) and not self._side.files):
            return None
        return self._scalar_difference(pair, word, _shortly(ours), _shortly(wanted))

    def _referred(self, pair: _Pair, ours: str | None, wanted: str | None) -> SchemaDisagreement | None:
        """Compare references that have further keywords beside them."""
        if ours is None or wanted is None:
            return None if ours is wanted else self._scalar_difference(pair, "$ref", ours, wanted)
        target = self._definitions.get(ours.removeprefix("#/$defs/"), {})
        if not (self._side.cut and isinstance(target, dict) and target.keys() == {"description"}):
            written = self._deliberate.target(wanted)
            self._todo.append(replace(pair, tool=target, written=written, pointer=wanted))
        return None

    def _named(
        self, pair: _Pair, word: str, ours: Mapping[str, Any], wanted: Mapping[str, Any]
    ) -> SchemaDisagreement | None:
        inside = word == "properties"
        hides = self._side.hides
        for name in ours:
            if name not in wanted:
                what = f"has the {_NAMES[word]} {name!r}, which the description does not"
                return SchemaDisagreement(
                    path=(*pair.path, name), pointer=f"{pair.pointer}/{word}", what=what, value="text"
                )
            shown = isinstance(wanted[name], dict) and wanted[name].get(hides) is True and name not in pair.kept
            if inside and shown:
                what = f"has the {hides} property {name!r}, which is not for this direction"
                return SchemaDisagreement(
                    path=(*pair.path, name), pointer=_deeper(pair.pointer, word, name), what=what, value="text"
                )
        for name, one in wanted.items():
            if name in ours:
                self._push(pair, ours[name], one, f"{word}/{escape(name)}", (name,) if inside else ())
            elif not (inside and self._deliberate.hidden(one, hides) and name not in pair.kept):
                what = f"lacks the {_NAMES[word]} {name!r}, which the description has"
                return SchemaDisagreement(
                    path=(*pair.path, name), pointer=_deeper(pair.pointer, word, name), what=what, value="text"
                )
        return None

    def _push(
        self, pair: _Pair, tool: Any, written: Any, below: str, step: tuple[str | int, ...], *, same: bool = False
    ) -> None:
        """Queue a pair of schemas. `same`: they describe the same value, so properties hidden there are hidden here."""
        self._todo.append(
            _Pair(
                tool=tool,
                written=written,
                pointer=f"{pair.pointer}/{below}",
                path=(*pair.path, *step),
                hidden=pair.hidden if same else frozenset(),
                kept=pair.kept if same else frozenset(),
                open=pair.open and same,
            )
        )

    def _as_repaired(
        self, pair: _Pair, mine: Mapping[str, Any], theirs: Mapping[str, Any]
    ) -> tuple[_Pair, Mapping[str, Any]]:
        """Return the described schema with the repairs (`satisfiable`) that let a value conform to the tool's schema."""
        if isinstance(pair.written, dict) and not _AGREEING.isdisjoint(pair.written):
            agreeing = self._written.plain(pair.written)
            before = dict(agreeing)
            consistent(agreeing, lambda *_: None)
            if agreeing != before:
                self._agreement.repaired = True
                theirs = self._written.of(agreeing)
        if "oneOf" in theirs and "oneOf" not in mine:
            branches = mine.get("anyOf") or next(
                (one.get("anyOf", ()) for one in mine.get("allOf", ())[-1:] if isinstance(one, dict)), ()
            )
            if overlaps(branches, self._definitions):
                self._agreement.repaired = True
                theirs = _any_of(theirs)
        closed = mine.get("unevaluatedProperties") is False and "allOf" in theirs
        if pair.open or closed:
            theirs = {key: one for key, one in theirs.items() if key not in _CLOSING or one is not False}
        if closed and not pair.open:
            self._agreement.repaired = True
            theirs = {**theirs, "unevaluatedProperties": False}
        return replace(pair, open=pair.open or closed), theirs

    def _as_form(
        self, mine: Mapping[str, Any], theirs: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return both schemas of a form. In a composition with a file, the described one gets `anyOf` for `oneOf`, because the object that
        represents the file may match several branches, and loses its keywords for text, because that object is not text.
        """
        theirs = dict(theirs if "oneOf" not in theirs or "oneOf" in mine else _any_of(theirs))
        if "$ref" in theirs and "$ref" not in mine:
            theirs["allOf"] = [{"$ref": theirs.pop("$ref")}, *theirs.get("allOf", [])]
        if theirs.get("type") == {"string"} and "type" not in mine and any(word in theirs for word in _COMPOSED):
            theirs = {key: one for key, one in theirs.items() if key not in _OF_TEXT}
        return mine, theirs


def _any_of(theirs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema with `anyOf` in place of `oneOf`."""
    made = dict(theirs)
    branches = made.pop("oneOf")
    if "anyOf" not in made:
        made["anyOf"] = branches
    else:
        made["allOf"] = [*made.get("allOf", []), {"anyOf": branches}]
    return made


def _as_cut(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], written: Any
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the described schema without keywords that could refuse a value accepted by the opened part of a large answer."""
    theirs = {key: one for key, one in theirs.items() if key in mine or key not in CONTRARY}
    if "oneOf" in theirs and "oneOf" not in mine:
        branches = {"anyOf": theirs.pop("oneOf"), "discriminator": theirs.get("discriminator")}
        order = list(written)
        first = "allOf" in order and order.index("oneOf") < order.index("allOf")
        parts = theirs.get("allOf", [])
        theirs["allOf"] = [branches, *parts] if first else [*parts, branches]
    return mine, theirs


def _open(word: str, one: Any, other: Any) -> bool:
    """Return True if a keyword that only one of two schemas has restricts nothing there (`true` or `{}`)."""
    return word in _NOTHING_WHEN_OPEN and (one if other is None else other) in (True, {})


def _deeper(pointer: str, *tokens: str) -> str:
    return "/".join((pointer, *map(escape, tokens)))


def _sentence(word: str, ours: Any, wanted: Any) -> str:
    if ours is None:
        return f"lacks `{word}: {_shown(wanted)}`, which the description has"
    if wanted is None:
        return f"has `{word}: {_shown(ours)}`, which the description does not"
    return f"has `{word}: {_shown(ours)}`, the description {_shown(wanted)}"


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        text = ", ".join(sorted(value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=sorted)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _shortly(schema: Any) -> Any:
    return None if schema is None else schema if isinstance(schema, bool) else "…"


_STEPS: Mapping[str, tuple[str | int, ...]] = {"items": (0,), "contains": (0,), "additionalProperties": ("extra",)}
_NAMES: Mapping[str, str] = {
    "properties": "property",
    "patternProperties": "pattern of properties",
    "dependentSchemas": "schema for objects with",
}
_NOTHING_WHEN_OPEN = frozenset(
    {"items", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
)
_UNJUDGED = frozenset(
    {"format", "contentEncoding", "contentMediaType"}
)  # no validator refuses a value for these keywords
_OF_TEXT = frozenset({"type", "format", "minLength", "maxLength", "pattern"})
