"""Mutation testing: plant one small fault after the other in a module, and run the tests that reach it.

    python -m bench.mutants                                          (200 faults drawn from policy, pipeline, audit and gateway)
    python -m bench.mutants --faults 500 --seed 7 --seconds 14400 --results /tmp/faults.jsonl
    python -m bench.mutants toolgen/state/rate_limits.py toolgen/pipeline/stages/deliver.py
    python -m bench.mutants toolgen/core/yaml_file.py --tests tests/policy/document/test_policy.py --seconds 300
    python -m bench.mutants toolgen/state/*.py --most 40            (of each module, the same ones every time)

Faults are planted in a copy of this checkout, never in it. One run without a fault finds the tests that reach each, their times, and
those that fail anyway. Then the tests of the fault's module that reach it run, quick ones first, until one fails. Drawn faults that
survive are tried with the tests of other modules too. Survivors are listed with file and line. Some are harmless (a cache that is
read twice): read each, and write the missing test, or the reason why there is none into explained_faults.yaml. An interrupted run
continues with the same --results; --again tries the survivors. A fault is named by the text of its line, and drawn by that name, so
that changes elsewhere change few of the drawn ones.
The exit status is 1 if an unexplained fault of a named module survives, or more than 5 % of the drawn ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest

from bench import faults as planting
from bench.faults import Fault, explained, faults_of, marked, planted, sample

ROOT = planting.ROOT
DRAWN_FROM = ("policy", "pipeline", "audit", "gateway", "frontends/http", "frontends/mcp", "frontends/rest")
MAX_LIVING = 0.05
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "var", "dist")
MAX_NEAR, MAX_FAR = 20.0, 240.0
"""Seconds of tests that a fault meets at first, and after that."""
_LEFT_OUT = {
    "PYTHONDONTWRITEBYTECODE",
    "PYTEST_XDIST_WORKER",
}  # of the environment: a copy's tests are a run of their own
REPORT, CHOSEN = "TOOLGEN_MUTANTS_REPORT", "TOOLGEN_MUTANTS_CHOSEN"


# As a plugin of pytest in the copies: it reports what ran, and leaves out what was not chosen.


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests that were not chosen, but for those that are new."""
    if file := os.environ.get(CHOSEN):
        said = json.loads(Path(file).read_text(encoding="utf-8"))
        chosen, left_out = set(said["chosen"]), set(said["known"]) - set(said["chosen"])
        items[:] = [item for item in items if item.nodeid in chosen or item.nodeid not in left_out]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Line of JSON for each phase of a test."""
    file = os.environ.get(REPORT)
    if file and "PYTEST_XDIST_WORKER" not in os.environ:  # whose reports the first process gets
        line = json.dumps([report.nodeid, report.outcome, report.duration])
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")


@dataclass(slots=True, kw_only=True)
class Reach:
    """Result of the run without faults: seconds of each test that passed, and the tests that reach each fault."""

    seconds: dict[str, float] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    tests: dict[str, set[str]] = field(default_factory=dict)
    """By `module:number`: ids of tests, files whose tests share a process that came by it, or "" for whoever imports it."""

    def of(self, fault: Fault, own: Collection[str]) -> list[str]:
        """Ids of the tests that come by a fault: the module's own before others, quick ones before slow ones."""
        reached = self.tests.get(f"{fault.module}:{fault.number}", {""})
        found = {
            test
            for test in self.seconds
            if test in reached or (file := test.partition("::")[0]) in reached or ("" in reached and file in own)
        }
        return sorted(found, key=lambda test: (test.partition("::")[0] not in own, self.seconds[test]))


def read_reach(report: Path, marks: Path) -> Reach:
    """Read the output of the run: the report of its tests, and the lines of the marks."""
    reach = Reach()
    for line in report.read_text(encoding="utf-8").splitlines():
        test, outcome, seconds = json.loads(line)
        if outcome == "failed":
            reach.failing.add(test)
        reach.seconds[test] = reach.seconds.get(test, 0.0) + seconds
    for test in reach.failing:
        del reach.seconds[test]
    for line in marks.read_text(encoding="utf-8").splitlines():
        module, number, in_pytest, at = line.split("\t")
        test, _, phase = at.rpartition(" ")
        # What a fixture does, or a process that a test started, may serve later tests of the file too.
        exact = in_pytest == "1" and phase == "(call)"
        reach.tests.setdefault(f"{module}:{number}", set()).add(test if exact else test.partition("::")[0])
    return reach


def _importing(module: Path, files: Sequence[Path]) -> list[Path]:
    dotted, package = ".".join(module.with_suffix("").parts), ".".join(module.parts[:-1])
    imported = re.compile(rf"from {re.escape(dotted)} import|from {re.escape(package)} import [^\n]*\b{module.stem}\b")
    return [path for path in files if imported.search(path.read_text(encoding="utf-8"))]


def tests_of(module: Path) -> list[str]:
    """The tests that belong to a module: files of its name (`test_x.py`, `test_x_…py`), or else those in their folder that import it."""
    beside = sorted((ROOT / Path("tests", *module.parts[1:-1])).glob("test_*.py"))
    own = [path for path in beside if f"{path.stem}_".startswith(f"test_{module.stem}_")]
    return [str(path.relative_to(ROOT)) for path in own or _importing(module, beside)]


def wider_tests_of(module: Path) -> list[str]:
    """Every test file that imports a module, those that belong to a module which does, and those of its folder and of the folders above."""
    folders = [Path("tests", *module.parts[1:place]) for place in range(2, len(module.parts))]
    beside = [path for folder in folders for path in (ROOT / folder).glob("test_*.py")]
    found = [*beside, *_importing(module, sorted((ROOT / "tests").rglob("test_*.py")))]
    users = [path.relative_to(ROOT) for path in _importing(module, sorted((ROOT / "toolgen").rglob("*.py")))]
    return sorted({str(path.relative_to(ROOT)) for path in found} | {test for user in users for test in tests_of(user)})


def drawn(count: int, seed: int) -> list[Fault]:
    """So many faults of the packages that guard, by module; the same ones for a seed, but where their lines were changed."""
    modules = sorted(path.relative_to(ROOT) for part in DRAWN_FROM for path in (ROOT / "toolgen" / part).rglob("*.py"))
    return sample([fault for module in modules for fault in faults_of(module)], count, seed)


class Copy:
    """A copy of the checkout, in which one fault at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self._root, self._temporary = folder / "c", folder / "t"
        shutil.copytree(ROOT, self._root, ignore=LEFT_OUT)
        (self._root / ".venv").symlink_to(ROOT / ".venv")
        (folder / "shared").symlink_to(ROOT.parent / "shared")  # where tests look for the corpus
        self._written = 0

    def write(self, module: Path, text: str) -> None:
        """Puts this text in place of a module's."""
        (self._root / module).write_text(text, encoding="utf-8")
        self._written += 1  # what was compiled goes by size and second, and two faults can have one of both
        os.utime(self._root / module, (self._written, self._written))

    def restore(self, module: Path) -> None:
        """Puts back what stood there."""
        shutil.copy2(ROOT / module, self._root / module)

    def run(self, arguments: Sequence[str], seconds: float, **variables: str) -> int | None:
        """The code that pytest exits with, or None where it did not come to an end in time."""
        self._temporary.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "bench.mutants", *arguments],
            cwd=self._root,
            env={
                **{name: value for name, value in os.environ.items() if name not in _LEFT_OUT},
                **variables,
                "PYTHONPATH": str(self._root),
                "TMPDIR": str(self._temporary),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the session that was begun for it, and what it started there
            process.wait()
            shutil.rmtree(self._temporary, ignore_errors=True)


def reach_of(copy: Copy, faults: Sequence[Fault], tests: Sequence[str], seconds: float, jobs: int) -> Reach:
    """Runs these test files once, without a fault, in processes side by side."""
    with tempfile.TemporaryDirectory() as folder:
        report, marks = Path(folder) / "report", Path(folder) / "marks"
        report.touch()
        marks.touch()
        modules = {fault.module: [one for one in faults if one.module == fault.module] for fault in faults}
        for module, those in modules.items():
            copy.write(module, marked(module, those, marks))
        beside = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        if copy.run([*beside, *tests], seconds, **{REPORT: str(report)}) is None:
            raise SystemExit(f"the tests did not come to an end in {seconds:.0f} seconds: {' '.join(tests)}")
        for module in modules:
            copy.restore(module)
        return read_reach(report, marks)


def notice(copy: Copy, fault: Fault, chosen: Sequence[str], reach: Reach) -> str:
    """Which of these tests notices a fault first, or "". One of another module has to fail twice: load can fail it too."""
    own = tests_of(fault.module)
    copy.write(fault.module, planted(fault))
    try:
        while by := _first_failure(copy, chosen, reach) if chosen else "":
            if by.partition("::")[0] in own or by not in reach.seconds or _first_failure(copy, [by], reach):
                break
            chosen = [test for test in chosen if test != by]
        return by
    finally:
        copy.restore(fault.module)


def _first_failure(copy: Copy, chosen: Sequence[str], reach: Reach) -> str:
    """Repeat a run that timed out with more time, because a busy machine is no fault."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in chosen))
    with tempfile.TemporaryDirectory() as folder:
        report, choice = Path(folder) / "report", Path(folder) / "chosen"
        report.touch()
        choice.write_text(json.dumps({"chosen": chosen, "known": [*reach.seconds, *reach.failing]}))
        patience = 30 + 5 * sum(reach.seconds[test] for test in chosen)
        for seconds in (patience, 4 * patience):
            code = copy.run(["-x", *files], seconds, **{REPORT: str(report), CHOSEN: str(choice)})
            if code is not None:
                break
        if code in (0, 5):  # 5: no test
            return ""
        ended = map(json.loads, report.read_text().splitlines())
        failed = next((test for test, outcome, _ in ended if outcome == "failed"), "no start")
        return "no end" if code is None else failed


@dataclass(slots=True, kw_only=True)
class Results:
    """Results by fault, in a file from which a later run continues."""

    file: Path | None
    noticed: dict[str, str] = field(default_factory=dict)
    """Which test noticed a fault, or "" where it lives."""
    left: set[str] = field(default_factory=set)
    """What the tests of its module let live, and others have not met."""

    def read(self, *, again: bool) -> None:
        """Takes what an earlier run found out; `again`: but for what lived."""
        if self.file is None or not self.file.exists():
            return
        for line in self.file.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            self._take(found["fault"], found["by"], last=found["last"])
        if again:
            self.noticed = {fault: by for fault, by in self.noticed.items() if by}
            self.left.clear()

    def _take(self, fault: str, by: str, *, last: bool) -> None:
        if by or last:
            self.noticed[fault] = by
        else:
            self.left.add(fault)

    def add(self, fault: Fault, by: str, *, last: bool) -> None:
        """Takes what was found out; `last`: no other test meets it."""
        self._take(fault.key, by, last=last)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"fault": fault.key, "by": by, "last": last}) + "\n")


@contextlib.contextmanager
def copies(number: int) -> Iterator[list[Copy]]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as folder:
        yield [Copy(Path(folder) / str(index)) for index in range(number)]


def upto(tests: Sequence[str], reach: Reach, most: float) -> list[str]:
    """Return the first tests that take so many seconds together, at least one."""
    taken, left = [], most
    for test in tests:
        left -= reach.seconds[test]
        if left < 0 and taken:
            break
        taken.append(test)
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Run the tests once without faults, and then once for each fault."""

    tests: dict[Path, list[str]]
    """Files whose tests a module's faults meet."""
    last: bool
    ends: float
    """When to stop, by the monotonic clock."""
    jobs: int

    def look_at(self, faults: Sequence[Fault], results: Results) -> None:
        """Tries each fault with the tests that come by it, until the time is over."""
        files = sorted({file for fault in faults for file in self.tests[fault.module]})
        if not files:
            return
        with copies(self.jobs) as made, ThreadPoolExecutor(self.jobs) as threads:
            reach = reach_of(made[0], faults, files, max(1.0, self.ends - time.monotonic()), self.jobs)
            free: SimpleQueue[Copy] = SimpleQueue()
            for copy in made:
                free.put(copy)

            def one(fault: Fault) -> None:
                copy = free.get()
                try:
                    if (by := self._notice(copy, fault, reach)) is not None:
                        results.add(fault, by, last=self.last)
                finally:
                    free.put(copy)

            list(threads.map(one, faults))

    def _notice(self, copy: Copy, fault: Fault, reach: Reach) -> str | None:
        """Which test notices a fault, "" for none, or None where no time was left to find out."""
        if not self.last and f"{fault.module}:{fault.number}" not in reach.tests:
            return ""  # none of these comes by it; in the last round it may be a process that cannot write marks
        files = set(self.tests[fault.module])
        known = reach.of(fault, files & set(tests_of(fault.module)) or files)
        near = upto(known, reach, MAX_NEAR)
        for chosen in (near, upto(known[len(near) :], reach, MAX_FAR)):
            if time.monotonic() >= self.ends:
                return None
            if chosen and (by := notice(copy, fault, chosen, reach)):
                return by
        return ""


def main(say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description="Plants faults, and says which of them no test notices.")
    parser.add_argument(
        "modules", nargs="*", type=Path, help="without any, faults are drawn from the packages that guard"
    )
    parser.add_argument("--faults", type=int, default=200, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument("--tests", nargs="+", default=[], help="in place of those that belong to the module")
    parser.add_argument("--most", type=int, default=10_000, help="faults of each named module, taken from all over it")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="for everything together (default: 900, or 7200 for drawn ones)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="copies of the checkout that are tried at once")
    parser.add_argument("--results", type=Path, help="file to go on from, and to write to")
    parser.add_argument("--again", action="store_true", help="try those that lived once more")
    options = parser.parse_args()
    ends = time.monotonic() + (options.seconds or (900 if options.modules else 7200))
    results = Results(file=options.results)
    results.read(again=options.again)
    modules = [path.resolve().relative_to(ROOT) for path in options.modules]
    if modules:
        faults = [fault for module in modules for fault in sample(faults_of(module), options.most, 0)]
    else:
        faults = drawn(options.faults, options.seed)
    tests = {fault.module: options.tests or tests_of(fault.module) for fault in faults}
    if modules and not all(tests.values()):
        nameless = ", ".join(str(module) for module, own in tests.items() if not own)
        raise SystemExit(f"{nameless}: no test belongs to it by its name; say --tests")
    first = [fault for fault in faults if tests[fault.module] and fault.key not in {*results.noticed, *results.left}]
    Round(tests=tests, last=bool(modules), ends=ends, jobs=options.jobs).look_at(first, results)
    if not modules:
        wider = {fault.module: wider_tests_of(fault.module) for fault in faults}
        rest = [fault for fault in faults if fault.key not in results.noticed]
        Round(tests=wider, last=True, ends=ends, jobs=options.jobs).look_at(rest, results)
    return tell(faults, results, 0.0 if modules else MAX_LIVING, say)


def tell(faults: Sequence[Fault], results: Results, most: float, say: Callable[[str], None]) -> int:
    """Says of each module how many faults were noticed, and where those are that were not.

    Exits 1 where more than this share lives without an explanation.
    """
    tried = [fault for fault in faults if fault.key in results.noticed]
    living = [fault for fault in tried if not results.noticed[fault.key]]
    reasons = explained()
    for module in dict.fromkeys(fault.module for fault in faults):
        those = [fault for fault in tried if fault.module == module]
        left = sum(fault.module == module for fault in faults) - len(those)
        alive = [fault for fault in living if fault.module == module]
        say(f"{module}: {len(those) - len(alive)} of {len(those)} noticed" + (f", {left} not tried" if left else ""))
        for fault in alive:
            why = f" (explained: {reasons[fault.name]})" if fault.name in reasons else ""
            say(f"  {fault.module}:{fault.line}: {fault.what}{why}")
    known = sum(fault.name in reasons for fault in living)
    share = (len(living) - known) / len(tried) if tried else 1.0
    say(
        f"{len(living)} of {len(tried)} faults live, {known} of them explained: {share:.1%} are not, at most {most:.0%}"
    )
    return 1 if share > most else 0


if __name__ == "__main__":
    sys.exit(main())
