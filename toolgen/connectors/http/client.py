"""HTTP client for one origin at one checked address: connections are opened to that address only, and reused while they are valid.

It follows no redirects and keeps no cookies. Only the request is sent, only to that address or through the proxy that the policy names.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.connection import ClientConnection
from toolgen.connectors.http.connection_watch import ConnectionWatch
from toolgen.connectors.http.message import ACCEPTED
from toolgen.connectors.http.reply import BodyListener, RawResponse, Sink, UnsentError
from toolgen.connectors.http.request_builder import Headers, HttpRequest

if TYPE_CHECKING:
    from toolgen.connectors.http.proxy_tunnel import Tunnel

__all__ = [
    "OWN_HEADERS",
    "PLACES",
    "Http1Client",
    "OriginClient",
    "authority_of",
    "body_length",
    "checked_target",
    "connection_failure",
    "request_bytes",
]

PLACES = 4
"""Maximum number of long answers of one source that are read at once: the others wait, unread, at their servers, which bounds the
memory."""

OWN_HEADERS = frozenset(
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
        "keep-alive",
        "proxy-connection",
    }
)
"""Headers that frame and route a message: only the client sets them."""

_MAX_RESTING = 256
_DEFAULT_PORT = {"http": 80, "https": 443}
_TOKENS = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUES = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*\Z")
_TARGET = re.compile(r"/[\x21-\x7e]*\Z")
_EXPECTS_BODY = frozenset({"POST", "PUT", "PATCH"})
# Beginning of a body whose first line cannot become the first line of a request, whatever follows it (RFC 9112, section 3): before its
# first space it has a character that no method contains.
_NO_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*[^!#$%&'*+.^_`|~0-9A-Za-z\s-]")
_MAX_KEPT_SIZE = 16_384


class OriginClient(Protocol):
    """Client for one origin at one address."""

    @property
    def idle(self) -> bool:
        """Return True if no request is in flight."""

    async def send(
        self,
        request: HttpRequest,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> RawResponse:
        """Send a request once and read its answer, at most `limit` bytes of body, before `until` (the loop's time).

        Raises `ValueError` for a request that HTTP cannot send, `UnsentError`, `BrokenError`, `TimedOutError` and `UndecodableError`. None
        of them has a text about the request: its URL may contain a credential.
        """

    def close(self) -> None:
        """Close every connection, also those in use."""


class Http1Client:
    """HTTP/1.1 client. `tls` returns the context of a connection if the scheme is https; `tunnel` connects through a proxy."""

    def __init__(
        self,
        *,
        scheme: str,
        host: str,
        port: int,
        address: str,
        timeouts: Timeouts,
        tls: Callable[[], ssl.SSLContext],
        tunnel: Tunnel | None = None,
    ) -> None:
        self._tls = tls if scheme == "https" else None
        self._tunnel = tunnel
        self._host, self._port, self._address = host, port, address
        self._timeouts = timeouts
        self._authority = authority_of(scheme, host, port)
        self._resting: deque[ClientConnection] = deque()
        self._busy: set[ClientConnection] = set()
        self._connecting = 0
        self._closed = False
        self._watch = ConnectionWatch()

    @property
    def idle(self) -> bool:
        return not self._busy and not self._connecting

    async def send(
        self,
        request: HttpRequest,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> RawResponse:
        stream = request.stream
        last = stream is not None or (request.body is not None and not _keeps(request.body))
        data = request_bytes(request, self._authority, last=last)
        now = asyncio.get_running_loop().time()
        if until <= now:
            raise UnsentError("", late=True)
        until = min(until, now + self._timeouts.total_s)
        connection = self._rested() or await self._connect(until)
        self._busy.add(connection)
        try:
            answer = connection.exchange(
                data,
                method=request.method,
                limit=limit,
                places=places,
                until=until,
                listener=listener,
                sink=sink,
                last=last,
                more=None if stream is None else stream.parts(),
            )
            del data, request  # the request data is not needed while the answer is awaited
            return await answer
        finally:
            self._busy.discard(connection)
            if self._closed:  # the client was closed meanwhile, so the connection is not kept
                connection.close()
            elif connection.is_open:
                if len(self._resting) == _MAX_RESTING:
                    self._resting.popleft().close()
                self._resting.append(connection)

    def close(self) -> None:
        self._closed = True
        for connection in (*self._resting, *self._busy):
            connection.close()
        self._resting.clear()

    def _rested(self) -> ClientConnection | None:
        """Return the connection that was used last, if it is still usable; the others expire."""
        while self._resting:
            connection = self._resting.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    async def _connect(self, until: float) -> ClientConnection:
        loop = asyncio.get_running_loop()
        context, name = (None, None) if self._tls is None else (self._tls(), self._host)
        self._connecting += 1
        try:
            async with asyncio.timeout_at(min(until, loop.time() + self._timeouts.connect_s)):
                if self._tunnel is not None:
                    return await self._tunnel.connect(self._made, context, name)
                _, made = await loop.create_connection(
                    self._made,
                    self._address,
                    self._port,
                    ssl=context,
                    server_hostname=name,
                )
        except OSError as error:
            if self._tunnel is not None and isinstance(error, TimeoutError):
                raise self._tunnel.late() from None
            raise connection_failure(error) from None
        finally:
            self._connecting -= 1
        return made

    def _made(self) -> ClientConnection:
        return ClientConnection(self._timeouts.first_byte_s, self._watch)


def connection_failure(error: OSError) -> UnsentError:
    """Return the failure of a connection that was not made."""
    match error:
        case TimeoutError():
            return UnsentError("", late=True)
        case ssl.SSLCertVerificationError():
            return UnsentError(f"its certificate was not accepted: {error.verify_message}", distrusted=True)
        case ssl.SSLError():
            return UnsentError(f"TLS failed: {error.reason or 'no reason was given'}")
        case _:
            return UnsentError(error.strerror or type(error).__name__)


def authority_of(scheme: str, host: str, port: int) -> str:
    """Return the authority of an origin, without the scheme's own port."""
    authority = f"[{host}]" if ":" in host else host
    return authority if port == _DEFAULT_PORT[scheme] else f"{authority}:{port}"


def _keeps(body: bytes) -> bool:
    """Return True if the connection may be reused after a request with this body.

    A server that answers before it has read the body may take the rest of the body for the next request, or for its beginning, and answer
    another caller's call with it. A client cannot tell which servers do so. So a body that could contain a request is the last one on its
    connection, as is a body that is too long to be sent in one piece.
    """
    return not body or (
        len(body) <= _MAX_KEPT_SIZE and b"\n" not in body and b"\r" not in body and _NO_METHOD.match(body) is not None
    )


def request_bytes(request: HttpRequest, authority: str, *, last: bool = False) -> bytes:
    """Return the bytes of a request, with the wish to close the connection if it is the `last` one.

    Raises `ValueError` for a method, target or header that would be read as something else.
    """
    target = checked_target(request)
    method, body = request.method, request.body
    lines = f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\nAccept-Encoding: {ACCEPTED}\r\n{_header_lines(request.headers)}"
    if body is not None or request.stream is not None or method in _EXPECTS_BODY:
        lines += f"Content-Length: {body_length(request)}\r\n"
    if last:
        lines += "Connection: close\r\n"
    return f"{lines}\r\n".encode() + (body or b"")


@lru_cache(maxsize=64)
def _header_lines(headers: Headers) -> str:
    """Return the lines of the headers, which are the same for most requests of a tool. Raises `ValueError` as `checked_target` does."""
    names, values, lines = [], [], []
    for name, value in headers:
        if not name or name.lower() in OWN_HEADERS:
            raise ValueError("a header is reserved for the connection, or has no name")
        names.append(name)
        values.append(value)
        lines.append(f"{name}: {value}\r\n")
    if names and not _TOKENS.match("".join(names)):
        raise ValueError("the method or the name of a header is not a token")
    if not _VALUES.match("".join(values)):
        raise ValueError("a header holds a control character")
    return "".join(lines)


def body_length(request: HttpRequest) -> int | None:
    """Return the length that a request states for its body; None for one that has no body and needs none (RFC 9110, section 8.6)."""
    if request.stream is not None:
        return request.stream.size
    if request.body is not None or request.method in _EXPECTS_BODY:
        return len(request.body or b"")
    return None


def checked_target(request: HttpRequest) -> str:
    """Return the target of a request: its URL without the origin.

    Raises `ValueError` for a method, target or header that would be read as something else.
    """
    method, (_, _, rest) = request.method, request.url.partition("://")
    slash, question = rest.find("/"), rest.find("?")
    target = rest[slash:]
    if 0 <= question < slash or slash < 0:  # no path
        target = "/" + rest[question:] if question >= 0 else "/"
    if not method or not _TOKENS.match(method):
        raise ValueError("the method or the name of a header is not a token")
    _header_lines(request.headers)
    if not _TARGET.match(target):
        raise ValueError("the URL contains a character that must be percent-encoded")
    return target
