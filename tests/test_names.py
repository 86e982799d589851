"""Names: each class name has one meaning in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Modules may have a private class of the same name; more than two of them say that the name says nothing.
MOST_PRIVATE = 2


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
