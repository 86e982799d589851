"""View of a waiting call for each channel of approvers: arguments and request as rows, and the digests for the record.

Approvers see the values that are sent. The person at the caller's own client sees what the caller sent: tokens in place of values, and no
bound arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Literal, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import decoded, digest, encodable
from toolgen.gateway.operations.call_rows import Concealed, ValueRow, argument_rows, request_rows
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call
from toolgen.model.result import Cancelled, Failed, Pending, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallContext
from toolgen.policy.answer_redaction import Hidden
from toolgen.state.invocations import Invocation

__all__ = [
    "ApprovalView",
    "Channel",
    "arguments_as_shown",
    "caller_arguments",
    "recorded_rows",
    "request_now",
    "rows_json",
    "shown_to_approver",
    "shown_to_caller",
    "without_bound",
]

Channel = Literal["console", "cli", "rest", "mcp", "python"]
"""Channel through which a person answers for a call."""
_EXPIRED = {"code": "expired", "message": "the policy, the tool or the caller has changed since"}


class ApprovalView(Struct, frozen=True, kw_only=True):
    """Displayed call. `sends` has `request`, or `refusal` if the call would not be sent now; it is empty for the person at the caller's
    client. `recorded` is recorded with the answer."""

    arguments: tuple[ValueRow, ...]
    request: tuple[ValueRow, ...] = ()
    sends: Mapping[str, Any] = {}
    recorded: Mapping[str, Any] = {}

    @property
    def digest(self) -> str:
        """Return the digest of the displayed request; "" if there was none."""
        return str(self.recorded.get("request", ""))


async def shown_to_approver(known: Invocation, call: Call | None, compiled_policy: CompiledPolicy) -> ApprovalView:
    """Return the view for approvers. `call` is the one that would be made, None if it is another call under the policy in force."""
    arguments = argument_rows(known.arguments, _schema(known, compiled_policy), known.bound)
    if call is None:
        return ApprovalView(arguments=arguments, sends={"refusal": _EXPIRED})
    return replace(await request_now(call, compiled_policy), arguments=arguments)


async def request_now(call: Call, compiled_policy: CompiledPolicy) -> ApprovalView:
    """Return the request that a call would send now, without its arguments."""
    sends = await _request(call, compiled_policy)
    request = sends.get("request")
    return ApprovalView(
        arguments=(),
        request=request_rows(request) if isinstance(request, Mapping) else (),
        sends=sends,
        recorded=_digests(call, compiled_policy, sends),
    )


def shown_to_caller(known: Invocation, call: Call | None, compiled_policy: CompiledPolicy) -> ApprovalView:
    """Return the view for the person at the caller's own client, without the request, which contains bound arguments."""
    arguments = caller_arguments(known)
    recorded: dict[str, Any] = {}
    if call is not None:
        concealed = compiled_policy.concealing.arguments(replace(call, arguments=arguments, restored=()))
        recorded["arguments"] = digest(concealed)
        if known.restored:
            own = compiled_policy.concealing.arguments(call)
            recorded["as_sent"] = {name: item for name, item in concealed.items() if own.get(name) != item}
    return ApprovalView(arguments=argument_rows(arguments, _schema(known, compiled_policy)), recorded=recorded)


def caller_arguments(known: Invocation) -> dict[str, Json]:
    """Return the arguments as their caller knows them: with the tokens that it sent, and without those that the gateway sets."""
    found: dict[str, Any] = {
        **known.arguments,
        **{name: known.sent[name] for name in known.sent if name in known.arguments},
    }
    found = without_bound(found, known.bound)
    return _masked(found, known.restored) if known.restored else found


def arguments_as_shown(arguments: JsonObject, decision: Mapping[str, Any], bound: tuple[str, ...]) -> dict[str, Json]:
    """Return the recorded arguments of a call as the person of a recorded decision saw them, from the audit log alone."""
    if decision.get("channel") != "mcp":
        return dict(arguments)
    found = without_bound(arguments, bound)
    shown = decision.get("shown")
    as_sent = shown.get("as_sent") if isinstance(shown, Mapping) else None
    return {**found, **(as_sent if isinstance(as_sent, Mapping) else {})}


def recorded_rows(arguments: JsonObject, schema: JsonObject | None, bound: Iterable[str]) -> tuple[ValueRow, ...]:
    """Return the rows of recorded arguments."""
    return argument_rows({name: decoded(item, Concealed) for name, item in arguments.items()}, schema, bound)


def rows_json(rows: tuple[ValueRow, ...]) -> list[dict[str, Any]]:
    """Return rows as JSON for programs."""
    found: list[dict[str, Any]] = msgspec.to_builtins(rows)
    return found


def _masked(arguments: dict[str, Json], restored: tuple[tuple[str, str, str], ...]) -> dict[str, Json]:
    hidden = Hidden()
    for _, token, value in restored:
        hidden.add(value, token)
    hidden.ready()
    found: dict[str, Json] = hidden.masked(deepcopy(arguments))
    return found


def without_bound(arguments: JsonObject, bound: tuple[str, ...]) -> dict[str, Json]:
    """Return the arguments without those that the gateway sets, which are named by dotted paths."""
    found = dict(arguments)
    for path in bound:
        found = _without(found, path.split("."))
    return found


def _without(arguments: dict[str, Json], path: list[str]) -> dict[str, Json]:
    name, *inner = path
    below = arguments.get(name)
    if not inner:
        return {key: item for key, item in arguments.items() if key != name}
    return {**arguments, name: _without(below, inner)} if isinstance(below, dict) else arguments


def _schema(known: Invocation, compiled_policy: CompiledPolicy) -> JsonObject | None:
    tool = compiled_policy.tool(known.tool)
    return None if tool is None else tool.input_schema


def _digests(call: Call, compiled_policy: CompiledPolicy, sends: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digest of the recorded arguments, and that of the request, keyed if the request contains sensitive values."""
    concealed = compiled_policy.concealing.arguments(call)
    return {"arguments": digest(concealed), "request": compiled_policy.concealing.request(call, encodable(sends))}


async def _request(call: Call, compiled_policy: CompiledPolicy) -> dict[str, Any]:
    """Return `request`: the request that the call would send now, secrets masked, like a dry run; or `refusal` if it would not be sent.

    Sends, counts and records nothing.
    """
    result = await compiled_policy.would_send(call, CallContext())
    match result:
        case Success(data=data):
            return {"request": data}
        case Failed(error=error) | Refused(error=error) | Cancelled(error=error) | Pending(error=error):
            return {"refusal": {"code": error.code, "message": error.message}}
        case _:
            assert_never(result)
