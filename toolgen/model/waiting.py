"""Words of every pending answer: which tool reads the end of a call that goes on without its caller."""

from __future__ import annotations

__all__ = ["GET_CALL_RESULT", "reads_end"]

GET_CALL_RESULT = "get_call_result"
"""The tool that reads the end of a call. No tool of a source may have its name (`names.META_TOOLS`)."""


def reads_end(call_id: str) -> str:
    """Place at which a caller reads the end of its call."""
    return f"{GET_CALL_RESULT} with call_id {call_id} reads its end (over REST: GET /v1/calls/{call_id})"
