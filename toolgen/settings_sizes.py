"""Sizes as our files write them: `64KiB`, `4MiB`."""

from __future__ import annotations

import re

__all__ = ["parse_size"]

_SIZE = re.compile(r"(\d{1,9}) ?(KiB|MiB|GiB|TiB)\Z")
_SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_size(text: str) -> int | None:
    """Bytes; None for what is no size."""
    found = _SIZE.match(text)
    return None if found is None else int(found[1]) * _SIZES[found[2]]
