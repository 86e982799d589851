"""What `bench.mutants` plants: each fault once, in the same order every time, and in text that still is Python."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from bench import faults, mutants

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install

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


TESTED = """
from m import twice
def test_twice(): assert twice(3) == 6
def test_that_fails_anyway(): assert twice(3) == 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    (tmp_path / "bench").symlink_to(Path(mutants.__file__).parent)
    monkeypatch.setattr(faults, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return Path("m.py")


def test_every_kind_of_fault_is_found_where_it_runs(module: Path) -> None:
    assert [fault.what for fault in faults.faults_of(module)] == WHATS


def test_each_fault_changes_the_module_and_no_two_do_it_alike(module: Path) -> None:
    texts = [faults.planted(fault) for fault in faults.faults_of(module)]
    plain = ast.unparse(ast.parse(TEXT))
    assert len({*texts, plain}) == len(WHATS) + 1
    for text in texts:
        ast.parse(text)


@pytest.mark.parametrize(
    ("value", "whats"),
    [("False", ["False becomes True"]), ("0", ["returns nothing", "0 becomes 1"]), ("None", []), ("", [])],
)
def test_none_in_place_of_false_is_no_fault(module: Path, tmp_path: Path, value: str, whats: list[str]) -> None:
    (tmp_path / module).write_text(f"def f():\n    return {value}\n", encoding="utf-8")
    assert [fault.what for fault in faults.faults_of(module)] == whats


def test_marks_tell_which_faults_were_come_by_and_change_nothing(module: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.touch()
    text = "def f(x):\n    if x > 1:\n        return 2\n    return 3\n\nA = 4\n"
    (tmp_path / module).write_text(text, encoding="utf-8")
    spoken: dict[str, Any] = {}
    exec(faults.marked(module, faults.faults_of(module), told), spoken)

    def reached() -> list[str]:
        numbers = [int(line.split("\t")[1]) for line in told.read_text(encoding="utf-8").splitlines()]
        told.write_text("", encoding="utf-8")
        return [faults.faults_of(module)[number].what for number in numbers]

    assert (spoken["A"], reached()) == (4, ["4 becomes 5"])
    assert (spoken["f"](2), reached()) == (
        2,
        ["condition negated", "Gt becomes GtE", "1 becomes 2", "returns nothing", "2 becomes 3"],
    )
    assert (spoken["f"](0), reached()) == (3, ["returns nothing", "3 becomes 4"])


@pytest.mark.exhaustive
def test_a_run_says_what_lives_and_goes_on_where_it_was(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a small checkout: faults that a test notices, one that no assertion is about, and a test that fails anyway."""
    text = "def twice(x):\n    len(str(x))\n    return x + x\n"
    (tmp_path / module).write_text(text, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_m.py").write_text(TESTED, encoding="utf-8")
    file, said = tmp_path / "results.jsonl", []
    monkeypatch.setattr("sys.argv", ["mutants", "m.py", "--tests", "tests/test_m.py", "--results", str(file)])
    monkeypatch.chdir(tmp_path)

    assert mutants.main(said.append) == 1

    assert said == [
        "m.py: 2 of 3 noticed",
        "  m.py:2: without `len(str(x))`",
        "1 of 3 faults live, 0 of them explained: 33.3% are not, at most 0%",
    ]
    found = [json.loads(line)["by"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert found == ["", "tests/test_m.py::test_twice", "tests/test_m.py::test_twice"]

    monkeypatch.setattr(mutants, "copies", pytest.fail)  # nothing is left to be tried
    again: list[str] = []
    assert mutants.main(again.append) == 1
    assert again == said


def test_the_tests_of_a_module_are_those_of_its_name_or_those_beside_it_that_import_it() -> None:
    assert mutants.tests_of(Path("toolgen/state/rate_limits.py")) == [
        "tests/state/test_rate_limits.py",
        "tests/state/test_rate_limits_queue.py",
        "tests/state/test_rate_limits_upstreams.py",
        "tests/state/test_rate_limits_waiting_times.py",
    ]
    assert mutants.tests_of(Path("toolgen/policy/document/schema.py")) == ["tests/policy/document/test_principals.py"]
    assert mutants.tests_of(Path("toolgen/nowhere.py")) == []


def test_tests_that_come_by_a_fault_are_the_modules_own_first_and_the_quick_ones(tmp_path: Path) -> None:
    report, marks = tmp_path / "report", tmp_path / "marks"
    ran = [("a::slow", 3.0), ("a::quick", 1.0), ("a::bad", 1.0), ("b::near", 0.5), ("b::beside", 0.4), ("c::far", 0.1)]
    lines = [[test, "failed" if test == "a::bad" else "passed", seconds] for test, seconds in ran]
    report.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    marks.write_text(
        "m.py\t0\t1\ta::slow (call)\nm.py\t0\t1\ta::quick (call)\nm.py\t0\t1\ta::bad (call)\n"
        "m.py\t1\t0\tb::near (call)\nm.py\t2\t1\t\n",  # another process than pytest's; while it is imported
        encoding="utf-8",
    )
    reach = mutants.read_reach(report, marks)
    at = [faults.Fault(module=Path("m.py"), number=number, line=1, what="") for number in range(3)]

    assert reach.of(at[0], {"a"}) == ["a::quick", "a::slow"]
    assert reach.of(at[1], {"a"}) == ["b::beside", "b::near"]
    assert reach.of(at[2], {"a"}) == ["a::quick", "a::slow"]
    assert mutants.upto(["a::quick", "a::slow", "b::near"], reach, 4.0) == ["a::quick", "a::slow"]
    assert mutants.upto(["a::slow", "a::quick"], reach, 2.0) == ["a::slow"]


@pytest.mark.exhaustive
def test_faults_are_drawn_from_all_packages_that_guard_and_the_same_ones_every_time() -> None:
    first = mutants.drawn(200, 0)
    assert first == mutants.drawn(200, 0) != mutants.drawn(200, 1)
    assert len(first) == 200
    assert {fault.module.parts[1] for fault in first} == set(mutants.DRAWN_FROM)


def test_a_fault_is_drawn_and_named_alike_when_other_lines_come(module: Path, tmp_path: Path) -> None:
    before = faults.faults_of(module)
    assert len({fault.key for fault in before}) == len(before)

    (tmp_path / module).write_text(TEXT.replace("A: int", "Z = 8\nA: int") + "\nB = 9\n", encoding="utf-8")
    after = faults.faults_of(module)

    assert {fault.key for fault in before} < {fault.key for fault in after}
    was = {fault.key for fault in faults.sample(before, 9, 0)}
    assert len(was & {fault.key for fault in faults.sample(after, 9, 0)}) >= 7


def test_what_is_explained_is_told_apart_and_counts_for_nothing(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / module).write_text("def f(x):\n    log(x)\n    log(x)\n    return x\n", encoding="utf-8")
    reason = "nobody reads it"
    monkeypatch.setattr(mutants, "explained", lambda: {"m.py: log(x): without `log(x)`": reason})
    found = faults.faults_of(module)
    results = mutants.Results(file=None)
    for fault in found:
        results.add(fault, "", last=True)
    said: list[str] = []

    assert mutants.tell(found, results, 0.5, said.append) == 0

    assert said[1] == f"  m.py:2: without `log(x)` (explained: {reason})"
    assert said[-1] == "3 of 3 faults live, 2 of them explained: 33.3% are not, at most 50%"
    assert mutants.tell(found, results, 0.3, said.append) == 1


def test_every_explanation_is_of_a_fault_that_can_be_planted() -> None:
    reasons = faults.explained()
    modules = {Path(name.partition(": ")[0]) for name in reasons}
    names = {fault.name for module in modules for fault in faults.faults_of(module)}
    assert set(reasons) <= names, "the line was changed: look again whether it does no harm"
    assert all(reasons.values())


def test_a_fault_that_lives_meets_every_test_of_its_package_and_all_that_import_it() -> None:
    wider = mutants.wider_tests_of(Path("toolgen/policy/document/schema.py"))
    assert {"tests/policy/test_strictness.py", "tests/policy/document/test_policy.py"} <= {*wider}
    assert "tests/gateway/test_pauses.py" in mutants.wider_tests_of(Path("toolgen/gateway/calls/call_service.py"))
    assert "tests/cli/test_policy_review.py" in mutants.wider_tests_of(
        Path("toolgen/gateway/policies/policy_replay.py")
    )
