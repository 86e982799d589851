"""The smallest arguments that still fail: what a person reads first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["shrink"]

_MOST_STEPS = 400


def shrink(arguments: Mapping[str, Any], fails: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """Smaller and smaller arguments for which `fails` holds (it also says whether they are valid); never larger than those given."""
    smallest, steps = dict(arguments), 0
    progress = True
    while progress and steps < _MOST_STEPS:
        progress = False
        for candidate in _smaller(smallest):
            steps += 1
            if steps > _MOST_STEPS:
                break
            if _size(candidate) < _size(smallest) and fails(candidate):
                smallest, progress = candidate, True
                break
    return smallest


def _size(value: Any) -> tuple[int, str]:
    """By length, then so that `0` is smaller than `7` and `a` smaller than `é`."""
    text = json.dumps(value, sort_keys=True)
    return len(text), text


def _smaller(value: Any) -> Iterator[Any]:
    """Values one step simpler than this one, the boldest steps first."""
    match value:
        case dict():
            for name in value:
                yield {key: item for key, item in value.items() if key != name}
            for name, item in value.items():
                yield from ({**value, name: smaller} for smaller in _smaller(item))
        case list():
            if len(value) > 2:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
            for index in range(len(value)):
                yield value[:index] + value[index + 1 :]
            for index, item in enumerate(value):
                yield from ([*value[:index], smaller, *value[index + 1 :]] for smaller in _smaller(item))
        case str() if value:
            yield ""
            yield "a"
            if len(value) > 1:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
                if len(value) < 40:
                    yield from (value[:index] + value[index + 1 :] for index in range(len(value)))
        case bool() | None:
            return
        case int() | float():
            yield from (0, 1, 2)
            yield int(value) // 2 if abs(value) < 2**63 else 0
        case _:
            return
