"""How Sphinx builds README.md, docs/ and the other pages of this folder: `make docs`. What is broken is an error (`-W`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "toolgen"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
exclude_patterns = [".venv*", "dist", "var", "generated", "tests", "toolgen"]  # many files, and no page among them
templates_path: list[str] = []

myst_heading_anchors = 4  # as hosts of repositories make them, so that one link serves both
suppress_warnings = ["misc.highlighting_failure"]  # blocks with `…` in them are JSON to a reader, and not to a lexer

html_theme = "furo"
html_title = "toolgen"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False

CHAPTERS = {
    "Tutorials": ["docs/tutorials/*"],
    "How-to guides": ["docs/how-to/*"],
    "Reference": ["docs/reference/*"],
    "Explanation": ["docs/explanation/concepts", "docs/explanation/*"],
    "Internals": ["ARCHITECTURE", "docs/README", "docs/internals/*", "docs/internals/decisions/*"],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY"],
}


def add_chapters(_app: object, name: str, source: list[str]) -> None:
    """The chapters beside every page: the first page names them, and readers of the file itself do not see that."""
    if name == root_doc:
        trees = (
            "\n".join((f"```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n", *pages, "```"))
            for title, pages in CHAPTERS.items()
        )
        source[0] = "\n\n".join((source[0], *trees))


def begin_at_index(app: Any, failed: Exception | None) -> None:
    """The first page is where a browser looks for it, too."""
    first = Path(app.outdir, f"{root_doc}.html")
    if failed is None and first.is_file():
        shutil.copyfile(first, first.with_name("index.html"))


def setup(app: Any) -> None:
    app.add_lexer("mermaid", TextLexer)  # hosts of repositories draw it; here it is read as the text it is
    app.connect("source-read", add_chapters)
    app.connect("build-finished", begin_at_index)
