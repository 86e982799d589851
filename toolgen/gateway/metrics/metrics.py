"""Counters of the gateway. `prometheus.py` renders them: sums for all, names for reviewers."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable

from toolgen.model.call import Call
from toolgen.model.result import Refused, Result, Success

__all__ = ["BOUNDS", "DurationHistogram", "Metrics", "ToolCounts"]

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of histograms, in seconds."""
_MAX_CODES = 64  # codes are about twenty of the gateway's own; codes of a device or a plugin must not make this grow
_MAX_NAMES = 2_000  # maximum number of principals and of rules: issuers may have any number of users
_OTHER = "other"


class DurationHistogram:
    """Histogram of call durations: number of calls up to each bound, and the total time."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def take(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class ToolCounts:
    """Calls of one tool: how many ended in each status, and their total time."""

    __slots__ = ("seconds", "source", "statuses")

    def __init__(self, source: str) -> None:
        self.source = source
        self.statuses: dict[str, int] = {}
        self.seconds = 0.0


class Metrics:
    """Counters of one process. Unknown tool names are not counted, because agents invent them."""

    def __init__(self) -> None:
        self.in_flight = 0
        # By status and code. The series of alerts exist from the start, because Prometheus sees no increase in a new counter.
        self.calls: dict[tuple[str, str], int] = {
            ("error", "internal"): 0,
            ("error", "outcome_unknown"): 0,
            ("ok", ""): 0,
        }
        self.durations: dict[str, DurationHistogram] = {}
        self.operations: dict[tuple[str, str], DurationHistogram] = {}
        self.responses: dict[int, int] = {}
        self.tools: dict[str, ToolCounts] = {}
        self.principals: dict[tuple[str, str], int] = {}
        """Calls by principal and status."""
        self.refusals: dict[tuple[str, str], int] = {}
        """Refusals by rule and code."""
        self.began = time.time()
        self.certificate_end: Callable[[], float | None] = lambda: None
        """Expiry of the gateway's own TLS certificate, in seconds since the epoch; None if there is none."""

    def begin(self) -> None:
        """Count the start of a call."""
        self.in_flight += 1

    def end(self, call: Call, result: Result | None, seconds: float) -> None:
        """Count the end of a call; without a result if it was aborted with its process."""
        self.in_flight -= 1
        status, code = "cancelled", ""
        if result is not None:
            status = result.status
            if not isinstance(result, Success):
                code = result.error.code
                if isinstance(result, Refused):
                    refusal: tuple[str, str] = (result.error.rule or "", code)
                    if refusal not in self.refusals and len(self.refusals) >= _MAX_NAMES:
                        refusal = (_OTHER, _OTHER)
                    self.refusals[refusal] = self.refusals.get(refusal, 0) + 1
        key = (status, code)
        if key not in self.calls and len(self.calls) >= _MAX_CODES:
            key = (status, _OTHER)
        self.calls[key] = self.calls.get(key, 0) + 1
        durations = self.durations.get(status)
        if durations is None:
            durations = self.durations[status] = DurationHistogram()
        durations.take(seconds)
        if call.tool.digest:
            tool = self.tools.get(call.tool.name)
            if tool is None:
                tool = self.tools[call.tool.name] = ToolCounts(call.tool.source)
            tool.statuses[status] = tool.statuses.get(status, 0) + 1
            tool.seconds += seconds
        who = (call.principal.id, status)
        if who not in self.principals and len(self.principals) >= _MAX_NAMES:
            who = (_OTHER, status)
        self.principals[who] = self.principals.get(who, 0) + 1

    def operated(self, method: str, error: str, seconds: float) -> None:
        """Count an answered MCP request. Both texts are the gateway's: a known method or `other`, and the error or ""."""
        durations = self.operations.get((method, error))
        if durations is None:
            durations = self.operations[method, error] = DurationHistogram()
        durations.take(seconds)

    def answered(self, status: int) -> None:
        """Count an answered HTTP request."""
        self.responses[status] = self.responses.get(status, 0) + 1
