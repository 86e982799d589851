"""Transport of TDS for a driver: a socket that was dialled elsewhere, TLS by Python's `ssl` inside of it, and a limit on received bytes.

The driver speaks TDS in the clear. This transport replaces the encryption option in its PRELOGIN message and in the server's answer, makes
the TLS handshake, which TDS 7 wraps in PRELOGIN messages, and encrypts everything after it. Numbers of sections are those of MS-TDS:
https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-tds.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from typing import Final

from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError

__all__ = ["ATTENTION", "TdsTransport", "TransportError"]

_HEADER: Final = struct.Struct(">BBHHBB")  # 2.2.3.1: type, status, length, SPID, packet, window
_PRELOGIN: Final = 0x12
_ANSWER: Final = 0x04
_LAST: Final = 0x01  # status of the last packet of a message
_LARGEST: Final = 32_767  # bytes of a packet, 2.2.3.1.3
_OPTION: Final = struct.Struct(">BHH")  # 2.2.6.5: token, offset, length
_ENCRYPTION: Final = 0x01
_TERMINATOR: Final = 0xFF
_OFF, _ON, _NOT_SUPPORTED, _REQUIRED = range(4)
_BUFFER: Final = 65_536
ATTENTION: Final = _HEADER.pack(0x06, _LAST, _HEADER.size, 0, 1, 0)
"""Message that asks the server to stop a statement: 2.2.1.7."""


class TransportError(Exception):
    """Failure of the exchange before the login: no TLS, or a message that is not TDS."""


class TdsTransport:
    """Socket for a driver. One thread reads and writes; `attention` may be called from another one."""

    def __init__(self, dialled: socket.socket, context: ssl.SSLContext | None, host: str) -> None:
        """Create a transport. `context` None sends everything, the password too, in the clear."""
        self._socket = dialled
        self._context = context
        self._host = host
        self._negotiated = False
        self._answer = bytearray()  # of the server to PRELOGIN, for the driver
        self._received = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._state = threading.Lock()  # of the TLS object
        self._sending = threading.Lock()
        self._most = 0

    def allow(self, most: int) -> None:
        """Allow the server to send so many bytes from now on. More of them raise `AnswerTooLargeError`."""
        self._most = most

    def gettimeout(self) -> float | None:
        return self._socket.gettimeout()

    def settimeout(self, timeout: float | None) -> None:
        self._socket.settimeout(timeout)

    def sendall(self, data: bytes | bytearray, _flags: int = 0) -> None:
        if not self._negotiated:
            self._negotiated = True
            self._negotiate(bytearray(data))
            return
        self._send(bytes(data))

    def recv(self, size: int, _flags: int = 0) -> bytes:
        part = bytearray(size)
        return bytes(part[: self.recv_into(part, size)])

    def recv_into(self, buffer: bytearray | memoryview, size: int = 0, _flags: int = 0) -> int:
        size = size or len(buffer)
        if self._answer:
            part = self._answer[:size]
            buffer[: len(part)] = part
            del self._answer[: len(part)]
            return len(part)
        return self._decrypted(memoryview(buffer)[:size]) if self._tls is not None else self._read(buffer, size)

    def attention(self) -> None:
        """Ask the server to stop the running statement."""
        self._send(ATTENTION)

    def close(self) -> None:
        """Close the socket. A thread that waits for it ends with an error."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed
        finally:
            self._socket.close()

    def _send(self, data: bytes) -> None:
        with self._sending:
            if self._tls is not None:
                with self._state:
                    self._tls.write(data)
                    data = self._outgoing.read()
            self._socket.sendall(data)

    def _decrypted(self, buffer: memoryview) -> int:
        assert self._tls is not None  # noqa: S101 - the caller looked
        while True:
            with self._state:
                try:
                    return int(self._tls.read(len(buffer), buffer))  # a count, with a buffer
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return 0
            part = self._socket.recv(_BUFFER)
            if not part:
                return 0
            self._count(len(part))
            with self._state:
                self._received.write(part)

    def _read(self, buffer: bytearray | memoryview, size: int) -> int:
        count = self._socket.recv_into(buffer, size)
        self._count(count)
        return count

    def _count(self, count: int) -> None:
        self._most -= count
        if self._most < 0:
            raise AnswerTooLargeError

    # before the login

    def _negotiate(self, message: bytearray) -> None:
        """Send the driver's PRELOGIN with our encryption, and keep the answer for the driver, to whom it says that there is none."""
        message[_HEADER.size + _place_of_encryption(message[_HEADER.size :])] = (
            _NOT_SUPPORTED if self._context is None else _ON
        )
        self._socket.sendall(message)
        kind, answer = self._message()
        place = _place_of_encryption(answer)
        offered = answer[place]
        if kind != _ANSWER:
            raise TransportError("the server does not speak TDS")
        if (self._context is None) is not (offered == _NOT_SUPPORTED):
            raise TransportError("the server and sslmode disagree about TLS")
        if self._context is not None:
            if offered not in {_ON, _REQUIRED}:  # 2.2.6.5: other answers encrypt the login alone
                raise TransportError("the server encrypts less than was asked for")
            self._handshake(self._context)
        answer[place] = _NOT_SUPPORTED
        self._answer = bytearray(_HEADER.pack(_ANSWER, _LAST, _HEADER.size + len(answer), 0, 1, 0)) + answer

    def _handshake(self, context: ssl.SSLContext) -> None:
        tls = context.wrap_bio(self._received, self._outgoing, server_hostname=self._host)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_wrapped()
                kind, records = self._message()
                if kind not in {_PRELOGIN, _ANSWER}:
                    raise TransportError("the server does not speak TDS") from None
                self._received.write(bytes(records))
            else:
                self._send_wrapped()
                self._tls = tls
                return

    def _send_wrapped(self) -> None:
        records = self._outgoing.read()
        if records:
            header = _HEADER.pack(_PRELOGIN, _LAST, _HEADER.size + len(records), 0, 1, 0)
            self._socket.sendall(header + records)

    def _message(self) -> tuple[int, bytearray]:
        """Return the type of the server's next message and its data."""
        data = bytearray()
        while True:
            kind, status, length, *_ = _HEADER.unpack(self._exactly(_HEADER.size))
            if not _HEADER.size <= length <= _LARGEST or len(data) + length > _BUFFER:
                raise TransportError("the server does not speak TDS")
            data += self._exactly(length - _HEADER.size)
            if status & _LAST:
                return kind, data

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            self._count(len(part))
            if not part:
                raise TransportError("the server closed the connection")
            data += part
        return bytes(data)


def _place_of_encryption(options: bytes | bytearray) -> int:
    """Return the position of the encryption option's value in a PRELOGIN message: 2.2.6.5."""
    for place in range(0, len(options), _OPTION.size):
        if options[place] == _TERMINATOR or place + _OPTION.size > len(options):
            break
        token, offset, length = _OPTION.unpack_from(options, place)
        if token == _ENCRYPTION and length == 1 and offset < len(options):
            found: int = offset
            return found
    raise TransportError("the server does not speak TDS")
