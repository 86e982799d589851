"""Text of HTML, without markup, scripts and styles: a scanner reads each byte once, for any page, and builds no tree."""

from __future__ import annotations

import html
import re

__all__ = ["text_of_html"]

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,63})")
_REST = re.compile(r"[^>\"']*+(?:(?:\"[^\"]*+\"|'[^']*+')[^>\"']*+)*+>")
_UNSEEN = frozenset(
    {"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "textarea", "select"}
)
_LINE_NAMES = """address article aside blockquote body br caption dd details dialog div dl dt fieldset figcaption figure footer form h1 h2
h3 h4 h5 h6 header hr html li main nav ol option p pre section summary table tbody tfoot thead title tr ul"""
_PARAGRAPH_NAMES = "blockquote h1 h2 h3 h4 h5 h6 hr ol p pre section table title ul"
_LINES, _PARAGRAPHS = frozenset(_LINE_NAMES.split()), frozenset(_PARAGRAPH_NAMES.split())
_CELLS = frozenset({"td", "th"})
_SPACE = re.compile(r"[ \t\r\n\f\v\xa0]+")
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _UNSEEN}
_HEAD_END = re.compile(r"</head(?=[\s/>])|<body(?=[\s/>])", re.IGNORECASE)
_BLANKS = re.compile(r"\n{3,}")
_MAX_FAULTS = 100
_TITLE = re.compile(r"<title(?=[\s/>])", re.IGNORECASE)
_TITLE_TEXT = re.compile(r"[^<]{0,1000}")


def text_of_html(page: str) -> str:
    """Return the text of a page: its title first, blocks on separate lines, items of lists with a dash, cells of tables side by side."""
    return _Scanner(page).text()


class _Scanner:
    def __init__(self, page: str) -> None:
        self._page = page
        self._pieces: list[str] = []
        self._heads = 1
        self._quotes = _MAX_FAULTS  # number of further tags that may have unclosed quotes

    def text(self) -> str:
        page, pieces = self._page, self._pieces
        at, end = 0, len(page)
        while at < end:
            opening = page.find("<", at)
            if opening < 0:
                opening = end
            if opening > at:
                text = _SPACE.sub(" ", html.unescape(page[at:opening]))
                if text != " " or not pieces or not pieces[-1].endswith("\n"):
                    pieces.append(text)
            if opening == end:
                break
            at = self._behind_markup(opening)
        lines = (line.strip() for line in "".join(pieces).split("\n"))
        return _BLANKS.sub("\n\n", "\n".join(lines)).strip()

    def _behind_markup(self, at: int) -> int:
        """Return the position after the markup that begins at a place, and add its visible form to the pieces."""
        page, pieces = self._page, self._pieces
        if page.startswith("<!--", at):
            return self._behind("-->", at + 4)
        if page.startswith(("<!", "<?"), at):
            return self._behind(">", at + 2)
        found = _TAG.match(page, at)
        if found is None:
            pieces.append("<")
            return at + 1
        closes, name = bool(found[1]), found[2].lower()
        end = self._end_of_tag(found.end())
        if name == "head" and not closes and self._heads:
            self._heads = 0
            return self._behind_head(end)
        if name in _ENDS and not closes and page[end - 2 : end] != "/>":
            end_tag = _ENDS[name].search(page, end)
            return len(page) if end_tag is None else self._behind(">", end_tag.end())
        if name in _PARAGRAPHS:
            pieces.append("\n\n")
        elif name == "br" or (name in _LINES and not (pieces and pieces[-1].endswith("\n"))):
            pieces.append("\n")
        elif name in _CELLS and closes:
            pieces.append(" | ")
        if name == "li" and not closes:
            pieces.append("- ")
        return end

    def _end_of_tag(self, at: int) -> int:
        """Return the end of a tag whose name ends at a place. Content after an unclosed tag is not text."""
        if self._quotes:
            if (rest := _REST.match(self._page, at)) is not None:
                return rest.end()
            self._quotes -= 1
        return self._behind(">", at)

    def _behind_head(self, at: int) -> int:
        """Return the end of a head: its own end tag, or the beginning of the body, because pages may omit the end tag."""
        page = self._page
        found = _HEAD_END.search(page, at)
        end = at if found is None else found.start()
        title = _TITLE.search(page, at, end)
        begin = 0 if title is None else page.find(">", title.end(), end) + 1
        if begin and (text := _TITLE_TEXT.match(page, begin, end)) is not None:
            self._pieces += (html.unescape(text[0]), "\n\n")
        return end

    def _behind(self, mark: str, at: int) -> int:
        found = self._page.find(mark, at)
        return len(self._page) if found < 0 else found + len(mark)
