"""Processes for statements on files that outlast an executor, so that the tests of a module start a few and not one each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import pytest

from toolgen.connectors.sql.execution import sandbox_pool
from toolgen.core.clock import Clock


@contextmanager
def shared_processes() -> Iterator[None]:
    """What an executor that is closed leaves idle, the next one goes on with: a process is told the file with each statement.

    A process that was ended, that is busy or that gave its last answer is never handed on.
    """
    kept: defaultdict[str, list[sandbox_pool._Child]] = defaultdict(list)
    start = sandbox_pool._Child
    end = sandbox_pool._end
    dialects: WeakKeyDictionary[sandbox_pool._Child, str] = WeakKeyDictionary()

    def take(dialect: str, clock: Clock) -> sandbox_pool._Child:
        while kept[dialect]:
            child = kept[dialect].pop()
            if child.alive():
                return child
            child.end()
        child = start(dialect, clock)
        dialects[child] = dialect
        return child

    def keep(idle: list[sandbox_pool._Child]) -> None:
        while idle:
            child = idle.pop()
            kept[dialects[child]].append(child)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_pool, "_Child", take)
        patch.setattr(sandbox_pool, "_end", keep)
        try:
            yield
        finally:
            for idle in kept.values():
                end(idle)
