"""Calls of Python functions: in this process, the async ones on the gateway's loop and the others in a few threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from toolgen.errors import place_of
from toolgen.functions import Audio, EmbeddedResource, Image, ToolContext, ToolError
from toolgen.model.call import Call
from toolgen.model.line import InputNeeded
from toolgen.model.result import Error, Failed, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import FunctionBinding
from toolgen.signatures import Broken, Offer, load_offers

__all__ = ["FunctionExecutor"]

_MOST_THREADS = 16
_LARGEST = 1_048_576
_logger = logging.getLogger("toolgen.tools")


class FunctionExecutor:
    """The functions of one module, which is imported at its first call. What a function raises is for the log; its type is told."""

    def __init__(self, module: str, root: str) -> None:
        self._module = module
        self._root = root
        self._offers: Mapping[str, Offer | Broken] | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Calls the function, for as long as its mark says."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        if self._offers is None:
            self._offers = await asyncio.to_thread(load_offers, self._module, self._root)
        offer = self._offers.get(binding.function)
        if not isinstance(offer, Offer) or offer.code != binding.code:
            return Refused(
                error=Error(
                    code="handler_error",
                    message="this function is not the one that was built: its code has changed since",
                    suggestion="tell whoever runs the gateway to run `toolgen build`",
                )
            )
        try:
            arguments = offer.arguments(call.arguments)
        except msgspec.ValidationError as error:
            return Refused(error=Error(code="validation", message=str(error), rule="arguments"))
        loop = asyncio.get_running_loop()
        if offer.context:
            arguments[offer.context] = ToolContext(
                call_id=call.id, principal=call.principal.id, line=call.line, loop=loop
            )
        return await self._carried(offer, arguments, call.id)

    async def _carried(self, offer: Offer, arguments: dict[str, Any], call_id: str) -> Success | Failed:
        try:
            async with asyncio.timeout(offer.mark.timeout_s) as patience:
                if offer.context:
                    arguments[offer.context].limited(patience)
                answer = await self._called(offer, arguments)
            return _answered(answer)
        except InputNeeded:
            return _ASKS
        except BaseExceptionGroup as group:
            if group.subgroup(InputNeeded) is not None:
                return _ASKS
            if not isinstance(group, Exception):
                raise
            return _broken(group, call_id)
        except ToolError as error:
            return Failed(error=Error(code="handler_error", message=error.message, suggestion=error.suggestion))
        except TimeoutError as error:
            if not patience.expired():
                return _broken(error, call_id)
            message = f"the function did not end within {offer.mark.timeout_s:g} s, and may still be running"
            return Failed(
                error=Error(
                    code="upstream_timeout" if offer.mark.effect == "read" else "outcome_unknown", message=message
                )
            )
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            return _broken(error, call_id)

    async def _called(self, offer: Offer, arguments: dict[str, Any]) -> Any:
        if offer.is_async:
            return await offer.function(**arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="toolgen-function")
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(offer.function, **arguments))

    def preview(self, call: Call) -> JsonObject:
        """Which function would be called, with what."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        return {"function": f"{binding.module}.{binding.function}", "arguments": call.arguments}

    async def close(self) -> None:
        """Begins nothing more; what still runs in a thread ends with the process."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


_ASKS = Failed(  # what `deliver` makes a call that waits of
    error=Error(
        code="input_required",
        message="the call has a question for its caller",
        suggestion="answer it and make the call again",
    )
)


def _answered(answer: Any) -> Success | Failed:
    try:
        data: Json = msgspec.to_builtins(answer, str_keys=True, enc_hook=_plain)
        size = len(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return Failed(
            error=Error(code="handler_error", message=f"the function's answer has no JSON form: {type(error).__name__}")
        )
    if size > _LARGEST:
        message = f"the function's answer has {size} bytes, and {_LARGEST} are the most"
        return Failed(error=Error(code="response_too_large", message=message, suggestion="ask for less"))
    return Success(data=data, facts={"bytes": size})


def _plain(value: object) -> object:
    if isinstance(value, Image | Audio | EmbeddedResource):
        return value.to_json()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def _broken(error: BaseException, call_id: str) -> Failed:
    _logger.error("the function of call %s raised %s", call_id, place_of(error))
    return Failed(
        error=Error(
            code="handler_error",
            message=f"the function failed: {type(error).__name__}",
            suggestion="the gateway's log says where; try other arguments, or tell whoever runs it",
        )
    )
