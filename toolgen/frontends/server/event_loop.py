"""Event loop of the server: that of uvloop if it is installed, or asyncio's own, for example on Windows."""

from __future__ import annotations

import asyncio

from toolgen.core.system_modules import system_module

__all__ = ["new_loop"]

_uvloop = system_module("uvloop")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop."""
    loop: asyncio.AbstractEventLoop = asyncio.new_event_loop() if _uvloop is None else _uvloop.new_event_loop()
    return loop
