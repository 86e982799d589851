"""Sessions of the console: how long they last, how many there may be, and that two processes see the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError
from toolgen.state.invocations import PrincipalRef
from toolgen.state.sessions import SESSIONS_EACH, SignInAttempt, SignInSession, SignInSessions

ANN = PrincipalRef(id="ann", roles=("reviewer",), attributes={})
ATTEMPT = SignInAttempt(state="s", nonce="n", verifier="v", redirect="http://localhost/")


def session(clock: FixedClock, lasts: float = 1000.0) -> SignInSession:
    return SignInSession(principal=ANN, form_token="t", begun=clock.now(), expires=clock.now() + lasts)


async def test_a_session_ends_when_it_was_idle_and_when_its_time_is_over(tmp_path: Path) -> None:
    clock = FixedClock()
    sessions = SignInSessions(tmp_path / "console.db", clock, idle_s=100)
    token = await sessions.begin(session(clock))
    for _ in range(9):
        clock.advance(99)
        assert await sessions.of(token) is not None
        await sessions.seen(token)
    clock.advance(99)
    assert await sessions.of(token) is not None
    clock.advance(20)  # 1010 seconds after it began
    assert await sessions.of(token) is None
    idle = await sessions.begin(session(clock))
    clock.advance(101)
    assert await sessions.of(idle) is None
    await sessions.close()


async def test_another_process_sees_a_session_and_its_end(tmp_path: Path) -> None:
    clock = FixedClock()
    one, other = (SignInSessions(tmp_path / "console.db", clock, idle_s=100) for _ in range(2))
    token = await one.begin(session(clock))
    assert await other.of(token) == session(clock)
    await other.end(token)
    assert await one.of(token) is None
    await one.close()
    await other.close()


async def test_one_principal_has_so_many_sessions_and_the_oldest_go_first(tmp_path: Path) -> None:
    clock = FixedClock()
    sessions = SignInSessions(tmp_path / "console.db", clock, idle_s=10_000)
    tokens = []
    for _ in range(SESSIONS_EACH + 1):
        tokens.append(await sessions.begin(session(clock, 10_000)))
        clock.advance(1)
    assert await sessions.of(tokens[0]) is None
    assert all([await sessions.of(token) for token in tokens[1:]])
    await sessions.close()


async def test_an_attempt_counts_once_and_for_ten_minutes(tmp_path: Path) -> None:
    clock = FixedClock()
    sessions = SignInSessions(tmp_path / "console.db", clock, idle_s=100)
    token = await sessions.attempt(ATTEMPT)
    assert await sessions.take(token) == ATTEMPT
    assert await sessions.take(token) is None
    late = await sessions.attempt(ATTEMPT)
    clock.advance(601)
    assert await sessions.take(late) is None
    await sessions.close()


async def test_a_file_that_cannot_be_used_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "console.db").mkdir()
    sessions = SignInSessions(tmp_path / "console.db", FixedClock(), idle_s=100)
    with pytest.raises(StateError, match=r"console\.db"):
        await sessions.of("x")
    await sessions.close()
