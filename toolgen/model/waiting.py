"""Texts of pending answers: the tool that reads the result of a call that continues without its caller."""

from __future__ import annotations

__all__ = ["GET_CALL_RESULT", "reads_end"]

GET_CALL_RESULT = "get_call_result"
"""Tool that reads the result of a call. No tool of a source may have its name (`names.META_TOOLS`)."""


def reads_end(call_id: str) -> str:
    """Return the text with the place of a call's result."""
    return f"{GET_CALL_RESULT} with call_id {call_id} returns its result (over REST: GET /v1/calls/{call_id})"
