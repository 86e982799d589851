"""Syslog over TLS (RFC 5424 messages in frames of RFC 5425), to an address that the policy permits."""

from __future__ import annotations

import array
import asyncio
import ssl
import sys
from collections.abc import Sequence

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.model.verdict import Allow

__all__ = ["SyslogClient"]

_CONNECT_S = 10.0
_ACKNOWLEDGED_S = 10.0
_LOOK_S = 0.02
_SIOCOUTQ = 0x5411  # Linux: bytes that the other side's TCP has not acknowledged


class SyslogClient:
    """Connection to one receiver. `authorities` are PEM certificates that are trusted as well. Every failure is an `OSError`."""

    def __init__(
        self, host: str, port: int, *, authorities: str, permit: Permit, resolver: Resolver = system_resolver
    ) -> None:
        self._host, self._port, self._authorities = host, port, authorities
        self._permit, self._resolver = permit, resolver
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None

    async def send(self, messages: Sequence[bytes]) -> None:
        """Return once the receiver's system has acknowledged the messages: the protocol has no acknowledgement of its own."""
        data = b"".join(b"%d %s" % (len(one), one) for one in messages)
        try:
            async with asyncio.timeout(_CONNECT_S + _ACKNOWLEDGED_S):
                writer = self._writer or await self._connected()
                writer.write(data)
                await writer.drain()
                await self._acknowledged(writer)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()

    async def _connected(self) -> asyncio.StreamWriter:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities)
        failure: OSError | None = None
        for address in await self._resolver(self._host, self._port):
            verdict = self._permit(Destination(host=self._host, port=self._port, address=address, service="database"))
            if not isinstance(verdict, Allow):
                raise OSError(verdict.reason)
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    address, self._port, ssl=context, server_hostname=self._host
                )
            except OSError as error:
                failure = error
            else:
                return self._writer
        raise failure or OSError("the name has no address")

    async def _acknowledged(self, writer: asyncio.StreamWriter) -> None:
        reader, found = self._reader, writer.get_extra_info("socket")
        while True:
            if reader is None or reader.at_eof() or writer.transport.is_closing():
                raise ConnectionResetError("the receiver closed the connection")
            if not writer.transport.get_write_buffer_size() and not _unacknowledged(found.fileno()):
                return
            await asyncio.sleep(_LOOK_S)


def _unacknowledged(descriptor: int) -> int:
    """Return the number of bytes that were sent and not acknowledged; 0 where the system does not tell."""
    if not sys.platform.startswith("linux"):
        return 0
    import fcntl  # noqa: PLC0415 - not on Windows

    number = array.array("i", [0])
    fcntl.ioctl(descriptor, _SIOCOUTQ, number)
    return number[0]
