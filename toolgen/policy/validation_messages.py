"""Messages for an agent about invalid arguments: the argument, the reason, and what would be valid.

A choice (`anyOf`, `oneOf`) is explained by the alternative closest to the value. The reason comes first and is never shortened; the
value after it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.spelling import closest, near
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, Schema

__all__ = ["sentences"]

_MAX_LISTED: Final = 20
_MAX_TOLD: Final = 40  # maximum values; if there are more, those most similar to the sent one
_MAX_CLOSEST: Final = 5
_MAX_VALUE_LENGTH: Final = 80
_MAX_POINTER_LENGTH: Final = 200
_MAX_REASON_LENGTH: Final = 300
_MAX_DEPTH: Final = 8  # maximum nesting of choices
_MAX_ERRORS: Final = 200  # maximum faults of one value, or of one alternative
_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
)
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"integer": "a whole number", "null": "null", "array": "an array", "object": "an object"}
)
_LIMITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "minimum": "must be at least {}",
        "maximum": "must be at most {}",
        "exclusiveMinimum": "must be greater than {}",
        "exclusiveMaximum": "must be less than {}",
        "minLength": "must have at least {} characters",
        "maxLength": "must have at most {} characters",
        "minItems": "must have at least {} items",
        "maxItems": "must have at most {} items",
        "minProperties": "must have at least {} members",
        "maxProperties": "must have at most {} members",
        "multipleOf": "must be a multiple of {}",
        "pattern": "must match the pattern {}",
        "format": "must be a valid {}",
        "uniqueItems": "must not contain an item twice",
        "not": "has a value that is not allowed here",
        "contains": "must contain an item that fits the schema",
        "falseSchema": "is not allowed here",
        "propertyNames": "has a member whose name is not allowed",
    }
)
# Example of each format whose name does not show its notation.
_EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "date": "2026-01-31",
        "date-time": "2026-01-31T09:30:00Z",
        "time": "09:30:00Z",
        "duration": "P1DT2H",
        "uuid": "123e4567-e89b-12d3-a456-426614174000",
        "uri": "https://example.com/a",
        "ipv6": "2001:db8::1",
    }
)
Error = jsonschema_rs.ValidationError


class _Fault(Struct, frozen=True, kw_only=True):
    """Error to correct. `values` are what `kind` allows or misses: types, values of an enum, names."""

    pointer: tuple[str | int, ...]
    kind: str
    values: tuple[Json, ...] = ()
    value: Any = None
    known: tuple[str, ...] = ()  # names that the object may have
    reason: str = ""


def sentences(errors: Iterable[Error], schema: Schema, limit: int, bound: Sequence[str] = ()) -> tuple[str, ...]:
    """Return up to `limit` sentences, each starting with the JSON pointer of its argument.

    `bound` are the arguments (as `body.tenant`) that the gateway sets: the caller is told neither their names nor their values.
    """
    hidden = {tuple(path.split(".")) for path in bound}
    found = _gathered(_faults(islice(errors, _MAX_ERRORS), schema, 0))
    said = (_sentence(fault, hidden) for fault in found)
    return tuple(islice(dict.fromkeys(said), limit))


def _faults(errors: Iterable[Error], schema: Schema, depth: int) -> Iterator[_Fault]:
    for error in errors:
        kind: Any = error.kind
        pointer = tuple(error.instance_path)
        match kind.name:
            case "anyOf" | "oneOf" if getattr(kind, "context", None) and depth < _MAX_DEPTH:
                yield from _chosen(error, schema, depth)
            case "required":
                yield _Fault(pointer=pointer, kind="required", values=(kind.property,), value=error.instance)
            case "additionalProperties" | "unevaluatedProperties":
                yield _Fault(
                    pointer=pointer, kind="unknown", values=tuple(kind.unexpected), known=_known(error, schema)
                )
            case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:  # of a schema without properties
                yield _Fault(pointer=pointer, kind="falseSchema", reason="must be empty", value={})
            case "enum":
                yield _Fault(pointer=pointer, kind="enum", values=tuple(kind.options), value=error.instance)
            case "const":
                yield _Fault(pointer=pointer, kind="enum", values=(kind.expected_value,), value=error.instance)
            case "type":
                yield _Fault(pointer=pointer, kind="type", values=tuple(kind.types), value=error.instance)
            case name:
                yield _Fault(pointer=pointer, kind=name, value=error.instance, reason=_limit(name, kind))


def _limit(name: str, kind: Any) -> str:
    reason = _LIMITS.get(name)
    if reason is None:
        return f"does not fit the keyword '{name}' of the schema"
    if name == "format":
        name = str(kind.format)
        return reason.format(name) + (f", such as {_EXAMPLES[name]}" if name in _EXAMPLES else "")
    return reason.format(kind.value)


def _chosen(error: Error, schema: Schema, depth: int) -> Iterator[_Fault]:
    """Yield the errors of a value that no alternative accepts, or that several accept, from the closest alternatives."""
    kind: Any = error.kind
    pointer = tuple(error.instance_path)
    branches: list[tuple[tuple[int, ...], list[_Fault]]] = []
    fitting = 0
    for index, errors in enumerate(islice(kind.context, _MAX_ERRORS)):
        found = [*_faults(islice(errors, _MAX_ERRORS), schema, depth + 1)]
        fitting += not found
        names = _names(_at(schema, [*error.schema_path, index]), schema)
        branches.append((_distance(found, pointer, error.instance, names), found))
    if fitting:
        reason = f"fits {fitting} alternatives at once, but only one may fit: leave out the members of the others"
        yield _Fault(pointer=pointer, kind="oneOf", value=error.instance, reason=reason)
        return
    best = min(distance for distance, _found in branches)
    if best[1]:  # no variant was chosen: only the discriminating member is at fault
        yield from _merged([_tags(found, pointer) for distance, found in branches if distance[:2] == best[:2]])
    else:
        yield from _merged([found for distance, found in branches if distance == best])


def _distance(
    found: Sequence[_Fault], pointer: tuple[str | int, ...], value: Any, names: frozenset[str]
) -> tuple[int, ...]:
    """Return the distance of a value from an alternative: another type, another variant, other names, or only single faults."""
    other_type = any(fault.pointer == pointer and _is_other_type(fault) for fault in found)
    other_variant = not other_type and bool(_tags(found, pointer))
    shared = len(names & value.keys()) if isinstance(value, Mapping) else 0
    return (other_type, other_variant, -shared, len(found))


def _is_other_type(fault: _Fault) -> bool:
    return fault.kind == "type" or (
        fault.kind == "enum" and all(type(one) is not type(fault.value) for one in fault.values)
    )


def _tags(found: Sequence[_Fault], pointer: tuple[str | int, ...]) -> list[_Fault]:
    """Return the faults of the members that discriminate variants of an object (or plain values)."""
    return [fault for fault in found if fault.kind == "enum" and len(fault.pointer) <= len(pointer) + 1]


def _merged(branches: Sequence[Sequence[_Fault]]) -> Iterator[_Fault]:
    """Return the faults of equally close alternatives: faults about the same place become one with all values."""
    first, others = branches[0], branches[1:]
    if others and all(len(found) == 1 and found[0].kind in {"type", "enum"} for found in branches):
        ones = [found[0] for found in branches]
        if len({one.pointer for one in ones}) == 1 and len({one.kind for one in ones}) > 1:
            allowed = " or ".join(_allowed(one) for one in ones)
            yield replace(first[0], kind="either", reason=f"must be {allowed}")
            return
    for fault in first:
        same = [[one for one in found if (one.pointer, one.kind) == (fault.pointer, fault.kind)] for found in others]
        if not others or fault.kind not in {"enum", "type", "required"} or not all(same):
            yield fault
            continue
        values = [*fault.values, *(value for ones in same for one in ones for value in one.values)]
        kind = "one of" if fault.kind == "required" else fault.kind
        yield replace(fault, kind=kind, values=_distinct(values))


def _gathered(faults: Iterable[_Fault]) -> Iterator[_Fault]:
    """Merge the faults about names that are missing from the same object."""
    kept: dict[object, _Fault] = {}
    for number, fault in enumerate(faults):
        key = (fault.pointer, "required") if fault.kind == "required" else number
        earlier = kept.get(key)
        values = fault.values if earlier is None else (*earlier.values, *fault.values)
        kept[key] = replace(fault, values=_distinct(values))
    return iter(kept.values())


def _sentence(fault: _Fault, hidden: set[tuple[str, ...]]) -> str:
    path = tuple(map(str, fault.pointer))
    if any(path[: len(one)] == one for one in hidden):
        return "arguments: a value that the gateway sets is not valid; tell the operator of the gateway"
    names = {one[-1] for one in hidden if one[:-1] == path}
    if names:
        known = tuple(name for name in fault.known if name not in names)
        value = fault.value
        if isinstance(value, Mapping):
            value = {name: item for name, item in value.items() if name not in names}
        fault = replace(fault, known=known, value=value)
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)
    return f"{bounded(pointer, _MAX_POINTER_LENGTH) or 'arguments'}: {_SAID.get(fault.kind, _plainly)(fault)}"


def _plainly(fault: _Fault) -> str:
    reason = bounded(fault.reason, _MAX_REASON_LENGTH)
    return f"{reason}; it is {_shown(fault.value)}" if fault.value != {} else reason


def _of_type(fault: _Fault) -> str:
    return f"must be {_allowed(fault)}; it is {_kind(fault.value)}{_shown(fault.value)}"


def _allowed(fault: _Fault) -> str:
    """Return the types or values that are valid."""
    if fault.kind == "type":
        return " or ".join(_TYPES.get(str(one), f"a {one}") for one in fault.values)
    listed = ", ".join(_shown(value) for value in fault.values[:_MAX_LISTED])
    more = len(fault.values) - _MAX_LISTED
    return f"{listed} and {more} more" if more > 0 else listed


def _of_enum(fault: _Fault) -> str:
    texts = [value for value in fault.values if isinstance(value, str)]
    meant = near(fault.value, texts) if isinstance(fault.value, str) else ""
    asked = f" (did you mean {_shown(meant)}?)" if meant else ""
    some = "must be" if len(fault.values) == 1 else "must be one of"
    allowed = _allowed(fault)
    if len(fault.values) > _MAX_TOLD:
        like = [one for one in closest(str(fault.value), texts, _MAX_CLOSEST) if one != meant]
        shown = f", such as {', '.join(map(_shown, like))}" if like else "" if meant else f": {allowed}"
        allowed = f"{len(fault.values)} values{shown}"
    return f"{some} {allowed}; it is {_shown(fault.value)}{asked}"


def _required(fault: _Fault) -> str:
    return f"{_quoted(fault.values)} {'is' if len(fault.values) == 1 else 'are'} missing{_misspelt(fault)}"


def _one_required(fault: _Fault) -> str:
    return f"one of {_quoted(fault.values)} is missing{_misspelt(fault)}"


def _misspelt(fault: _Fault) -> str:
    """Return a hint if a member of the object is probably a misspelling of a missing name, else ""."""
    names = [name for name in fault.value if name not in fault.values] if isinstance(fault.value, Mapping) else []
    for missing in fault.values:
        if meant := near(str(missing), names):
            return f" (you sent '{bounded(meant, 64)}')"
    return ""


def _unknown(fault: _Fault) -> str:
    told = []
    for name in fault.values[:5]:
        meant = near(str(name), fault.known)
        told.append(f"'{bounded(str(name), 64)}'{f' (did you mean {meant!r}?)' if meant else ''}")
    listed = f"; it takes {_quoted(fault.known)}" if fault.known else "; it takes no others"
    return f"{', '.join(told)} {'is' if len(fault.values) == 1 else 'are'} not known here{listed}"


_SAID: Final[Mapping[str, Callable[[_Fault], str]]] = MappingProxyType(
    {"type": _of_type, "enum": _of_enum, "required": _required, "one of": _one_required, "unknown": _unknown}
)


def _quoted(names: Iterable[Json]) -> str:
    listed = [f"'{bounded(str(name), 64)}'" for name in names]
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return ", ".join(listed[:_MAX_LISTED]) + more


def _kind(value: object) -> str:
    """Return the type name of a scalar with a space after it, as a prefix of the value; "" for lists and objects."""
    return f"{_KINDS[type(value)]} " if type(value) in _KINDS else ""


def _shown(value: object) -> str:
    """Return a value as JSON, shortened; only the names of an object and the length of an array."""
    if isinstance(value, Mapping) and value:
        return f"an object with {_quoted([*value][:6])}" + (" …" if len(value) > 6 else "")
    if isinstance(value, (list, tuple)) and value:
        return f"an array of {len(value)} {'item' if len(value) == 1 else 'items'}"
    if isinstance(value, str):  # the rest is not serialised
        value = bounded(value, _MAX_VALUE_LENGTH)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # integer with more than 4300 digits
        text = "a very large number"
    return bounded(text, _MAX_VALUE_LENGTH + 2)


def _distinct(values: Iterable[Json]) -> tuple[Json, ...]:
    return tuple({json.dumps(value, sort_keys=True): value for value in values}.values())


def _known(error: Error, schema: Schema) -> tuple[str, ...]:
    """Return the names that the object at fault may have, as far as its schema lists them."""
    return tuple(sorted(_names(_at(schema, error.schema_path[:-1]), schema)))


def _names(at: object, schema: Schema, depth: int = 0) -> frozenset[str]:
    """Return the properties of a schema, also of its `$ref` and `allOf`."""
    if not isinstance(at, Mapping) or depth > _MAX_DEPTH:
        return frozenset()
    properties = at.get("properties")
    found = frozenset(properties if isinstance(properties, Mapping) else ())
    reference = at.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/")]
        found |= _names(_at(schema, steps), schema, depth + 1)
    parts = at.get("allOf")
    for part in parts[:_MAX_LISTED] if isinstance(parts, (list, tuple)) else ():
        found |= _names(part, schema, depth + 1)
    return found


def _at(schema: object, path: Iterable[str | int]) -> object:
    at = schema
    for step in path:
        if isinstance(at, Mapping):
            at = at.get(str(step))
        elif isinstance(at, (list, tuple)) and isinstance(step, int) and step < len(at):
            at = at[step]
        else:
            return None
    return at
