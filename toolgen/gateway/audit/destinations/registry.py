"""Maker of destinations: one case for each kind."""

from __future__ import annotations

from toolgen.config.audit_stream import HttpTarget, KafkaTarget, OtlpTarget, S3Target, StreamDestination, SyslogTarget
from toolgen.connectors.executor import Permit
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.gateway.audit.destinations.base import EntryDestination, EntryHttp

__all__ = ["make_destination"]


def make_destination(destination: StreamDestination, *, permit: Permit, clock: Clock) -> EntryDestination:
    """Return a destination, which has no connection yet. Raises `ConfigError` if its extra is not installed."""
    secrets = SecretResolver(permit=permit, clock=clock)
    http = EntryHttp(authorities=destination.authorities, permit=permit, secrets=secrets)
    match destination.target:
        case OtlpTarget() as target:
            try:
                from toolgen.gateway.audit.destinations.otlp import OtlpCollector  # noqa: PLC0415 - an extra
            except ImportError as error:
                raise _missing(destination, "OTLP's messages", "otlp") from error
            return OtlpCollector(target, http)
        case HttpTarget() as target:
            from toolgen.gateway.audit.destinations.http import HttpReceiver  # noqa: PLC0415 - the one that is used

            return HttpReceiver(target, http)
        case SyslogTarget() as target:
            from toolgen.gateway.audit.destinations.syslog import SyslogReceiver  # noqa: PLC0415 - the one that is used

            return SyslogReceiver(target, authorities=destination.authorities, permit=permit)
        case KafkaTarget() as target:
            try:
                from toolgen.gateway.audit.destinations.kafka import KafkaTopic  # noqa: PLC0415 - an extra
            except ImportError as error:
                raise _missing(destination, "Kafka's messages", "kafka") from error
            return KafkaTopic(target, authorities=destination.authorities, permit=permit, secrets=secrets)
        case S3Target() as target:
            from toolgen.gateway.audit.destinations.s3 import S3Bucket  # noqa: PLC0415 - the one that is used

            return S3Bucket(target, http, permit=permit, clock=clock)


def _missing(destination: StreamDestination, what: str, extra: str) -> ConfigError:
    return ConfigError(f"audit.stream.{destination.name}: needs {what}", suggestion=f"install toolgen[{extra}]")
