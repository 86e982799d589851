"""Pyright in strict mode over every example: `python -m tests.typed_examples`.

Files of examples/ are checked where they are, programs of tutorials as their pages have them. Packages that are not installed beside
toolgen, or have no types, have stubs in frameworks/stubs/: all their names are `Any`, and the rest of an example is checked. Pyright and
Node.js come with the development environment, so that no registry is asked.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["programs", "write"]

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
FOLDER = ROOT / "dist" / "examples"
MCP_1 = ROOT / "tests" / "frameworks" / "mcp_1.json"
"""Settings for the example of version 1 of mcp, which stands in a stub where version 2 is installed."""
LOOSE = {"langgraph": ("Member", "Variable", "Argument")}
"""Tutorials whose framework has unknown types of its own: the kinds of unknown types that are let on there."""


def programs() -> dict[Path, str]:
    """Return the programs of tutorials by file, a folder for each page; a block is named by the bold text before it, if there is one."""
    found: dict[Path, str] = {}
    for page in sorted(TUTORIALS.glob("*.md")):
        blocks = re.findall(
            r"(?:\*\*([\w.]+)\*\*(?:(?!```).)*)?^```python\n(.*?)^```",
            page.read_text("utf-8"),
            re.MULTILINE | re.DOTALL,
        )
        if page.stem == "notebook":
            blocks = [("", as_program([block for _, block in blocks]))]
        rules = ", ".join(f"reportUnknown{kind}Type=false" for kind in LOOSE.get(page.stem, ()))
        for name, block in blocks:
            text = f"# pyright: strict, {rules}\n{block}" if rules else block
            found[FOLDER / page.stem.replace("-", "_") / (name or "agent.py")] = text
    return found


def as_program(cells: Sequence[str]) -> str:
    """Return the cells of a notebook as one program: they await outside of functions, and show the value of their last line."""
    body: list[ast.stmt] = []
    for cell in cells:
        *before, last = ast.parse(cell).body
        if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Await):
            last = ast.Expr(ast.Call(ast.Name("print"), [last.value], []))
        body += [*before, last]
    program = ast.parse("import asyncio\n\nasync def main() -> None: ...\n\nasyncio.run(main())")
    main = program.body[1]
    assert isinstance(main, ast.AsyncFunctionDef)
    main.body = body
    return ast.unparse(ast.fix_missing_locations(program))


def write() -> None:
    """Write the programs of tutorials to where `[tool.pyright]` of pyproject.toml looks for them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in programs().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Check all examples; the exit code is pyright's."""
    write()
    pyright = Path(sys.executable).with_name("pyright")
    codes = [subprocess.run([pyright, "--project", project], check=False).returncode for project in (ROOT, MCP_1)]
    raise SystemExit(max(codes))


if __name__ == "__main__":
    main()
