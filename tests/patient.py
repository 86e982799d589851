"""Waiting for what others do, for as long as a busy machine may take: `until` it is so, and httpx's functions for servers that are
processes of a test's own, which may take longer to begin than its usual five seconds. They speak plain HTTP: no call reads the certificates
of this machine, which takes longer than the call."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import httpx

T = TypeVar("T")
_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

get = partial(httpx.get, timeout=120, verify=_NOBODY)
post = partial(httpx.post, timeout=120, verify=_NOBODY)


async def until(holds: Callable[[], T]) -> T:
    """What `holds` says, once that is something. Raises `TimeoutError` where it never is."""
    async with asyncio.timeout(120):
        while not (found := holds()):  # noqa: ASYNC110 - what threads, processes and other tasks do is no event of ours
            await asyncio.sleep(0.005)
    return found
