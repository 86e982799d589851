"""Services that count cost: what they cannot afford is not sent, and nothing they say shuts them off for ever."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tests.connectors.graphql.test_executor import Scripted, call, executor, serving, tool
from toolgen.connectors.graphql.budget import CostBudget, report_of
from toolgen.core.clock import FixedClock
from toolgen.model.result import Failed, Success

QUERY = {"query": "{ a }", "variables": {"first": 10}}
DEAR = {"query": "{ a }", "variables": {"first": 100}}


def shopify(left: Any, *, cost: Any = 10, rate: Any = 50.0, most: Any = 1000.0, **body: Any) -> dict[str, Any]:
    status = {"maximumAvailable": most, "currentlyAvailable": left, "restoreRate": rate}
    return {
        "data": {"thing": 1},
        "extensions": {"cost": {"requestedQueryCost": cost, "throttleStatus": status}},
        **body,
    }


def github(left: Any, reset: float, **limit: Any) -> dict[str, Any]:
    until = datetime.fromtimestamp(reset, UTC).isoformat().replace("+00:00", "Z")
    return {"data": {"rateLimit": {"limit": 5000, "cost": 1, "remaining": left, "resetAt": until, **limit}}}


def budget(*bodies: Any, request: Any = QUERY) -> tuple[CostBudget, FixedClock]:
    clock = FixedClock()
    made = CostBudget(clock=clock)
    for body in bodies:
        told(made, clock, body, request)
    return made, clock


def told(made: CostBudget, clock: FixedClock, body: Any, request: Any = QUERY) -> None:
    with made.spending(request) as heard:
        if (report := report_of(body, clock.now(), None)) is not None:
            heard.append(report)


def test_what_a_request_cost_before_is_waited_for() -> None:
    made, clock = budget(shopify(5, cost=105))
    assert made.wait(QUERY) == 2.0
    assert made.wait(DEAR) == 0.0  # never made with a page of this size
    clock.advance(1.5)
    assert made.wait(QUERY) == 0.5
    clock.advance(0.5)
    assert made.wait(QUERY) == 0.0


def test_calls_on_their_way_are_counted_and_given_back() -> None:
    made, _ = budget(shopify(20, cost=15))
    with made.spending(QUERY):
        assert made.wait(QUERY) == 0.2
    assert made.wait(QUERY) == 0.2  # answered without a word about cost, and therefore spent
    assert made.reserved == 0.0


def test_a_window_is_waited_out() -> None:
    clock = FixedClock()
    made = CostBudget(clock=clock)
    told(made, clock, github(0, clock.now() + 90))
    assert made.wait(QUERY) == 90.0
    clock.advance(90)
    assert made.wait(QUERY) == 0.0


@pytest.mark.parametrize("left", [0, -5, -1e308])
@pytest.mark.parametrize("rate", [1e-300, 0.0001, 50])
@pytest.mark.parametrize("cost", [0, 10, 1e308])
@pytest.mark.parametrize("most", [0, 1000, 1e308, None])
def test_no_report_shuts_a_service_off_for_longer_than_a_minute(left: Any, rate: Any, cost: Any, most: Any) -> None:
    made, clock = budget(shopify(left, cost=cost, rate=rate, most=most))
    assert 0.0 <= made.wait(QUERY) <= 60.0
    clock.advance(60)
    assert made.wait(QUERY) == 0.0


def test_no_window_is_longer_than_an_hour() -> None:
    clock = FixedClock()
    made = CostBudget(clock=clock)
    told(made, clock, github(0, clock.now() + 10**9))
    assert made.wait(QUERY) == 3600.0


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "text",
        {"extensions": []},
        {"extensions": {"cost": {"throttleStatus": "none"}}},
        shopify("5"),
        shopify(True),
        shopify(float("nan")),
        shopify(float("inf")),
        shopify(10**400),
        shopify(5, rate=0),
        shopify(5, rate=-1),
        shopify(5, rate=None),
        {"data": {"rateLimit": {"remaining": 0, "resetAt": "tomorrow"}}},
        {"data": {"rateLimit": {"remaining": 0, "resetAt": "9999-99-99T00:00:00Z"}}},
        {"data": {"rateLimit": {"remaining": "0", "resetAt": "2099-01-01T00:00:00Z"}}},
        github(0, 999_999_999.0),  # over already
    ],
)
def test_what_makes_no_sense_is_no_report(body: Any) -> None:
    assert report_of(body, FixedClock().now(), None) is None


@pytest.mark.parametrize(
    ("written", "listened"),
    [
        ("{ rateLimit { remaining resetAt } }", True),
        ("{ rateLimit: viewer { remaining: age resetAt: name } }", False),
        ("{ a: rateLimit { remaining resetAt } rateLimit: viewer { remaining: age resetAt: name } }", False),
        ("{ rateLimit { remaining: limit resetAt } }", False),
        ("{ rateLimit { ... on X { remaining: limit } resetAt } }", False),
        ("{ ... { rateLimit: viewer { remaining: age resetAt: name } } }", False),
    ],
)
def test_an_agent_cannot_say_for_the_service_that_it_is_exhausted(written: str, listened: bool) -> None:
    now = FixedClock().now()
    assert (report_of(github(0, now + 60), now, written) is not None) is listened


def test_costs_of_many_requests_are_forgotten() -> None:
    made, clock = budget()
    for number in range(1200):
        told(made, clock, shopify(1000, cost=500), {"query": f"{{ a{number} }}", "variables": {}})
    assert len(made.costs) == 1000


async def served(*bodies: Any) -> tuple[list[Success | Failed], int]:
    """The endings of one call more than there are answers, one after the other, and how many of them were sent."""
    service = Scripted()

    app = Starlette(routes=[Route("/{path:path}", service.answer, methods=["POST"])])
    for origin in serving(app):
        made = executor()
        found = []
        try:
            for body in (*bodies, bodies[-1]):
                service.body = json.dumps(body).encode()
                found.append(await made.execute(call(tool(f"{origin}/graphql"), {"a": 1})))
        finally:
            await made.close()
        return found, len(service.seen)
    raise AssertionError("unreachable")


async def test_a_call_the_service_cannot_afford_is_not_sent() -> None:
    throttled = shopify(
        0, cost=1000, rate=10, data=None, errors=[{"message": "T", "extensions": {"code": "THROTTLED"}}]
    )
    [first, second], sent = await served(throttled)
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert (first.error.code, second.error.code, sent) == ("rate_limited", "rate_limited", 1)
    assert second.error.retry_after_s is not None
    assert 0 < second.error.retry_after_s <= 60


async def test_a_call_that_has_to_wait_a_moment_waits_and_is_sent() -> None:
    [first, second], sent = await served(shopify(0, cost=10, rate=1000))
    assert isinstance(first, Success)
    assert isinstance(second, Success)
    assert sent == 2
