"""What answers say of their service's limits, in every spelling; what is not understood says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.connectors.http.response import told

NOW = 1_790_000_000.0

SAID = [
    # status, headers, what they say
    (429, {"retry-after": "30"}, {"retry_after_s": 30.0}),
    (503, {"retry-after": "Mon, 21 Sep 2026 14:14:20 GMT"}, {"retry_after_s": 60.0}),
    (403, {"retry-after": "5"}, {"retry_after_s": 5.0}),
    (202, {"retry-after": "5"}, {}),
    (404, {"retry-after": "5"}, {}),
    (429, {"retry-after": "-5"}, {}),
    (429, {"retry-after": "soon"}, {}),
    (200, {"ratelimit": '"default";r=50;t=30'}, {"remaining": 50, "reset_s": 30.0}),
    (200, {"ratelimit": '"minute";r=50;t=30, "hour"; r=2; t=3000'}, {"remaining": 2, "reset_s": 3000.0}),
    (200, {"ratelimit": "limit=100, remaining=7, reset=11"}, {"remaining": 7, "reset_s": 11.0}),
    (200, {"ratelimit": '"default";r=50'}, {}),
    (200, {"ratelimit": '"default";r=-1;t=9'}, {}),
    (200, {"ratelimit": '"default";r=1.5;t=9'}, {}),
    (200, {"ratelimit": "x" * 100_000 + ";r=1;t=2"}, {}),
    (
        200,
        {"ratelimit-limit": "9", "ratelimit-remaining": "4", "ratelimit-reset": "8"},
        {"remaining": 4, "reset_s": 8.0},
    ),
    (200, {"ratelimit-remaining": "76;w=21600", "ratelimit-reset": "5;w=21600"}, {"remaining": 76, "reset_s": 5.0}),
    (200, {"ratelimit-remaining": "4"}, {}),
    (200, {"ratelimit-reset": "4"}, {}),
    (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1790000060"}, {"remaining": 0, "reset_s": 60.0}),
    (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1790000060000"}, {"remaining": 0, "reset_s": 60.0}),
    (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1789999999"}, {"remaining": 0, "reset_s": 0.0}),
    (200, {"x-rate-limit-remaining": "1", "x-rate-limit-reset": "60"}, {"remaining": 1, "reset_s": 60.0}),
    (200, {"x-ratelimit-remaining": "1", "x-ratelimit-reset-after": "1.5"}, {"remaining": 1, "reset_s": 1.5}),
    (200, {"x-ratelimit-remaining": "1", "x-ratelimit-reset": "6m0s"}, {}),
    (200, {"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "60"}, {}),
    (200, {"x-ratelimit-remaining": "1e9", "x-ratelimit-reset": "60"}, {}),
    (200, {"x-ratelimit-remaining": "\u0663", "x-ratelimit-reset": "60"}, {}),
    (200, {"x-ratelimit-remaining": "9" * 5_000, "x-ratelimit-reset": "60"}, {}),
    (429, {"retry-after": "3", "ratelimit": '"d";r=0;t=9'}, {"retry_after_s": 3.0, "remaining": 0, "reset_s": 9.0}),
    (200, {}, {}),
]


@pytest.mark.parametrize(("status", "headers", "said"), SAID)
def test_every_spelling_is_read(status: int, headers: dict[str, str], said: dict[str, float]) -> None:
    assert told(headers, status, NOW) == said


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset"]), st.text()
    )
)
def test_no_answer_breaks_the_reading_or_says_less_than_nothing(headers: dict[str, str]) -> None:
    assert all(isinstance(value, int | float) and value >= 0 for value in told(headers, 429, NOW).values())
