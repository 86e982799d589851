"""MCP's tasks over the calls that are kept: basic/utilities/tasks of 2025-11-25, and the extension io.modelcontextprotocol/tasks.

A task is its caller's own call, whose id is the task's: REST sees it too, any worker answers, and it survives a restart.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from asyncio import QueueFull
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.frontends.mcp.approval_form import APPROVAL, form_of, said
from toolgen.frontends.mcp.client_channel import answers_question, capabilities_of
from toolgen.frontends.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_CAPABILITIES,
    META_ENVELOPE,
    META_RELATED_TASK,
    METHOD_NOT_FOUND,
    TASKS,
    Caller,
    ProtocolStyle,
    RpcFault,
    declares_tasks,
    missing_capability,
)
from toolgen.frontends.mcp.request_state import RequestState, States
from toolgen.frontends.mcp.results import Rendering, asked_envelope, tool_result
from toolgen.frontends.mcp.session_tasks import SessionTasks, TaskNotice
from toolgen.frontends.mcp.shown_pages import ShownPages
from toolgen.frontends.mcp.task_shapes import error_of, status_of, task_of
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.calls.answer_text import error_text
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.catalog.search_tools import AT_ONCE
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.gateway.operations.caller_questions import CallerQuestions
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal
from toolgen.model.caller_requests import REQUEST_KINDS, request_kind
from toolgen.model.result import Envelope
from toolgen.model.tool import Tool
from toolgen.model.unavailable import fault_error
from toolgen.state.invocations import Invocation

__all__ = ["QUESTION", "TaskPlan", "Tasks", "requires_task"]

NO_TASKS = "params._meta must declare the extension io.modelcontextprotocol/tasks for this"
_WITHOUT_TASKS = frozenset({"2025-03-26", "2025-06-18"})
_PAGE = 100
_MAX_ID_LENGTH = 128
_MAX_CURSOR_LENGTH = 512
_MAX_ANSWERS = 32
_LOOK_S = 5.0
QUESTION = "question"
_ALL: frozenset[str] = frozenset(REQUEST_KINDS)
log = logging.getLogger("toolgen.gateway")


class TaskPlan(Struct, frozen=True, kw_only=True):
    """Time after which a call becomes a task, `wait` seconds; None where only one does that waits for somebody. `at_once`: its caller
    does not
    wait for it at all. `always`: also one that ended is a task. `keep_s` is how long its client wants it kept, 0 where it did not say."""

    wait: float | None
    at_once: bool = False
    always: bool = False
    keep_s: float = 0.0


def requires_task(tool: Tool | None) -> bool:
    """Return True if a tool can only be called as a task."""
    return tool is not None and tool.requires_tasks


class Tasks:
    """The tasks of one gateway. `states` seals which question an answer of the handshake era belongs to, and `pages` are those that clients
    were shown."""

    def __init__(self, gateway: Facade, listings: Listings, states: States, pages: ShownPages) -> None:
        self._gateway = gateway
        self._listings = listings
        self._states = states
        self._closed = False
        self.pages = pages
        self.news_of = SessionTasks()

    @property
    def _approvals(self) -> Approvals:
        return self._gateway.tool_calls.approvals

    @property
    def questions(self) -> CallerQuestions:
        """Questions of calls that became tasks to their callers."""
        return CallerQuestions(self._approvals.calls)

    @property
    def news(self) -> asyncio.Event:
        """Set with the next change of any task: taken before one is looked at."""
        return self._approvals.calls.news.next

    async def own(self, task_id: str, principal: Principal) -> Invocation | None:
        """A principal's own task; None where there is none. Raises `StateError`."""
        return await self._approvals.calls.own(task_id, principal)

    def close(self) -> None:
        """Ends all waiting for results: the gateway goes."""
        self._closed = True
        self._approvals.calls.news.announce()

    def plan(
        self,
        params: Mapping[str, Any],
        meta: Mapping[str, Any],
        tool: Tool | None,
        protocol_style: ProtocolStyle,
        caller: Caller,
        after: float | None,
    ) -> TaskPlan | RpcFault | None:
        """Return how a call may become a task, or None if it may not, by the client's declaration; a fault if the tool requires a task or
        `task` is wrong. `after`: seconds until a call becomes a task by itself."""
        required = requires_task(tool)
        if protocol_style is ProtocolStyle.STATELESS:
            if not declares_tasks(meta.get(META_CAPABILITIES)):
                return missing_capability("this tool is called as a task", (TASKS,)) if required else None
            return TaskPlan(wait=0.0 if required else after, at_once=required)
        wanted = params.get("task") if caller.version not in _WITHOUT_TASKS else None
        if wanted is None:
            told = "this tool is called as a task alone: send params.task"
            return RpcFault(code=METHOD_NOT_FOUND, message=told) if required else None
        lasts = wanted.get("ttl") if isinstance(wanted, Mapping) else False
        if isinstance(lasts, bool) or not isinstance(lasts, int | float | None):
            return _wrong("params.task must be an object, and its ttl a number of milliseconds")
        if tool is None or tool.name in AT_ONCE:
            return RpcFault(code=METHOD_NOT_FOUND, message="there is no such tool to be called as a task")
        keep_s = 0.0 if lasts is None else max(1.0, lasts / 1000)
        return TaskPlan(wait=0.0, at_once=True, always=True, keep_s=keep_s)

    async def created(
        self, envelope: Envelope, name: str, plan: TaskPlan, protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault | None:
        """The task that a call has become, kept before it is told of; None where it ended before, and its result is the answer."""
        try:
            known = await self._kept(envelope, plan, caller)
            if known is None:
                return RpcFault(code=INVALID_REQUEST, message=error_text(envelope)) if plan.always else None
            if name != known.tool and not known.via:
                known = await self._named(known, name)
            task = task_of(known, await self._approvals.calls.store.now(), protocol_style, self._approvals.calls)
            if protocol_style is ProtocolStyle.STATEFUL:
                self.news_of.note(caller.principal, caller.connection, known.id)
        except StateError as error:
            log.error("a task could not be kept: %s", error)  # noqa: TRY400 - it says all there is
            return RpcFault.of(fault_error(error, "the task could not be kept"))
        task["status"] = "working"  # where every task begins (2025-11-25, section Task Status Lifecycle)
        return {"resultType": "task", **task} if protocol_style is ProtocolStyle.STATELESS else {"task": task}

    async def _kept(self, envelope: Envelope, plan: TaskPlan, caller: Caller) -> Invocation | None:
        if envelope.status == "pending":
            return await self._approvals.calls.own(envelope.call_id, caller.principal)
        call = caller.caller_connection.under_way
        if not plan.always or call is None or not envelope.call_id:
            return None
        return await self._approvals.background.keep_ended(call, envelope, caller.caller_connection.task)

    async def _named(self, known: Invocation, name: str) -> Invocation:
        """The call with the tool that its client named, which says what shape its result has; as it is where others change it now."""
        for _ in range(3):
            kept = await self._approvals.calls.store.replace(known, msgspec.structs.replace(known, via=name))
            if kept is not None:
                return kept
            known = await self._approvals.calls.store.get(known.id) or known
        return known

    async def answer(
        self,
        method: str,
        params: Mapping[str, Any],
        meta: Mapping[str, Any],
        protocol_style: ProtocolStyle,
        caller: Caller,
    ) -> dict[str, object] | RpcFault:
        """The result of one of the methods below tasks/. Raises `StateError` and `AuditError`."""
        if protocol_style is ProtocolStyle.STATELESS and not declares_tasks(meta.get(META_CAPABILITIES)):
            return missing_capability(NO_TASKS, (TASKS,))
        if isinstance(fault := asked_envelope(meta), RpcFault):
            return fault
        if method == "tasks/list":
            return await self._list(params, protocol_style, caller)
        task_id = params.get("taskId")
        if not isinstance(task_id, str) or not 0 < len(task_id) <= _MAX_ID_LENGTH:
            return _wrong("params.taskId must be the id of a task")
        known = await self._approvals.calls.own(task_id, caller.principal)
        if known is None:
            return _unknown()
        match method:
            case "tasks/get":
                return await self.shown(known, meta, protocol_style, caller.principal)
            case "tasks/result":
                return await self._result(known, meta, protocol_style, caller)
            case "tasks/update":
                return await self._update(known, params.get("inputResponses"), caller.principal)
            case _:
                return await self._cancel(known, protocol_style, caller.principal)

    async def shown(
        self, known: Invocation, meta: Mapping[str, Any], protocol_style: ProtocolStyle, principal: Principal
    ) -> dict[str, object]:
        """The task, in the modern era with its result, its error or what it asks for."""
        task = task_of(known, await self._approvals.calls.store.now(), protocol_style, self._approvals.calls)
        if protocol_style is ProtocolStyle.STATEFUL:
            return task
        match task["status"]:
            case "completed":
                await self._approvals.calls.told(known)
                task["result"] = {
                    "resultType": "complete",
                    **await self._result_of(known, meta, protocol_style, principal),
                }
            case "failed":
                await self._approvals.calls.told(known)
                task["error"] = error_of(known, self._approvals.calls)
            case "input_required":
                asked = dict(self.asked(known, capabilities_of(meta.get(META_CAPABILITIES))))
                # Whom this client cannot ask, somebody else does: it has nothing to do but to wait.
                task |= {"inputRequests": asked} if asked else {"status": "working"}
        return task

    def asked(self, known: Invocation, capabilities: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the call's questions by key that this client can answer."""
        for key, question in known.asks.items():
            if key not in known.replies and request_kind(question["method"], question["params"]) in capabilities:
                yield key, question
        form = form_of(known, self._approvals) if "elicitation" in capabilities else None
        if form is not None:
            yield APPROVAL, {"method": "elicitation/create", "params": dict(form)}

    async def _result_of(
        self, known: Invocation, meta: Mapping[str, Any], protocol_style: ProtocolStyle, principal: Principal
    ) -> dict[str, object]:
        rendering = Rendering(
            listing=self._listings.of(principal),
            protocol_style=protocol_style,
            envelope=meta.get(META_ENVELOPE) is True,
            links=self._gateway.tool_calls.files.resource_links,
        )
        envelope = await self._gateway.tool_calls.files.with_media(principal, self._approvals.calls.envelope(known))
        return tool_result(envelope, known.via or known.tool, rendering)

    async def _list(
        self, params: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        after = _position(params.get("cursor"))
        if after is None:
            return _wrong("params.cursor is none that this gateway gave out")
        found, more = await self._approvals.calls.owned(caller.principal, after, _PAGE)
        now = await self._approvals.calls.store.now()
        listed: dict[str, object] = {
            "tasks": [task_of(known, now, protocol_style, self._approvals.calls) for known in found]
        }
        if more is not None:
            listed["nextCursor"] = base64.urlsafe_b64encode(f"{more[0]!r} {more[1]}".encode()).decode()
        return listed

    async def _cancel(
        self, known: Invocation, protocol_style: ProtocolStyle, principal: Principal
    ) -> dict[str, object] | RpcFault:
        if known.status == "ended":
            return {} if protocol_style is ProtocolStyle.STATELESS else _wrong("this task has ended already")
        await self._approvals.background.cancel(known.id, principal)
        if protocol_style is ProtocolStyle.STATELESS:
            return {}
        known = await self._approvals.calls.own(known.id, principal) or known
        if status_of(known, protocol_style) == "cancelled":
            return await self.shown(known, {}, protocol_style, principal)
        return _wrong("this task had ended before it could be cancelled")

    async def _update(self, known: Invocation, given: object, principal: Principal) -> dict[str, object] | RpcFault:
        """Takes answers, each to the question of its key; those to questions that nobody asks, or that have one, are left aside."""
        if not isinstance(given, Mapping) or len(given) > _MAX_ANSWERS:
            return _wrong(f"params.inputResponses must be an object of {_MAX_ANSWERS} answers at most")
        return await self.take_answers(known, given, principal) or {}

    async def take_answers(self, known: Invocation, given: Mapping[str, Any], principal: Principal) -> RpcFault | None:
        """Take the answers to questions of a call, as `_update` does; a fault if one does not fit its question."""
        wanted = dict(self.asked(known, _ALL))
        replies = {key: reply for key, reply in given.items() if key in wanted}
        for key, reply in replies.items():
            question = wanted[key]
            if not isinstance(reply, Mapping) or not answers_question(question["method"], question["params"], reply):
                return _wrong("params.inputResponses has an answer that does not fit its question")
        if APPROVAL in replies and known.kind == "approval":
            await said(self._approvals, known.id, replies[APPROVAL], principal)
        elif replies:
            await self.questions.answer(known, replies)
        return None

    async def _result(
        self, known: Invocation, meta: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """Waits until a task has ended, and says meanwhile what it asks for, where the client listens."""
        told, asked = TaskNotice(), set[str]()
        while True:
            news = self._approvals.calls.news.of(known.id)
            found = await self._approvals.calls.own(known.id, caller.principal)
            if found is None or self._gateway.callers.current(caller.principal) is None:
                return _unknown()
            known = found
            if known.status == "ended":
                break
            if caller.caller_connection.disconnected() or self._closed:
                return RpcFault(code=INTERNAL_ERROR, message="the gateway is about to stop; ask for the result again")
            task = await self.shown(known, {}, protocol_style, caller.principal)
            with suppress(QueueFull):  # who does not read is told less
                if caller.send is not None:
                    for message in told.news(known, task):
                        caller.send(encode(message))
                self._ask(known, caller, asked)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await news.wait()
        await self._approvals.calls.told(known)
        result = await self._result_of(known, meta, protocol_style, caller.principal)
        said = result.get("_meta")
        own = said if isinstance(said, Mapping) else {}
        return {**result, "_meta": {**own, META_RELATED_TASK: {"taskId": known.id}}}

    def _ask(self, known: Invocation, caller: Caller, asked: set[str]) -> None:
        """Asks a client of the handshake era what was not asked over this stream yet."""
        for key, question in self.asked(known, caller.capabilities):
            if caller.send is None or key in asked:
                continue
            about = {} if key == APPROVAL and known.kind == "approval" else {QUESTION: key}
            sealed = self._states.close(caller.principal, "", {}, answers=about, call_id=known.id)
            params = {**question["params"], "_meta": {META_RELATED_TASK: {"taskId": known.id}}}
            caller.send(encode({"jsonrpc": "2.0", "id": sealed, "method": question["method"], "params": params}))
            asked.add(key)
            self.pages.shown(caller.principal, caller.connection, question["method"], params)

    async def take(self, state: RequestState, result: Mapping[str, Any] | None, principal: Principal) -> bool:
        """Takes what a client of the handshake era answered to a question of a task; False where its question was another."""
        key = state.answers.get(QUESTION)
        if not isinstance(key, str):
            return False
        known = await self._approvals.calls.own(state.call_id, principal)
        if known is not None and key in known.asks:
            refused = {"action": "cancel"} if known.asks[key]["method"] == "elicitation/create" else {}
            await self.questions.answer(known, {key: refused if result is None else result})
        return True


def _position(cursor: object) -> tuple[float, str] | None:
    """Position of a page of tasks; None for what is no cursor."""
    if cursor is None:
        return 0.0, ""
    if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR_LENGTH:
        return None
    try:
        asked, _, call_id = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").partition(" ")
        found = float(asked)
    except (ValueError, binascii.Error):
        return None
    return (found, call_id) if call_id and 0 <= found < 1e12 else None


def _unknown() -> RpcFault:
    return _wrong("there is no such task of yours, or its time is over")


def _wrong(message: str) -> RpcFault:
    return RpcFault(code=INVALID_PARAMS, message=message)
