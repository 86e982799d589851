"""Context of a function: information about its call, messages to its caller, and calls of other tools as the same caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from toolgen.connectors.functions.decorator import ToolError
from toolgen.model.call import Principal
from toolgen.model.client_channel import ClientChannel, Unasked
from toolgen.model.result import Envelope
from toolgen.model.schema import Json, JsonObject

__all__ = ["CallPrincipal", "Elicited", "InnerCall", "ToolContext"]

InnerCall: TypeAlias = Callable[[str, JsonObject], Coroutine[Any, Any, Envelope]]
"""Callback that calls another tool for the same caller, on the gateway's event loop."""


class CallPrincipal(str):
    """Caller of a function. Its text is the id, so it can be compared, written and sent like one."""

    __slots__ = ("_attributes", "_principal")
    _principal: Principal
    _attributes: dict[str, Json] | None

    def __new__(cls, principal: Principal) -> CallPrincipal:
        """Create the view of a policy's principal, without its credentials."""
        made = super().__new__(cls, principal.id)
        made._principal = principal
        made._attributes = None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def __str__(self) -> str:
        return self._principal.id

    @property
    def id(self) -> str:
        """Its name in the policy, or `issuer:subject`."""
        return self._principal.id

    @property
    def roles(self) -> frozenset[str]:
        """Its roles."""
        return self._principal.roles

    @property
    def attributes(self) -> Mapping[str, Json]:
        """Its attributes, in a copy: changes do not affect the policy."""
        if self._attributes is None:
            self._attributes = {name: _copied(value) for name, value in self._principal.attributes.items()}
        return self._attributes

    @property
    def on_behalf_of(self) -> CallPrincipal | None:
        """User that an agent acts for; None if it acts for itself."""
        user = self._principal.on_behalf_of
        return None if user is None else CallPrincipal(user)


def _copied(value: Json) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value


class _CallLog(logging.LoggerAdapter[logging.Logger]):
    """Log adapter that adds the id of the call to each line. Lines with `client=True` are sent to the caller's client too."""

    def __init__(self, call_id: str, tell: Callable[[str, str], None]) -> None:
        super().__init__(logging.getLogger("toolgen.tools"), {"call_id": call_id})
        self._tell = tell

    def log(self, level: int, msg: object, *args: object, client: bool = False, **kwargs: Any) -> None:  # type: ignore[override]
        """Write a line, and send it to the client if `client` is true."""
        if client:
            text = str(msg) % args if args else str(msg)
            self._tell(_level_name(level), text)
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = self.extra
        return f"{(self.extra or {}).get('call_id')}: {msg}", kwargs


def _level_name(level: int) -> str:
    """Return MCP's name for a level of Python's logging."""
    names = (
        (logging.CRITICAL, "critical"),
        (logging.ERROR, "error"),
        (logging.WARNING, "warning"),
        (logging.INFO, "info"),
    )
    return next((name for least, name in names if level >= least), "debug")


class Elicited(Struct, frozen=True):
    """Reply of a person: `accept` with `content`, `decline`, or `cancel` if the person dismissed the question."""

    action: str
    content: Mapping[str, Json] = {}

    @property
    def accepted(self) -> bool:
        """True if the person accepted."""
        return self.action == "accept"


class _CompletedAwaitable:
    """Completed awaitable: `ctx.progress(…)` works with `await` and without."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _CompletedAwaitable()


class ToolContext:
    """Context that a function receives when it has a parameter of this type.

    A function may run again up to a question: a client of MCP's stateless protocol answers by repeating the call, and the function then
    runs from its beginning with the answer available. So ask first, and change things afterwards.
    """

    __slots__ = (
        "_asking",
        "_call",
        "_folder",
        "_left_s",
        "_line",
        "_loop",
        "_over",
        "_time_limit",
        "_updated",
        "call_id",
        "principal",
    )

    def __init__(
        self,
        *,
        call_id: str,
        principal: Principal,
        line: ClientChannel | None,
        loop: asyncio.AbstractEventLoop,
        call: InnerCall | None = None,
        folder: Callable[[], Path] | None = None,
        updated: Callable[[str], None] | None = None,
    ) -> None:
        self.call_id = call_id
        self.principal = CallPrincipal(principal)
        self._line = line
        self._call = call
        self._folder = folder
        self._updated = updated
        self._over = False
        self._loop = loop
        self._time_limit: asyncio.Timeout | None = None
        self._asking = 0
        self._left_s = 0.0

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """The log of functions, `toolgen.tools`; its records have `call_id`."""
        return logging.LoggerAdapter(logging.getLogger("toolgen.tools"), {"call_id": self.call_id})

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Log of functions with the id of the call in front of every line. It is for the operator; agents cannot read it.

        Lines with `client=True` are also sent to an MCP client that asked for log messages: `ctx.log.info("loaded", client=True)`. They are
        dropped if the policy hides anything of this tool's answers.
        """
        return _CallLog(self.call_id, self._send_log_line)

    def updated(self, uri: str) -> Awaitable[None]:
        """Tell clients that subscribed to a resource, and may read it, that it has changed."""
        if self._updated is not None:
            self._loop.call_soon_threadsafe(self._updated, uri)
        return _DONE

    def _send_log_line(self, level: str, text: str) -> None:
        if self._line is not None:
            self._loop.call_soon_threadsafe(self._line.log, level, text)

    @property
    def workdir(self) -> Path:
        """Folder for this call only. It is created at the first use, limited in size, and removed when the call ends.

        Raises `ToolError` once the call is over.
        """
        if self._folder is None or self._over:
            raise ToolError("the call is over, and its folder with it" if self._over else "this call has no folder")
        return self._folder()

    async def call(self, tool: str, arguments: JsonObject | None = None) -> Envelope:
        """Call another tool as the same principal, with policy, limits, approval and audit record, as a child of this call.

        Never raises for the outcome of that call; its `status` tells. Use it in async functions, and `call_sync` in others. A tool that is
        already being called in this chain of calls, and a chain that grows too long, are refused. Raises `ToolError` if this call is over.
        """
        made = self._inner(tool, arguments)
        if asyncio.get_running_loop() is self._loop:
            return await made
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, self._loop))

    def call_sync(self, tool: str, arguments: JsonObject | None = None) -> Envelope:
        """Call another tool like `call`, from a function that is not async: its thread waits. Raises `RuntimeError` on an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(self._inner(tool, arguments), self._loop).result()
        raise RuntimeError("call_sync would block the event loop; write `await ctx.call(…)`")

    def _inner(self, tool: str, arguments: JsonObject | None) -> Coroutine[Any, Any, Envelope]:
        if self._call is None or self._over:
            raise ToolError(
                "the call is over and cannot call other tools" if self._over else "this call does not run in a gateway"
            )
        return self._call(tool, {} if arguments is None else arguments)

    def end(self) -> None:
        """Mark the call as over. For the gateway: code that the function left running can make no calls and keep no files after this."""
        self._over = True

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the caller's client: elicitation, roots, sampling."""
        return frozenset() if self._line is None else self._line.capabilities

    @property
    def cancelled(self) -> bool:
        """True if the client no longer waits for this call. Completed changes are kept."""
        return self._line is not None and self._line.disconnected()

    def progress(self, done: float, total: float | None = None, message: str = "") -> Awaitable[None]:
        """Report progress to the client. Works also in a function that is not async and runs in a thread."""
        if self._line is not None:
            self._loop.call_soon_threadsafe(self._line.progress, done, total, message)
        return _DONE

    def partial(self, data: Json) -> Awaitable[None]:
        """Send a part of the answer, as JSON, to a client that follows this call. The final answer must repeat it.

        Partial answers are dropped if the policy hides any field of this tool's answers.
        """
        if self._line is not None:
            self._loop.call_soon_threadsafe(self._line.partial, data)
        return _DONE

    async def elicit(self, message: str, schema: Mapping[str, Any], *, key: str = "input") -> Elicited:
        """Ask the person at the client. `schema` is that of a flat object; `key` distinguishes several questions of one call.

        Raises `ToolError` if the client cannot ask anybody; check `capabilities` first to handle that.
        """
        answer = await self._ask(
            key, "elicitation/create", {"mode": "form", "message": message, "requestedSchema": dict(schema)}
        )
        content = answer.get("content")
        return Elicited(str(answer.get("action")), content if isinstance(content, Mapping) else {})

    async def sample(self, messages: list[Mapping[str, Any]], *, max_tokens: int, key: str = "sample") -> JsonObject:
        """Ask the client's own model. Its answer is untrusted text. Raises `ToolError` as `elicit` does."""
        params: dict[str, Json] = {"messages": [dict(one) for one in messages], "maxTokens": max_tokens}
        return await self._ask(key, "sampling/createMessage", params)

    async def roots(self, *, key: str = "roots") -> tuple[str, ...]:
        """Return the URIs of the folders that the caller works in. Raises as `elicit` does."""
        answer = await self._ask(key, "roots/list", MappingProxyType({}))
        found = answer.get("roots")
        listed = found if isinstance(found, list) else []
        return tuple(str(one["uri"]) for one in listed if isinstance(one, Mapping) and "uri" in one)

    def limited(self, time_limit: asyncio.Timeout | None) -> None:
        """Set this function's time limit, which pauses while the client is asked; None when the function has ended. For the gateway."""
        self._time_limit = time_limit

    def _hold(self) -> None:
        self._asking += 1
        if self._asking == 1 and self._time_limit is not None and (until := self._time_limit.when()) is not None:
            self._left_s = until - self._loop.time()
            self._time_limit.reschedule(None)

    def _go_on(self) -> None:
        self._asking -= 1
        if self._asking == 0 and self._time_limit is not None and not self._time_limit.expired():
            self._time_limit.reschedule(self._loop.time() + self._left_s)

    async def _ask(self, key: str, method: str, params: JsonObject) -> JsonObject:
        """Ask the caller on the gateway's event loop, which is a different loop from that of functions."""
        asking = self._ask_there(key, method, params)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

    async def _ask_there(self, key: str, method: str, params: JsonObject) -> JsonObject:
        unasked = ToolError(
            "this call has a question, but its caller cannot answer questions",
            suggestion=f"use an MCP client that answers {method}",
        )
        if self._line is None:
            raise unasked
        self._hold()
        try:
            answer = await self._line.ask(key, method, params)
        except Unasked:
            raise unasked from None
        finally:
            self._go_on()
        if not isinstance(answer, Mapping):
            raise ToolError("the caller's answer is not an object")
        return answer
