"""Units of numbers that a description states in one place and omits in another: `amount` is in cents in each answer and request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from toolgen.connectors.naming import words

__all__ = ["UnitsOfNames"]

_UNITS: Final[Mapping[str, re.Pattern[str]]] = {
    "In cents, or the smallest unit of the currency.": re.compile(
        r"\bin _?cents?\b|\bsmallest (?:currency )?unit\b|\bminor (?:currency )?units?\b", re.IGNORECASE
    ),
    "Unix time in milliseconds.": re.compile(r"\b(?:unix|epoch|timestamp)\b.*\bmilliseconds\b", re.IGNORECASE),
    "Unix time in seconds.": re.compile(
        r"\bseconds since the (?:unix )?epoch\b|\bunix (?:time|timestamp|epoch)\b", re.IGNORECASE
    ),
    "In milliseconds.": re.compile(r"\bmilliseconds?\b", re.IGNORECASE),
    "In seconds.": re.compile(r"\bseconds\b", re.IGNORECASE),
    "In bytes.": re.compile(r"\bbytes\b", re.IGNORECASE),
}
_NAMED = re.compile(
    r"\b(?:milli|micro|nano)?seconds?\b|\b(?:minutes?|hours?|days?|cents?|units?|bytes?|unix|epoch|percent\w*|pixels?|met(?:er|re)s?|degrees?)\b|%"
    r"|\b[KMG]i?B\b",
    re.IGNORECASE,
)
_IN_NAMES: Final = frozenset(
    {
        *("ms", "millis", "milliseconds", "seconds", "secs", "minutes", "hours", "days", "cents", "bytes", "kb", "mb"),
        *("percent", "percentage", "unix"),
    }
)
_NUMBERS: Final = frozenset({"integer", "number"})
_LEAST: Final = 2  # descriptions that must agree
_MAX_LENGTH: Final = 600  # characters of a text that are searched


class UnitsOfNames:
    """Units by the names of numbers, for one description."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, int]] = {}

    def record(self, name: str, raw: Any) -> None:
        """Record the unit that the description of a property as written states."""
        if not isinstance(raw, (dict, Mapping)) or raw.get("type") not in ("integer", "number"):
            return
        text = raw.get("description")
        if raw.get("format") == "unix-time":
            self._count(name, "Unix time in seconds.")
        elif isinstance(text, str) and (unit := _unit(text[:_MAX_LENGTH])):
            self._count(name, unit)

    def _count(self, name: str, unit: str) -> None:
        counts = self._found.setdefault(name, {})
        counts[unit] = counts.get(unit, 0) + 1

    def with_units(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a tool's arguments with the missing units of numbers added, if all statements about a name agree."""
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not self._found:
            return schema
        changed = {
            name: {**one, "description": _with_sentence(one.get("description", ""), unit)}
            for name, one in properties.items()
            if isinstance(one, dict) and (unit := self._missing(name, one))
        }
        return {**schema, "properties": {**properties, **changed}} if changed else schema

    def _missing(self, name: str, schema: Mapping[str, Any]) -> str:
        counts = self._found.get(name, {})
        if len(counts) != 1 or sum(counts.values()) < _LEAST or not _IN_NAMES.isdisjoint(words(name)):
            return ""
        kinds = schema.get("type")
        if _NUMBERS.isdisjoint([kinds] if isinstance(kinds, str) else kinds or ()):
            return ""
        if schema.get("format", "int32") not in {"int32", "int64", "float", "double"}:
            return ""
        return "" if _NAMED.search(str(schema.get("description", ""))) else next(iter(counts))


def _unit(text: str) -> str:
    return next((unit for unit, pattern in _UNITS.items() if pattern.search(text)), "")


def _with_sentence(text: str, sentence: str) -> str:
    if not text:
        return sentence
    return f"{text} {sentence}" if text.endswith((".", "!", "?", "…", ":")) else f"{text}. {sentence}"
