"""Name resolution by the operating system."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

__all__ = ["Resolver", "system_resolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port in, IP address literals out; raises OSError when the name does not exist."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The operating system's resolver."""
    import asyncio  # noqa: PLC0415 - slow, and the settings of this module are read where nothing runs

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
