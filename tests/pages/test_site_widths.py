"""Every page of the documentation site at the widths of a phone, a tablet and a desk: nothing is wider than the page or cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.exhaustive import part
from tests.frontends.console.people import needs_chromium
from tests.pages.built_site import installed

pytestmark = [installed, needs_chromium, pytest.mark.sweep]
# Elements that end outside of the page, unless something around them scrolls; text in a button or a cell that is cut off.
FAULTS = """() => {
    const found = [], scrolls = (one) => ['auto', 'scroll'].includes(getComputedStyle(one).overflowX);
    const named = (one) => `${one.tagName.toLowerCase()}.${one.className} ${one.textContent.trim().slice(0, 40)}`;
    if (document.documentElement.scrollWidth > innerWidth) found.push(`the page: ${document.documentElement.scrollWidth}`);
    for (const one of document.querySelectorAll('main *, header *, article *')) {
        const {width, right} = one.getBoundingClientRect();
        if (!width || right <= innerWidth + 1 || !one.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        let around = one.parentElement;
        while (around && !scrolls(around)) around = around.parentElement;
        if (!around && !one.closest('.toc-drawer, .sidebar-drawer, .hidden, .visually-hidden')) found.push(`wide: ${named(one)}`);
    }
    for (const one of document.querySelectorAll('button, td, th, .button, input[type=submit]')) {
        const {overflowX, overflowY} = getComputedStyle(one), hides = (value) => value === 'hidden' || value === 'clip';
        if (!one.checkVisibility() || one.closest('.visually-hidden')) continue;
        if (hides(overflowX) && one.scrollWidth > one.clientWidth + 1) found.push(`cut: ${named(one)}`);
        if (hides(overflowY) && one.scrollHeight > one.clientHeight + 1) found.push(`cut below: ${named(one)}`);
    }
    return found.slice(0, 5);
}"""


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_wider_than_the_page_or_cut_off(browser: Browser, site: Path, width: int) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "index.html")
    assert len(pages) > 80
    page = browser.new_page(viewport={"width": width, "height": 900})
    faults: list[str] = []
    for name in part(pages, 12):
        page.goto((site / name).as_uri())
        faults.extend(f"{name}: {one}" for one in page.evaluate(FAULTS))
    page.close()
    assert faults == []


def test_a_wide_element_and_cut_text_are_found(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(
        "<main><p style='width:500px'>wide</p><button style='width:9px;overflow:hidden'>Send it</button></main>"
    )
    found = page.evaluate(FAULTS)
    page.close()
    assert [one.partition(":")[0] for one in found] == ["the page", "wide", "cut"]
