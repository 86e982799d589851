"""Detection of instructions to a model in texts that should be descriptions (prompt injection, tool poisoning)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolgen.model.prompt_injection import INVISIBLE, visible

__all__ = ["order_in"]

_TERMINAL = re.compile(r"\x1b\[[0-9;?]{0,20}[@-~]")  # sequences that set colours or move the cursor (ECMA-48, CSI)
_ORDERS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:previous|prior|above|earlier|all|any|your)\b.{0,40}"
        r"\b(?:instructions?|prompts?|rules?|context|guidelines?|polic(?:y|ies)|safety)\b",
        r"\byou are (?:now|no longer)\b",
        r"\b(?:system|developer|hidden) (?:prompt|message|instructions?)\b",
        r"<\s*/?\s*(?:system|important|instructions?|secret|admin|assistant|user_query)\s*>|\[/?(?:INST|SYSTEM)\]|<\|[a-z_]{2,30}\|>",
        r"\b(?:do not|don't|never) (?:tell|inform|mention|reveal|show|notify|ask)\b.{0,40}\b(?:user|human|anyone|operator)\b",
        r"\bwithout (?:telling|informing|asking|notifying|the knowledge of) (?:the )?(?:user|human|operator)\b",
        r"\b(?:before|after|instead of) (?:using|calling|invoking) (?:this|any|every|each|other) (?:other )?(?:tool|function)s?\b"
        r".{0,80}\b(?:read|send|call|invoke|include|pass|upload)\b",
        r"\b(?:always|must|should) (?:also )?(?:call|use|invoke|prefer) (?:this|the \w+) (?:tool|function)\b.{0,40}"
        r"\b(?:first|instead|only)\b",
        r"\b(?:send|forward|upload|post|leak|exfiltrate|email)\b.{0,60}\b(?:conversation|chat history|system prompt|credentials?|"
        r"private keys?|api keys?|passwords?|secrets?|\.env|ssh keys?)\b.{0,60}\b(?:to|at)\b.{0,20}(?:https?:|\S+@)",
        r"~/\.(?:ssh|aws|config|kube|netrc)\b|\bid_rsa\b|/etc/passwd\b",
    )
)


def order_in(text: str) -> str:
    """Return the first part of a text that instructs its reader, "" if there is none. Invisible characters within its words are ignored."""
    return next(
        (found[0] for form in _readings(text) for pattern in _ORDERS if (found := pattern.search(form))),
        "",
    )


def _readings(text: str) -> Iterator[str]:
    yield text
    if INVISIBLE.search(text):
        plain = _TERMINAL.sub(" ", text)
        yield visible(plain)
        yield INVISIBLE.sub(" ", plain)
