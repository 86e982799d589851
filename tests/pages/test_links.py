"""Every link between pages leads to a file that is there, and to a heading of it; so does every page that the program names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def links(text: str) -> Iterator[str]:
    """What the prose of a page links to; blocks and spans of code are no prose."""
    for target in _LINK.findall(_CODE.sub("`code`", _BLOCK.sub("", text))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors_of(text: str) -> frozenset[str]:
    """The anchors that hosts of repositories, and myst-parser, give the headings of a page."""
    found: dict[str, int] = {}
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return frozenset(found)


@cache
def anchors(page: Path) -> frozenset[str]:
    return anchors_of(page.read_text(encoding="utf-8"))


def faults(page: Path, text: str) -> Iterator[str]:
    for target in links(text):
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        if not place.is_file():
            yield f"{target}: there is no such file"
        elif not place.is_relative_to(ROOT):
            yield f"{target}: leads out of the project"
        elif anchor and anchor not in (anchors_of(text) if place == page else anchors(place)):
            yield f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert [*faults(page, page.read_text(encoding="utf-8"))] == []


def test_links_to_headings_are_among_them() -> None:
    assert any("#" in target for page in PAGES for target in links(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a](gone.md)", "gone.md: there is no such file"),
        ("[a](docs/README.md#gone)", "docs/README.md#gone: there is no such heading"),
        ("# A part\n\n[a](#a-part) [b](#b-part)", "#b-part: there is no such heading"),
        ("# It\n\n# It\n\n[a](#it-1) [b](#it-2)", "#it-2: there is no such heading"),
        ("[`a`](gone.md)", "gone.md: there is no such file"),
        ("a ` mark\n\n[a](gone.md) `", "gone.md: there is no such file"),
        ("[a](../)", "../: there is no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text: str, fault: str) -> None:
    assert [*faults(ROOT / "README.md", text)] == [fault]


@pytest.mark.parametrize(
    "text",
    ["`[a](gone.md)`", "```md\n[a](gone.md)\n```", "[a](https://example.com)", "# Say `x`: it's\n\n[a](#say-x-its)"],
)
def test_what_is_no_link_and_what_leads_somewhere_is_no_fault(text: str) -> None:
    assert [*faults(ROOT / "README.md", text)] == []


def test_the_pages_that_the_program_names_are_there() -> None:
    """In messages, help texts and comments, by the path from the top of the project."""
    named = {
        (name, str(path.relative_to(ROOT)))
        for path in (ROOT / "toolgen").rglob("*")
        if path.suffix in {".py", ".html", ".yaml", ".toml"}
        for name in re.findall(r"\bdocs/[a-z_/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [one for one in sorted(named) if not (ROOT / one[0]).is_file()] == []
