"""Executor protocol and the types that all executors share: an executor sends a call to the system that carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct

from toolgen.model.call import Call, Principal
from toolgen.model.files import OpenFile
from toolgen.model.result import Envelope, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Verdict

__all__ = [
    "Answered",
    "AsgiApp",
    "AsksForRoots",
    "ChecksFirst",
    "Destination",
    "Executor",
    "FileSink",
    "FileSource",
    "FollowsResources",
    "InnerCalls",
    "LocalApp",
    "PageListener",
    "Permit",
    "ResourceNotice",
    "SourcePermit",
    "no_listener",
]


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A place on the network. `address` is an IP address literal once it was resolved, and "" before.

    `service`: a redirect is asked about before the place that it leads to. A database's address is written into toolgen.yaml and a key
    set's into the policy, and nowhere else; no description or argument can change them. `proxied`: the policy's proxy connects to it.
    """

    host: str
    port: int
    address: str = ""
    service: Literal["http", "redirect", "database", "keys", "proxy"] = "http"
    proxied: bool = False


Permit: TypeAlias = Callable[[Destination], Verdict]
"""Asked with the resolved address before every connection; anything but Allow means the connection is not made."""


class SourcePermit(Protocol):
    """`Permit` for all sources. `source` is the name of the source that is called, or "" for a connection that belongs to no source."""

    def __call__(self, destination: Destination, source: str = "") -> Verdict: ...


class Answered(Struct, frozen=True, kw_only=True):
    """Outcome of an inner call. `http_status` is that of the system's answer, None where it did not answer over HTTP. `awaits_account`: it
    is kept until its person has linked an account."""

    envelope: Envelope
    http_status: int | None = None
    awaits_account: bool = False


class FileSink(Protocol):
    """A file that is being kept for the caller of a call. `discard` must be called in the end; it removes what was not finished.

    A protocol, because the gateway implements it, and connectors must not import the gateway.
    """

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `FileTooLargeError` and `StateError`."""

    async def end(self, media_type: str) -> str:
        """The token that its caller reads it by. Raises `StateError`."""

    async def discard(self) -> None:
        """Lets go of the file."""


class FileSource(Protocol):
    """Files that callers may send, and that are kept for them. `shown` is the most bytes of a picture that a model is given, and `largest`
    of a file that is kept. `without` has the digests of tools that are known to take no files.

    A protocol, because the gateway implements it, and connectors must not import the gateway.
    """

    shown: int
    largest: int
    without: set[str]

    def begin(self, call: Call) -> FileSink:
        """A file that a call is answered with. Raises `StateError`."""

    async def open(self, principal: Principal, uri: str) -> OpenFile | None:
        """The file of a URI; None where this principal has none by it (any more). Raises `StateError`."""


class InnerCalls(Protocol):
    """Inner calls that an executor makes on behalf of the call it carries out.

    A protocol, because the gateway implements it, and connectors must not import the gateway.
    """

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


class ResourceNotice(Protocol):
    """Notice of a system: its resource has changed (`updated`), or its list of `prompts` or `resources` has. `settled`: the system tells of
    changes from now on, or does not."""

    @property
    def kind(self) -> str: ...


@runtime_checkable
class FollowsResources(Protocol):
    """An executor whose system may tell of changes of its resources."""

    async def follow(self, read: Call, listener: Callable[[ResourceNotice], None]) -> None:
        """Have a listener told of changes of the resource of a read, until this is cancelled. Returns if there is no way to tell."""


@runtime_checkable
class AsksForRoots(Protocol):
    """An executor whose system may ask callers for their folders (roots)."""

    def roots_asked(self) -> Sequence[Call]:
        """Return the last call of each caller that the system got the folders of."""

    async def roots_changed(self, call: Call) -> None:
        """Tell the system that the folders of the caller of such a call have changed. Never raises for what the system does."""


PageListener: TypeAlias = Callable[[str, bool], None]
"""Listener for web pages that are done, by the ids that clients know. The second argument is True if no other worker hears of it."""


def no_listener(page: str, alone: bool) -> None:
    """Drop a notice."""


@runtime_checkable
class ChecksFirst(Protocol):
    """An executor that can say of a call what would be wrong with it, before a person is asked to agree to it."""

    async def check(self, call: Call) -> Error | None:
        """Return the error that `execute` would refuse the call with, without changing anything; None if no such error is known yet."""


_AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [_AsgiMessage, Callable[[], Awaitable[_AsgiMessage]], Callable[[_AsgiMessage], Awaitable[None]]], Awaitable[None]
]
"""An application of ASGI 3."""


class LocalApp(Struct, frozen=True, kw_only=True):
    """An application of this process that is a source, and the origin (`http://localhost`) of the URLs of requests to it."""

    app: AsgiApp
    origin: str
