"""Messages between processes of one gateway over a socket: MessagePack after a length of four bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast

import msgspec

__all__ = ["MAX_FRAME_SIZE", "Frames", "frame"]

MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
_SIZE = 4
_Frame = TypeVar("_Frame")
_ENCODER = msgspec.msgpack.Encoder()


def frame(said: msgspec.Struct) -> bytes:
    """Return the bytes of one message. Raises `ValueError` for one that is too large to be read."""
    data = _ENCODER.encode(said)
    if len(data) > MAX_FRAME_SIZE:
        raise ValueError("larger than a frame may be")
    return len(data).to_bytes(_SIZE) + data


class Frames(asyncio.Protocol, Generic[_Frame]):
    """Connection end that splits received bytes into frames.

    `heard` is called with each frame, and `ended` once, after the last one. `drained` is called whenever the other end has read nearly all
    pending bytes. An invalid frame ends the connection.
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
        self.transport = cast(asyncio.WriteTransport, transport)  # like a socket's, whatever class the loop uses

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
        """Return the end of the first complete frame, or None."""
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

    def send(self, said: msgspec.Struct) -> None:
        """Send a frame without waiting. It is lost if the connection is closed. Raises `ValueError` if it is too large."""
        data = frame(said)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """Close the connection now."""
        if self.transport is not None:
            self.transport.abort()
