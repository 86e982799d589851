"""Prometheus's text format: metrics with their samples, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from toolgen.gateway.metrics.metrics import BOUNDS, DurationHistogram

__all__ = ["Family", "one_of"]


class Family(NamedTuple):
    """Metric family: name, kind and help text, and samples by their labels."""

    name: str
    kind: str
    text: str
    samples: Sequence[tuple[Mapping[str, str], float | DurationHistogram]]

    def lines(self, same: Mapping[str, str]) -> Iterator[str]:
        """Return the lines in Prometheus's text format, each sample with the labels `same`."""
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} {self.kind}"
        for own, value in self.samples:
            labels = {**own, **same}
            if isinstance(value, DurationHistogram):
                yield from _histogram(self.name, labels, value)
            else:
                yield _sample(self.name, labels, value)


def one_of(name: str, kind: str, text: str, value: float) -> Family:
    return Family(name, kind, text, [({}, value)])


def _histogram(name: str, labels: Mapping[str, str], durations: DurationHistogram) -> Iterator[str]:
    count = 0
    for bound, more in zip((*(f"{one:g}" for one in BOUNDS), "+Inf"), durations.counts, strict=True):
        count += more
        yield _sample(f"{name}_bucket", {**labels, "le": bound}, count)
    yield _sample(f"{name}_sum", labels, durations.total)
    yield _sample(f"{name}_count", labels, count)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
