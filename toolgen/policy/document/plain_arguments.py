"""Section `plain:` of a policy: arguments that the audit log stores in plain text, while all others are sensitive."""

from __future__ import annotations

import re

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.manifest import Manifest
from toolgen.policy.document.schema import (
    FileShape,
    PlainShape,
)
from toolgen.policy.document.selectors import matched
from toolgen.policy.redact import UnredactedArguments, compile_path

__all__ = ["read_plain"]

_FIRST = re.compile(r"\$\.([A-Za-z_][A-Za-z0-9_-]*)")


def read_plain(document: YamlDocument, file: FileShape, manifest: Manifest) -> tuple[UnredactedArguments, ...] | None:
    """Read the section `plain` of a file; None if it is missing. Raises `PolicyError` for a tool or an argument that does not exist."""
    if file.plain is None:
        return None
    return tuple(_read(document, index, manifest) for index in range(len(file.plain)))


def _read(document: YamlDocument, index: int, manifest: Manifest) -> UnredactedArguments:
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
            raise PolicyError(f"'{field}' {error}", where=where) from error
        first = _FIRST.match(field)
        if first is not None and first[1] not in known and closed and tools:
            raise PolicyError(
                f"none of these tools has an argument '{first[1]}'{nearest(first[1], known)}", where=where
            )
    return UnredactedArguments(tools=tuple(given.tools), fields=tuple(given.fields))
