"""Quality and cost of the detectors of `inspect_results:`.

Precision and recall of each detector over the labelled set of bench/result_corpus.py, and the time for 1 KB of JSON by all detectors,
without and with findings. `--misses` lists false negatives and false positives.

If idnumbers is installed, the error rate of `national_ids` for all countries. With `--classifier`, prompt injections found by rules
alone, by the model alone and by both: in the set, and in texts that were written independently of the rules.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.result_corpus import DETECTORS, Labelled, corpus
from bench.unseen_texts import UNSEEN_INNOCENT, UNSEEN_ORDERS
from toolgen.config.settings import from_data
from toolgen.gateway.policies.inspection import inspector_of
from toolgen.policy.detectors.classifier import Classifier, Model, Scores, installed_model
from toolgen.policy.detectors.inspector import Inspector, texts_of
from toolgen.policy.detectors.instructions import Instructions
from toolgen.policy.detectors.national_ids import NationalIds, countries_known

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


class KeptModel(Model):
    """Reads each text once: the set has the same sentences often."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._kept: dict[str, list[Scores]] = {}

    def scores(self, text: str) -> Sequence[Scores]:
        if text not in self._kept:
            self._kept[text] = list(self._model.scores(text))
        return self._kept[text]


def orders(cases: list[Labelled]) -> dict[str, dict[str, Score]]:
    """Print how well instructions are found, by set and by detector: `rules`, `classifier`, and `both`, where one of them suffices."""
    model = Classifier(KeptModel(installed_model()), timeout_s=3600)
    labelled = [(texts_of(case.data), "instructions" in case.holds) for case in cases]
    unseen = [*((text, True) for text in UNSEEN_ORDERS), *((text, False) for text in UNSEEN_INNOCENT)]
    return {"labelled": _orders(labelled, model), "unseen": _orders(unseen, model)}


def _orders(texts: Sequence[tuple[str, bool]], model: Classifier) -> dict[str, Score]:
    rules = Instructions()
    found = [(bool(rules.kinds(text)), bool(model.read(text, time.monotonic())), holds) for text, holds in texts]

    def score(says: Callable[[bool, bool], bool]) -> Score:
        pairs = [(says(rule, read), holds) for rule, read, holds in found]
        return Score(
            right=pairs.count((True, True)), false=pairs.count((True, False)), missed=pairs.count((False, True))
        )

    return {
        "rules": score(lambda rule, _: rule),
        "classifier": score(lambda _, read: read),
        "both": score(lambda rule, read: rule or read),
    }


def false_ids(cases: list[Labelled], count: int) -> tuple[int, float, float]:
    """Of `national_ids` for all countries: in how many of the results it finds one, though none holds any; what part of so many numbers of
    8 to 13 digits is taken for one where they stand alone, and where a word for an id stands before them."""
    draw, ids = random.Random(11), NationalIds(countries_known(), "bench")
    numbers = ["".join(draw.choices("0123456789", k=draw.randrange(8, 14))) for _ in range(count)]
    alone, named = (
        sum(any(ids.find(f"{word} {number}")) for number in numbers) / count for word in ("order", "national id")
    )
    return sum(any(ids.find(texts_of(case.data))) for case in cases), alone, named


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


def read_by_a_model(cases: list[Labelled]) -> int:
    """Prints what rules and model find, and what the model costs."""
    print(f"{'texts':<10} {'by':<11} {'precision':>9} {'recall':>7}   right false missed")
    for name, found in orders(cases).items():
        for by, score in found.items():
            print(
                f"{name:<10} {by:<11} {score.precision:9.3f} {score.recall:7.3f}   {score.right:5} {score.false:5} {score.missed:6}"
            )
    model = Classifier(installed_model(), timeout_s=3600)
    texts = [texts_of(answer) for answer in kilobyte(cases, holding=False)[:20]]
    began = time.process_time()
    read = [model.read(text, time.monotonic()) for text in texts]
    whole = [text for text, found in zip(texts, read, strict=True) if not found]
    spent_ms = (time.process_time() - began) * 1e3
    print(
        f"1 KB of text: {spent_ms / (sum(map(len, texts)) / 1024):.0f} ms of CPU ({len(whole)} of {len(texts)} read to the end)"
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--classifier", action="store_true")
    asked = parser.parse_args()
    made, cases = inspector(), corpus(asked.count)
    if asked.classifier:
        return read_by_a_model(cases)
    print(f"{len(cases)} results, {sum(not case.holds for case in cases)} of them hold nothing")
    print(f"{'detector':<15} {'precision':>9} {'recall':>7}   right false missed")
    for name, score in scores(made, cases, misses=asked.misses).items():
        print(
            f"{name:<15} {score.precision:9.3f} {score.recall:7.3f}   {score.right:5} {score.false:5} {score.missed:6}"
        )
    if find_spec("idnumbers") is not None:
        false, alone, named = false_ids(cases, 20_000)
        print(
            f"national_ids, {len(countries_known())} countries: in {false} results of {len(cases)}, all wrongly; numbers of 8 to 13"
            f" digits that are taken for one: {alone:.1%} alone, {named:.1%} behind a word for one"
        )
    nothing = cost(made, kilobyte(cases, holding=False), asked.rounds)
    something = cost(made, kilobyte(cases, holding=True), asked.rounds)
    print(
        f"1 KB of JSON, all detectors: {nothing:.1f} us with nothing in it, {something:.1f} us with something (at most {LIMIT_US:g})"
    )
    return int(nothing > LIMIT_US)


if __name__ == "__main__":
    raise SystemExit(main())
