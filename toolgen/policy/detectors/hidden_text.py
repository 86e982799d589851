"""Detector of invisible characters that a model reads, and of characters that change the direction of text."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.detection import Finding
from toolgen.model.prompt_injection import INVISIBLE, holds_invisible

__all__ = ["HiddenText"]

_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class HiddenText:
    """Detector of hidden text: one finding per run. An `invisible` run may be a single joiner; `tags` encode ASCII in invisible
    characters."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the runs of hidden characters."""
        if not holds_invisible(text):
            return
        start = end = -1
        kind = ""
        for found in INVISIBLE.finditer(text):
            own = _kind(found[0])
            if found.start() == end and own == kind:
                end = found.end()
                continue
            if kind:
                yield Finding(start, end, kind)
            start, end, kind = found.start(), found.end(), own
        if kind:
            yield Finding(start, end, kind)


def _kind(character: str) -> str:
    if character in _BIDIRECTIONAL:
        return "bidirectional"
    return "tags" if "\U000e0000" <= character <= "\U000e007f" else "invisible"
