"""Files below a folder, without links, hidden files and what is in hidden folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from toolgen.core.errors import DescriptionError

__all__ = ["MAX_FILES", "MAX_FILE_SIZE", "files_below", "links_below", "whole_file"]

MAX_FILES = 1000
MAX_FILE_SIZE = 8 * 1024 * 1024
_STEP = 1_048_576


def files_below(folder: Path, key: str) -> list[str]:
    """Return the paths of the files below a folder, relative to it. Raises `DescriptionError`, with the key that names the folder."""
    if not folder.is_dir():
        raise DescriptionError(f"{key}: there is no folder {folder.name}", where=folder.name)
    return sorted(path for path, is_link in _walked(folder, "") if not is_link)


def links_below(folder: Path) -> list[str]:
    """Return the paths of the links below a folder, which are not followed."""
    return sorted(path for path, is_link in _walked(folder, "") if is_link)


def _walked(folder: Path, prefix: str) -> Iterator[tuple[str, bool]]:
    for entry in os.scandir(folder):
        if entry.name.startswith("."):
            continue
        path = f"{prefix}{entry.name}"
        if entry.is_symlink():
            yield path, True
        elif entry.is_dir(follow_symlinks=False):
            yield from _walked(folder / entry.name, f"{path}/")
        elif entry.is_file(follow_symlinks=False):
            yield path, False


def whole_file(descriptor: int) -> bytes | None:
    """Return the bytes of an open file; None if there are more than `MAX_FILE_SIZE`."""
    parts, left = [], MAX_FILE_SIZE + 1
    while left > 0 and (part := os.read(descriptor, min(left, _STEP))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None
