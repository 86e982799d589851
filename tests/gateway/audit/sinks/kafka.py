"""Broker of Kafka with TLS and SASL, for how brokers fail. It reads requests with kio, as what it is held against does: the broker of
librdkafka, which shares no code with it, judges the messages in `test_kafka.py`."""

from __future__ import annotations

import asyncio
import io
import zlib
from datetime import timedelta
from typing import Any

from kio.records.readers import read_batch
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9 import request as metadata
from kio.schema.metadata.v9 import response as metadata_reply
from kio.schema.produce.v9 import request as produce
from kio.schema.produce.v9 import response as produce_reply
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.sasl_authenticate.v2 import request as authenticate
from kio.schema.sasl_authenticate.v2 import response as authenticate_reply
from kio.schema.sasl_handshake.v1 import request as handshake
from kio.schema.sasl_handshake.v1 import response as handshake_reply
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from tests.gateway.audit.sinks.base import Sink

REQUESTS: dict[int, Any] = {
    0: produce.ProduceRequest,
    3: metadata.MetadataRequest,
    17: handshake.SaslHandshakeRequest,
    36: authenticate.SaslAuthenticateRequest,
}
PARTITIONS = 3


class BrokerSink(Sink):
    kind = "kafka"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.partitions: set[int] = set()

    def settings(self) -> dict[str, Any]:
        sasl = {"user": "toolgen", "password": "${env:SINK_SECRET}", "mechanism": "PLAIN"}
        return {"kafka": f"localhost:{self.port}/audit", "sasl": sasl}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = False
        while True:
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            self.requests += 1
            if self.failing == "hangs":
                await asyncio.Event().wait()
            kind = REQUESTS[int.from_bytes(data[:2], "big")]
            assert int.from_bytes(data[2:4], "big") == kind.__version__
            head, offset = entity_reader(kind.__header_schema__)(data, 0)
            assert isinstance(head, RequestHeader) is not kind.__flexible__
            request, size = entity_reader(kind)(data, offset)
            assert offset + size == len(data)
            if isinstance(request, authenticate.SaslAuthenticateRequest):
                known = request.auth_bytes == b"\0toolgen\0right-secret"
            assert known or "Sasl" in type(request).__name__, "nobody has signed in"
            reply = self.reply(request, known)
            buffer = io.BytesIO()
            fields = {"correlation_id": head.correlation_id}
            entity_writer(reply.__header_schema__)(buffer, reply.__header_schema__(**fields))
            entity_writer(type(reply))(buffer, reply)
            writer.write(len(buffer.getvalue()).to_bytes(4, "big") + buffer.getvalue())
            await writer.drain()

    def reply(self, request: Any, known: bool) -> Any:
        match request:
            case handshake.SaslHandshakeRequest():
                assert request.mechanism == "PLAIN"
                return handshake_reply.SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",))
            case authenticate.SaslAuthenticateRequest():
                code = ErrorCode.none if known else ErrorCode.sasl_authentication_failed
                return authenticate_reply.SaslAuthenticateResponse(
                    error_code=code, error_message=None if known else "canary in an answer", auth_bytes=b""
                )
            case metadata.MetadataRequest():
                return self.described()
            case _:
                return self.produced(request)

    def described(self) -> metadata_reply.MetadataResponse:
        parts = tuple(
            metadata_reply.MetadataResponsePartition(
                error_code=ErrorCode.none, partition_index=i32(number), leader_id=BrokerId(7)
            )
            for number in range(PARTITIONS)
        )
        broker = metadata_reply.MetadataResponseBroker(node_id=BrokerId(7), host="localhost", port=i32(self.port))
        topic = metadata_reply.MetadataResponseTopic(error_code=ErrorCode.none, name="audit", partitions=parts)  # type: ignore[arg-type]
        return metadata_reply.MetadataResponse(
            throttle_time=i32Timedelta.parse(timedelta()), brokers=(broker,), topics=(topic,)
        )

    def produced(self, request: produce.ProduceRequest) -> produce_reply.ProduceResponse:
        assert request.acks == -1
        ((part,),) = (topic.partition_data for topic in request.topic_data)
        assert part.records is not None
        batch, size = read_batch(part.records, 0)
        assert size == len(part.records)
        taken = self.takes([one.value or b"" for one in batch.records])
        for one, entry in zip(batch.records, self.received[-len(batch.records) :] if taken else (), strict=False):
            assert one.key == entry["stream"].encode()
            identity = {"seq": str(entry["seq"]), "hash": entry["hash"][:16]}
            assert {(header.key or b"").decode(): (header.value or b"").decode() for header in one.headers} == identity
            self.identities.append(":".join((entry["stream"], *identity.values())))
            assert part.index == zlib.crc32(one.key) % PARTITIONS
        code = ErrorCode.none if taken else ErrorCode.invalid_record
        self.partitions.add(part.index)
        answer = produce_reply.PartitionProduceResponse(
            index=part.index, error_code=code, base_offset=i64(0), record_errors=()
        )
        topic = produce_reply.TopicProduceResponse(name=request.topic_data[0].name, partition_responses=(answer,))
        return produce_reply.ProduceResponse(responses=(topic,))
