"""TLS and SASL in front of a broker of Kafka that has neither: `python kafka_front.py --help`.

It ends TLS, signs clients in, and then passes bytes on. Its SCRAM is that of scramp: it shares no code with the client. The program runs in
the environment of `make destinations`.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import struct
from pathlib import Path
from typing import Any

from scramp import ScramException, ScramMechanism  # type: ignore[import-not-found, unused-ignore]

PRODUCE, API_VERSIONS, HANDSHAKE, AUTHENTICATE = 0, 18, 17, 36
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ILLEGAL_STATE, UNSUPPORTED, FAILED = 34, 33, 58


class SignInError(Exception):
    """Raised for a wrong user or password."""


class SignIn:
    """Sign-in of one connection with one mechanism."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._mechanism, self._user, self._password = mechanism, user, password
        self._server: Any = None
        self.done = False

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message of the client. Raises `SignInError`."""
        if self._mechanism == "PLAIN":
            if data.split(b"\0") != [b"", self._user.encode(), self._password.encode()]:
                raise SignInError
            self.done = True
            return b""
        try:
            if self._server is None:
                mechanism = ScramMechanism(self._mechanism)
                known = {self._user: mechanism.make_auth_info(self._password, iteration_count=8192)}
                self._server = mechanism.make_server(known.__getitem__)
                self._server.set_client_first(data.decode())
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(data.decode())
            final = str(self._server.get_server_final())
        except (ScramException, KeyError) as error:
            raise SignInError from error
        self.done = True
        return final.encode()


class Front:
    """Front of one broker. While the file `swallow` exists, answers to records are lost, and their connection is cut."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._options.broker)
        except OSError:
            writer.close()
            return
        try:
            await self._sign_in(reader, writer, broker_reader, broker_writer)
            async with asyncio.TaskGroup() as group:
                produced = asyncio.Event()
                group.create_task(self._pass_on(reader, broker_writer, produced))
                group.create_task(self._pass_back(broker_reader, writer, produced))
        except (SignInError, OSError, EOFError, struct.error, ExceptionGroup):
            pass
        finally:
            for one in (writer, broker_writer):
                one.close()

    async def _sign_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broker_reader: asyncio.StreamReader,
        broker_writer: asyncio.StreamWriter,
    ) -> None:
        """Return once the client has signed in. Raises `SignInError` after it was told so."""
        known: SignIn | None = None
        while known is None or not known.done:
            request = await _frame(reader)
            kind, version, number = struct.unpack_from(">hhi", request)
            body = request[10 + max(0, struct.unpack_from(">h", request, 8)[0]) :]
            if kind == API_VERSIONS:
                _send(broker_writer, request)
                _send(writer, await _frame(broker_reader))
            elif kind == HANDSHAKE:
                mechanism = body[2:].decode()
                error = 0 if mechanism in MECHANISMS else UNSUPPORTED
                names = b"".join(struct.pack(">h", len(one)) + one.encode() for one in MECHANISMS)
                _send(writer, struct.pack(">ihi", number, error, len(MECHANISMS)) + names)
                if error:
                    raise SignInError
                known = SignIn(mechanism, self._options.user, self._options.password)
            elif kind == AUTHENTICATE and known is not None:
                flexible = version >= 2
                data = _compact(body[1:]) if flexible else body[4:]
                try:
                    _send(writer, _authenticated(number, version, 0, known.answer(data)))
                except SignInError:
                    _send(writer, _authenticated(number, version, FAILED, b""))
                    await writer.drain()
                    raise
            else:
                raise SignInError  # a broker closes the connection of a client that has not signed in
            await writer.drain()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produced: asyncio.Event
    ) -> None:
        while request := await _frame(reader):
            if int.from_bytes(request[:2], "big") == PRODUCE:
                produced.set()
            _send(writer, request)
            await writer.drain()

    async def _pass_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produced: asyncio.Event
    ) -> None:
        while data := await reader.read(65536):
            if produced.is_set() and self._options.swallow.exists():
                break
            writer.write(data)
            await writer.drain()
        raise EOFError


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4, "big") + frame)


def _compact(data: bytes) -> bytes:
    """Return the bytes behind a length as an unsigned varint, which is one more than the number of bytes."""
    length = shift = at = 0
    while True:
        length |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            break
    return data[at : at + length - 1]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _authenticated(number: int, version: int, error: int, data: bytes) -> bytes:
    """Return a response to SaslAuthenticate (protocol guide of Kafka, versions 0 to 2)."""
    if version >= 2:
        head = struct.pack(">ibh", number, 0, error)
        return head + b"\0" + _varint(len(data) + 1) + data + struct.pack(">qb", 0, 0)
    answer = struct.pack(">ihhi", number, error, -1, len(data)) + data
    return answer + (struct.pack(">q", 0) if version == 1 else b"")


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--broker", type=int, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--swallow", type=Path, required=True)
    options = parser.parse_args()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(options.certificate, options.key)
    server = await asyncio.start_server(Front(options).serve, ["127.0.0.1", "127.0.0.2"], options.port, ssl=tls)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
