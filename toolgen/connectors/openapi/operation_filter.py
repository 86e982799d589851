"""Filters `include:` and `exclude:` of a source. They use the operation as written, so an excluded operation need not be readable."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from toolgen.connectors.openapi.routes import Route
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.tool import Effect

__all__ = ["READING", "OperationFilter", "effect_of"]

READING = frozenset({"GET", "HEAD", "QUERY", "OPTIONS", "TRACE"})


_FILTERS = ("tags", "operations", "methods", "effects")


_SEVERITY = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)


def effect_of(method: str, hint: object) -> Effect:
    """Return the effect of a method, or the stronger effect of a description's hint."""
    effect = Effect.READ if method in READING else Effect.WRITE
    if method.upper() == "DELETE":  # methods are case-sensitive (RFC 9110, section 9.1), and not every server knows
        effect = Effect.DESTRUCTIVE
    if isinstance(hint, str) and hint in set(Effect):
        return max(effect, Effect(hint), key=_SEVERITY.index)
    return effect


class OperationFilter:
    """Filter of operations. All kinds in `include` must match; one match in `exclude` omits the operation.

    Raises `ConfigError` for an unknown or empty filter.
    """

    def __init__(self, config: SourceConfig) -> None:
        self._seen: dict[str, dict[str, None]] = {kind: {} for kind in _FILTERS}
        self._unused: dict[tuple[str, str, str], None] = {}
        self._sides = {"include": config.include, "exclude": config.exclude}
        for side, filters in self._sides.items():
            for kind, values in filters.items():
                self._check(f"sources.{config.name}", side, kind, values)
                self._unused |= {(side, kind, value): None for value in values}

    def _check(self, where: str, side: str, kind: str, values: Any) -> None:
        if kind not in _FILTERS:
            raise ConfigError(f"{side} has no filter {kind!r}{nearest(kind, _FILTERS)}", where=where)
        if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
            raise ConfigError(f"{side}.{kind} is not a list of texts", where=where)
        if not values:
            raise ConfigError(f"{side}.{kind} is empty, so it matches nothing; leave it out", where=where)
        if kind == "effects" and (wrong := [value for value in values if value not in set(Effect)]):
            raise ConfigError(f"{side}.effects: {wrong[0]!r} is not read, write or destructive", where=where)

    def wants(self, route: Route) -> bool:
        """Return True if an operation passes the filter and becomes a tool."""
        attributes = _attributes(route)
        for kind, values in attributes.items():
            self._seen[kind] |= dict.fromkeys(values)
        included = [self._matches("include", kind, attributes[kind]) for kind in self._sides["include"]]
        excluded = [self._matches("exclude", kind, attributes[kind]) for kind in self._sides["exclude"]]
        return all(included) and not any(excluded)

    def _matches(self, side: str, kind: str, attributes: tuple[str, ...]) -> bool:
        found = [
            value for value in self._sides[side][kind] if any(_value_matches(kind, value, one) for one in attributes)
        ]
        for value in found:
            self._unused.pop((side, kind, value), None)
        return bool(found)

    def unused(self) -> Iterator[str]:
        """Yield a sentence for each value that matched no operation, which is usually misspelt."""
        for side, kind, value in self._unused:
            if kind != "effects":
                hint = nearest(value, self._seen[kind])
                yield f"{side}.{kind}: no operation of the description matches {value[:80]!r}{hint}"


def _value_matches(kind: str, value: str, attribute: str) -> bool:
    if kind == "operations":
        return fnmatchcase(attribute, value)
    return value.upper() == attribute.upper() if kind == "methods" else value == attribute


def _attributes(route: Route) -> dict[str, tuple[str, ...]]:
    tags, identifier = route.raw.get("tags"), route.raw.get("operationId")
    return {
        "tags": tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        "operations": (identifier if isinstance(identifier, str) else "",),
        "methods": (route.method,),
        "effects": (effect_of(route.method, route.raw.get("x-toolgen-effect")),),
    }
