"""Changed folders (roots) of callers, for the bridged servers that asked for them: `notifications/roots/list_changed` of MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from toolgen.connectors.executor import AsksForRoots, Executor
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.json_codec import encode_json
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call, Principal, parties
from toolgen.model.relayed import Relayed
from toolgen.policy.access import EvaluationContext
from toolgen.policy.explain import explained_requests

__all__ = ["ChangedRoots"]

_QUIET_S: Final = 1.0
"""Time after a notification in which further ones of the same caller are passed on as one."""
_MAX_CALLERS: Final = 1024


class ChangedRoots:
    """Passes on that the folders of a caller have changed. `systems` has the executors in force; `updates` leads to the other workers."""

    def __init__(
        self,
        current: CurrentPolicy,
        systems: Callable[[], Mapping[str, Executor]],
        updates: ResourceUpdates,
        clock: Clock,
    ) -> None:
        self._current, self._systems, self._updates, self._clock = current, systems, updates, clock
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        updates.shared("roots", lambda said: self._put(said.key, here=False))

    @property
    def busy(self) -> bool:
        """True while a notification is passed on, or further ones would be passed on as one."""
        return bool(self._telling)

    def put(self, principal: Principal) -> None:
        """Take the notification of a caller. For the gateway's event loop."""
        self._put(encode_json(list(parties(principal))).decode(), here=True)

    def _put(self, caller: str, *, here: bool) -> None:
        """Tell the servers now, and once more later if further notifications come meanwhile. `here`: the other workers do not know yet."""
        key = f"{'here' if here else 'there'} {caller}"
        if key in self._telling:
            self._again.add(key)
        elif len(self._telling) < _MAX_CALLERS:
            self._telling[key] = asyncio.create_task(self._tell(key, caller, here=here))

    async def _tell(self, key: str, caller: str, *, here: bool) -> None:
        try:
            while True:
                self._again.discard(key)
                if here:
                    self._updates.share(Relayed(topic="roots", key=caller))
                await self._tell_servers(caller)
                await asyncio.sleep(_QUIET_S)
                if key not in self._again:
                    return
        finally:
            self._again.discard(key)
            self._telling.pop(key, None)

    async def _tell_servers(self, caller: str) -> None:
        for executor in tuple(self._systems().values()):
            if not isinstance(executor, AsksForRoots):
                continue
            for call in executor.roots_asked():
                if encode_json(list(parties(call.principal))).decode() == caller and self._allows(call):
                    await executor.roots_changed(call)

    def _allows(self, call: Call) -> bool:
        """Return True if the policy in force still lets the server ask the caller of this call for folders."""
        policy = self._current.compiled_policy
        who = policy.by_now(call.principal)
        if not isinstance(who, Principal):
            return False
        now = EvaluationContext(now=self._clock.now())
        for tools, access in ((policy.tools, policy.access), (policy.context.tools, policy.context.access)):
            tool = tools.get(call.tool.name)
            if tool is not None and tool.digest == call.tool.digest:
                found = explained_requests(access, who, tool, call.arguments, now)
                return any(one.kind == "roots" and one.rules for one in found)
        return False

    async def close(self) -> None:
        """End what is not told yet."""
        await cancel(*self._telling.values())
