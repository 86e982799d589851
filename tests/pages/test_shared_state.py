"""Each row of what survives which fault, in docs/reference/shared-state.md, is held by tests that docs/internals/testing.md names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.test_security_model import functions_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE, TESTS = DOCS / "reference" / "shared-state.md", DOCS / "internals" / "testing.md"
SURVIVAL = "tests/gateway/test_survival.py"


def rows(page: Path, first: str) -> dict[str, list[str]]:
    """The cells of the table whose head begins with `first`, by the first cell of each row."""
    _, table = page.read_text(encoding="utf-8").split(f"| {first} |", 1)
    lines = table.split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in cells}


FAULTS, HELD = rows(PAGE, "Fault | Calls under way"), rows(TESTS, "Fault | Held by")


def links(fault: str) -> list[tuple[str, Path]]:
    """The tests that hold a row, each with its file."""
    found = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", HELD[fault][0])
    return [(name, (TESTS.parent / target).resolve()) for name, target in found]


def test_every_row_names_its_tests() -> None:
    assert len(FAULTS) >= 7
    assert list(FAULTS) == list(HELD)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_tests_of_a_row_exist_and_the_first_tries_all_of_its_columns(fault: str) -> None:
    found = links(fault)
    assert found, "link the tests that hold it"
    assert found[0][1] == DOCS.parent / SURVIVAL
    for name, path in found:
        assert name in functions_of(path), f"{path.name} has no {name}"


def test_no_row_has_the_test_of_another_one() -> None:
    first = [links(fault)[0][0] for fault in FAULTS]
    assert len(set(first)) == len(first)
    assert set(first) == functions_of(DOCS.parent / SURVIVAL)
