"""Copy of the package with edits, to prove that an addition takes no more than ARCHITECTURE.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Edit", "EditedPackage"]

_PACKAGE = Path(__file__).parents[1] / "toolgen"


class Edit(NamedTuple):
    """Text that is added before another text of a file, which has that text once."""

    file: str
    before: str
    added: str


class EditedPackage:
    """Commands of the program, run in a project by a package that has the edits."""

    def __init__(self, folder: Path, edits: Iterable[Edit]) -> None:
        self.package, self.project = folder / "package", folder / "project"
        self.project.mkdir()
        # With its bytecode, which is as new as the files it is made of.
        shutil.copytree(_PACKAGE, self.package / "toolgen")
        for edit in edits:
            path = self.package / "toolgen" / edit.file
            text = path.read_text(encoding="utf-8")
            assert text.count(edit.before) == 1, (edit.file, edit.before)
            path.write_text(text.replace(edit.before, edit.added + edit.before), encoding="utf-8")

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the project."""
        for name, text in files.items():
            path = self.project / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, *arguments: str, fails: bool = False, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run Python with arguments in the project."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.project,
            env={**os.environ, "PYTHONPATH": str(self.package)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert fails == (done.returncode != 0), done.stdout + done.stderr
        return done

    def toolgen(self, *arguments: str, fails: bool = False, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the program in the project."""
        return self.run("-m", "toolgen", *arguments, fails=fails, stdin=stdin)
