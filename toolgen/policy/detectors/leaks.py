"""Detector of content that makes a client send data without a request by the user: pictures with data in their address, in Markdown and
HTML, and data URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolgen.model.detection import Finding
from toolgen.policy.detectors.gate import Gate

__all__ = ["Leaks"]

_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\(\s{0,5}<?((?:https?:)?//[^\s)>]{1,4000})(?:[^)\n]{0,200}\))?")
_REFERENCE = re.compile(r"!\[[^\]\n]{0,300}\]\s?\[([^\]\n]{0,100})\]")
_DEFINITION = re.compile(r"^ {0,3}\[([^\]\n]{1,100})\]:\s{0,5}<?((?:https?:)?//[^\s>]{1,4000})", re.MULTILINE)
_TAG = re.compile(
    r"<(?:img|iframe|video|audio|source|embed|object|link)\b[^>]{0,1000}?\b(?:src|srcset|data|href)\s{0,3}=\s{0,3}[\"']?"
    r"((?:https?:)?//[^\s\"'>]{1,4000})[^>]{0,1000}>?",
    re.IGNORECASE,
)
_STYLE = re.compile(r"url\(\s{0,3}[\"']?((?:https?:)?//[^\s)\"']{1,4000})[\"']?\s{0,3}\)", re.IGNORECASE)
_DATA = re.compile(
    r"(?<![\w-])data:[a-z]{1,20}/[\w.+-]{1,60}(?:;[\w=.-]{1,60}){0,4},[^\s\"'<>()]{0,200000}", re.IGNORECASE
)
_DATA_GATE = Gate((r"data:[a-z]{1,20}/",), ignore_case=True)
_CARRIES = re.compile(r"[?&;][^=&\s]{1,100}=[^&\s]{1,}|\{\{?|%7b|\$\{|/[A-Za-z0-9+_=-]{40,}", re.IGNORECASE)
# Parameters of a picture's address that only control its display.
_HARMLESS = re.compile(
    r"(?:[?&](?:v|w|h|s|size|width|height|style|logo|color|format|auto|fit|q|branch|label|raw|ixlib)=[\w.,%-]{0,24})+\Z",
    re.IGNORECASE,
)


class Leaks:
    """Detector of pictures and frames whose address carries data, and of data URLs with any content."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the findings, in no order."""
        if ("data:" in text or "DATA:" in text) and _DATA_GATE.opens(text):
            for found in _DATA.finditer(text):
                yield Finding(found.start(), found.end(), "data_url")
        if "//" not in text:
            return
        if "![" in text:
            yield from _in(_IMAGE, text)
            yield from _referenced(text)
        if "<" in text:
            yield from _in(_TAG, text)
        if "url(" in text:
            yield from _in(_STYLE, text)


def _in(pattern: re.Pattern[str], text: str) -> Iterator[Finding]:
    for found in pattern.finditer(text):
        if _carries(found[1]):
            yield Finding(found.start(), found.end(), "image")


def _referenced(text: str) -> Iterator[Finding]:
    named = {found[1].lower() for found in _REFERENCE.finditer(text)}
    if named:
        for found in _DEFINITION.finditer(text):
            if found[1].lower() in named and _carries(found[2]):
                yield Finding(found.start(), found.end(), "image")


def _carries(address: str) -> bool:
    path = address.partition("#")[0]
    if "?" in path and _HARMLESS.search(path):
        path = path.partition("?")[0]
    return _CARRIES.search(path) is not None
