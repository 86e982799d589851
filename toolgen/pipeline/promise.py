"""Whether an answer is what its tool's output schema says, so that the record can say where it was not."""

from __future__ import annotations

import jsonschema_rs

from toolgen.model.result import Success
from toolgen.model.tool import HttpBinding, Tool
from toolgen.policy.rules import Note

__all__ = ["BROKEN", "Promises"]

BROKEN = Note(rule="output_schema", verdict="", status="broken")
_LONGEST = 262_144


class Promises:
    """Output schemas, each compiled at the first answer. Longer answers than are looked at in a moment are not looked at."""

    def __init__(self) -> None:
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}

    def kept(self, tool: Tool, result: Success) -> bool:
        """False for an answer that breaks its promise; True also where there is none to break."""
        if tool.output_schema is None or not isinstance(tool.binding, HttpBinding) or result.truncated:
            return True
        size = result.facts.get("bytes")
        if isinstance(size, int) and size > _LONGEST:
            return True
        if tool.digest not in self._validators:
            self._validators[tool.digest] = _compiled(tool)
        validator = self._validators[tool.digest]
        return validator is None or validator.is_valid(result.data)


def _compiled(tool: Tool) -> jsonschema_rs.Validator | None:
    """None for a schema that does not compile: then nobody can hold an answer against it."""
    try:
        return jsonschema_rs.validator_for(dict(tool.output_schema or {}), offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None
