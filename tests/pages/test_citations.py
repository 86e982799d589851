"""Every file that the code or a page about the code cites exists, and so does every section of a page that the code cites."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.test_links import ROOT, anchors

PAGES = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs" / "internals").rglob("*.md")),
    *(
        ROOT / "docs" / "explanation" / name
        for name in ("performance.md", "call-plans.md", "search.md", "waiting-calls.md")
    ),
]
FOLDERS = ("toolgen", "tests", "docs", "bench", "conformance", "examples", "deploy", "policies", "specs", ".ci")
FILES = [
    *(path for path in ROOT.glob("*") if path.is_file()),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "node_modules" not in path.parts),
]
_NAMES = frozenset(path.relative_to(ROOT).as_posix() for path in FILES)
_MADE_UP = frozenset({"SKILL.md", "policy/x.py", "own_tools.py", "config.toml", "code.py"})
_CITED = re.compile(r"(?<![\w/.<{*$-])((?:[\w-]+/)*[\w-]+\.(?:py|md|lua))(?:#([\w-]+))?(?![\w/*])")
_PATTERN = re.compile(r"`((?:[\w-]+/)*[\w-]*\*[\w-]*\.(?:py|md|lua))`")


def cited(text: str) -> Iterator[str]:
    """Faults of a text: files it cites that are nowhere, and sections that their page does not have."""
    for name, anchor in _CITED.findall(text):
        if name in _MADE_UP:
            continue
        found = [one for one in _NAMES if one == name or one.endswith(f"/{name}")]
        if not found:
            yield f"{name}: there is no such file"
        elif anchor and not any(anchor in anchors(ROOT / one) for one in found):
            yield f"{name}#{anchor}: there is no such section"
    for pattern in _PATTERN.findall(text):
        if not any(path.match(pattern) for path in FILES):
            yield f"{pattern}: there are no such files"


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The comments and texts of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING}:
            yield token.start[0], token.string


def test_the_code_cites_files_and_sections_that_exist() -> None:
    modules = sorted((ROOT / "toolgen").rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in modules
        for line, text in prose(path)
        for fault in cited(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_about_the_code_cites_files_that_exist(page: Path) -> None:
    assert [*cited(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("as gone.md has it", "gone.md: there is no such file"),
        ("`policy/gone.py`", "policy/gone.py: there is no such file"),
        ("docs/reference/rest.md#gone", "docs/reference/rest.md#gone: there is no such section"),
        ("`dialects/*_gone.py`", "dialects/*_gone.py: there are no such files"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, fault: str) -> None:
    assert [*cited(text)] == [fault]


@pytest.mark.parametrize(
    "text", ["`model/tool.py`", "docs/reference/rest.md#files", "`dialects/*_costs.py`", "a/${x}.py"]
)
def test_a_citation_that_leads_somewhere_is_no_fault(text: str) -> None:
    assert [*cited(text)] == []
