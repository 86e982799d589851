"""Small faults that can be planted in a module, and marks that tell which tests come by them. A part of `bench.mutants`."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
EXPLAINED = Path("bench", "explained_faults.yaml")
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
    """Fault that can be planted: its number in the module, its place and its effect."""

    module: Path
    number: int
    line: int
    what: str
    text: str = ""
    """Of the line, without what stands around it."""
    nth: int = 0
    """Of those in the module with the same line and the same words."""

    @property
    def key(self) -> str:
        """Names the fault for as long as its line stands somewhere in the module: other lines may come and go."""
        return self.name + (f" ({self.nth})" if self.nth else "")

    @property
    def name(self) -> str:
        """Name shared by all faults of one kind in a line."""
        return f"{self.module}: {self.text}: {self.what}"


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
        # None is as good as False to whoever asks for either, and False becomes True below.
        value = node.value.value if isinstance(node.value, ast.Constant) else node.value
        nothing = value is None or value is False
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
    """Return the faults that can be planted in a module, in the order of its lines."""
    planter = Planter(module)
    written = (ROOT / module).read_text(encoding="utf-8")
    planter.visit(ast.parse(written))
    lines, seen, found = written.splitlines(), Counter[str](), []
    for fault in planter.faults:
        one = replace(fault, text=lines[fault.line - 1].strip())
        found.append(replace(one, nth=seen[one.key]))
        seen[one.key] += 1
    return found


def explained() -> dict[str, str]:
    """Why the faults of explained_faults.yaml do no harm, by `module: line: what it does`."""
    found = {}
    for entry in yaml.safe_load((ROOT / EXPLAINED).read_text(encoding="utf-8")):
        for what in entry["faults"]:
            found[f"{entry['module']}: {entry['line']}: {what}"] = entry["reason"]
    return found


def sample(faults: Sequence[Fault], most: int, seed: int) -> list[Fault]:
    """So many of these. What is chosen hangs on the faults themselves: a line that is added elsewhere changes few of them."""
    chosen = sorted(faults, key=lambda one: hashlib.sha256(f"{seed} {one.key}".encode()).digest())[:most]
    return sorted(chosen, key=lambda one: (one.module, one.number))


def planted(fault: Fault) -> str:
    """The module's text with the fault in it."""
    tree = Planter(fault.module, fault.number).visit(ast.parse((ROOT / fault.module).read_text(encoding="utf-8")))
    return ast.unparse(ast.fix_missing_locations(tree))


MARK = """
def _fault_reached(number, told=set()):
    import os, sys
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if (number, test) not in told:
        told.add((number, test))
        try:
            file = os.open({file!r}, os.O_WRONLY | os.O_APPEND)
            os.write(file, f"{module}\\t{{number}}\\t{{'_pytest' in sys.modules:d}}\\t{{test}}\\n".encode())
            os.close(file)
        except OSError:
            pass
"""
"""What a marked module tells of each fault whose statement is run: whether pytest runs in this process, and which test it is at."""


def marked(module: Path, faults: Sequence[Fault], file: Path) -> str:
    """The module's text without a fault, with a mark before the innermost statement of each: it adds a line to the file when it is run."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    marks: list[tuple[list[ast.stmt], ast.stmt, int]] = []
    for fault in faults:
        place = None
        for body in _bodies(tree):
            for statement in body:
                if statement.lineno <= fault.line <= (statement.end_lineno or statement.lineno):
                    place = body, statement  # the walk goes inwards
        if place is not None:
            marks.append((*place, fault.number))
    for body, statement, number in marks:
        body.insert(body.index(statement), ast.parse(f"_fault_reached({number})").body[0])
    after = [_opens(one) for one in tree.body].index(False)
    tree.body[after:after] = ast.parse(MARK.format(file=str(file), module=module)).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, outer ones first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(found := getattr(node, name, None), list):
                yield found


def _opens(statement: ast.stmt) -> bool:
    """Return True for a docstring or an import from __future__, which must come first."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
