"""Inner call of a `run_tool`: the tool and its arguments, in each of the forms that clients send.

Arguments belong in `arguments`. Some clients write them as JSON text, name them `args`, put them beside `name`, or repeat name and
arguments within `arguments`. An unambiguous form is accepted; all others are refused, and no argument is dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from toolgen.core.spelling import near
from toolgen.gateway.calls.json_body import Malformed, decode
from toolgen.model.argument_names import own_names
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.model.wire_names import members
from toolgen.pipeline.responses.answer_argument import FORMER

__all__ = ["InnerCall", "InnerCallError", "inner_call"]

_NAME = "name"
_HOLDERS = ("arguments", "args")
_FORM = frozenset({_NAME, *_HOLDERS})
_MAX_NAMED = 20
_MAX_NAME_LENGTH = 64


class InnerCall(Struct, frozen=True, kw_only=True):
    """Name of a tool, and its arguments."""

    name: str
    arguments: JsonObject


class InnerCallError(ValueError):
    """Ambiguous arguments of a `run_tool`; the text is for the agent."""


def inner_call(given: JsonObject, catalog: Mapping[str, Tool]) -> InnerCall:
    """Return the inner call. Raises `InnerCallError`. For a tool outside the catalog, arguments cannot be identified."""
    given = _unwrapped(given)
    name = given.get(_NAME)
    if not isinstance(name, str):
        raise InnerCallError(f"/name: must be text, the tool's exact name; it is {bounded(_kind(name), 40)}")
    tool = catalog.get(name)
    own = frozenset[str]() if tool is None else _own(tool)
    arguments = _held(given, own)
    beside = {key: value for key, value in given.items() if key not in _FORM or (key == "args" and key in own)}
    if tool is None:
        return InnerCall(name=name, arguments=arguments)
    if beside:
        arguments = _moved(tool, own, arguments, beside)
    return InnerCall(name=name, arguments=_unrepeated(tool, own, arguments))


def _unwrapped(given: JsonObject) -> JsonObject:
    """Return the call without null for optional members; if everything was nested in `arguments`, return its content."""
    given = {key: value for key, value in given.items() if value is not None or key not in _FORM}
    while _NAME not in given and len(given) == 1 and (holder := next(iter(given))) in _HOLDERS:
        inner = _object(given[holder], holder)
        if not _repeats(inner) or not isinstance(inner.get(_NAME), str):
            break
        given = {key: value for key, value in inner.items() if value is not None}
    if _NAME not in given:
        found = f" (you sent {_listed(given)})" if given else ""
        raise InnerCallError(f"/name: is missing: the tool's exact name, beside arguments{found}")
    return given


def _held(given: JsonObject, own: frozenset[str]) -> JsonObject:
    """Return the arguments in `arguments` or `args`."""
    arguments = _object(given.get("arguments"), "arguments")
    if "args" not in given:
        return arguments
    if "args" in own:
        if _is_object(given["args"]):
            beside = _listed(key for key in given if key not in {_NAME, "arguments"})
            raise InnerCallError(f"put {beside} inside arguments: args may be the tool's own argument, or all of them")
        return arguments
    other = _object(given["args"], "args")
    if arguments and other and arguments != other:
        raise InnerCallError(
            "/args: is another name of arguments, and the two differ; put all arguments inside arguments"
        )
    return arguments or other


def _moved(tool: Tool, own: frozenset[str], arguments: JsonObject, beside: JsonObject) -> JsonObject:
    """Return the arguments together with those that were sent beside them."""
    unknown = [key for key in beside if key not in own]
    twice = [key for key in beside if key in arguments and arguments[key] != beside[key]]
    if unknown or twice:
        why = f"; {_listed(twice)} {_are(twice)} there too, with another value" if twice else ""
        if unknown and not _is_open(tool):
            why += f"; {tool.name} has no argument {_listed(unknown)}{_nearest(unknown, own)}"
        raise InnerCallError(f"put {_listed(beside)} inside arguments{why}")
    return {**arguments, **beside}


def _unrepeated(tool: Tool, own: frozenset[str], arguments: JsonObject) -> JsonObject:
    """Return the arguments without a repeated `arguments`, name or tool name in them. A tool with arguments of these names keeps them."""
    while _repeats(arguments) and not own >= arguments.keys():
        holders = [key for key in _HOLDERS if key in arguments]
        if (
            arguments.get(_NAME, tool.name) != tool.name
            or len(holders) > 1
            or own.intersection(holders)
            or _is_open(tool)
        ):
            held = f"/arguments: contains {_listed(arguments)}, like run_tool itself"
            raise InnerCallError(f"{held}; put the arguments of {tool.name} directly inside arguments")
        arguments = _object(arguments[holders[0]], f"arguments/{holders[0]}")
    if arguments.get(_NAME) == tool.name and _NAME not in own and not _is_open(tool):
        return {key: value for key, value in arguments.items() if key != _NAME}
    return arguments


def _repeats(arguments: JsonObject) -> bool:
    """Return True for a value with the form of a `run_tool`, also without the name."""
    keys = arguments.keys()
    return keys <= _FORM and not keys.isdisjoint(_HOLDERS)


def _own(tool: Tool) -> frozenset[str]:
    """Return the arguments of a tool, by their listed and their own names."""
    schema = tool.input_schema
    return frozenset({*members(schema, schema), *own_names(tool).values(), FORMER})


def _is_open(tool: Tool) -> bool:
    """Return True for a tool that accepts arguments that its schema does not name."""
    schema = tool.input_schema
    return schema.get("additionalProperties", False) is not False or "patternProperties" in schema


def _object(value: Json, pointer: str) -> JsonObject:
    """Return an object, also one that is written as JSON text; a missing value becomes an empty object. Raises `InnerCallError`."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if isinstance(value, str):
        try:
            value = _decoded(value)
        except Malformed as error:
            raise InnerCallError(
                f"/{pointer}: must be an object; it is text that is not an object: {error.message}"
            ) from None
    if not isinstance(value, Mapping):
        raise InnerCallError(f"/{pointer}: must be an object; it is {_kind(value)}")
    return value


def _is_object(value: Json) -> bool:
    try:
        return isinstance(value, Mapping) or (isinstance(value, str) and isinstance(_decoded(value), Mapping))
    except Malformed:
        return False


def _decoded(text: str) -> Any:
    """Decode JSON text. Raises `Malformed`, also for an object with a duplicate member."""
    return decode(text.encode("utf-8", "surrogatepass"), object)


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case _:
            return "an array"


def _listed(names: Iterable[str]) -> str:
    shown = [bounded(name, _MAX_NAME_LENGTH) for name in names]
    return ", ".join(shown[:_MAX_NAMED]) + (f" and {len(shown) - _MAX_NAMED} more" if len(shown) > _MAX_NAMED else "")


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _nearest(names: list[str], own: frozenset[str]) -> str:
    """Return ` (did you mean …?)` for the first few of some names, if one is close."""
    close = dict.fromkeys(found for name in names[:_MAX_NAMED] if (found := near(name, sorted(own - {FORMER}))))
    return f" (did you mean {', '.join(close)}?)" if close else ""
