"""The GraphQL executor: a stored operation with its variables over the HTTP executor's transport, and what its answer means."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from toolgen.clock import Clock, SystemClock
from toolgen.errors import ToolgenError
from toolgen.execute.base import Permit
from toolgen.execute.http.dial import Resolver, Timeouts, system_resolver
from toolgen.execute.http.executor import HttpExecutor
from toolgen.execute.secrets import Secrets
from toolgen.model.call import Call
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Error, Failed, Success, bounded
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLBinding, HttpBinding, HttpBody, HttpParameter

__all__ = ["GraphQLExecutor"]

# GraphQL over HTTP, section 5.1: the new media type first, the old one for services that do not know it yet.
_ACCEPT = "application/graphql-response+json, application/json;q=0.9"
_HEADERS = (HttpParameter(argument="accept", in_="header", name="Accept", style="simple", explode=False),)
_BODY = HttpBody(media_type="application/json", argument="request", required=True)
_MOST_ERRORS = 3  # that are put into the message; all of them are in the data
_LONGEST_WAIT_S = 3600.0
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()


class GraphQLExecutor:
    """Sends the calls of one GraphQL source.

    `schemes` are the source's security schemes and `auth` its credentials, as for `HttpExecutor`; GraphQL describes neither, so every
    credential that is configured is shown with every call. `permit` is asked about every address.
    """

    def __init__(
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: Secrets,
        permit: Permit,
        resolver: Resolver = system_resolver,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
    ) -> None:
        self._security = (tuple(sorted(auth)),) if auth else ()
        self._http = HttpExecutor(
            schemes=schemes,
            auth=auth,
            secrets=secrets,
            permit=permit,
            resolver=resolver,
            timeouts=timeouts,
            clock=clock,
        )

    async def execute(self, call: Call) -> Success | Failed:
        """`data` of a Success is the `data` of the response; of a Failed, the `data` and `errors` of a response that had errors."""
        binding = _binding(call)
        if not binding.endpoint:
            return Failed(
                error=Error(
                    code="upstream_unavailable",
                    message=f"no endpoint is configured for the source {call.tool.source}",
                    suggestion="set `endpoint:` of the source in toolgen.yaml and build again",
                )
            )
        arguments: JsonObject = {"accept": _ACCEPT, "request": self.preview(call)}
        tool = msgspec.structs.replace(call.tool, binding=self._over_http(binding))
        outcome = await self._http.execute(dataclasses.replace(call, tool=tool, arguments=arguments))
        match outcome:
            case Success():
                return _read(outcome, binding)
            case Failed():
                return _explain(outcome)

    def preview(self, call: Call) -> JsonObject:
        """The request body: `{"query", "variables", "operationName"}`. An absent argument is an absent variable, null is null."""
        binding = _binding(call)
        given = call.arguments
        variables = {variable: given[name] for name, variable in binding.variables.items() if name in given}
        return {"query": binding.operation, "variables": variables, "operationName": binding.operation_name}

    async def close(self) -> None:
        """Closes every connection."""
        await self._http.close()

    def _over_http(self, binding: GraphQLBinding) -> HttpBinding:
        parts = urlsplit(binding.endpoint)
        return HttpBinding(
            method="POST",
            path=f"{parts.path}?{parts.query}" if parts.query else parts.path,
            servers=(f"{parts.scheme}://{parts.netloc}",),
            parameters=_HEADERS,
            body=_BODY,
            security=self._security,
        )


def _binding(call: Call) -> GraphQLBinding:
    binding = call.tool.binding
    if not isinstance(binding, GraphQLBinding):
        raise ToolgenError(f"the tool {call.tool.name} is not bound to GraphQL")
    return binding


def _read(answer: Success, binding: GraphQLBinding) -> Success | Failed:
    """A 2xx answer, which may be a response with or without errors, or no GraphQL at all (spec October 2021, section 7.1)."""
    body = answer.data
    if answer.truncated:
        message, suggestion = "the answer is larger than the gateway reads", "ask for less: a filter or a smaller page"
        return Failed(
            error=Error(code="response_too_large", message=message, suggestion=suggestion), facts=answer.facts
        )
    if errors := _errors(body):
        return _failed(body, errors, answer.facts)
    data = body.get("data") if isinstance(body, Mapping) else None
    if not isinstance(data, Mapping):
        return Failed(error=_not_graphql(answer.data, "the endpoint answered"), facts=answer.facts)
    return Success(data=data, next_cursor=_cursor(data.get(binding.field), binding), facts=answer.facts)


def _explain(failed: Failed) -> Failed:
    """An answer that was no 2xx: with a GraphQL body its errors say more than its status; without one, a page is no answer."""
    if errors := _errors(failed.data):
        told = _failed(failed.data, errors, failed.facts).error
        wait = failed.error.retry_after_s if failed.error.retry_after_s is not None else told.retry_after_s
        error = msgspec.structs.replace(
            told, code=failed.error.code, suggestion=failed.error.suggestion, retry_after_s=wait
        )
        return Failed(error=error, data=_kept(failed.data, errors), facts=failed.facts)
    if isinstance(failed.data, str):
        status = failed.facts.get("upstream_status")
        error = _not_graphql(failed.data, f"the endpoint answered {status}")
        if status in {401, 403, 429} or (isinstance(status, int) and status >= 500):
            error = msgspec.structs.replace(error, suggestion=failed.error.suggestion)
        error = msgspec.structs.replace(error, code=failed.error.code, retry_after_s=failed.error.retry_after_s)
        return Failed(error=error, facts=failed.facts)
    return failed


def _errors(body: Json) -> Sequence[Json]:
    """The `errors` of a response; none when the list is empty or is no list."""
    errors = body.get("errors") if isinstance(body, Mapping) else None
    return errors if isinstance(errors, Sequence) and not isinstance(errors, str) else ()


def _kept(body: Json, errors: Sequence[Json]) -> JsonObject:
    """Partial data beside its errors; the null of a field that failed stays where it is (spec, section 6.4.4)."""
    return {"data": body.get("data") if isinstance(body, Mapping) else None, "errors": errors}


def _failed(body: Json, errors: Sequence[Json], facts: Mapping[str, Json]) -> Failed:
    told = "; ".join(_told(error) for error in errors[:_MOST_ERRORS])
    more = f"; and {len(errors) - _MOST_ERRORS} more" if len(errors) > _MOST_ERRORS else ""
    kept = _kept(body, errors)
    suggestion = "change the arguments as the errors say"
    if kept["data"] is not None:
        suggestion = "what did not fail stands in `data`, beside the errors"
    wait = _throttled(body, errors)
    if wait is not None:
        suggestion = "wait before the next call, or ask for less"
    error = Error(
        code="upstream_error",
        message=f"the service reported: {told}{more}",
        suggestion=suggestion,
        retry_after_s=wait,
    )
    return Failed(error=error, data=kept, facts=facts)


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


def _throttled(body: Json, errors: Sequence[Json]) -> float | None:
    """Seconds until there is budget again, when a service that counts cost says THROTTLED on a 200, as Shopify does."""
    codes = {_at(error, "extensions", "code") for error in errors}
    if codes.isdisjoint({"THROTTLED", "RATE_LIMITED"}):
        return None
    asked = _at(body, "extensions", "cost", "requestedQueryCost")
    left = _at(body, "extensions", "cost", "throttleStatus", "currentlyAvailable")
    rate = _at(body, "extensions", "cost", "throttleStatus", "restoreRate")
    match asked, left, rate:
        case ((int() | float()), (int() | float()), (int() | float())) if rate > 0:
            wait = (asked - left) / rate
            return min(max(wait, 0.0), _LONGEST_WAIT_S) if math.isfinite(wait) else _LONGEST_WAIT_S
        case _:
            return 1.0


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
        suggestion="check `endpoint:` of the source in toolgen.yaml; tell whoever runs the gateway",
    )


def _cursor(value: Json, binding: GraphQLBinding) -> str:
    """Where the next page begins, for a tool that can ask for it (GraphQL Cursor Connections Specification)."""
    if "after" not in binding.variables or _at(value, "pageInfo", "hasNextPage") is not True:
        return ""
    end = _at(value, "pageInfo", "endCursor")
    return end if isinstance(end, str) else ""
