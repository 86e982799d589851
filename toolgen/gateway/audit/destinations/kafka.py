"""Topic of Kafka for entries: each is a record, confirmed by all replicas in sync (extra `kafka`).

The messages are those of kio. Connections are our own, because every address is put to the egress rules of the policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import secrets as random
import ssl
import zlib
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_new_batch
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.request_header.v1.header import RequestHeader as PlainHeader
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload, ResponsePayload

from toolgen.audit.entry_stream import BatchSize
from toolgen.audit.index.row import micros
from toolgen.config.audit_stream import KafkaTarget
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.errors import SecretError
from toolgen.gateway.audit.destinations.base import OutgoingEntry, RefusedEntriesError, Rhythm
from toolgen.model.verdict import Allow

__all__ = ["KafkaTopic", "ScramExchange"]

_TOTAL_S = 20.0
_MAX_REPLY = 1024 * 1024
_MAX_ITERATIONS = 1_000_000
_CLIENT = "toolgen"
_CONTENT = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_record})
"""Errors by which a broker refuses what was sent, not the sender."""
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
R = TypeVar("R", bound=ResponsePayload)


class KafkaTopic:
    """Topic; the entries of a stream go to one partition, so that they keep their order."""

    rhythm = Rhythm(
        size=BatchSize(entries=1000, bytes=700_000)
    )  # a batch has at most 1 MiB unless the topic allows more

    def __init__(
        self,
        target: KafkaTarget,
        *,
        authorities: str,
        permit: Permit,
        secrets: SecretResolver,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._target, self._authorities, self._permit = target, authorities, permit
        self._secrets, self._resolver = secrets, resolver
        self._leaders: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], _Connection] = {}

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the replicas in sync have the entries. Raises `OSError`."""
        try:
            async with asyncio.timeout(_TOTAL_S):
                await self._send(stream, entries)
        except RefusedEntriesError:
            raise
        except TimeoutError:
            await self.close()
            raise OSError("it did not answer in time") from None
        except (SerialError, asyncio.IncompleteReadError, ValueError) as error:
            await self.close()
            raise OSError(f"its answer is not that of a broker ({type(error).__name__})") from None
        except BaseException:
            await self.close()
            raise

    async def _send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        if not self._leaders:
            await self._read_leaders()
        partition = sorted(self._leaders)[zlib.crc32(stream.encode()) % len(self._leaders)]
        data = PartitionProduceData(index=i32(partition), records=Records(_batch(stream, entries)))
        request = ProduceRequest(
            acks=i16(-1),
            timeout=i32Timedelta.parse(timedelta(seconds=_TOTAL_S / 2)),
            topic_data=(TopicProduceData(name=TopicName(self._target.topic), partition_data=(data,)),),
        )
        connection = await self._connection(*self._leaders[partition])
        reply = await connection.ask(request, ProduceResponse)
        codes = [one.error_code for topic in reply.responses for one in topic.partition_responses]
        if len(codes) != 1:
            raise OSError("its answer is about other partitions")
        if codes[0] in _CONTENT:
            raise RefusedEntriesError(codes[0].name)
        if codes[0] is not ErrorCode.none:
            raise OSError(codes[0].name)

    async def _read_leaders(self) -> None:
        """Ask the brokers for the leaders of the partitions. Raises `OSError`."""
        failure: OSError | None = None
        for host, port in self._target.brokers:
            topic = MetadataRequestTopic(name=TopicName(self._target.topic))
            request = MetadataRequest(
                topics=(topic,),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
            try:
                reply = await (await self._connection(host, port)).ask(request, MetadataResponse)
            except OSError as error:
                failure = error
                continue
            brokers = {one.node_id: (one.host, int(one.port)) for one in reply.brokers}
            for one in reply.topics:
                if one.error_code is not ErrorCode.none:
                    raise OSError(f"topic {self._target.topic}: {one.error_code.name}")
                leaders = {int(part.partition_index): brokers.get(part.leader_id) for part in one.partitions}
                if not leaders or None in leaders.values():
                    raise OSError(f"topic {self._target.topic}: a partition has no leader now")
                self._leaders = {part: leader for part, leader in leaders.items() if leader is not None}
            if self._leaders:
                return
        raise failure or OSError("no broker knows the topic")

    async def _connection(self, host: str, port: int) -> _Connection:
        known = self._connections.get((host, port))
        if known is not None:
            return known
        # A broker tells addresses that toolgen.yaml does not have: these need a place in the egress rules.
        written = host in {one for one, _ in self._target.brokers}
        failure: OSError | None = None
        for address in await self._resolver(host, port):
            verdict = self._permit(
                Destination(host=host, port=port, address=address, service="database" if written else "http")
            )
            if not isinstance(verdict, Allow):
                raise OSError(verdict.reason)
            try:
                reader, writer = await asyncio.open_connection(
                    address, port, ssl=self._tls(), server_hostname=host if self._target.tls else None
                )
            except OSError as error:
                failure = error
                continue
            made = _Connection(reader, writer)
            try:
                await self._authenticate(made)
            except BaseException:
                made.close()
                raise
            self._connections[host, port] = made
            return made
        raise failure or OSError("the name has no address")

    def _tls(self) -> ssl.SSLContext | None:
        if not self._target.tls:
            return None
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities)
        return context

    async def _authenticate(self, connection: _Connection) -> None:
        """Sign in with SASL, if there is a user. Raises `OSError` without the password."""
        target = self._target
        if target.password is None:
            return
        try:
            password = (await self._secrets.fetch(target.password)).reveal()
        except SecretError as error:
            raise OSError(str(error)) from None
        reply = await connection.ask(SaslHandshakeRequest(mechanism=target.mechanism), SaslHandshakeResponse)
        if reply.error_code is not ErrorCode.none:
            raise OSError(f"{target.mechanism}: {reply.error_code.name}")
        if target.mechanism == "PLAIN":
            await self._authenticated(connection, f"\0{target.user}\0{password}".encode())
            return
        exchange = ScramExchange(target.user, password, _HASHES[target.mechanism], random.token_urlsafe(24))
        challenge = await self._authenticated(connection, exchange.first())
        exchange.verify(await self._authenticated(connection, exchange.final(challenge)))

    async def _authenticated(self, connection: _Connection, data: bytes) -> bytes:
        reply = await connection.ask(SaslAuthenticateRequest(auth_bytes=data), SaslAuthenticateResponse)
        if reply.error_code is not ErrorCode.none:
            raise OSError(reply.error_code.name)
        return reply.auth_bytes

    async def close(self) -> None:
        """End the connections; the leaders are asked for again."""
        for one in self._connections.values():
            one.close()
        self._connections.clear()
        self._leaders.clear()


class _Connection:
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


def _batch(stream: str, entries: tuple[OutgoingEntry, ...]) -> bytes:
    """Return a batch of records (message format 2): the key is the stream, and a header has the number."""
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=_time(one.entry.time),
            offset=i64(number),
            key=stream.encode(),
            value=one.body,
            headers=(RecordHeader(key=b"seq", value=str(one.entry.seq).encode()),),
        )
        for number, one in enumerate(entries)
    )
    buffer = io.BytesIO()
    write_new_batch(
        buffer,
        NewRecordBatch(
            producer_id=i64(-1), producer_epoch=i16(-1), base_sequence=i32(-1), records=records, attributes=i16(0)
        ),
    )
    return buffer.getvalue()


def _time(text: str) -> TZAwareMicros:
    try:
        found = datetime.fromtimestamp(micros(text) / 1e6, UTC)
    except ValueError:
        found = datetime.fromtimestamp(0, UTC)
    return TZAwareMicros.parse(found)
