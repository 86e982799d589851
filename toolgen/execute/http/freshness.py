"""For how long an answer may be kept, as it says itself. What it says only ever shortens what toolgen.yaml says."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["lifetime"]

_DIRECTIVE = re.compile(r'([a-z-]{1,40})(?:=("?)([^",]*)\2)?')
_NEVER = frozenset({"no-store", "no-cache"})
_LONGEST = 1_000
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
    if len(said) > _LONGEST:
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
