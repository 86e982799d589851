"""The documentation builds as a site without a warning, every page is in it, and a page asks for nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.built_site import ROOT, SITE, build, installed

PAGES = [path.relative_to(ROOT) for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))]
# What a browser fetches by itself: scripts, styles, fonts, pictures, frames.
FETCHED = re.compile(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"([^\"]+)|<link\b[^>]*\bhref=\"([^\"]+)")


@installed
@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_is_in_the_site(site: Path, page: Path) -> None:
    built = site / page.with_suffix(".html")
    assert built.is_file()
    text = (site / "README.html").read_text(encoding="utf-8")
    assert page.name == "README.md" or f'href="{page.with_suffix(".html")}"' in text, "name it in docs/site/conf.py"


@installed
@pytest.mark.exhaustive
def test_it_begins_where_a_browser_looks(site: Path) -> None:
    assert "url=docs/home.html" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "docs" / "home.html").is_file()


@installed
@pytest.mark.exhaustive
def test_coding_agents_have_the_pages_as_text(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"({page.with_suffix('.html')})" in listed or page.name == "home.md", page
        assert page.read_text(encoding="utf-8") in whole, page
    assert listed.index("first-tool") < listed.index("docs/how-to/")


@installed
@pytest.mark.exhaustive
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    fetched = {
        one for page in pages for pair in FETCHED.findall(page.read_text(encoding="utf-8")) for one in pair if one
    }
    assert any(one.endswith(".css") for one in (text.partition("?")[0] for text in fetched))
    assert [one for one in sorted(fetched) if "//" in one or one.startswith("data:text")] == []
    styles = [path.read_text(encoding="utf-8") for path in (site / "_static").rglob("*.css")]
    assert [
        one for text in styles for one in re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]*", text)
    ] == []


@installed
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("[a page](docs/gone.md)", "docs/gone.md"),
        ("[a part](docs/page.md#no-such-part)", "no-such-part"),
        ("```{nothing}\n```", "nothing"),
    ],
)
def test_what_is_broken_is_an_error(tmp_path: Path, broken: str, said: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n\n## A part\n", encoding="utf-8")
    (tmp_path / "docs" / "home.md").write_text("# Home\n", encoding="utf-8")
    (tmp_path / "README.md").write_text(f"# First\n\n{broken}\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert re.search(rf"README\.md:\d+: \w+: .*{said}", done.stderr), done.stderr


def test_the_lock_has_hashes_and_names_no_registry() -> None:
    lock = (SITE / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in lock
    assert all("--hash=sha256:" in one for one in re.split(r"\n(?=[a-z0-9])", lock.strip()))
