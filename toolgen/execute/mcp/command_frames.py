"""What workers and the process that holds their commands say to each other, in frames of MessagePack."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from toolgen.execute.mcp.process import CommandFault

__all__ = [
    "Begin",
    "Begun",
    "CommandState",
    "Forget",
    "FromWorker",
    "ProgressFrame",
    "ReplyFrame",
    "RequestFrame",
    "SessionDropped",
    "SessionReady",
    "SessionReply",
    "SessionRequest",
    "SessionSuspect",
    "Tell",
    "ToWorker",
    "ToolsChanged",
]


class _Said(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`number` is that of a question and of what answers it; each worker counts its own. Nothing of it is ever shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Begin(_Said, frozen=True, kw_only=True):
    """The command of a source is needed. `values` are those of its variables, None before they are asked for."""

    number: int
    source: str
    values: dict[str, str] | None = None


class RequestFrame(_Said, frozen=True, kw_only=True):
    """A request, as JSON, for the process `epoch` of a command and for no other. `listens`: its progress is wanted."""

    number: int
    source: str
    epoch: int
    message: bytes
    listens: bool = False


class Forget(_Said, frozen=True, kw_only=True):
    """Nobody waits for this answer any more."""

    number: int


class Tell(_Said, frozen=True, kw_only=True):
    """A notification, as JSON."""

    source: str
    message: bytes


class SessionSuspect(_Said, frozen=True, kw_only=True):
    """A question was given up: the command may be past answering anything."""

    source: str


class Begun(_Said, frozen=True, kw_only=True):
    """The number of the process that runs, 0 where none does; with no `error` then, the values of its variables are needed."""

    number: int
    epoch: int = 0
    error: str = ""
    suggestion: str = ""


class ReplyFrame(_Said, frozen=True, kw_only=True):
    """The line that answers, or what is wrong with it."""

    number: int
    line: bytes = b""
    fault: CommandFault | None = None
    reason: str = ""


class ProgressFrame(_Said, frozen=True, kw_only=True):
    """How far a request has come."""

    number: int
    done: float
    total: float | None
    message: str


class CommandState(_Said, frozen=True, kw_only=True):
    """Which process of a command runs, whether it can be asked now, and the secrets that it was given."""

    source: str
    epoch: int
    ready: bool
    hidden: tuple[str, ...] = ()


class ToolsChanged(_Said, frozen=True, kw_only=True):
    """A server said that its tools are others now."""

    source: str


class SessionRequest(_Said, frozen=True, kw_only=True):
    """The session of a caller with a server behind a URL is needed. `lost` is the epoch of one that the server does not know any more."""

    number: int
    key: str
    lost: int = 0


class SessionReply(_Said, frozen=True, kw_only=True):
    """What was agreed on in the session `epoch`, and after which number this worker's requests are counted, so that no two workers use
    one. With no `version` it is this worker that has to begin the session, and to settle it."""

    number: int
    key: str
    epoch: int
    above: int = 0
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class SessionReady(_Said, frozen=True, kw_only=True):
    """What came of beginning a session; no `version` where it failed."""

    number: int
    key: str
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class SessionDropped(_Said, frozen=True, kw_only=True):
    """Nobody is to use this session any more."""

    key: str
    epoch: int


FromWorker: TypeAlias = Begin | RequestFrame | Forget | Tell | SessionSuspect | SessionRequest | SessionReady
ToWorker: TypeAlias = Begun | ReplyFrame | ProgressFrame | CommandState | ToolsChanged | SessionReply | SessionDropped
