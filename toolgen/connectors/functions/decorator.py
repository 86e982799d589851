"""Python functions as tools: the decorator, the errors that a function may raise, and answers other than JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, overload

from msgspec import Struct

from toolgen.model.excerpt import MAX_MESSAGE_LENGTH
from toolgen.model.schema import JsonObject

__all__ = [
    "CAPABILITIES",
    "MARK",
    "Audio",
    "EmbeddedResource",
    "Image",
    "Retry",
    "ToolError",
    "ToolMark",
    "tool",
]

Function = TypeVar("Function", bound=Callable[..., Any])

MARK = "__toolgen_tool__"
CAPABILITIES = ("elicitation", "roots", "sampling", "tasks")
_DEFAULT_TIMEOUT_S = 30.0


class ToolMark(Struct, frozen=True, kw_only=True):
    """Options of `@tool`. "" and None mean that the function's own name, docstring and annotations are used."""

    effect: str
    name: str = ""
    title: str = ""
    description: str = ""
    idempotent: bool | None = None
    timeout_s: float = _DEFAULT_TIMEOUT_S
    requires: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None
    error_message_limit: int = MAX_MESSAGE_LENGTH


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
    error_message_limit: int = MAX_MESSAGE_LENGTH,
) -> Callable[[Function], Function]: ...


def tool(function: Any = None, /, **said: Any) -> Any:  # the overloads are the signature
    """Mark a function as a tool. The function is unchanged and can still be called directly.

    `effect` is what a call may do (`write` by default), which the policy uses. `timeout` is in seconds. `requires` names what the caller's
    client must support (elicitation, roots, sampling); `tasks` among them is for a tool that MCP clients must call as a task.
    `input_schema` replaces the schema made from annotations, for a function that takes `**arguments`. `error_message_limit` is the maximum
    number of characters of an error's message that the agent sees. Raises `ValueError` for an invalid option.
    """
    seconds = said.pop("timeout", _DEFAULT_TIMEOUT_S)
    mark = ToolMark(**{"effect": "write", **said}, timeout_s=seconds)
    if mark.effect not in {"read", "write", "destructive"}:
        raise ValueError(f"effect: {mark.effect!r} is not read, write or destructive")
    if not 0 < mark.timeout_s <= 3600:
        raise ValueError("timeout: takes seconds, up to an hour")
    if unknown := set(mark.requires) - set(CAPABILITIES):
        raise ValueError(f"requires: {min(unknown)!r} is not one of {', '.join(CAPABILITIES)}")
    if not 1 <= mark.error_message_limit <= MAX_MESSAGE_LENGTH:
        raise ValueError(f"error_message_limit: takes 1 to {MAX_MESSAGE_LENGTH} characters")

    def put(made: Any) -> Any:
        setattr(made, MARK, mark)
        return made

    return put if function is None else put(function)


class ToolError(Exception):
    """Error with a message for the agent, raised by a function. The text of any other exception is only logged."""

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


class Retry(ToolError):  # noqa: N818 - what is asked for, and not a fault
    """Error that asks the agent to call again with corrections that the message describes. Raise it before any change is made.

    Each retry costs the conversation a turn like every call, so retries are bounded.
    """

    def __init__(
        self, message: str, *, suggestion: str = "correct the call as the message describes, and call the tool again"
    ) -> None:
        super().__init__(message, suggestion=suggestion)


class _FunctionFile:
    """File in an answer. It is not a dataclass, because dataclasses already have a JSON form, and files have another."""

    __slots__ = ("data", "media_type")

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data = data
        self.media_type = media_type

    def to_json(self) -> JsonObject:
        """Return the JSON form of the file: `base64` and `media_type`."""
        return {"base64": base64.b64encode(self.data).decode(), "media_type": self.media_type}


class Image(_FunctionFile):
    """A picture as an answer, or as a part of one."""

    def __init__(self, data: bytes, media_type: str = "image/png") -> None:
        super().__init__(data, media_type)


class Audio(_FunctionFile):
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
        """Return the JSON form, with toolgen's names."""
        return {"uri": self.uri, "media_type": self.media_type, "text": self.text}
