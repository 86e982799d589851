"""TLS of the gateway: its certificate, which is read again when the files change, and connections with a time limit for the handshake."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from toolgen.config.gateway import TlsFiles
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer

__all__ = ["HANDSHAKES", "ServerCertificate", "TlsConnection"]

HANDSHAKES = 512
"""Maximum connections in a handshake: they are not counted as connections yet, and the oldest is closed for a new one."""
_HANDSHAKES_PER_ADDRESS = 64
_HANDSHAKE_S = 10.0
_LOOK_S = 1.0
_SOON = timedelta(days=14)
_READ = 65_536
_RECORD_OF_HANDSHAKE = 0x16
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # ciphers of TLS 1.2; all of TLS 1.3 have forward secrecy
_SAID = b"this port speaks TLS: use https:// in place of http://\n"
_NOT_TLS = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
    % (
        len(_SAID),
        _SAID,
    )
)

_logger = logging.getLogger(__name__)

_Seen = tuple[tuple[int, ...], ...]


class ServerCertificate:
    """TLS certificate for new connections. Raises `ConfigError` if the files cannot be used at the start; later, the old certificate stays
    in use."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._changing = self._stamp()
        self._end: float | None = None
        self.context = self._read()

    def end(self) -> float | None:
        """Return the expiry of the certificate in use, in seconds since the epoch; None if only OpenSSL can read it."""
        return self._end

    @property
    def asks_for_certificates(self) -> bool:
        """Return True if every client has to send a certificate (`client_ca`)."""
        return self._files.client_ca is not None

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """Return the server side of a new connection.

        If clients send certificates, no session is resumed: a resumed one (RFC 5246, section 7.3) skips the certificate. Python has no
        setting for OpenSSL's cache of session ids, which belongs to the context that created an object. So each of these connections is
        created with a separate context, and then gets certificate, authorities and ciphers of `context`.
        """
        if not self.asks_for_certificates:
            return self.context.wrap_bio(incoming, outgoing, server_side=True)
        secured = _context(asks_for_certificates=True).wrap_bio(incoming, outgoing, server_side=True)
        secured.context = self.context
        return secured

    async def watch(self) -> None:
        """Read changed files again after they were stable for a moment, because they are seldom replaced together."""
        while True:
            await asyncio.sleep(_LOOK_S)
            stamp = self._stamp()
            if stamp != self._seen and stamp == self._changing:
                self.refresh()
            self._changing = stamp

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self.context = self._read()
        except ConfigError as error:
            _logger.error("the changed certificate is not used, the one before stays: %s", error)  # noqa: TRY400
        else:
            _logger.info("the certificate was read again, for new connections")

    def _stamp(self) -> _Seen:
        """Return file status values that differ after each change of the files, also if a symbolic link is changed."""
        found: list[tuple[int, ...]] = []
        for path in self._files.paths:
            try:
                stat = path.stat()
            except OSError:
                found.append(())
            else:
                found.append((stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = _context(asks_for_certificates=self.asks_for_certificates)
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        self._check(files.certificate, "certificate")
        self._check(files.key, "key")
        try:
            context.load_cert_chain(files.certificate, files.key, password=self._encrypted)
        except ssl.SSLError as error:
            why = "is not the key of the certificate" if error.reason == "KEY_VALUES_MISMATCH" else "cannot be used"
            raise self._fault(
                "key", f"{files.key.name} {why}", "both must be PEM, the certificate with its chain"
            ) from None
        if files.client_ca is not None:
            self._check(files.client_ca, "client_ca")
            try:
                context.load_verify_locations(files.client_ca)
            except ssl.SSLError:
                raise self._fault("client_ca", f"{files.client_ca.name} contains no certificate in PEM") from None
        self._tell_of_its_end()
        return context

    def _check(self, path: Path, key: str) -> None:
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise self._fault(key, f"{path} cannot be read: {error.strerror}") from None

    def _encrypted(self) -> str:
        raise self._fault(
            "key", "the key is encrypted; the gateway cannot ask for its password", "store it without one"
        )

    def _fault(self, key: str, message: str, suggestion: str = "") -> ConfigError:
        return ConfigError(f"gateway.tls.{key}: {message}", where=self._files.where, suggestion=suggestion)

    def _tell_of_its_end(self) -> None:
        from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - where there is TLS

        self._end = None
        try:
            leaf = load_pem_x509_certificates(self._files.certificate.read_bytes())[0]
        except (ValueError, IndexError, OSError):
            return  # OpenSSL accepts it even so
        until, now = leaf.not_valid_after_utc, datetime.now(UTC)
        self._end = until.timestamp()
        if until - now < _SOON:
            said = "has expired on" if until < now else "expires on"
            _logger.warning("the certificate of the gateway %s %s", said, until.date())


def _context(*, asks_for_certificates: bool) -> ssl.SSLContext:
    """Return a context with the settings that OpenSSL copies into a new connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if asks_for_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


class TlsConnection(asyncio.Protocol):
    """TLS connection: a handshake, of which at most `HANDSHAKES` run at once, then the transport of an `HttpConnection`."""

    __slots__ = (
        "__weakref__",
        "_app",
        "_asks_for_certificate",
        "_begun",
        "_closing",
        "_incoming",
        "_outgoing",
        "_paused",
        "_pending",
        "_raw",
        "_server",
        "_timer",
        "_tls",
        "peer",
        "places",
        "proven",
    )

    def __init__(self, server: HttpServer, certificate: ServerCertificate, pending: Connections) -> None:
        self._server = server
        self._pending = pending
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = certificate.wrap(self._incoming, self._outgoing)
        self._asks_for_certificate = certificate.asks_for_certificates
        self._app: HttpConnection | None = None
        self._raw: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._begun = False
        self._closing = False
        self._paused = False
        self.peer = ""
        self.proven = False
        self.places: tuple[Any, ...] = ()

    @staticmethod
    def pending(proxies: Any = (), most: int = HANDSHAKES) -> Connections:
        """Create the counter of handshakes in progress."""
        return Connections(proxies=proxies, most=most, most_per_address=min(most, _HANDSHAKES_PER_ADDRESS), reserve=0)

    # Called by asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one of TCP
        self._raw = transport
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._timer = asyncio.get_running_loop().call_later(_HANDSHAKE_S, transport.abort)
        self._server.open.add(self)
        self._pending.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._app is not None:
            self._app.connection_lost(exc)
        else:
            self._settled()
            self._server.left()

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None:
        if self._app is not None:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._app is not None:
            self._app.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._begun and data[0] != _RECORD_OF_HANDSHAKE:
            self._closing = True
            self._raw.write(_NOT_TLS)
            self._raw.close()
            return
        self._begun = True
        self._incoming.write(data)
        if self._app is None and not self._handshake():
            return
        self._advance()

    # The handshake

    def _handshake(self) -> bool:
        """Continue the handshake; returns True if it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, OSError) as error:
            _logger.debug("no TLS with %s: %s", self.peer, getattr(error, "reason", None) or type(error).__name__)
            self._flush()  # the TLS alert about the error
            self._closing = True
            self._raw.close()
            return False
        self._flush()
        self._settled()
        if self._asks_for_certificate and (self._tls.session_reused or not self._tls.getpeercert(binary_form=True)):
            self._raw.abort()
            return False
        self._app = HttpConnection(self._server)
        self._app.connection_made(self)  # type: ignore[arg-type]  # all of a transport that it uses
        return not self.is_closing()

    def _settled(self) -> None:
        """Note that the handshake has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._server.open.discard(self)
        self._pending.leave(self)

    def _advance(self) -> None:
        """Forward received data while it is wanted."""
        app = self._app
        while app is not None and not self._closing and not self._paused:
            try:
                data = self._tls.read(_READ)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                data = b""
            except (ssl.SSLError, OSError):
                self._flush()
                self._raw.abort()
                return
            if not data:  # the client has closed TLS
                self.close()
                return
            app.data_received(data)
        self._flush()  # answers of TLS itself

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # Called by the handshake limit and the server

    def expendable(self) -> bool:
        """Return True: during a handshake no authenticated client waits."""
        return True

    def give_way(self) -> None:
        """End the connection."""
        self.abort()

    end_after_answer = give_way

    # Transport for HttpConnection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information from the socket's transport."""
        return self._raw.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return True if the connection is closing."""
        return self._closing or self._raw.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the size of the socket's write buffer in bytes."""
        return self._raw.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading. Data received already is delivered in a later turn of the event loop, because the receiver of the data calls
        this."""
        self._paused = False
        self._raw.resume_reading()
        asyncio.get_running_loop().call_soon(self._advance)

    def write(self, data: bytes) -> None:
        """Encrypt and send data."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError:
            self._raw.abort()
        else:
            self._flush()

    def close(self) -> None:
        """Close without waiting for the other end to do the same (RFC 8446, section 6.1)."""
        if self.is_closing():
            return
        self._closing = True
        with contextlib.suppress(ssl.SSLError, OSError):  # the handshake is not done, or data is still on its way
            self._tls.unwrap()
        self._flush()
        self._raw.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._closing = True
        self._raw.abort()
