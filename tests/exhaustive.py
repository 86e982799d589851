"""How much of a sweep a run tries: a part of it by default, and all of it where TOOLGEN_EXHAUSTIVE is set, as `make exhaustive` does.

A test marked `sweep` tries more of the same then; one marked `exhaustive` runs only then. docs/internals/testing.md lists both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

_Case = TypeVar("_Case")

EXHAUSTIVE: Final = os.environ.get("TOOLGEN_EXHAUSTIVE", "") not in {"", "0"}


def size(variable: str, default: int, exhaustive: int) -> int:
    """How many cases of a sweep: what the environment variable says, else one of the two."""
    return int(os.environ.get(variable) or (exhaustive if EXHAUSTIVE else default))


def part(cases: Sequence[_Case], every: int) -> Sequence[_Case]:
    """All cases of a sweep, or the first and each `every`th after it, in the default run."""
    return cases if EXHAUSTIVE else cases[::every]


def spread(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: the first and each `every`th after it as they are, and those between them marked `exhaustive`."""
    return [case if place % every == 0 else _exhaustive(case) for place, case in enumerate(cases)]


def _exhaustive(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.exhaustive], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.exhaustive)


def examples(exhaustive: int) -> int:
    """How many examples a property is tried with."""
    return exhaustive if EXHAUSTIVE else max(20, exhaustive // 4)
