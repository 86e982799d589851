"""Names and docstrings: each class name has one meaning in the package, and docstrings begin with a noun or a verb."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parent.parent
# Modules may have a private class of the same name; more than two of them say that the name says nothing.
MOST_PRIVATE = 2
# First words that say nothing of the thing that is described.
_EMPTY = re.compile(r"(What|Whether|One|The same|As|It|Nobody|Those|Such)\b")
_Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_class_names_have_one_meaning() -> None:
    repeated = _repeated(
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "toolgen").rglob("*.py"))
    )
    assert not repeated, "\n".join(
        f"{name} is the name of classes in {', '.join(modules)}" for name, modules in repeated.items()
    )


def test_repeated_names_are_found() -> None:
    public, private = "class Page:\n    class Row: ...\n", "class _Reader: ...\n"
    local = "def read():\n    class Page: ...\n"
    modules = [("a.py", public), ("b.py", public + private), ("c.py", private), ("d.py", local)]
    assert _repeated(iter(modules)) == {"Page": ["a.py", "b.py"], "Row": ["a.py", "b.py"]}
    assert "_Reader" in _repeated(iter([*modules, ("e.py", private)]))


def _repeated(modules: Iterator[tuple[str, str]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module, text in modules:
        for name in _classes(ast.parse(text)):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > (MOST_PRIVATE if name.startswith("_") else 1)}


def _classes(node: ast.AST) -> Iterator[str]:
    """Names of classes of a module and of its classes. A class within a function is the function's own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child.name
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    for path in sorted((ROOT / "toolgen").rglob("*.py")):
        found = [f"{path.relative_to(ROOT)}:{line}: {text}" for line, text in _empty(path.read_text(encoding="utf-8"))]
        assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""What a policy says."""', [1]),
        (
            '"""Policy in force."""\nclass A:\n    """One of them."""\n    def b(self):\n        """Whether it is."""',
            [2, 4],
        ),
        ('def _private():\n    """The same, later."""', [1]),
        ('def plain():\n    """Assign names. It is fast."""', []),
    ],
)
def test_empty_beginnings_are_found(source: str, found: list[int]) -> None:
    assert [line for line, _ in _empty(source)] == found


def _empty(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Documented) and _EMPTY.match(text := ast.get_docstring(node) or ""):
            yield getattr(node, "lineno", 1), text.partition("\n")[0]
