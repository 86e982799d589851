"""How Sphinx builds README.md, docs/ and the other pages of this folder: `make docs`. What is broken is an error (`-W`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

sys.path.insert(0, str(Path(__file__).parent))

project = "toolgen"
extensions = ["myst_parser", "search_index"]
root_doc = "docs/home"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
exclude_patterns = [".venv*", "dist", "var", "generated", "tests", "toolgen"]  # many files, and no page among them
templates_path = ["templates"]
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]

myst_heading_anchors = 4  # as hosts of repositories make them, so that one link serves both
suppress_warnings = ["misc.highlighting_failure"]  # blocks with `…` in them are JSON to a reader, and not to a lexer

html_theme = "furo"
html_title = "toolgen"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False

LEARNING_ORDER = re.findall(r"\]\(([\w/-]+)\.md\)", Path(__file__).parents[1].joinpath("README.md").read_text("utf-8"))


def in_order(folder: str) -> list[str]:
    """Return the pages of a folder in the order of docs/README.md, which begins with what people need first."""
    return [f"docs/{page}" for page in dict.fromkeys(LEARNING_ORDER) if page.startswith(f"{folder}/")]


CHAPTERS = {
    "Start here": ["docs/tutorials/first-tool", "README", "docs/explanation/concepts"],
    "Tutorials": in_order("tutorials"),
    "How-to guides": in_order("how-to"),
    "Reference": in_order("reference"),
    "Explanation": in_order("explanation"),
    "Internals": ["ARCHITECTURE", "docs/README", "docs/internals/*", "docs/internals/decisions/*"],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY"],
}


def parts_of(source: Path, page: str) -> list[str]:
    """Return the pages of the folder that has the name of a page, in the order in which that page links to them."""
    if not (source / page).is_dir():
        return []
    text = (source / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(rf"\]\({re.escape(page.rpartition('/')[2])}/([\w-]+)\.md", text)
    return [f"{page}/{part}" for part in dict.fromkeys(named)]


def add_chapters(app: Any, name: str, source: list[str]) -> None:
    """Add the chapters to the first page, and the pages of a folder to their overview, for the list beside every page."""
    trees = CHAPTERS if name == root_doc else {"": parts} if (parts := parts_of(Path(app.srcdir), name)) else {}
    for title, pages in trees.items():
        options = ":hidden:\n:glob:\n" + (f":caption: {title}\n" if title else "")
        source[0] += "\n".join((f"\n\n```{{toctree}}\n{options}", *(f"/{page}" for page in pages), "```"))


# Faults of the theme that keep readers of the screen from finding their way: headings without a level, landmarks of one name.
REPAIRS = {
    '<p class="caption" role="heading">': '<p class="caption">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<input class="sidebar-search"': '<input class="sidebar-search" type="search"',
}

EMPTY_HEADER = re.compile(r"<th\b([^>]*)>\s*(?:<p>\s*</p>)?\s*</th>")
"""Cell in the corner of a table, which is the header of nothing."""


def repair(app: Any, failed: Exception | None) -> None:
    for path in Path(app.outdir).rglob("*.html") if failed is None else ():
        text = path.read_text(encoding="utf-8")
        for fault, repaired in REPAIRS.items():
            text = text.replace(fault, repaired)
        path.write_text(EMPTY_HEADER.sub(r"<td\1></td>", text), encoding="utf-8")


def begin_at_index(app: Any, failed: Exception | None) -> None:
    """Lead to the first page from where a browser looks, and write the pages as text for coding agents."""
    if failed is not None or not Path(app.outdir, f"{root_doc}.html").is_file():
        return
    lead = f'<!doctype html><meta charset="utf-8"><title>{project}</title><meta http-equiv="refresh" content="0; url={root_doc}.html">'
    link = f'<a href="{root_doc}.html">{project}</a>'
    Path(app.outdir, "index.html").write_text(f"{lead}{link}\n", encoding="utf-8")
    write_texts(Path(app.srcdir), Path(app.outdir))


def write_texts(source: Path, to: Path) -> None:
    """llms.txt lists the pages by chapter with their first sentence; llms-full.txt has them whole (https://llmstxt.org)."""
    home = (source / f"{root_doc}.md").read_text(encoding="utf-8")
    listed, whole, seen = [f"# {project}\n\n> {sentence(home)}\n"], [home], {f"{root_doc}.md"}
    for title, patterns in CHAPTERS.items():
        listed.append(f"\n## {title}\n\n")
        named = (page for pattern in patterns for page in sorted(source.glob(f"{pattern}.md")))
        for path in (one for page in named for one in with_parts(source, page)):
            name = path.relative_to(source).as_posix()
            if name in seen:
                continue
            seen.add(name)
            text = path.read_text(encoding="utf-8")
            heading = text.lstrip("# ").partition("\n")[0]
            listed.append(f"- [{heading}]({name.removesuffix('.md')}.html): {sentence(text)}\n")
            whole.append(f"<!-- {name} -->\n\n{text}")
    (to / "llms.txt").write_text("".join(listed), encoding="utf-8")
    (to / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def with_parts(source: Path, path: Path) -> list[Path]:
    """Return a page, and the pages of its folder behind it."""
    page = path.relative_to(source).as_posix().removesuffix(".md")
    return [path, *(source / f"{part}.md" for part in parts_of(source, page))]


def sentence(text: str) -> str:
    """The first sentence of a page, without links and marks."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = (part for part in prose.split("\n\n") if part and (part[0].isalpha() or part[0] in "`*["))
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)|[*`]", r"\1", " ".join(next(paragraphs, "").split()))
    return re.split(r"(?<=[.:?!]) ", plain)[0]


def setup(app: Any) -> None:
    app.add_lexer("mermaid", TextLexer)  # hosts of repositories draw it; here it is read as the text it is
    app.connect("source-read", add_chapters)
    app.connect("build-finished", repair)
    app.connect("build-finished", begin_at_index)
