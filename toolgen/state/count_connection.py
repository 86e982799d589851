"""Storage of counts that several processes share, and what it can be asked: Redis, or the process above the workers of one host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, Self

from msgspec import Struct

__all__ = ["TIMEOUT_S", "Link", "LinkError", "ReplyError", "Script", "StoreUnreachableError"]

TIMEOUT_S = 1.0
"""How long a connection and an answer may take, each."""


class LinkError(Exception):
    """Failed request to the counting store. The text names the kind of fault and nothing of what was sent."""


class StoreUnreachableError(LinkError):
    """The store cannot be used now: no connection, no answer in time, or it says itself that it takes no requests.

    `unconfirmed`: the request may have been sent and executed.
    """

    def __init__(self, text: str, *, unconfirmed: bool = False) -> None:
        super().__init__(text)
        self.unconfirmed = unconfirmed


class ReplyError(LinkError):
    """The store works and answered this one request with an error. Other requests may succeed."""


class Script(Struct, frozen=True):
    """A step that is done as one: by its text (Lua) in Redis, by its name in the process above the workers."""

    name: str
    text: str

    @classmethod
    def named(cls, name: str, *before: str) -> Self:
        """Return the script in the file of this name beside this module, after the functions of the files `before`."""
        files = (Path(__file__).with_name(f"{one}.lua") for one in (*before, name))
        return cls(name, "\n".join(file.read_text(encoding="utf-8") for file in files))


class Link(Protocol):
    """The connection to the counting store. `place` is what messages call it, `prefix` begins every key.

    Both methods raise `StoreUnreachableError` within twice `TIMEOUT_S`, and `ReplyError`. The request may have been
    counted then: nothing is sent twice.
    """

    @property
    def place(self) -> str: ...
    @property
    def prefix(self) -> str: ...

    async def run(self, script: Script, argument: bytes) -> list[int]:
        """The whole numbers that a script answers."""
        ...

    async def ask(self, script: Script, key: str, *arguments: str | bytes) -> Any:
        """Run a script for one key and return its answer, of any type."""
        ...

    async def close(self) -> None:
        """Nothing more is asked once it is closed."""
        ...
