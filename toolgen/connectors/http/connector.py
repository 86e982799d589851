"""Connections to hosts: the name is resolved, the policy decides about every address, and only a permitted address is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import Http1Client, OriginClient
from toolgen.connectors.http.target import Target
from toolgen.connectors.http.tls import ClientCertificate, tls_context
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.core.clock import Clock
from toolgen.model.verdict import Allow, Ask, Deny

if TYPE_CHECKING:
    from toolgen.connectors.http.streaming_client import StreamingClient

__all__ = [
    "Dialer",
    "EgressRefusal",
    "Resolver",
    "Target",
    "Timeouts",
    "system_resolver",
]


_CACHED_S = 5.0
_MAX_NAMES = 256
_MAX_CLIENTS = 64
_MAX_ADDRESSES = 8


class EgressRefusal(Exception):  # noqa: N818 - a decision, not a fault
    """The policy does not let the gateway connect there."""

    def __init__(self, verdict: Deny) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


_Key: TypeAlias = tuple[Target, str, int, ClientCertificate | None]


class Dialer:
    """Hands out a client per origin and checked address. Names are remembered for a few seconds, verdicts never."""

    def __init__(
        self, *, permit: Permit, resolver: Resolver, timeouts: Timeouts, clock: Clock, http2: bool = False
    ) -> None:
        self._http2 = http2
        self._permit = permit
        self._resolver = resolver
        self._timeouts = timeouts
        self._clock = clock
        self._names: OrderedDict[tuple[str, int], tuple[float, tuple[str, ...]]] = OrderedDict()
        self._asking: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}
        self._clients: OrderedDict[_Key, OriginClient] = OrderedDict()
        self._closed = False
        self._context: ssl.SSLContext | None = None

    async def addresses(self, target: Target) -> tuple[str, ...]:
        """Every address of the target, each of them permitted. Raises `EgressRefusal`, `TimeoutError`, and `OSError` when there is none."""
        if target.literal:
            found: tuple[str, ...] = (target.host,)
        else:
            found = await self._resolve(target.host, target.port)
        if not found:
            raise OSError("the name has no address")
        for address in found:
            # One forbidden address among several is how a name is rebound, so it is enough to refuse them all.
            match self._permit(Destination(host=target.host, port=target.port, address=address)):
                case Allow():
                    pass
                case Deny() as verdict:
                    raise EgressRefusal(verdict)
                case Ask(rule=rule, reason=reason):
                    raise EgressRefusal(Deny(rule=rule, reason=reason, code="egress_refused"))
        return found

    async def _resolve(self, host: str, port: int) -> tuple[str, ...]:
        now = self._clock.monotonic()
        known = self._names.get((host, port))
        if known and known[0] > now:
            return known[1]
        async with asyncio.timeout(self._timeouts.connect_s):
            found = await asyncio.shield(self._asked(host, port))
        literals = tuple(str(ipaddress.ip_address(address.partition("%")[0])) for address in found)[:_MAX_ADDRESSES]
        self._names[host, port] = (now + _CACHED_S, literals)
        while len(self._names) > _MAX_NAMES:
            self._names.popitem(last=False)
        return literals

    def _asked(self, host: str, port: int) -> asyncio.Task[Sequence[str]]:
        """Return the DNS lookup of a host, shared by all callers. A lookup without an answer holds one of the few resolver threads."""
        key = (host, port)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._found(host, port))

            def done(task: asyncio.Task[Sequence[str]]) -> None:
                self._asking.pop(key, None)
                if not task.cancelled():
                    task.exception()  # the waiters may be gone

            asking.add_done_callback(done)
        return asking

    async def _found(self, host: str, port: int) -> Sequence[str]:
        return await self._resolver(host, port)

    def client(
        self, target: Target, address: str, among: int = 1, certificate: ClientCertificate | None = None
    ) -> OriginClient:
        """Return the client that connects to this address only and presents this certificate.

        The connect timeout is divided by `among`, the number of addresses, so that all of them together take no longer than one.
        """
        key = (target, address, among, certificate)
        client = self._clients.get(key)
        if client is None:
            client = self._made(*key)
            if self._closed:  # a last notification may be sent meanwhile; its connection is not kept
                client.close()
                return client
            self._clients[key] = client
            self._let_go()
        else:
            self._clients.move_to_end(key)
        return client

    def _made(self, target: Target, address: str, among: int, certificate: ClientCertificate | None) -> OriginClient:
        timeouts = replace(self._timeouts, connect_s=self._timeouts.connect_s / among)
        if self._http2:
            from toolgen.connectors.http.http2_client import Http2Client  # noqa: PLC0415 - for sources that ask for HTTP/2 alone

            return Http2Client(
                scheme=target.scheme,
                host=target.host,
                port=target.port,
                address=address,
                timeouts=timeouts,
                tls=cache(partial(tls_context, certificate, "h2")),
            )
        return Http1Client(
            scheme=target.scheme,
            host=target.host,
            port=target.port,
            address=address,
            timeouts=timeouts,
            tls=self._tls if certificate is None else cache(partial(tls_context, certificate)),
        )

    def _tls(self) -> ssl.SSLContext:
        """Made when it is first needed: reading the system's authorities takes some milliseconds."""
        if self._context is None:
            self._context = tls_context()
        return self._context

    def streaming_client(
        self, target: Target, address: str, certificate: ClientCertificate | None = None
    ) -> StreamingClient:
        """Return a client for one streamed answer."""
        from toolgen.connectors.http.streaming_client import StreamingClient  # noqa: PLC0415 - slow to import, and for subscriptions alone

        context = self._tls() if certificate is None else tls_context(certificate)
        return StreamingClient(address, self._timeouts, context if target.scheme == "https" else None)

    def _let_go(self) -> None:
        """Close the least recently used idle clients above the limit."""
        idle = [key for key, client in self._clients.items() if client.idle][:-1]
        for key in idle[: max(0, len(self._clients) - _MAX_CLIENTS)]:
            self._clients.pop(key).close()

    async def close(self) -> None:
        """Closes every connection, and asks for no name any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._closed = True
        while self._clients:
            self._clients.popitem()[1].close()
