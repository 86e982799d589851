"""Leaks: what a process holds at the end of a run, and what a gateway says that it still does, compared with the start."""

from __future__ import annotations

import re
import resource
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from tests.simulation.invariants import Anomaly

__all__ = ["Held", "held", "leaked_tasks", "leaks", "tasks", "unsettled"]

_MORE_DESCRIPTORS, _MORE_THREADS, _MORE_MEMORY = 40, 24, 96 << 20
"""Number of descriptors, threads and bytes by which a worker may have more at the end than the largest one after its start."""
_MORE_TASKS = 40
"""Number of tasks by which a worker may have more at the end than any had at the start: idle connections of clients have one each."""
_SETTLED = ("toolgen_calls_in_flight", "toolgen_upstream_in_flight", "toolgen_audit_waiting")
"""Metrics that are 0 when no call is under way."""


class Held(Struct, frozen=True, kw_only=True):
    """Resources that a process holds: descriptors, threads, and resident memory in bytes."""

    descriptors: int
    threads: int
    memory: int


def held(pid: int) -> Held:
    """Return what a process holds now."""
    process = Path(f"/proc/{pid}")
    return Held(
        descriptors=sum(1 for _ in (process / "fd").iterdir()),
        threads=sum(1 for _ in (process / "task").iterdir()),
        memory=int((process / "statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize(),
    )


def leaks(at_start: Mapping[int, Held], at_end: Mapping[int, Held]) -> list[Anomaly]:
    """Return an anomaly for each process that holds more at the end than the largest one of the start, and a margin."""
    most = Held(
        descriptors=max(one.descriptors for one in at_start.values()) + _MORE_DESCRIPTORS,
        threads=max(one.threads for one in at_start.values()) + _MORE_THREADS,
        memory=max(one.memory for one in at_start.values()) + _MORE_MEMORY,
    )
    return [
        Anomaly(invariant="leak", operation=str(pid), text=f"{one}, at most {most}")
        for pid, one in at_end.items()
        if one.descriptors > most.descriptors or one.threads > most.threads or one.memory > most.memory
    ]


def tasks(metrics: str) -> list[int]:
    """Return the number of tasks of each worker of a gateway."""
    return [int(one) for one in _values("toolgen_tasks", metrics)]


def leaked_tasks(gateway: str, at_start: Collection[int], metrics: str) -> list[Anomaly]:
    """Return an anomaly if a worker of a gateway has many more tasks than any had at the start, or does not tell their number."""
    found, most = tasks(metrics), max(at_start) + _MORE_TASKS
    if found and max(found) <= most:
        return []
    return [Anomaly(invariant="leak", operation=gateway, text=f"tasks of workers: {found}, at most {most}")]


def unsettled(gateway: str, metrics: str) -> list[Anomaly]:
    """Return an anomaly for each metric of a gateway without calls that is not 0, or that is not there."""
    found = []
    for name in _SETTLED:
        values = _values(name, metrics)
        if not values or any(values):
            found.append(Anomaly(invariant="leak", operation=gateway, text=f"{name} is {values}"))
    return found


def _values(name: str, metrics: str) -> list[float]:
    return [float(one) for one in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)]
