"""Files of a context source: prompts with front matter, and a folder of resources."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from toolgen.connectors.source import ContextFiles
from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError

__all__ = ["ContextKeys", "SourceContextKeys", "read_files"]


class ContextKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys below `context:`."""

    prompts: str = ""
    resources: str = ""


class SourceContextKeys(msgspec.Struct):
    """Keys of a source."""

    context: ContextKeys | None = None


def read_files(keys: ContextKeys, entry: SourceEntry) -> ContextFiles:
    """The files of a source. Raises `ConfigError`, with the line, for a place outside of the project's folder, and for none."""
    if not keys.prompts and not keys.resources:
        raise ConfigError("context: takes prompts, resources or both", where=entry.where("context"))
    for key in ("prompts", "resources"):
        place = PurePosixPath(getattr(keys, key))
        if place.is_absolute() or ".." in place.parts or "://" in str(getattr(keys, key)):
            raise ConfigError(f"{key}: names a place below the project's folder", where=entry.where("context", key))
    return ContextFiles(prompts=keys.prompts, resources=keys.resources)
