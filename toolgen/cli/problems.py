"""Problems of descriptions as lines for people: equal ones of a source are one line, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolgen.model.manifest import Problem

__all__ = ["problem_lines"]

_SHOWN = 20
_NAMED = 3
_ORDER = {"error": 0, "warning": 1, "info": 2}


def problem_lines(problems: Iterable[Problem], rest: str) -> list[str]:
    """Return at most 20 lines, and one with the number of the remaining problems, followed by `rest`.

    Problems of one source with the same level, code and message differ only in their places: the line names three of these and their
    number.
    """
    groups: dict[tuple[str, str, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.level, problem.source, problem.code, problem.message), []).append(problem)
    ranked = sorted(groups.values(), key=lambda group: _ORDER.get(group[0].level, len(_ORDER)))
    lines = [_line(group) for group in ranked[:_SHOWN]]
    if left := sum(map(len, ranked[_SHOWN:])):
        lines.append(f"... and {left} more {rest}")
    return lines


def _line(group: Sequence[Problem]) -> str:
    first = group[0]
    where = ", ".join(problem.origin for problem in group[:_NAMED])
    if (more := len(group) - _NAMED) > 0:
        where += f" and {more} more"
    return f"{first.level}: {first.source} {where}: {first.message} [{first.code}]"
