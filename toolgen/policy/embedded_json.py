"""JSON inside the strings of JSON: taken apart so that paths lead into it, and put back as it was written where nothing in it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgen.json_codec import MAX_DEPTH, decode_json, encode_json
from toolgen.model.schema import Json

__all__ = ["DEEPER", "LEVELS", "as_text", "closed", "opened", "withheld"]

LEVELS = 3
"""In how many strings inside of each other JSON is looked for; what is JSON below that is withheld."""

DEEPER = "[withheld: the policy redacts fields of this tool's answers, and this is nested deeper than it looks]"
_BEGINS = ("{", "[", '"')
Unread = Callable[[str], Json]
"""What stands for a string that begins like JSON and is none."""


Deeper = Callable[[Json], Json]
"""What stands for a value that is nested too deeply to be looked at."""


def withheld(_: Json) -> Json:
    """`DEEPER`."""
    return DEEPER


class _OpenedObject(dict[str, Json]):
    """An object that stood in a string. `text` is that string, `was` what it held, `layers` how many strings were around it."""

    __slots__ = ("layers", "text", "was")
    layers: int
    text: str
    was: Json


class _OpenedList(list[Json]):
    """The same of an array."""

    __slots__ = ("layers", "text", "was")
    layers: int
    text: str
    was: Json


def opened(value: Json, unread: Unread, deeper: Deeper = withheld, depth: int = 0, layers: int = 0) -> Any:
    """A copy of a value whose strings that hold an object or array are that object or array. `closed` puts them back.

    What is nested more than 200 levels deep is what `deeper` makes of it.
    """
    match value:
        case str():
            return _opened_text(value, unread, deeper, depth, layers) if _begins(value) else value
        case Mapping() | list() | tuple() if depth > MAX_DEPTH:
            return deeper(value)
        case Mapping():
            return {name: opened(item, unread, deeper, depth + 1, layers) for name, item in value.items()}
        case list() | tuple():
            return [opened(item, unread, deeper, depth + 1, layers) for item in value]
        case _:
            return value


def _begins(text: str) -> bool:
    """Whether a text begins as an object, an array or a string does in JSON."""
    return text.lstrip("\ufeff \t\r\n").startswith(_BEGINS)


def _opened_text(text: str, unread: Unread, deeper: Deeper, depth: int, layers: int) -> Any:
    inner: Json = text
    around = 0
    while isinstance(inner, str) and _begins(inner):
        around += 1
        try:
            inner = decode_json(inner.strip().encode())
        except ValueError:  # no JSON, or not even text
            return unread(text)
    if not isinstance(inner, (dict, list)):
        return text
    if layers + around > LEVELS:
        return deeper(text)
    below = opened(inner, unread, deeper, depth + 1, layers + around)
    if not isinstance(below, (dict, list)):
        return below
    made: _OpenedObject | _OpenedList = _OpenedObject(below) if isinstance(below, dict) else _OpenedList(below)
    made.text, made.was, made.layers = text, inner, around
    return made


Rewritten = Callable[[Json, str, int], Json]
"""What stands for a text of which the JSON has changed: what it holds now, the text as it was, and how many strings are around it."""


def as_text(value: Json, _: str, layers: int) -> Json:
    """A value as the JSON text of so many strings around it."""
    for _layer in range(layers):
        value = encode_json(value).decode()
    return value


def closed(value: Any, rewritten: Rewritten = as_text) -> Json:
    """The value with what was opened as text again: as it was written, or as JSON where something in it was replaced."""
    match value:
        case dict():
            built: Json = {name: closed(item, rewritten) for name, item in value.items()}
        case list():
            built = [closed(item, rewritten) for item in value]
        case _:
            plain: Json = value
            return plain
    if not isinstance(value, (_OpenedObject, _OpenedList)):
        return built
    if built == value.was:
        text: str = value.text
        return text
    return rewritten(built, value.text, value.layers)
