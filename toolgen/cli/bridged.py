"""What a build says of an MCP server that it asked: how long that took, and what is other than was pinned."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from toolgen.errors import CanonicalError
from toolgen.model.listing import parts_of, read_listing
from toolgen.sources.pins import Pin

__all__ = ["AS_PINNED", "NOT_ASKED", "PINNED_NOW", "Asked", "changed_since"]

AS_PINNED = "as pinned"
NOT_ASKED = "not asked: the pinned copy"
PINNED_NOW = "pinned now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How many seconds a server took to list its tools, and what changed since they were pinned, in a few words."""

    seconds: float
    since_pin: str


def changed_since(old: Pin, new: Pin) -> str:
    """How many tools changed, came and went between two listings."""
    try:
        before, after = _digests(old), _digests(new)
    except (OSError, msgspec.DecodeError, RecursionError, CanonicalError):
        return "other than pinned"
    counts = {
        "changed": sum(before[name] != after[name] for name in before.keys() & after.keys()),
        "new": len(after.keys() - before.keys()),
        "gone": len(before.keys() - after.keys()),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "its name or version changed"


def _digests(pin: Pin) -> dict[str, dict[str, str]]:
    return {tool.name: parts_of(tool) for tool in read_listing(pin.path.read_bytes()).tools}
