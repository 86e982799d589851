"""OTLP messages of spans, metrics and log lines, in their protobuf form (extra `otlp`)."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgen.gateway.metrics.metrics import BOUNDS, DurationHistogram
from toolgen.gateway.metrics.prometheus_format import Family
from toolgen.gateway.telemetry.span_encoding import encoded_spans

__all__ = ["OtlpEncoder"]

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_SEVERITIES = {logging.DEBUG: 5, logging.INFO: 9, logging.WARNING: 13, logging.ERROR: 17, logging.CRITICAL: 21}
_NS = 1_000_000_000


class OtlpEncoder:
    """Encoder of the data of one worker; `worker` is the name of its stream in the audit log, `tenant` that of its tenant, or ""."""

    def __init__(self, worker: str, began_s: float, tenant: str = "") -> None:
        own = version("toolgen")
        attributes: dict[str, str | int] = {
            "service.name": "toolgen",
            "service.version": own,
            "service.instance.id": worker,
            "process.pid": os.getpid(),
            **({"toolgen.tenant": tenant} if tenant else {}),
        }
        self._resource = Resource(attributes=_attributes(attributes.items()))
        self._scope = InstrumentationScope(name="toolgen", version=own)
        self._resource_bytes = bytes(self._resource.SerializeToString())
        self._scope_bytes = bytes(self._scope.SerializeToString())
        self._began = int(began_s * _NS)

    def spans(self, ended: Sequence[bytes]) -> bytes:
        """Return the export request of encoded spans."""
        return encoded_spans(self._resource_bytes, self._scope_bytes, ended)

    def logs(self, records: Iterable[logging.LogRecord]) -> bytes:
        """Return the export request of log lines."""
        request = ExportLogsServiceRequest()
        group = request.resource_logs.add(resource=self._resource).scope_logs.add(scope=self._scope)
        for one in records:
            attributes: dict[str, str | int] = {"logger.name": one.name}
            if one.exc_info and one.exc_info[0] is not None:  # the message of an exception may contain any data
                attributes["exception.type"] = one.exc_info[0].__name__
                attributes["exception.stacktrace"] = "".join(traceback.format_tb(one.exc_info[2]))
            group.log_records.add(
                time_unix_nano=int(one.created * _NS),
                observed_time_unix_nano=int(one.created * _NS),
                severity_number=_SEVERITIES.get(one.levelno, 9),
                severity_text=one.levelname,
                body=AnyValue(string_value=one.getMessage()),
                attributes=_attributes(attributes.items()),
            )
        return bytes(request.SerializeToString())

    def metrics(self, families: Iterable[Family], now_s: float) -> bytes:
        """Return the export request of metrics, which count from the beginning of the process."""
        request, now = ExportMetricsServiceRequest(), int(now_s * _NS)
        group = request.resource_metrics.add(resource=self._resource).scope_metrics.add(scope=self._scope)
        for family in families:
            metric = group.metrics.add(name=family.name, description=family.text)
            for labels, value in family.samples:
                if isinstance(value, DurationHistogram):
                    self._histogram(metric, labels, value, now)
                elif family.kind == "counter":
                    metric.sum.is_monotonic = True
                    metric.sum.aggregation_temporality = _CUMULATIVE
                    metric.sum.data_points.append(self._number(labels, value, now))
                else:
                    metric.gauge.data_points.append(self._number(labels, value, now))
        return bytes(request.SerializeToString())

    def _number(self, labels: Mapping[str, str], value: float, now: int) -> NumberDataPoint:
        return NumberDataPoint(
            attributes=_attributes(labels.items()),
            start_time_unix_nano=self._began,
            time_unix_nano=now,
            as_double=float(value),
        )

    def _histogram(self, metric: Metric, labels: Mapping[str, str], found: DurationHistogram, now: int) -> None:
        metric.unit = "s"
        metric.histogram.aggregation_temporality = _CUMULATIVE
        metric.histogram.data_points.add(
            attributes=_attributes(labels.items()),
            start_time_unix_nano=self._began,
            time_unix_nano=now,
            count=sum(found.counts),
            sum=found.total,
            bucket_counts=found.counts,
            explicit_bounds=BOUNDS,
        )


def _attributes(pairs: Iterable[tuple[str, str | int]]) -> list[KeyValue]:
    return [
        KeyValue(key=name, value=AnyValue(string_value=value) if isinstance(value, str) else AnyValue(int_value=value))
        for name, value in pairs
    ]
