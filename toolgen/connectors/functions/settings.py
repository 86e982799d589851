"""Section `python:` of a source: a module of functions, or an object of another framework."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import short

__all__ = ["Adopted", "PythonKeys", "SourcePythonKeys", "read_python"]

Adopted: TypeAlias = Literal["", "fastmcp", "langchain"]
"""Origin of the tools of a module: toolgen's own, or another framework, adopted unchanged."""
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)


class PythonKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys below `python:`, if it is more than a module."""

    fastmcp: str = ""
    langchain: str = ""


class SourcePythonKeys(msgspec.Struct):
    """Keys of a source."""

    python: str | PythonKeys | None = None
    prefix: str = ""


def read_python(given: str | PythonKeys, entry: SourceEntry) -> tuple[str, Adopted]:
    """Return the module, or `module:name` of a framework's object, and the framework. Raises `ConfigError`, with the line."""
    where = entry.where("python")
    if isinstance(given, str):
        if not _MODULE.match(given):
            raise ConfigError(f"python: '{short(given)}' is not a module like my_package.tools", where=where)
        return given, ""
    if bool(given.fastmcp) == bool(given.langchain):
        raise ConfigError(
            "python: takes a module, or one of fastmcp and langchain",
            where=where,
            suggestion="write python: my_package.tools, or python: {fastmcp: my_package.server:mcp}",
        )
    adopted: Adopted = "fastmcp" if given.fastmcp else "langchain"
    place = given.fastmcp or given.langchain
    module, _, name = place.partition(":")
    if not _MODULE.match(module) or not _MODULE.match(name) or "." in name:
        raise ConfigError(
            f"{adopted}: '{short(place)}' is not a module and name like my_package.server:mcp",
            where=entry.where("python", adopted),
        )
    return place, adopted
