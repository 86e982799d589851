"""Tenant that a task works for, in the log lines of a process with several tenants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["current_tenant", "working_for"]

_NAME: ContextVar[str] = ContextVar("tenant", default="")


def current_tenant() -> str:
    """Return the name of the tenant of this task; "" in a process without tenants, and outside of all of them."""
    return _NAME.get()


@contextlib.contextmanager
def working_for(name: str) -> Iterator[None]:
    """Set the tenant within the block, and for all tasks that start there."""
    token = _NAME.set(name)
    try:
        yield
    finally:
        _NAME.reset(token)
