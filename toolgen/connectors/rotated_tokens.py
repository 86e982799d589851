"""Refresh tokens that services gave out in place of configured ones, as people may know of them: of which source, and since when."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.core.files import read_file

__all__ = ["NOTE", "Rotated", "note_of", "rotated_tokens"]

NOTE = ".json"
"""Behind the name of the file that such a token is sealed in: the note of whose it is."""
_MAX_SIZE = 65_536


class Rotated(Struct, frozen=True, kw_only=True):
    """A refresh token that took the place of the configured one: of which source, from the token endpoint at which host, and since when, in
    seconds since the epoch."""

    source: str
    host: str
    at: float


def rotated_tokens(folder: Path) -> tuple[Rotated, ...]:
    """The refresh tokens that are kept in a folder, by source and host, the newest of each. Needs no secret, and reads none."""
    found: dict[tuple[str, str], Rotated] = {}
    try:
        notes = sorted(folder.glob(f"*{NOTE}"))
    except OSError:
        return ()
    for path in notes:
        try:
            note = json.loads(read_file(path, _MAX_SIZE))
            source, host = str(note["source"]), str(note["host"])
            at = path.with_suffix("").stat().st_mtime
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
        known = found.get((source, host))
        if known is None or known.at < at:
            found[source, host] = Rotated(source=source, host=host, at=at)
    return tuple(found[key] for key in sorted(found))


def note_of(source: str, endpoint: str) -> bytes:
    """Return the note that is stored beside a token. It names only the host of the endpoint, because the URL can contain more."""
    return json.dumps({"source": source, "host": urlsplit(endpoint).hostname or ""}).encode()
