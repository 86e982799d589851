"""What the answer to a GraphQL request means: data, partial data beside errors, a wait, or no GraphQL at all.

What a service that counts cost has left for us, as its answers say, so that a call it would turn away is not sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from graphql import FieldNode, OperationDefinitionNode, parse

from toolgen.clock import Clock
from toolgen.model.graphql_schema import page_sizes
from toolgen.model.result import Delivery, Error, Failed, Shape, Success, bounded
from toolgen.model.schema import Json, JsonObject

__all__ = ["Budget", "Report", "explain", "read_answer", "report_of"]

_MAX_ERRORS = 3  # that are put into the message; all of them are in the data
_MAX_WAIT_S = 3600.0
_MIN_WAIT_S = 1.0  # where a service only says that it was too much
_MOVED = "redirects are not followed; set `endpoint:` of the source in toolgen.yaml to where the service really is"
_REBUILD = (
    "the service's schema is no longer the one this tool was built from; tell the operator of the gateway to read what changed and "
    "build again (`toolgen build`, with --update-pins for an endpoint)"
)
# How servers say that they do not know what a document asks for: graphql-js and its ports, graphql-ruby, gqlgen, Hasura, HotChocolate.
_FOREIGN = re.compile(
    r"cannot query field|unknown (?:argument|type|field)|doesn't (?:exist on type|accept argument)|isn't a defined input type"
    r"|field '[^']{1,100}' not found in type|the field `[^`]{1,100}` does not exist",
    re.IGNORECASE,
)
_FOREIGN_CODES = frozenset({"GRAPHQL_VALIDATION_FAILED", "undefinedField", "argumentNotAccepted", "undefinedType"})
_THROTTLED = frozenset({"THROTTLED", "RATE_LIMITED", "RATE_LIMIT_EXCEEDED", "TOO_MANY_REQUESTS"})


def read_answer(answer: Success, cursor: tuple[str, ...]) -> Success | Failed:
    """A 2xx answer, which may be a response with or without errors, or no GraphQL at all (spec October 2021, section 7.1).

    `cursor` is the binding's.
    """
    body = answer.data
    if answer.truncated:
        message, suggestion = "the answer is larger than the gateway reads", "ask for less: a filter or a smaller page"
        return Failed(
            error=Error(code="response_too_large", message=message, suggestion=suggestion), delivery=answer.delivery
        )
    if errors := _errors(body):
        return _failed(body, errors, answer.delivery)
    data = body.get("data") if isinstance(body, Mapping) else None
    if not isinstance(data, Mapping):
        return Failed(error=_not_graphql(answer.data, "the endpoint answered"), delivery=answer.delivery)
    return Success(data=data, next_cursor=_cursor(data, cursor), delivery=answer.delivery)


def explain(failed: Failed) -> Failed:
    """An answer that was no 2xx: with a GraphQL body its errors say more than its status; without one, a page is no answer."""
    if errors := _errors(failed.data):
        told = _failed(failed.data, errors, failed.delivery).error
        wait = failed.error.retry_after_s if failed.error.retry_after_s is not None else told.retry_after_s
        code = told.code if told.code == "rate_limited" else failed.error.code
        suggestion = told.suggestion if told.suggestion == _REBUILD else failed.error.suggestion
        error = msgspec.structs.replace(told, code=code, suggestion=suggestion, retry_after_s=wait)
        return Failed(
            error=_limited(error, failed),
            data=_kept(failed.data, errors),
            delivery=failed.delivery,
            shape=Shape.GRAPHQL,
        )
    if isinstance(failed.data, str):
        status = failed.delivery.status
        error = _not_graphql(failed.data, f"the endpoint answered {status}")
        if status in {401, 403, 429} or (isinstance(status, int) and status >= 500):
            error = msgspec.structs.replace(error, suggestion=failed.error.suggestion)
        error = msgspec.structs.replace(error, code=failed.error.code, retry_after_s=failed.error.retry_after_s)
        return Failed(error=_limited(error, failed), delivery=failed.delivery)
    error = failed.error
    if isinstance(status := failed.delivery.status, int) and 300 <= status < 400:
        error = msgspec.structs.replace(error, suggestion=_MOVED)
    return Failed(error=_limited(error, failed), data=failed.data, delivery=failed.delivery)


def _limited(error: Error, failed: Failed) -> Error:
    """429, or a 403 that says when to come back, as GitHub's secondary limits do."""
    status = failed.delivery.status
    if status == 429 or (status == 403 and failed.error.retry_after_s is not None):
        return msgspec.structs.replace(error, code="rate_limited", suggestion="wait before the next call")
    return error


def _errors(body: Json) -> Sequence[Json]:
    """The `errors` of a response; none when there are none. A single one that is in no list, as broken services write it, is one too."""
    errors = body.get("errors") if isinstance(body, Mapping) else None
    match errors:
        case str():
            return ({"message": errors},) if errors else ()
        case Mapping():
            return (errors,) if errors else ()
        case Sequence():
            return errors
        case _:
            return ()


def _kept(body: Json, errors: Sequence[Json]) -> JsonObject:
    """Partial data beside its errors; the null of a field that failed stays where it is (spec, section 6.4.4)."""
    return {"data": body.get("data") if isinstance(body, Mapping) else None, "errors": errors}


def _failed(body: Json, errors: Sequence[Json], delivery: Delivery) -> Failed:
    told = "; ".join(_told(error) for error in errors[:_MAX_ERRORS])
    more = f"; and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
    kept = _kept(body, errors)
    suggestion = "change the arguments as the errors say"
    if kept["data"] is not None:
        suggestion = "what did not fail stands in `data`, beside the errors"
    elif any(_is_foreign(error) for error in errors):
        suggestion = _REBUILD
    wait = _throttled(body, errors)
    if wait is not None:
        suggestion = "wait before the next call, or ask for less"
    error = Error(
        code="upstream_error" if wait is None else "rate_limited",
        message=f"the service reported: {told}{more}",
        suggestion=suggestion,
        retry_after_s=wait,
    )
    return Failed(error=error, data=kept, delivery=delivery, shape=Shape.GRAPHQL)


def _told(error: Json) -> str:
    """`message (at stock.warehouses.2.count)`."""
    if not isinstance(error, Mapping):
        return "an error without a message"
    message = error.get("message")
    said = bounded(" ".join(message.split()), 300) if isinstance(message, str) else "an error without a message"
    path = error.get("path")
    if isinstance(path, Sequence) and not isinstance(path, str) and path:
        return f"{said} (at {bounded('.'.join(str(step) for step in path), 100)})"
    return said


def _is_foreign(error: Json) -> bool:
    """Whether it says that the service does not know a field, an argument or a type. What was sent was valid when it was built."""
    message = _at(error, "message")
    said = isinstance(message, str) and _FOREIGN.search(message[:1000]) is not None
    return said or _at(error, "extensions", "code") in _FOREIGN_CODES


def _throttled(body: Json, errors: Sequence[Json]) -> float | None:
    """Seconds until there is budget again, when a service that counts cost says THROTTLED on a 200, as Shopify does."""
    codes = {_at(error, *path) for error in errors for path in (("extensions", "code"), ("type",))}
    if codes.isdisjoint(_THROTTLED):
        return None
    asked = _at(body, "extensions", "cost", "requestedQueryCost")
    left = _at(body, "extensions", "cost", "throttleStatus", "currentlyAvailable")
    rate = _at(body, "extensions", "cost", "throttleStatus", "restoreRate")
    match asked, left, rate:
        case ((int() | float()), (int() | float()), (int() | float())) if rate > 0:
            wait = (asked - left) / rate
            return min(max(wait, 0.0), _MAX_WAIT_S) if math.isfinite(wait) else _MAX_WAIT_S
        case _:
            return _MIN_WAIT_S


def _at(value: Json, *keys: str) -> bool | int | float | str | None:
    """The scalar below some keys, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, bool | int | float | str) else None


def _not_graphql(body: Json, answered: str) -> Error:
    page = isinstance(body, str) and body.lstrip()[:1] == "<"
    what = "a web page" if page else "something that is no GraphQL response"
    return Error(
        code="upstream_error",
        message=f"{answered} with {what}",
        suggestion="check `endpoint:` of the source in toolgen.yaml; tell the operator of the gateway",
    )


def _cursor(data: Json, cursor: tuple[str, ...]) -> str:
    """Where the next page begins, for a tool that can ask for it (GraphQL Cursor Connections Specification)."""
    if not cursor or _at(data, *cursor[1:], "pageInfo", "hasNextPage") is not True:
        return ""
    end = _at(data, *cursor[1:], "pageInfo", "endCursor")
    return end if isinstance(end, str) else ""


_MAX_WAIT_S = 5.0  # a longer wait is the caller's own to decide about
_RESTORED_S = 60.0  # after which a bucket that fills has filled, whatever the service said of its rate
_WINDOW_S = 3600.0  # the longest window that services count in
_MAX_COSTS = 1000
_MIN = 1.0  # what a request costs that was never made
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one answer says: `left` points of `most`, which come back at `rate` a second or (0) all at once in `seconds`."""

    left: float
    most: float
    rate: float = 0.0
    seconds: float = 0.0
    cost: float | None = None


@dataclass(slots=True)
class _State:
    report: Report
    at: float
    spent: float = 0.0  # by calls that were answered without a word about cost


@dataclass(slots=True)
class Budget:
    """The points of one endpoint, shown one credential. What a service says is believed for a minute (of a window: until it ends, an
    hour at most), so neither a broken nor a hostile one shuts itself off for ever."""

    clock: Clock
    costs: dict[_Key, float] = field(default_factory=dict)  # of requests that were answered, the last thousand
    reserved: float = 0.0
    _state: _State | None = None

    def wait(self, request: JsonObject) -> float:
        """Seconds until this request can be afforded; 0 where it can be now, or where nobody knows."""
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
        """Whether a call may stand in line so long."""
        return wait <= _MAX_WAIT_S

    @contextmanager
    def spending(self, request: JsonObject) -> Iterator[list[Report]]:
        """Holds what the request costs as long as it is on its way. The answer's report goes into the list."""
        cost = self.cost(request)
        self.reserved += cost
        told: list[Report] = []
        try:
            yield told
        finally:
            self.reserved = max(self.reserved - cost, 0.0)
            if told:
                self._learn(request, told[0])
            elif self._state is not None:
                self._state.spent += cost

    def cost(self, request: JsonObject) -> float:
        """What the same request cost before, with pages of the same sizes."""
        return self.costs.get(_key(request), _MIN)

    def _learn(self, request: JsonObject, report: Report) -> None:
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


def _longest(report: Report) -> float:
    return _RESTORED_S if report.rate else report.seconds


def _key(request: JsonObject) -> _Key:
    variables = request.get("variables")
    given = variables.items() if isinstance(variables, Mapping) else ()
    return request.get("query"), *(one for name, value in given for one in page_sizes(value, name, sized=True))


def report_of(body: Json, now: float, written: str | None) -> Report | None:
    """What an answer says of the budget: `extensions.cost` (Shopify), or `rateLimit` among its data (GitHub). None for what makes no sense.

    `now` is the time of day. `written` is the text of a document that an agent wrote: it may call any field rateLimit, and is then
    not listened to.
    """
    cost = _below(body, "extensions", "cost")
    status = _below(cost, "throttleStatus")
    left, most, rate = (_number(status.get(name)) for name in ("currentlyAvailable", "maximumAvailable", "restoreRate"))
    if left is not None and rate:
        asked = _number(cost.get("requestedQueryCost"))
        most = most if most is not None else max(left, asked or 0.0)
        return Report(left=min(left, most), most=most, rate=rate, cost=asked)
    limit = _below(body, "data", "rateLimit")
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
    return Report(
        left=left,
        most=max(left, most or 0.0, _MIN),
        seconds=min(seconds, _WINDOW_S),
        cost=_number(limit.get("cost")),
    )


def _by_name(text: str) -> bool:
    """Whether `rateLimit` in the answer is the field of that name, and so is what is below it."""
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
    """A number that can be counted with; less than nothing is nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return max(found, 0.0) if math.isfinite(found) else None
