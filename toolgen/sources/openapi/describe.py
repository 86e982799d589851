"""Descriptions written for a model: Markdown and HTML flattened, hidden characters gone, cut at a sentence, never empty."""

from __future__ import annotations

import html
import re
from functools import lru_cache

from toolgen.sources.naming import words
from toolgen.sources.openapi.operation import Operation

__all__ = ["LONGEST_DESCRIPTION", "LONGEST_PARAMETER", "describe", "flatten", "suspicion", "title"]

LONGEST_DESCRIPTION = 1024
LONGEST_PARAMETER = 200
_MARKUP = re.compile(
    r"[<&*_`#\[\]|\\>~!\r\n\t\x00-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
# Characters that a person does not see and a model does: controls, bidi overrides, zero widths, the tag block.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all|any)\b.{0,40}\b(?:instruction|prompt|rule|context)"
    r"|\byou are now\b|\bsystem prompt\b|<\s*/?\s*(?:system|important|instructions?)\s*>"
    r"|\bdo not (?:tell|inform|mention|reveal)\b.{0,40}\buser\b|\bwithout (?:telling|informing|asking) the user\b",
    re.IGNORECASE | re.DOTALL,
)
_FENCE = re.compile(r"```[^\n`]*\n?|~~~[^\n]*\n?")
_BREAK = re.compile(r"<\s*(?:br|/p|/li|/tr|/h[1-6]|/div)\b[^<>]*>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,500}>")
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\](?:\([^()\s]{0,500}(?:\s+\"[^\"]{0,200}\")?\)|\[[^\[\]]{0,100}\])")
_LINE_MARK = re.compile(r"^[ \t]{0,8}(?:#{1,6}[ \t]+|>[ \t]?|[*+-][ \t]+|\|[ \t:|-]*$)", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*\*|\*\*|\*|___|__)(?=\S)([^*\n]{1,300}?)(?<=\S)\1(?![\w*])")
_CELL = re.compile(r"[ \t]*\|[ \t]*")
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?…](?=\s|\Z)")


@lru_cache(maxsize=4_096)
def flatten(text: str, limit: int) -> str:
    """Plain text on one line, at most `limit` characters, cut behind a sentence where one ends in its second half."""
    if _MARKUP.search(text):
        text = _plain(text[: limit * 8 + 4096])
    return _cut(text.strip(), limit)


def _plain(text: str) -> str:
    text = _COMMENT.sub(" ", text)
    text = _FENCE.sub(" ", _BREAK.sub("\n", text))
    text = html.unescape(_TAG.sub("", text))
    text = _HIDDEN.sub("", text)
    text = _LINE_MARK.sub("", _LINK.sub(r"\1", text))
    text = _EMPHASIS.sub(r"\2", text).replace("`", "")
    return _SPACE.sub(" ", _CELL.sub(" ", text))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = text[:limit]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] >= limit // 2:
        return head[: ends[-1]]
    return head[: limit - 1].rpartition(" ")[0].rstrip(" ,;:") + "…"


def suspicion(text: str) -> str:
    """What about a text looks meant for the model and not for its reader, or ""."""
    if _HIDDEN.search(text):
        return "holds characters that cannot be seen"
    if _ORDERS.search(text):
        return "reads like an instruction to the model"
    return ""


def title(operation: Operation) -> str:
    """A few words for a person: the summary, or the identifier taken apart, or method and path."""
    if text := flatten(operation.summary, 100).rstrip("."):
        return text
    named = " ".join(words(operation.identifier))
    return named.capitalize() if named else f"{operation.method} {operation.path}"


def describe(operation: Operation) -> str:
    """The summary as a sentence, then the description; made up from method, path and parameters when there is neither."""
    summary = flatten(operation.summary, LONGEST_DESCRIPTION)
    more = flatten(operation.description, LONGEST_DESCRIPTION)
    if more.lower().startswith(summary.rstrip(".").lower()):
        summary = ""
    parts = [_sentence(part) for part in (summary, more) if part]
    if not parts:
        needs = [parameter.name for parameter in operation.parameters if parameter.required]
        parts.append(f"{title(operation)} ({operation.method} {operation.path}).")
        if needs:
            parts.append(f"Needs {', '.join(needs)}.")
    if operation.deprecated:
        parts.insert(0, "Deprecated.")
    return _cut(" ".join(parts), LONGEST_DESCRIPTION)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."
