"""What changed between two schemas, in words, and whom it breaks: who writes values for them, or who reads values of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from toolgen.model.schema import Schema

__all__ = ["Path", "SchemaChange", "schema_changes"]

Path = tuple[str, ...]
"""Property names from the root; `[]` stands for the items of a list and `{}` for properties nobody named."""

_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_EXACT: Final = ("pattern", "format", "multipleOf", "contentEncoding", "contentMediaType")
_NESTED: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "anyOf",
        "oneOf",
        "allOf",
    }
)
_SAID: Final = frozenset(
    {"title", "description", "examples", "example", "default", "deprecated", "readOnly", "writeOnly"}
)
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$schema", "$id", "$anchor", "discriminator", "xml", "externalDocs"}
)
_DEEPEST: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference. `text` is a sentence's end: `is now required`.

    `breaks_writer`: a value that was accepted may be refused. `breaks_reader`: a value may come that could not come before, or what was
    relied on may be missing. A new enum value is held to break no reader: a model reads it like any other text.
    """

    path: Path
    code: str
    text: str
    breaks_writer: bool = False
    breaks_reader: bool = False


def schema_changes(old: Schema, new: Schema) -> list[SchemaChange]:
    """Every difference between two self-contained schemas (references into their own `$defs`), in the order of the new one.

    What stands in a shared definition is told once, at the first place it is met. Keywords that cannot be judged break both sides.
    """
    return list(_Comparison(old, new).compare(old, new, ()))


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._met: set[tuple[str, str]] = set()

    def compare(self, old: Any, new: Any, path: Path) -> Iterator[SchemaChange]:
        if len(path) > _DEEPEST:
            if old != new:
                yield _both(path, "schema", "changed below the depth that is compared")
            return
        refs = (_ref(old), _ref(new))
        if any(refs):
            if refs in self._met:
                return
            self._met.add(refs)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        yield from _types(old, new, path)
        yield from _values(old, new, path)
        yield from _bounds(old, new, path)
        yield from self._properties(old, new, path)
        yield from self._items(old, new, path)
        for keyword in ("anyOf", "oneOf"):
            yield from self._branches(keyword, _branches(old, keyword), _branches(new, keyword), path)
        yield from self._parts(_branches(old, "allOf"), _branches(new, "allOf"), path)
        yield from _annotations(old, new, path)
        yield from _others(old, new, path)

    def _properties(self, old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
        before, after = _mapping(old, "properties"), _mapping(new, "properties")
        was, must = set(old.get("required") or ()), set(new.get("required") or ())
        for name, schema in after.items():
            here = (*path, name)
            if name not in before:
                text = "is new and required" if name in must else "is new"
                yield SchemaChange(path=here, code="added", text=text, breaks_writer=name in must)
                continue
            if (name in must) != (name in was):
                text = "is now required" if name in must else "is no longer required"
                yield SchemaChange(
                    path=here, code="required", text=text, breaks_writer=name in must, breaks_reader=name in was
                )
            yield from self.compare(before[name], schema, here)
        for name in before:
            if name not in after:
                yield _both((*path, name), "removed", "was removed")
        for name in sorted(must - was - after.keys()):
            yield SchemaChange(path=(*path, name), code="required", text="is now required", breaks_writer=True)
        yield from self._open(old.get("additionalProperties", True), new.get("additionalProperties", True), path)

    def _open(self, old: Any, new: Any, path: Path) -> Iterator[SchemaChange]:
        """`additionalProperties`: closing an object breaks who wrote more, opening one breaks nobody."""
        if old == new and not isinstance(old, Mapping):
            return
        if new is False:
            text = "no longer takes other properties"
            yield SchemaChange(path=path, code="additional_properties", text=text, breaks_writer=True)
        elif old is False:
            yield SchemaChange(path=path, code="additional_properties", text="now takes other properties")
        else:
            yield from self.compare(old, new, (*path, "{}"))

    def _items(self, old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
        if "items" in old or "items" in new:
            yield from self.compare(old.get("items", True), new.get("items", True), (*path, "[]"))
        before, after = _branches(old, "prefixItems"), _branches(new, "prefixItems")
        if len(before) != len(after):
            yield _both((*path, "[]"), "items", f"has {len(after)} fixed items (before: {len(before)})")
        for one, other in zip(before, after, strict=False):
            yield from self.compare(one, other, (*path, "[]"))

    def _branches(self, keyword: str, old: list[Any], new: list[Any], path: Path) -> Iterator[SchemaChange]:
        """Equal branches are pairs (what they refer to may differ), and so are the one left over on each side."""
        left, gained = list(old), []
        for branch in new:
            if branch in left:
                left.remove(branch)
                yield from self.compare(branch, branch, path)
            else:
                gained.append(branch)
        if not old and gained:
            text = "must now be one of several forms"
            yield SchemaChange(path=path, code=keyword, text=text, breaks_writer=True)
        elif old and not new:
            yield SchemaChange(path=path, code=keyword, text="may now take any form", breaks_reader=True)
        elif len(left) == len(gained) == 1:
            yield from self.compare(left[0], gained[0], path)
        else:
            if left:
                text = f"no longer takes {len(left)} of its {len(old)} forms"
                yield SchemaChange(path=path, code=keyword, text=text, breaks_writer=True)
            if gained:
                text = f"takes {len(gained)} more forms"
                yield SchemaChange(path=path, code=keyword, text=text, breaks_reader=True)

    def _parts(self, old: list[Any], new: list[Any], path: Path) -> Iterator[SchemaChange]:
        if len(old) == len(new):
            for one, other in zip(old, new, strict=True):
                yield from self.compare(one, other, path)
        elif len(new) > len(old):
            text = "has more conditions to meet"
            yield SchemaChange(path=path, code="allOf", text=text, breaks_writer=True)
        else:
            yield SchemaChange(path=path, code="allOf", text="has fewer conditions to meet", breaks_reader=True)


def _ref(schema: Any) -> str:
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    return reference if isinstance(reference, str) else ""


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema with what its references lead to put below its own keywords; booleans as objects."""
    found: dict[str, Any] = {}
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return found | ({"not": {}} if schema is False else {})
        found = {**schema, **found}
        reference = _ref(schema)
        if not reference:
            return found
        del found["$ref"]
        schema = _at(root, reference)
        if schema is None:
            return found | {"$ref": reference}
    return found


def _at(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    for token in reference[1:].split("/")[1:]:
        root = root.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root


def _types(old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
    before, after = _type_set(old), _type_set(new)
    if before != after:
        yield SchemaChange(
            path=path,
            code="type",
            text=f"is now {_type_words(after)} (before: {_type_words(before)})",
            breaks_writer=bool(before - after),
            breaks_reader=bool(after - before),
        )


def _type_set(schema: Schema) -> frozenset[str]:
    written = schema.get("type")
    if isinstance(written, str):
        found = {written}
    elif isinstance(written, (list, tuple)):
        found = {one for one in written if isinstance(one, str)}
    elif (values := _enumerated(schema)) is not None:
        found = {_type_of(value) for value in values}
    else:
        return _TYPES
    return frozenset(found | {"integer"}) if "number" in found else frozenset(found)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _type_words(types: frozenset[str]) -> str:
    if types == _TYPES:
        return "of any type"
    named = types - {"integer"} if "number" in types else types
    return " or ".join(sorted(named)) or "nothing"


def _enumerated(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if isinstance(values, (list, tuple)) else None


def _values(old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
    before, after = _enumerated(old), _enumerated(new)
    if before is None and after is not None:
        text = f"now takes only {_listed(after)}"
        yield SchemaChange(path=path, code="enum", text=text, breaks_writer=True)
    elif before is not None and after is None:
        yield SchemaChange(path=path, code="enum", text=f"takes more than {_listed(before)} now")
    elif before is not None and after is not None:
        # By their JSON, which tells true from 1.
        earlier, later = {orjson.dumps(value) for value in before}, {orjson.dumps(value) for value in after}
        if lost := [value for value in before if orjson.dumps(value) not in later]:
            text = f"no longer takes {_listed(lost)}"
            yield SchemaChange(path=path, code="enum", text=text, breaks_writer=True)
        if gained := [value for value in after if orjson.dumps(value) not in earlier]:
            yield SchemaChange(path=path, code="enum", text=f"also takes {_listed(gained)}")


def _bounds(old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
    for keyword in (*_LOWER, *_UPPER):
        before, after = _number(old, keyword), _number(new, keyword)
        if before == after:
            continue
        tighter = after is not None and (before is None or (after > before if keyword in _LOWER else after < before))
        yield _limit(path, keyword, before, after, tighter=tighter)
    for keyword in _EXACT:
        before, after = old.get(keyword), new.get(keyword)
        if before != after:
            yield _limit(path, keyword, before, after, tighter=after is not None)
    unique = (old.get("uniqueItems") is True, new.get("uniqueItems") is True)
    if unique[0] != unique[1]:
        yield _limit(path, "uniqueItems", *unique, tighter=unique[1])


def _limit(path: Path, keyword: str, before: object, after: object, *, tighter: bool) -> SchemaChange:
    if after is None or after is False:
        text = f"has no {keyword} any more (before: {_short(before)})"
    elif before is None or before is False:
        text = f"now has the {keyword} {_short(after)}"
    else:
        text = f"has the {keyword} {_short(after)} (before: {_short(before)})"
    return SchemaChange(path=path, code=keyword, text=text, breaks_writer=tighter)


def _number(schema: Schema, keyword: str) -> float | None:
    value = schema.get(keyword)
    if keyword.startswith("min") and keyword != "minimum" and value == 0:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _annotations(old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
    """At the root a tool's own title and description say it."""
    for keyword in sorted(_SAID & (old.keys() | new.keys())):
        if old.get(keyword) == new.get(keyword):
            continue
        if keyword == "deprecated":
            text = "is deprecated" if new.get(keyword) else "is no longer deprecated"
        elif keyword == "default":
            text = f"has the default {_short(new.get(keyword))} (before: {_short(old.get(keyword))})"
        else:
            text = f"has another {keyword}"
        yield SchemaChange(path=path, code=keyword, text=text)


def _others(old: Schema, new: Schema, path: Path) -> Iterator[SchemaChange]:
    judged = _NESTED | _SAID | _ANNOTATIONS | {*_LOWER, *_UPPER, *_EXACT, "uniqueItems"}
    for keyword in sorted((old.keys() | new.keys()) - judged):
        if old.get(keyword) != new.get(keyword) and not keyword.startswith("x-"):
            yield _both(path, keyword, f"has another `{keyword}`")


def _both(path: Path, code: str, text: str) -> SchemaChange:
    return SchemaChange(path=path, code=code, text=text, breaks_writer=True, breaks_reader=True)


def _mapping(schema: Schema, keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _branches(schema: Schema, keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return list(found) if isinstance(found, (list, tuple)) else []


def _listed(values: list[Any]) -> str:
    shown = ", ".join(_short(value) for value in values[:5])
    return f"{shown} and {len(values) - 5} more" if len(values) > 5 else shown


def _short(value: object) -> str:
    text = "none" if value is None else orjson.dumps(value, default=dict).decode()
    return text if len(text) <= 60 else text[:59] + "…"
