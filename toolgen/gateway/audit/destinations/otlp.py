"""Collector of entries as log records over OTLP/HTTP, in their protobuf form (extra `otlp`)."""

from __future__ import annotations

from importlib.metadata import version

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgen.audit.index.row import micros
from toolgen.config.audit_stream import OtlpTarget
from toolgen.connectors.http.outbound.request import OutboundRequest
from toolgen.gateway.audit.destinations.base import EntryHttp, OutgoingEntry, RefusedEntriesError, Rhythm

__all__ = ["OtlpCollector"]

_INFO, _WARN = 9, 13  # severity numbers of OTLP


class OtlpCollector:
    """Collector behind a URL that ends with /v1/logs. A collector that takes a part of a batch has refused the rest."""

    rhythm = Rhythm()

    def __init__(self, target: OtlpTarget, http: EntryHttp) -> None:
        self._target, self._http = target, http
        own = version("toolgen")
        self._resource = Resource(attributes=[_text("service.name", "toolgen"), _text("service.version", own)])
        self._scope = InstrumentationScope(name="toolgen.audit", version=own)

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the collector has taken the entries. Raises `OSError`."""
        headers = await self._http.revealed(self._target.headers)
        headers["Content-Type"] = "application/x-protobuf"
        body = self._request(stream, entries)
        reply = await self._http.send(OutboundRequest(method="POST", url=self._target.url, headers=headers, body=body))
        try:
            answer = ExportLogsServiceResponse.FromString(reply.body)
        except DecodeError:
            return  # a proxy may confirm with a body of its own
        if answer.partial_success.rejected_log_records:
            raise RefusedEntriesError("it rejected log records")

    def _request(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> bytes:
        request = ExportLogsServiceRequest()
        group = request.resource_logs.add(resource=self._resource).scope_logs.add(scope=self._scope)
        for one in entries:
            entry = one.entry
            time = _nanoseconds(entry.time)
            group.log_records.add(
                time_unix_nano=time,
                observed_time_unix_nano=time,
                severity_number=_WARN if entry.bad else _INFO,
                severity_text="WARN" if entry.bad else "INFO",
                event_name=f"toolgen.audit.{entry.event}",
                body=AnyValue(string_value=one.body.decode("utf-8", "replace")),
                attributes=[
                    _text("log.record.uid", entry.identity(stream)),
                    _text("toolgen.audit.stream", stream),
                    KeyValue(key="toolgen.audit.seq", value=AnyValue(int_value=entry.seq)),
                ],
            )
        return bytes(request.SerializeToString())

    async def close(self) -> None:
        """Do nothing: each request has its own connection."""


def _text(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))


def _nanoseconds(time: str) -> int:
    try:
        return micros(time) * 1000
    except ValueError:
        return 0
