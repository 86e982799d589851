"""Rules for hidden content: instructions to the model, invisible characters, payloads, addresses for leaks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolgen.connectors.original import ModelText
from toolgen.model.injected_orders import order_in
from toolgen.model.prompt_injection import INVISIBLE
from toolgen.quality.lint.rule import Level, LintRule, RuleHit

__all__ = ["TEXT_RULES"]

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


_MAX_LENGTH = 100_000  # characters of a text that are searched


def _hidden(text: ModelText) -> Iterator[RuleHit]:
    plain = text.value.isascii() and text.value.isprintable()
    if not plain and (found := INVISIBLE.search(text.value, 0, _MAX_LENGTH)):
        yield RuleHit(message=f"holds U+{ord(found[0]):04X}, which a reader does not see and a model does")


def _orders(text: ModelText) -> Iterator[RuleHit]:
    if found := order_in(text.value[:_MAX_LENGTH]):
        yield RuleHit(message=f"speaks to the model, not to a reader: {_quoted(found)}")


def _blobs(text: ModelText) -> Iterator[RuleHit]:
    if text.prose and (found := _BLOB.search(text.value, 0, _MAX_LENGTH) or _HEX.search(text.value, 0, _MAX_LENGTH)):
        yield RuleHit(message=f"holds {len(found[0])} characters of encoded data: {_quoted(found[0][:40])}")


def _leaks(text: ModelText) -> Iterator[RuleHit]:
    if found := _LEAKS.search(text.value, 0, _MAX_LENGTH):
        yield RuleHit(message=f"names an address that data could leak to: {_quoted(found[0])}")


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:79] + "…")


TEXT_RULES: tuple[LintRule[ModelText], ...] = (
    LintRule(
        id="text-orders-model",
        level=Level.ERROR,
        advice="Take the sentence out, or say what the operation does instead of what the reader should do.",
        check=_orders,
    ),
    LintRule(
        id="text-hidden-characters",
        level=Level.ERROR,
        advice="Type the text again without invisible, control and direction characters.",
        check=_hidden,
    ),
    LintRule(
        id="text-encoded-data",
        level=Level.WARNING,
        advice="Move data into an example; a description is read, not decoded.",
        check=_blobs,
    ),
    LintRule(
        id="text-leak-address",
        level=Level.WARNING,
        advice="Remove the address unless you know whose it is; agents follow what descriptions name.",
        check=_leaks,
    ),
)
