"""Narrowest JSON Schema that accepts all observed values, and a description of the other values that it accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from toolgen.core.canonical import Recorded
from toolgen.model.schema import Json, json_type

__all__ = ["Observed", "closed"]

_MAX_VALUES = 10
_MAX_RUNS = 12
_META: Final = "\\^$.|?*+()[]{}/"
_CLASSES: Final = (("0-9", "0123456789"), ("a-z", "abcdefghijklmnopqrstuvwxyz"), ("A-Z", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))

Observed = tuple[dict[str, Any], list[str]]
"""Schema, and the values beyond the observed ones that it accepts: one sentence each, with the path of the argument."""


def closed(seen: Sequence[Mapping[str, Json]], path: str = "") -> Observed:
    """Return the schema for objects like these: no other members, members of all objects are required, each member as narrow as its values.

    A value that the log only has as a keyed digest is `Recorded`; an equal text may be a real value.
    """
    names = sorted({name for one in seen for name in one})
    required = [name for name in names if all(name in one for one in seen)]
    properties: dict[str, Any] = {}
    beyond: list[str] = []
    for name in names:
        below = f"{path}.{name}" if path else name
        properties[name], more = _of([one[name] for one in seen if name in one], below)
        beyond += more
        if name not in required:
            beyond.append(f"{below} is optional, for all values of the other arguments")
    open_ = [name for name in names if len({_text(one[name]) for one in seen if name in one}) > 1]
    if len(open_) > 1:
        beyond.append(f"values of {', '.join(open_)} in combinations that were not observed")
    schema: dict[str, Any] = {"properties": properties, "additionalProperties": False}
    return ({**schema, "required": required} if required else schema), beyond


def _of(values: list[Json], path: str) -> Observed:
    if any(_is_hidden(value) for value in values):
        return {}, [f"{path} may be anything: the audit log only has its keyed digest"]
    distinct = {_text(value): value for value in values}
    if all(isinstance(value, Mapping) for value in values):
        schema, beyond = closed([value for value in values if isinstance(value, Mapping)], path)
        return {"type": "object", **schema}, beyond
    if all(isinstance(value, list) for value in values):
        return _of_lists([value for value in values if isinstance(value, list)], path)
    if len(distinct) <= _MAX_VALUES and not any(isinstance(value, Mapping | list | float) for value in values):
        return {"enum": [distinct[text] for text in sorted(distinct)]}, []
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return _of_numbers([value for value in values if isinstance(value, int | float)], path)
    if all(isinstance(value, str) for value in values):
        return _of_texts(sorted({value for value in values if isinstance(value, str)}), path)
    kinds = sorted({_kind(value) for value in values})
    return {"type": kinds}, [f"{path} may be any {' or '.join(kinds)}"]


def _of_numbers(values: list[int | float], path: str) -> Observed:
    kind = "integer" if all(isinstance(value, int) for value in values) else "number"
    least, most = min(values), max(values)
    seen = len(set(values))
    beyond = [f"{path} may be any {kind} from {least} to {most}; {seen} were observed"] if least != most else []
    return {"type": kind, "minimum": least, "maximum": most}, beyond


def _of_lists(values: list[list[Json]], path: str) -> Observed:
    items = [item for value in values for item in value]
    schema: dict[str, Any] = {"type": "array", "minItems": min(map(len, values)), "maxItems": max(map(len, values))}
    if not items:
        return schema, []
    schema["items"], beyond = _of(items, f"{path}[]")
    if len({_text(value) for value in values}) > 1:
        beyond = [*beyond, f"{path} may have {schema['minItems']} to {schema['maxItems']} of these items, in any order"]
    return schema, beyond


def _of_texts(values: list[str], path: str) -> Observed:
    """Return the schema for many texts: a pattern of their common runs, or otherwise of their characters."""
    shapes = [[(kind, "".join(run)) for kind, run in groupby(value, _class)] for value in values]
    same = len({tuple(kind for kind, _ in shape) for shape in shapes}) == 1 and len(shapes[0]) <= _MAX_RUNS
    if same:
        runs = zip(*shapes, strict=True)
        pattern = "".join(_run([text for _, text in run]) for run in runs)
    else:
        characters = _characters("".join(values))
        pattern = f"[{characters}]{_counted([len(value) for value in values])}" if characters else ""
    return {"type": "string", "pattern": f"^{pattern}$"}, [
        f"{path} may be any text like ^{pattern}$; {len(values)} were observed"
    ]


def _run(texts: list[str]) -> str:
    if len(set(texts)) == 1:
        return "".join(f"\\{one}" if one in _META else one for one in texts[0])
    return f"[{_characters(''.join(texts))}]{_counted([len(text) for text in texts])}"


def _counted(lengths: list[int]) -> str:
    least, most = min(lengths), max(lengths)
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _class(character: str) -> str:
    return next((name for name, members in _CLASSES if character in members), character)


def _characters(text: str) -> str:
    """Return the content of a character class in a pattern for the characters of a text; ASCII letters and digits by their whole class."""
    kinds = {_class(character) for character in text}
    named = [name for name, _ in _CLASSES if name in kinds]
    single = sorted(kind for kind in kinds if len(kind) == 1)
    return "".join((*named, *(_escaped(one) for one in single)))


def _escaped(character: str) -> str:
    # Engines of JSON Schema differ in which characters may be escaped; these have a meaning between brackets in at least one.
    return f"\\{character}" if character in "\\]^-[&~" else character


def _kind(value: Json) -> str:
    """Return the JSON type of a value; integers are numbers."""
    kind = json_type(value)
    return "number" if kind == "integer" else kind


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _is_hidden(value: object) -> bool:
    if isinstance(value, Recorded):
        return True
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_is_hidden, items))
