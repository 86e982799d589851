"""Calls of tools that a server only runs as tasks: begun, asked after until they end, and read (MCP 2025-11-25, utilities/tasks; in
2026-07-28 the extension `io.modelcontextprotocol/tasks`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.mcp.conversation import Conversation
from toolgen.connectors.mcp.messages import STATELESS, failed, harmless
from toolgen.connectors.mcp.rounds import answers_to
from toolgen.connectors.mcp.server_requests import CallTime
from toolgen.core.error_codes import ErrorCode
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect

__all__ = ["call_as_task"]

_CALL: Final = "tools/call"
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_MIN_POLL_S: Final = 0.1
_MAX_POLL_S: Final = 5.0
_DEFAULT_POLL_S: Final = 0.5
_PARTING_S: Final = 5.0
_MAX_ID_LENGTH: Final = 256
_MAX_SAID_LENGTH: Final = 300


class _Task(Struct, frozen=True):
    """Task as a server describes it. In 2026-07-28 it has its `result` or `error` once it has ended, and `requests` before."""

    id: str
    status: str
    message: str
    poll_s: float
    result: Json = None
    error: Json = None
    requests: Json = None


async def call_as_task(
    conversation: Conversation, params: JsonObject, call: Call, time: CallTime
) -> Success | Failed | None:
    """The result of the tool, as `Conversation.call` returns it; None if the server does not know the session, so that nothing was done.

    A task whose caller leaves, or whose `time` is over, is cancelled at the server.
    """
    stateless = conversation.version == STATELESS
    asked = params if stateless else {**params, "task": {}}
    begun = await conversation.call(_CALL, asked, call, time)
    if not isinstance(begun, Success):
        return begun
    task = _task_in(begun.data, stateless=stateless)
    if task is None:
        return begun  # a server that answers at once
    follower = _Follower(conversation, call, stateless=stateless)
    try:
        ended = await follower.follow(task, time)
    except asyncio.CancelledError:
        conversation.cancel_task(task.id, call)
        if call.line is None or not call.line.disconnected() or call.tool.effect is Effect.READ:
            raise
        ended = await follower.follow(task, time.shortened(_PARTING_S))
    if ended is None:
        conversation.cancel_task(task.id, call)
        return _unclear(call, "did not end in time, and was cancelled", "upstream_timeout")
    if isinstance(ended, Failed):
        return ended
    return await follower.result(ended, time)


class _Follower:
    def __init__(self, conversation: Conversation, call: Call, *, stateless: bool) -> None:
        self._conversation, self._call, self._stateless = conversation, call, stateless
        self._answered: set[str] = set()

    async def follow(self, task: _Task, time: CallTime) -> _Task | Failed | None:
        """The task once it has ended; None if its time is over before."""
        while task.status not in _ENDED:
            if task.status == "input_required":
                if not self._can_be_asked():
                    self._conversation.cancel_task(task.id, self._call)
                    return _unclear(
                        self._call, "wants something of its caller, which cannot be asked", "upstream_error"
                    )
                if not self._stateless:
                    return task  # its requests come while its result is waited for
                if (fault := await self._update(task, time)) is not None:
                    self._conversation.cancel_task(task.id, self._call)
                    return fault
            if time.left <= 0:
                return None
            await asyncio.sleep(min(task.poll_s, time.left))
            found = await self._conversation.call("tasks/get", {"taskId": task.id}, self._call, time)
            if isinstance(found, Failed):
                if time.left <= 0:
                    return None
                self._conversation.cancel_task(task.id, self._call)
                return self._lost(found)
            data = None if found is None else found.data
            known = _task_of(data)
            if known is None or known.id != task.id:
                return _unclear(self._call, "is not known to the server any more", "upstream_error")
            task = known
        return task

    def _can_be_asked(self) -> bool:
        return self._call.line is not None and bool(self._call.line.capabilities)

    async def _update(self, task: _Task, time: CallTime) -> Failed | None:
        """Pass the requests of a task on to its caller, and the answers to the server (2026-07-28, extension tasks, tasks/update)."""
        requests = task.requests if isinstance(task.requests, Mapping) else {}
        new = {key: one for key, one in requests.items() if key not in self._answered}
        answers = await answers_to(new, self._call)
        if isinstance(answers, str):
            return _unclear(self._call, f"wants input, and {answers}", "upstream_error")
        if not answers:
            return None
        self._answered |= answers.keys()
        params: JsonObject = {"taskId": task.id, "inputResponses": answers}
        found = await self._conversation.call("tasks/update", params, self._call, time)
        return self._lost(found) if isinstance(found, Failed) else None

    async def result(self, task: _Task, time: CallTime) -> Success | Failed:
        """Outcome of the tool, of a task that ended, or that makes its requests while its result is waited for."""
        said = f": {task.message}" if task.message else ""
        if task.status == "cancelled":
            return _unclear(self._call, f"was cancelled by the server{said}", "upstream_error")
        if self._stateless:
            if isinstance(task.result, Mapping):
                return Success(data=dict(task.result))
            message = task.error.get("message") if isinstance(task.error, Mapping) else None
            why = f": {bounded(visible(message), _MAX_SAID_LENGTH)}" if isinstance(message, str) else said
            return failed("upstream_error", f"the server's task failed{why}", "change the arguments as the answer says")
        found = await self._conversation.call("tasks/result", {"taskId": task.id}, self._call, time)
        if isinstance(found, Success):
            return found
        if found is None:
            return _unclear(self._call, "is not known to the server any more", "upstream_error")
        return found if task.status == "failed" else self._lost(found)

    def _lost(self, found: Failed) -> Failed:
        """A failure to ask after a task, which went on meanwhile."""
        if harmless(self._call, _CALL):
            return found
        message = f"the server's task was begun, and cannot be asked after: {found.error.message}"
        error = replace(found.error, code="outcome_unknown", message=bounded(message), suggestion=_ADVICE)
        return replace(found, error=error, data=None)


_ADVICE: Final = "find out what happened before trying again"


def _unclear(call: Call, what: str, code: ErrorCode) -> Failed:
    if harmless(call, _CALL):
        return failed(code, f"the server's task {what}", "try again later")
    return failed("outcome_unknown", f"the server's task {what}; it may or may not have taken effect", _ADVICE)


def _task_in(data: Json, *, stateless: bool) -> _Task | None:
    """The task that a call became, None if it is the result itself."""
    if not isinstance(data, Mapping):
        return None
    return _task_of(data) if stateless and data.get("resultType") == "task" else _task_of(data.get("task"))


def _task_of(data: Json) -> _Task | None:
    if not isinstance(data, Mapping):
        return None
    number, status, message = data.get("taskId"), data.get("status"), data.get("statusMessage")
    if not isinstance(number, str) or not 0 < len(number) <= _MAX_ID_LENGTH or not number.isprintable():
        return None
    if not isinstance(status, str):
        return None
    poll = data.get("pollIntervalMs", data.get("pollInterval"))
    seconds = poll / 1000 if isinstance(poll, int | float) and not isinstance(poll, bool) else _DEFAULT_POLL_S
    said = bounded(" ".join(visible(message).split()), _MAX_SAID_LENGTH) if isinstance(message, str) else ""
    poll_s = min(max(seconds, _MIN_POLL_S), _MAX_POLL_S)
    return _Task(number, status, said, poll_s, data.get("result"), data.get("error"), data.get("inputRequests"))
