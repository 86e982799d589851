"""Name resolution of tests: each name has the same addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

__all__ = ["Resolver", "resolving"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


def resolving(*addresses: str) -> Resolver:
    """Return a resolver that answers with these addresses, and fails without any."""

    async def resolve(host: str, port: int) -> list[str]:
        if not addresses:
            raise OSError("no such name")
        return [*addresses]

    return resolve
