"""Store of counts that several processes share, and its requests: Redis, or the process above the workers of one host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, Self

from msgspec import Struct

__all__ = ["TIMEOUT_S", "Link", "LinkError", "ReplyError", "Script", "StoreUnreachableError"]

TIMEOUT_S = 1.0
"""Timeout of a connection, and of an answer, in seconds each."""


class LinkError(Exception):
    """Failed request to the counting store. The text describes the kind of fault, without data of the request."""


class StoreUnreachableError(LinkError):
    """Unusable store: no connection, no answer in time, or an error that concerns all requests.

    `unconfirmed`: the request may have been sent and executed.
    """

    def __init__(self, text: str, *, unconfirmed: bool = False) -> None:
        super().__init__(text)
        self.unconfirmed = unconfirmed


class ReplyError(LinkError):
    """The store works and answered this one request with an error. Other requests may succeed."""


class Script(Struct, frozen=True):
    """Atomic step: a Lua script in Redis, a function by its name in the process above the workers."""

    name: str
    text: str

    @classmethod
    def named(cls, name: str, *before: str) -> Self:
        """Return the script in the file of this name beside this module, after the functions of the files `before`."""
        files = (Path(__file__).with_name(f"{one}.lua") for one in (*before, name))
        return cls(name, "\n".join(file.read_text(encoding="utf-8") for file in files))


class Link(Protocol):
    """Connection to the counting store. `place` is its name in messages, `prefix` begins every key.

    Both methods raise `StoreUnreachableError` within twice `TIMEOUT_S`, and `ReplyError`. The request may have been executed: no request is
    sent twice.
    """

    @property
    def place(self) -> str: ...
    @property
    def prefix(self) -> str: ...

    async def run(self, script: Script, argument: bytes) -> list[int]:
        """Run a script and return its integers."""
        ...

    async def ask(self, script: Script, key: str, *arguments: str | bytes) -> Any:
        """Run a script for one key and return its answer, of any type."""
        ...

    async def close(self) -> None:
        """Close the connection; no further request is sent."""
        ...
