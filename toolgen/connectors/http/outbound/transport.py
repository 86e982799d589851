"""Requests that are no tool calls, over httpx: the policy checks every address before it is dialled, and redirects are not followed."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpcore
import httpx
from msgspec.structs import replace

from toolgen.connectors.http.outbound.request import (
    OutboundError,
    OutboundRequest,
    OutboundResponse,
    RefusedError,
    UnreachableError,
    Via,
)
from toolgen.connectors.http.outbound.tls import context_of
from toolgen.connectors.http.proxy_tunnel import Tunnel, authorities_of
from toolgen.connectors.http.reply import UnsentError
from toolgen.core.errors import connection_failure
from toolgen.model.egress_proxy import EgressProxy, ProxyRoute
from toolgen.model.verdict import Allow

__all__ = ["RoutedTransport", "exchange"]


# At DEBUG httpcore logs the headers of answers, in which a server may repeat secrets that were sent to it.
logging.getLogger("httpcore").setLevel(logging.INFO)

_MAX_SIZE = 256 * 1024
_STEP_S = 5.0
_MAX_ADDRESSES = 4


async def exchange(asked: OutboundRequest, via: Via) -> OutboundResponse:
    """Send one request and return its response, as `client.ask` describes."""
    host = urlsplit(asked.url).hostname or "the host"
    try:
        async with (
            asyncio.timeout(via.total_s),
            httpx.AsyncClient(
                transport=RoutedTransport.of(via, asked.url),
                trust_env=False,
                follow_redirects=False,
                timeout=_STEP_S,
            ) as client,
        ):
            request = client.build_request(asked.method, asked.url, headers=dict(asked.headers), content=asked.body)
            # Small answers need no compression, and without it there are no decompression bombs.
            request.headers["accept-encoding"] = "identity"
            response = await client.send(request, stream=True)
            try:
                body = await _body(response) if asked.reads else b""
            finally:
                await response.aclose()
    except TimeoutError:
        raise UnreachableError(f"{host} did not answer in time") from None
    except (httpx.TimeoutException, httpcore.TimeoutException):
        raise UnreachableError(f"{host} did not answer in time") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise UnreachableError(f"no answer from {host} ({connection_failure(error)[0]})") from None
    return OutboundResponse(
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        body=body,
        retry_after=response.headers.get("retry-after", ""),
        dpop_nonce=response.headers.get("dpop-nonce", ""),
        cache_control=response.headers.get("cache-control", ""),
        age=response.headers.get("age", ""),
    )


def proxy_of(via: Via, host: str, port: int) -> EgressProxy | None:
    """Return the proxy that leads to a place; None for one that is connected to directly. Raises `RefusedError`."""
    if via.permit is None:
        return None
    verdict = via.permit(replace(via.destination, host=host, port=port))
    if not isinstance(verdict, Allow):
        raise RefusedError(verdict.reason)
    return verdict.proxy


def _trusting(via: Via, url: str) -> Via:
    """Return a route that trusts the authorities of the proxy as well, if one leads to the URL."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        own = authorities_of(proxy_of(via, parts.hostname or "", port))
    except UnsentError as error:
        raise OutboundError(error.reason) from None
    return replace(via, tls=replace(via.tls, authorities=f"{via.tls.authorities}\n{own}")) if own else via


async def _body(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise OutboundError("the answer is compressed, which was not requested")
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > _MAX_SIZE:
            raise OutboundError(f"the answer is larger than {_MAX_SIZE} bytes")
        parts.append(part)
    return b"".join(parts)


class RoutedTransport(httpx.AsyncBaseTransport):
    """Transport of httpx over a pool that connects only where the policy permits; TLS still checks the certificate by the name in
    the URL."""

    def __init__(self, via: Via) -> None:
        self._network = _Network(via)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context_of(via.tls), network_backend=self._network, max_connections=1
        )

    @classmethod
    def of(cls, via: Via, url: str) -> RoutedTransport:
        """Return the transport to a URL, which trusts the authorities of the proxy that leads there as well. Raises `OutboundError`."""
        return cls(_trusting(via, url))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=answer.status, headers=answer.headers, stream=_BodyStream(answer), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
        await self._network.close()


class _BodyStream(httpx.AsyncByteStream):
    """Response body in the form that httpx requires."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class _Network(httpcore.AsyncNetworkBackend):
    """Network backend that resolves a name, checks every address with the policy, and connects to a checked one."""

    def __init__(self, via: Via) -> None:
        self._via = via
        self._network = httpcore.AnyIOBackend()
        self._stream: httpcore.AsyncNetworkStream | None = None  # the pool has one connection at a time

    async def close(self) -> None:
        """Close the connection. The pool does not know one whose TLS handshake was cancelled."""
        if self._stream is not None:
            await self._stream.aclose()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        route = await self._route(host, port)
        if isinstance(route, ProxyRoute):
            stream = await self._tunnelled(route, port, timeout)
        else:
            stream = await self._direct(await self._checked(host, port), port, timeout, local_address, socket_options)
        await self.close()
        self._stream = stream
        return stream

    async def _direct(
        self,
        addresses: Iterable[str],
        port: int,
        timeout: float | None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or OSError("the name has no address")

    async def _route(self, host: str, port: int) -> ProxyRoute | None:
        """Return the way through the proxy of the policy; None if there is none, or the place is reached directly."""
        proxy = proxy_of(self._via, host.strip("[]"), port)
        if proxy is None:
            return None
        if proxy.resolve == "proxy":
            return ProxyRoute(proxy, host.strip("[]"))
        return ProxyRoute(proxy, (await self._checked(host, port, proxied=True))[0])

    async def _tunnelled(
        self,
        route: ProxyRoute,
        port: int,
        timeout: float | None,  # noqa: ASYNC109 - httpcore's signature
    ) -> httpcore.AsyncNetworkStream:
        via = replace(self._via, destination=replace(self._via.destination, service="proxy"))

        async def reach(proxy: EgressProxy) -> list[str]:
            return await _Network(via)._checked(proxy.host, proxy.port)

        try:
            return await Tunnel(route, port, reach).stream(self._network, timeout)
        except UnsentError as error:
            raise UnreachableError(error.reason) from None

    async def _checked(self, host: str, port: int, *, proxied: bool = False) -> list[str]:
        plain = host.strip("[]")
        try:
            found = [str(ip_address(plain))]
        except ValueError:
            try:
                found = [str(ip_address(one.partition("%")[0])) for one in await self._via.resolver(plain, port)]
            except (socket.gaierror, UnicodeError):  # a label of more than 63 characters is the latter
                raise UnreachableError(f"the name {plain} cannot be resolved") from None
        if self._via.permit is not None:
            for address in found:  # one forbidden address among several is how a name is rebound
                verdict = self._via.permit(
                    replace(self._via.destination, host=plain, port=port, address=address, proxied=proxied)
                )
                if not isinstance(verdict, Allow):
                    raise RefusedError(verdict.reason)
        return found[:_MAX_ADDRESSES]

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
