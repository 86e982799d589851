"""The documentation, built as a site."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
ENVIRONMENT = ROOT / ".venv-docs"

installed = pytest.mark.skipif(
    not (ENVIRONMENT / ".installed").exists(), reason="the documentation's environment: `make docs` installs it"
)


def build(source: Path, to: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [
        ENVIRONMENT / "bin" / "python",
        "-m",
        "sphinx",
        "-b",
        "html",
        "-W",
        "--keep-going",
        "--quiet",
    ]
    places: list[str | Path] = ["-c", SITE, "-d", to / "doctrees", source, to / "html"]
    return subprocess.run([*command, *places], capture_output=True, text=True, check=False)
