"""Topic of Kafka for entries: each is a record, confirmed by all replicas in sync (extra `kafka`)."""

from __future__ import annotations

import asyncio
import io
import ssl
import zlib
from datetime import UTC, datetime, timedelta

from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_new_batch
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.serial.errors import SerialError
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64

from toolgen.audit.entry_stream import BatchSize
from toolgen.audit.index.row import micros
from toolgen.config.audit_stream import KafkaTarget
from toolgen.connectors.executor import Permit
from toolgen.connectors.kafka_client import KafkaClient, KafkaLogin
from toolgen.connectors.secrets import SecretResolver
from toolgen.gateway.audit.destinations.base import OutgoingEntry, RefusedEntriesError, Rhythm

__all__ = ["KafkaTopic"]

_TOTAL_S = 20.0
_CONTENT = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_record})
"""Errors by which a broker refuses what was sent, not the sender."""


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
    ) -> None:
        self._target = target
        login = None if target.password is None else KafkaLogin(target.mechanism, target.user, target.password)
        self._client = KafkaClient(
            tuple(host for host, _ in target.brokers),
            tls=target.tls,
            authorities=authorities,
            login=login,
            permit=permit,
            secrets=secrets,
        )
        self._leaders: dict[int, tuple[str, int]] = {}

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
        except ssl.SSLCertVerificationError as error:  # a ValueError, too
            await self.close()
            raise OSError(f"its certificate is not accepted: {error.verify_message}") from None
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
        connection = await self._client.connection(*self._leaders[partition])
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
                reply = await (await self._client.connection(host, port)).ask(request, MetadataResponse)
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

    async def close(self) -> None:
        """End the connections; the leaders are asked for again."""
        self._client.close()
        self._leaders.clear()


def _batch(stream: str, entries: tuple[OutgoingEntry, ...]) -> bytes:
    """Return a batch of records (message format 2): the key is the stream, and headers have the number and the first digits of the hash."""
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=_time(one.entry.time),
            offset=i64(number),
            key=stream.encode(),
            value=one.body,
            headers=(
                RecordHeader(key=b"seq", value=str(one.entry.seq).encode()),
                RecordHeader(key=b"hash", value=one.entry.mark.encode()),
            ),
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
