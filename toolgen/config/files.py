"""Section `gateway.files` of toolgen.yaml: limits and retention of files in answers of tools and of uploads of callers."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.core.units import parse_duration, parse_size
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.files import DEFAULT_SHOWN, FileBudget

__all__ = ["FileSettings", "GivenFiles", "read_files"]

_GIB = 1024 * 1024 * 1024
_MAX_EXPIRES_S = 7 * 24 * 3_600.0


class GivenFiles(msgspec.Struct, forbid_unknown_fields=True):
    """`gateway.files` as it is written."""

    largest: str = "100MiB"
    each: str = "512MiB"
    total: str = "2GiB"
    expires: str = "1h"
    shown: str = "1MiB"
    roots: list[str] = []


class FileSettings(Struct, frozen=True, kw_only=True):
    """Settings of stored files, and the maximum bytes of a picture or a recording for a model (`shown`). `roots` are the folders of
    which callers on this machine may name files.
    """

    budget: FileBudget = FileBudget()
    shown: int = DEFAULT_SHOWN
    roots: tuple[Path, ...] = ()


def read_files(given: GivenFiles, document: YamlDocument, root: Path) -> FileSettings:
    """Return the settings of files; `root` is the project's folder. Raises `ConfigError`."""

    def size(key: str, text: str, least: int, most: int, spelled: str) -> int:
        found = parse_size(text)
        if found is None or not least <= found <= most:
            raise ConfigError(
                f"{key}: takes a size like {getattr(GivenFiles(), key)}, {spelled}",
                where=document.where("gateway", "files", key),
            )
        return found

    largest = size("largest", given.largest, 65_536, 4 * _GIB, "from 64KiB to 4GiB")
    each = size("each", given.each, largest, 1024 * _GIB, "at least as much as largest, which one file may have")
    total = size("total", given.total, each, 1024 * _GIB, "at least as much as each, which one principal may have")
    shown = size("shown", given.shown, 0, 8 * 1024 * 1024, "from 0KiB to 8MiB")
    expires_s = parse_duration(given.expires)
    if expires_s is None or not 10 <= expires_s <= _MAX_EXPIRES_S:
        raise ConfigError(
            "expires: takes a time like 1h, from 10s to 168h", where=document.where("gateway", "files", "expires")
        )
    budget = FileBudget(largest=largest, each=each, total=total, expires_s=expires_s)
    return FileSettings(budget=budget, shown=shown, roots=tuple(root / one for one in given.roots))
