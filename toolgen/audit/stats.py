"""What calls came to: how many of what, and how long they took, by tool and by principal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolgen.audit.index.index import Sample

__all__ = ["Group", "Stats", "percentile", "stats_of"]

_MANY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Some calls. Times in milliseconds, of those that ended; None where none did. Percentiles are values that occurred (nearest rank)."""

    name: str
    calls: int
    ok: int
    refused: int
    errors: int
    p50: float | None
    p90: float | None
    p99: float | None
    slowest: float | None

    def to_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "name": self.name,
            "calls": self.calls,
            "ok": self.ok,
            "refused": self.refused,
            "errors": self.errors,
            "duration_ms": {"p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.slowest},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """`first` and `last` are microseconds since the epoch; groups come with the most calls first, a hundred at most."""

    total: Group
    first: int | None
    last: int | None
    statuses: dict[str, int]
    codes: dict[str, int]
    rules: dict[str, int]
    tools: tuple[Group, ...]
    principals: tuple[Group, ...]

    def to_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            **self.total.to_dict(),
            "statuses": self.statuses,
            "codes": self.codes,
            "rules": self.rules,
            "tools": [group.to_dict() for group in self.tools],
            "principals": [group.to_dict() for group in self.principals],
        }


class _Gathering:
    __slots__ = ("durations", "statuses")

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.durations: list[float] = []

    def add(self, sample: Sample) -> None:
        self.statuses[sample.status] += 1
        if sample.duration_ms is not None and sample.status != "pending":
            self.durations.append(sample.duration_ms)

    def group(self, name: str) -> Group:
        durations = sorted(self.durations)
        return Group(
            name=name,
            calls=self.statuses.total(),
            ok=self.statuses["ok"],
            refused=self.statuses["refused"],
            errors=self.statuses["error"],
            p50=percentile(durations, 50),
            p90=percentile(durations, 90),
            p99=percentile(durations, 99),
            slowest=durations[-1] if durations else None,
        )


def stats_of(samples: Iterable[Sample]) -> Stats:
    """One pass over them. A call that waits for a person has not ended, so its time says nothing."""
    total = _Gathering()
    tools: dict[str, _Gathering] = {}
    principals: dict[str, _Gathering] = {}
    codes: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    first, last = math.inf, -math.inf
    for sample in samples:
        total.add(sample)
        tools.setdefault(sample.tool, _Gathering()).add(sample)
        principals.setdefault(sample.principal, _Gathering()).add(sample)
        codes[sample.code] += 1
        rules[sample.rule] += 1
        first, last = min(first, sample.time), max(last, sample.time)
    return Stats(
        total=total.group("all"),
        first=None if first is math.inf else int(first),
        last=None if last == -math.inf else int(last),
        statuses=dict(total.statuses.most_common()),
        codes={code: count for code, count in codes.most_common() if code},
        rules={rule: count for rule, count in rules.most_common() if rule},
        tools=_most(tools),
        principals=_most(principals),
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The smallest of them that at least so many percent do not exceed; None of none."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _most(gathered: dict[str, _Gathering]) -> tuple[Group, ...]:
    names = sorted(gathered, key=lambda name: (-gathered[name].statuses.total(), name))
    return tuple(gathered[name].group(name) for name in names[:_MANY])
