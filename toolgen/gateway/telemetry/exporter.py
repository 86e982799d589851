"""Export to a collector over OTLP/HTTP: bounded queues, one request at a time, and no call ever waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from toolgen.config.telemetry import Signal, TelemetrySettings
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, Via
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.background import Background, cancel
from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.tenant import current_tenant
from toolgen.gateway.metrics.prometheus import TelemetryCounts
from toolgen.gateway.metrics.prometheus_format import Family
from toolgen.gateway.telemetry.span_encoding import encoded_span
from toolgen.gateway.telemetry.spans import EndedSpan, SpanQueue

__all__ = ["Families", "Telemetry", "load_telemetry"]

_logger = logging.getLogger(__name__)
_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0
_FLUSH_S = 5.0
"""Time that spans and lines wait for others at most, unless many spans wait: a request costs as much as hundreds of spans."""
_METRICS_S = 15.0
_TOTAL_S = 10.0
_LAST_S = 3.0  # time for sending the rest when the gateway stops
_SPANS, _LINES = 8192, 512
"""Maximum numbers in one request. A request costs as much CPU as a thousand spans, and a span takes about 250 bytes."""
_MANY = 8192
"""Number of waiting spans from which on they are sent at once."""
_AT_ONCE = 256
"""Number of spans that are encoded without a pause."""
_MAX_LINES = 2048
_PASSING = frozenset({429, 502, 503, 504})  # statuses of requests that are repeated (OTLP/HTTP, section "Failures")


Families: TypeAlias = Callable[[], Awaitable[Iterable[Family]]]


class _Encodes(Protocol):
    """Encoder of messages. A protocol, because its implementation needs the extra `otlp`."""

    def spans(self, ended: Sequence[bytes]) -> bytes: ...

    def logs(self, records: Iterable[logging.LogRecord]) -> bytes: ...

    def metrics(self, families: Iterable[Family], now_s: float) -> bytes: ...


class Telemetry:
    """Exporter of one worker. `tenant` names its gateway beside others of the process, whose log lines it does not send."""

    def __init__(
        self,
        settings: TelemetrySettings,
        *,
        encoder: Callable[[], _Encodes],
        permit: Permit,
        background: Background,
        tenant: str = "",
    ) -> None:
        self._settings, self._made = settings, encoder
        self._families: Families = _no_families
        self._background = background
        self.spans = SpanQueue(sample=settings.sample)
        self.counts = TelemetryCounts()
        self._lines = _LineQueue(tenant)
        self._secrets = SecretResolver(permit=permit)
        # The collector's address comes only from toolgen.yaml.
        self._via = Via(permit=permit, destination=Destination(host="", port=0, service="keys"), total_s=_TOTAL_S)
        self._task: asyncio.Task[None] | None = None
        self._measured = self._flushed = 0.0
        self._down = False

    @property
    def traces(self) -> SpanQueue | None:
        """Return the queue of spans; None if traces are not sent."""
        return self.spans if "traces" in self._settings.signals else None

    @property
    def stages(self) -> SpanQueue | None:
        """Return the queue of spans of stages; None if stages have none."""
        return self.traces if self._settings.stages else None

    def start(self, families: Families) -> None:
        """Start sending. `families` returns the metrics of this worker, without names."""
        self._families = families
        self._encoder = self._made()
        if "logs" in self._settings.signals:
            logging.getLogger("toolgen").addHandler(self._lines)
        self._task = self._background.start("sending telemetry", self._run)

    async def stop(self) -> None:
        """Stop, and send the rest, if the collector accepts it soon."""
        logging.getLogger("toolgen").removeHandler(self._lines)
        if self._task is None:
            return
        await cancel(self._task)
        try:
            async with asyncio.timeout(_LAST_S):
                await self.flush(measure=True)
        except TimeoutError:
            self._failed("the gateway stopped")

    async def _run(self) -> None:
        pause = _PAUSE_S
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            if pause == _PAUSE_S and now - self._flushed < _FLUSH_S and self.spans.waiting < _MANY:
                continue
            self._flushed = now
            delivered = await self.flush(measure=now - self._measured >= _METRICS_S)
            pause = _PAUSE_S if delivered else min(_MAX_PAUSE_S, 2 * pause)

    async def flush(self, *, measure: bool) -> bool:
        """Send queued data, and metrics if they are due. Returns False if the collector did not accept a part; that part stays queued, as
        far as there is space."""
        while spans := self.spans.take(_SPANS):
            delivered = False
            try:
                delivered = await self._sent("traces", self._encoder.spans(await _encoded(spans)), len(spans))
            finally:  # also if it is cancelled
                if not delivered:
                    self.spans.put_back(spans)
            if not delivered:
                return False
        while lines := self._lines.take(_LINES):
            if not await self._sent("logs", self._encoder.logs(lines), len(lines)):
                self._lines.put_back(lines)
                return False
        self.counts.dropped["traces"] = self.spans.dropped
        self.counts.dropped["logs"] = self._lines.dropped
        if measure and "metrics" in self._settings.signals:
            families = list(await self._families())
            self._measured = time.monotonic()
            return await self._sent("metrics", self._encoder.metrics(families, time.time()), len(families))
        return True

    async def _sent(self, signal: Signal, body: bytes, number: int) -> bool:
        """Send one request. Returns False if it may be tried again."""
        counts = self.counts
        try:
            headers = {name: (await self._secrets.fetch(one)).reveal() for name, one in self._settings.headers}
            headers["Content-Type"] = "application/x-protobuf"
            url = f"{self._settings.url}/v1/{signal}"
            reply = await ask(
                OutboundRequest(method="POST", url=url, headers=headers, body=body, reads=False), self._via
            )
        except (OutboundError, SecretError) as error:
            self._failed(str(error))
        else:
            if 200 <= reply.status < 300:
                counts.sent[signal] += number
                if self._down:
                    _logger.info("the collector of telemetry answers again")
                self._down = False
                return True
            self._failed(f"it answered {reply.status}")
            if reply.status not in _PASSING:  # an invalid request is never accepted later
                counts.failed[signal] += number
                return True
        counts.failed[signal] += 1
        return False

    def _failed(self, why: str) -> None:
        if not self._down:
            _logger.warning("telemetry is not sent: %s", why)
        self._down = True


async def _encoded(spans: Sequence[EndedSpan]) -> list[bytes]:
    """Encode spans, some hundred at a time: calls go on in between."""
    encoded: list[bytes] = []
    for start in range(0, len(spans), _AT_ONCE):
        encoded += [encoded_span(*span) for span in spans[start : start + _AT_ONCE]]
        await asyncio.sleep(0)
    return encoded


class _LineQueue(logging.Handler):
    """Queue of log lines; above a maximum number the oldest are dropped and counted."""

    def __init__(self, tenant: str) -> None:
        super().__init__()
        self._tenant = tenant
        self._lines: deque[logging.LogRecord] = deque()
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line, unless it is of another tenant."""
        if current_tenant() != self._tenant:
            return
        if len(self._lines) >= _MAX_LINES:
            self._lines.popleft()
            self.dropped += 1
        self._lines.append(record)

    def take(self, most: int) -> list[logging.LogRecord]:
        """Remove and return the oldest lines."""
        return [self._lines.popleft() for _ in range(min(most, len(self._lines)))]

    def put_back(self, lines: Sequence[logging.LogRecord]) -> None:
        """Return unsent lines to the queue, as far as there is space."""
        room = max(0, _MAX_LINES - len(self._lines))
        kept = lines[len(lines) - room :] if room < len(lines) else lines
        self.dropped += len(lines) - len(kept)
        self._lines.extendleft(reversed(kept))


async def _no_families() -> Iterable[Family]:
    return ()


def load_telemetry(
    settings: TelemetrySettings,
    *,
    worker: Callable[[], str],
    permit: Permit,
    background: Background,
    tenant: str = "",
) -> Telemetry:
    """Return the exporter of this worker. Raises `ConfigError` if the extra is not installed."""
    try:
        from toolgen.gateway.telemetry.messages import OtlpEncoder  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("telemetry: needs OTLP's messages", suggestion="install toolgen[otlp]") from error
    began = time.time()
    return Telemetry(
        settings,
        encoder=lambda: OtlpEncoder(worker(), began, tenant),
        permit=permit,
        background=background,
        tenant=tenant,
    )
