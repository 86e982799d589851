"""Comparison of two schemas keyword by keyword, for keywords without nested schemas: types, values, bounds, texts and annotations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from toolgen.generator.emit.schema_comparison.equality import text
from toolgen.generator.emit.schema_comparison.view import ALL_TYPES, SchemaView, exact

__all__ = ["Path", "SchemaChange", "bounds", "listed", "notes", "texts", "types", "values"]

Path = tuple[str, ...]
"""Property names from the root; `[]` means the items of a list and `{}` unnamed properties."""

_NUMBERS: Final = frozenset({"integer", "fraction"})
_COUNTS: Final = (
    ("minLength", "string"),
    ("minItems", "array"),
    ("minProperties", "object"),
    ("maxLength", "string"),
    ("maxItems", "array"),
    ("maxProperties", "object"),
)
_WIDER: Final = frozenset({("int32", "int64"), ("float", "double")})
_SAID: Final = ("title", "description", "examples", "example", "deprecated", "readOnly", "writeOnly", "discriminator")


class SchemaChange(Struct, frozen=True, kw_only=True):
    """Change of one keyword. `text` is the end of a sentence: `is now required`.

    `breaks_writer`: a value that was accepted may be refused, or mean something else. `breaks_reader`: a value may come that could not
    come before, or a described part is gone.
    """

    path: Path
    code: str
    text: str
    breaks_writer: bool = False
    breaks_reader: bool = False


def types(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    """Compare types. A union's types count if the other schema declares its own."""
    whole = bool(old.unions) != bool(new.unions)
    before, after = (old.types, new.types) if whole else (old.declared, new.declared)
    if before != after:
        yield SchemaChange(
            path=path,
            code="type",
            text=f"is now {_type_words(after)} (before: {_type_words(before)})",
            breaks_writer=bool(before - after),
            breaks_reader=bool(after - before),
        )


def _type_words(types: frozenset[str]) -> str:
    if types == ALL_TYPES:
        return "of any type"
    named = {"number" if kind == "fraction" else kind for kind in types}
    return " or ".join(sorted(named - {"integer"} if "number" in named else named)) or "nothing"


def values(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    """Compare `enum` and `const`."""
    match old.values, new.values:
        case None, None:
            return
        case None, dict() as after:
            yield SchemaChange(path=path, code="enum", text=f"now takes only {listed(after)}", breaks_writer=True)
        case dict() as before, None:
            yield SchemaChange(path=path, code="enum", text=f"takes more than {listed(before)} now", breaks_reader=True)
        case dict() as before, dict() as after:
            if lost := {key: value for key, value in before.items() if key not in after}:
                yield SchemaChange(path=path, code="enum", text=f"no longer takes {listed(lost)}", breaks_writer=True)
            if gained := {key: value for key, value in after.items() if key not in before}:
                yield SchemaChange(path=path, code="enum", text=f"also takes {listed(gained)}", breaks_reader=True)


def bounds(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    """Yield changes of limits of numbers, lengths and counts. A limit that no value of the other side can reach breaks no side."""
    for low in (True, False):
        before, after = _limit(old, low=low), _limit(new, low=low)
        if before != after:
            reach = (_reach(before, old, low=low), _reach(after, new, low=low))
            said = _bound_words(before, after)
            yield _judged(path, after[0] if after else before[0] if before else "", said, reach, (old, new), _NUMBERS)
    for keyword, kind in _COUNTS:
        low = keyword.startswith("min")
        was, now = _count(old, keyword, low=low), _count(new, keyword, low=low)
        if was != now:
            edge = -math.inf
            signed = [edge if limit is None else limit if low else -limit for limit in (was, now)]
            said = _moved(keyword, was, now)
            yield _judged(path, keyword, said, (signed[0], signed[1]), (old, new), frozenset({kind}))
    yield from _multiples(old, new, path)
    was_unique, is_unique = _has(old, "uniqueItems", True), _has(new, "uniqueItems", True)
    if was_unique != is_unique:
        said = _moved("uniqueItems", was_unique or None, is_unique or None)
        yield _judged(path, "uniqueItems", said, (was_unique, is_unique), (old, new), frozenset({"array"}))


def _judged(
    path: Path,
    code: str,
    said: str,
    reach: tuple[Any, Any],
    views: tuple[SchemaView, SchemaView],
    kinds: frozenset[str],
) -> SchemaChange:
    """Compare bounds by `reach`: the larger, the fewer values conform."""
    return SchemaChange(
        path=path,
        code=code,
        text=said,
        breaks_writer=reach[1] > reach[0] and bool(kinds & views[0].types),
        breaks_reader=reach[0] > reach[1] and bool(kinds & views[1].types),
    )


def _limit(view: SchemaView, *, low: bool) -> tuple[str, float] | None:
    """Return the keyword and the number of the strictest bound."""
    keywords = ("minimum", "exclusiveMinimum") if low else ("maximum", "exclusiveMaximum")
    found = [(key, part[key]) for part in view.parts for key in keywords if _is_number(part.get(key))]
    return max(found, key=lambda one: _reach(one, view, low=low), default=None)


def _reach(limit: tuple[str, float] | None, view: SchemaView, *, low: bool) -> tuple[float, bool]:
    """Return a sortable value of a bound; for integers an exclusive one is the next inclusive one."""
    if limit is None:
        return (-math.inf, False)
    keyword, number = limit
    exclusive = keyword.startswith("exclusive")
    if "fraction" not in view.types:
        whole = math.ceil(number) if low else math.floor(number)
        step = 1 if exclusive and whole == number else 0
        return (whole + step if low else -(whole - step), False)
    return (number if low else -number, exclusive)


def _bound_words(before: tuple[str, float] | None, after: tuple[str, float] | None) -> str:
    if before and after and before[0] != after[0]:
        return f"has the {after[0]} {_short(after[1])} (before: the {before[0]} {_short(before[1])})"
    keyword = (after or before or ("", 0))[0]
    return _moved(keyword, before[1] if before else None, after[1] if after else None)


def _count(view: SchemaView, keyword: str, *, low: bool) -> float | None:
    found = [part[keyword] for part in view.parts if _is_number(part.get(keyword))]
    limit = (max if low else min)(found, default=None)
    return None if low and limit == 0 else limit


def _multiples(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    before = [part["multipleOf"] for part in old.parts if _is_number(part.get("multipleOf"))]
    after = [part["multipleOf"] for part in new.parts if _is_number(part.get("multipleOf"))]
    if {*before} != {*after}:
        said = _moved("multipleOf", _one(before), _one(after))
        met = all(_divides(number, before, old) for number in after)
        was_met = all(_divides(number, after, new) for number in before)
        yield SchemaChange(
            path=path,
            code="multipleOf",
            text=said,
            breaks_writer=not met and bool(_NUMBERS & old.types),
            breaks_reader=not was_met and bool(_NUMBERS & new.types),
        )


def _divides(number: float, others: list[float], view: SchemaView) -> bool:
    """Return True if every number that the other side accepts is a multiple of this one.

    Fractions are compared as written, because their division rounds.
    """
    if number in others or (number == 1 and "fraction" not in view.types):
        return True
    return isinstance(number, int) and any(isinstance(one, int) and number and one % number == 0 for one in others)


def texts(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    """Yield changes of the form of a text. Formats and patterns are compared as written."""
    for keyword in ("pattern", "format"):
        before, after = _written(old, keyword), _written(new, keyword)
        if before == after:
            continue
        wider = len(before) == len(after) == 1 and (*before, *after) in _WIDER
        yield SchemaChange(
            path=path,
            code=keyword,
            text=_moved(keyword, _one(list(before)), _one(list(after))),
            breaks_writer=bool(after.keys() - before.keys()) and not wider,
            breaks_reader=bool(before.keys() - after.keys()),
        )
    for keyword in ("contentEncoding", "contentMediaType"):
        before, after = _written(old, keyword), _written(new, keyword)
        if before != after:  # the same text would have another meaning
            said = _moved(keyword, _one(list(before)), _one(list(after)))
            yield SchemaChange(path=path, code=keyword, text=said, breaks_writer=True, breaks_reader=True)


def notes(old: SchemaView, new: SchemaView, path: Path) -> Iterator[SchemaChange]:
    """Yield changes of keywords without an effect on accepted values. Another default changes the meaning of a call without the value."""
    before, after = old.first("default"), new.first("default")
    stated, states = (any("default" in part for part in view.parts) for view in (old, new))
    if stated != states or exact(before) != exact(after):
        said = f"has the default {_short(after) if states else 'none'} (before: {_short(before) if stated else 'none'})"
        yield SchemaChange(path=path, code="default", text=said, breaks_writer=stated)
    extensions = [key for view in (old, new) for part in view.parts for key in part if key.startswith("x-")]
    for keyword in (*_SAID, *sorted(dict.fromkeys(extensions))):
        if exact(old.first(keyword)) == exact(new.first(keyword)):
            continue
        if keyword == "deprecated":
            said = "is deprecated" if new.first(keyword) else "is no longer deprecated"
        else:
            said = f"has another {keyword}"
        yield SchemaChange(path=path, code=keyword, text=said)


def _moved(keyword: str, before: object, after: object) -> str:
    if after is None:
        return f"no longer has the {keyword} (before: {_short(before)})"
    if before is None:
        return f"now has the {keyword} {_short(after)}"
    return f"has the {keyword} {_short(after)} (before: {_short(before)})"


def _written(view: SchemaView, keyword: str) -> dict[str, None]:
    return {part[keyword]: None for part in view.parts if isinstance(part.get(keyword), str)}


def _has(view: SchemaView, keyword: str, value: object) -> bool:
    return any(part.get(keyword) is value for part in view.parts)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _one(found: list[Any]) -> Any:
    return None if not found else found[0] if len(found) == 1 else found


def listed(found: dict[Any, Any]) -> str:
    """Return a few values, and the number of the others."""
    shown = ", ".join(_short(value) for value in list(found.values())[:5])
    return f"{shown} and {len(found) - 5} more" if len(found) > 5 else shown or "nothing"


def _short(value: object) -> str:
    shown = text(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
