"""Python modules in the folder of a project."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["forget_modules", "project_modules"]


def project_modules(root: Path, generated: Path) -> Iterator[str]:
    """Yield the names of the modules and packages in the folder of a project, without those that a build writes."""
    for path in root.iterdir():
        if path == generated:
            continue
        if path.suffix == ".py":
            yield path.stem
        elif path.is_dir() and next(path.glob("*.py"), None) is not None:
            yield path.name


def forget_modules(root: Path, generated: Path) -> None:
    """Remove the modules of a project that is closed from the import cache. Otherwise another project with a module of the same name would
    run its code. Modules of that name from other folders stay."""
    names, place = frozenset(project_modules(root, generated)), str(root.resolve()) + os.sep
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in names and file and os.path.realpath(file).startswith(place):
            sys.modules.pop(name, None)
    importlib.invalidate_caches()
