"""Settings under `telemetry:` in toolgen.yaml: the collector that traces, metrics and log lines are sent to."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = ["GivenTelemetry", "Signal", "TelemetrySettings", "read_telemetry"]

Signal = Literal["traces", "metrics", "logs"]
_SIGNALS: list[Signal] = ["traces", "metrics", "logs"]


class GivenTelemetry(msgspec.Struct, forbid_unknown_fields=True):
    """`telemetry:` as it is written."""

    otlp: str = ""
    headers: dict[str, str] = {}
    signals: Annotated[list[Signal], msgspec.Meta(min_length=1)] = msgspec.field(default_factory=_SIGNALS.copy)
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    stages: bool = False


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Base URL of an OTLP/HTTP collector, without a slash at its end, and headers, which may be secrets. `sample` is the share of traces
    that are sent, of those that begin at the gateway. `stages`: each stage of a call has a span."""

    url: str
    headers: tuple[tuple[str, SecretReference], ...] = ()
    signals: frozenset[Signal] = frozenset(_SIGNALS)
    sample: float = 1.0
    stages: bool = False


def read_telemetry(
    given: GivenTelemetry | None, document: YamlDocument, warnings: list[str]
) -> TelemetrySettings | None:
    """Read the section `telemetry:` of a project; None without one. Raises `ConfigError` with file and line, and without a header."""
    if given is None:
        return None
    where = document.where("telemetry", "otlp") if given.otlp else document.where("telemetry")
    try:
        parts = urlsplit(given.otlp)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not given.otlp.isprintable():
        raise ConfigError(
            "otlp: is not the URL of a collector", where=where, suggestion="write its base, like http://127.0.0.1:4318"
        )
    headers = []
    for name, text in given.headers.items():
        at = document.where("telemetry", "headers", name)
        if not name.isascii() or not name.replace("-", "").isalnum():
            raise ConfigError("headers: is not the name of a header", where=at)
        try:
            reference = parse_reference(text)
        except SecretError as error:
            raise ConfigError(f"headers: {error.message}", where=at, suggestion=error.suggestion) from None
        if reference.provider == "literal":
            warnings.append(f"{at}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
        headers.append((name, reference))
    return TelemetrySettings(
        url=given.otlp.rstrip("/"),
        headers=tuple(headers),
        signals=frozenset(given.signals),
        sample=given.sample,
        stages=given.stages,
    )
