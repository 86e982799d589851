"""What a page shows of text from anywhere: every character that would hide, or turn others around, is spelled out."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from markupsafe import Markup

from toolgen.model.invisible import ANY_INVISIBLE, spelled

__all__ = ["ago", "moment", "pretty", "seconds_of", "shown", "span"]


def shown(value: object) -> object:
    """A value as a template prints it: text with nothing hidden in it. An approver must see what they approve."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return spelled(value, ANY_INVISIBLE).replace("\r", "\\u{d}")
    return "" if value is None else value


def pretty(value: object) -> str:
    """JSON as a person reads it. What has no JSON form is shown by the name of its type."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=lambda item: type(item).__name__)


def seconds_of(text: object) -> float | None:
    """The seconds since the epoch of a time in the record; None for what is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def moment(value: object) -> str:
    """A time of the record, or seconds since the epoch, to the second and in UTC."""
    seconds = value if isinstance(value, int | float) else seconds_of(value)
    if seconds is None:
        return str(value)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """A length of time in its largest unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def ago(seconds: float | None, now: float) -> str:
    """How long ago, or how long until, a time is."""
    if seconds is None:
        return ""
    distance = now - seconds
    return f"{span(distance)} ago" if distance >= 0 else f"in {span(-distance)}"
