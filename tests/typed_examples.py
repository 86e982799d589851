"""Pyright in strict mode over every example: `python -m tests.typed_examples`.

Files of examples/ are checked where they are, programs of tutorials as their pages have them. Packages that are not installed beside
toolgen, or have no types, have stubs in frameworks/stubs/: all their names are `Any`, and the rest of an example is checked. Pyright and
Node.js come with the development environment, so that no registry is asked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["UNTYPED", "programs", "write"]

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
FOLDER = ROOT / "dist" / "examples"
UNTYPED = {
    "langgraph": "the types of LangChain's create_agent hold unknown ones",
    "notebook": "cells await outside of functions",
}
"""Tutorials whose programs pyright cannot judge, each with the reason."""


def programs() -> dict[Path, str]:
    """Return the programs of tutorials by file, a folder for each page; a block is named by the bold text before it, if there is one."""
    found = {}
    for page in sorted(TUTORIALS.glob("*.md")):
        blocks = re.findall(
            r"(?:\*\*([\w.]+)\*\*(?:(?!```).)*)?^```python\n(.*?)^```",
            page.read_text("utf-8"),
            re.MULTILINE | re.DOTALL,
        )
        for name, block in blocks if page.stem not in UNTYPED else ():
            found[FOLDER / page.stem.replace("-", "_") / (name or "agent.py")] = block
    return found


def write() -> None:
    """Write the programs of tutorials to where `[tool.pyright]` of pyproject.toml looks for them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in programs().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Check all examples; the exit code is pyright's."""
    write()
    done = subprocess.run([Path(sys.executable).with_name("pyright"), "--project", ROOT], check=False)
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
