"""What `import toolgen` offers, whatever else was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toolgen


@pytest.mark.parametrize(
    "first", ["toolgen.builder.build", "toolgen.wiring.preview", "toolgen.cli.main", "toolgen.gateway.service"]
)
def test_public_names_are_what_they_are_called_whatever_was_imported_first(first: str) -> None:
    says = f"import {first}, toolgen; print(*(callable(getattr(toolgen, name)) for name in toolgen.__all__))"
    shown = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["True"] * len(toolgen.__all__)


def test_dir_names_all_that_is_public() -> None:
    assert set(toolgen.__all__) <= set(dir(toolgen))


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    says = "import sys, toolgen; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    modules = set(shown.stdout.split())
    assert {name for name in modules if name.startswith("toolgen")} == {"toolgen"}
    assert modules & {"asyncio", "dataclasses", "msgspec", "orjson", "inspect"} == set()
