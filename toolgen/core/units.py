"""Units in configuration files: sizes like `64KiB`, durations like `500ms` and `1h`."""

from __future__ import annotations

import re

__all__ = ["MAX_PENDING_AFTER_S", "in_words", "parse_duration", "parse_size"]

MAX_PENDING_AFTER_S = 3600.0
"""Upper bound of `pending_after`, of the gateway and of a rule."""

_SIZE = re.compile(r"(\d{1,9}) ?(KiB|MiB|GiB|TiB)\Z")
_SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_size(text: str) -> int | None:
    """Return a size in bytes; None for another text."""
    found = _SIZE.match(text)
    return None if found is None else int(found[1]) * _SIZES[found[2]]


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float | None:
    """Return a duration in seconds; None for another text."""
    found = _DURATION.match(text)
    return float(found[1]) * _SECONDS[found[2]] if found else None


def in_words(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
