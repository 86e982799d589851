"""Connections: the name is resolved, every address is put to the policy, and only a checked address is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.http import Url

from toolgen.clock import Clock
from toolgen.execute.base import Destination, Permit
from toolgen.execute.http.client import Client as Connections
from toolgen.execute.http.client import trusting_the_system
from toolgen.execute.http.client_certificates import ClientCertificate, context_of
from toolgen.execute.http.connection import Times
from toolgen.execute.patience import Timeouts
from toolgen.execute.resolver import Resolver, system_resolver
from toolgen.model.verdict import Allow, Ask, Deny

__all__ = ["Dialer", "Refusal", "Resolver", "Target", "Timeouts", "system_resolver"]

_CACHED_S = 5.0
_MOST_NAMES = 256
_MOST_CLIENTS = 64
_MOST_ADDRESSES = 8


class Refusal(Exception):  # noqa: N818 - a decision, not a fault
    """The policy does not let the gateway connect there."""

    def __init__(self, verdict: Deny) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a URL leads, as the client that will connect reads it: no second parser can be of another opinion."""

    scheme: str
    host: str
    port: int
    literal: bool

    @classmethod
    def of(cls, url: str) -> Target:
        """Raises `ValueError` for a URL the client would change before sending, or that is not http(s)."""
        parsed = Url(url)
        query = parsed.query_string
        target = (parsed.path or "/") + (f"?{query}" if query is not None else "")
        _, _, written = url.partition("://")
        slash = written.find("/")
        asked = written[slash:] if slash >= 0 else "/" + written[written.find("?") :] if "?" in written else "/"
        host, port = parsed.host_str, parsed.port_or_known_default
        if target != asked or parsed.scheme not in {"http", "https"} or not host or port is None or parsed.username:
            raise ValueError("the URL cannot be sent as it is written")
        return cls(scheme=parsed.scheme, host=host.strip("[]"), port=port, literal=parsed.domain is None)


@dataclass(slots=True, kw_only=True)
class _Entry:
    client: Client
    users: int = 0


class Dialer:
    """Hands out a client per origin and checked address. Names are remembered for a few seconds, verdicts never."""

    def __init__(self, *, permit: Permit, resolver: Resolver, timeouts: Timeouts, clock: Clock) -> None:
        self._permit = permit
        self._resolver = resolver
        self._timeouts = timeouts
        self._clock = clock
        self._names: OrderedDict[tuple[str, int], tuple[float, tuple[str, ...]]] = OrderedDict()
        self._asking: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}
        self._clients: OrderedDict[tuple[Target, str, int, ClientCertificate | None], _Entry] = OrderedDict()
        self._connections: OrderedDict[tuple[Target, str, int, ClientCertificate | None], Connections] = OrderedDict()
        self._times = Times(connect_s=timeouts.connect_s, read_s=timeouts.first_byte_s, total_s=timeouts.total_s)
        self._context: ssl.SSLContext | None = None

    async def addresses(self, target: Target) -> tuple[str, ...]:
        """Every address of the target, each of them permitted. Raises `Refusal`, `TimeoutError`, and `OSError` when there is none."""
        if target.literal:
            found: tuple[str, ...] = (target.host,)
        else:
            found = await self._resolve(target.host, target.port)
        if not found:
            raise OSError("the name has no address")
        for address in found:
            # One forbidden address among several is how a name is rebound, so it is enough to refuse them all.
            self._check(Destination(host=target.host, port=target.port, address=address))
        return found

    def _check(self, destination: Destination) -> None:
        match self._permit(destination):
            case Allow():
                return
            case Deny() as verdict:
                raise Refusal(verdict)
            case Ask(rule=rule, reason=reason):
                raise Refusal(Deny(rule=rule, reason=reason, code="egress_refused"))

    async def _resolve(self, host: str, port: int) -> tuple[str, ...]:
        now = self._clock.monotonic()
        known = self._names.get((host, port))
        if known and known[0] > now:
            return known[1]
        async with asyncio.timeout(self._timeouts.connect_s):
            found = await asyncio.shield(self._asked(host, port))
        literals = tuple(str(ipaddress.ip_address(address.partition("%")[0])) for address in found)[:_MOST_ADDRESSES]
        self._names[host, port] = (now + _CACHED_S, literals)
        while len(self._names) > _MOST_NAMES:
            self._names.popitem(last=False)
        return literals

    def _asked(self, host: str, port: int) -> asyncio.Task[Sequence[str]]:
        """One question for all who want to know: one that is not answered holds a thread, of which all names together have few."""
        key = (host, port)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._found(host, port))

            def done(task: asyncio.Task[Sequence[str]]) -> None:
                self._asking.pop(key, None)
                if not task.cancelled():
                    task.exception()  # nobody may be waiting any more

            asking.add_done_callback(done)
        return asking

    async def _found(self, host: str, port: int) -> Sequence[str]:
        return await self._resolver(host, port)

    def connections(
        self, target: Target, address: str, among: int = 1, certificate: ClientCertificate | None = None
    ) -> Connections:
        """The connections to this address and no other that showed this certificate, for requests whose answers are read whole.

        `among` so many addresses the time to connect is divided: together they take no longer than one.
        """
        key = (target, address, among, certificate)
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = Connections(
                scheme=target.scheme,
                host=target.host,
                port=target.port,
                address=address,
                times=replace(self._times, connect_s=self._times.connect_s / among),
                tls=self._tls if certificate is None else partial(context_of, certificate),
            )
            self._let_go()
        else:
            self._connections.move_to_end(key)
        return found

    def _tls(self) -> ssl.SSLContext:
        """Made when it is first needed: reading the system's authorities takes some milliseconds."""
        if self._context is None:
            self._context = trusting_the_system()
        return self._context

    def _let_go(self) -> None:
        """Closes what was used longest ago and is idle, where there is too much."""
        idle = [key for key, connections in self._connections.items() if connections.idle][:-1]
        for key in idle[: max(0, len(self._connections) - _MOST_CLIENTS)]:
            self._connections.pop(key).close()

    @asynccontextmanager
    async def client(
        self, target: Target, address: str, among: int = 1, certificate: ClientCertificate | None = None
    ) -> AsyncIterator[Client]:
        """The client that connects to this address and no other, and shows this certificate, for the length of one request.

        `among` so many addresses the time to connect is divided: together they take no longer than one.
        """
        key = (target, address, among, certificate)
        entry = self._clients.get(key)
        if entry is None:
            entry = self._clients[key] = _Entry(client=self._build(target, address, among, certificate))
        self._clients.move_to_end(key)
        entry.users += 1
        try:
            await self._evict()
            yield entry.client
        finally:
            entry.users -= 1

    def _build(self, target: Target, address: str, among: int, certificate: ClientCertificate | None) -> Client:
        builder = (
            ClientBuilder()
            .no_proxy()
            .follow_redirects(False)
            .referer(False)
            .default_cookie_store(False)
            .error_for_status(False)
            .http1_only()
            .connect_timeout(timedelta(seconds=self._timeouts.connect_s / among))
            .read_timeout(timedelta(seconds=self._timeouts.first_byte_s))
            .timeout(timedelta(seconds=self._timeouts.total_s))
        )
        if not target.literal:
            builder = builder.resolve(target.host, address, target.port)
        if certificate is not None:
            builder = builder.identity_pem(certificate.identity)
            if certificate.authorities:
                builder = builder.add_root_certificate_pem(certificate.authorities)
        return builder.build()

    async def _evict(self) -> None:
        idle = [key for key, entry in self._clients.items() if not entry.users]
        for key in idle[: max(0, len(self._clients) - _MOST_CLIENTS)]:
            await self._clients.pop(key).client.close()

    async def close(self) -> None:
        """Closes every connection, and asks for no name any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        while self._connections:
            self._connections.popitem()[1].close()
        while self._clients:
            _, entry = self._clients.popitem()
            await entry.client.close()
