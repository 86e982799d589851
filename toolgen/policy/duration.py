"""How long, as a policy writes it: 500ms, 2s, 5m, 1h."""

from __future__ import annotations

import re

__all__ = ["parse_duration"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float | None:
    """Seconds, or None for what is no duration."""
    found = _DURATION.match(text)
    return float(found[1]) * _SECONDS[found[2]] if found else None
