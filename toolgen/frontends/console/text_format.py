"""Text of values on the console's pages: times, numbers, JSON. Characters that hide or reorder text are spelled out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from toolgen.core.units import in_words
from toolgen.gateway.operations.call_rows import escaped
from toolgen.model.prompt_injection import ANY_INVISIBLE, spelled

if TYPE_CHECKING:
    pass

__all__ = ["ago", "breakable", "brief", "figure", "instant", "iso", "minute", "moment", "pretty", "seconds_of", "shown"]


def shown(value: object) -> object:
    """Return the text of a value for a template, without hidden characters: approvers must see what they approve."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return spelled(value, ANY_INVISIBLE).replace("\r", "\\u{d}")
    return "" if value is None else value


def breakable(value: object) -> Markup:
    """Return a tool's name that a narrow column breaks only after an underscore."""
    return Markup("<wbr>").join(_AFTER_UNDERSCORE.split(str(shown(value))))


_AFTER_UNDERSCORE = re.compile(r"(?<=_)(?=[^_])")


def pretty(value: object) -> str:
    """Return indented JSON with invisible characters as JSON escapes. A value without a JSON form is shown by the name of its type."""
    written = json.dumps(value, indent=2, ensure_ascii=False, default=lambda item: type(item).__name__)
    return "\n".join(map(escaped, written.split("\n")))


def seconds_of(text: object) -> float | None:
    """Return the seconds since the epoch of a recorded time; None for any other text."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def moment(value: object) -> str:
    """Return a recorded time, or seconds since the epoch, as text in UTC with seconds."""
    seconds = value if isinstance(value, int | float) else seconds_of(value)
    if seconds is None:
        return str(value)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(seconds: float) -> str:
    """Return seconds since the epoch in RFC 3339, for scripts."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute(seconds: float) -> str:
    """Return seconds since the epoch as a value for a form field of date and time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M")


def figure(value: float) -> str:
    """Return a number with three significant digits, never with an exponent: 0.046, 4.2, 42,600."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def instant(value: object) -> str:
    """Return a recorded time as text in UTC with milliseconds."""
    seconds = value if isinstance(value, int | float) else seconds_of(value)
    if seconds is None:
        return str(value)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


_BRIEF = 90
_DIGEST = re.compile(r"(?:hmac-)?sha256:[0-9a-f]{64}")


def brief(arguments: object) -> str:
    """Return the beginning of recorded arguments, on one line."""
    if not isinstance(arguments, Mapping) or not arguments:
        return ""
    text = ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in arguments.items()
    )
    text = escaped(_DIGEST.sub("…", text[: 10 * _BRIEF]))
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"


def ago(seconds: float | None, now: float) -> str:
    """Return the time since, or until, a moment, as text."""
    if seconds is None:
        return ""
    distance = now - seconds
    return f"{in_words(distance)} ago" if distance >= 0 else f"in {in_words(-distance)}"
