"""The event loop that serves: uvloop's where it is installed, or else asyncio's own, as on Windows."""

from __future__ import annotations

import asyncio

from toolgen.core.system_modules import system_module

__all__ = ["new_loop"]

_uvloop = system_module("uvloop")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop."""
    loop: asyncio.AbstractEventLoop = asyncio.new_event_loop() if _uvloop is None else _uvloop.new_event_loop()
    return loop
