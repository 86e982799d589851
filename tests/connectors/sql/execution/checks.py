"""Checks of results that the tests of several engines share."""

from __future__ import annotations

from tests.databases import rows
from toolgen.model.result import Failed, Success

__all__ = ["assert_capped", "assert_reworded", "assert_timed_out"]


def assert_capped(result: Success | Failed, count: int) -> None:
    """Check that an answer was cut to so many rows."""
    assert len(rows(result)) == count
    assert isinstance(result, Success)
    assert result.truncated


def assert_reworded(failed: Success | Failed, after: Success | Failed, message: str | None) -> None:
    """Check that an error of the server is reported in words of toolgen, without data, and that the next statement works."""
    assert isinstance(failed, Failed)
    assert failed.error.code == "sql_failed"
    assert failed.error.suggestion
    assert "Customer" not in repr(failed.error)
    if message is not None:
        assert failed.error.message == message
    assert rows(after) == [[1]]


def assert_timed_out(failed: Success | Failed, after: Success | Failed) -> None:
    """Check that a statement ended at its timeout, and that the next statement works."""
    assert isinstance(failed, Failed)
    assert failed.error.code == "upstream_timeout"
    assert rows(after) == [[1]]
