"""What workers and the process that holds their commands say to each other: MessagePack behind four bytes of length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar, cast

import msgspec

from toolgen.execute.mcp.process import Fault

__all__ = [
    "MAX_FRAME_SIZE",
    "Answer",
    "Ask",
    "Begin",
    "Begun",
    "Changed",
    "Doubt",
    "Dropped",
    "Forget",
    "Frames",
    "FromWorker",
    "Meet",
    "Met",
    "Progress",
    "Settle",
    "State",
    "Tell",
    "ToWorker",
    "frame",
]

MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
_SIZE = 4
_Frame = TypeVar("_Frame")


class _Said(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`number` is that of a question and of what answers it; each worker counts its own. Nothing of it is ever shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Begin(_Said, frozen=True, kw_only=True):
    """The command of a source is needed. `values` are those of its variables, None before they are asked for."""

    number: int
    source: str
    values: dict[str, str] | None = None


class Ask(_Said, frozen=True, kw_only=True):
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


class Doubt(_Said, frozen=True, kw_only=True):
    """A question was given up: the command may be past answering anything."""

    source: str


class Begun(_Said, frozen=True, kw_only=True):
    """The number of the process that runs, 0 where none does; with no `error` then, the values of its variables are needed."""

    number: int
    epoch: int = 0
    error: str = ""
    suggestion: str = ""


class Answer(_Said, frozen=True, kw_only=True):
    """The line that answers, or what is wrong with it."""

    number: int
    line: bytes = b""
    fault: Fault | None = None
    reason: str = ""


class Progress(_Said, frozen=True, kw_only=True):
    """How far a request has come."""

    number: int
    done: float
    total: float | None
    message: str


class State(_Said, frozen=True, kw_only=True):
    """Which process of a command runs, whether it can be asked now, and the secrets that it was given."""

    source: str
    epoch: int
    ready: bool
    hidden: tuple[str, ...] = ()


class Changed(_Said, frozen=True, kw_only=True):
    """A server said that its tools are others now."""

    source: str


class Meet(_Said, frozen=True, kw_only=True):
    """The session of a caller with a server behind a URL is needed. `lost` is the epoch of one that the server does not know any more."""

    number: int
    key: str
    lost: int = 0


class Met(_Said, frozen=True, kw_only=True):
    """What was agreed on in the session `epoch`, and after which number this worker's requests are counted, so that no two workers use
    one. With no `version` it is this worker that has to begin the session, and to settle it."""

    number: int
    key: str
    epoch: int
    above: int = 0
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class Settle(_Said, frozen=True, kw_only=True):
    """What came of beginning a session; no `version` where it failed."""

    number: int
    key: str
    version: str = ""
    session: str = ""
    server: tuple[str, str] = ("", "")


class Dropped(_Said, frozen=True, kw_only=True):
    """Nobody is to use this session any more."""

    key: str
    epoch: int


FromWorker: TypeAlias = Begin | Ask | Forget | Tell | Doubt | Meet | Settle
ToWorker: TypeAlias = Begun | Answer | Progress | State | Changed | Met | Dropped
_ENCODER = msgspec.msgpack.Encoder()


def frame(said: FromWorker | ToWorker) -> bytes:
    """The bytes of one. Raises `ValueError` for one that is too large to be read."""
    data = _ENCODER.encode(said)
    if len(data) > MAX_FRAME_SIZE:
        raise ValueError("larger than a frame may be")
    return len(data).to_bytes(_SIZE) + data


class Frames(asyncio.Protocol, Generic[_Frame]):
    """One end of a connection: cuts what is read into frames. `heard` is given each, and `ended` is called once, after the last;
    `drained` whenever the other end has read nearly all that it had left unread.

    What is none ends the connection.
    """

    def __init__(
        self,
        kind: object,
        heard: Callable[[_Frame], None],
        ended: Callable[[], None],
        drained: Callable[[], None] = lambda: None,
    ) -> None:
        self._decoder: msgspec.msgpack.Decoder[_Frame] = msgspec.msgpack.Decoder(kind)
        self._heard = heard
        self._ended = ended
        self._drained = drained
        self._held = bytearray()
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            asyncio.WriteTransport, transport
        )  # as that of a socket is, whatever class a loop has for it

    def data_received(self, data: bytes) -> None:
        self._held += data
        try:
            while (end := self._end()) is not None:
                said = self._decoder.decode(self._held[_SIZE:end])
                del self._held[:end]
                self._heard(said)
        except (ValueError, msgspec.MsgspecError):
            self.abort()

    def _end(self) -> int | None:
        """Where the first frame ends that is held; None where none does."""
        if len(self._held) < _SIZE:
            return None
        size = int.from_bytes(self._held[:_SIZE])
        if size > MAX_FRAME_SIZE:
            raise ValueError("larger than a frame may be")
        return size + _SIZE if len(self._held) >= size + _SIZE else None

    def resume_writing(self) -> None:
        self._drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def unread(self) -> int:
        """Bytes that the other end has not read."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def send(self, said: FromWorker | ToWorker) -> None:
        """Never waits; lost where nobody is there any more. Raises `ValueError` for what is too large."""
        data = frame(said)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """Ends the connection now."""
        if self.transport is not None:
            self.transport.abort()
