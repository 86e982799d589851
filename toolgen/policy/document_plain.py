"""The `plain:` section of a policy: which arguments the record holds as they were sent, when everything else is sensitive."""

from __future__ import annotations

import re

from toolgen.errors import PolicyError
from toolgen.model.manifest import Manifest
from toolgen.model.names import nearest
from toolgen.policy.document_rules import matched
from toolgen.policy.plain import Plain
from toolgen.policy.redact import compile_path
from toolgen.policy.shapes import FileShape, PlainShape
from toolgen.strict_yaml import Document, decode

__all__ = ["read_plain"]

_FIRST = re.compile(r"\$\.([A-Za-z_][A-Za-z0-9_-]*)")


def read_plain(document: Document, file: FileShape, manifest: Manifest) -> tuple[Plain, ...] | None:
    """What a file says; None where it says nothing. Raises `PolicyError` for a tool or an argument that does not exist."""
    if file.plain is None:
        return None
    return tuple(_read(document, index, manifest) for index in range(len(file.plain)))


def _read(document: Document, index: int, manifest: Manifest) -> Plain:
    path = ("plain", index)
    given = decode(document, path, PlainShape, PolicyError)
    tools = matched(given.tools, manifest, document, (*path, "tools"))
    known = {name for tool in tools for name in tool.input_schema.get("properties", {})}
    closed = not any(tool.input_schema.get("additionalProperties") for tool in tools)
    for number, field in enumerate(given.fields):
        where = document.where(*path, "fields", number)
        try:
            compile_path(field)
        except ValueError as error:
            raise PolicyError(f"'{field}' is not a JSONPath: {error}", where=where) from error
        first = _FIRST.match(field)
        if first is not None and first[1] not in known and closed:
            raise PolicyError(
                f"none of these tools has an argument '{first[1]}'{nearest(first[1], known)}", where=where
            )
    return Plain(tools=tuple(given.tools), fields=tuple(given.fields))
