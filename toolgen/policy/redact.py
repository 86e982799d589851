"""Paths of a policy: fields that are replaced, and arguments that are recorded in plain text or only as keyed digests.

JSON within strings is parsed, so that paths match in it, and restored exactly if no part of it changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolgen.core.json_codec import MAX_DEPTH, decode_json, encode_json
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.policy.hidden_names import last_names

if TYPE_CHECKING:
    from toolgen.core.json_path import JsonPath

__all__ = [
    "DEEPER",
    "LEVELS",
    "Place",
    "Redaction",
    "UnredactedArguments",
    "above",
    "all_but",
    "as_text",
    "closed",
    "column_of",
    "compile_path",
    "conceal_texts",
    "opened",
    "places_of",
    "replace_at",
    "replace_named",
    "replace_places",
    "replace_within",
    "withheld",
]

_ANYWHERE = re.compile(r"\$\.\.([A-Za-z_][A-Za-z0-9_-]*)\Z")
_STEP = re.compile(r"\.\.?(?:[A-Za-z_][A-Za-z0-9_-]*|\*)|\[(?:'[^'\\]*'|\*|-?\d+)\]")
_LAST_NAME = re.compile(r"(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^'\\]+)'\])\Z")
_Replace = Callable[[Json], Json]
Place = tuple[Any, ...]
"""Path of names and indexes from the root of a value."""


class Redaction(Struct, frozen=True, kw_only=True):
    """Fields (JSONPath, RFC 9535) of the answers of some tools, and their replacement."""

    tools: tuple[str, ...]
    fields: tuple[str, ...]
    replacement: str

    def covers(self, tool: Tool) -> bool:
        """Return True if the redaction applies to a tool."""
        return any(fnmatchcase(tool.name, pattern) for pattern in self.tools)


@lru_cache(maxsize=1024)
def compile_path(path: str) -> JsonPath:
    """Compile a JSONPath; raises `ValueError` for an invalid one."""
    if not path.startswith("$"):
        raise ValueError("is not a JSONPath: it has to start with $")
    from toolgen.core.json_path import JsonPath, JsonPathError  # noqa: PLC0415 - takes long to import, and many a policy has no path

    try:
        return JsonPath(path, "extended")
    except JsonPathError as error:
        raise ValueError(str(error)) from error


def column_of(path: str) -> str | None:
    """Return the name at the end of a path: for the tools of a database, its column."""
    found = _LAST_NAME.search(path)
    return (found[1] or found[2]) if found else None


def replace_at(value: Json, paths: Iterable[str], replacement: _Replace) -> Json:
    """Return a copy of a value with `replacement` applied wherever one of the paths matches.

    Parts nested more than 200 levels deep are replaced as a whole, because no path is followed that far.
    """
    named, others = _told_apart(paths)
    places = _found(value, others)
    replaced: Json = replace_places(_copied(value, named, replacement, 0), places, replacement)
    return replaced


def replace_within(value: Any, paths: Iterable[str], replacement: _Replace) -> Any:
    """Apply `replacement` in place to a value of dicts and lists that the caller owns. The containers are not copied."""
    named, others = _told_apart(paths)
    places = _found(value, others)
    if named:
        replace_named(value, dict.fromkeys(named, replacement))
    return replace_places(value, places, replacement)


def places_of(value: Any, paths: Iterable[str]) -> frozenset[Place]:
    """Return every place that one of the paths matches in a value, also below another match; the whole value if matching takes too
    long."""
    named, others = _told_apart(paths)
    if not others:
        return frozenset(_under(value, named) if named else ())
    from toolgen.core.json_path import JsonPathError  # noqa: PLC0415 - as above

    try:
        found = frozenset(_found(value, others))
    except JsonPathError:
        return frozenset({()})
    return found.union(_under(value, named) if named else ())


def replace_places(own: Any, places: Iterable[Place], replacement: _Replace) -> Any:
    """Replace these places in the caller's own copy of a value, the deepest first."""
    for parts in sorted(places, key=len, reverse=True):
        if not parts:
            return replacement(own)
        _set(own, parts, replacement)
    return own


def _found(value: Any, paths: Iterable[str]) -> list[Place]:
    """Return the matches in a value before anything is replaced: a path may test a field that another path hides."""
    if not isinstance(value, (Mapping, list, tuple)):
        return [()] if "$" in paths else []
    return [place for path in paths for place, _ in compile_path(path).select(value)]


def _under(value: Any, names: frozenset[str]) -> Iterator[Place]:
    todo: list[tuple[Place, Any]] = [((), value)]
    while todo:
        place, item = todo.pop()
        if isinstance(item, Mapping):
            below: Iterable[tuple[Any, Any]] = item.items()
        else:
            below = enumerate(item) if isinstance(item, (list, tuple)) else ()
        for part, one in below:
            if part in names:
                yield (*place, part)
            todo.append(((*place, part), one))


def replace_named(value: Any, named: Mapping[str, _Replace]) -> None:
    """Replace the values of a member name everywhere in a value."""
    todo = [value]
    while todo:
        match item := todo.pop():
            case dict():
                for name, below in item.items():
                    if (replacement := named.get(name)) is not None:
                        item[name] = replacement(below)
                    else:
                        todo.append(below)
            case list():
                todo += item


def _told_apart(paths: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    """Return the names that match everywhere, and the other paths."""
    named, others = set(), []
    for path in paths:
        found = _ANYWHERE.match(path)
        if found:
            named.add(found[1])
        else:
            others.append(path)
    return frozenset(named), others


@lru_cache(maxsize=1024)
def above(path: str) -> tuple[str, ...]:
    """Return the paths of the parents of a path, for paths of names, indexes and wildcards."""
    steps = _STEP.findall(path)
    whole = "$" + "".join(steps) == path
    return tuple("$" + "".join(steps[:count]) for count in range(1, len(steps))) if whole else ()


def conceal_texts(arguments: JsonObject, tool: Tool, sensitive: Iterable[str], digest: _Replace) -> JsonObject:
    """Return arguments with sensitive names concealed in the GraphQL that an agent wrote: its values and its variables."""
    key = tool.binding.code_argument
    text = arguments.get(key)
    if not (tool.takes_documents or tool.selects_fields) or not isinstance(text, str):
        return arguments
    from toolgen.connectors.graphql.hidden_fields import conceal_document  # noqa: PLC0415 - where there is GraphQL

    ends = [last_names(path) for path in sensitive]
    names = None if None in ends else frozenset(name for end in ends for name in end or ())
    written, hidden = conceal_document(text, names, digest)
    concealed: dict[str, Json] = {**arguments, key: written}
    variables = arguments.get("variables")
    if tool.takes_documents and isinstance(variables, Mapping):
        # `$..name` matches variables directly; other paths describe a tool's own arguments.
        others = [path for path in sensitive if not _ANYWHERE.match(path)]
        paths = [f"$..{name}" for path in others for name in last_names(path) or ()]
        kept = {
            name: digest(one) if names is None or (name in hidden and name not in names) else one
            for name, one in variables.items()
        }
        concealed["variables"] = replace_at(kept, paths, digest)
    return concealed


def _copied(value: Json, named: frozenset[str], replacement: _Replace, depth: int) -> Any:
    """Return a copy of the containers, with the values of some member names replaced."""
    if isinstance(value, Mapping):
        if depth > MAX_DEPTH:
            return replacement(value)
        return {
            name: replacement(item) if name in named else _copied(item, named, replacement, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        if depth > MAX_DEPTH:
            return replacement(value)
        return [_copied(item, named, replacement, depth + 1) for item in value]
    return value


def _set(copied: Any, parts: tuple[Any, ...], replacement: _Replace) -> None:
    """Replace one place of a copy; a place whose container was replaced before no longer exists."""
    for part in parts[:-1]:
        try:
            copied = copied[part]
        except (KeyError, IndexError, TypeError):
            return
    last = parts[-1]
    in_object = isinstance(copied, dict) and last in copied
    in_array = isinstance(copied, list) and isinstance(last, int) and -len(copied) <= last < len(copied)
    if in_object or in_array:
        copied[last] = replacement(copied[last])


_Place = tuple[str | int, ...]
_ReplacePlain = Callable[[Json], Json]


class UnredactedArguments(Struct, frozen=True, kw_only=True):
    """Arguments (JSONPath, RFC 9535) of some tools, by the patterns of their names, that are recorded as they are."""

    tools: tuple[str, ...]
    fields: tuple[str, ...]

    def covers(self, name: str) -> bool:
        """Return True if the entry applies to the tool of this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.tools)


def all_but(arguments: JsonObject, concealed: JsonObject, fields: Collection[str], digest: _ReplacePlain) -> JsonObject:
    """Return arguments with every value replaced by its digest, except at the `fields` and below them.

    `concealed` is the same arguments with sensitive values replaced; plain values are taken from it, so that sensitive wins over plain.
    """
    from toolgen.core.json_path import JsonPathError  # noqa: PLC0415 - as above

    try:
        kept = frozenset(_found(arguments, fields))
    except JsonPathError:  # in this case nothing is known to be plain
        kept = frozenset()
    if () in kept:
        return concealed
    return {name: _walked(item, concealed.get(name), (name,), kept, digest) for name, item in arguments.items()}


def _walked(value: Json, concealed: Json, place: _Place, kept: frozenset[_Place], digest: _ReplacePlain) -> Json:
    if place in kept:
        return concealed
    if isinstance(value, Mapping) and isinstance(concealed, Mapping):
        return {name: _walked(item, concealed.get(name), (*place, name), kept, digest) for name, item in value.items()}
    if isinstance(value, list | tuple) and isinstance(concealed, list | tuple) and len(value) == len(concealed):
        return [_walked(item, concealed[index], (*place, index), kept, digest) for index, item in enumerate(value)]
    return digest(value)


LEVELS = 3
"""Maximum nesting of JSON within strings that is searched; deeper JSON is withheld."""

DEEPER = (
    "[withheld: the policy redacts fields of this tool's answers, and this part is nested too deeply to be checked]"
)
_BEGINS = ("{", "[", '"')
Unread = Callable[[str], Json]
"""Replacement for a string that begins like JSON but is not valid JSON."""


Deeper = Callable[[Json], Json]
"""Replacement for a value that is nested too deeply to be searched."""


def withheld(_: Json) -> Json:
    """Return `DEEPER`."""
    return DEEPER


class _OpenedObject(dict[str, Json]):
    """Object that was in a string. `text` is that string, `was` its parsed value, `layers` the number of strings around it."""

    __slots__ = ("layers", "text", "was")
    layers: int
    text: str
    was: Json


class _OpenedList(list[Json]):
    """Array that was in a string, with the attributes of `_OpenedObject`."""

    __slots__ = ("layers", "text", "was")
    layers: int
    text: str
    was: Json


def opened(value: Json, unread: Unread, deeper: Deeper = withheld, depth: int = 0, layers: int = 0) -> Any:
    """Return a copy of a value in which strings that contain an object or array are replaced by it. `closed` restores them.

    Parts nested more than `MAX_DEPTH` levels deep are replaced by the result of `deeper`.
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
    """Return True if a text begins as an object, an array or a string does in JSON."""
    return text.lstrip("\ufeff \t\r\n").startswith(_BEGINS)


def _opened_text(text: str, unread: Unread, deeper: Deeper, depth: int, layers: int) -> Any:
    inner: Json = text
    around = 0
    while isinstance(inner, str) and _begins(inner):
        around += 1
        try:
            inner = decode_json(inner.strip().encode())
        except ValueError:  # invalid JSON, or invalid text
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
"""Function that returns the text for changed JSON in a string: its arguments are the new value, the original text, and the number of
strings around it."""


def as_text(value: Json, _: str, layers: int) -> Json:
    """Return a value as JSON text within so many strings."""
    for _layer in range(layers):
        value = encode_json(value).decode()
    return value


def closed(value: Any, rewritten: Rewritten = as_text) -> Json:
    """Return the value with opened strings as text again: the original text, or new JSON if a part of it was replaced."""
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
