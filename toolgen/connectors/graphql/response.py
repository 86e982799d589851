"""Interpretation of a response to a GraphQL request: data, partial data with errors, a rejection, a wait, or no GraphQL response.
A mutation whose root field ran took effect even if fields below it failed, so its result never says that it failed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from toolgen.connectors.graphql.mutation_outcome import (
    ResponseContext,
    effect_of,
    path_of,
    present,
    rejection_of,
    root_keys,
)
from toolgen.connectors.rejection import MAX_TOLD, at
from toolgen.model.excerpt import bounded
from toolgen.model.result import Delivery, Error, Failed, Shape, Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["explain", "read_answer"]

_MAX_GROUPS = 20  # different errors listed in the data
_MAX_WAIT_S = 3600.0
_MIN_WAIT_S = 1.0  # seconds to wait if a service gives no time
_MOVED = "redirects are not followed; set `endpoint:` of the source in toolgen.yaml to the final URL of the service"
_REBUILD = (
    "the service's schema is no longer the one this tool was built from; tell the operator of the gateway to read what changed and "
    "build again (`toolgen build`, with --update-pins for an endpoint)"
)
# Messages of servers about unknown names in a document: graphql-js and its ports, graphql-ruby, gqlgen, Hasura, HotChocolate.
_FOREIGN = re.compile(
    r"cannot query field|unknown (?:argument|type|field)|doesn't (?:exist on type|accept argument)|isn't a defined input type"
    r"|field '[^']{1,100}' not found in type|the field `[^`]{1,100}` does not exist",
    re.IGNORECASE,
)
_FOREIGN_CODES = frozenset({"GRAPHQL_VALIDATION_FAILED", "undefinedField", "argumentNotAccepted", "undefinedType"})
_THROTTLED = frozenset({"THROTTLED", "RATE_LIMITED", "RATE_LIMIT_EXCEEDED", "TOO_MANY_REQUESTS"})


def read_answer(answer: Success, asked: ResponseContext) -> Success | Failed:
    """Return the outcome of a 2xx answer: a response with or without errors, or not GraphQL (spec October 2021, section 7.1).

    Data with errors is a Success of the shape GRAPHQL.
    """
    body, delivery = answer.data, answer.delivery
    if answer.truncated:
        return Failed(error=_too_large(asked, delivery), delivery=delivery)
    data = body.get("data") if isinstance(body, Mapping) else None
    if errors := _errors(body):
        return _answered_in_part(data, errors, asked, body, delivery) or _failed(body, errors, delivery)
    if not isinstance(data, Mapping):
        return Failed(error=_not_graphql(answer.data, "the endpoint answered"), delivery=delivery)
    if asked.mutation and (rejected := rejection_of(data, asked)):
        return Failed(error=rejected, data=data, delivery=delivery, shape=Shape.WHOLE)
    return Success(data=data, next_cursor=_cursor(data, asked.cursor), delivery=delivery)


def explain(failed: Failed, asked: ResponseContext) -> Success | Failed:
    """Return the outcome of an answer other than 2xx. The errors in a GraphQL body are more exact than the status. A text body, such as
    a web page, is not returned.
    """
    if errors := _errors(failed.data):
        data = failed.data.get("data") if isinstance(failed.data, Mapping) else None
        if asked.mutation and (made := _answered_in_part(data, errors, asked, failed.data, failed.delivery)):
            return made
        told = _failed(failed.data, errors, failed.delivery).error
        wait = failed.error.retry_after_s if failed.error.retry_after_s is not None else told.retry_after_s
        code = told.code if told.code == "rate_limited" else failed.error.code
        suggestion = told.suggestion if told.suggestion == _REBUILD else failed.error.suggestion
        error = msgspec.structs.replace(told, code=code, suggestion=suggestion, retry_after_s=wait)
        return Failed(
            error=_limited(error, failed),
            data=_kept(data, errors),
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
    """Return the error as `rate_limited` for 429, and for a 403 with a time to retry, as GitHub's secondary limits send; else unchanged."""
    status = failed.delivery.status
    if status == 429 or (status == 403 and failed.error.retry_after_s is not None):
        return msgspec.structs.replace(error, code="rate_limited", suggestion="wait before the next call")
    return error


def _errors(body: Json) -> Sequence[Json]:
    """Return the `errors` of a response, or an empty list. A single error outside a list, as broken services write it, counts too."""
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


def _answered_in_part(
    data: Json, errors: Sequence[Json], asked: ResponseContext, body: Json, delivery: Delivery
) -> Success | Failed | None:
    """Return the outcome of a call that has errors but also an effect, or None if it only failed."""
    if asked.mutation:
        effect = effect_of(data, errors, asked.query)
        if effect is None:
            return None
        kept = _kept(data, errors)
        if isinstance(data, Mapping) and (rejected := rejection_of(data, asked)):
            return Failed(error=rejected, data=kept, delivery=delivery, shape=Shape.GRAPHQL)
        if effect == "unread":
            return Failed(error=_unread(errors), data=kept, delivery=delivery, shape=Shape.GRAPHQL)
    elif _throttled(body, errors) is not None or not present(data, root_keys(asked.query)):
        return None
    brief = [_brief(one) for one in _grouped(errors)]
    cursor = _cursor(data, asked.cursor)
    return Success(data={"data": data, "errors": brief}, next_cursor=cursor, delivery=delivery, shape=Shape.GRAPHQL)


def _unread(errors: Sequence[Json]) -> Error:
    return Error(
        code="outcome_unknown",
        message=f"the service ran this change, but an error replaced its answer: {_words(errors)}",
        suggestion="do not repeat this call: it may have taken effect; read what it changed, and go on from there",
    )


def _too_large(asked: ResponseContext, delivery: Delivery) -> Error:
    read = f" ({delivery.bytes} bytes)" if delivery.bytes else ""
    message = f"the answer is larger than the gateway reads{read}"
    if asked.mutation:
        suggestion = "do not repeat this call: it has most likely taken effect; read what it changed"
        return Error(code="outcome_unknown", message=f"the change was sent, but {message}", suggestion=suggestion)
    return Error(
        code="response_too_large", message=message, suggestion="ask for less: a filter, fewer fields or a smaller page"
    )


def _grouped(errors: Sequence[Json]) -> list[JsonObject]:
    """Return equal errors of the same field of several objects as one error with a count."""
    found: dict[object, dict[str, Json]] = {}
    for error in errors:
        one: Mapping[str, Json] = error if isinstance(error, Mapping) else {"message": error}
        place = tuple(step for step in path_of(one) if not isinstance(step, int))
        known = found.setdefault((str(one.get("message")), str(place)), {**one})
        count = known.get("count", 0)
        known["count"] = count + 1 if isinstance(count, int) else 1
    shown: list[JsonObject] = [
        {key: value for key, value in one.items() if (key, value) != ("count", 1)} for one in found.values()
    ]
    if len(shown) > _MAX_GROUPS:
        rest = shown[_MAX_GROUPS:]
        more = sum(int(count) if isinstance(count := one.get("count", 1), int) else 1 for one in rest)
        shown = [*shown[:_MAX_GROUPS], {"message": f"and {more} more errors", "count": more}]
    return shown


def _brief(error: JsonObject) -> JsonObject:
    """Return an error as `meta.partial` shows it: message, path, code and count."""
    message, code = error.get("message"), at(error, "extensions", "code") or at(error, "type")
    shown: dict[str, Json] = {
        "message": bounded(message, 300) if isinstance(message, str) else "an error without a message"
    }
    if path := path_of(error):
        shown["path"] = [*path]
    if isinstance(code, str):
        shown["code"] = bounded(code, 100)
    if "count" in error:
        shown["count"] = error["count"]
    return shown


def _kept(data: Json, errors: Sequence[Json]) -> JsonObject:
    """Return partial data with its errors; a failed field stays null in its place (spec, section 6.4.4)."""
    return {"data": data, "errors": _grouped(errors)}


def _words(errors: Sequence[Json]) -> str:
    """Return the first few different errors for a message."""
    groups = _grouped(errors)
    told = "; ".join(_error_text(error) for error in groups[:MAX_TOLD])
    return f"{told}; and {len(groups) - MAX_TOLD} more" if len(groups) > MAX_TOLD else told


def _failed(body: Json, errors: Sequence[Json], delivery: Delivery) -> Failed:
    kept = _kept(body.get("data") if isinstance(body, Mapping) else None, errors)
    suggestion = "change the arguments as the errors say"
    if any(_is_foreign(error) for error in errors) and kept["data"] is None:
        suggestion = _REBUILD
    elif kept["data"] is not None and any(len(path_of(error)) > 1 for error in errors):
        suggestion = "ask for other fields, without those that failed"
    wait = _throttled(body, errors)
    if wait is not None:
        suggestion = "ask for less"
    error = Error(
        code="upstream_error" if wait is None else "rate_limited",
        message=f"the service reported: {_words(errors)}",
        suggestion=suggestion,
        retry_after_s=wait,
    )
    return Failed(error=error, data=kept, delivery=delivery, shape=Shape.GRAPHQL)


def _error_text(error: JsonObject) -> str:
    """Return a text such as `message (at stock.warehouses.2.count, 5 times)`."""
    message, count = error.get("message"), error.get("count")
    said = bounded(" ".join(message.split()), 300) if isinstance(message, str) else "an error without a message"
    place = f"at {bounded('.'.join(map(str, path)), 100)}" if (path := path_of(error)) else ""
    notes = ", ".join(note for note in (place, f"{count} times" if count else "") if note)
    return f"{said} ({notes})" if notes else said


def _is_foreign(error: Json) -> bool:
    """Return True if the service does not know a field, an argument or a type of a request that was valid when it was built."""
    message = at(error, "message")
    said = isinstance(message, str) and _FOREIGN.search(message[:1000]) is not None
    return said or at(error, "extensions", "code") in _FOREIGN_CODES


def _throttled(body: Json, errors: Sequence[Json]) -> float | None:
    """Return the seconds until budget returns, if a service that counts cost answers THROTTLED with 200, as Shopify does."""
    codes = {at(error, *path) for error in errors for path in (("extensions", "code"), ("type",))}
    if codes.isdisjoint(_THROTTLED):
        return None
    asked = at(body, "extensions", "cost", "requestedQueryCost")
    left = at(body, "extensions", "cost", "throttleStatus", "currentlyAvailable")
    rate = at(body, "extensions", "cost", "throttleStatus", "restoreRate")
    match asked, left, rate:
        case ((int() | float()), (int() | float()), (int() | float())) if rate > 0:
            wait = (asked - left) / rate
            return min(max(wait, 0.0), _MAX_WAIT_S) if math.isfinite(wait) else _MAX_WAIT_S
        case _:
            return _MIN_WAIT_S


def _not_graphql(body: Json, answered: str) -> Error:
    page = isinstance(body, str) and body.lstrip()[:1] == "<"
    what = "a web page" if page else "something that is not a GraphQL response"
    return Error(
        code="upstream_error",
        message=f"{answered} with {what}",
        suggestion="check `endpoint:` of the source in toolgen.yaml; tell the operator of the gateway",
    )


def _cursor(data: Json, cursor: tuple[str, ...]) -> str:
    """Return the cursor of the next page for a tool with a cursor argument (GraphQL Cursor Connections Specification)."""
    if not cursor or at(data, *cursor[1:], "pageInfo", "hasNextPage") is not True:
        return ""
    end = at(data, *cursor[1:], "pageInfo", "endCursor")
    return end if isinstance(end, str) else ""
