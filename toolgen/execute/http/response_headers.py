"""For how long an answer may be kept, as it says itself. What it says only ever shortens what toolgen.yaml says.

What an answer says about how much more its service will take: `Retry-After`, `RateLimit` and its many spellings.

Redirects (RFC 9110, section 15.4) that may be followed: within one origin, and as another request of the same kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from urllib.parse import unquote_plus, urljoin, urlsplit

from toolgen.execute.http.request_builder import Request
from toolgen.execute.http.response import retry_after

__all__ = ["MAX_HOPS", "lifetime", "moved", "told"]

_DIRECTIVE = re.compile(r'([a-z-]{1,40})(?:=("?)([^",]*)\2)?')
_NEVER = frozenset({"no-store", "no-cache"})
_MAX_LENGTH = 1_000
_DIGITS = 9


def lifetime(header: Callable[[str], str | None]) -> float | None:
    """Seconds, 0.0 for an answer that must not be kept, None where it says nothing of it. `header` gives one by its lower-case name.

    RFC 9111, section 4.2.1: what cannot be read as a lifetime, or contradicts itself, is none. `s-maxage` is not for a cache that
    keeps the answers of each caller apart; `Expires` counts only as far as being there without `Cache-Control` forbids nothing.
    """
    vary, said = header("vary"), header("cache-control")
    if vary is not None and "*" in vary:
        return 0.0
    if said is None:
        return None
    if len(said) > _MAX_LENGTH:
        return 0.0
    ages: set[str] = set()
    for name, _, value in _DIRECTIVE.findall(said.lower()):
        if name in _NEVER:
            return 0.0
        if name == "max-age":
            ages.add(value.strip())
    if not ages:
        return None
    (age,) = ages if len(ages) == 1 else ("",)
    if not _is_number(age):
        return 0.0
    spent = header("age")
    if spent is not None and not _is_number(spent.strip()):
        return 0.0
    return max(0.0, float(age) - (float(spent) if spent is not None else 0.0))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


_Header = Callable[[str], str | None]

_PREFIXES = ("ratelimit", "x-ratelimit", "x-rate-limit")
_BUSY = frozenset(
    {403, 429, 503}
)  # where Retry-After speaks of the service, and not of the one thing that was asked for
_NUMBER = re.compile(r"\s*(\d{1,15})(?:\.(\d{1,9})\d*)?\s*(?:[;,].*)?\Z", re.ASCII)
_FIELD = re.compile(r"[;,\s](r|t|remaining|reset)\s*=\s*(\d{1,15})(?![\d.])", re.ASCII)
_MAX_HEADER_LENGTH = 1_000
_MAX_POLICIES = 8
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # a larger number is no number of seconds to wait, but a time


def told(header: _Header, status: int, now: float) -> dict[str, float]:
    """`{"retry_after_s": …}` and `{"remaining": n, "reset_s": …}` as far as an answer says them; nothing of what is not understood.

    `header` gives a header by its lower-case name, `now` is in seconds since the epoch. Of several policies the one that is used up
    soonest counts. Read are RFC 9110's `Retry-After`, the IETF draft's `RateLimit` (`"name";r=1;t=2`, and `remaining=1, reset=2` of
    its earlier versions), its `RateLimit-Remaining` and `-Reset`, and these with `X-`.
    """
    said: dict[str, float] = {}
    if status in _BUSY and (text := header("retry-after")) and (wait := retry_after(text, now)) is not None:
        said["retry_after_s"] = wait
    found = min(_budgets(header, now), default=None)
    if found is not None:
        said["remaining"], said["reset_s"] = found
    return said


def _budgets(header: _Header, now: float) -> Iterator[tuple[int, float]]:
    """(calls left, seconds until there are more), wherever an answer says both."""
    combined = header("ratelimit")
    if combined is not None and len(combined) <= _MAX_HEADER_LENGTH:
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
    for item in text.split(",")[:_MAX_POLICIES]:
        fields = dict(_FIELD.findall(item))
        if "r" in fields and "t" in fields:
            yield int(fields["r"]), float(fields["t"])


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text) if text is not None and len(text) <= _MAX_HEADER_LENGTH else None
    return None if found is None else float(f"{found[1]}.{found[2] or 0}")


def _seconds(reset: float, now: float) -> float:
    """Seconds from now, of a number of seconds or of a time in seconds or milliseconds since the epoch."""
    if reset >= _EPOCH_MS:
        return max(0.0, reset / 1000 - now)
    return max(0.0, reset - now) if reset >= _EPOCH_S else reset


MAX_HOPS = 3
_SAFE = frozenset({"GET", "HEAD", "QUERY"})
_ANY_METHOD = frozenset({307, 308})
_SAFE_ONLY = frozenset({301, 302, 303})
_MAX_LOCATION_LENGTH = 8192
_PORTS = {"http": 80, "https": 443}


def moved(request: Request, status: int, location: str, secret_names: Collection[str]) -> Request | None:
    """The request that a redirect asks for, without credentials; None where it is not one to follow.

    `request` is the one that was sent, before it was signed. 301, 302 and 303 are followed for reads alone: elsewhere they would make
    another request of it. A place on another origin is never one to follow, so no credential crosses to one. What a server repeated
    of a credential in the query is left out, because the next request is signed anew.
    """
    if status not in _ANY_METHOD and not (status in _SAFE_ONLY and request.method in _SAFE):
        return None
    if (
        not location
        or len(location) > _MAX_LOCATION_LENGTH
        or not location.isascii()
        or not location.isprintable()
        or "\\" in location
    ):
        return None
    try:
        to = urlsplit(urljoin(request.url, location))
        same = _origin(request.url) == _origin(to.geturl())
    except (ValueError, KeyError):
        return None
    if not same or "@" in to.netloc:
        return None
    names = {name.casefold() for name in secret_names}
    kept = [
        pair for pair in to.query.split("&") if pair and unquote_plus(pair.partition("=")[0]).casefold() not in names
    ]
    url = f"{to.scheme}://{to.netloc}{to.path or '/'}" + (f"?{'&'.join(kept)}" if kept else "")
    return replace(request, url=url)


def _origin(url: str) -> tuple[str, str, int]:
    """RFC 6454, section 4. Raises `ValueError` and `KeyError` for what has none."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
