"""Collector that decodes log records by the published protocol, and says of poison that it rejected a part."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from tests.gateway.audit.sinks.base import HttpSink
from toolgen.audit.index.row import micros


class CollectorSink(HttpSink):
    kind = "otlp"

    def settings(self) -> dict[str, Any]:
        headers = {"Authorization": "Bearer ${env:SINK_SECRET}"}
        return {"otlp": f"https://localhost:{self.port}/v1/logs", "headers": headers}

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers.get("authorization") != "Bearer right-secret":
            return 401, b""
        assert (method, path, headers["content-type"]) == ("POST", "/v1/logs", "application/x-protobuf")
        answer, refused = ExportLogsServiceResponse(), 0
        for group in ExportLogsServiceRequest.FromString(body).resource_logs:
            assert {one.key: one.value.string_value for one in group.resource.attributes}["service.name"] == "toolgen"
            for record in group.scope_logs[0].log_records:
                if not self.takes([record.body.string_value.encode()]):
                    refused += 1
                    continue
                entry = self.received[-1]
                assert record.time_unix_nano == micros(entry["time"]) * 1000
                said = {one.key: one.value.string_value or one.value.int_value for one in record.attributes}
                assert said["log.record.uid"] == f"{entry['stream']}:{entry['seq']}:{entry['hash'][:16]}"
                self.identities.append(str(said["log.record.uid"]))
                assert record.event_name == f"toolgen.audit.{entry['event']}"
        answer.partial_success.rejected_log_records = refused
        return 200, bytes(answer.SerializeToString())
