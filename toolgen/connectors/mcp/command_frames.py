"""Frames in MessagePack between workers and the process that runs their commands."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from toolgen.connectors.mcp.process import CommandFault
from toolgen.model.relayed import Relayed

__all__ = [
    "AnswerFrame",
    "Begin",
    "Begun",
    "CommandState",
    "Forget",
    "FromWorker",
    "LogFrame",
    "NoticeFrame",
    "ProgressFrame",
    "QuestionFrame",
    "QuestionOver",
    "RelayFrame",
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


class _MessageFrame(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`number` is that of a question and of what answers it; each worker counts its own. Nothing of it is ever shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Begin(_MessageFrame, frozen=True, kw_only=True):
    """The command of a source is needed. `values` are those of its variables, None before they are asked for."""

    number: int
    source: str
    values: dict[str, str] | None = None


class RequestFrame(_MessageFrame, frozen=True, kw_only=True):
    """A request, as JSON, for the process `epoch` of a command and for no other. `listens`: its progress is wanted; `logs`: so are log
    messages. `asks` are the kinds of requests that the server may make of the caller."""

    number: int
    source: str
    epoch: int
    message: bytes
    listens: bool = False
    logs: bool = False
    asks: tuple[str, ...] = ()


class Forget(_MessageFrame, frozen=True, kw_only=True):
    """Cancellation of a request: the worker no longer waits for its answer."""

    number: int


class Tell(_MessageFrame, frozen=True, kw_only=True):
    """A notification, as JSON."""

    source: str
    message: bytes


class SessionSuspect(_MessageFrame, frozen=True, kw_only=True):
    """A question was given up: the command may be past answering anything."""

    source: str


class Begun(_MessageFrame, frozen=True, kw_only=True):
    """The number of the process that runs, 0 where none does; with no `error` then, the values of its variables are needed."""

    number: int
    epoch: int = 0
    error: str = ""
    suggestion: str = ""


class ReplyFrame(_MessageFrame, frozen=True, kw_only=True):
    """The line that answers, or what is wrong with it."""

    number: int
    line: bytes = b""
    fault: CommandFault | None = None
    reason: str = ""


class ProgressFrame(_MessageFrame, frozen=True, kw_only=True):
    """Progress of a request."""

    number: int
    done: float
    total: float | None
    message: str


class LogFrame(_MessageFrame, frozen=True, kw_only=True):
    """A log message of the server while a request waits."""

    number: int
    level: str
    text: str


class QuestionFrame(_MessageFrame, frozen=True, kw_only=True):
    """A request of the server to the caller of the request `number`; `params` are JSON."""

    number: int
    question: int
    method: str
    params: bytes


class QuestionOver(_MessageFrame, frozen=True, kw_only=True):
    """End of a request of the server that was not answered."""

    question: int


class AnswerFrame(_MessageFrame, frozen=True, kw_only=True):
    """The caller's answer to a request of the server, as JSON; without one, `error` says why. `invalid`: the request is wrong."""

    question: int
    answer: bytes = b""
    error: str = ""
    invalid: bool = False


class CommandState(_MessageFrame, frozen=True, kw_only=True):
    """Which process of a command runs, whether it can be asked now, and the secrets that it was given."""

    source: str
    epoch: int
    ready: bool
    hidden: tuple[str, ...] = ()


class ToolsChanged(_MessageFrame, frozen=True, kw_only=True):
    """A server said that its tools are others now."""

    source: str


class NoticeFrame(_MessageFrame, frozen=True, kw_only=True):
    """A notice of a server: a resource that was subscribed to, or a list, has changed, or a web page is done."""

    source: str
    kind: Literal["updated", "prompts", "resources", "settled", "done", "lost"]
    uri: str = ""


class RelayFrame(_MessageFrame, frozen=True, kw_only=True):
    """Message of a worker to the others."""

    said: Relayed


class SessionRequest(_MessageFrame, frozen=True, kw_only=True):
    """The session of a caller with a server behind a URL is needed. `lost` is the epoch of one that the server does not know any more."""

    number: int
    key: str
    lost: int = 0


class SessionReply(_MessageFrame, frozen=True, kw_only=True):
    """Negotiated result of the session `epoch`. This worker's request numbers start after `above`, so that no two workers use the same
    number. With no `version`, this worker has to begin the session and report it with `SessionReady`."""

    number: int
    key: str
    epoch: int
    above: int = 0
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class SessionReady(_MessageFrame, frozen=True, kw_only=True):
    """Result of beginning a session; no `version` if it failed."""

    number: int
    key: str
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class SessionDropped(_MessageFrame, frozen=True, kw_only=True):
    """End of a session: no worker may use it any more."""

    key: str
    epoch: int


FromWorker: TypeAlias = (
    Begin | RequestFrame | Forget | Tell | SessionSuspect | SessionRequest | SessionReady | AnswerFrame | RelayFrame
)
ToWorker: TypeAlias = (
    Begun
    | ReplyFrame
    | ProgressFrame
    | LogFrame
    | QuestionFrame
    | QuestionOver
    | CommandState
    | ToolsChanged
    | NoticeFrame
    | RelayFrame
    | SessionReply
    | SessionDropped
)
