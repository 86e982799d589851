"""HTTP/1.1 client over httpcore for an answer that is read for as long as it lasts, such as an event stream.

It connects to one checked address, or through the policy's proxy; it follows no redirects and
decodes nothing. A request that is cancelled closes its connection.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpcore

from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.reply import UnsentError
from toolgen.connectors.http.request_builder import HttpRequest

if TYPE_CHECKING:
    from toolgen.connectors.http.proxy_tunnel import Tunnel

__all__ = ["StreamingClient", "StreamingReply"]


class StreamingReply:
    """Status and media type of an answer, and its body as it comes."""

    def __init__(self, response: httpcore.Response) -> None:
        self.status = response.status
        kinds = [value for name, value in response.headers if name.lower() == b"content-type"]
        self.media_type = kinds[0].decode("latin-1").partition(";")[0].strip().lower() if kinds else ""
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in parts as they arrive. Raises `OSError` if the connection breaks."""
        return _told(self._response)


class StreamingClient:
    """Client for one exchange with the address."""

    def __init__(
        self, address: str, timeouts: Timeouts, context: ssl.SSLContext | None, tunnel: Tunnel | None = None
    ) -> None:
        network = _OneAddress(address, tunnel)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=context, network_backend=network, max_connections=1)
        self._timeouts = {
            "connect": timeouts.connect_s,
            "read": timeouts.first_byte_s,
            "write": timeouts.first_byte_s,
            "pool": timeouts.connect_s,
        }

    @asynccontextmanager
    async def send(self, request: HttpRequest) -> AsyncIterator[StreamingReply]:
        """Send a request. Raises `OSError` if there is no answer, and `ValueError` if the request cannot be sent."""
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers]
        try:
            async with (
                self._pool,
                self._pool.stream(
                    request.method,
                    request.url,
                    headers=headers,
                    content=request.body,
                    extensions={"timeout": self._timeouts},
                ) as response,
            ):
                yield StreamingReply(response)
        except httpcore.LocalProtocolError:
            raise ValueError("the request cannot be sent") from None
        except UnsentError as error:
            raise OSError(error.reason) from None
        except _BROKEN as error:
            raise OSError(type(error).__name__) from None


_BROKEN = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


async def _told(response: httpcore.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_stream():
            yield chunk
    except _BROKEN as error:
        raise OSError(type(error).__name__) from None


class _OneAddress(httpcore.AsyncNetworkBackend):
    """Network backend that connects to one address for any name; TLS checks the certificate by the name in the URL."""

    def __init__(self, address: str, tunnel: Tunnel | None) -> None:
        self._address = address
        self._tunnel = tunnel
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if self._tunnel is not None:
            return await self._tunnel.stream(self._network, timeout)
        return await self._network.connect_tcp(self._address, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
