"""Files of a context source: prompts with front matter, and a folder of resources."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from toolgen.connectors.source import ContextFiles
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument

__all__ = ["ContextKeys", "read_context"]


class ContextKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys below `context:`."""

    prompts: str = ""
    resources: str = ""


def read_context(keys: ContextKeys, document: YamlDocument, source: str) -> ContextFiles:
    """The files of a source. Raises `ConfigError`, with the line, for a place outside of the project's folder, and for none."""
    path = ("sources", source, "context")
    if not keys.prompts and not keys.resources:
        raise ConfigError("context: takes prompts, resources or both", where=document.where(*path))
    for key in ("prompts", "resources"):
        place = PurePosixPath(getattr(keys, key))
        if place.is_absolute() or ".." in place.parts or "://" in str(getattr(keys, key)):
            raise ConfigError(f"{key}: names a place below the project's folder", where=document.where(*path, key))
    return ContextFiles(prompts=keys.prompts, resources=keys.resources)
