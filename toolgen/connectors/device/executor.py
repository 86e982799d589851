"""Calls of tools that run on their caller's own device: the JSON-RPC 2.0 request is stored until the device fetches and answers it."""

from __future__ import annotations

from typing import Protocol

from toolgen.core.json_codec import encode_json
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call
from toolgen.model.device import deferred
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Error, Failed, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.template import PLACEHOLDER, rendered
from toolgen.model.tool import DeviceBinding

__all__ = ["DeviceExecutor", "DeviceQueue"]

MAX_REQUEST_SIZE = 65_536
_MAX_VALUE_LENGTH = 300
_NOBODY = Error(code="internal", message="this process has no store for requests of devices; nothing was sent")


class DeviceQueue(Protocol):
    """Store of requests until they are answered or expire."""

    async def keep(self, call: Call, request: JsonObject, timeout_s: float) -> Error | None:
        """Store the `request` as it is sent, and the text to `display`, durably. Return the reason of a failure, or None."""


class DeviceExecutor:
    """Executor that only stores requests, because a device fetches them. Without a `queue` it can only show previews."""

    def __init__(self, queue: DeviceQueue | None = None) -> None:
        self._queue = queue

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Store the request. `deferred` is not a failure; `deliver` converts it to a waiting call."""
        request = _asked(call)
        size = len(encode_json(request))
        if size > MAX_REQUEST_SIZE:
            message = f"the request to the device has {size} bytes, and {MAX_REQUEST_SIZE} are the limit"
            return Refused(error=Error(code="validation", message=message, suggestion="send less", rule="arguments"))
        if self._queue is None:
            return Refused(error=_NOBODY)
        fault = await self._queue.keep(call, request, _binding(call).timeout_s)
        if fault is not None:
            return Refused(error=fault)
        return Failed(error=deferred(call.id, call.rule))

    def preview(self, call: Call) -> JsonObject:
        """Return the request, and the text to display."""
        return _asked(call)

    async def close(self) -> None:
        """Do nothing, because no resource is open."""


def _asked(call: Call) -> JsonObject:
    binding = _binding(call)
    arguments = own_arguments(call.tool, call.arguments)
    params = rendered(binding.params, arguments)
    request: JsonObject = {"jsonrpc": "2.0", "id": call.id, "method": binding.method, "params": params}
    display = _displayed(binding.display, arguments)
    return {"request": request, "display": display} if display else {"request": request}


def _binding(call: Call) -> DeviceBinding:
    binding = call.tool.binding
    assert isinstance(binding, DeviceBinding)  # noqa: S101 - the tool of such a source
    return binding


def _displayed(text: str, arguments: JsonObject) -> str:
    """Fill arguments into a text for a person. An agent wrote them: each is put on one line, without invisible characters, and bounded."""
    return PLACEHOLDER.sub(lambda found: _legible(arguments.get(found[1], "")), text)


def _legible(value: Json) -> str:
    text = value if isinstance(value, str) else encode_json(value).decode("utf-8")
    return bounded(" ".join(visible(text).split()), _MAX_VALUE_LENGTH)
