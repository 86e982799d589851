"""Cyclic garbage collector: reading without it, since there are next to no cycles in what is read, and objects that it passes over."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["freeze_objects", "uncollected"]

# Libraries that write a line for each object that is left when the process ends.
_COUNTING = frozenset({"duckdb"})


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's cyclic garbage collector does not run by itself in the block; afterwards it does again where it did before."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def freeze_objects() -> None:
    """Excludes all objects that exist from garbage collection, until the process ends if a library counts what is left then."""
    gc.freeze()
    atexit.register(_unfreeze_for_counting)


def _unfreeze_for_counting() -> None:
    if not _COUNTING.isdisjoint(sys.modules):
        gc.unfreeze()
