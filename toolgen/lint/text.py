"""Texts that are not meant for their reader: orders to the model, characters nobody sees, payloads, addresses to leak to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolgen.lint.rule import Hit, Level, Rule, Text

__all__ = ["TEXT_RULES"]

_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0e"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# What joins letters or emoji in ordinary writing, where it stands between visible characters.
_JOINED = re.compile(r"(?<=[^\x00-\x7f])[\u200c\u200d\ufe0e](?=\S)|(?<=\S)\ufe0f")
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
_BLOB = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?=[A-Za-z0-9+/]*[0-9])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])[A-Za-z0-9+/]{120,}={0,2}"
)
_HEX = re.compile(r"(?:\\x[0-9a-fA-F]{2}){12,}|(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){100,}(?![0-9A-Za-z])")
_LEAKS = re.compile(
    r"https?://(?:[a-z0-9-]{1,63}\.){0,4}(?:webhook\.site|requestbin\.(?:com|net)|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|"
    r"burpcollaborator\.net|oastify\.com|interact\.sh|oast\.(?:pro|live|site|online|fun|me)|pastebin\.com|transfer\.sh|beeceptor\.com|"
    r"canarytokens\.(?:com|org)|dnslog\.cn)\b"
    r"|https?://[^\s/@:\"'<>]{1,100}:[^\s/@\"'<>]{1,100}@"
    r"|!\[[^\]]{0,200}\]\(\s*https?://[^)\s]{0,300}[?&][^)\s=]{1,50}=\s*(?:\{|\$|<|%7B)"
    r"|data:text/html|javascript:",
    re.IGNORECASE,
)
_LONGEST = 100_000  # of a text that is looked at


def _hidden(text: Text) -> Iterator[Hit]:
    if not text.value.isascii() or not text.value.isprintable():
        found = _HIDDEN.search(_JOINED.sub("", text.value[:_LONGEST]))
        if found:
            yield Hit(message=f"holds U+{ord(found[0]):04X}, which a reader does not see and a model does")


def _orders(text: Text) -> Iterator[Hit]:
    for pattern in _ORDERS:
        if found := pattern.search(text.value, 0, _LONGEST):
            yield Hit(message=f"speaks to the model, not to a reader: {_quoted(found[0])}")
            return


def _blobs(text: Text) -> Iterator[Hit]:
    if text.prose and (found := _BLOB.search(text.value, 0, _LONGEST) or _HEX.search(text.value, 0, _LONGEST)):
        yield Hit(message=f"holds {len(found[0])} characters of encoded data: {_quoted(found[0][:40])}")


def _leaks(text: Text) -> Iterator[Hit]:
    if found := _LEAKS.search(text.value, 0, _LONGEST):
        yield Hit(message=f"names an address that data could leak to: {_quoted(found[0])}")


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:79] + "…")


TEXT_RULES: tuple[Rule[Text], ...] = (
    Rule(
        id="text-orders-model",
        level=Level.ERROR,
        advice="Take the sentence out, or say what the operation does instead of what the reader should do.",
        check=_orders,
    ),
    Rule(
        id="text-hidden-characters",
        level=Level.ERROR,
        advice="Type the text again without invisible, control and direction characters.",
        check=_hidden,
    ),
    Rule(
        id="text-encoded-data",
        level=Level.WARNING,
        advice="Move data into an example; a description is read, not decoded.",
        check=_blobs,
    ),
    Rule(
        id="text-leak-address",
        level=Level.WARNING,
        advice="Remove the address unless you know whose it is; agents follow what descriptions name.",
        check=_leaks,
    ),
)
