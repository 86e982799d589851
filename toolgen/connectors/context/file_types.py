"""Media types of files by their names."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath

__all__ = ["type_by_name"]


def type_by_name(path: str) -> str:
    """Return the media type by the name of a file; "" if the name does not tell."""
    name = PurePosixPath(path).name
    if name.endswith((".md", ".markdown")):
        return "text/markdown"
    return mimetypes.guess_type(name)[0] or ""
