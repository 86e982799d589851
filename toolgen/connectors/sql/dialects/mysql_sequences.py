"""Sequences of MariaDB: tables such as `seq_1_to_10`, which the server generates for a query.

https://mariadb.com/kb/en/sequence-storage-engine/. Their only column is `seq`. A table of the database with such a name takes precedence.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_sequence"]

_NAME: Final = re.compile(r"seq_([0-9]{1,15})_to_([0-9]{1,15})(?:_step_([0-9]{1,15}))?", re.ASCII)
_MAX_ROWS: Final = 100_000


def is_sequence(name: str) -> bool:
    """Return True if a table of this name is a sequence with a moderate number of rows."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    return step > 0 and abs(last - first) // step < _MAX_ROWS
