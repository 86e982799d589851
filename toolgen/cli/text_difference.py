"""Difference of two descriptions as text, for changes that affect no tool: a few lines, each fits on a terminal line."""

from __future__ import annotations

import difflib
import json
from itertools import islice

from toolgen.generator.emit.diff import printable
from toolgen.model.prompt_injection import INVISIBLE

__all__ = ["text_difference"]

_MAX_COMPARED = 400  # maximum lines on each side, because the time of a comparison grows with their square


_MAX_SHOWN = 40


_MAX_LINE_LENGTH = 160


def text_difference(old: bytes, new: bytes) -> tuple[str, ...]:
    """Return removed (`-`) and added (`+`) lines, the first 40. JSON is formatted first, so that its layout does not count."""
    before, after = _lines(old), _lines(new)
    if before == after:
        return ("only its layout differs",)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    compared = difflib.unified_diff(before[:_MAX_COMPARED], after[:_MAX_COMPARED], n=0, lineterm="")
    # The first two lines name the files, and would look like removed and added lines.
    changed = (_shown(line) for line in islice(compared, 2, None) if line[0] in "-+")
    shown = list(islice(changed, _MAX_SHOWN + 1))
    cut = len(shown) > _MAX_SHOWN or max(len(before), len(after)) > _MAX_COMPARED
    return (*shown[:_MAX_SHOWN], "…") if cut else tuple(shown)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", errors="replace")
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False).split("\n")
    except (ValueError, RecursionError):
        return text.splitlines()


def _shown(line: str) -> str:
    """Return a line that fits on a terminal; of a longer one the part around the first invisible character."""
    text = printable(line)
    if len(text) <= _MAX_LINE_LENGTH:
        return text
    hidden = INVISIBLE.search(line)
    before = 0 if hidden is None else max(0, hidden.start() - _MAX_LINE_LENGTH // 2)
    if before == 0:
        return f"{text[: _MAX_LINE_LENGTH - 1]}…"
    return f"{line[0]}…{printable(line[before:])[: _MAX_LINE_LENGTH - 3]}…"
