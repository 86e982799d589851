"""HTTP/2 over pyreqwest, for sources that ask for it.

A client connects to one checked address. It follows nothing, keeps no cookie, asks no proxy and decodes nothing.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError, RequestTimeoutError
from pyreqwest.response import Response

from toolgen.execute.base import Timeouts
from toolgen.execute.http.client import OWN_HEADERS
from toolgen.execute.http.connection import MAX_IDLE_S, ORDINARY
from toolgen.execute.http.message import ACCEPTED, BodyReader, pass_on
from toolgen.execute.http.reply import BodyListener, BrokenError, RawResponse, Sink, TimedOutError, UnsentError
from toolgen.execute.http.request_builder import HttpRequest
from toolgen.execute.http.tls import ClientCertificate

__all__ = ["Http2Client", "library_builder"]

_MAX_RESTING = 256
# pyreqwest calls every failure before the answer's head a ConnectError, also when the request was already on its way; what happened stands
# in the causes that hyper reports, so only this one of them counts as "nothing was sent".
_CONNECTING = "client error (Connect)"
_DISTRUSTED = "invalid peer certificate"  # as rustls begins


def library_builder(
    timeouts: Timeouts, host: str | None, address: str, port: int, certificate: ClientCertificate | None
) -> ClientBuilder:
    """Of a client that connects to this address alone; `host` is the name that stands for it, if there is one."""
    builder = (
        ClientBuilder()
        .no_proxy()
        .follow_redirects(False)
        .referer(False)
        .default_cookie_store(False)
        .error_for_status(False)
        .gzip(False)  # bodies are decoded within their cap, and all of them: see `content_encoding`
        .deflate(False)
        .brotli(False)
        .zstd(False)
        .pool_max_idle_per_host(_MAX_RESTING)
        .pool_idle_timeout(timedelta(seconds=MAX_IDLE_S))
        .connect_timeout(timedelta(seconds=timeouts.connect_s))
        .read_timeout(timedelta(seconds=timeouts.first_byte_s))
        .timeout(timedelta(seconds=timeouts.total_s))
    )
    if host is not None:
        builder = builder.resolve(host, address, port)
    if certificate is not None:
        builder = builder.identity_pem(certificate.identity)
        if certificate.authorities:
            builder = builder.add_root_certificate_pem(certificate.authorities)
    return builder


class Http2Client:
    """Speaks HTTP/2 and nothing else. When a call is cancelled, the library waits for its answer by itself and throws it away."""

    def __init__(self, builder: ClientBuilder) -> None:
        self._client = builder.http2_prior_knowledge().build()
        self._users = 0

    @property
    def idle(self) -> bool:
        return not self._users

    async def send(
        self,
        request: HttpRequest,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> RawResponse:
        builder = self._client.request(request.method, request.url).header("Accept-Encoding", ACCEPTED)
        for name, value in request.headers:
            if name.lower() in OWN_HEADERS:
                raise ValueError("a header says what the connection says itself")
            builder = builder.header(name, value, is_sensitive=True)
        if listener is not None:
            builder = builder.streamed_read_buffer_limit(0)  # it would wait for the beginning of the body to fill up
        if request.stream is not None:
            builder = builder.body_stream(request.stream.parts())
        elif request.body:
            builder = builder.body_bytes(request.body)
        if until < math.inf:
            builder = builder.timeout(timedelta(seconds=max(0.0, until - asyncio.get_running_loop().time())))
        self._users += 1
        try:
            async with builder.build_streamed() as response:
                return await _read(response, request.method, limit, places, listener, sink)
        except PyreqwestError as error:
            raise _ending(error) from None
        finally:
            self._users -= 1

    def close(self) -> None:
        """Its connections end when the library lets go of the client."""
        del self._client


async def _read(
    response: Response,
    method: str,
    limit: int,
    places: asyncio.Semaphore,
    listener: BodyListener | None,
    sink: Sink | None,
) -> RawResponse:
    status, headers = response.status, _headers(response)
    if status < 200:
        raise BrokenError
    if method == "HEAD":
        return RawResponse(status=status, headers=headers, body=b"", truncated=False)
    if sink is not None and not sink.wants(status, headers):
        sink = None
    body, streams = (
        BodyReader(headers.get("content-encoding", ""), limit, None if sink is None else min(sink.after, limit)),
        False,
    )
    listener = listener if listener is not None and listener.wants(headers) else None
    placed = False
    try:
        while not body.full and (chunk := await response.body_reader.read_chunk()) is not None:
            body.feed(chunk.to_bytes())
            if listener is not None and listener.enough(body.news()):
                return RawResponse(status=status, headers=headers, body=body.so_far(), truncated=False)
            if body.size > ORDINARY and not placed:
                placed = await places.acquire()
            if sink is not None and body.paused:
                if not streams and not sink.begin(body.so_far()):
                    sink = None
                    body.collect()
                    continue
                if not streams:
                    streams = True
                    body.stream(sink.most)
                if not await pass_on(body, sink):
                    return RawResponse(status=status, headers=headers, body=b"", truncated=True)
    finally:
        if placed:
            places.release()
    return RawResponse(status=status, headers=headers, body=body.end(), truncated=body.full)


def _headers(response: Response) -> dict[str, str]:
    """Return the headers that can be read. The library returns no text for a value that is not ASCII."""
    headers: dict[str, str] = {}
    for name in response.headers:
        try:
            text = response.get_header(name)
        except ValueError:
            text = None
        if text is not None:
            headers.setdefault(name, text)
        elif name == "content-encoding":
            raise BrokenError
    return headers


def _ending(error: PyreqwestError) -> Exception:
    details = getattr(error, "details", None)
    causes = details.get("causes") if isinstance(details, dict) else None
    said = [str(cause.get("message", "")) for cause in causes or ()]
    late = isinstance(error, RequestTimeoutError)
    if _CONNECTING in said:
        # The innermost cause ("Connection refused") is the system's or the TLS library's, and never holds the URL.
        reason = said[-1] if "://" not in said[-1] else ""
        distrusted = reason.startswith(_DISTRUSTED)
        if distrusted:
            reason = f"its certificate was not accepted: {reason.removeprefix(_DISTRUSTED).strip(': ')}"
        return UnsentError("" if late else reason, late=late, distrusted=distrusted)
    if isinstance(error, ValueError):
        return ValueError("the request cannot be built")
    return TimedOutError() if late else BrokenError()
