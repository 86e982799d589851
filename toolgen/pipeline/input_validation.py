"""Arguments of callers, prepared for the policy: checked as JSON and text, because a caller in Python or a custom front end can pass any
value, then normalized. Only the normalized form is recorded, judged and delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import msgspec

from toolgen.core.json_codec import MAX_DEPTH
from toolgen.generator.emit.dialects import without_absent
from toolgen.model.argument_names import listed_arguments
from toolgen.model.body_form import in_body_form
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Tool
from toolgen.policy.arguments import excess, repair

__all__ = ["Meant", "legible", "meant", "no_ids", "no_json", "no_text"]

_SCALARS = frozenset({str, int, float, bool, type(None)})
_NAMES = frozenset({str})
_MAX_VALUES = 10_000
_HALF = "contains half a surrogate pair, which is not a character"


def no_json(arguments: Mapping[str, object]) -> str | None:
    """Return a message about arguments that are not JSON, beginning with a JSON pointer, or None if all are JSON.

    Values beyond the limits of the gateway (`excess`) are not checked; the record stage refuses them.
    """
    if (
        type(arguments) is dict
        and len(arguments) <= _MAX_VALUES
        and _NAMES.issuperset(map(type, arguments))
        and _SCALARS.issuperset(map(type, arguments.values()))
    ):  # most arguments are
        try:
            msgspec.json.encode(arguments)
        except ValueError:  # half a surrogate pair
            pass
        else:
            return None
    elif _is_plain(arguments):
        return None
    return next(_faults(arguments), None) if excess(arguments) is None else _name_fault(arguments)


def _is_plain(arguments: object) -> bool:
    """Return True if a value consists of Python's own JSON types only and its text is Unicode; False also if the check would take long."""
    level: list[Any] = [arguments]
    count = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _SCALARS:
                continue
            if kind is dict and _NAMES.issuperset(map(type, item)):
                below += item.values()
            elif kind is list or kind is tuple:
                below += item
            else:
                return False
        count += len(below)
        if count > _MAX_VALUES:
            return False
        if not below:
            break
        level = below
    else:
        return False
    try:
        msgspec.json.encode(arguments)
    except ValueError:  # half a surrogate pair
        return False
    return True


def no_text(value: object) -> str | None:
    """Return the reason why a value is not Unicode text, as the end of a sentence after its name, or None if it is."""
    if not isinstance(value, str):
        return f"must be a text, but is {_kind(value)}"
    try:
        value.encode()
    except UnicodeEncodeError:
        return _HALF
    return None


def no_ids(**ids: object) -> str | None:
    """Return the first id of a call that is not text, with the reason, or None if all are."""
    for name, value in ids.items():
        if value != "" and (fault := no_text(value)):
            return f"{name}: it {fault}"
    return None


def legible(text: str) -> str:
    r"""Return the text with halves of surrogate pairs escaped (`\ud800`), so that it can be encoded."""
    return text.encode(errors="backslashreplace").decode()


def _faults(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each value or name that has no form in JSON. Time and memory grow with the size of the checked values."""
    stack: list[tuple[str, object]] = [("", arguments)]
    while stack:
        pointer, value = stack.pop()
        match value:
            case str():
                if no_text(value):
                    yield f"{pointer}: {_HALF}"
            case bool() | int() | float() | None:
                pass
            case Mapping():
                if fault := _name_fault(value, pointer):
                    yield fault
                stack += ((pointer + _step(name), item) for name, item in value.items() if isinstance(name, str))
            case list() | tuple():
                stack += ((f"{pointer}/{index}", item) for index, item in enumerate(value))
            case _:
                yield f"{pointer}: JSON has no form for {_kind(value)}"


def _name_fault(members: Mapping[str, object], pointer: str = "") -> str | None:
    faults = ((_step(name), no_text(name)) for name in members)
    return next((f"{pointer}{step}: the name {fault}" for step, fault in faults if fault), None)


def _step(name: object) -> str:
    return "/" + legible(str(name)).replace("~", "~0").replace("/", "~1")


def _kind(value: object) -> str:
    return f"a Python {type(value).__name__}"


_NONE: tuple[str, ...] = ()
_NOTHING: JsonObject = MappingProxyType({})


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """Normalized arguments for all stages, and the top-level arguments that differ from those sent, for the audit log.

    `repaired` were text that encodes the declared type, `dropped` are unknown to the schema (by name or JSON pointer, with their values),
    `left_out` were null or an empty text for "not given".
    """

    arguments: JsonObject
    repaired: tuple[str, ...] = ()
    dropped: JsonObject = _NOTHING
    left_out: tuple[str, ...] = ()


def meant(tool: Tool, arguments: JsonObject) -> Meant:
    """Normalize the arguments of a call.

    An argument that is sent by its own name and listed under another gets the listed name, and the parts of a request body get the form of
    the tool.

    A model that was given the strict form of a tool cannot leave an argument out: it sends null. A call does not say where its arguments
    come from, and lists are also stored in files and made strict by frameworks, so every front end removes these nulls. That is safe with
    any caller: a null is removed only where the schema would refuse it, and the result is the call without the argument, which any caller
    may make and the policy judges as such.
    """
    schema = tool.input_schema
    sent = arguments
    arguments, twice = listed_arguments(tool, arguments)
    arguments, moved = in_body_form(tool, arguments)
    given, left_out = arguments, _NONE
    # Most calls contain no null, which is checked first; the record stage refuses arguments beyond the limits.
    if _holds_null(arguments) and excess(arguments) is None:
        given, left_out = _without_nulls(schema, arguments)
    seen = repair(schema, given)
    unknown = (*twice, *seen.dropped)
    return Meant(
        arguments=seen.arguments,
        repaired=(*moved, *seen.repaired),
        dropped={name: _value_of(name, given, sent) for name in unknown} if unknown else _NOTHING,
        left_out=(*left_out, *seen.left_out),
    )


def _value_of(name: str, *arguments: JsonObject) -> Json:
    """Return the value of an argument, or of the member at a JSON pointer, from the first of these that has it."""
    for given in arguments:
        if name in given:
            return given[name]
        value: Any = given
        for step in (token.replace("~1", "/").replace("~0", "~") for token in name.split("/")[1:]):
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, (list, tuple)) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:  # within a text that contains JSON
                value = None
                break
        if value is not None:
            return cast(Json, value)
    return None


def _without_nulls(schema: Schema, arguments: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    given = without_absent(schema, arguments)
    return given, tuple(name for name, value in arguments.items() if name not in given or given[name] != value)


def _holds_null(arguments: JsonObject) -> bool:
    stack: list[object] = [*arguments.values()]
    while stack:
        item = stack.pop()
        if item is None:
            return True
        if isinstance(item, (dict, list)):
            stack.extend(item.values() if isinstance(item, dict) else item)
    return False
