"""HTTP requests and responses without a framework, and the checks that every request passes before its body is used."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from toolgen.core.errors import AuditError, StateError
from toolgen.gateway.calls.json_body import MAX_BODY_SIZE, encode, identifier
from toolgen.model.result import Error
from toolgen.model.trace_context import Trace, parse_trace
from toolgen.model.unavailable import fault_error
from toolgen.pipeline.middleware import CallerConnection

__all__ = [
    "ANY_HOST",
    "KEY_HEADER",
    "LOOPBACK_HOSTS",
    "Answer",
    "CredentialInUrl",
    "EventStream",
    "FileResponse",
    "Handlers",
    "LimitedResource",
    "Receive",
    "Rejected",
    "Request",
    "Response",
    "Send",
    "agreed_key",
    "check_host",
    "header_key",
    "host_name",
    "json_response",
    "read_json_body",
    "read_path",
    "refusal",
    "retry_after",
    "too_crowded",
]

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

KEY_HEADER = b"idempotency-key"
ANY_HOST = frozenset({"*"})
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
SLOWEST_BODY_S = 30.0
_SLOWEST_RATE = 8_192
_CROWDED_S = 5

# Two readers of one request could use different copies of these headers.
_SINGLE = frozenset(
    {
        b"x-on-behalf-of", b"x-toolset", b"authorization", b"host", b"origin", b"content-type", b"content-length", b"content-encoding",
        b"x-conversation-id", b"idempotency-key",
    }
)  # fmt: skip
_TOKEN_NAMES = frozenset(
    {
        "access_token", "access-token", "accesstoken", "api_key", "api-key", "apikey", "auth", "auth_token", "authorization", "bearer",
        "bearer_token", "client_secret", "id_token", "jwt", "key", "password", "secret", "token", "x-api-key",
    }
)  # fmt: skip
# Segments of RFC 3986, section 3.3, without parameters, and not only dots.
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+"
_PATH = re.compile(rf"/(?:{_SEGMENT}/)*(?:{_SEGMENT})?\Z")
# Characters that need no encoding (RFC 3986, section 2.3), characters that end a segment, and control characters.
_NEVER_ENCODED = re.compile(
    r"%(?:2[dDeEfF]|3[0-9]|4[1-9a-fA-F]|5[0-9aAcCfF]|6[1-9a-fA-F]|7[0-9aAeEfF]|[01][0-9a-fA-F])"
)
# String of RFC 9651, as draft-ietf-httpapi-idempotency-key-header requires; most clients send the plain key.
_KEY_STRING = re.compile(r'"((?:[^"\\]|\\["\\])*)"\Z')
_ESCAPED = re.compile(r"\\(.)")
_JSON = b"application/json"
_UPLOAD = "upload files with POST /v1/files, and send their uri in place of their content"
_SHORTER = "send a shorter file, or have the operator raise gateway.files.largest"
_CLOSE: Headers = ((b"connection", b"close"),)
_PLAIN: Headers = (
    (b"content-type", _JSON),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """Complete answer, not streamed."""

    status: int = 200
    body: bytes = b""
    headers: Headers = ()
    media_type: bytes = b""  # of a body that is not JSON

    def fields(self) -> Headers:
        """Return all headers."""
        length = (b"content-length", b"%d" % len(self.body))
        if self.media_type:
            return ((b"content-type", self.media_type), *_PLAIN[1:], *self.headers, length)
        return (*(_PLAIN if self.body else _PLAIN[1:]), *self.headers, length)


class EventStream(msgspec.Struct, frozen=True, kw_only=True):
    """Response of Server-Sent Events, of unknown length."""

    events: AsyncIterator[bytes]
    status: int = 200
    headers: Headers = ()

    def fields(self) -> Headers:
        """Return all headers."""
        kind = (b"content-type", b"text/event-stream")
        return (kind, *_PLAIN[1:], (b"x-accel-buffering", b"no"), *self.headers)


class FileResponse(msgspec.Struct, frozen=True, kw_only=True):
    """File of `size` bytes as an answer, sent part by part. Its headers have its media type."""

    parts: AsyncIterator[bytes]
    size: int
    status: int = 200
    headers: Headers = ()

    def fields(self) -> Headers:
        """Return all headers."""
        return (*_PLAIN[1:], *self.headers, (b"content-length", b"%d" % self.size))


Answer: TypeAlias = Response | EventStream | FileResponse
Send: TypeAlias = Callable[[Answer], Awaitable[None]]
"""Function that sends an answer. Returns after all of it was written, or the client has disconnected."""
Receive: TypeAlias = Callable[[], Awaitable[tuple[bytes, bool] | None]]
"""Function that returns the next part of a body, and True if there is more; None after a disconnect."""


class LimitedResource(Enum):
    """Exhausted resource."""

    ADDRESS = "this address has too many connections or requests"
    ALL = "there are too many connections"


class Rejected(Exception):  # noqa: N818  (an answer, not an error of the server)
    """Refusal of a request. The text is for the client and never repeats a value from the request."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        suggestion: str = "",
        pointer: str | None = None,
        headers: Headers = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.suggestion = suggestion
        self.pointer = pointer
        self.headers = headers if retry_after_s is None else (*headers, retry_after(retry_after_s))
        self.retry_after_s = retry_after_s

    @classmethod
    def of(cls, status: int, error: Error) -> Rejected:
        """Return a rejection with the fields of an error."""
        return cls(status, error.code, error.message, suggestion=error.suggestion, retry_after_s=error.retry_after_s)

    @classmethod
    def by_fault(cls, fault: StateError | AuditError, message: str = "") -> Rejected:
        """Return the refusal of a request that needs state or an audit log that cannot be used now."""
        error = fault_error(fault, message)
        return cls.of(500 if error.retry_after_s is None else 503, error)


class CredentialInUrl(Rejected):
    """Request whose URL contains, or could contain, a credential."""

    def __init__(self) -> None:
        super().__init__(
            400,
            "bad_request",
            "a credential is never accepted in the URL, because logs and histories store it",
            suggestion="send it as `Authorization: Bearer …`, and replace this one",
        )


class Request:
    """Request from either adapter. `headers` holds the first of each name, in lower case; `repeated` the names that occur more than once;
    `lines` all of them.

    `peer` is the address at the other end of the connection, whatever headers contain; `client` the address that counts as the sender,
    which a trusted proxy may have stated. `caller_connection` is the connection of the client, `crowded` the exceeded limit: then only
    health checks and callers that were accepted before are answered. `accepted` is True after an accepted credential: such connections are
    closed last. `shared` is True for a web page of another origin that may read the answer. `body` is the whole body if it was received,
    otherwise the source of its parts; `unread` is True until they are read.
    """

    __slots__ = (
        "_body",
        "accepted",
        "caller_connection",
        "client",
        "crowded",
        "headers",
        "lines",
        "method",
        "path",
        "peer",
        "query",
        "repeated",
        "shared",
        "unread",
    )

    def __init__(
        self,
        line: tuple[str, str, bytes],
        lines: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        repeated: frozenset[bytes],
        body: bytes | Receive,
        peer: str,
    ) -> None:
        self.method, self.path, self.query = line
        self.lines = lines
        self.headers = headers
        self.repeated = repeated
        self.peer = self.client = peer
        self.crowded: LimitedResource | None = None
        self.accepted = self.shared = False
        self.caller_connection = CallerConnection()
        self._body = body
        self.unread = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers

    def finish(self, answer: Answer, more: Headers = ()) -> Answer:
        """Return the answer with these headers. The connection ends if the body was not read, so that no client holds it open with one."""
        if self.unread and isinstance(answer, Response) and _CLOSE[0] not in answer.headers:
            more = (*_CLOSE, *more)
        return msgspec.structs.replace(answer, headers=(*answer.headers, *more)) if more else answer

    def text(self, name: bytes) -> str:
        """Return a header's value, "" if it is absent."""
        return self.headers.get(name, b"").decode("latin-1").strip()

    def check(self) -> None:
        """Refuse repeated security headers. Raises `CredentialInUrl` for a credential in the URL (RFC 6750 section 2.3, RFC 9700 section
        4.3.2)."""
        if self.repeated and (twice := self.repeated & _SINGLE):
            raise Rejected(400, "bad_request", f"the header {min(twice).decode()} was sent more than once")
        if self.query and any(name.lower() in _TOKEN_NAMES for name, _ in self._pairs()):
            raise CredentialInUrl

    def take(self, *methods: str) -> None:
        """Refuse all other methods."""
        if self.method not in methods:
            allow = ((b"allow", ", ".join(methods).encode("ascii")),)
            raise Rejected(405, "bad_request", f"this route takes {' and '.join(methods)}", headers=allow)

    def parameters(self, *known: str) -> Mapping[str, str]:
        """Return the query as a mapping. Unknown and repeated names are refused."""
        found: dict[str, str] = {}
        for name, value in self._pairs() if self.query else ():
            if name not in known:
                raise Rejected(
                    400,
                    "validation",
                    "the query has a parameter that this route does not have",
                    suggestion=_known(known),
                )
            if name in found:
                raise Rejected(400, "validation", f"the query parameter {name} was sent more than once")
            found[name] = value
        return found

    def trace(self) -> Trace | None:
        """Trace context of the headers; None if they contain none or two."""
        if b"traceparent" not in self.headers or b"traceparent" in self.repeated:
            return None
        state = "" if b"tracestate" in self.repeated else self.text(b"tracestate")
        return parse_trace(self.text(b"traceparent"), state)

    async def body(self) -> bytes:
        """Return the whole body, up to 1 MiB and 30 seconds."""
        body = self._body
        if not isinstance(body, bytes):
            try:
                async with asyncio.timeout(SLOWEST_BODY_S):
                    body = await _read(body)
            except TimeoutError:
                raise Rejected(408, "bad_request", "the body did not arrive in time", headers=_CLOSE) from None
        if len(body) > MAX_BODY_SIZE:
            raise _too_large()
        self.unread = False
        return body

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """Yield the body part by part, up to `most` bytes, each within 30 seconds, and at 8 KiB/s or faster after the first 30 seconds.

        Raises `Rejected`.
        """
        length = self.headers.get(b"content-length")
        if length is not None and int(length) > most:
            raise _too_large(most, _SHORTER)
        body, size = self._body, 0
        if isinstance(body, bytes):
            self.unread = False
            yield body
            return
        more, clock = True, asyncio.get_running_loop().time
        begun = clock()
        while more:
            due = begun + SLOWEST_BODY_S + size / _SLOWEST_RATE
            try:
                async with asyncio.timeout_at(min(due, clock() + SLOWEST_BODY_S)):
                    piece = await body()
            except TimeoutError:
                raise Rejected(408, "bad_request", "the body did not arrive in time", headers=_CLOSE) from None
            if piece is None:
                raise Rejected(400, "bad_request", "the client left before its body was complete")
            size += len(piece[0])
            if size > most:
                raise _too_large(most, _SHORTER)
            more = piece[1]
            self.unread = more
            if piece[0]:
                yield piece[0]

    def _pairs(self) -> list[tuple[str, str]]:
        try:
            return parse_qsl(self.query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=32)
        except ValueError:
            raise Rejected(400, "bad_request", "the query is not form-encoded text") from None


@lru_cache(maxsize=512)
def read_path(text: str) -> str:
    """Decode the path of a request. Raises `Rejected` for a spelling that another parser may take for another path.

    A proxy in front may authorise by path. `/%6detrics`, `//metrics`, `/x/../metrics` and `/metrics;x` are `/metrics` for some parsers and
    not for others, so each path has one spelling: an octet is encoded only if it must be.
    """
    if text == "*":  # OPTIONS (RFC 9112, section 3.2.4)
        return text
    if _PATH.match(text) and not _NEVER_ENCODED.search(text):
        try:
            return unquote(text, errors="strict") if "%" in text else text
        except UnicodeDecodeError:
            pass
    raise Rejected(
        400,
        "bad_request",
        "the path is not in its plain spelling",
        suggestion="encode only what has to be, and leave out empty segments, dots, backslashes and parameters with ;",
    )


class Handlers(Protocol):
    """Request handlers (`App.serve`)."""

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""


async def _read(receive: Receive) -> bytes:
    """Return the body, read up to the first byte beyond its limit."""
    received, more = bytearray(), True
    while more and len(received) <= MAX_BODY_SIZE:
        piece = await receive()
        if piece is None:
            raise Rejected(400, "bad_request", "the client left before its body was complete")
        received += piece[0]
        more = piece[1]
    return bytes(received)


async def read_json_body(request: Request) -> bytes:
    """Return the bytes of a body with the type JSON, uncompressed and not too large."""
    kind = request.headers.get(b"content-type", b"")
    if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
        raise Rejected(415, "bad_request", "the body must be sent as Content-Type: application/json")
    if b"content-encoding" in request.headers and request.text(b"content-encoding").lower() != "identity":
        raise Rejected(415, "bad_request", "a compressed body is not accepted", headers=_CLOSE)
    length = request.headers.get(b"content-length")
    if length is not None and length.isdigit() and (len(length) > 9 or int(length) > MAX_BODY_SIZE):
        raise _too_large()
    return await request.body()


def header_key(request: Request) -> str:
    """Return the key of the header, "" if there is none. Raises `Rejected` for an invalid key, because a client that sends one relies on
    it."""
    if KEY_HEADER not in request.headers:
        return ""
    text = request.text(KEY_HEADER)
    if quoted := _KEY_STRING.match(text):
        text = _ESCAPED.sub(r"\1", quoted[1])
    elif text.startswith('"'):
        text = ""
    if not identifier(text):
        raise Rejected(400, "validation", "Idempotency-Key must be 1 to 128 visible ASCII characters")
    return text


def agreed_key(request: Request, said: str, pointer: str) -> str:
    """Return the key of header and body (`said`). Raises `Rejected` if the two differ."""
    if KEY_HEADER not in request.headers:
        return said
    key = header_key(request)
    if said and key != said:
        raise Rejected(
            400,
            "validation",
            "the Idempotency-Key header and the key in the body differ, so it is uncertain which one is meant",
            suggestion="send one of them",
            pointer=pointer,
        )
    return key


def host_name(request: Request) -> str:
    """Return the host name of a request, in lower case and without its port; "" for a Host header that is none."""
    return _netloc(request.text(b"host"))[0]


def check_host(request: Request, hosts: frozenset[str], *, shared: bool = False) -> None:
    """Refuse a Host that is not this gateway's (421), and a web page of another origin (403) unless it is `shared` with that page.

    Together they end DNS rebinding: a page whose own name was pointed at this address still sends that name in Host and Origin.
    """
    host, port = _netloc(request.text(b"host"))
    if not host or not ("*" in hosts or host in hosts):
        raise Rejected(421, "bad_request", "this gateway does not answer to that Host")
    origin = request.headers.get(b"origin")
    if origin is None or shared:
        return
    parts = origin.decode("latin-1").strip().partition("://")
    origin_host, origin_port = _netloc(parts[2]) if parts[0] in {"http", "https"} else ("", None)
    same_name = origin_host == host or (origin_host in hosts and host in hosts)
    if not origin_host or not same_name or _port(origin_port, parts[0]) != _port(port, parts[0]):
        raise Rejected(403, "forbidden", "pages of another origin may not call this gateway")


def json_response(value: object, *, status: int = 200, headers: Headers = ()) -> Response:
    """Return a JSON answer."""
    return Response(status=status, body=encode(value), headers=headers)


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """Return the header `Retry-After`, in whole seconds (RFC 9110, section 10.2.3)."""
    return (b"retry-after", b"%d" % max(1, math.ceil(seconds)))


def refusal(rejected: Rejected) -> Response:
    """Return the JSON for a rejected request: an error in the form of the envelope, and the pointer for a faulty body."""
    error: dict[str, object] = {"code": rejected.code, "message": rejected.message}
    if rejected.suggestion:
        error["suggestion"] = rejected.suggestion
    if rejected.retry_after_s is not None:
        error["retry_after_s"] = rejected.retry_after_s
    if rejected.pointer is not None:
        error["pointer"] = rejected.pointer
    return json_response({"status": "refused", "error": error}, status=rejected.status, headers=rejected.headers)


def too_crowded(crowded: LimitedResource = LimitedResource.ALL) -> Rejected:
    """Return the rejection for a client while a limit is reached."""
    status, code = (429, "rate_limited") if crowded is LimitedResource.ADDRESS else (503, "overloaded")
    return Rejected(status, code, f"{crowded.value} now", retry_after_s=_CROWDED_S)


def _too_large(most: int = MAX_BODY_SIZE, suggestion: str = _UPLOAD) -> Rejected:
    return Rejected(
        413,
        "bad_request",
        f"the body is larger than {most} bytes",
        suggestion=suggestion,
        headers=_CLOSE,
    )


def _known(known: tuple[str, ...]) -> str:
    return f"use {', '.join(known)}" if known else "leave the query away"


_MAX_NETLOC_LENGTH = 300  # a name has at most 253 characters (RFC 1035, section 2.3.4)


def _netloc(text: str) -> tuple[str, int | None]:
    """Return host (lower case, without brackets) and port of `host[:port]`; ("", None) for any other text, such as one with a
    path or a user."""
    return _parted(text) if len(text) <= _MAX_NETLOC_LENGTH else ("", None)


@lru_cache(maxsize=256)
def _parted(text: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit("//" + text)
        if parts.netloc != text or parts.username is not None or parts.password is not None:
            return "", None
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None


def _port(port: int | None, scheme: str) -> int:
    return port if port is not None else (443 if scheme == "https" else 80)
