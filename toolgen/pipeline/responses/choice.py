"""Choice of items of a list: filter, order and number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.field_mask import steps_of
from toolgen.model.schema import Json
from toolgen.pipeline.responses.pagination import LIST_NAMES

__all__ = ["MAX_TOP", "Choice", "ChoiceError", "Chosen", "choice_of", "located", "paths_in", "replaced"]

MAX_TOP: Final = 1_000
_MAX_CONDITIONS: Final = 10
_MAX_ORDERS: Final = 5
_MAX_LENGTH: Final = 300
_MAX_DEPTH: Final = 4  # maximum levels of objects in which a list is searched for, and of paths in an error
_MAX_TOLD: Final = 40
_MAX_LOOKED_AT: Final = 50  # maximum items whose paths are listed in an error
_CONDITION: Final = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|=|<|>|\s(?:contains|CONTAINS)\s)\s*(.*?)\s*\Z", re.DOTALL)
_CONNECTION: Final = ("edges", "nodes")
_Path: TypeAlias = tuple[str, ...]


class ChoiceError(Exception):
    """Choice that does not fit an answer; the text is for the agent."""


class _Condition(Struct, frozen=True):
    path: _Path
    compare: str
    value: Json
    written: str


class _Order(Struct, frozen=True):
    path: _Path
    falling: bool


class Choice(Struct, frozen=True, kw_only=True):
    """Conditions on items, all of which must hold, the order, and the maximum number of items; 0 for all."""

    where: tuple[_Condition, ...] = ()
    sort: tuple[_Order, ...] = ()
    top: int = 0

    def apply(self, data: Json) -> Chosen:
        """Return the answer with the chosen items in place of its list. Raises `ChoiceError`."""
        at = located(data)
        if at is None:
            raise ChoiceError(
                "where, sort and top need an answer with exactly one list, and this one has none or several"
            )
        path, items = at
        columns = _columns(data, path, items)
        get = _at if columns is None else _cell(columns)
        told = None if columns is None else tuple(columns)
        found: list[Json] = list(items)
        for one in self.where:
            steps = _known(one.path, path, items, get, told)
            found = [item for item in found if _holds(get(item, steps), one)]
        for order in reversed(self.sort):
            steps = _known(order.path, path, items, get, told)
            found = _sorted(found, lambda item, steps=steps: get(item, steps), falling=order.falling)  # type: ignore[misc]
        shown = found[: self.top] if self.top else found
        return Chosen(data=replaced(data, path, shown), read=len(items), matching=len(found), shown=len(shown))


class Chosen(Struct, frozen=True, kw_only=True):
    """Answer with chosen items, and how many were read, met the conditions and are shown."""

    data: Json
    read: int
    matching: int
    shown: int


def choice_of(given: Mapping[str, Json]) -> Choice | None:
    """Return the choice in the options of an answer; None if there is none. Raises `ValueError` with the reason."""
    where, sort, top = given.get("where"), given.get("sort"), given.get("top", 0)
    if isinstance(top, bool) or not isinstance(top, int) or ("top" in given and not 1 <= top <= MAX_TOP):
        raise ValueError(f"top must be a whole number from 1 to {MAX_TOP}")
    choice = Choice(where=_conditions(where), sort=_orders(sort), top=top)
    return choice if choice.where or choice.sort or choice.top else None


def _conditions(given: Json) -> tuple[_Condition, ...]:
    if given is None:
        return ()
    if isinstance(given, Mapping):  # {"state": "open"}
        found = [_Condition(steps_of(str(path)), "=", value, f"{path} = {value}") for path, value in given.items()]
    else:
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) for one in texts):
            raise ValueError("where must be an array of conditions like 'size > 5' or 'state = open'")
        found = [_condition(str(one)) for one in texts]
    if len(found) > _MAX_CONDITIONS:
        raise ValueError(f"where takes at most {_MAX_CONDITIONS} conditions")
    return tuple(found)


def _condition(text: str) -> _Condition:
    match = _CONDITION.match(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(
            f"'{bounded(text, 80)}' is not a condition like 'size > 5', 'state = open' or 'name contains x' (=, !=, <, <=, >, >=, contains)"
        )
    path, compare, value = match.groups()
    compare = compare.strip().lower()
    return _Condition(steps_of(path), "=" if compare == "==" else compare, _literal(value), text)


def _literal(text: str) -> Json:
    """Parse a value as JSON or as single-quoted text, or return the text itself."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, (list, dict)) else value


def _orders(given: Json) -> tuple[_Order, ...]:
    if given is None:
        return ()
    texts = given.split(",") if isinstance(given, str) else given
    if (
        not isinstance(texts, (list, tuple))
        or not all(isinstance(one, str) for one in texts)
        or len(texts) > _MAX_ORDERS
    ):
        raise ValueError(f"sort must be at most {_MAX_ORDERS} paths, such as '-size' for the largest first")
    return tuple(_order(str(one).strip()) for one in texts)


def _order(text: str) -> _Order:
    name, _, direction = text.partition(" ")
    falling = name.startswith("-") or direction.strip().lower() in ("desc", "descending")
    return _Order(steps_of(name.lstrip("+-")), falling)


def located(data: Json) -> tuple[_Path, Sequence[Json]] | None:
    """Return the path and the items of the only list in an answer; None if there is none, or several."""
    found = list(_lists_in(data, (), 0))
    return found[0] if len(found) == 1 else None


def _lists_in(data: Json, path: _Path, depth: int) -> Iterable[tuple[_Path, Sequence[Json]]]:
    if isinstance(data, (list, tuple)):
        yield path, data
    elif isinstance(data, Mapping) and depth < _MAX_DEPTH:
        lists = {name: item for name, item in data.items() if isinstance(item, (list, tuple))}
        named = next((name for word in (*_CONNECTION, *LIST_NAMES) for name in lists if name.lower() == word), None)
        if named is not None or len(lists) == 1:
            name = named if named is not None else next(iter(lists))
            yield (*path, name), lists[name]
        elif not lists:
            for name, item in data.items():
                if isinstance(item, Mapping):
                    yield from _lists_in(item, (*path, name), depth + 1)
        else:  # several lists, and no main one
            yield from (((*path, name), item) for name, item in lists.items())


def replaced(data: Json, path: Sequence[str], items: list[Json]) -> Json:
    """Return the answer with other items in its list."""
    if not path or not isinstance(data, Mapping):
        return items
    changed = {**data, path[0]: replaced(data[path[0]], path[1:], items)}
    if len(path) == 1 and "row_count" in changed and path[0] == "rows":
        changed["row_count"] = len(items)
    return changed


_Get: TypeAlias = Callable[[Json, _Path], Any]


def _columns(data: Json, path: _Path, items: Sequence[Json]) -> dict[str, int] | None:
    """Return the places of columns by name if the items are rows, or None."""
    columns = data.get("columns") if isinstance(data, Mapping) and path == ("rows",) else None
    if not isinstance(columns, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in items):
        return None
    return {str(one["name"]): place for place, one in enumerate(columns) if isinstance(one, Mapping) and "name" in one}


def _cell(names: Mapping[str, int]) -> _Get:
    """Return the function that reads a cell of a row by the name of its column. Members of items are read by `_at`."""

    def cell(item: Json, steps: _Path) -> Any:
        place = names.get(steps[0]) if len(steps) == 1 else None
        known = isinstance(item, (list, tuple)) and place is not None and place < len(item)
        return item[place] if known else _MISSING  # type: ignore[index]

    return cell


_MISSING: Final = object()


def _at(item: Any, steps: _Path) -> Any:
    for name in steps:
        if not isinstance(item, Mapping) or name not in item:
            return _MISSING
        item = item[name]
    return item


def _known(steps: _Path, path: _Path, items: Sequence[Json], get: _Get, columns: Sequence[str] | None) -> _Path:
    """Return the path as the items have it; it may also begin at the top of the answer, or leave out the one object around each item.

    Raises `ChoiceError` if no item has it. Without items, any path is valid.
    """
    beneath = steps[len(path) :] if path and steps[: len(path)] == path else ()
    around = {next(iter(item)) for item in items[:_MAX_LOOKED_AT] if isinstance(item, Mapping) and len(item) == 1}
    wrapped: tuple[_Path, ...] = tuple((str(name), *steps) for name in sorted(around | {"node"}))
    candidates: list[_Path] = [steps, *([beneath] if beneath else []), *wrapped]
    for one in candidates:
        if not items or any(get(item, one) is not _MISSING for item in items):
            return one
    told = paths_in(items) if columns is None else [bounded(name, 80) for name in columns[:_MAX_TOLD]]
    raise ChoiceError(f"no item has '{bounded('.'.join(steps), 80)}'; paths of the items: {', '.join(told) or 'none'}")


def paths_in(value: Json) -> list[str]:
    """Return the paths of the plain values in a value, bounded."""
    found: dict[str, None] = {}
    waiting: list[tuple[Json, str, int]] = [(value, "", 0)]
    for node, path, depth in waiting:
        if len(found) >= _MAX_TOLD:
            break
        if isinstance(node, (list, tuple)):
            waiting.extend((item, path, depth) for item in node[:_MAX_LOOKED_AT])
        elif isinstance(node, Mapping) and depth < _MAX_DEPTH:
            waiting.extend((item, f"{path}.{name}" if path else str(name), depth + 1) for name, item in node.items())
        elif path:
            found[path] = None
    return list(found)[:_MAX_TOLD]


def _holds(value: Any, condition: _Condition) -> bool:
    wanted = condition.value
    if value is _MISSING:
        return condition.compare == "!=" and wanted is not None
    if condition.compare == "contains":
        return (
            str(wanted).lower() in (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).lower()
        )
    if condition.compare in ("=", "!="):
        same = _alike(value) == _alike(wanted)
        return same is (condition.compare == "=")
    first, second = _alike(value), _alike(wanted)
    if isinstance(first, float) and isinstance(second, float):
        return _in_order(first, second, condition.compare)
    return isinstance(first, str) and isinstance(second, str) and _in_order(first, second, condition.compare)


_Ordered = TypeVar("_Ordered", float, str)


def _in_order(first: _Ordered, second: _Ordered, compare: str) -> bool:
    match compare:
        case "<":
            return first < second
        case "<=":
            return first <= second
        case ">":
            return first > second
        case _:
            return first >= second


def _alike(value: Any) -> Any:
    """Return a value for comparison: numbers as such, also those that are written as text; nothing equals an object."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e300 else value
    if isinstance(value, str):
        try:
            return float(value) if value[:1].isdigit() or value[:1] in "-." else value
        except ValueError:
            return value
    return _MISSING


def _sorted(items: list[Json], read: Callable[[Json], Any], *, falling: bool) -> list[Json]:
    """Sort items by a value: numbers before texts, items without a value last, for both directions."""
    kinds: dict[str, list[tuple[Any, Json]]] = {"number": [], "text": [], "other": []}
    for item in items:
        value = _alike(read(item))
        kind = "number" if isinstance(value, (bool, int, float)) else "text" if isinstance(value, str) else "other"
        kinds[kind].append((value, item))
    for kind in ("number", "text"):
        kinds[kind].sort(key=lambda pair: pair[0], reverse=falling)
    return [item for kind in ("number", "text", "other") for _, item in kinds[kind]]
