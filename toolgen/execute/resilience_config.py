"""How long, how often and how many at once a source's system is tried: plain data that toolgen.yaml is read into."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Patience", "Retries", "Timeouts", "Trip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds: to connect, between two pieces of an answer (the first byte included), and altogether."""

    connect_s: float = 5.0
    first_byte_s: float = 30.0
    total_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """At most `attempts` for a call, the first included. A retry waits `longest_wait_s` at most, whatever the system asks for.

    `budget`: how many retries there may be for each call, over all calls to one system; what is saved up is worth ten retries at most.
    """

    attempts: int = 3
    longest_wait_s: float = 5.0
    budget: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """When a breaker opens, and for how long: at this share of failures among at least `calls` calls of a window."""

    failures: float = 0.5
    calls: int = 10
    window_s: float = 10.0
    open_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What toolgen.yaml says about failures of one source. `breaker` is None where there is none. `key_header` is the header that
    makes a repeated request harmless, as far as the description does not name it itself, or `never`.
    Of an answer at most `largest` bytes are read."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    breaker: Trip | None = field(default_factory=Trip)
    concurrency: int = 100
    key_header: str = ""
    largest: int = 1_048_576
