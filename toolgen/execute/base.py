"""What every executor is: the one thing at the end of the pipeline that touches another system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from toolgen.model.call import Call
from toolgen.model.result import Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.verdict import Verdict

__all__ = ["Destination", "Executor", "FunctionCounts", "Permit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A place on the network. `address` is an IP address literal once it was resolved, and "" before.

    `service`: a redirect is asked about before the place that it leads to. A database's address is written into toolgen.yaml and a key
    set's into the policy, and nowhere else; no description or argument can change them. `source` is the one that is called, or "" for
    what belongs to none.
    """

    host: str
    port: int
    address: str = ""
    service: Literal["http", "redirect", "database", "keys"] = "http"
    source: str = ""


Permit: TypeAlias = Callable[[Destination], Verdict]
"""Asked with the resolved address before every connection; anything but Allow means the connection is not made."""


class Executor(Protocol):
    """Turns a checked call into a real one.

    `execute` returns Failed for whatever the other system did wrong and never raises for it, and Refused where nothing was tried.
    `preview` renders what `execute` would send, with `***` for every secret, and touches nothing outside the process.
    """

    async def execute(self, call: Call) -> Success | Failed | Refused: ...

    def preview(self, call: Call) -> JsonObject: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCounts:
    """What runs functions, in numbers: threads that run one, those that run on although their call was given up and how many ever did,
    event loops that are lost to a function that blocks, and how often one was blocked."""

    threads: int = 0
    threads_lost: int = 0
    threads_abandoned: int = 0
    loops_lost: int = 0
    loops_blocked: int = 0
