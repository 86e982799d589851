"""Task events for a 2026-07-28 client: each change of a task it listens to (tasks extension, section Task Status Notifications)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.frontends.mcp.messages import (
    INVALID_PARAMS,
    META_CAPABILITIES,
    TASKS,
    ProtocolStyle,
    RpcFault,
    declares_tasks,
    missing_capability,
)
from toolgen.frontends.mcp.session_tasks import TaskNotice
from toolgen.frontends.mcp.tasks import NO_TASKS, Tasks
from toolgen.model.call import Principal

__all__ = ["WatchedTasks", "own_tasks", "session_changes", "task_changes", "tasks_fault"]

MAX_WATCHED = 64
_MAX_ID_LENGTH = 128


class WatchedTasks(Struct, frozen=True):
    """The tasks that somebody listens for, by their ids, and what their request said of its client."""

    ids: tuple[str, ...]
    meta: Mapping[str, Any]


def tasks_fault(ids: object, meta: Mapping[str, Any]) -> RpcFault | None:
    """Return the fault of `notifications.taskIds` in a subscription; None if there is none."""
    if not declares_tasks(meta.get(META_CAPABILITIES)):
        return missing_capability(NO_TASKS, (TASKS,))
    named = ids if isinstance(ids, list) else [None]
    if len(named) > MAX_WATCHED or any(not isinstance(one, str) or len(one) > _MAX_ID_LENGTH for one in named):
        message = f"params.notifications.taskIds must be a list of {MAX_WATCHED} ids of tasks at most"
        return RpcFault(code=INVALID_PARAMS, message=message)
    return None


async def own_tasks(tasks: Tasks, watched: WatchedTasks, principal: Principal) -> WatchedTasks:
    """Return only the watched tasks that belong to the principal."""
    found = []
    for one in watched.ids:
        with suppress(StateError):
            if await tasks.own(one, principal) is not None:
                found.append(one)
    return WatchedTasks(tuple(found), watched.meta)


async def task_changes(tasks: Tasks, watched: WatchedTasks, principal: Principal) -> AsyncIterator[dict[str, object]]:
    """Each task as it is now, and again whenever that changes, until all have ended."""
    open_ids, told = list(watched.ids), dict[str, dict[str, object]]()
    while open_ids:
        news = tasks.news
        for one in tuple(open_ids):
            with suppress(StateError):  # the next look may find it
                known = await tasks.own(one, principal)
                if known is None:
                    open_ids.remove(one)
                    continue
                task = await tasks.shown(known, watched.meta, ProtocolStyle.STATELESS, principal)
                said = {key: value for key, value in task.items() if key != "ttlMs"}
                if told.get(one) != said:
                    told[one] = said
                    yield task
                if known.status == "ended":
                    open_ids.remove(one)
        await news.wait()


async def session_changes(tasks: Tasks, principal: Principal, session: str) -> AsyncIterator[dict[str, object]]:
    """Yield notifications about the tasks that a handshake session created in this worker, for as long as a client listens."""
    told: dict[str, TaskNotice] = {}
    while True:
        news, made = tasks.news, tasks.news_of.of(principal, session)
        for one in made:
            with suppress(StateError):  # the next look may find it
                known = await tasks.own(one, principal)
                if known is not None:
                    task = await tasks.shown(known, {}, ProtocolStyle.STATEFUL, principal)
                    for message in told.setdefault(one, TaskNotice()).news(known, task):
                        yield message
                if known is None or known.status == "ended":
                    tasks.news_of.drop(principal, session, one)
                    told.pop(one, None)
        await news.wait()
