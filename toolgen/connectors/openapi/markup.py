"""Conversion of Markdown and HTML to plain text: code spans unchanged, wrapped lines joined, list items as sentences."""

from __future__ import annotations

import html
import re
from typing import Final

from toolgen.model.prompt_injection import visible

__all__ = ["CLOSE", "OPEN", "lines_of", "single_line"]

OPEN: Final = "\ue000"
CLOSE: Final = "\ue001"
"""Markers of the start and end of a link's text while patterns match. They are private-use characters, which `lines_of`
removes from descriptions first."""
_SIGNS: Final = "<>*_[]|#~!`"
# Substitutes for characters in code that would be markup elsewhere, until the text is one line.
_IN_CODE = {ord(sign): chr(0xE010 + place) for place, sign in enumerate(_SIGNS)}
_OUT_OF_CODE = {ord(stand_in): chr(sign) for sign, stand_in in _IN_CODE.items()}
_PRIVATE = re.compile("[\ue000\ue001\ue010-\ue01f]")
_FENCED = re.compile(r"^([ \t]{0,8})(```|~~~)[^\n`]*\n(.*?)(?:^[ \t]{0,8}\2[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]{1,300}(?:\n[^`\n]{1,300}){0,2})(?<!`)\1(?!`)")
_FENCE = re.compile(r"```[^\n`]*\n?|~~~[^\n]*\n?")
_BREAK = re.compile(r"<\s*(?:br|/p|/li|/tr|/h[1-6]|/div)\b[^<>]*>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)((?:\s[^<>]{0,500})?/?)>")
_ANCHOR = re.compile(r"<a\s[^<>]{0,500}>([^<>]{0,300})</a\s*>", re.IGNORECASE)
_ELEMENTS = frozenset(
    (
        "a",
        "abbr",
        "acronym",
        "b",
        "big",
        "blockquote",
        "br",
        "center",
        "cite",
        "code",
        "col",
        "colgroup",
        "dd",
        "del",
        "dfn",
        "div",
        "dl",
        "dt",
        "em",
        "font",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "iframe",
        "img",
        "ins",
        "kbd",
        "li",
        "nav",
        "noscript",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "samp",
        "script",
        "small",
        "span",
        "strike",
        "strong",
        "style",
        "sub",
        "sup",
        "svg",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "tt",
        "u",
        "ul",
        "wbr",
        "system",
        "important",
        "instruction",
        "instructions",
    )
)
# Elements whose names authors also use as placeholders, as in `<title>`: they are markup if they are closed or have attributes.
_ELEMENTS_OR_WORDS = frozenset(
    (
        "address",
        "article",
        "aside",
        "body",
        "button",
        "caption",
        "details",
        "figure",
        "footer",
        "form",
        "head",
        "header",
        "html",
        "input",
        "label",
        "legend",
        "link",
        "main",
        "mark",
        "menu",
        "meta",
        "object",
        "option",
        "param",
        "section",
        "select",
        "source",
        "summary",
        "template",
        "time",
        "title",
        "var",
        "video",
    )
)
_LINK = re.compile(
    r"!?\[([^\[\]]{0,300})\](?:\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}(?:\s+\"[^\"]{0,200}\")?\)|\[[^\[\]]{0,100}\])"
)
_ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*", re.IGNORECASE)
_LINE_MARK = re.compile(r"^[ \t]{0,8}(?:#{1,6}[ \t]+|>[ \t]?|[*+-][ \t]+|\|[ \t:|-]*$)", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*\*|\*\*|\*|___|__)(?=\S)([^*\n]{1,300}?)(?<=\S)\1(?![\w*])")
_CELL = re.compile(r"[ \t]*\|[ \t]*")
_ITEM = re.compile(r"[ \t]{0,12}[*+-][ \t]+(?=\S)")
_BLOCK = re.compile(
    r"[ \t]{0,12}(?:[*+-][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|>|\||```|~~~|[-=*_]{3,}[ \t]*\Z|</?[a-zA-Z])"
)
_INLINE = re.compile(r"[ \t]*</?(?:a|b|i|em|strong|code|span|tt)\b", re.IGNORECASE)
_GOES_ON = re.compile(r"[ \t]*[a-z0-9(\[`\"'“,;)]")
_FINISHED = re.compile(r"[.!?:;…。！？：|][\"”')\]*_`]*[ \t]*\Z")
_WRAPPED: Final = 60  # minimum length of a line that counts as wrapped
_MAX_LINES: Final = 2_000


def lines_of(text: str) -> str:
    """Return the text without markup, in lines. Special characters of code are substituted, and links are between `OPEN` and `CLOSE`.

    Each pattern is tried only at the character it begins with.
    """
    text = _PRIVATE.sub("", text)
    if "`" in text or "~~~" in text:
        text = _FENCED.sub(lambda found: f"\n{found[3].translate(_IN_CODE)}\n", text)
        text = _CODE.sub(lambda found: found[2].translate(_IN_CODE), text)
        text = _FENCE.sub(" ", text)
    if "\n" in text:
        text = _unwrapped(text.replace("\r\n", "\n"))
    if "<" in text:
        text = _untagged(_BREAK.sub("\n", _COMMENT.sub(" ", text)))
    text = visible(html.unescape(text))
    if "[" in text:
        text = _LINK.sub(rf"{OPEN}\1{CLOSE}", text)
    text = _LINE_MARK.sub("", text)
    if "[!" in text:
        text = _ALERT.sub(lambda found: f"{found[1].capitalize()}: ", text)
    if "*" in text or "_" in text:
        text = _EMPHASIS.sub(r"\2", text).replace("**", "")
    return text


def single_line(text: str) -> str:
    """Join the result of `lines_of` to one line without white space around it, and restore the characters of code."""
    text = text.replace("`", "").replace(OPEN, "").replace(CLOSE, "")
    line = " ".join((_CELL.sub(" ", text) if "|" in text else text).split())
    return line if line.isascii() else line.translate(_OUT_OF_CODE)


def _untagged(text: str) -> str:
    """Return the text without HTML tags. A placeholder such as `<branch name>` is not a tag."""
    text = _ANCHOR.sub(rf"{OPEN}\1{CLOSE}", text)
    lowered = text.lower()

    def kept(found: re.Match[str]) -> str:
        name = found[2].lower()
        if name in _ELEMENTS:
            return ""
        if name in _ELEMENTS_OR_WORDS and (
            found[1] or "=" in found[3] or found[3].endswith("/") or f"</{name}" in lowered
        ):
            return ""
        return found[0]

    return _TAG.sub(kept, text)


def _unwrapped(text: str) -> str:
    """Return the text with each paragraph on one line, and punctuation at the end of each list item that has none."""
    lines = text.split("\n", _MAX_LINES)
    found: list[str] = []
    items: list[bool] = []
    before = ""
    for line in lines:
        if before.strip() and line.strip() and not before.endswith("  ") and _continues(before, line):
            found[-1] = f"{found[-1].rstrip()} {line.strip()}"
        else:
            found.append(line)
            items.append(_ITEM.match(line) is not None)
        before = line
    for place in range(len(found) - 1):
        if items[place] and not _FINISHED.search(found[place]) and not found[place].rstrip().endswith(","):
            following = next((at for at in range(place + 1, len(found)) if found[at].strip()), None)
            if following is not None:
                found[place] = f"{found[place].rstrip()}{';' if items[following] else '.'}"
    return "\n".join(found)


def _continues(before: str, line: str) -> bool:
    """Return True if a line continues the sentence of the line before it."""
    if (_BLOCK.match(line) and not _INLINE.match(line)) or before.lstrip().startswith(("#", "|")):
        return False
    if _FINISHED.search(before):
        return False
    return _GOES_ON.match(line) is not None or len(before) >= _WRAPPED
