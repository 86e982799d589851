"""MCP's tools/call: from its parameters to a call, and through the questions that a call may have for its caller."""

from __future__ import annotations

import math
from asyncio import QueueFull
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from toolgen.core.errors import CanonicalError, StateError
from toolgen.frontends.mcp.account_links import ACCOUNT, AccountLinks, AccountNeeded, choosing_account, without_pages
from toolgen.frontends.mcp.approval_form import APPROVAL, form_of, said
from toolgen.frontends.mcp.approved_calls import ApprovedCalls, WaitingClient
from toolgen.frontends.mcp.bridged_calls import BridgedCalls, Wanted
from toolgen.frontends.mcp.client_channel import (
    BridgedChannel,
    PendingReplies,
    StatefulChannel,
    StatelessChannel,
    TaskChannel,
    capabilities_of,
)
from toolgen.frontends.mcp.conversing_tools import incapable, may_request, speaks
from toolgen.frontends.mcp.log_levels import LogLevels
from toolgen.frontends.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    META_ACCOUNT,
    META_CAPABILITIES,
    META_CLIENT,
    META_ENVELOPE,
    META_IDEMPOTENCY,
    META_PROGRESS,
    META_VERSION,
    Caller,
    ProtocolStyle,
    RpcFault,
    client_label,
)
from toolgen.frontends.mcp.request_state import MAX_STATE_LENGTH, RequestState, States
from toolgen.frontends.mcp.results import Rendering, asked_envelope, tool_result
from toolgen.frontends.mcp.tasks import TaskPlan, Tasks
from toolgen.gateway.calls.json_body import encode, identifier
from toolgen.gateway.calls.tool_plan import ToolPlan
from toolgen.gateway.catalog.tool_lists import Listings, ToolListing
from toolgen.gateway.protocol import Facade
from toolgen.model.apps import APPS
from toolgen.model.call import Principal, parties
from toolgen.model.result import Envelope
from toolgen.model.tool import Effect, Tool
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.state.invocations import TaskWish

__all__ = ["ToolCalls"]

_MAX_NAME_LENGTH = 128
_MAX_ANSWERS = 32
_MAX_ORDINARY_TOOLS = 20_000
_ORDINARY_META = frozenset({META_VERSION, META_CLIENT, META_CAPABILITIES})


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one tools/call. `tool` is None for one that its caller may not call, and `state` for a first round."""

    name: str
    listing: ToolListing
    tool: Tool | None
    arguments: Mapping[str, Any]
    session: str
    client: str
    key: str
    answers: Mapping[str, Any]
    state: RequestState | None
    capabilities: frozenset[str]
    token: int | str | None
    meta: Mapping[str, Any]
    protocol_style: ProtocolStyle
    envelope: bool = False
    task: TaskPlan | None = None


class _OrdinaryTool(msgspec.Struct, frozen=True, kw_only=True):
    """Tool with a plan. `rendering` is that of the results of ordinary requests; None if calls of it may wait, ask or become tasks."""

    plan: ToolPlan
    rendering: Rendering | None = None


class ToolCalls:
    """Calls of one gateway's tools. `states` seals the state of a stateless call between two rounds; calls may become `tasks`."""

    def __init__(
        self,
        gateway: Facade,
        listings: Listings,
        states: States,
        mailbox: PendingReplies,
        tasks: Tasks,
        levels: LogLevels,
    ) -> None:
        self._levels = levels
        self._gateway = gateway
        self._tasks = tasks
        self._listings = listings
        self._states = states
        self._mailbox = mailbox
        self._asking_about: set[str] = set()
        self._follower = BridgedCalls(gateway, states, tasks)
        self._approvals = ApprovedCalls(gateway, tasks, self._follower)
        self._accounts = AccountLinks(gateway.accounts, gateway.tool_calls.approvals.calls, mailbox, tasks.pages)
        self._ordinary_tools: dict[tuple[str, str, ProtocolStyle], _OrdinaryTool] = {}

    def converses(self, name: str, meta: Mapping[str, Any], caller: Caller) -> bool:
        """Return True if the call may send messages before its answer: a conversing function, an approval by elicitation, or progress that
        the client asked for."""
        if caller.capabilities and "elicitation" in caller.capabilities and self._gateway.tool_calls.elicits:
            return True
        tool = self._listings.of(caller.principal).tool(name)
        if tool is not None and self._accounts.may_ask(tool, caller.capabilities):
            return True
        if tool is None or not (speaks(tool) or tool.reports_progress):
            return False
        if META_PROGRESS in meta or (bool(caller.capabilities) and (speaks(tool) or bool(tool.caller_requests))):
            return True
        logs = speaks(tool) or tool.is_bridged
        return logs and self._levels.of((parties(caller.principal), caller.connection), meta) is not None

    def _logged(self, tool: Tool, meta: Mapping[str, Any], caller: Caller) -> bool:
        """Return True if the caller wants log messages, and the server of the tool may send some."""
        if not tool.is_bridged:
            return False
        return self._levels.of((parties(caller.principal), caller.connection), meta) is not None

    async def answer(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """Return the result of one tools/call. Raises `StateError` and `AuditError` if a question of the call cannot be asked or
        answered now."""
        if META_ACCOUNT in meta:
            chosen, rest = choosing_account(caller, meta)
            return chosen if isinstance(chosen, RpcFault) else await self.answer(params, rest, protocol_style, chosen)
        ordinary = self._ordinary(params, meta, protocol_style, caller)
        if ordinary is not None:
            return await self._at_once(ordinary, params, meta, protocol_style, caller)
        request = self._request(params, meta, protocol_style, caller)
        if isinstance(request, RpcFault):
            return request
        tool = request.tool
        converses = tool is not None and speaks(tool)
        after = self._gateway.tool_calls.pending_after(
            caller.principal, request.name, request.arguments, caller.session or caller.connection
        )
        plan = (
            None
            if request.name == GET_CALL_RESULT
            else self._tasks.plan(params, meta, tool, protocol_style, caller, after)
        )
        if isinstance(plan, RpcFault):
            return plan
        if tool is not None and (fault := incapable(tool, request.capabilities)) is not None:
            return fault
        if plan is not None:
            request = msgspec.structs.replace(request, task=plan)
        if request.state is not None and request.state.call_id:
            state = request.state
            return await (
                self._answered(request, state, caller, after) if state.asks else self._approved(request, state, caller)
            )
        if request.capabilities and tool is not None and may_request(tool, request.listing):
            return await self._bridged(request, protocol_style, caller, after)
        caller_connection = caller.caller_connection
        if caller_connection.local and "roots" in request.capabilities:
            asked = self._line(request, protocol_style, caller)
            caller_connection.roots = asked.roots if isinstance(asked, StatefulChannel) else None
        caller_connection.elicits = "elicitation" in request.capabilities and self._gateway.tool_calls.elicits
        told = (
            tool is not None
            and tool.reports_progress
            and (request.token is not None or self._logged(tool, meta, caller))
        )
        line = self._line(request, protocol_style, caller) if converses or told else None
        caller_connection.line = line
        if plan is not None and plan.always:
            caller_connection.task = TaskWish(keep_s=plan.keep_s, token=request.token)
        if line is not None and (plan is not None or (after is not None and after < math.inf)):
            first = None if plan is not None and plan.at_once else line
            # A client without tasks cannot answer a question after its request has ended.
            questions = None if plan is None else self._tasks.questions
            caller_connection.line = TaskChannel(caller_connection, questions, request.capabilities, first)
        making = self._gateway.tool_calls.call(
            request.name,
            request.arguments,
            principal=caller.principal,
            session=request.session,
            connection=caller.connection,
            client=request.client,
            idempotency_key=request.key or ("" if request.state is None else _once(request.state, tool)),
            caller_connection=caller_connection,
        )
        envelope = await self._made(making, request, caller, after)
        code = envelope.error.code if envelope.error is not None else ""
        if code == "input_required" and isinstance(line, StatelessChannel) and line.wanted:
            return self._asking(request, caller.principal, line.wanted)
        reads = request.name == GET_CALL_RESULT  # the state of a call: no new question is asked
        if (
            code == "approval_required"
            and caller_connection.elicits
            and not reads
            and (plan is None or not plan.at_once)
        ):
            return await self._elicit(request, envelope, protocol_style, caller)
        if code == "authorization_required" and plan is None:
            return await self._linked(envelope, request, params, meta, caller)
        return await self._result(envelope, request, caller)

    async def _linked(
        self, envelope: Envelope, request: _Request, params: Mapping[str, Any], meta: Mapping[str, Any], caller: Caller
    ) -> dict[str, object] | RpcFault:
        """Ask the person to link an account. The call goes on by itself once that is done; one that is not kept is made again."""
        result = await self._result(envelope, request, caller)
        needed = await self._accounts.needed(envelope, request.tool, request.capabilities, caller, result)
        if not isinstance(needed, AccountNeeded):
            return result
        settled = await self._accounts.settled(needed, params.get("inputResponses"), request.protocol_style, caller)
        if isinstance(settled, Wanted):
            return self._asking(request, caller.principal, settled.questions, call_id=needed.call_id)
        if settled is not None:
            return settled
        if needed.call_id:
            ended = await self._accounts.outcome(needed.call_id, {"action": "accept"}, caller)
            return result if ended is None else await self._result(ended, request, caller)
        return await self.answer(params, *without_pages(meta, request.protocol_style, caller))

    async def _bridged(
        self, request: _Request, protocol_style: ProtocolStyle, caller: Caller, after: float | None
    ) -> dict[str, object] | RpcFault:
        """Make a call whose MCP server may request something of the caller. A question has the call stored; its caller still gets the
        outcome."""
        calls, plan = self._gateway.tool_calls, request.task
        with caller.caller_connection.several(1) as (connection,):
            inner = msgspec.structs.replace(caller, caller_connection=connection)
            connection.elicits = "elicitation" in request.capabilities and calls.elicits
            connection.returns = plan is not None
            connection.task = TaskWish(keep_s=plan.keep_s, token=request.token) if plan and plan.always else None
            first = self._line(request, protocol_style, inner)
            returns = plan is not None
            line = BridgedChannel(connection, self._tasks.questions, request.capabilities, first, returns=returns)
            connection.line = line
            making = calls.call(
                request.name,
                request.arguments,
                principal=caller.principal,
                session=request.session,
                connection=caller.connection,
                client=request.client,
                idempotency_key=request.key,
                caller_connection=connection,
            )
            background = calls.approvals.background
            wait = after if plan is None else plan.wait
            if plan is not None and plan.at_once:
                envelope = await background.call(
                    request.name, making, caller=caller.principal, wait=0.0, caller_connection=connection
                )
            else:
                envelope = await background.left_after(
                    making, wait=math.inf if wait is None else wait, caller_connection=connection, leave=line.asked
                )
            code = envelope.error.code if envelope.error is not None else ""
            if code == "approval_required" and connection.elicits and not (plan is not None and plan.at_once):
                return await self._elicit(request, envelope, protocol_style, inner)
            if plan is None and line.asked.is_set() and line.kept and envelope.status == "pending":
                return await self._followed(request, envelope.call_id, caller, after)
            return await self._result(envelope, request, inner)

    async def _answered(
        self, request: _Request, state: RequestState, caller: Caller, after: float | None
    ) -> dict[str, object] | RpcFault:
        """Accept the answers of a client of 2026-07-28 to a server's requests, and continue the call."""
        known = await self._gateway.tool_calls.approvals.calls.own(state.call_id, caller.principal)
        if known is None:
            return _wrong("the call that params.requestState is about is not kept any more")
        fault = await self._tasks.take_answers(known, request.answers, caller.principal)
        return fault or await self._followed(request, state.call_id, caller, after)

    async def _followed(
        self, request: _Request, call_id: str, caller: Caller, after: float | None
    ) -> dict[str, object] | RpcFault:
        found = await self._follower.follow(call_id, request.capabilities, request.protocol_style, caller, after)
        match found:
            case Wanted():
                return self._asking(request, caller.principal, found.questions, call_id=call_id, asks=True)
            case RpcFault():
                return found
            case _:
                return await self._result(found, request, caller)

    def _ordinary(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> _OrdinaryTool | None:
        """Return the tool of a request with only a name and arguments, if its call needs neither questions nor tasks."""
        name = params.get("name")
        if type(name) is not str or type(params.get("arguments")) is not dict or caller.key:
            return None
        if protocol_style is ProtocolStyle.STATEFUL:
            if meta or len(params) != 2:
                return None
        elif (
            len(params) != 3
            or "_meta" not in params
            or not _ORDINARY_META.issuperset(meta)
            or meta.get(META_CAPABILITIES)
        ):
            return None
        plan = self._gateway.tool_calls.plan(caller.principal, name)
        if plan is None:
            return None
        key = (name, caller.principal.id, protocol_style)
        found = self._ordinary_tools.get(key)
        if found is None or found.plan is not plan:
            found = self._ordinary_tool(plan, protocol_style, caller)
            if len(self._ordinary_tools) >= _MAX_ORDINARY_TOOLS:
                self._ordinary_tools.clear()
            self._ordinary_tools[key] = found
        if found.rendering is None or (
            caller.capabilities and (caller.caller_connection.local or APPS in caller.capabilities)
        ):
            return None
        if self._levels.asked and self._logged(plan.tool, meta, caller):
            return None
        return found

    def _ordinary_tool(self, plan: ToolPlan, protocol_style: ProtocolStyle, caller: Caller) -> _OrdinaryTool:
        listing, calls = self._listings.of(caller.principal), self._gateway.tool_calls
        name, listed = plan.tool.name, listing.tool(plan.tool.name)
        waits = calls.pending_after(caller.principal, name, {}) is not None
        if (
            listed is None
            or listed.name != name
            or waits
            or speaks(listed)
            or listed.required_capabilities
            or listed.caller_requests
        ):
            return _OrdinaryTool(plan=plan)
        links = calls.files.resource_links
        return _OrdinaryTool(
            plan=plan, rendering=Rendering(listing=listing, protocol_style=protocol_style, links=links)
        )

    async def _at_once(
        self,
        ordinary: _OrdinaryTool,
        params: Mapping[str, Any],
        meta: Mapping[str, Any],
        protocol_style: ProtocolStyle,
        caller: Caller,
    ) -> dict[str, object] | RpcFault:
        """Make the call of an ordinary request and return its result."""
        caller_connection, calls = caller.caller_connection, self._gateway.tool_calls
        if caller.capabilities:
            caller_connection.elicits = "elicitation" in caller.capabilities and calls.elicits
        envelope = await calls.call(
            params["name"],
            params["arguments"],
            principal=caller.principal,
            session=caller.session,
            connection=caller.connection,
            client=(client_label(meta[META_CLIENT]) if META_CLIENT in meta else "") or caller.client,
            caller_connection=caller_connection,
        )
        if envelope.error is None and ordinary.rendering is not None:
            return tool_result(envelope, params["name"], ordinary.rendering)
        request = self._request(params, meta, protocol_style, caller)
        if isinstance(request, RpcFault):
            return request
        if envelope.error is not None and envelope.error.code == "approval_required" and caller_connection.elicits:
            return await self._elicit(request, envelope, protocol_style, caller)
        if envelope.error is not None and envelope.error.code == "authorization_required":
            return await self._linked(envelope, request, params, meta, caller)
        return await self._result(envelope, request, caller)

    async def _made(
        self, making: Coroutine[Any, Any, Envelope], request: _Request, caller: Caller, after: float | None
    ) -> Envelope:
        """Outcome of a call, or that it goes on by now, for clients of tasks as one: after so many seconds where the request says
        nothing."""
        plan, background = request.task, self._gateway.tool_calls.approvals.background
        wait = after if plan is None else plan.wait
        if wait is None:
            return await making
        if plan is not None and plan.at_once:
            return await background.call(
                request.name, making, caller=caller.principal, wait=0.0, caller_connection=caller.caller_connection
            )
        return await background.left_after(making, wait=wait, caller_connection=caller.caller_connection)

    async def agreed(self, question: str, result: Mapping[str, Any] | None, principal: Principal) -> bool:
        """Accept the answer of a stateful client about a call that waits for approval; False if that was not the question.

        The sealed id of the question identifies the call, so any worker can accept it. Raises `AuditError` and `StateError`.
        """
        if len(question) < 64:
            return False
        state = self._states.open(question, principal, "", {})
        if state is not None and not await self._tasks.take(state, result, principal):
            await said(self._gateway.tool_calls.approvals, state.call_id, result, principal)
        return True

    def _request(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> _Request | RpcFault:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_LENGTH:
            return _wrong(f"params.name must be a string of 1 to {_MAX_NAME_LENGTH} characters")
        listing = self._listings.of(caller.principal)
        if (tool := listing.tool(name)) is not None:
            name = tool.name  # a meta tool by its former name
        capabilities = (
            capabilities_of(meta.get(META_CAPABILITIES))
            if protocol_style is ProtocolStyle.STATELESS
            else caller.capabilities
        )
        if tool is None and APPS in capabilities and (meant := listing.called_by_app(name)):
            name, tool = meant, listing.tool(meant)
        if arguments is not None and not isinstance(arguments, dict):
            return _wrong("params.arguments must be an object")
        key = meta.get(META_IDEMPOTENCY, "")
        if not isinstance(key, str) or (META_IDEMPOTENCY in meta and not identifier(key)):
            return _wrong(f"params._meta.{META_IDEMPOTENCY} must be 1 to 128 visible ASCII characters")
        token = meta.get(META_PROGRESS)
        if isinstance(token, bool) or not isinstance(token, int | str | None):
            return _wrong(f"params._meta.{META_PROGRESS} must be a string or an integer")
        envelope = META_ENVELOPE in meta and asked_envelope(meta)
        if isinstance(envelope, RpcFault):
            return envelope
        state: RequestState | None = None
        answers: Mapping[str, Any] = {}
        if protocol_style is ProtocolStyle.STATELESS and ("requestState" in params or "inputResponses" in params):
            going_on = self._going_on(params, caller.principal, name, tool, arguments or {})
            if isinstance(going_on, RpcFault):
                return going_on
            state, answers = going_on
        return _Request(
            name=name,
            listing=listing,
            tool=tool,
            arguments=arguments or {},
            session=caller.session,
            client=(client_label(meta[META_CLIENT]) if META_CLIENT in meta else "") or caller.client,
            key=key or caller.key,
            answers=answers,
            state=state,
            capabilities=capabilities,
            token=token,
            meta=meta,
            protocol_style=protocol_style,
            envelope=envelope,
        )

    def _going_on(
        self,
        params: Mapping[str, Any],
        principal: Principal,
        name: str,
        tool: Tool | None,
        arguments: Mapping[str, Any],
    ) -> tuple[RequestState | None, dict[str, Any]] | RpcFault:
        """Return the former round, and all answers given so far. Without a valid state, only reads may accept an answer."""
        given = params.get("inputResponses", {})
        if not isinstance(given, dict) or len(given) > _MAX_ANSWERS:
            return _wrong("params.inputResponses must be an object")
        if any(not isinstance(answer, dict) for answer in given.values()):
            return _wrong("params.inputResponses must hold the results of the requests it answers, each an object")
        if "requestState" not in params:
            return None, given if tool is not None and tool.effect is Effect.READ else {}
        text = params["requestState"]
        state = (
            self._states.open(text, principal, name, arguments)
            if isinstance(text, str) and len(text) <= MAX_STATE_LENGTH
            else None
        )
        if state is None:
            return _wrong(
                "params.requestState is none that this gateway gave for this call, or its time is over; call again without it"
            )
        return state, {**state.answers, **given}

    def _line(
        self, request: _Request, protocol_style: ProtocolStyle, caller: Caller
    ) -> StatefulChannel | StatelessChannel:
        level = self._levels.of((parties(caller.principal), caller.connection), request.meta)
        if protocol_style is ProtocolStyle.STATEFUL:
            return StatefulChannel(
                caller_connection=caller.caller_connection,
                capabilities=request.capabilities if caller.send is not None else frozenset(),
                token=request.token,
                send=caller.send,
                mailbox=self._mailbox,
                parties=parties(caller.principal),
                level=level,
            )
        return StatelessChannel(
            caller_connection=caller.caller_connection,
            capabilities=request.capabilities,
            token=request.token,
            send=caller.send,
            answers=request.answers,
            level=level,
        )

    async def _elicit(
        self, request: _Request, envelope: Envelope, protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """Asks the person at the caller's client about a call that waits."""
        known = await self._gateway.tool_calls.approvals.calls.own(envelope.call_id, caller.principal)
        form = None if known is None else form_of(known, self._gateway.tool_calls.approvals)
        if form is None:
            return await self._result(envelope, request, caller)
        if protocol_style is ProtocolStyle.STATELESS:
            asked = {APPROVAL: {"method": "elicitation/create", "params": form}}
            return self._asking(request, caller.principal, asked, call_id=envelope.call_id)
        if caller.send is None:
            return await self._result(envelope, request, caller)
        if envelope.call_id in self._asking_about:  # an equal call, about which a question is open already
            ended = await self._approvals.ended(envelope, self._waiting(request), caller)
            return await self._answer_of(ended, request, envelope.call_id, caller)
        try:
            question = self._states.close(caller.principal, "", {}, answers={}, call_id=envelope.call_id)
            caller.send(encode({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": form}))
        except (StateError, QueueFull):
            return await self._result(envelope, request, caller)
        self._asking_about.add(envelope.call_id)
        try:
            ended = await self._approvals.ended(envelope, self._waiting(request), caller)
        finally:
            self._asking_about.discard(envelope.call_id)
        return await self._answer_of(ended, request, envelope.call_id, caller)

    async def _approved(self, request: _Request, state: RequestState, caller: Caller) -> dict[str, object] | RpcFault:
        """Continue a call that waited: the person's answer counts once, and a repetition gets the outcome of the call."""
        approvals = self._gateway.tool_calls.approvals
        known = await approvals.calls.own(state.call_id, caller.principal)
        if known is None:
            return _wrong("the call that params.requestState is about is not kept any more")
        if (said_of_account := request.answers.get(ACCOUNT)) is not None:
            linked = await self._accounts.outcome(state.call_id, said_of_account, caller)
            return await self._result(linked or approvals.calls.envelope(known), request, caller)
        if known.status == "pending":
            answer = request.answers.get(APPROVAL)
            form = form_of(known, approvals)
            if answer is None and form is not None:
                asked = {APPROVAL: {"method": "elicitation/create", "params": form}}
                return self._asking(request, caller.principal, asked, call_id=state.call_id)
            if answer is not None:
                await said(approvals, state.call_id, answer, caller.principal)
        ended = await self._approvals.ended(approvals.calls.envelope(known), self._waiting(request), caller)
        return await self._answer_of(ended, request, state.call_id, caller)

    def _waiting(self, request: _Request) -> WaitingClient:
        return WaitingClient(
            name=request.name,
            arguments=request.arguments,
            capabilities=request.capabilities,
            style=request.protocol_style,
            longest=None if request.task is None else request.task.wait,
        )

    async def _answer_of(
        self, found: Envelope | Wanted, request: _Request, call_id: str, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """The result of a call that waited, or the one that asks what its server wants to know."""
        if isinstance(found, Wanted):
            return self._asking(request, caller.principal, found.questions, call_id=call_id, asks=True)
        return await self._result(found, request, caller)

    def _asking(
        self,
        request: _Request,
        principal: Principal,
        wanted: Mapping[str, Any],
        *,
        call_id: str = "",
        asks: bool = False,
    ) -> dict[str, object] | RpcFault:
        answers = {} if asks else {key: answer for key, answer in request.answers.items() if key not in wanted}
        try:
            state = self._states.close(
                principal, request.name, request.arguments, answers=answers, call_id=call_id, asks=asks
            )
        except CanonicalError:
            return RpcFault(code=INTERNAL_ERROR, message="what this call needs to know cannot be asked for now")
        if len(state) > MAX_STATE_LENGTH:
            return _wrong(
                f"the answers to this call's questions take {len(state)} characters, and {MAX_STATE_LENGTH} are the most"
            )
        return {"resultType": "input_required", "inputRequests": dict(wanted), "requestState": state}

    async def _result(self, envelope: Envelope, request: _Request, caller: Caller) -> dict[str, object] | RpcFault:
        """Return the task if the call became one, and otherwise the result."""
        if request.task is not None:
            created = await self._tasks.created(envelope, request.name, request.task, request.protocol_style, caller)
            if created is not None:
                return created
        rendering = Rendering(
            listing=request.listing,
            protocol_style=request.protocol_style,
            envelope=request.envelope,
            links=self._gateway.tool_calls.files.resource_links,
            app=APPS in request.capabilities and request.tool is not None and request.tool.app is not None,
        )
        if APPS in request.capabilities and self._gateway.context.servers.settings(caller.endpoint).apps:
            rendering = msgspec.structs.replace(rendering, envelope=True)
        return tool_result(envelope, request.name, rendering)


def _once(state: RequestState, tool: Tool | None) -> str:
    """Return the idempotency key that makes a round of a changing call run once, however often its state is sent (2026-07-28, mrtr)."""
    if tool is None or tool.effect is Effect.READ:
        return ""
    return f"round-{state.nonce}"


def _wrong(message: str) -> RpcFault:
    return RpcFault(code=INVALID_PARAMS, message=message)
