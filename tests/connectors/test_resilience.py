"""Retries, breaker and places against real servers that fail: what is sent again, when, and what never is."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.connectors.failing import (
    FINE,
    PATIENT,
    UNANSWERED,
    UNREACHED,
    Behaviour,
    Luck,
    Server,
    call,
    closed,
    dead,
    hang,
    reset,
    saying,
    steady,
)
from tests.connectors.http.bindings import parameter
from tests.messages import line_names
from toolgen.connectors.failure_settings import BreakerConfig, Retries, Timeouts
from toolgen.connectors.resilience import Chance
from toolgen.model.result import Failed, Refused, Success

BUSY = saying("503 Service Unavailable")


async def attempts_of(behaviours: list[Behaviour], method: str = "GET", **resilience: Any) -> tuple[Any, Server, Luck]:
    """The outcome of one call to a server that behaves so, the server, and how long was waited."""

    server, luck = Server(behaviours), Luck()
    async with server.serving() as url:
        executor = steady(luck, **resilience)
        outcome = await executor.execute(call(url, method))
        await executor.close()
    return outcome, server, luck


@pytest.mark.parametrize("status", ["429 Too Many Requests", "502 Bad Gateway", "503 Busy", "504 Gateway Timeout"])
async def test_a_failure_of_the_moment_is_tried_again_and_every_attempt_is_told(status: str) -> None:
    outcome, server, luck = await attempts_of([saying(status), FINE])
    assert isinstance(outcome, Success)
    assert len(server.heads) == outcome.delivery.attempts == 2
    assert outcome.delivery.retried == ({"code": "upstream_error", "duration_ms": 0.0},)
    assert luck.waits == [0.05]


@pytest.mark.parametrize("status", ["400 Bad Request", "401 No", "404 Not Found", "409 Conflict", "500 Broken"])
async def test_a_failure_that_would_be_the_same_again_is_not(status: str) -> None:
    outcome, server, _ = await attempts_of([saying(status), FINE])
    assert isinstance(outcome, Failed)
    assert (len(server.heads), outcome.delivery.attempts) == (1, 1)


@pytest.mark.parametrize("behaviour", [reset, hang])
async def test_a_read_whose_answer_never_came_is_tried_again(behaviour: Behaviour) -> None:
    outcome, server, _ = await attempts_of([behaviour, FINE], timeouts=UNANSWERED)
    assert isinstance(outcome, Success)
    assert len(server.heads) == 2


@pytest.mark.parametrize("behaviour", [reset, hang, saying("200 OK", body=b"")])
async def test_a_post_that_was_sent_and_not_answered_is_never_sent_again(behaviour: Behaviour) -> None:
    outcome, server, luck = await attempts_of([behaviour, FINE], "POST", timeouts=UNANSWERED)
    assert len(server.heads) == 1
    assert luck.waits == []
    if isinstance(outcome, Failed):
        assert outcome.error.code == "outcome_unknown"


@pytest.mark.parametrize("status", ["429 Too Many Requests", "502 Bad Gateway", "503 Busy", "504 Gateway Timeout"])
async def test_a_post_that_was_refused_for_now_is_the_callers_to_repeat(status: str) -> None:
    outcome, server, _ = await attempts_of([saying(status, "Retry-After: 1\r\n"), FINE], "POST")
    assert isinstance(outcome, Failed)
    assert (len(server.heads), outcome.error.retry_after_s) == (1, 1)


@pytest.mark.parametrize("behaviour", [reset, hang, BUSY])
async def test_a_post_with_a_key_that_the_system_knows_is_sent_again_with_the_same_key(behaviour: Behaviour) -> None:
    outcome, server, _ = await attempts_of([behaviour, FINE], "POST", key_header="Idempotency-Key", timeouts=UNANSWERED)
    assert isinstance(outcome, Success)
    assert [b"idempotency-key: c\r\n" in head.lower() for head in server.heads] == [True, True]


async def test_the_description_may_know_the_header_and_a_key_of_the_callers_own_goes_first() -> None:
    server = Server([FINE])
    known = parameter("header", name="Idempotency-Key", argument="key")
    async with server.serving() as url:
        executor = steady()
        await executor.execute(call(url, "POST", known))
        await executor.execute(call(url, "POST", known, key="own"))
        await executor.execute(call(url, "GET", known))
        await executor.close()
    heads = [head.lower() for head in server.heads]
    assert b"idempotency-key: c\r\n" in heads[0]
    assert b"idempotency-key: own\r\n" in heads[1]
    assert b"idempotency-key: c" not in heads[1]
    assert b"idempotency-key" not in heads[2]


@pytest.mark.parametrize(
    ("wait", "waits"),
    [
        ("2", [2.05]),
        ("0", [0.05]),
        ("6", []),  # longer than this source waits: the caller is told instead
        ("999999999999", []),
        ("-1", [0.05]),
        ("soon", [0.05]),
        ("Wed, 21 Oct 2015 07:28:00 GMT", [0.05]),
        ("Fri, 31 Dec 9999 23:59:59 GMT", []),
        ("1e309", [0.05]),
    ],
)
async def test_retry_after_is_heeded_up_to_the_longest_wait(wait: str, waits: list[float]) -> None:
    outcome, server, luck = await attempts_of([saying("503 Busy", f"Retry-After: {wait}\r\n"), FINE])
    assert luck.waits == waits
    assert len(server.heads) == len(waits) + 1
    if not waits:
        assert isinstance(outcome, Failed)
        assert outcome.error.retry_after_s is not None
        assert outcome.error.retry_after_s >= 6


async def test_pauses_double_up_to_the_longest_wait_with_full_jitter() -> None:
    _, server, luck = await attempts_of([BUSY], retries=Retries(attempts=6, longest_wait_s=0.5), breaker=None)
    assert luck.waits == [0.05, 0.1, 0.2, 0.25, 0.25]
    assert len(server.heads) == 6


async def test_no_attempt_begins_when_the_whole_time_is_over() -> None:
    timeouts = Timeouts(connect_s=30, first_byte_s=30, total_s=31)
    retries = Retries(attempts=9, longest_wait_s=10)
    outcome, server, luck = await attempts_of(
        [saying("503 Busy", "Retry-After: 10\r\n")], retries=retries, timeouts=timeouts
    )
    assert isinstance(outcome, Failed)
    assert luck.waits == [10, 10, 10]
    assert len(server.heads) == 4


async def test_an_upstream_that_keeps_failing_costs_a_fifth_more_and_not_thrice() -> None:
    # Ten retries were saved up, and each call earns a fifth of one.
    server = Server([BUSY])
    async with server.serving() as url:
        executor = steady(breaker=None)
        for _ in range(100):
            await executor.execute(call(url))
        await executor.close()
    found = len(server.heads)
    assert 100 + 20 <= found <= 100 + 10 + 20


async def test_never_is_never() -> None:
    _, server, _ = await attempts_of([BUSY, FINE], retries=Retries(attempts=1))
    assert len(server.heads) == 1


async def test_what_was_never_sent_may_be_sent_also_when_it_writes() -> None:
    with closed() as url:
        outcomes, luck = await _many(steady_luck := Luck(), url, 1, "POST")
    assert luck is steady_luck
    [outcome] = outcomes
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "upstream_unavailable"
    assert outcome.delivery.unsent
    assert len(luck.waits) == 2


async def _many(luck: Luck, url: str, number: int, method: str = "GET", **resilience: Any) -> tuple[list[Any], Luck]:
    async def scenario() -> list[Any]:
        executor = steady(luck, **resilience)
        found = await asyncio.gather(*(executor.execute(call(url, method)) for _ in range(number)))
        await executor.close()
        return list(found)

    return await scenario(), luck


async def test_a_dead_upstream_costs_callers_the_connect_timeout_once_a_window() -> None:
    """Two hundred callers at once, of whom those already under way wait once; nobody after them; then one of two hundred a window."""

    with dead() as url:
        luck = Luck()
        executor = steady(luck, breaker=BreakerConfig(open_s=10), timeouts=UNREACHED)
        rounds = []
        for _ in range(4):
            found = await asyncio.gather(*(executor.execute(call(url)) for _ in range(200)))
            rounds.append(Counter(type(one).__name__ + ":" + one.error.code for one in found))  # type: ignore[union-attr]
            later = await executor.execute(call(url))
            assert isinstance(later, Refused)
            assert later.error.retry_after_s == 10
            luck.clock.advance(10)
        await executor.close()
        assert luck.waits == []  # nobody waited for another attempt
        first, *rest = rounds
    assert first == {"Failed:upstream_timeout": 100, "Refused:upstream_unavailable": 100}  # there are a hundred places
    for one in rest:
        assert one == {"Failed:upstream_timeout": 1, "Refused:upstream_unavailable": 199}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_name_that_nobody_resolves_in_time_costs_what_a_dead_upstream_costs(method: str) -> None:
    asked = []

    async def silent(host: str, port: int) -> list[str]:
        asked.append(host)
        await asyncio.Event().wait()
        return []

    luck = Luck()
    executor = steady(luck, resolver=silent, breaker=BreakerConfig(open_s=10), timeouts=UNREACHED)
    found = await asyncio.gather(*(executor.execute(call("http://api.invalid", method)) for _ in range(20)))
    later = [await executor.execute(call("http://api.invalid", method)) for _ in range(3)]
    await executor.close()
    assert {one.error.code for one in found} == {"upstream_timeout"}
    assert all(one.delivery.unsent for one in found)
    assert [(type(one), one.error.retry_after_s) for one in later] == [(Refused, 10)] * 3
    assert asked == ["api.invalid"]  # each question holds one of the few threads that all names are resolved by


async def test_an_upstream_that_comes_back_is_used_again_after_one_probe() -> None:
    server = Server([saying("500 Broken")] * 10 + [FINE])
    luck = Luck()
    async with server.serving() as url:
        executor = steady(luck, breaker=BreakerConfig(open_s=10))
        for _ in range(10):
            await executor.execute(call(url))
        held = await asyncio.gather(*(executor.execute(call(url)) for _ in range(20)))
        reached = len(server.heads)
        luck.clock.advance(10)
        probed = await asyncio.gather(*(executor.execute(call(url)) for _ in range(20)))
        after = await asyncio.gather(*(executor.execute(call(url)) for _ in range(20)))
        (health,) = executor.health()
        await executor.close()
    assert all(isinstance(one, Refused) for one in held)
    assert sum(isinstance(one, Success) for one in probed) == 1
    assert (health.breaker, health.opened, health.held, health.failed, health.answered) == ("closed", 1, 39, 10, 21)
    found = [type(one).__name__ for one in after], reached
    assert found == (["Success"] * 20, 10)


async def test_a_breaker_is_told_of_when_it_opens_and_when_it_closes_and_not_in_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, luck, seen = Server([saying("500 Broken")] * 12 + [FINE]), Luck(), []
    async with server.serving() as url:
        executor = steady(luck, breaker=BreakerConfig(open_s=10), retries=Retries(attempts=1))
        for number in range(13):
            await executor.execute(call(url))
            seen += executor.health()
            luck.clock.advance(10 if number >= 9 else 0)
        await executor.close()
    assert [one.breaker for one in seen] == ["closed"] * 9 + ["open"] * 3 + ["closed"]
    assert [one.opened for one in seen] == [0] * 9 + [1] * 4
    opened, closed = [record.getMessage() for record in caplog.records]
    assert line_names(opened, "breaker is open", " 10 s ")
    assert "breaker is closed" in closed


async def test_a_breaker_whose_time_is_over_is_half_open_until_a_call_finds_out() -> None:
    states: list[str] = []
    luck = Luck()
    with closed() as url:
        executor = steady(luck, breaker=BreakerConfig(open_s=10), retries=Retries(attempts=1))
        for _ in range(3):
            await executor.execute(call(url))
        for seconds in (0, 10):
            luck.clock.advance(seconds)
            states += [one.breaker for one in executor.health()]
        (health,) = executor.health()
        assert (health.unreachable, health.answered, health.failed, health.in_flight) == (3, 0, 0, 0)
        await executor.close()
    assert states == ["open", "half-open"]


async def test_errors_of_the_caller_open_no_breaker() -> None:
    server = Server([saying("404 Not Found")] * 50 + [FINE])
    async with server.serving() as url:
        executor = steady()
        for _ in range(50):
            await executor.execute(call(url))
        outcome = await executor.execute(call(url))
        await executor.close()
    assert isinstance(outcome, Success)


async def test_one_system_that_is_down_does_not_hold_up_another_of_the_same_source() -> None:
    with closed() as down:
        server = Server([FINE])
        async with server.serving() as url:
            executor = steady(retries=Retries(attempts=1))
            for _ in range(3):
                await executor.execute(call(f"{down}/v1"))
            same = await executor.execute(call(f"{down}/v2"))
            other = await executor.execute(call(url))
            await executor.close()
    assert isinstance(same, Refused)
    assert isinstance(other, Success)


async def test_places_are_given_in_turn_and_the_line_is_as_long_as_the_places_are_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await FINE(writer)

    server = Server([slow])
    async with server.serving() as url:
        executor = steady(concurrency=3, timeouts=PATIENT)
        tasks = [asyncio.ensure_future(executor.execute(call(url))) for _ in range(10)]
        refused, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert len(refused) <= 4
        (full,) = executor.health()
        assert (full.in_flight, full.waiting) == (3, 3)
        gate.set()
        found = await asyncio.gather(*tasks)
        (after,) = executor.health()
        assert (after.in_flight, after.waiting, after.crowded, after.answered) == (0, 0, 4, 6)
        await executor.close()
    assert server.most_inside <= 3
    assert [isinstance(one, Success) for one in found] == [True] * 6 + [False] * 4
    assert {one.error.rule for one in found[6:]} == {"concurrency"}
    assert len([one for one in caplog.records if line_names(one.getMessage(), "no place left", ": 3 calls")]) == 1


async def test_a_place_is_waited_for_as_long_as_a_connection_and_given_back_when_a_call_is_cancelled() -> None:
    server = Server([hang, FINE])
    async with server.serving() as url:
        executor = steady(concurrency=1, timeouts=Timeouts(connect_s=0.05, first_byte_s=5, total_s=5), breaker=None)
        first = asyncio.ensure_future(executor.execute(call(url)))
        await server.reached.wait()
        crowded = await executor.execute(call(url))
        first.cancel()
        await asyncio.wait([first])
        after = await executor.execute(call(url))
        await executor.close()
    assert isinstance(crowded, Refused)
    assert isinstance(after, Success)


async def test_a_breaker_that_opens_while_a_call_waits_ends_it_with_what_is_known() -> None:
    with closed() as url:
        luck = Luck()
        executor = steady(luck, retries=Retries(attempts=5))
        outcome = await executor.execute(call(url))
        await executor.close()
    assert isinstance(outcome, Failed)
    assert outcome.delivery.attempts == 3
    assert outcome.error.retry_after_s == 1


async def test_lines_are_as_many_as_the_catalog_names_and_no_more() -> None:
    with closed() as url:
        executor = steady(retries=Retries(attempts=1))
        for number in range(300):
            await executor.execute(call(f"{url}/tenant{number % 7}"))
        await executor.close()
        found = len(executor._systems)
        assert found == 1


@pytest.mark.parametrize("last", [reset, hang])
async def test_a_post_that_was_answered_with_a_redirect_is_not_made_again_when_that_leads_nowhere(
    last: Behaviour,
) -> None:
    outcome, server, luck = await attempts_of(
        [saying("307 Temporary Redirect", "Location: /made\r\n"), last, FINE], "POST", timeouts=UNANSWERED
    )
    assert [head.split(b" ")[0] for head in server.heads] == [b"POST", b"POST"]
    assert (outcome.error.code, luck.waits) == ("outcome_unknown", [])


async def doubtful(behaviours: Sequence[Behaviour], key: str = "", method: str = "POST", attempts: int = 3) -> Any:
    """How a call ends whose system knows keys, and does this with one attempt after the other."""

    server = Server(behaviours)
    async with server.serving() as url:
        retries = Retries(attempts=attempts)
        timeouts = UNANSWERED if hang in behaviours else PATIENT
        executor = steady(key_header="Idempotency-Key", breaker=None, retries=retries, timeouts=timeouts)
        outcome = await executor.execute(replace(call(url, method), idempotency_key=key))
        await executor.close()
    return outcome


GONE = saying("503 Busy")


@pytest.mark.parametrize(
    "behaviours",
    [[reset], [hang], [reset, GONE], [hang, saying("409 Conflict")], [reset, saying("401 Unauthorized")]],
)
@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_write_that_may_have_happened_ends_unknown_however_its_last_attempt_failed(
    behaviours: Sequence[Behaviour], attempts: int
) -> None:
    """Its caller would repeat it under another id, which the system does not know."""
    outcome = await doubtful(behaviours, attempts=attempts)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "outcome_unknown"
    assert not outcome.delivery.unsent


@pytest.mark.parametrize("behaviours", [[GONE], [saying("400 Bad Request")], [reset, saying("422 No")]])
async def test_what_was_answered_is_no_doubt(behaviours: Sequence[Behaviour]) -> None:
    assert (await doubtful(behaviours)).error.code == "upstream_error"


@pytest.mark.parametrize(("key", "method"), [("tg_1", "POST"), ("", "GET")])
async def test_what_may_be_repeated_under_the_same_key_or_without_harm_is_said_to_have_failed(
    key: str, method: str
) -> None:
    assert (await doubtful([reset], key, method)).error.code == "upstream_error"


@pytest.mark.parametrize(("key", "code"), [("", "outcome_unknown"), ("tg_1", "upstream_unavailable")])
async def test_a_write_that_was_sent_once_is_not_called_unsent_because_the_system_is_gone_by_then(
    key: str, code: str
) -> None:
    server = Server([reset])
    luck = Luck()
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(server.serving())
        executor = steady(luck, key_header="Idempotency-Key", breaker=None)

        async def gone(seconds: float) -> None:
            await stack.aclose()
            await Luck.sleep(luck, seconds)

        executor._chance = Chance(draw=lambda: 0.5, sleep=gone)
        outcome = await executor.execute(replace(call(url, "POST"), idempotency_key=key))
        await executor.close()
    assert outcome.error.code == code
    assert not outcome.delivery.unsent  # or a fallback would do it a second time
