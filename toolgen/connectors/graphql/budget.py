"""Cost budget of a GraphQL service, read from its answers. A request that the service would refuse is not sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from graphql import FieldNode, OperationDefinitionNode, parse
from msgspec import Struct

from toolgen.core.clock import Clock
from toolgen.model.graphql_schema import page_sizes
from toolgen.model.schema import Json, JsonObject

__all__ = ["CostBudget", "CostReport", "report_of"]

_MAX_WAIT_S = 5.0  # the caller decides about a longer wait
_RESTORED_S = 60.0  # seconds after which a refilling bucket is full, whatever rate the service reported
_WINDOW_S = 3600.0  # the longest window of known services
_MAX_COSTS = 1000
_MIN = 1.0  # assumed cost of a request that was never answered
_Key = tuple[object, ...]


class CostReport(Struct, frozen=True, kw_only=True):
    """Budget that one answer reports: `left` points of `most`, which return at `rate` per second, or (0) all at once after `seconds`."""

    left: float
    most: float
    rate: float = 0.0
    seconds: float = 0.0
    cost: float | None = None


class _State(Struct):
    report: CostReport
    at: float
    spent: float = 0.0  # cost of calls whose answers reported no budget


class CostBudget(Struct):
    """Points of one endpoint for one credential.

    A report is valid for a minute (a report about a window: until it ends, an hour at most), so a broken or hostile service cannot block
    itself for ever.
    """

    clock: Clock
    costs: dict[_Key, float] = {}  # costs of the last thousand answered requests
    reserved: float = 0.0
    _state: _State | None = None

    def wait(self, request: JsonObject) -> float:
        """Return the seconds until this request can be afforded; 0 if it can be now or if that is unknown."""
        state = self._current()
        if state is None:
            return 0.0
        report, age = state.report, self.clock.monotonic() - state.at
        missing = min(self.cost(request), report.most) - (self._left(state) - self.reserved)
        if missing <= 0:
            return 0.0
        known = missing / report.rate if report.rate else report.seconds - age
        return max(min(known, _longest(report) - age), 0.0)

    def affords(self, wait: float) -> bool:
        """Return True if a call may wait for this many seconds."""
        return wait <= _MAX_WAIT_S

    @contextmanager
    def spending(self, request: JsonObject) -> Iterator[list[CostReport]]:
        """Reserve the cost of a request while it is sent. The caller appends the answer's report to the list."""
        cost = self.cost(request)
        self.reserved += cost
        reports: list[CostReport] = []
        try:
            yield reports
        finally:
            self.reserved = max(self.reserved - cost, 0.0)
            if reports:
                self._learn(request, reports[0])
            elif self._state is not None:
                self._state.spent += cost

    def cost(self, request: JsonObject) -> float:
        """Return the cost of the last such request, with the same page sizes."""
        return self.costs.get(_key(request), _MIN)

    def _learn(self, request: JsonObject, report: CostReport) -> None:
        self._state = _State(report=report, at=self.clock.monotonic())
        if report.cost is not None:
            self.costs.pop(_key(request), None)
            self.costs[_key(request)] = report.cost
            if len(self.costs) > _MAX_COSTS:
                del self.costs[next(iter(self.costs))]

    def _current(self) -> _State | None:
        state = self._state
        if state is not None and self.clock.monotonic() - state.at >= _longest(state.report):
            self._state = state = None
        return state

    def _left(self, state: _State) -> float:
        age = self.clock.monotonic() - state.at
        return min(state.report.left - state.spent + state.report.rate * age, state.report.most)


def _longest(report: CostReport) -> float:
    return _RESTORED_S if report.rate else report.seconds


def _key(request: JsonObject) -> _Key:
    variables = request.get("variables")
    given = variables.items() if isinstance(variables, Mapping) else ()
    return request.get("query"), *(one for name, value in given for one in page_sizes(value, name, sized=True))


def report_of(body: Json, now: float, written: str | None) -> CostReport | None:
    """Read the budget from an answer: `extensions.cost` (Shopify) or `data.rateLimit` (GitHub). Returns None if the values are not valid.

    `now` is the time of day. `written` is the text of a document that an agent wrote. An agent can give any field the alias `rateLimit`, so
    the answer to such a document is used only if the field is the real one.
    """
    cost, limit = _below(body, "extensions", "cost"), _below(body, "data", "rateLimit")
    if not cost and not limit:
        return None
    status = _below(cost, "throttleStatus")
    left, most, rate = (_number(status.get(name)) for name in ("currentlyAvailable", "maximumAvailable", "restoreRate"))
    if left is not None and rate:
        asked = _number(cost.get("requestedQueryCost"))
        most = most if most is not None else max(left, asked or 0.0)
        return CostReport(left=min(left, most), most=most, rate=rate, cost=asked)
    left, reset = _number(limit.get("remaining")), limit.get("resetAt")
    if left is None or not isinstance(reset, str) or (written is not None and not _by_name(written)):
        return None
    try:
        seconds = datetime.fromisoformat(reset).timestamp() - now
    except (ValueError, OverflowError):
        return None
    if seconds <= 0:
        return None
    most = _number(limit.get("limit"))
    return CostReport(
        left=left,
        most=max(left, most or 0.0, _MIN),
        seconds=min(seconds, _WINDOW_S),
        cost=_number(limit.get("cost")),
    )


def _by_name(text: str) -> bool:
    """Return True if neither `rateLimit` in the answer nor any field below it is an alias."""
    [operation] = [one for one in parse(text, no_location=True).definitions if isinstance(one, OperationDefinitionNode)]
    nodes = operation.selection_set.selections
    found = [one for one in nodes if isinstance(one, FieldNode) and one.name.value == "rateLimit" and one.alias is None]
    below = [inner for one in found if one.selection_set for inner in one.selection_set.selections]
    named = all(isinstance(one, FieldNode) and one.alias is None for one in (*found, *below))
    return bool(found) and named and not any(isinstance(one, FieldNode) and one.alias for one in nodes)


def _below(value: Json, *names: str) -> JsonObject:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _number(value: Json) -> float | None:
    """Return a usable number; negative numbers count as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return max(found, 0.0) if math.isfinite(found) else None
