"""Python functions as tools: the mark that makes one, what it is given to speak to its caller, and how a module of them is read."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

from toolgen.model.client_channel import Line, Unasked
from toolgen.model.schema import Json, JsonObject

__all__ = [
    "CAPABILITIES",
    "MARK",
    "Audio",
    "Elicited",
    "EmbeddedResource",
    "Image",
    "Mark",
    "ToolContext",
    "ToolError",
    "tool",
]

Function = TypeVar("Function", bound=Callable[..., Any])

MARK = "__toolgen_tool__"
CAPABILITIES = ("elicitation", "roots", "sampling")
_DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What `@tool` says of a function; "" and None leave it to the function's own name, docstring and annotations."""

    effect: str
    name: str = ""
    title: str = ""
    description: str = ""
    idempotent: bool | None = None
    timeout_s: float = _DEFAULT_TIMEOUT_S
    requires: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *,
    effect: Literal["read", "write", "destructive"] = "write",
    name: str = "",
    title: str = "",
    description: str = "",
    idempotent: bool | None = None,
    timeout: float = _DEFAULT_TIMEOUT_S,
    requires: tuple[str, ...] = (),
    input_schema: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]: ...


def tool(function: Any = None, /, **said: Any) -> Any:  # the overloads are the signature
    """Marks a function as a tool; it stays what it was, and can be called as before.

    `effect` is what a call may do (`write` where nobody says): the policy goes by it. `timeout` is in seconds. `requires` names what a
    caller must be able to answer (elicitation, roots, sampling). `input_schema` stands in place of the one that the annotations give, for
    a function that takes `**arguments`. Raises `ValueError` for a word that means nothing.
    """
    seconds = said.pop("timeout", _DEFAULT_TIMEOUT_S)
    mark = Mark(**{"effect": "write", **said}, timeout_s=seconds)
    if mark.effect not in {"read", "write", "destructive"}:
        raise ValueError(f"effect: {mark.effect!r} is not read, write or destructive")
    if not 0 < mark.timeout_s <= 3600:
        raise ValueError("timeout: takes seconds, up to an hour")
    if unknown := set(mark.requires) - set(CAPABILITIES):
        raise ValueError(f"requires: {min(unknown)!r} is none of {', '.join(CAPABILITIES)}")

    def put(made: Any) -> Any:
        setattr(made, MARK, mark)
        return made

    return put if function is None else put(function)


class ToolError(Exception):
    """Raised by a function to tell the agent what went wrong, in its own words; the text of any other exception stays in the log."""

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


class _File:
    """Bytes of some type; no dataclass, because those are JSON already, and these have a form of their own."""

    __slots__ = ("data", "media_type")

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data = data
        self.media_type = media_type

    def to_json(self) -> JsonObject:
        """The file as contracts.md shapes it."""
        return {"base64": base64.b64encode(self.data).decode(), "media_type": self.media_type}


class Image(_File):
    """A picture as an answer, or as a part of one."""

    def __init__(self, data: bytes, media_type: str = "image/png") -> None:
        super().__init__(data, media_type)


class Audio(_File):
    """A recording as an answer, or as a part of one."""

    def __init__(self, data: bytes, media_type: str = "audio/wav") -> None:
        super().__init__(data, media_type)


class EmbeddedResource:
    """A document as an answer, or as a part of one, with the URI it is known by."""

    __slots__ = ("media_type", "text", "uri")

    def __init__(self, uri: str, text: str, media_type: str = "text/plain") -> None:
        self.uri = uri
        self.text = text
        self.media_type = media_type

    def to_json(self) -> JsonObject:
        """As JSON, with our names."""
        return {"uri": self.uri, "media_type": self.media_type, "text": self.text}


@dataclass(frozen=True, slots=True)
class Elicited:
    """What a person answered: `accept` with `content`, `decline`, or `cancel` where they did neither."""

    action: str
    content: Mapping[str, Json] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether the person answered."""
        return self.action == "accept"


class _Done:
    """Awaitable, and nothing to wait for: `ctx.progress(…)` reads the same with `await` and without."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()


class ToolContext:
    """What a function is given, besides its arguments, when it has a parameter of this type.

    A question is a point to which the function may come again: a caller of MCP's stateless era answers by making the call once more, and
    then the function runs from its beginning, with the answer at hand. So ask first, and change things afterwards.
    """

    __slots__ = ("_asking", "_left_s", "_line", "_loop", "_time_limit", "call_id", "logger", "principal")

    def __init__(self, *, call_id: str, principal: str, line: Line | None, loop: asyncio.AbstractEventLoop) -> None:
        self.call_id = call_id
        self.principal = principal
        self.logger = logging.LoggerAdapter(logging.getLogger("toolgen.tools"), {"call_id": call_id})
        self._line = line
        self._loop = loop
        self._time_limit: asyncio.Timeout | None = None
        self._asking = 0
        self._left_s = 0.0

    @property
    def capabilities(self) -> frozenset[str]:
        """What the caller can be asked for: elicitation, roots, sampling."""
        return frozenset() if self._line is None else self._line.capabilities

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this call any more; what it has done stays done."""
        return self._line is not None and self._line.left()

    def progress(self, done: float, total: float | None = None, message: str = "") -> Awaitable[None]:
        """Tells the caller how far this is. Also from a function that is not async, which runs in a thread."""
        if self._line is not None:
            self._loop.call_soon_threadsafe(self._line.progress, done, total, message)
        return _DONE

    async def elicit(self, message: str, schema: Mapping[str, Any], *, key: str = "input") -> Elicited:
        """Asks the person behind the caller. `schema` is a flat object's; `key` tells several questions of one call apart.

        Raises `ToolError` where the caller has nobody to ask; look at `capabilities` to do without.
        """
        answer = await self._ask(
            key, "elicitation/create", {"mode": "form", "message": message, "requestedSchema": dict(schema)}
        )
        content = answer.get("content")
        return Elicited(str(answer.get("action")), content if isinstance(content, Mapping) else {})

    async def sample(self, messages: list[Mapping[str, Any]], *, max_tokens: int, key: str = "sample") -> JsonObject:
        """Asks the caller's own model. The answer is a stranger's text. Raises as `elicit` does."""
        params: dict[str, Json] = {"messages": [dict(one) for one in messages], "maxTokens": max_tokens}
        return await self._ask(key, "sampling/createMessage", params)

    async def roots(self, *, key: str = "roots") -> tuple[str, ...]:
        """The URIs of the folders that the caller works in. Raises as `elicit` does."""
        answer = await self._ask(key, "roots/list", MappingProxyType({}))
        found = answer.get("roots")
        listed = found if isinstance(found, list) else []
        return tuple(str(one["uri"]) for one in listed if isinstance(one, Mapping) and "uri" in one)

    def limited(self, time_limit: asyncio.Timeout | None) -> None:
        """The gateway's own: this function's time, which stands still while its caller is asked; None when it is over."""
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
        """Asks where the caller is: on the gateway's loop, which is not the one that functions run on."""
        asking = self._ask_there(key, method, params)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

    async def _ask_there(self, key: str, method: str, params: JsonObject) -> JsonObject:
        unasked = ToolError(
            "this call has a question, and its caller cannot be asked",
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
