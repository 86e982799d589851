"""Cyclic garbage collector: disabled during reading, because read data has almost no cycles, and told to skip old objects."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["freeze_objects", "uncollected"]

# Libraries that log a line for each remaining object at the end of the process.
_COUNTING = frozenset({"duckdb"})


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cyclic garbage collector in the block, and restore it afterwards."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def freeze_objects() -> None:
    """Exclude all existing objects from garbage collection, until the process ends if a library counts remaining objects then."""
    gc.freeze()
    atexit.register(_unfreeze_for_counting)


def _unfreeze_for_counting() -> None:
    if not _COUNTING.isdisjoint(sys.modules):
        gc.unfreeze()
