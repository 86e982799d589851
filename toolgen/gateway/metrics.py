"""What the gateway did, counted for Prometheus: sums alone, under labels that are words of ours, so that nobody can make or read names."""

from __future__ import annotations

import os
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from toolgen.execute.base import FunctionCounts
from toolgen.model.result import Result, Success

__all__ = ["MEDIA_TYPE", "Metrics"]

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MAX_CODES = 64  # codes are ours and some twenty; a device's or a plugin's may never make this grow
_OTHER = "other"
_NO_FUNCTIONS = FunctionCounts()
_NO_RESTARTS: Mapping[str, int] = {}


class _Durations:
    """One histogram: how many calls took up to each bound, and how long all took together."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def take(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds


class Metrics:
    """The counters of one process. Names of tools, sources, principals and conversations are in none of them: they are read without a
    credential."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._calls: dict[tuple[str, str], int] = {}
        self._durations: dict[str, _Durations] = {}
        self._operations: dict[tuple[str, str], _Durations] = {}
        self._responses: dict[int, int] = {}
        self._began = time.time()

    def begin(self) -> None:
        """A call sets out."""
        self._in_flight += 1

    def end(self, result: Result | None, seconds: float) -> None:
        """A call has ended; without a result where it was broken off with its process."""
        self._in_flight -= 1
        status, code = "cancelled", ""
        if result is not None:
            status, code = result.status, "" if isinstance(result, Success) else result.error.code
        key = (status, code)
        if key not in self._calls and len(self._calls) >= _MAX_CODES:
            key = (status, _OTHER)
        self._calls[key] = self._calls.get(key, 0) + 1
        durations = self._durations.get(status)
        if durations is None:
            durations = self._durations[status] = _Durations()
        durations.take(seconds)

    def operated(self, method: str, error: str, seconds: float) -> None:
        """An MCP request has its answer. Both words are ours: a method that there is or `other`, and what went wrong or ""."""
        durations = self._operations.get((method, error))
        if durations is None:
            durations = self._operations[method, error] = _Durations()
        durations.take(seconds)

    def answered(self, status: int) -> None:
        """A request has its answer."""
        self._responses[status] = self._responses.get(status, 0) + 1

    def rendered(
        self,
        *,
        worker: str,
        ready: bool,
        functions: FunctionCounts = _NO_FUNCTIONS,
        restarts: Mapping[str, int] = _NO_RESTARTS,
    ) -> bytes:
        """Everything in Prometheus's text format. `worker` tells the processes of one gateway apart. Which function hangs is in the log.

        `restarts` is how often each background task that ever failed was started again.
        """
        families = (
            *self._of_calls(),
            _Family(
                "toolgen_background_restarts_total",
                "counter",
                "Background tasks that failed and were started again.",
                [({"task": task}, count) for task, count in sorted(restarts.items())],
            ),
            _Family("toolgen_ready", "gauge", "1 while calls are taken.", [({}, int(ready))]),
            *_of_functions(functions),
            *self._of_the_process(),
        )
        lines = [line for family in families for line in family.lines({"worker": worker})]
        return ("\n".join(lines) + "\n").encode("utf-8")

    def _of_calls(self) -> Iterator[_Family]:
        """Calls of tools, MCP requests, and answers over HTTP."""
        yield _Family(
            "toolgen_calls_total",
            "counter",
            "Calls that ended, by how.",
            [({"status": status, "code": code}, count) for (status, code), count in sorted(self._calls.items())],
        )
        yield _Family("toolgen_calls_in_flight", "gauge", "Calls that have not ended.", [({}, self._in_flight)])
        yield _Family(
            "toolgen_call_duration_seconds",
            "histogram",
            "How long calls took, from the record to the record.",
            [({"status": status}, took) for status, took in sorted(self._durations.items())],
        )
        yield _Family(
            "mcp_server_operation_duration_seconds",
            "histogram",
            "How long MCP requests took.",
            [
                ({"mcp_method_name": method, "error_type": error}, took)
                for (method, error), took in sorted(self._operations.items())
            ],
        )
        yield _Family(
            "toolgen_http_responses_total",
            "counter",
            "Answers to requests of any kind.",
            [({"status": str(status)}, count) for status, count in sorted(self._responses.items())],
        )

    def _of_the_process(self) -> Iterator[_Family]:
        """What Prometheus's own clients say of a process, as far as this system tells."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        yield _Family("process_cpu_seconds_total", "counter", "CPU time, of the user and the system.", [({}, cpu_s)])
        began = "When it began, in seconds since the epoch."
        yield _Family("process_start_time_seconds", "gauge", began, [({}, self._began)])
        if sys.platform == "linux":
            size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
            yield _Family("process_resident_memory_bytes", "gauge", "Memory that is resident.", [({}, size)])
            opened = len(os.listdir("/proc/self/fd"))
            yield _Family("process_open_fds", "gauge", "Open file descriptors.", [({}, opened)])


class _Family(NamedTuple):
    """One metric: what it is, and its samples by their labels."""

    name: str
    kind: str
    text: str
    samples: Sequence[tuple[Mapping[str, str], float | _Durations]]

    def lines(self, same: Mapping[str, str]) -> Iterator[str]:
        """In Prometheus's text format, each sample with the labels that are the `same` for all."""
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} {self.kind}"
        for own, value in self.samples:
            labels = {**own, **same}
            if isinstance(value, _Durations):
                yield from _histogram(self.name, labels, value)
            else:
                yield _sample(self.name, labels, value)


def _of_functions(counts: FunctionCounts) -> Iterator[_Family]:
    for name, kind, text, value in (
        ("threads", "gauge", "Threads taken by functions.", counts.threads),
        ("threads_lost", "gauge", "Threads in which functions run that were given up.", counts.threads_lost),
        ("threads_abandoned_total", "counter", "Calls given up whose function ran on.", counts.threads_abandoned),
        ("loops_lost", "gauge", "Event loops that async functions block for good.", counts.loops_lost),
        ("loop_blocked_total", "counter", "How often an async function blocked others.", counts.loops_blocked),
    ):
        yield _Family(f"toolgen_function_{name}", kind, text, [({}, value)])


def _histogram(name: str, labels: Mapping[str, str], durations: _Durations) -> Iterator[str]:
    count = 0
    for bound, more in zip((*(f"{one:g}" for one in _BOUNDS), "+Inf"), durations.counts, strict=True):
        count += more
        yield _sample(f"{name}_bucket", {**labels, "le": bound}, count)
    yield _sample(f"{name}_sum", labels, durations.total)
    yield _sample(f"{name}_count", labels, count)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
