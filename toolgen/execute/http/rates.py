"""What an answer says about how much more its service will take: `Retry-After`, `RateLimit` and its many spellings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from toolgen.execute.http.answers import retry_after
from toolgen.model.schema import Json

__all__ = ["told"]

_Header = Callable[[str], str | None]

_PREFIXES = ("ratelimit", "x-ratelimit", "x-rate-limit")
_BUSY = frozenset(
    {403, 429, 503}
)  # where Retry-After speaks of the service, and not of the one thing that was asked for
_NUMBER = re.compile(r"\s*(\d{1,15})(?:\.(\d{1,9})\d*)?\s*(?:[;,].*)?\Z", re.ASCII)
_FIELD = re.compile(r"[;,\s](r|t|remaining|reset)\s*=\s*(\d{1,15})(?![\d.])", re.ASCII)
_LONGEST_HEADER = 1_000
_MOST_POLICIES = 8
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # a larger number is no number of seconds to wait, but a time


def told(header: _Header, status: int, now: float) -> dict[str, Json]:
    """`{"retry_after_s": …}` and `{"remaining": n, "reset_s": …}` as far as an answer says them; nothing of what is not understood.

    `header` gives a header by its lower-case name, `now` is in seconds since the epoch. Of several policies the one that is used up
    soonest counts. Read are RFC 9110's `Retry-After`, the IETF draft's `RateLimit` (`"name";r=1;t=2`, and `remaining=1, reset=2` of
    its earlier versions), its `RateLimit-Remaining` and `-Reset`, and these with `X-`.
    """
    said: dict[str, Json] = {}
    if status in _BUSY and (text := header("retry-after")) and (wait := retry_after(text, now)) is not None:
        said["retry_after_s"] = wait
    found = min(_budgets(header, now), default=None)
    if found is not None:
        said["remaining"], said["reset_s"] = found
    return said


def _budgets(header: _Header, now: float) -> Iterator[tuple[int, float]]:
    """(calls left, seconds until there are more), wherever an answer says both."""
    combined = header("ratelimit")
    if combined is not None and len(combined) <= _LONGEST_HEADER:
        yield from _combined(combined)
    for prefix in _PREFIXES:
        remaining = header(f"{prefix}-remaining")
        if remaining is None:
            continue
        left = _number(remaining)
        after = header(f"{prefix}-reset-after")
        reset = _number(header(f"{prefix}-reset") if after is None else after)
        if left is not None and reset is not None:
            yield math.floor(left), _seconds(reset, now)


def _combined(text: str) -> Iterator[tuple[int, float]]:
    """The items of a structured field's list, or one dictionary, whose keys are spelled out."""
    whole = dict(_FIELD.findall(f",{text}"))
    if "remaining" in whole:
        if "reset" in whole:
            yield int(whole["remaining"]), float(whole["reset"])
        return
    for item in text.split(",")[:_MOST_POLICIES]:
        fields = dict(_FIELD.findall(item))
        if "r" in fields and "t" in fields:
            yield int(fields["r"]), float(fields["t"])


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text) if text is not None and len(text) <= _LONGEST_HEADER else None
    return None if found is None else float(f"{found[1]}.{found[2] or 0}")


def _seconds(reset: float, now: float) -> float:
    """Seconds from now, of a number of seconds or of a time in seconds or milliseconds since the epoch."""
    if reset >= _EPOCH_MS:
        return max(0.0, reset / 1000 - now)
    return max(0.0, reset - now) if reset >= _EPOCH_S else reset
