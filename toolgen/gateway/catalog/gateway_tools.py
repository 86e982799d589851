"""`gateway.tools`: the tools of a gateway, listed, added and removed. The same names in asynchronous and other code."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from toolgen.gateway.calls.call_service import UNNAMED, Callers, Calls, Unnamed
from toolgen.gateway.catalog.runtime_tools import RuntimeTools
from toolgen.model.call import Principal
from toolgen.model.tool import Tool

__all__ = ["GatewayTools", "SyncGatewayTools", "apply_changes"]

T = TypeVar("T")


class _Wait(Protocol):
    """Function that runs a coroutine in the gateway's loop, and waits for its result."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


Who = Principal | str | Unnamed


class GatewayTools:
    """Tools of a gateway. `list` returns what a principal may call; `add`, `remove` and `restore` change what there is while the gateway is
    open, and are awaited."""

    def __init__(self, runtime: RuntimeTools, callers: Callers, calls: Calls) -> None:
        self._runtime, self._callers, self._calls = runtime, callers, calls

    def list(self, *, principal: Who = UNNAMED) -> Sequence[Tool]:
        """Return the tools that a principal may call, in the order of their names; without `principal`, those of the policy's only one."""
        who = self._callers.who(principal)
        return self._calls.catalog(self._callers.named(who) if isinstance(who, str) else who)

    async def add(
        self, function: object, *, name: str = "", effect: str = "", title: str = "", description: str = ""
    ) -> Tool:
        """Add a tool of a function or method, or one of FastMCP or LangChain, and return it. `name`, `effect`, `title` and `description`
        replace its own.

        Raises `ConfigError` for an object that cannot be a tool and for a name that is in use, `PolicyError` if the policy does not fit,
        `AuditError` and `StateError` if it cannot be recorded or shared: then it is not added.
        """
        return await self._runtime.add(function, name=name, effect=effect, title=title, description=description)

    async def remove(self, name: str) -> None:
        """Remove a tool: one that was added, or one of the build, which then stays removed in later builds. Running calls end normally."""
        await self._runtime.remove(name)

    async def restore(self, name: str) -> Tool | None:
        """Restore a tool of the build that was removed, and return it; None if the build has no such tool any more."""
        return await self._runtime.restore(name)

    @property
    def added(self) -> tuple[str, ...]:
        """Return the names of the tools that were added and are in force."""
        return self._runtime.added

    @property
    def removed(self) -> frozenset[str]:
        """Return the names of the removed tools of builds."""
        return self._runtime.removed


async def apply_changes(tools: GatewayTools) -> tuple[str, ...]:
    """Put added and removed tools in force once, for a command that opens nothing else; return the reason if some are not."""
    return await tools._runtime.look()


class SyncGatewayTools:
    """`tools` of a gateway in code that is not asynchronous: the methods of `GatewayTools`, which wait."""

    def __init__(self, tools: GatewayTools, wait: _Wait) -> None:
        self._tools, self._wait = tools, wait

    def list(self, *, principal: Who = UNNAMED) -> Sequence[Tool]:
        """Return the tools that a principal may call, as `GatewayTools.list` does."""
        return self._tools.list(principal=principal)

    def add(
        self, function: object, *, name: str = "", effect: str = "", title: str = "", description: str = ""
    ) -> Tool:
        """Add a tool, as `GatewayTools.add` does."""
        said = {"name": name, "effect": effect, "title": title, "description": description}
        return self._wait(self._tools.add(function, **said))

    def remove(self, name: str) -> None:
        """Remove a tool, as `GatewayTools.remove` does."""
        self._wait(self._tools.remove(name))

    def restore(self, name: str) -> Tool | None:
        """Restore a removed tool, as `GatewayTools.restore` does."""
        return self._wait(self._tools.restore(name))

    @property
    def added(self) -> tuple[str, ...]:
        """Return the names of the tools that were added and are in force."""
        return self._tools.added

    @property
    def removed(self) -> frozenset[str]:
        """Return the names of the removed tools of builds."""
        return self._tools.removed
