"""Client of Kafka: connections to brokers that the policy permits, with TLS and SASL. Its messages are those of kio (extra `kafka`)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import secrets as random
import ssl
from base64 import b64decode, b64encode
from collections.abc import Collection
from typing import Literal, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader as PlainHeader
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload
from msgspec import Struct

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.secret import SecretReference
from toolgen.model.verdict import Allow

__all__ = ["KafkaClient", "KafkaConnection", "KafkaLogin", "ScramExchange"]

_MAX_REPLY = 1024 * 1024
_MAX_ITERATIONS = 1_000_000
_CLIENT = "toolgen"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
R = TypeVar("R", bound=ResponsePayload)


class KafkaLogin(Struct, frozen=True):
    """User of Kafka, with the reference of the password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    user: str
    password: SecretReference


class KafkaClient:
    """Connections to the brokers of one cluster. `written` are the hosts of toolgen.yaml; without a `login` nobody signs in."""

    def __init__(
        self,
        written: Collection[str],
        *,
        tls: bool,
        authorities: str,
        login: KafkaLogin | None,
        permit: Permit,
        secrets: SecretResolver,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._written, self._with_tls, self._authorities = written, tls, authorities
        self._login, self._permit, self._secrets, self._resolver = login, permit, secrets, resolver
        self._connections: dict[tuple[str, int], KafkaConnection] = {}

    async def connection(self, host: str, port: int) -> KafkaConnection:
        """Return the connection to a broker, which is made and signed in if there is none. Raises `OSError`, and `ValueError` for an
        invalid answer."""
        known = self._connections.get((host, port))
        if known is not None:
            return known
        # A broker tells addresses that toolgen.yaml does not have: these need a place in the egress rules.
        written = host in self._written
        failure: OSError | None = None
        for address in await self._resolver(host, port):
            verdict = self._permit(
                Destination(host=host, port=port, address=address, service="database" if written else "http")
            )
            if not isinstance(verdict, Allow):
                raise OSError(verdict.reason)
            try:
                reader, writer = await asyncio.open_connection(
                    address, port, ssl=self._tls(), server_hostname=host if self._with_tls else None
                )
            except OSError as error:
                failure = error
                continue
            made = KafkaConnection(reader, writer)
            try:
                await self._authenticate(made)
            except BaseException:
                made.close()
                raise
            self._connections[host, port] = made
            return made
        raise failure or OSError("the name has no address")

    def _tls(self) -> ssl.SSLContext | None:
        if not self._with_tls:
            return None
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities)
        return context

    async def _authenticate(self, connection: KafkaConnection) -> None:
        """Sign in with SASL, if there is a user. Raises `OSError` without the password."""
        login = self._login
        if login is None:
            return
        try:
            password = (await self._secrets.fetch(login.password)).reveal()
        except SecretError as error:
            raise OSError(str(error)) from None
        reply = await connection.ask(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
        if reply.error_code is not ErrorCode.none:
            raise OSError(f"{login.mechanism}: {reply.error_code.name}")
        if login.mechanism == "PLAIN":
            await self._authenticated(connection, f"\0{login.user}\0{password}".encode())
            return
        exchange = ScramExchange(login.user, password, _HASHES[login.mechanism], random.token_urlsafe(24))
        challenge = await self._authenticated(connection, exchange.first())
        exchange.verify(await self._authenticated(connection, exchange.final(challenge)))

    async def _authenticated(self, connection: KafkaConnection, data: bytes) -> bytes:
        reply = await connection.ask(SaslAuthenticateRequest(auth_bytes=data), SaslAuthenticateResponse)
        if reply.error_code is not ErrorCode.none:
            raise OSError(reply.error_code.name)
        return reply.auth_bytes

    def close(self) -> None:
        """End the connections."""
        for one in self._connections.values():
            one.close()
        self._connections.clear()


class KafkaConnection:
    """Connection to one broker, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    async def ask(self, request: RequestPayload, kind: type[R]) -> R:
        """Return the answer to a request. Raises `OSError`, and `ValueError` and `SerialError` for an invalid one."""
        self._number += 1
        buffer = io.BytesIO()
        header: PlainHeader | RequestHeader = (RequestHeader if request.__flexible__ else PlainHeader)(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(self._number),
            client_id=_CLIENT,
        )
        entity_writer(type(header))(buffer, header)
        entity_writer(type(request))(buffer, request)
        body = buffer.getvalue()
        self._writer.write(len(body).to_bytes(4, "big") + body)
        await self._writer.drain()
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > _MAX_REPLY:
            raise ValueError("the answer is too long")
        answer = await self._reader.readexactly(size)
        found, offset = entity_reader(kind.__header_schema__)(answer, 0)
        if found.correlation_id != self._number:
            raise ValueError("the answer is to another request")
        made, _ = entity_reader(kind)(answer, offset)
        return made

    def close(self) -> None:
        """End the connection."""
        self._writer.transport.abort()


class ScramExchange:
    """Client's side of SCRAM (RFC 5802, RFC 7677): the password does not leave this process, and the server proves that it knows it."""

    def __init__(self, user: str, password: str, algorithm: str, nonce: str) -> None:
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._password, self._algorithm, self._nonce = password, algorithm, nonce
        self._signature = b""

    def __repr__(self) -> str:
        return "ScramExchange(***)"

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the answer to the server's first message. Raises `ValueError` for an invalid one."""
        text = challenge.decode("utf-8")
        parts = dict(part.split("=", 1) for part in text.split(",") if part[1:2] == "=")
        nonce, salt, iterations = (
            parts.get("r", ""),
            b64decode(parts.get("s", ""), validate=True),
            int(parts.get("i", 0)),
        )
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not 4096 <= iterations <= _MAX_ITERATIONS:
            raise ValueError("the challenge is invalid")
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password.encode(), salt, iterations)
        client = self._digest(salted, b"Client Key")
        stored = hashlib.new(self._algorithm, client).digest()
        without = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._bare},{text},{without}".encode()
        proof = bytes(one ^ other for one, other in zip(client, self._digest(stored, signed), strict=True))
        self._signature = self._digest(self._digest(salted, b"Server Key"), signed)
        return f"{without},p={b64encode(proof).decode()}".encode()

    def _digest(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._algorithm).digest()

    def verify(self, answer: bytes) -> None:
        """Verify the server's last message. Raises `ValueError`."""
        expected = b"v=" + b64encode(self._signature)
        if not self._signature or not hmac.compare_digest(answer, expected):
            raise ValueError("the server does not know the password")
