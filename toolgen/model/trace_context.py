"""Trace context of a request (W3C Trace Context, sections 3.2 and 3.3), as received and as passed on."""

from __future__ import annotations

import re
import secrets

from msgspec import Struct

__all__ = ["Trace", "parse_trace"]

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x20-\x7e]{0,200})?\Z")
_MEMBER = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]\Z"
)
_MAX_STATE_LENGTH, _MAX_MEMBERS = 512, 32
_FLAGS = 0b11  # sampled, and random trace id; other flags are undefined
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class Trace(Struct, frozen=True, kw_only=True, gc=False):
    """Position in a trace. `parent_id` is the caller's span, "" without one; `span_id` is the gateway's, which the next system receives."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    flags: int = 0
    state: str = ""

    @property
    def recorded(self) -> str:
        """Trace context for the audit log: the caller's, or the gateway's own span if the caller sent none."""
        return f"00-{self.trace_id}-{self.parent_id or self.span_id}-{self.flags:02x}"

    @property
    def sampled(self) -> bool:
        """Return True if the caller, or the gateway that began the trace, wants its spans."""
        return bool(self.flags & 1)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Trace headers for the next system."""
        parent = ("traceparent", f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}")
        return (parent, ("tracestate", self.state)) if self.state else (parent,)


def parse_trace(parent: object, state: object = "") -> Trace | None:
    """Return the trace of `traceparent` and `tracestate`, with a new span of the gateway in it.

    None for invalid headers: the request is handled without a trace (section 3.2.2.3).
    """
    found = _PARENT.match(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or parent_id == _NO_SPAN:
        return None
    return Trace(
        trace_id=trace_id,
        span_id=secrets.token_hex(8),
        parent_id=parent_id,
        flags=int(flags, 16) & _FLAGS,
        state=_state(state),
    )


def _state(text: object) -> str:
    """Return the members of a valid `tracestate`; "" for any other, which is dropped completely (section 3.3.1.1)."""
    if not isinstance(text, str) or len(text) > _MAX_STATE_LENGTH:
        return ""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members if _MEMBER.match(member)}
    return ",".join(members) if len(keys) == len(members) <= _MAX_MEMBERS else ""
