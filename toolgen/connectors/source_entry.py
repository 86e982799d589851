"""Entry of `sources:` in toolgen.yaml while it is read by its connector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference

__all__ = ["ConfiguredSource", "SourceEntry"]


class SourceEntry(Struct, frozen=True, kw_only=True):
    """Place of an entry, and what all kinds of sources have.

    `root` is the folder of the project, `auth` has the credentials as written, and `resource` is the file of a tool resource. `anonymous`
    is True for `auth: none`. Notices for a person are added to `warnings`.
    """

    document: YamlDocument
    name: str
    root: Path
    auth: Mapping[str, Any]
    warnings: list[str]
    anonymous: bool = False
    resource: str = ""

    @property
    def path(self) -> tuple[str, str]:
        """Path of the entry in the document."""
        return "sources", self.name

    def where(self, *keys: str | int) -> str:
        """Return file and line of the entry, or of a key in it."""
        return self.document.where(*self.path, *keys)


class ConfiguredSource(Struct, frozen=True, kw_only=True):
    """Settings that a connector makes of an entry.

    `location` is as written, and `auth` are the credentials without those that the location has. `config` are fields of `SourceConfig`.
    `environment` are variables for a command.
    """

    location: str
    auth: Mapping[str, Any]
    config: Mapping[str, Any] = {}
    environment: Mapping[str, SecretReference] = {}
