"""Names and docstrings of the package: `python -m tests.names` prints what is wrong with them.

Each class name has one meaning, and docstrings begin with a noun or a verb.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

__all__ = ["empty_docstrings", "problems", "repeated_classes"]

ROOT = Path(__file__).parent.parent
# First words that say nothing of the thing that is described.
_EMPTY = re.compile(
    r"(What|Whether|One|The same|As|It|Nobody|Those|Such|Where|How|Who|When|Everything|Whatever|Somebody|Anybody|Anything)\b"
)
_Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def problems() -> Iterator[str]:
    """Yield a sentence for each fault of the package."""
    modules = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "toolgen").rglob("*.py"))}
    for name, where in repeated_classes((str(path.relative_to(ROOT)), text) for path, text in modules.items()).items():
        yield f"{name} is the name of classes in {', '.join(where)}: give each a name of its own"
    for path, text in modules.items():
        for line, first in empty_docstrings(text):
            yield f"{path.relative_to(ROOT)}:{line}: begin the docstring with a noun or a verb: {first}"


def repeated_classes(modules: Iterator[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return the modules of each class name that occurs more than once, private ones included. `modules` are names and texts."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, text in modules:
        for name in _classes(ast.parse(text)):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def empty_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each thing whose docstring begins with an empty word, and the docstring's first line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Documented) and _EMPTY.match(text := ast.get_docstring(node) or ""):
            yield getattr(node, "lineno", 1), text.partition("\n")[0]


def _classes(node: ast.AST) -> Iterator[str]:
    """Names of classes of a module and of its classes. A class within a function is the function's own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child.name
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child)


if __name__ == "__main__":
    faults = list(problems())
    print("\n".join(faults), end="\n" if faults else "")
    sys.exit(bool(faults))
