"""What `bench.mutants` plants: each fault once, in the same order every time, and in text that still is Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench import mutants

TEXT = '''"""A module."""
from __future__ import annotations
A: int = 3

@dataclass(frozen=True)
class C(Struct, forbid_unknown_fields=True):
    """A class."""
    b: Literal[4] = 5

    def f(self, x: int = 6) -> bool:
        """A function."""
        if x < 3 and not self.b:
            raise ValueError(f"no {7} here")
        for one in [y for y in x if y]:
            call(one)
            continue
        return x == 2
'''
WHATS = [
    "3 becomes 4",
    "takes unknown fields",
    "5 becomes 6",
    "condition negated",
    "and becomes or",
    "without `x < 3`",
    "without `not self.b`",
    "Lt becomes LtE",
    "3 becomes 4",
    "without not",
    "raises nothing",
    "without `if y`",
    "without `call(one)`",
    "continue becomes break",
    "returns nothing",
    "Eq becomes NotEq",
    "2 becomes 3",
    "6 becomes 7",
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return Path("m.py")


def test_every_kind_of_fault_is_found_where_it_runs(module: Path) -> None:
    assert [fault.what for fault in mutants.faults_of(module)] == WHATS


def test_each_fault_changes_the_module_and_no_two_do_it_alike(module: Path) -> None:
    texts = [mutants.planted(fault) for fault in mutants.faults_of(module)]
    plain = ast.unparse(ast.parse(TEXT))
    assert len({*texts, plain}) == len(WHATS) + 1
    for text in texts:
        ast.parse(text)


def test_the_tests_of_a_module_are_those_of_its_name_or_those_beside_it_that_import_it() -> None:
    assert mutants.tests_of(Path("toolgen/state/rate_limits.py")) == [
        "tests/state/test_rate_limits.py",
        "tests/state/test_rate_limits_queue.py",
        "tests/state/test_rate_limits_upstreams.py",
        "tests/state/test_rate_limits_waiting_times.py",
    ]
    assert mutants.tests_of(Path("toolgen/policy/document/schema.py")) == ["tests/policy/document/test_principals.py"]
    assert mutants.tests_of(Path("toolgen/nowhere.py")) == []


def test_faults_are_drawn_from_all_packages_that_guard_and_the_same_ones_every_time() -> None:
    first = mutants.drawn(200, 0)
    assert first == mutants.drawn(200, 0) != mutants.drawn(200, 1)
    assert sum(map(len, first.values())) == 200
    assert {module.parts[1] for module in first} == set(mutants.DRAWN_FROM)


def test_a_fault_that_lives_meets_every_test_of_its_package_and_all_that_import_it() -> None:
    wider = mutants.wider_tests_of(Path("toolgen/policy/document/schema.py"))
    assert {"tests/policy/test_strictness.py", "tests/policy/document/test_policy.py"} <= {*wider}
    assert "tests/gateway/test_pauses.py" in mutants.wider_tests_of(Path("toolgen/gateway/call_service.py"))
