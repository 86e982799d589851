"""Terms of an approval: the call as it was requested, or with other arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.gateway.approvals.view import Channel
from toolgen.gateway.calls.file_uploads import sends_files
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call, as_asked
from toolgen.model.file_arguments import file_places
from toolgen.model.result import Error, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.input_validation import no_json
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.approve import STALE, approval_digest, asking_rules, needs_of
from toolgen.state.invocations import Invocation, Requirement, with_approval

__all__ = ["AS_ASKED", "MAX_ARGUMENTS_SIZE", "DecisionOptions", "GrantRequest", "edited", "too_late"]

MAX_ARGUMENTS_SIZE = 65_536


class GrantRequest(Struct, frozen=True, kw_only=True):
    """Later calls that an answer covers: for so many seconds, and so many calls (None: the bounds of the policy), only in this session,
    with any arguments."""

    seconds: float | None = None
    calls: int | None = None
    session: bool = False
    any_arguments: bool = False


class DecisionOptions(Struct, frozen=True, kw_only=True):
    """Options of an answer. `arguments` replace the requested ones. `digest` is that of the call that the approver saw, `shown` that of
    the request, each "" if it is not stated. With `remember` the answer counts for later calls too. `channel` is where it was given."""

    arguments: JsonObject | None = None
    digest: str = ""
    remember: GrantRequest | None = None
    shown: str = ""
    channel: Channel = "python"


AS_ASKED = DecisionOptions()


async def edited(
    known: Invocation, arguments: JsonObject, compiled_policy: CompiledPolicy, *, by: str
) -> Invocation | Error:
    """Return the call with other arguments, as its caller could have made it: validated, and judged by the policy with the caller's own
    rights."""
    fault = no_json(arguments) or _too_long(arguments)
    if fault:
        return Error(code="validation", message=fault)
    given = _without_bound(known, arguments)
    if isinstance(given, Error):
        return given
    asked = of_party(known.principal)
    found = compiled_policy.identity.current(asked, known.asked)
    if found is None:
        return Error(code="expired", message=STALE)
    principal = as_asked(found, asked)
    call = compiled_policy.call(known.tool, given, principal, known.session, known.client, known.parent)
    if call.dropped:
        return Error(code="validation", message=f"{known.tool} has no argument '{min(call.dropped)}'")
    if sends_files(call.tool) and not _of_the_same_files(call, known.arguments):
        return Error(
            code="forbidden",
            message="a file of the arguments was not in the original call",
            suggestion="keep the files as they are, or remove them",
        )
    call = msgspec.structs.replace(
        call, restored=known.restored, id=known.id, idempotency_key=known.idempotency_key, approval=""
    )
    call_context = CallContext()
    result = await compiled_policy.would_send(call, call_context)
    if not isinstance(result, Success):
        error = result.error
        return Error(
            code="validation" if error.code == "validation" else "forbidden",
            message=error.message,
            suggestion=error.suggestion,
        )
    return _kept(known, call_context.judged or call, call_context, compiled_policy, by)


def _kept(
    known: Invocation, call: Call, call_context: CallContext, compiled_policy: CompiledPolicy, by: str
) -> Invocation:
    approval = compiled_policy.policy.approval
    wanted = needs_of(call_context.consents, approval.roles, approval.quorum) if call_context.verdict == "ask" else ()
    changed = msgspec.structs.replace(
        known,
        arguments=dict(call.arguments),
        bound=call.bound,
        digest=approval_digest(call, compiled_policy.scope_hash(call.principal, call.tool)),
    )
    return with_approval(
        changed,
        sql=call_context.sql,
        needs=_strictest((*known.approval.needs, *wanted)),
        votes=(),
        original=known.arguments if known.approval.original is None else known.approval.original,
        edited_by=by,
        asked_by=_together(known.approval.asked_by, call_context)
        if call_context.verdict == "ask"
        else known.approval.asked_by,
    )


def _of_the_same_files(call: Call, before: JsonObject) -> bool:
    """Return True if each file was among those of the original call, compared by their known properties: other files were not inspected."""
    schema = call.tool.input_schema
    known = [_file(file) for _, file in file_places(schema, before)]
    return all(_file(file) in known for _, file in file_places(schema, call.arguments))


def _file(file: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in file.items() if name != "filename"}


def _together(before: Sequence[str], call_context: CallContext) -> tuple[str, ...]:
    return tuple(sorted({*before, *asking_rules(call_context)}))


def _strictest(needs: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Return the strictest requirements of the original call and of the edited one, by role."""
    found: dict[tuple[str, ...], Requirement] = {}
    for need in needs:
        known = found.get(need.roles)
        found[need.roles] = need if known is None or known.quorum < need.quorum else known
    return tuple(found.values())


def _too_long(arguments: JsonObject) -> str:
    size = len(encode(arguments))
    return (
        f"{size} bytes of arguments are too many (maximum: {MAX_ARGUMENTS_SIZE})" if size > MAX_ARGUMENTS_SIZE else ""
    )


def _without_bound(known: Invocation, arguments: JsonObject) -> JsonObject | Error:
    """Return the arguments without bound ones, which only the gateway sets: it sets them again."""
    given: dict[str, Any] = dict(arguments)
    for path in known.bound:
        *above, last = path.split(".")
        inner, was = given, _inner(known.arguments, above)
        for name in above:
            below = inner.get(name)
            if not isinstance(below, dict):
                break
            inner[name] = inner = dict(below)
        else:
            if last in inner and inner.pop(last) != (was or {}).get(last):
                return Error(code="forbidden", message=f"only the gateway sets '{path}' for this caller")
    return given


def _inner(value: Json, names: Sequence[str]) -> dict[str, Any] | None:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def too_late(known: Invocation) -> Error:
    """Return the refusal of a late answer."""
    over = known.status != "pending"
    message = (
        "this call does not wait for an answer any more" if over else "another person is answering for this call now"
    )
    return Error(code="conflict", message=message)
