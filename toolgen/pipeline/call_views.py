"""Views of callers, tools, calls and results for a project's checks: frozen, and without credentials."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from toolgen.model.call import Call, Principal
from toolgen.model.middleware import CallView, PrincipalView, ResultView, StepView, ToolView
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool

__all__ = ["call_view", "principal_view", "result_view", "step_of", "step_view", "tool_view"]


def principal_view(principal: Principal) -> PrincipalView:
    """Return a check's view of a caller."""
    user = principal.on_behalf_of
    return PrincipalView(
        id=principal.id,
        roles=principal.roles,
        attributes=_frozen(principal.attributes),
        on_behalf_of=None if user is None else principal_view(user),
    )


def tool_view(tool: Tool) -> ToolView:
    """Return a check's view of a tool."""
    return ToolView(name=tool.name, title=tool.title, source=tool.source, effect=str(tool.effect), digest=tool.digest)


def step_view(principal: Principal, session: str, labels: Sequence[str]) -> StepView:
    """Return a check's view of a step of an agent."""
    return StepView(principal=principal_view(principal), session=session, labels=tuple(labels))


def step_of(call: CallView) -> StepView:
    """The step that a call is made in."""
    return StepView(principal=call.principal, session=call.session, labels=call.labels)


def call_view(call: Call, tool: ToolView, arguments: JsonObject, labels: Sequence[object]) -> CallView:
    """Return a check's view of a call with these arguments. The view is a copy, so a check cannot change the call through it."""
    return CallView(
        call_id=call.id,
        tool=tool,
        arguments=_frozen(arguments),
        principal=principal_view(call.principal),
        session=call.session,
        labels=tuple(str(label) for label in labels),
        client=call.client,
        parent=call.parent,
    )


def result_view(result: Success | Failed) -> ResultView:
    """Return a check's view of a result. The view is a copy, so a check cannot change the answer without a record."""
    match result:
        case Success(data=data, truncated=truncated):
            return ResultView(status="ok", data=_copied(data), truncated=truncated)
        case Failed(error=error, data=data):
            return ResultView(
                status="error", data=_copied(data), code=error.code, message=error.message, suggestion=error.suggestion
            )


def _frozen(arguments: JsonObject) -> JsonObject:
    return MappingProxyType({name: _copied(item) for name, item in arguments.items()})


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
