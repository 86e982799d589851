"""Connections to hosts: the name is resolved, the policy decides about every address, and only permitted addresses are connected to.

If the policy names a proxy, the proxy makes the connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import Http1Client, OriginClient
from toolgen.connectors.http.reply import ProxyError
from toolgen.connectors.http.target import Target
from toolgen.connectors.http.tls import ClientCertificate, tls_context
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.model.egress_proxy import THROUGH_PROXY, EgressProxy, ProxyRoute
from toolgen.model.verdict import Allow, Ask, Deny

if TYPE_CHECKING:
    from toolgen.connectors.http.http2_client import Http2Client
    from toolgen.connectors.http.proxy_tunnel import Tunnel
    from toolgen.connectors.http.streaming_client import StreamingClient

__all__ = [
    "Dialer",
    "EgressRefusal",
    "Resolver",
    "Route",
    "Target",
    "Timeouts",
    "system_resolver",
]


_CACHED_S = 5.0
_MAX_NAMES = 256
_MAX_CLIENTS = 64
_MAX_ADDRESSES = 8


class EgressRefusal(Exception):  # noqa: N818 - a decision, not a fault
    """Refusal by the policy to connect to a place."""

    def __init__(self, verdict: Deny) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


Route: TypeAlias = str | ProxyRoute
"""Address that is connected to, or a way through a proxy."""

_Key: TypeAlias = tuple[Target, Route, int, ClientCertificate | None]


class Dialer:
    """Dialer that returns a client per origin and checked address. Names are cached for a few seconds, verdicts never."""

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

    async def addresses(self, target: Target) -> tuple[Route, ...]:
        """Return every address of the target, all of them permitted, or its way through a proxy. Raises `EgressRefusal`, `TimeoutError`,
        and `OSError` if there is none."""
        found: tuple[str, ...] | EgressProxy
        found = (target.host,) if target.literal else await self._resolve(target.host, target.port)
        if isinstance(found, EgressProxy):
            return await self._proxied(target, found)
        if not found:
            raise OSError("the name has no address")
        for address in found:
            # DNS rebinding uses one forbidden address among several, so one is enough to refuse all.
            match self._permit(Destination(host=target.host, port=target.port, address=address)):
                case Allow():
                    pass
                case Deny(rule=rule) as verdict:
                    if rule != THROUGH_PROXY:
                        raise EgressRefusal(verdict)
                    return await self._proxied(target, self._proxy(target, verdict))
                case Ask(rule=rule, reason=reason):
                    raise EgressRefusal(Deny(rule=rule, reason=reason, code="egress_refused"))
        return found

    def _proxy(self, target: Target, refused: Deny) -> EgressProxy:
        """Return the proxy that leads to a place which is not connected to directly. Raises `EgressRefusal` if there is none."""
        verdict = self._permit(Destination(host=target.host, port=target.port))
        if isinstance(verdict, Allow) and verdict.proxy is not None:
            return verdict.proxy
        raise EgressRefusal(verdict if isinstance(verdict, Deny) else refused)

    async def _proxied(self, target: Target, proxy: EgressProxy) -> tuple[Route, ...]:
        """Return the way through a proxy: to the name, or to each of its addresses that the gateway has resolved and checked."""
        if proxy.resolve == "proxy" or target.literal:
            return (ProxyRoute(proxy, target.host),)
        found = await self._looked_up(target.host, target.port)
        for address in found:
            self._require(Destination(host=target.host, port=target.port, address=address, proxied=True))
        return tuple(ProxyRoute(proxy, address) for address in found)

    def _require(self, destination: Destination) -> None:
        """Raise `EgressRefusal` if a connection is not allowed."""
        match self._permit(destination):
            case Allow():
                pass
            case Deny() as verdict:
                raise EgressRefusal(verdict)
            case Ask(rule=rule, reason=reason):
                raise EgressRefusal(Deny(rule=rule, reason=reason, code="egress_refused"))

    async def _reach(self, proxy: EgressProxy) -> Sequence[str]:
        """Return the addresses of the proxy. Raises `ProxyError`."""
        try:
            found = await self._looked_up(proxy.host, proxy.port)
            for address in found:
                self._require(Destination(host=proxy.host, port=proxy.port, address=address, service="proxy"))
        except EgressRefusal:
            raise ProxyError("the policy does not open the address of its proxy", code="egress_refused") from None
        except TimeoutError:
            raise
        except OSError:
            raise ProxyError("the name of the proxy cannot be resolved") from None
        return found

    async def _resolve(self, host: str, port: int) -> tuple[str, ...] | EgressProxy:
        """Return the addresses of a name, or the proxy for it if the policy names one: then the name is not resolved here.

        Raises `EgressRefusal`.
        """
        known = self._names.get((host, port))
        if known and known[0] > self._clock.monotonic():
            return known[1]
        verdict = self._permit(Destination(host=host, port=port))
        if isinstance(verdict, Deny):
            raise EgressRefusal(verdict)
        if isinstance(verdict, Allow) and verdict.proxy is not None:
            return verdict.proxy
        return await self._looked_up(host, port)

    async def _looked_up(self, host: str, port: int) -> tuple[str, ...]:
        now = self._clock.monotonic()
        known = self._names.get((host, port))
        if known and known[0] > now:
            return known[1]
        try:
            return (str(ipaddress.ip_address(host)),)
        except ValueError:
            pass
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
        self, target: Target, address: Route, among: int = 1, certificate: ClientCertificate | None = None
    ) -> OriginClient:
        """Return the client that connects to this address only, or through this proxy, and presents this certificate.

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

    def _made(self, target: Target, address: Route, among: int, certificate: ClientCertificate | None) -> OriginClient:
        timeouts = replace(self._timeouts, connect_s=self._timeouts.connect_s / among)
        proxy = address.proxy if isinstance(address, ProxyRoute) else None
        made: type[Http1Client | Http2Client] = Http1Client
        tls: Callable[[], ssl.SSLContext]
        if self._http2:
            from toolgen.connectors.http.http2_client import Http2Client  # noqa: PLC0415 - for sources that ask for HTTP/2 alone

            made, tls = Http2Client, cache(partial(_context, certificate, "h2", proxy))
        else:
            own = certificate is not None or proxy is not None
            tls = cache(partial(_context, certificate, "http/1.1", proxy)) if own else self._tls
        return made(
            scheme=target.scheme,
            host=target.host,
            port=target.port,
            address=address.host if isinstance(address, ProxyRoute) else address,
            timeouts=timeouts,
            tls=tls,
            tunnel=self.tunnel(target, address),
        )

    def tunnel(self, target: Target, address: Route) -> Tunnel | None:
        """Return the tunnel through a proxy; None for an address that is connected to directly."""
        if not isinstance(address, ProxyRoute):
            return None
        from toolgen.connectors.http.proxy_tunnel import Tunnel  # noqa: PLC0415 - for policies with a proxy alone

        return Tunnel(address, target.port, self._reach)

    def _tls(self) -> ssl.SSLContext:
        """Return the TLS context, created on first use: reading the system's authorities takes some milliseconds."""
        if self._context is None:
            self._context = tls_context()
        return self._context

    def streaming_client(
        self, target: Target, address: Route, certificate: ClientCertificate | None = None
    ) -> StreamingClient:
        """Return a client for one streamed answer."""
        from toolgen.connectors.http.streaming_client import StreamingClient  # noqa: PLC0415 - slow to import, and for subscriptions alone

        proxy, tunnel = (
            (address.proxy, self.tunnel(target, address)) if isinstance(address, ProxyRoute) else (None, None)
        )
        context: ssl.SSLContext | None = None
        if target.scheme == "https":
            own = certificate is not None or proxy is not None
            context = _context(certificate, "http/1.1", proxy) if own else self._tls()
        return StreamingClient(address if isinstance(address, str) else address.host, self._timeouts, context, tunnel)

    def _let_go(self) -> None:
        """Close the least recently used idle clients above the limit."""
        idle = [key for key, client in self._clients.items() if client.idle][:-1]
        for key in idle[: max(0, len(self._clients) - _MAX_CLIENTS)]:
            self._clients.pop(key).close()

    async def close(self) -> None:
        """Close every connection, and resolve no more names."""
        await cancel(*self._asking.values())
        self._closed = True
        while self._clients:
            self._clients.popitem()[1].close()


def _context(certificate: ClientCertificate | None, protocol: str, proxy: EgressProxy | None) -> ssl.SSLContext:
    """Return the TLS context of connections to a service, which trusts the authorities of the proxy as well."""
    if proxy is None or not proxy.ca:
        return tls_context(certificate, protocol)
    from toolgen.connectors.http.proxy_tunnel import authorities_of  # noqa: PLC0415 - for policies with a proxy alone

    return tls_context(certificate, protocol, authorities_of(proxy))
