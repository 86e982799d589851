"""Problems of descriptions as people read them: many equal ones hide no other."""

from __future__ import annotations

from toolgen.cli.problems import problem_lines
from toolgen.model.manifest import Problem


def problem(origin: str, message: str = "no credentials", *, level: str = "warning") -> Problem:
    return Problem(level=level, source="pets", origin=origin, code="c", message=message)  # type: ignore[arg-type]


def test_equal_problems_are_one_line_and_the_worst_come_first() -> None:
    many = [problem(f"#/paths/~1{number}/get") for number in range(555)]
    lines = problem_lines([*many, problem("#/a", "no type", level="error"), problem("#/b", "no server")], "in all")
    assert lines == [
        "error: pets #/a: no type [c]",
        "warning: pets #/paths/~10/get, #/paths/~11/get, #/paths/~12/get and 552 more: no credentials [c]",
        "warning: pets #/b: no server [c]",
    ]


def test_of_many_different_problems_twenty_are_shown_and_the_others_counted() -> None:
    lines = problem_lines([problem(f"#/{number}", f"message {number}") for number in range(25)], "problems, elsewhere")
    assert len(lines) == 21
    assert lines[-1] == "... and 5 more problems, elsewhere"


def test_no_problem_is_no_line() -> None:
    assert problem_lines([], "in all") == []
