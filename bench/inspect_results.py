"""How well `inspect_results:` finds what answers hold, and what looking costs.

Precision and recall of each detector over the labelled set of bench/result_corpus.py, and the time for 1 KB of JSON by all detectors,
where there is nothing to find and where there is. `--misses` lists what was missed and what was found where nothing is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result_corpus import DETECTORS, Labelled, corpus
from toolgen.config.settings import from_data
from toolgen.policy.detectors.inspector import Inspector
from toolgen.wiring.inspection import inspector_of

LIMIT_US = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of one detector."""

    right: int
    false: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.false)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


def inspector() -> Inspector:
    """All that ship, as a project has them."""
    data = {"sources": {"own": {"python": "own"}}, "inspect_results": list(DETECTORS)}
    settings = from_data(data, Path("toolgen.yaml").resolve())
    assert settings.inspection is not None
    return inspector_of(settings.inspection)


def scores(made: Inspector, cases: list[Labelled], *, misses: bool = False) -> Mapping[str, Score]:
    """Of every detector."""
    counts = {name: [0, 0, 0] for name in DETECTORS}
    for case in cases:
        found = {watch.name for watch in made.look("any", case.data).watches}
        for name in DETECTORS:
            if name in found or name in case.holds:
                place = 0 if name in found and name in case.holds else 1 if name in found else 2
                counts[name][place] += 1
                if misses and place:
                    print("found" if place == 1 else "missed", name, json.dumps(case.data, ensure_ascii=False)[:300])
    return {name: Score(right=right, false=false, missed=missed) for name, (right, false, missed) in counts.items()}


def kilobyte(cases: list[Labelled], *, holding: bool) -> list[Any]:
    """Answers of about 1 KB each, of those that hold something or of those that hold nothing."""
    found: list[Any] = []
    parts: list[Any] = []
    for case in cases:
        if bool(case.holds) is holding:
            parts.append(case.data)
            if len(json.dumps(parts)) >= 1024:
                found.append({"items": parts})
                parts = []
    return found


def cost(made: Inspector, answers: list[Any], rounds: int) -> float:
    """CPU microseconds for 1 KB, the least of some rounds."""
    size = sum(len(json.dumps(answer)) for answer in answers) / 1024
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        for answer in answers:
            made.look("any", answer)
        taken.append((time.process_time() - began) * 1e6 / size)
    return min(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--misses", action="store_true")
    asked = parser.parse_args()
    made, cases = inspector(), corpus(asked.count)
    print(f"{len(cases)} results, {sum(not case.holds for case in cases)} of them hold nothing")
    print(f"{'detector':<15} {'precision':>9} {'recall':>7}   right false missed")
    for name, score in scores(made, cases, misses=asked.misses).items():
        print(
            f"{name:<15} {score.precision:9.3f} {score.recall:7.3f}   {score.right:5} {score.false:5} {score.missed:6}"
        )
    nothing = cost(made, kilobyte(cases, holding=False), asked.rounds)
    something = cost(made, kilobyte(cases, holding=True), asked.rounds)
    print(
        f"1 KB of JSON, all detectors: {nothing:.1f} us with nothing in it, {something:.1f} us with something (at most {LIMIT_US:g})"
    )
    return int(nothing > LIMIT_US)


if __name__ == "__main__":
    raise SystemExit(main())
