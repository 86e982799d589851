"""Source with the tools of a resource (`resource: FILE`): the file determines its kind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from toolgen.connectors.tool_resource import ResourceKind, read_resource
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.core.yaml_file import YamlDocument

__all__ = ["of_resource"]

Given = TypeVar("Given", bound=msgspec.Struct)
_KINDS: dict[ResourceKind, str] = {"entry": "python", "http": "openapi", "sql": "sql", "transform": "python"}
_NOT = ("overlay", "refs", "constants", "formats", "include", "exclude", "prefix", "writes", "operations")


def of_resource(
    source: Given, written: str, kinds: Iterable[str], document: YamlDocument, name: str, root: Path
) -> tuple[Given, str]:
    """Return the source with the kind of its resource, and the resource's path. Raises `ConfigError`, with file and line."""
    where = document.where("sources", name, "resource")
    for key in (*kinds, *_NOT):
        if getattr(source, key):
            raise ConfigError(f"{key}: is not allowed with resource", where=document.where("sources", name, key))
    if "__" in name or name.endswith("_"):
        raise ConfigError(
            f"a resource cannot be called {name}: the text before the first __ of a tool's name is its resource",
            where=where,
        )
    path = root / written
    try:
        found = read_resource(path, name)
    except DescriptionError as error:
        raise ConfigError(error.message, where=error.where or where, suggestion=error.suggestion) from error
    base = written if found.kind == "http" else found.base
    return msgspec.structs.replace(source, **{_KINDS[found.kind]: base}), str(path)
