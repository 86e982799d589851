"""Schemas that are written alike in two documents, with all that they refer to: nothing in them has to be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from toolgen.generator.emit.schema_equality import text
from toolgen.model.schema import Schema

__all__ = ["UnchangedSchemas", "written"]

_REFERENCE: Final = re.compile(rb'"\$(?:ref|dynamicRef)":"((?:[^"\\]|\\.)*)"')
_DEFINITION: Final = re.compile(rb"#/\$defs/([^/~%\\]+)")


class UnchangedSchemas:
    """Question whether two schemas below two roots are the same text. Only references into `$defs` are followed; with any other one the
    answer is no."""

    def __init__(self, old_root: Schema, new_root: Schema) -> None:
        before, after = _definitions(old_root), _definitions(new_root)
        texts = {name: written(schema) for name, schema in before.items()}
        self._alike = {name for name in before.keys() & after.keys() if texts[name] == written(after[name])}
        references = {name: _names(texts[name]) for name in self._alike}
        while changed := {name for name in self._alike if not self._known(references[name])}:
            self._alike -= changed

    def holds(self, old: Any, new: Any) -> bool:
        """Return True if both are written alike, and all definitions that they use too."""
        before = written(old)
        return before == written(new) and self._known(_names(before))

    def _known(self, references: frozenset[str] | None) -> bool:
        return references is not None and references <= self._alike


def _definitions(root: Schema) -> Mapping[str, Any]:
    found = root.get("$defs")
    return found if isinstance(found, Mapping) else {}


def written(schema: Any) -> bytes:
    """Return a schema as JSON, in the order of its keys."""
    try:
        return msgspec.json.encode(schema, enc_hook=dict)
    except (OverflowError, TypeError, ValueError, RecursionError):  # a number of any size
        return text(schema).encode("utf-8", "surrogatepass")


def _names(schema: bytes) -> frozenset[str] | None:
    """Return the names of the definitions that a schema uses; None if it refers to anything else."""
    found = set()
    for reference in _REFERENCE.findall(schema):
        name = _DEFINITION.fullmatch(reference)
        if name is None:
            return None
        found.add(name[1].decode("utf-8", "surrogateescape"))
    return frozenset(found)
