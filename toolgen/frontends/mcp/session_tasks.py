"""Notifications about the tasks of a 2025-11-25 client: their status and progress."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from toolgen.frontends.mcp.messages import META_RELATED_TASK
from toolgen.model.call import Principal, parties
from toolgen.state.invocations import Invocation

__all__ = ["SessionTasks", "TaskNotice"]

_MAX_SESSIONS = 10_000
_MAX_TASKS = 64


class SessionTasks:
    """Which tasks the sessions of this process made, and have not been told the end of: the newest of each."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[tuple[str, ...], str], dict[str, None]] = OrderedDict()

    def note(self, principal: Principal, session: str, task_id: str) -> None:
        """A session of a principal has made this task."""
        if not session:
            return
        key = (parties(principal), session)
        found = self._open.setdefault(key, {})
        self._open.move_to_end(key)
        found[task_id] = None
        if len(found) > _MAX_TASKS:
            del found[next(iter(found))]
        if len(self._open) > _MAX_SESSIONS:
            self._open.popitem(last=False)

    def of(self, principal: Principal, session: str) -> tuple[str, ...]:
        """Return the ids of a session's tasks whose end has not been sent yet."""
        return tuple(self._open.get((parties(principal), session), ()))

    def drop(self, principal: Principal, session: str, task_id: str) -> None:
        """Nothing more is told of a task."""
        key = (parties(principal), session)
        if (found := self._open.get(key)) is not None:
            found.pop(task_id, None)
            if not found:
                del self._open[key]


class TaskNotice:
    """Last state of a task that was sent on a stream."""

    def __init__(self) -> None:
        self._standing = ""
        self._done: float | None = None

    def news(self, known: Invocation, task: Mapping[str, object]) -> Iterator[dict[str, object]]:
        """Yield the notifications due for a task: its progress while it runs, if the request that created it has a progress token
        (2025-11-25, section Task Progress Notifications), and its status."""
        progress, token = known.progress, None if known.task is None else known.task.token
        if token is not None and progress is not None and known.status == "running":
            done = progress["done"]
            if self._done is None or done > self._done:  # progress only grows
                self._done = done
                params: dict[str, object] = {"progressToken": token, "progress": done}
                params |= {key: progress[key] for key in ("total", "message") if key in progress}
                params["_meta"] = {META_RELATED_TASK: {"taskId": known.id}}
                yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        standing = f"{task['status']} {task.get('statusMessage', '')}"
        if standing != self._standing:
            self._standing = standing
            yield {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task}
