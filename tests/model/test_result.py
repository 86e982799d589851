"""Envelopes as they are kept and read again."""

from __future__ import annotations

import msgspec
import pytest

from toolgen.model.result import Error, Meta


@pytest.mark.parametrize(
    "kept",
    [
        Meta(duration_ms=1.5, truncated=True, next_cursor="c", cut_at="/items", audit_seq=7, age_s=2.0),
        Meta(duration_ms=0.0, truncated=False, partial=[{"message": "m", "path": ["a", 1], "count": 2}]),
        Meta(duration_ms=0.0, truncated=False, dropped=({"argument": "a", "nearest": "b"},)),
        Error(
            code="validation", message="m", suggestion="s", rule="r", retry_after_s=1.0, help_url="https://example.com"
        ),
    ],
)
def test_what_is_kept_of_an_envelope_is_read_as_it_was(kept: Meta | Error) -> None:
    assert msgspec.convert(msgspec.to_builtins(kept), type(kept)) == kept
