"""Output schema of a tool whose answers the policy redacts: a text is valid in place of a redacted field.

The listed schema of such a tool accepts its redacted answers, so they keep their structured content. A redaction that the schema cannot
express (a place that a filter chooses, a list with unique items) still gives an answer as text, see `generator/emit/listed_output.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from toolgen.model.schema import Schema
from toolgen.model.tool import Tool
from toolgen.policy.hidden_names import last_names
from toolgen.policy.redact import Redaction

__all__ = ["with_redactions"]

_TEXT: Schema = {"type": "string"}
_NAMED = frozenset({"properties", "$defs", "definitions"})
_OTHERS = frozenset({"additionalProperties", "unevaluatedProperties"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ITEMS = frozenset({"items", "unevaluatedItems", "contains"})
_SAME = frozenset({"then", "else"})
_BELOW = re.compile(r"(?:\[[-0-9:*, ]*\]|\.\*)\Z")  # a path with such an end matches members or items


def with_redactions(tool: Tool, redactions: Iterable[Redaction]) -> Tool:
    """Return the tool with an output schema that its redacted answers fit; the tool itself if the policy redacts nothing of it."""
    if tool.output_schema is None:
        return tool
    paths = [path for item in redactions if item.covers(tool) for path in item.fields]
    if not paths:
        return tool
    names: set[str] | None = set()
    for path in paths:
        found = None if _BELOW.search(path) else last_names(path)
        names = None if found is None or names is None else names | found
    return msgspec.structs.replace(tool, output_schema=_Widening(names).of(tool.output_schema))


class _Widening:
    """Widening of schemas: a text is valid for members with some `names`, or for every member and item if that is None."""

    def __init__(self, names: set[str] | None) -> None:
        self._names = names

    def of(self, schema: Schema) -> dict[str, Any]:
        """Return the widened schema. A text is valid in place of its parts, but not of the whole value."""
        built: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, Mapping):
                built[key] = {
                    name: self._redacted(one) if key == "properties" and self._meant(name) else self._part(one)
                    for name, one in value.items()
                }
            elif key == "patternProperties" and isinstance(value, Mapping):
                built[key] = {name: self._redacted(one) for name, one in value.items()}
            elif key in _OTHERS:
                built[key] = self._redacted(value)
            elif key in _LISTS and isinstance(value, list | tuple):
                part = self._redacted if key == "prefixItems" and self._names is None else self._part
                built[key] = [part(one) for one in value]
            elif key in _ITEMS:
                built[key] = self._redacted(value) if self._names is None else self._part(value)
            elif key in _SAME:
                built[key] = self._part(value)
            else:
                built[key] = value
        if "oneOf" in built and "anyOf" not in built and built["oneOf"] != list(schema["oneOf"]):
            # A value that fits one of several schemas may fit two of them with a text in place of a member.
            built["anyOf"] = built.pop("oneOf")
        return built

    def _meant(self, name: str) -> bool:
        return self._names is None or name in self._names

    def _part(self, part: Any) -> Any:
        return self.of(part) if isinstance(part, Mapping) else part

    def _redacted(self, part: Any) -> Any:
        made = self._part(part)
        return {"anyOf": [made, _TEXT]} if isinstance(made, dict) and made and made != _TEXT else made
