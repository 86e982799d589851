"""Requests to one origin at one checked address: connections are opened to that address alone, kept while they are good, and pinned to it.

There is no proxy, no redirect and no cookie here: nothing but what the caller gives is sent, and to nobody else.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections import deque
from collections.abc import Callable

from toolgen.execute.http.coding import ACCEPTED
from toolgen.execute.http.connection import Connection, Reply, Times
from toolgen.execute.http.places import Places
from toolgen.execute.http.wire import Request

__all__ = ["Client", "UnsentError", "trusting_the_system", "written"]

_MOST_RESTING = 256
_DEFAULT_PORT = {"http": 80, "https": 443}
_TOKENS = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUES = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*\Z")
_TARGET = re.compile(r"/[\x21-\x7e]*\Z")
# What frames and routes a message is said here and nowhere else.
_OWN = frozenset(
    {
        "host",
        "accept-encoding",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
_EXPECTS_BODY = frozenset({"POST", "PUT", "PATCH"})


class UnsentError(Exception):
    """No connection was made, so nothing was sent. `reason` is the system's word for it; `late` says that it was not refused but slow."""

    def __init__(self, reason: str, *, late: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.late = late


class Client:
    """The connections to one origin at one address. An address is connected to, never a name. `tls` is asked where the scheme is https."""

    def __init__(
        self, *, scheme: str, host: str, port: int, address: str, times: Times, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._tls = tls if scheme == "https" else None
        self._host = host
        self._port = port
        self._address = address
        self._times = times
        self._places = Places()
        authority = f"[{host}]" if ":" in host else host
        self._authority = authority if port == _DEFAULT_PORT[scheme] else f"{authority}:{port}"
        self._resting: deque[Connection] = deque(maxlen=_MOST_RESTING)
        self._busy: set[Connection] = set()

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return not self._busy

    async def send(self, request: Request, limit: int, until: float = math.inf) -> Reply:
        """Sends a request once; its answer is awaited until `until` (the loop's time) at most.

        Raises `ValueError` for what HTTP cannot send, `UnsentError`, and what `Connection.exchange` raises.
        """
        data = written(request, self._authority)
        connection = self._rested() or await self._connect()
        self._busy.add(connection)
        try:
            return await connection.exchange(request.method.encode("ascii"), data, limit, until)
        finally:
            self._busy.discard(connection)
            if connection.usable:
                self._rest(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Closes every connection, those in use too."""
        for connection in (*self._resting, *self._busy):
            connection.close()
        self._resting.clear()

    def _rested(self) -> Connection | None:
        """The connection that was used last, if it is still good; the others are left to go stale."""
        while self._resting:
            connection = self._resting.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def _rest(self, connection: Connection) -> None:
        if len(self._resting) == _MOST_RESTING:
            self._resting.popleft().close()
        self._resting.append(connection)

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        context, name = (None, None) if self._tls is None else (self._tls(), self._host)
        try:
            async with asyncio.timeout(self._times.connect_s):
                _, made = await loop.create_connection(
                    lambda: Connection(self._times, self._places),
                    self._address,
                    self._port,
                    ssl=context,
                    server_hostname=name,
                )
        except TimeoutError:
            raise UnsentError("", late=True) from None
        except ssl.SSLCertVerificationError as error:
            raise UnsentError(f"its certificate was not accepted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise UnsentError(f"TLS failed: {error.reason or 'no reason was given'}") from None
        except OSError as error:
            raise UnsentError(error.strerror or type(error).__name__) from None
        return made


def written(request: Request, authority: str) -> bytes:
    """The bytes of a request. Raises `ValueError` for a method, target or header that would be read as something else."""
    names, values = [], []
    for name, value in request.headers:
        if name.lower() in _OWN:
            raise ValueError("a header says what the connection says itself")
        names.append(name)
        values.append(value)
    if not _TOKENS.match("".join([request.method, *names])) or not request.method or not all(names):
        raise ValueError("a method or the name of a header is no token")
    if not _VALUES.match("".join(values)):
        raise ValueError("a header holds a control character")
    target = _target(request.url)
    if not _TARGET.match(target):
        raise ValueError("the URL holds what cannot be sent as it is")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {authority}", f"Accept-Encoding: {ACCEPTED}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    body = request.body
    if body is not None or request.method in _EXPECTS_BODY:  # RFC 9110, section 8.6
        lines.append(f"Content-Length: {len(body or b'')}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + (body or b"")


def _target(url: str) -> str:
    """What stands behind the origin."""
    _, _, rest = url.partition("://")
    slash, question = rest.find("/"), rest.find("?")
    if 0 <= question < slash or slash < 0:
        return "/" + rest[question:] if question >= 0 else "/"
    return rest[slash:]


def trusting_the_system() -> ssl.SSLContext:
    """The system's certificate authorities, names checked, TLS 1.2 or newer."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
