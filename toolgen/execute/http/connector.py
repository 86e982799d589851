"""Connections: the name is resolved, every address is put to the policy, and only a checked address is connected to.

Client certificates (mutual TLS): checked once for what they are, and known by a digest so that a new one means new connections.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.http import Url

from toolgen.clock import Clock
from toolgen.errors import SecretError
from toolgen.execute.base import Destination, Permit, Resolver, Timeouts, system_resolver
from toolgen.model.verdict import Allow, Ask, Deny

__all__ = [
    "ClientCertificate",
    "Dialer",
    "Line",
    "Refusal",
    "Resolver",
    "Target",
    "Timeouts",
    "client_certificate",
    "system_resolver",
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientCertificate:
    """A certificate with its chain and its key, and the authorities to believe besides the usual ones. Equal by `digest` alone."""

    digest: str
    identity: bytes
    authorities: bytes

    def __repr__(self) -> str:
        return f"ClientCertificate({self.digest[:12]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientCertificate) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=64)
def client_certificate(certificate: str, key: str, authorities: str) -> ClientCertificate:
    """Reads three PEM texts, the last of which may be "". Raises `SecretError`, with nothing of them in it, for what is none.

    The key must be that of the first certificate: while two files are being replaced, one of them may be newer than the other.
    """
    try:
        chain = load_pem_x509_certificates(certificate.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise SecretError(
            "the client certificate is no PEM certificate", suggestion="name its file as ${file:/path}"
        ) from None
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SecretError("the key of the client certificate is no PEM key without a password") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain[0].public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise SecretError("the client certificate and its key do not belong together", suggestion="replace both")
    if authorities:
        try:
            load_pem_x509_certificates(authorities.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise SecretError("the authorities beside a client certificate are no PEM certificates") from None
    identity = f"{key.strip()}\n{certificate.strip()}\n".encode()
    digest = hashlib.sha256(b"\0".join([identity, authorities.encode()])).hexdigest()
    return ClientCertificate(digest=digest, identity=identity, authorities=authorities.encode())


_CACHED_S = 5.0
_MAX_NAMES = 256
_MAX_CLIENTS = 64
_MAX_ADDRESSES = 8
_MAX_RESTING = 256
_RESTS_S = 30.0
_ON_THE_WAY_S = 1.0  # how much sooner than its server a resting connection is let go of
_KEEP_ALIVE = re.compile(r"(?:^|[,\s])timeout=(\d{1,6})(?![^\s,])", re.IGNORECASE)


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


_Key: TypeAlias = tuple[Target, str, int, ClientCertificate | None]


class Line:
    """The client of one origin at one address, in use for as long as a `with` lasts. Connections rest in it for `rests_s` at most."""

    __slots__ = ("client", "rests_s", "users")

    def __init__(self, client: Client, rests_s: float) -> None:
        self.client = client
        self.rests_s = rests_s
        self.users = 0

    def __enter__(self) -> Client:
        self.users += 1
        return self.client

    def __exit__(self, *_: object) -> None:
        self.users -= 1


class Dialer:
    """Hands out a client per origin and checked address. Names are remembered for a few seconds, verdicts never."""

    def __init__(self, *, permit: Permit, resolver: Resolver, timeouts: Timeouts, clock: Clock) -> None:
        self._permit = permit
        self._resolver = resolver
        self._timeouts = timeouts
        self._clock = clock
        self._names: OrderedDict[tuple[str, int], tuple[float, tuple[str, ...]]] = OrderedDict()
        self._asking: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}
        self._lines: OrderedDict[_Key, Line] = OrderedDict()

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
            match self._permit(Destination(host=target.host, port=target.port, address=address)):
                case Allow():
                    pass
                case Deny() as verdict:
                    raise Refusal(verdict)
                case Ask(rule=rule, reason=reason):
                    raise Refusal(Deny(rule=rule, reason=reason, code="egress_refused"))
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

    def line(self, target: Target, address: str, among: int = 1, certificate: ClientCertificate | None = None) -> Line:
        """The line to this address and no other, on which this certificate is shown.

        `among` so many addresses the time to connect is divided: together they take no longer than one.
        """
        key = (target, address, among, certificate)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(self._build(*key, _RESTS_S), _RESTS_S)
            self._let_go()
        else:
            self._lines.move_to_end(key)
        return line

    def rests(self, line: Line, hint: str) -> None:
        """Takes to heart what an answer on this line says in `Keep-Alive`: a connection that its server closes while a request is on
        its way leaves the outcome of that request unknown. What is on its way now stays so, on the client there was."""
        said = _KEEP_ALIVE.search(hint)
        rests_s = _RESTS_S if said is None else max(0.0, int(said[1]) - _ON_THE_WAY_S)
        if rests_s < line.rests_s:
            key = next((key for key, one in self._lines.items() if one is line), None)
            line.rests_s = rests_s
            if key is not None:
                self._lines[key] = Line(self._build(*key, rests_s), rests_s)

    @asynccontextmanager
    async def client(
        self, target: Target, address: str, among: int = 1, certificate: ClientCertificate | None = None
    ) -> AsyncIterator[Client]:
        """The client of `line`, for the length of one request."""
        with self.line(target, address, among, certificate) as client:
            yield client

    def _build(
        self, target: Target, address: str, among: int, certificate: ClientCertificate | None, rests_s: float
    ) -> Client:
        builder = (
            ClientBuilder()
            .no_proxy()
            .follow_redirects(False)
            .referer(False)
            .default_cookie_store(False)
            .error_for_status(False)
            .http1_only()
            .gzip(False)  # bodies are decoded within their cap, and all of them: see `coding`
            .deflate(False)
            .brotli(False)
            .zstd(False)
            .pool_max_idle_per_host(_MAX_RESTING)
            .pool_idle_timeout(timedelta(seconds=rests_s))
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

    def _let_go(self) -> None:
        """Forgets what was used longest ago and is idle, where there is too much. Its connections end with the client."""
        idle = [key for key, line in self._lines.items() if not line.users][:-1]
        for key in idle[: max(0, len(self._lines) - _MAX_CLIENTS)]:
            del self._lines[key]

    async def close(self) -> None:
        """Closes every connection, and asks for no name any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        while self._lines:
            await self._lines.popitem()[1].client.close()
