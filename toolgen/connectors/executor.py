"""Executor protocol and the types that all executors share: an executor sends a call to the system that carries it out.

Also the resilience settings of a source (plain data that toolgen.yaml is read into) and the system's name resolver.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct, field

from toolgen.model.call import Call, Principal
from toolgen.model.files import OpenFile
from toolgen.model.result import Envelope, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Verdict

__all__ = [
    "AnswerPlace",
    "Answered",
    "AsgiApp",
    "BreakerConfig",
    "ChecksFirst",
    "Destination",
    "Executor",
    "FileSink",
    "FileSource",
    "FunctionCounts",
    "InnerCalls",
    "LocalApp",
    "Monitored",
    "Permit",
    "PollConfig",
    "ResilienceConfig",
    "Resolver",
    "Retries",
    "SourcePermit",
    "StatusPost",
    "SystemHealth",
    "Timeouts",
    "system_resolver",
]


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A place on the network. `address` is an IP address literal once it was resolved, and "" before.

    `service`: a redirect is asked about before the place that it leads to. A database's address is written into toolgen.yaml and a key
    set's into the policy, and nowhere else; no description or argument can change them.
    """

    host: str
    port: int
    address: str = ""
    service: Literal["http", "redirect", "database", "keys"] = "http"


Permit: TypeAlias = Callable[[Destination], Verdict]
"""Asked with the resolved address before every connection; anything but Allow means the connection is not made."""


class SourcePermit(Protocol):
    """`Permit` for all sources. `source` is the name of the source that is called, or "" for a connection that belongs to no source."""

    def __call__(self, destination: Destination, source: str = "") -> Verdict: ...


class Answered(Struct, frozen=True, kw_only=True):
    """Outcome of an inner call. `http_status` is that of the system's answer, None where it did not answer over HTTP."""

    envelope: Envelope
    http_status: int | None = None


class FileSink(Protocol):
    """A file that is being kept for the caller of a call. `discard` must be called in the end; it removes what was not finished."""

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `FileTooLargeError` and `StateError`."""

    async def end(self, media_type: str) -> str:
        """The token that its caller reads it by. Raises `StateError`."""

    async def discard(self) -> None:
        """Lets go of the file."""


class FileSource(Protocol):
    """Files that callers may send, and that are kept for them. `shown` is the most bytes of a picture that a model is given, and `largest`
    of a file that is kept. `without` has the digests of tools that are known to take no files."""

    shown: int
    largest: int
    without: set[str]

    def begin(self, call: Call) -> FileSink:
        """A file that a call is answered with. Raises `StateError`."""

    async def open(self, principal: Principal, uri: str) -> OpenFile | None:
        """The file of a URI; None where this principal has none by it (any more). Raises `StateError`."""


class InnerCalls(Protocol):
    """Inner calls that an executor makes on behalf of the call it carries out."""

    async def call(self, outer: Call, name: str, arguments: JsonObject) -> Answered:
        """A call through the whole pipeline, as itself: the outer call's principal makes it, and the outer call's id is its parent.

        Never raises. It is refused where calls are nested too deep.
        """

    async def outcome(self, outer: Call, call_id: str) -> Answered | None:
        """State of a call that this one made before it waited; None where that is not known (any more). Never raises."""

    async def withdraw(self, outer: Call, call_id: str) -> None:
        """Withdraws such a call, if nobody began to carry it out. Never raises."""

    async def suspend(self, outer: Call, resume: JsonObject, waits: Sequence[str]) -> Error:
        """Keeps how far a call has come until all the calls that it waits for have ended; then it is made again, with `resume`.

        What its caller is told until then. Raises `StateError` where it cannot be kept.
        """

    def received(self, outer: Call) -> JsonObject:
        """The outer call's arguments with its tokens in the form that counts in the calls made here. Raises `StateError`."""

    def catalog(self, outer: Call) -> Sequence[Tool]:
        """The tools that the outer call's principal may call by now."""


class Executor(Protocol):
    """Turns a checked call into a real one.

    `execute` returns Failed for whatever the other system did wrong and never raises for it, and Refused where nothing was tried.
    `preview` renders what `execute` would send, with `***` for every secret, and touches nothing outside the process.
    """

    async def execute(self, call: Call) -> Success | Failed | Refused: ...

    def preview(self, call: Call) -> JsonObject: ...

    async def close(self) -> None: ...


@runtime_checkable
class ChecksFirst(Protocol):
    """An executor that can say of a call what would be wrong with it, before a person is asked to agree to it."""

    async def check(self, call: Call) -> Error | None:
        """Return the error that `execute` would refuse the call with, without changing anything; None if no such error is known yet."""


class FunctionCounts(Struct, frozen=True, kw_only=True):
    """Counts of the threads and event loops that run functions.

    `threads` run a function now. `threads_lost` still run a function whose call was given up, `threads_abandoned` counts all that ever did.
    `loops_lost` counts event loops that are lost to a function that blocks, and `loops_blocked` how often a loop was blocked.
    """

    threads: int = 0
    threads_lost: int = 0
    threads_abandoned: int = 0
    loops_lost: int = 0
    loops_blocked: int = 0


class SystemHealth(Struct, frozen=True, kw_only=True):
    """State of a system behind a source, since this process began. `breaker` is `none` where there is none.

    Attempts that were `answered`, with whatever status but 5xx; that `failed` (5xx, or broken off); that were `unreachable`. How many of
    them were `retries`, how many calls were not sent because the breaker was open (`held`) or no place was free (`crowded`), and how often
    the breaker `opened`. `in_flight` and `waiting` are calls now: those that have a place, and those that wait for one; in `retry_in_s`
    seconds a breaker that is not closed may let one through.
    """

    system: str
    breaker: Literal["none", "closed", "half-open", "open"] = "none"
    answered: int = 0
    failed: int = 0
    unreachable: int = 0
    retries: int = 0
    held: int = 0
    crowded: int = 0
    opened: int = 0
    in_flight: int = 0
    waiting: int = 0
    retry_in_s: float = 0.0


@runtime_checkable
class Monitored(Protocol):
    """An executor that knows how the systems behind its source do."""

    def health(self) -> tuple[SystemHealth, ...]: ...


_AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [_AsgiMessage, Callable[[], Awaitable[_AsgiMessage]], Callable[[_AsgiMessage], Awaitable[None]]], Awaitable[None]
]
"""An application of ASGI 3."""


class LocalApp(Struct, frozen=True, kw_only=True):
    """An application of this process that is a source, and the origin (`http://localhost`) of the URLs of requests to it."""

    app: AsgiApp
    origin: str


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds: to connect, between two pieces of an answer (the first byte included), and altogether."""

    connect_s: float = 5.0
    first_byte_s: float = 30.0
    total_s: float = 60.0


class Retries(Struct, frozen=True, kw_only=True):
    """At most `attempts` for a call, the first included. A retry waits `longest_wait_s` at most, whatever the system asks for.

    `budget`: how many retries there may be for each call, over all calls to one system; what is saved up is worth ten retries at most.
    """

    attempts: int = 3
    longest_wait_s: float = 5.0
    budget: float = 0.2


class BreakerConfig(Struct, frozen=True, kw_only=True):
    """Threshold and duration of an open breaker: it opens at this share of failures among at least `calls` calls of a window."""

    failures: float = 0.5
    calls: int = 10
    window_s: float = 10.0
    open_s: float = 10.0


class ResilienceConfig(Struct, frozen=True, kw_only=True):
    """Settings of toolgen.yaml for failures of one source: timeouts, retries, circuit breaker and concurrency limit.

    `breaker` is None if the source has no circuit breaker. `key_header` is the idempotency key header for operations whose description
    names none, or `never`. At most `largest` bytes of a response are read.
    """

    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    breaker: BreakerConfig | None = field(default_factory=BreakerConfig)
    concurrency: int = 100
    key_header: str = ""
    largest: int = 1_048_576


class AnswerPlace(Struct, frozen=True, kw_only=True):
    """Place of a URL in an answer: in a header (lower case), at a path of members of its body, or in members that a template below the
    server is filled with. With none of these it is the URL of the request."""

    header: str = ""
    path: tuple[str, ...] = ()
    template: tuple[str | tuple[str, ...], ...] = ()


class StatusPost(Struct, frozen=True, kw_only=True):
    """A status that is had by a POST with a JSON object, which changes nothing. `body` has its members: a value, or a path in the answer
    that began the operation. `headers` go with it."""

    body: tuple[tuple[str, str | int | float | bool | tuple[str, ...]], ...]
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"


class PollConfig(Struct, frozen=True, kw_only=True):
    """Settings of polling for an operation that goes on behind an answer. With no `url` there is none.

    `url` has the places of its status, the first that is there counts. `state` is where the status has a word for how it stands, which is
    one of `done`, `failed` or `running` (any other one where that is empty); without it the HTTP status says so. `error`, `result`,
    `percent` and `message` are paths in the status, `result_url` is where its result is fetched. `post` is for a status had by a POST.
    `cancel` is the method that ends an operation, at `cancel_url` or the status itself. `origins` are asked besides that of the call,
    without its credentials.
    """

    url: tuple[AnswerPlace, ...]
    state: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    error: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    result_url: AnswerPlace | None = None
    percent: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    interval_s: float = 2.0
    longest_interval_s: float = 60.0
    total_s: float = 1800.0
    cancel: str = ""
    cancel_url: AnswerPlace | None = None
    post: StatusPost | None = None
    origins: frozenset[tuple[str, str, int]] = frozenset()


Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port in, IP address literals out; raises OSError when the name does not exist."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The operating system's resolver."""
    import asyncio  # noqa: PLC0415 - slow, and the settings of this module are read where nothing runs

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
