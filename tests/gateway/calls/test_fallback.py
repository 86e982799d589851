"""Which ending of a fallback is told in place of the failure it was made for."""

from __future__ import annotations

import pytest

from toolgen.gateway.calls.fallback import Fallbacks
from toolgen.model.result import Envelope, Error, Meta


@pytest.mark.parametrize(
    ("status", "code", "better"),
    [
        ("ok", "", True),
        ("pending", "approval_required", True),
        ("error", "outcome_unknown", True),
        ("error", "upstream_error", False),
        ("refused", "forbidden", False),
        ("cancelled", "", False),
    ],
)
def test_a_success_and_what_must_be_known_are_told(status: str, code: str, better: bool) -> None:
    error = Error(code=code, message="m") if code else None

    ended = Envelope(
        status=status, tool="t", call_id="c", data=None, error=error, meta=Meta(truncated=False, duration_ms=1.0)
    )

    assert Fallbacks.better(ended) is better
