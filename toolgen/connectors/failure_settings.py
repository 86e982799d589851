"""Settings of toolgen.yaml for failures of one source: timeouts, retries, circuit breaker, concurrency."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["BreakerConfig", "ResilienceConfig", "Retries", "Timeouts"]


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds: to connect, between two pieces of an answer (the first byte included), and altogether."""

    connect_s: float = 5.0
    first_byte_s: float = 30.0
    total_s: float = 60.0


class Retries(Struct, frozen=True, kw_only=True):
    """At most `attempts` for a call, the first included. A retry waits `longest_wait_s` at most, whatever the system asks for.

    `budget`: how many retries there may be for each call, over all calls to one system; what is saved up is worth ten retries at most.
    """

    attempts: int = 3
    longest_wait_s: float = 5.0
    budget: float = 0.2


class BreakerConfig(Struct, frozen=True, kw_only=True):
    """Threshold and duration of an open breaker: it opens at this share of failures among at least `calls` calls of a window."""

    failures: float = 0.5
    calls: int = 10
    window_s: float = 10.0
    open_s: float = 10.0


class ResilienceConfig(Struct, frozen=True, kw_only=True):
    """Settings of toolgen.yaml for failures of one source: timeouts, retries, circuit breaker and concurrency limit.

    `breaker` is None if the source has no circuit breaker. `key_header` is the idempotency key header for operations whose description
    names none, or `never`. At most `largest` bytes of a response are read.
    """

    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    breaker: BreakerConfig | None = field(default_factory=BreakerConfig)
    concurrency: int = 100
    key_header: str = ""
    largest: int = 1_048_576
