"""What the console asks of the record: calls that fit a filter, everything on record of one call, and figures over a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["STATUSES", "Bucket", "Figures", "Filters", "Found", "Records", "Row", "Share"]

Row = Mapping[str, Any]
STATUSES = ("ok", "refused", "error", "pending", "cancelled", "unfinished")
"""How a call stands, in the order charts have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which calls are looked for; "" and None leave a thing open. Times are seconds since the epoch; `text` is looked for in the record."""

    principal: str = ""
    tool: str = ""
    status: str = ""
    rule: str = ""
    text: str = ""
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of calls, the newest first, and where the next one begins ("" at the end)."""

    rows: tuple[Row, ...]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The calls that began in one step of time: how many by status, and how long they took, in milliseconds."""

    start: float
    counts: Mapping[str, int]
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many calls a tool or a principal has, and how many of them did not succeed."""

    name: str
    total: int
    refused: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The calls of a time, step by step and altogether."""

    since: float
    until: float
    step: float
    buckets: tuple[Bucket, ...]
    whole: Bucket
    tools: tuple[Share, ...]
    principals: tuple[Share, ...]


class Records(Protocol):
    """The record, read. Each method raises `AuditError` when it cannot be read."""

    def warnings(self) -> tuple[str, ...]:
        """What keeps the record from being shown whole, in sentences: it is still being read, say."""

    async def calls(self, filters: Filters, *, limit: int, cursor: str = "") -> Found:
        """Calls that fit. Raises `ValueError` for a cursor that is none."""

    async def story(self, call_id: str) -> tuple[Row, ...]:
        """Every entry of a call, in the order of their times."""

    async def figures(self, *, since: float, until: float, steps: int) -> Figures:
        """What happened from `since` up to `until`."""
