"""What the record holds of arguments as it was sent, where a policy says `plain:` and everything else is sensitive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from toolgen.model.schema import Json, JsonObject
from toolgen.policy.redact import compile_path

__all__ = ["Plain", "all_but"]

_Place = tuple[str | int, ...]
_Replace = Callable[[Json], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Arguments (JSONPath, RFC 9535) of some tools, by the patterns of their names, that are recorded as they are."""

    tools: tuple[str, ...]
    fields: tuple[str, ...]

    def covers(self, name: str) -> bool:
        """Whether it is about the tool of this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.tools)


def all_but(arguments: JsonObject, concealed: JsonObject, fields: Collection[str], digest: _Replace) -> JsonObject:
    """Arguments with the digest of every value in its place, but for what stands at one of the `fields` or below.

    `concealed` is the same arguments with what is sensitive replaced, and what is plain is taken from there: so sensitive beats plain.
    """
    document: Any = arguments
    kept = frozenset(tuple(match.parts) for path in fields for match in compile_path(path).finditer(document))
    if () in kept:
        return concealed
    return {name: _walked(item, concealed.get(name), (name,), kept, digest) for name, item in arguments.items()}


def _walked(value: Json, concealed: Json, place: _Place, kept: frozenset[_Place], digest: _Replace) -> Json:
    if place in kept:
        return concealed
    if isinstance(value, Mapping) and isinstance(concealed, Mapping):
        return {name: _walked(item, concealed.get(name), (*place, name), kept, digest) for name, item in value.items()}
    if isinstance(value, list | tuple) and isinstance(concealed, list | tuple) and len(value) == len(concealed):
        return [_walked(item, concealed[index], (*place, index), kept, digest) for index, item in enumerate(value)]
    return digest(value)
