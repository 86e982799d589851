"""Tunnels through the proxy of the policy (CONNECT, RFC 9110 section 9.3.6), for asyncio connections and for streams of httpcore.

The proxy is told a host, a port and its own credentials, and nothing else. It gets one answer per connection: a success with an empty rest,
or an error. There is no way around it: a proxy that cannot be reached is an error of the call.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

import httpcore

from toolgen.connectors.http.message import could_begin, read_head
from toolgen.connectors.http.reply import BrokenError, ProxyError
from toolgen.core.files import read_file
from toolgen.model.egress_proxy import EgressProxy, ProxyRoute
from toolgen.model.secret import parse_reference

__all__ = ["Tunnel", "authorities_of"]

_MAX_HEAD_SIZE = 16_384
_MAX_CA_SIZE = 4 * 1024 * 1024
_MAX_PASSWORD_SIZE = 4096
_CHUNK = 4096
_UNACCEPTED = frozenset({401, 407})  # tinyproxy answers 401
_REFUSED = frozenset({403, 405, 451})
_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)
Reach: TypeAlias = Callable[[EgressProxy], Awaitable[Sequence[str]]]
"""Addresses of the proxy, each of them permitted. Raises `ProxyError`."""


class Tunnel:
    """Tunnel to one place through a proxy. Every failure is a `ProxyError`, whose text names neither the proxy nor a secret."""

    def __init__(self, route: ProxyRoute, port: int, reach: Reach) -> None:
        self.proxy = route.proxy
        self._reach = reach
        host = f"[{route.host}]" if ":" in route.host else route.host
        self._place = f"{host}:{port}"

    def late(self) -> ProxyError:
        """Return the failure of a proxy that takes too long."""
        return ProxyError("the proxy opened no tunnel in time", late=True)

    async def connect(
        self, made: Callable[[], _Protocol], context: ssl.SSLContext | None, name: str | None
    ) -> _Protocol:
        """Return the protocol of a new connection, over TLS to the host called `name` if there is a context."""
        loop = asyncio.get_running_loop()
        transport, answer = await self._dialled(loop)
        try:
            transport.write(self._request())
            await answer.done
            answer.check_silence()
            protocol = made()
            if context is None:
                transport.set_protocol(protocol)
                protocol.connection_made(transport)
                return protocol
            if (secured := await loop.start_tls(transport, protocol, context, server_hostname=name)) is not None:
                protocol.connection_made(secured)
        except BaseException:
            transport.abort()
            raise
        return protocol

    async def _dialled(self, loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Transport, _AnswerReader]:
        failure: OSError | None = None
        for address in await self._reach(self.proxy):
            try:
                return await loop.create_connection(
                    lambda: _AnswerReader(loop, ConnectAnswer()),
                    address,
                    self.proxy.port,
                    ssl=_proxy_context(self.proxy),
                    server_hostname=self.proxy.host if self.proxy.scheme == "https" else None,
                )
            except TimeoutError:
                raise
            except OSError as error:
                failure = error
        raise self._unreached(failure)

    async def stream(self, network: httpcore.AsyncNetworkBackend, timeout: float | None) -> httpcore.AsyncNetworkStream:  # noqa: ASYNC109 - httpcore's signature
        """Return a stream of httpcore to the place, without TLS."""
        failure: Exception | None = None
        for address in await self._reach(self.proxy):
            try:
                stream = await network.connect_tcp(address, self.proxy.port, timeout)
            except httpcore.ConnectTimeout:
                raise self.late() from None
            except httpcore.ConnectError as error:
                failure = error
                continue
            try:
                return await self._asked(stream, timeout)
            except BaseException:
                await stream.aclose()
                raise
        raise self._unreached(failure)

    async def _asked(
        self,
        stream: httpcore.AsyncNetworkStream,
        timeout: float | None,  # noqa: ASYNC109 - httpcore's signature
    ) -> httpcore.AsyncNetworkStream:
        context, answer = _proxy_context(self.proxy), ConnectAnswer()
        try:
            if context is not None:
                stream = await stream.start_tls(context, self.proxy.host, timeout)
            await stream.write(self._request(), timeout)
            while not answer.feed(data := await stream.read(_CHUNK, timeout)):
                if not data:
                    raise self._closed()
        except httpcore.TimeoutException:
            raise self.late() from None
        except (httpcore.NetworkError, OSError) as error:
            raise self._unreached(error) from None
        return stream

    async def connected_socket(self) -> socket.socket:
        """Return a connected socket, for libraries that take one. A proxy over TLS has none."""
        if self.proxy.scheme == "https":
            raise ProxyError("WebSockets go through proxies at http:// URLs only")
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for address in await self._reach(self.proxy):
            made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, (address, self.proxy.port))
            except OSError as error:
                made.close()
                failure = error
                continue
            try:
                await self._ask_on(made)
            except BaseException:
                made.close()
                raise
            return made
        raise self._unreached(failure)

    async def _ask_on(self, made: socket.socket) -> None:
        loop, answer = asyncio.get_running_loop(), ConnectAnswer()
        await loop.sock_sendall(made, self._request())
        while not answer.feed(data := await loop.sock_recv(made, _CHUNK)):
            if not data:
                raise self._closed()

    def _request(self) -> bytes:
        return f"CONNECT {self._place} HTTP/1.1\r\nHost: {self._place}\r\n{_credentials(self.proxy)}\r\n".encode()

    def _closed(self) -> ProxyError:
        return ProxyError("the proxy closed the connection before it answered")

    def _unreached(self, error: Exception | None) -> ProxyError:
        why = ""
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f" (its certificate was not accepted, {error.verify_message})"
        elif isinstance(error, OSError) and error.strerror:
            why = f" ({error.strerror})"
        return ProxyError(f"the proxy cannot be reached{why}")


class ConnectAnswer:
    """Answer to CONNECT as it arrives."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> bool:
        """Return True once the tunnel is open. Raises `ProxyError` for every other answer, and for one with more data after it: data that
        comes before a client has sent something is no part of a TLS or HTTP exchange."""
        self._pending += data
        self._size += len(data)
        while (end := self._pending.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._pending[: end + 4])
            del self._pending[: end + 4]
            status = self._status(head)
            if status is None:
                continue
            if not 200 <= status < 300:
                raise _error(status)
            if self._pending:
                raise ProxyError("the proxy sent data of its own in the tunnel")
            return True
        if self._size > _MAX_HEAD_SIZE or not could_begin(self._pending, 0):
            raise self._invalid()
        return False

    def _status(self, head: bytes) -> int | None:
        try:
            found = read_head(head)
        except BrokenError:
            raise self._invalid() from None
        return None if found is None else found.status

    def _invalid(self) -> ProxyError:
        return ProxyError("the proxy answered with something that is not HTTP/1.1")


def _error(status: int) -> ProxyError:
    """Return the failure of a tunnel that the proxy did not open. Agents do not learn the address of the proxy."""
    if status in _UNACCEPTED:
        return ProxyError(f"the proxy does not accept the gateway's credentials ({status})")
    if status in _REFUSED:
        return ProxyError(f"the proxy refuses connections to the service ({status})", code="egress_refused")
    if 300 <= status < 400:
        return ProxyError(f"the proxy answered with a redirect ({status}), which is not followed")
    return ProxyError(f"the proxy could not connect to the service ({status})", late=status == 504)


class _AnswerReader(asyncio.Protocol):
    """Connection to the proxy until its answer is complete."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: ConnectAnswer) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self._answer = answer
        self._more = False

    def data_received(self, data: bytes) -> None:
        if self.done.done():
            self._more = True
            return
        try:
            if self._answer.feed(data):
                self.done.set_result(None)
        except ProxyError as error:
            self.done.set_exception(error)

    def check_silence(self) -> None:
        """Raise `ProxyError` if the proxy has sent data after its answer."""
        if self._more:
            raise ProxyError("the proxy sent data of its own in the tunnel")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ProxyError("the proxy closed the connection before it answered"))
        if not self.done.cancelled():
            self.done.exception()  # there may be no waiter any more


def authorities_of(proxy: EgressProxy | None) -> str:
    """Return the PEM authorities that are trusted as well behind a proxy. Raises `ProxyError` if the file cannot be read any more."""
    if proxy is None or not proxy.ca:
        return ""
    try:
        return read_file(proxy.ca, _MAX_CA_SIZE).decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise ProxyError("the file of egress.ca cannot be read") from None


def _proxy_context(proxy: EgressProxy) -> ssl.SSLContext | None:
    return _made_context(authorities_of(proxy)) if proxy.scheme == "https" else None


@lru_cache(maxsize=4)
def _made_context(authorities: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if authorities:
        try:
            context.load_verify_locations(cadata=authorities)
        except (ssl.SSLError, ValueError):
            raise ProxyError("the file of egress.ca holds no PEM certificates") from None
    return context


def _credentials(proxy: EgressProxy) -> str:
    """Return the header line with the credentials of the gateway at the proxy (Basic, RFC 7617)."""
    if not proxy.username:
        return ""
    password = _password(proxy.password)
    pair = base64.b64encode(f"{proxy.username}:{password}".encode()).decode()
    return f"Proxy-Authorization: Basic {pair}\r\n"


def _password(reference: str) -> str:
    """Resolve a reference to a variable or a file. Other references are refused, because they would need a connection themselves."""
    if not reference:
        return ""
    found = parse_reference(reference)
    value = os.environ.get(found.locator, "") if found.provider == "env" else ""
    if found.provider == "file":
        try:
            value = read_file(found.locator, _MAX_PASSWORD_SIZE).decode().strip()
        except (OSError, ValueError):
            value = ""
    if not value or len(value) > _MAX_PASSWORD_SIZE:
        raise ProxyError(f"the password of the proxy, {reference}, cannot be resolved", code="secret_unavailable")
    return value
