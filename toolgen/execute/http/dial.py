"""Connections: the name is resolved, every address is put to the policy, and only a checked address is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.http import Url

from toolgen.clock import Clock
from toolgen.execute.base import Destination, Permit
from toolgen.model.verdict import Allow, Ask, Deny

__all__ = ["Dialer", "Refusal", "Resolver", "Target", "Timeouts", "system_resolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port in, IP address literals out; raises OSError when the name does not exist."""

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
class Timeouts:
    """Seconds: to connect, between two pieces of an answer (the first included), and altogether."""

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 60.0


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


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The operating system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


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
        self._clients: OrderedDict[tuple[Target, str], _Entry] = OrderedDict()

    async def addresses(self, target: Target) -> tuple[str, ...]:
        """Every address of the target, each of them permitted. Raises `Refusal`, and `OSError` when there is none."""
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
            found = await self._resolver(host, port)
        literals = tuple(str(ipaddress.ip_address(address.partition("%")[0])) for address in found)[:_MOST_ADDRESSES]
        self._names[host, port] = (now + _CACHED_S, literals)
        while len(self._names) > _MOST_NAMES:
            self._names.popitem(last=False)
        return literals

    @asynccontextmanager
    async def client(self, target: Target, address: str) -> AsyncIterator[Client]:
        """The client that connects to this address and no other, for the length of one request."""
        key = (target, address)
        entry = self._clients.get(key)
        if entry is None:
            entry = self._clients[key] = _Entry(client=self._build(target, address))
        self._clients.move_to_end(key)
        entry.users += 1
        try:
            await self._evict()
            yield entry.client
        finally:
            entry.users -= 1

    def _build(self, target: Target, address: str) -> Client:
        builder = (
            ClientBuilder()
            .no_proxy()
            .follow_redirects(False)
            .referer(False)
            .default_cookie_store(False)
            .error_for_status(False)
            .http1_only()
            .connect_timeout(timedelta(seconds=self._timeouts.connect_s))
            .read_timeout(timedelta(seconds=self._timeouts.read_s))
            .timeout(timedelta(seconds=self._timeouts.total_s))
        )
        if not target.literal:
            builder = builder.resolve(target.host, address, target.port)
        return builder.build()

    async def _evict(self) -> None:
        idle = [key for key, entry in self._clients.items() if not entry.users]
        for key in idle[: max(0, len(self._clients) - _MOST_CLIENTS)]:
            await self._clients.pop(key).client.close()

    async def close(self) -> None:
        """Closes every connection."""
        while self._clients:
            _, entry = self._clients.popitem()
            await entry.client.close()
