"""Keys of a context source: prompts with front matter, a folder of resources, a folder of skills, and resources that tools read."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import msgspec

from toolgen.connectors.source import ContextFiles, ToolResource
from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError

__all__ = ["ContextKeys", "SourceContextKeys", "ToolResourceKeys", "read_files"]


class ToolResourceKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Resource that a tool reads: an entry of `resources:`."""

    template: str
    tool: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    arguments: dict[str, Any] = {}


class ContextKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys below `context:`."""

    prompts: str = ""
    resources: str | list[str | ToolResourceKeys] = ""
    skills: str = ""


class SourceContextKeys(msgspec.Struct):
    """Keys of a source."""

    context: ContextKeys | None = None


def read_files(keys: ContextKeys, entry: SourceEntry) -> ContextFiles:
    """The contents of a source. Raises `ConfigError`, with the line, for a place outside of the project's folder, and for none."""
    given = [keys.resources] if isinstance(keys.resources, str) else keys.resources
    folders = [one for one in given if isinstance(one, str) and one]
    if len(folders) > 1:
        raise ConfigError("resources: takes one folder", where=entry.where("context", "resources"))
    read_by_tools = tuple(
        ToolResource(
            uri=one.template,
            tool=one.tool,
            name=one.name,
            title=one.title,
            description=one.description,
            media_type=one.media_type,
            arguments=one.arguments,
            where=entry.where("context", "resources", index),
        )
        for index, one in enumerate(given)
        if not isinstance(one, str)
    )
    folder = next(iter(folders), "")
    if not (keys.prompts or folder or keys.skills or read_by_tools):
        raise ConfigError("context: takes prompts, resources, skills or several of them", where=entry.where("context"))
    for key, said in (("prompts", keys.prompts), ("resources", folder), ("skills", keys.skills)):
        place = PurePosixPath(said)
        if place.is_absolute() or ".." in place.parts or "://" in said:
            raise ConfigError(f"{key}: names a place below the project's folder", where=entry.where("context", key))
    return ContextFiles(prompts=keys.prompts, resources=folder, skills=keys.skills, read_by_tools=read_by_tools)
