"""HTTP/2 requests to one origin at one checked address, for sources that ask for HTTP/2.

Calls share a connection as far as its server allows, and HTTP/1.1 is not used. It follows no redirects and keeps no cookies.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import authority_of, body_length, checked_target, connection_failure
from toolgen.connectors.http.http2_connection import Http2Connection, RefusedStreamError
from toolgen.connectors.http.http2_frames import field, request_fields
from toolgen.connectors.http.http2_stream import Reading
from toolgen.connectors.http.message import ACCEPTED
from toolgen.connectors.http.reply import BodyListener, RawResponse, Sink, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest

if TYPE_CHECKING:
    from toolgen.connectors.http.proxy_tunnel import Tunnel

__all__ = ["Http2Client"]

_ATTEMPTS = 2
_OTHER_PROTOCOL = "it does not speak HTTP/2"


class Http2Client:
    """HTTP/2 with prior knowledge (RFC 9113, section 3.3), negotiated over TLS. `tls` returns the context if the scheme is https."""

    def __init__(
        self,
        *,
        scheme: str,
        host: str,
        port: int,
        address: str,
        timeouts: Timeouts,
        tls: Callable[[], ssl.SSLContext],
        tunnel: Tunnel | None = None,
    ) -> None:
        self._tunnel = tunnel
        self._scheme, self._host, self._port, self._address = scheme, host, port, address
        self._tls = tls if scheme == "https" else None
        self._timeouts = timeouts
        self._authority = authority_of(scheme, host, port)
        self._accepts = field("accept-encoding", ACCEPTED)
        self._connections: list[Http2Connection] = []
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._users = 0
        self._closed = False

    @property
    def idle(self) -> bool:
        return not self._users

    async def send(
        self,
        request: HttpRequest,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> RawResponse:
        block = self._block(request)
        now = asyncio.get_running_loop().time()
        if until <= now:
            raise UnsentError("", late=True)
        until = min(until, now + self._timeouts.total_s)
        reading = Reading(request.method, limit, places, until, listener, sink)
        stream, body = request.stream, request.body or b""
        del request
        self._users += 1
        try:
            for _ in range(_ATTEMPTS):  # the server has not processed a request that it refused
                connection = self._usable() or await self._connected(until)
                try:
                    return await connection.exchange(block, body if stream is None else stream.parts(), reading)
                except RefusedStreamError:
                    pass
            raise UnsentError("it refused the request")
        finally:
            self._users -= 1

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def _block(self, request: HttpRequest) -> bytes:
        """Return the header block of a request. Raises `ValueError`."""
        fields = [request_fields(request.method, self._scheme, self._authority, checked_target(request)), self._accepts]
        fields += [field(name, value) for name, value in request.headers]
        length = body_length(request)
        if length is not None:
            fields.append(field("content-length", str(length)))
        return b"".join(fields)

    def _usable(self) -> Http2Connection | None:
        """Return a connection that accepts a request now, or None. Idle connections that accept no more requests are closed."""
        for connection in self._connections:
            if connection.usable:
                return connection
        for connection in [one for one in self._connections if not one.busy and not one.is_open]:
            self._connections.remove(connection)
            connection.close()
        return None

    async def _connected(self, until: float) -> Http2Connection:
        """Return a new connection. Calls that need one at the same time share it."""
        while True:
            if self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
                self._connecting.add_done_callback(self._was_connected)
            connecting = self._connecting
            try:
                async with asyncio.timeout_at(until):
                    made = await asyncio.shield(connecting)
            except asyncio.CancelledError:
                if connecting.cancelled() and self._closed:
                    raise UnsentError("the client was closed") from None
                raise
            except OSError as error:
                raise connection_failure(error) from None
            found = self._usable()
            if found is not None:
                return found
            if not made.is_open:
                raise UnsentError(_OTHER_PROTOCOL)
            if not made.busy:
                raise UnsentError("it accepts no request at the moment")

    def _was_connected(self, connecting: asyncio.Task[Http2Connection]) -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()  # there may be no waiter any more

    async def _connect(self) -> Http2Connection:
        loop = asyncio.get_running_loop()
        context, name = (None, None) if self._tls is None else (self._tls(), self._host)
        connection: Http2Connection | None = None
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                if self._tunnel is not None:
                    connection = await self._tunnel.connect(self._made, context, name)
                else:
                    _, connection = await loop.create_connection(
                        self._made, self._address, self._port, ssl=context, server_hostname=name
                    )
                await connection.ready
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._connections.append(connection)
        return connection

    def _made(self) -> Http2Connection:
        return Http2Connection(self._timeouts.first_byte_s)
