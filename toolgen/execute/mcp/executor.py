"""The MCP executor: a call goes to the tool that was pinned, and to no other that has its name now."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import Protocol

from toolgen.clock import Clock, SystemClock
from toolgen.errors import ToolgenError
from toolgen.execute.mcp.content import answered
from toolgen.execute.mcp.conversation import Conversation, Parts
from toolgen.execute.mcp.messages import Wire, failed, request
from toolgen.execute.patience import Timeouts
from toolgen.model.call import Call, Principal
from toolgen.model.listing import Listing
from toolgen.model.result import Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import McpBinding, absent

__all__ = ["McpExecutor", "PreviewWire"]

_MOST_CONVERSATIONS = 256
_MOST_SESSIONS = 2  # begun for one call
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()


class PreviewWire(Wire, Protocol):
    """A way to a server that can say what it would send."""

    def preview(self, message: JsonObject, call: Call) -> JsonObject: ...


class McpExecutor:
    """Calls the tools of one server. `shared`: one conversation serves every caller, as it must with a command.

    Otherwise each caller has one: sessions, like credentials, are not shared.
    """

    def __init__(
        self, wire: PreviewWire, *, shared: bool, timeouts: Timeouts = _TIMEOUTS, clock: Clock = _CLOCK
    ) -> None:
        self._wire = wire
        self._shared = shared
        self._total_s = timeouts.total_s
        self._clock = clock
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Asks the server for the call, once it was seen that the tool is as it was pinned; never raises for what the server does."""
        conversation = self._with(call.principal)
        until = asyncio.get_running_loop().time() + self._total_s
        for _ in range(_MOST_SESSIONS):
            listed = await conversation.parts(_harmless(call), until)
            if isinstance(listed, Failed):
                return _unsent(listed)
            if refused := _changed(_binding(call), listed):
                return refused
            outcome = await conversation.call(_params(call, _binding(call)), call, until)
            if outcome is not None:
                return answered(outcome) if isinstance(outcome, Success) else outcome
        message = "the server forgot the session that it had just begun; nothing was sent"
        return failed("upstream_unavailable", message, "try again later")

    async def listing(self) -> Listing | Failed:
        """Every tool the server has for nobody in particular: what a build pins."""
        nobody = Principal(id="build")
        call = Call(id="build", tool=absent("build"), arguments={}, principal=nobody)
        return await self._with(nobody).listing(_harmless(call))

    def preview(self, call: Call) -> JsonObject:
        """The message, and over HTTP the request around it with secrets masked. What a server gives a session or a number is not known."""
        return self._wire.preview(request("tools/call", _params(call, _binding(call)), 1), call)

    async def close(self) -> None:
        """Closes every connection, and ends a command."""
        for conversation in self._conversations.values():
            await conversation.close()
        await self._wire.close()

    def _with(self, principal: Principal) -> Conversation:
        user = principal.on_behalf_of
        key = ("", "") if self._shared else (principal.id, "" if user is None else user.id)
        found = self._conversations.get(key)
        if found is None:
            found = self._conversations[key] = Conversation(self._wire, self._clock, self._total_s)
            if len(self._conversations) > _MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
        else:
            self._conversations.move_to_end(key)
        return found


def _binding(call: Call) -> McpBinding:
    binding = call.tool.binding
    if not isinstance(binding, McpBinding):
        raise ToolgenError(f"the tool {call.tool.name} is not bound to an MCP server")
    return binding


def _changed(binding: McpBinding, listed: Parts) -> Refused | None:
    """Why a tool may not be called that is not as it was pinned."""
    now = listed.get(binding.tool)
    if now is None:
        return _refused("the server does not offer this tool any more, or offers two of that name")
    changed = sorted(part for part in now.keys() | binding.parts.keys() if now.get(part) != binding.parts.get(part))
    return _refused(f"the tool's {', '.join(changed)} changed since somebody accepted it") if changed else None


def _params(call: Call, binding: McpBinding) -> JsonObject:
    return {"name": binding.tool, "arguments": call.arguments}


def _harmless(call: Call) -> Call:
    """For questions that change nothing, whatever the call behind them does, and that bear neither its key nor its way back."""
    return replace(call, idempotency_key="", line=None)


def _unsent(outcome: Failed) -> Failed:
    """The call itself was never sent, however far its preparations came."""
    facts = {key: value for key, value in outcome.facts.items() if key != "broken"}
    return replace(outcome, facts={**facts, "unsent": True}, data=None)


def _refused(reason: str) -> Refused:
    return Refused(
        error=Error(
            code="forbidden",
            message=f"{reason}; nothing was sent",
            suggestion="tell whoever runs the gateway: `toolgen build` shows what is different, `--update-pins` accepts it",
            rule="pin",
        )
    )
