"""Blocking client of httpx that goes the way the policy says, for commands that fetch descriptions."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import httpcore
import httpx

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.request import OutboundError, Via
from toolgen.connectors.http.outbound.transport import RoutedTransport
from toolgen.core.errors import connection_failure

__all__ = ["blocking_client", "failure_of"]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def blocking_client(permit: Permit | None, timeout_s: float, headers: Mapping[str, str] = _NO_HEADERS) -> httpx.Client:
    """Return a client that ignores proxy variables and follows no redirect. `permit` decides about every connection, and through which
    proxy it goes; None: all are direct."""
    transport = httpx.HTTPTransport(verify=ssl.create_default_context()) if permit is None else _Blocking(permit)
    return httpx.Client(
        transport=transport, trust_env=False, follow_redirects=False, timeout=timeout_s, headers=dict(headers)
    )


def failure_of(error: BaseException) -> tuple[str, str]:
    """Return the reason why there was no answer, and the advice. The text contains nothing that was sent."""
    if isinstance(error.__cause__, OutboundError):
        return str(error.__cause__), "check egress: in the policy"
    return connection_failure(error)


class _Blocking(httpx.BaseTransport):
    """Transport over an event loop of its own, with one connection per request, because each host may have another route."""

    def __init__(self, permit: Permit) -> None:
        self._via = Via(permit=permit, destination=Destination(host="", port=0))
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _as_httpx():
            transport = RoutedTransport.of(self._via, str(request.url))
            answer = self._runner.run(transport.handle_async_request(request))
        return httpx.Response(
            status_code=answer.status_code,
            headers=answer.headers,
            stream=_BlockingBody(self._runner, transport, answer),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        self._runner.close()


class _BlockingBody(httpx.SyncByteStream):
    def __init__(self, runner: asyncio.Runner, transport: RoutedTransport, answer: httpx.Response) -> None:
        self._runner, self._transport, self._answer = runner, transport, answer

    def __iter__(self) -> Iterator[bytes]:
        parts = self._answer.aiter_raw()

        async def following() -> bytes | None:
            return await anext(parts, None)

        with _as_httpx():
            while (part := self._runner.run(following())) is not None:
                yield part

    def close(self) -> None:
        async def closed() -> None:
            await self._answer.aclose()
            await self._transport.aclose()

        self._runner.run(closed())


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Raise the errors of connections as those of httpx, which its callers expect."""
    try:
        yield
    except OutboundError as error:
        raise httpx.ProxyError(str(error)) from error
    except httpcore.TimeoutException as error:
        raise httpx.ReadTimeout(str(error)) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise httpx.ConnectError(str(error)) from error
