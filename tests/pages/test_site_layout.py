"""Layout of the documentation site in a browser: contents beside the page, whole code, copy buttons, keyboard, sizes of text, axe."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.frontends.console.axe import violations
from tests.frontends.console.people import needs_chromium, tab_to
from tests.pages.built_site import installed

pytestmark = [installed, needs_chromium, pytest.mark.exhaustive]
COOKBOOK = "docs/how-to/policy-cookbook/limits.html"
CUT = """() => [...document.querySelectorAll('article pre')].filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.textContent.slice(0, 80))"""
SMALL = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = new Set();
    while (walk.nextNode()) {
        const parent = walk.currentNode.parentElement;
        if (!walk.currentNode.textContent.trim() || parent.closest('script, style, noscript, svg')) continue;
        const size = parseFloat(getComputedStyle(parent).fontSize);
        if (size < 12) found.add(`${parent.tagName}.${parent.className} ${size}`);
    }
    return [...found];
}"""


def opened(browser: Browser, site: Path, name: str, *, width: int = 1280, scheme: str = "light") -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.goto((site / name).as_uri())
    return page


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_accessible(browser: Browser, site: Path, scheme: str, width: int) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "index.html")
    assert len(pages) > 80
    page = opened(browser, site, pages[0], scheme=scheme, width=width)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    for name in pages:
        page.goto((site / name).as_uri() + ("?q=approval" if name == "search.html" else ""))
        faults.extend(f"{name}: {one}" for one in violations(page))
        if width >= 1280:
            faults.extend(f"{name}: cut: {one}" for one in page.evaluate(CUT))
        faults.extend(f"{name}: small: {one}" for one in page.evaluate(SMALL))
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{name}: wider than the window")
    page.close()
    assert faults == []


@pytest.mark.parametrize("width", [390, 768, 1200, 1280, 1600])
def test_contents_are_beside_the_page_from_1200_pixels(browser: Browser, site: Path, width: int) -> None:
    page = opened(browser, site, COOKBOOK, width=width)
    boxes = page.evaluate(
        """() => ['.sidebar-drawer', 'article', '.toc-drawer'].map(one => {
            const {left, right} = document.querySelector(one).getBoundingClientRect();
            return [left, right];
        })"""
    )
    (_, navigation), (left, right), (contents, end) = boxes
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert 0 <= left < right <= width
    if width >= 1200:
        assert navigation <= left < right <= contents < end <= width
        assert page.get_by_role("link", name="Business hours").first.is_visible()
    else:
        assert contents >= width
    assert violations(page) == []
    page.close()


def test_a_block_of_code_is_copied(browser: Browser, site: Path) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / COOKBOOK).as_uri())
    first = page.locator("article div.highlight").first
    assert page.locator("button.copy").count() == page.locator("article div.highlight").count()
    first.locator("button.copy").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == first.locator("pre").text_content()
    shown = page.locator(".highlight-console div.highlight").first
    shown.locator("button.copy").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.textContent === 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("toolgen ")
    assert len(copied.splitlines()) == (shown.locator("pre").text_content() or "").count("$ ")
    context.close()


def test_a_wide_table_scrolls_by_keyboard(browser: Browser, site: Path) -> None:
    page = opened(browser, site, "docs/reference/metrics.html", width=390)
    table = ".table-wrapper[tabindex='0']"
    assert page.locator(table).count() > 0
    page.locator(table).first.scroll_into_view_if_needed()
    page.evaluate("document.querySelector('article h1').setAttribute('tabindex', '-1')")
    page.evaluate("document.querySelector('article h1').focus()")
    tab_to(page, table)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
    page.close()
