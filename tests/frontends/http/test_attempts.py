"""How often an address may be wrong, to the number and the second."""

from __future__ import annotations

import pytest

from toolgen.core.clock import FixedClock
from toolgen.frontends.http.failure_buckets import FailureBuckets

HERE, THERE = "192.0.2.1", "192.0.2.2"


def failing(attempts: FailureBuckets, times: int, peer: str = HERE) -> None:
    for _ in range(times):
        attempts.failed(peer)


@pytest.mark.parametrize(
    ("failures", "later", "wait"),
    [
        (0, 0.0, 0.0),
        (1, 0.0, 0.0),
        (29, 0.0, 0.0),
        (30, 0.0, 1.0),
        (31, 0.0, 1.0),
        (500, 0.0, 1.0),  # however many there were, one more is allowed a second later
        (500, 0.25, 0.75),
        (500, 0.875, 0.125),
        (500, 1.0, 0.0),
        (500, 1e9, 0.0),
    ],
)
def test_thirty_failures_are_free_and_then_one_a_second(failures: int, later: float, wait: float) -> None:
    clock = FixedClock()
    attempts = FailureBuckets(clock)
    failing(attempts, failures)
    clock.advance(later)
    assert attempts.wait(HERE) == pytest.approx(wait)
    assert attempts.wait(THERE) == 0.0


def test_what_is_forgiven_is_forgiven_once_and_no_more_than_there_was() -> None:
    clock = FixedClock()
    attempts = FailureBuckets(clock)
    failing(attempts, 30)
    clock.advance(10)
    failing(attempts, 9)
    assert attempts.wait(HERE) == 0.0
    failing(attempts, 1)
    assert attempts.wait(HERE) == pytest.approx(1.0)
    clock.advance(1e6)
    failing(attempts, 29)  # a long rest is worth no more than thirty
    assert attempts.wait(HERE) == 0.0
    failing(attempts, 1)
    assert attempts.wait(HERE) == pytest.approx(1.0)


def test_looking_counts_nothing() -> None:
    attempts = FailureBuckets(FixedClock())
    failing(attempts, 29)
    for _ in range(100):
        assert attempts.wait(HERE) == 0.0
    assert list(attempts._peers) == [HERE]
    assert attempts.wait(THERE) == 0.0
    assert list(attempts._peers) == [HERE]


def test_the_last_4096_addresses_are_kept_and_who_fails_again_is_among_them() -> None:
    attempts = FailureBuckets(FixedClock())
    failing(attempts, 30, "first")
    failing(attempts, 30, "second")
    for number in range(4094):
        attempts.failed(f"peer-{number}")
    assert len(attempts._peers) == 4096
    assert attempts.wait("first") > 0
    attempts.failed("first")
    attempts.failed("one too many")
    assert len(attempts._peers) == 4096
    assert attempts.wait("first") > 0
    assert attempts.wait("second") == 0.0


def test_addresses_are_counted_as_they_are_elsewhere() -> None:
    attempts = FailureBuckets(FixedClock())
    failing(attempts, 15, "2001:db8::1")
    failing(attempts, 15, "2001:db8::2")
    assert attempts.wait("2001:db8::3") == pytest.approx(1.0)
    assert attempts.wait("2001:db8:0:1::1") == 0.0
    failing(attempts, 30, "::ffff:192.0.2.1")
    assert attempts.wait(HERE) == pytest.approx(1.0)
