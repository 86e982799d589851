"""Whether tests notice: plants one small fault after the other in a module, and runs the tests that belong to it.

    python -m bench.mutants                                          (200 faults drawn from policy, pipeline, audit and gateway)
    python -m bench.mutants --faults 500 --seed 7 --seconds 14400
    python -m bench.mutants toolgen/state/rate_limits.py toolgen/pipeline/stages/deliver.py
    python -m bench.mutants toolgen/yaml_file.py --tests tests/policy/document/test_policy.py --seconds 300
    python -m bench.mutants toolgen/state/*.py --most 40            (of each module, the same ones every time)

Faults are planted in a copy of this checkout, never in it. A fault is dead when a test fails or does not come to an end; what lives
stands at the end with file and line. Some do no harm (a cache that is asked twice): read each, and write the test that is missing.
A drawn fault that the tests of its module let live is tried once more, with every test of its package and every one that imports it.
Exits 1 where any fault of a named module lives, or more than 5 % of the drawn ones.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).parent.parent
DRAWN_FROM = ("policy", "pipeline", "audit", "gateway")
MAX_LIVING = 0.05
LEFT_OUT = shutil.ignore_patterns(".*", "var", "dist")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One that can be planted: the how-manieth of its module, where, and what it does."""

    module: Path
    number: int
    line: int
    what: str


class Planter(ast.NodeTransformer):
    """Plants the fault of this number, and lists what it could have planted."""

    def __init__(self, module: Path, chosen: int = -1) -> None:
        self.module = module
        self.chosen = chosen
        self.faults: list[Fault] = []

    def _here(self, node: ast.AST, what: str) -> bool:
        number = len(self.faults)
        self.faults.append(Fault(module=self.module, number=number, line=getattr(node, "lineno", 0), what=what))
        return number == self.chosen

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for index, operator in enumerate(node.ops):
            other = COMPARISONS[type(operator)]
            if self._here(node, f"{type(operator).__name__} becomes {other.__name__}"):
                node.ops[index] = other()
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self._here(node, "and becomes or" if isinstance(node.op, ast.And) else "or becomes and"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        for value in list(node.values) if len(node.values) > 1 else ():
            if self._here(value, f"without `{ast.unparse(value)[:60]}`"):
                node.values.remove(value)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        other = OPERATORS.get(type(node.op))
        texts = any(
            isinstance(one, ast.Constant | ast.JoinedStr) and not _number(one) for one in (node.left, node.right)
        )
        if other is not None and not texts and self._here(node, f"{type(node.op).__name__} becomes {other.__name__}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not) and self._here(node, "without not"):
            return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def _negated(self, node: Any) -> ast.AST:
        if not isinstance(node.test, ast.Constant) and self._here(node.test, "condition negated"):
            node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        return self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = _negated

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        for condition in list(node.ifs):
            if self._here(condition, f"without `if {ast.unparse(condition)[:60]}`"):
                node.ifs.remove(condition)
        return self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        nothing = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        if not nothing and self._here(node, "returns nothing"):
            node.value = None
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            if self._here(node, f"{node.value} becomes {not node.value}"):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif isinstance(node.value, int | float) and self._here(node, f"{node.value} becomes {node.value + 1}"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):  # a docstring
            return node
        if self._here(node, f"without `{ast.unparse(node)[:60]}`"):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if self._here(node, "raises nothing"):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.copy_location(ast.Break(), node) if self._here(node, "continue becomes break") else node

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return ast.copy_location(ast.Continue(), node) if self._here(node, "break becomes continue") else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        other = NAMES.get(node.id)
        if other is not None and self._here(node, f"{node.id} becomes {other}"):
            return ast.copy_location(ast.Name(id=other, ctx=node.ctx), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # a sentence for a person

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _body(self, node: Any) -> ast.AST:
        """Without decorators and annotations: nothing runs there that a test could notice."""
        for keyword in getattr(node, "keywords", ()):
            if keyword.arg == "forbid_unknown_fields" and self._here(keyword.value, "takes unknown fields"):
                keyword.value = ast.Constant(False)
        node.body = [self.visit(one) for one in node.body]
        if (arguments := getattr(node, "args", None)) is not None:
            arguments.defaults = [self.visit(one) for one in arguments.defaults]
            arguments.kw_defaults = [one and self.visit(one) for one in arguments.kw_defaults]
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _body


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def faults_of(module: Path) -> list[Fault]:
    """Everything that can be planted in a module, in the order it stands."""
    planter = Planter(module)
    planter.visit(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    return planter.faults


def planted(fault: Fault) -> str:
    """The module's text with the fault in it."""
    tree = Planter(fault.module, fault.number).visit(ast.parse((ROOT / fault.module).read_text(encoding="utf-8")))
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_of(module: Path) -> list[str]:
    """The tests that belong to a module: files of its name (`test_x.py`, `test_x_…py`), or else those in their folder that import it."""
    dotted, package = ".".join(module.with_suffix("").parts), ".".join(module.parts[:-1])
    imported = re.compile(rf"from {re.escape(dotted)} import|from {re.escape(package)} import [^\n]*\b{module.stem}\b")
    folder = Path("tests", *module.parts[1:-1])
    beside = sorted((ROOT / folder).glob("test_*.py"))
    own = [
        path for path in beside if path.stem == f"test_{module.stem}" or path.stem.startswith(f"test_{module.stem}_")
    ]
    found = own or [path for path in beside if imported.search(path.read_text(encoding="utf-8"))]
    return [str(path.relative_to(ROOT)) for path in found]


def wider_tests_of(module: Path) -> list[str]:
    """Every test file that imports a module, and those of the nearest folder of its package that has any."""
    dotted, package = ".".join(module.with_suffix("").parts), ".".join(module.parts[:-1])
    imported = re.compile(rf"from {re.escape(dotted)} import|from {re.escape(package)} import [^\n]*\b{module.stem}\b")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    found = {path for path in files if imported.search(path.read_text(encoding="utf-8"))}
    folder = ROOT / Path("tests", *module.parts[1:-1])
    while not (beside := list(folder.glob("test_*.py"))):
        folder = folder.parent
    return sorted(str(path.relative_to(ROOT)) for path in found.union(beside))


def drawn(count: int, seed: int) -> dict[Path, list[Fault]]:
    """So many faults of the packages that guard, by module; the same ones for a seed and a state of the code."""
    modules = sorted(path.relative_to(ROOT) for part in DRAWN_FROM for path in (ROOT / "toolgen" / part).rglob("*.py"))
    pool = [fault for module in modules for fault in faults_of(module)]
    chosen: dict[Path, list[Fault]] = {}
    for fault in sorted(
        random.Random(seed).sample(pool, min(count, len(pool))), key=lambda one: (one.module, one.number)
    ):
        chosen.setdefault(fault.module, []).append(fault)
    return chosen


class Trials:
    """Copies of the checkout, each of which tries one fault at a time."""

    def __init__(self, copies: Sequence[Path], tests: Sequence[str]) -> None:
        self._tests = tests
        self._free: SimpleQueue[Path] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    def notice(self, fault: Fault | None, seconds: float) -> bool:
        """Whether the tests notice a fault; with none, whether they fail as they are."""
        copy = self._free.get()
        try:
            if fault is None:
                return self._fail(copy, seconds)
            (copy / fault.module).write_text(planted(fault), encoding="utf-8")
            try:
                return self._fail(copy, seconds)
            finally:
                shutil.copy(ROOT / fault.module, copy / fault.module)
        finally:
            self._free.put(copy)

    def _fail(self, copy: Path, seconds: float) -> bool:
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *self._tests]
        process = subprocess.Popen(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # each run begins again
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            return True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the session that was begun for it, and what it started there
            process.wait()


@contextlib.contextmanager
def copies(number: int, module: Path) -> Iterator[list[Path]]:
    """With what is compiled already, but for the module that changes: two faults can have one size and one second."""
    with tempfile.TemporaryDirectory(prefix="toolgen-mutants-") as folder:
        made = [Path(folder) / str(index) for index in range(number)]
        for copy in made:
            shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
            for compiled in (copy / module).parent.glob(f"__pycache__/{module.stem}.*"):
                compiled.unlink()
        yield made


def some_of(module: Path, most: int) -> list[Fault]:
    """At most so many faults of a module, taken from all over it, the same ones every time."""
    faults = faults_of(module)
    return sorted(random.Random(0).sample(faults, most), key=lambda one: one.number) if most < len(faults) else faults


def look_at(
    module: Path, faults: Sequence[Fault], tests: Sequence[str], ends: float, jobs: int
) -> tuple[list[Fault], int]:
    """Which faults of a module live, and how many were tried before the time was over."""
    with copies(jobs, module) as made, ThreadPoolExecutor(jobs) as threads:
        trials = Trials(made, tests)
        began = time.monotonic()
        if trials.notice(None, max(1.0, ends - began)):
            raise SystemExit(f"{module}: its tests fail, or take too long, without any fault: {' '.join(tests)}")
        patience = 5 + 4 * (time.monotonic() - began)

        def lives(fault: Fault) -> bool | None:
            return None if time.monotonic() >= ends else not trials.notice(fault, patience)

        found = list(threads.map(lives, faults))
    return [fault for fault, alive in zip(faults, found, strict=True) if alive], sum(
        alive is not None for alive in found
    )


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def main(say: Callable[[str], None] = _say) -> int:
    parser = argparse.ArgumentParser(description="Plants faults, and says which of them no test notices.")
    parser.add_argument(
        "modules", nargs="*", type=Path, help="without any, faults are drawn from the packages that guard"
    )
    parser.add_argument("--faults", type=int, default=200, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument(
        "--tests", nargs="+", default=[], help="in place of those that belong to the module by their names"
    )
    parser.add_argument("--most", type=int, default=10_000, help="faults of each named module, taken from all over it")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="for everything together (default: 900, or 7200 for drawn ones)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="copies of the checkout that are tried at once")
    options = parser.parse_args()
    ends = time.monotonic() + (options.seconds or (900 if options.modules else 7200))
    if options.modules:
        return named(options, ends, say)
    return draw(options, ends, say)


def named(options: argparse.Namespace, ends: float, say: Callable[[str], None]) -> int:
    """Faults of the modules that were named, each with the tests of its own."""
    lived = 0
    for path in options.modules:
        module = path.resolve().relative_to(ROOT)
        tests = options.tests or tests_of(module)
        if not tests:
            say(f"{module}: no test belongs to it by its name; say --tests")
            lived += 1
            continue
        faults = some_of(module, options.most)
        living, tried = look_at(module, faults, tests, ends, options.jobs)
        left = len(faults_of(module)) - tried
        say(f"{module}: {tried - len(living)} of {tried} faults noticed" + (f", {left} not tried" if left else ""))
        lived += tell(living, say)
    return 1 if lived else 0


def draw(options: argparse.Namespace, ends: float, say: Callable[[str], None]) -> int:
    """Faults drawn from all packages that guard: the module's own tests first, then all of its package."""
    living: list[Fault] = []
    tried = 0
    for module, faults in drawn(options.faults, options.seed).items():
        own = tests_of(module)
        left, done = look_at(module, faults, own, ends, options.jobs) if own else (faults, 0)
        wider = [test for test in wider_tests_of(module) if test not in own]
        if left and wider:
            left, again = look_at(module, left, wider, ends, options.jobs)
            done = max(done, again)
        say(
            f"{module}: {done - len(left)} of {done} faults noticed"
            + (f", {len(faults) - done} not tried" if done < len(faults) else "")
        )
        tell(left[:done], say)
        living += left[:done]
        tried += done
    share = len(living) / tried if tried else 1.0
    say(f"{len(living)} of {tried} faults live: {share:.1%}, at most {MAX_LIVING:.0%}")
    return 1 if share > MAX_LIVING else 0


def tell(living: Sequence[Fault], say: Callable[[str], None]) -> int:
    """Says where each fault is that lives; how many there are."""
    for fault in living:
        say(f"  {fault.module}:{fault.line}: {fault.what}")
    return len(living)


if __name__ == "__main__":
    sys.exit(main())
