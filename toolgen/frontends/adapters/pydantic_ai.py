"""Tools of a gateway as a toolset of pydantic-ai: `Agent(model, toolsets=[GatewayToolset(gateway, "bot")])`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic_ai import (
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.frontends.adapters.calls import (
    AdapterCaller,
    MediaPart,
    Party,
    media_in,
    metadata_of,
    schema_of,
    text_of,
    waits_for_person,
    whole_data,
)
from toolgen.gateway.protocol import AgentGateway
from toolgen.model.result import Envelope, Error
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT

__all__ = ["GatewayToolset"]

Choice: TypeAlias = Party | Callable[[RunContext[AgentDepsT]], Party]
Session: TypeAlias = str | Callable[[RunContext[AgentDepsT]], str]
_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
# Errors that the model can correct by calling again with other arguments. All others are reported once.
_CORRECTABLE = frozenset({"validation", "unknown_tool", "sql_refused", "sql_failed", "response_too_large"})


class GatewayToolset(AbstractToolset[AgentDepsT]):
    """Toolset of one principal, under the policy in force at each step of a run.

    `principal` is an id, a principal, or a function that finds it in the run's context, for agents that serve many users. `session` names
    the conversation whose turns the gateway counts, in the same ways: `lambda ctx: ctx.run_id` for each run its own.

    A call that waits for a person raises `ApprovalRequired`, so that the run ends with `DeferredToolRequests`; it waits at
    the gateway, and only there an answer counts (`decide`, the console, REST or the command line). Resumed with the requests' `metadata`,
    the run gets the outcome of the call, for which it waits up to `wait_s` seconds. A call that waits for the user's device raises
    `CallDeferred`; `answers` converts the answer of the device into the data with which the run is resumed.
    """

    def __init__(
        self,
        gateway: AgentGateway,
        principal: Choice[AgentDepsT],
        *,
        id: str | None = "toolgen",  # noqa: A002 - pydantic-ai's word
        session: Session[AgentDepsT] = "",
        max_retries: int = 2,
        wait_s: float = 30.0,
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._id = id
        self._session = session
        self._max_retries = max_retries
        self._wait_s = wait_s
        self._shown: tuple[tuple[Tool, ...], dict[str, ToolsetTool[AgentDepsT]]] | None = None

    @property
    def id(self) -> str | None:
        """Identifier that distinguishes this toolset from others of the same agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the principal's tools, without the one that reads results of calls: the framework resumes waiting calls.

        Raises `ConfigError` if the policy does not have the principal.
        """
        offered = self._caller(ctx).offered()
        if self._shown is None or self._shown[0] is not offered:
            self._shown = (offered, {tool.name: self._tool(tool) for tool in offered if tool.name != GET_CALL_RESULT})
        return self._shown[1]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn[Any]:
        """Call a tool through the gateway. Raises `ApprovalRequired` and `CallDeferred` if the call waits, `ModelRetry` if other arguments
        can succeed, `ToolFailed` if they cannot."""
        caller = self._caller(ctx)
        told = _resumed(ctx)
        if told is not None and (told.get("tool"), told.get("arguments")) == (name, tool_args):
            envelope = await caller.standing(name, told["call_id"], self._wait_s)
        else:
            if told is not None:  # a person edited the arguments: another call, which passes the policy like any other
                await caller.withdraw(told["call_id"])
            envelope = await caller.call(name, tool_args, connection=ctx.conversation_id or "")
        if envelope.status == "pending":
            told = _told(envelope, name, tool_args)
            raise ApprovalRequired(told) if waits_for_person(envelope) else CallDeferred(told)
        ended = _ended(envelope, tool.tool_def.metadata or {})
        if isinstance(ended, ToolReturn):
            return ended
        raise ended

    async def decide(
        self, requests: DeferredToolRequests, answers: Mapping[str, bool], *, by: str, note: str = ""
    ) -> DeferredToolResults:
        """Send one person's answers (by tool call id) to the gateway, and return the data with which the run is resumed.

        `by` is a principal with a role of `approvals.approvers`; who it is, your application has made sure of. Raises `ToolgenError` for an
        answer that did not count, `KeyError` for one to no call of these requests.
        """
        approver = self._gateway.callers.named(by)
        for tool_call_id, approve in answers.items():
            call_id = str(requests.metadata[tool_call_id]["call_id"])
            done = await self._gateway.tool_calls.approvals.decide(
                call_id, approve=approve, note=note, principal=approver
            )
            if isinstance(done, Error):
                raise ToolgenError(f"{call_id}: {done.message}", suggestion=done.suggestion)
        # A denied call is resumed too: the gateway reports the denial with the note, and nothing is sent.
        return requests.build_results(approvals=dict.fromkeys(answers, True), metadata=requests.metadata)

    async def answers(
        self, requests: DeferredToolRequests, *, principal: Party | None = None, wait_s: float | None = None
    ) -> DeferredToolResults:
        """Return the results to resume a run with after devices answered (`requests.calls`). Waits up to `wait_s` seconds for each.

        `principal` is the caller, needed if the toolset reads it from the run's context. Requests without an answer are left out of the
        results (`requests.remaining`). Raises `ConfigError` if the caller is not known.
        """
        whose = self._principal if principal is None else principal
        if callable(whose):
            raise ConfigError("whose calls these are is found in a run's context: say principal=")
        caller = AdapterCaller(gateway=self._gateway, party=whose, client="pydantic-ai")
        wait = self._wait_s if wait_s is None else wait_s
        told = {call.tool_call_id: requests.metadata[call.tool_call_id] for call in requests.calls}
        found = await asyncio.gather(*(caller.standing(one["tool"], one["call_id"], wait) for one in told.values()))
        ended: dict[str, Any] = {
            tool_call_id: _ended(envelope, {})
            for tool_call_id, envelope in zip(told, found, strict=True)
            if envelope.status != "pending"
        }
        return requests.build_results(calls=ended, metadata=requests.metadata)

    def _caller(self, ctx: RunContext[AgentDepsT]) -> AdapterCaller:
        party = self._principal(ctx) if callable(self._principal) else self._principal
        session = self._session(ctx) if callable(self._session) else self._session
        return AdapterCaller(gateway=self._gateway, party=party, client="pydantic-ai", session=session)

    def _tool(self, tool: Tool) -> ToolsetTool[AgentDepsT]:
        shown = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=schema_of(tool),
            strict=False,  # strict forms require every argument; the gateway validates by the schema in any case
            metadata=metadata_of(tool),
        )
        return ToolsetTool(toolset=self, tool_def=shown, max_retries=self._max_retries, args_validator=_ARGUMENTS)


def _ended(envelope: Envelope, metadata: Mapping[str, Any]) -> ToolReturn[Any] | ModelRetry | ToolFailed:
    """Return the outcome of a call in the form of the framework."""
    if envelope.status == "ok":
        return ToolReturn(_shown(envelope), metadata=envelope.to_dict())
    return ModelRetry(text_of(envelope)) if _correctable(envelope, metadata) else ToolFailed(text_of(envelope))


def _shown(envelope: Envelope) -> Any:
    """Return the result for the model: the data, or texts and files in order if the result has images or recordings."""
    parts = media_in(envelope)
    if not parts:
        return whole_data(envelope)
    return [
        BinaryContent(base64.b64decode(part.base64), media_type=part.media_type)
        if isinstance(part, MediaPart)
        else part
        for part in parts
    ]


def _told(envelope: Envelope, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the application can show the person who is asked about a waiting call."""
    error = envelope.error
    return {
        "call_id": envelope.call_id,
        "tool": name,
        "arguments": dict(arguments),
        "message": error.message if error else "",
        "rule": error.rule if error else "",
    }


def _resumed(ctx: RunContext[Any]) -> Mapping[str, Any] | None:
    """Return the metadata the application got for the call that this one resumes; None for a new call."""
    told = ctx.tool_call_metadata if ctx.tool_call_approved else None
    return told if isinstance(told, Mapping) and isinstance(told.get("call_id"), str) else None


def _correctable(envelope: Envelope, metadata: Mapping[str, Any]) -> bool:
    """Return True if the model should call again. A call that may have taken effect is repeated only if the tool is idempotent."""
    code, rule = (envelope.error.code, envelope.error.rule) if envelope.error else ("", "")
    return code in _CORRECTABLE or rule == "retry" or (code == "upstream_error" and metadata.get("idempotent") is True)
