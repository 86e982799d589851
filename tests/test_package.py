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
