"""Calls of Python functions: in this process, in threads and on a loop that are not the gateway's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import orjson

from toolgen.errors import DescriptionError, place_of
from toolgen.execute.function_job import Crowded, Escaped
from toolgen.execute.function_runtime import FunctionRuntime
from toolgen.functions import Audio, EmbeddedResource, Image, ToolContext, ToolError
from toolgen.json_codec import carried, encode_json
from toolgen.model.call import Call
from toolgen.model.line import InputNeeded
from toolgen.model.result import Error, Failed, Refused, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import FunctionBinding
from toolgen.signatures import Broken, Offer, load_offers

__all__ = ["FunctionExecutor"]

_IMPORT_S = 60.0
_CROWDED_RETRY_S = 1.0
_LARGEST = 1_048_576
_logger = logging.getLogger("toolgen.tools")


class FunctionExecutor:
    """The functions of one module, which is imported at its first call. What a function raises is for the log; its type is told."""

    def __init__(self, module: str, root: str, runtime: FunctionRuntime) -> None:
        self._module = module
        self._root = root
        self._runtime = runtime
        self._offers: Mapping[str, Offer | Broken] | None = None

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Calls the function, for as long as its mark says."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        if self._offers is None and (refused := await self._load(call)) is not None:
            return refused
        offer = (self._offers or {}).get(binding.function)
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
        if offer.context:
            arguments[offer.context] = ToolContext(
                call_id=call.id, principal=call.principal.id, line=call.line, loop=asyncio.get_running_loop()
            )
        return await self._carried(offer, arguments, call, content=binding.content)

    async def _load(self, call: Call) -> Refused | None:
        """Imports the module, which runs it, and so may take for ever: not here, and not without an end."""
        work = partial(load_offers, self._module, self._root)
        try:
            async with self._runtime.patience(_IMPORT_S):
                self._offers = await self._runtime.apart(call.principal.id, call.tool.name, work)
        except Crowded:
            return _crowded()
        except Escaped as escaped:
            raise DescriptionError(f"importing the module ended in {escaped}", where=self._module) from escaped
        except TimeoutError:
            message = f"importing its module did not end within {_IMPORT_S:g} s"
            return Refused(error=Error(code="upstream_unavailable", message=message))
        return None

    async def _carried(
        self, offer: Offer, arguments: dict[str, Any], call: Call, *, content: bool
    ) -> Success | Failed | Refused:
        context = arguments[offer.context] if offer.context else None
        try:
            async with self._runtime.patience(offer.mark.timeout_s) as patience:
                if context is not None:
                    context.limited(patience)
                try:
                    answer = await self._runtime.run(offer, arguments, who=call.principal.id, name=call.tool.name)
                finally:
                    if context is not None:
                        context.limited(None)
            return _answered(answer, Shape.PARTS if content else Shape.WHOLE)
        except Crowded:
            return _crowded()
        except InputNeeded:
            return _ASKS
        except BaseExceptionGroup as group:
            return _broken(group, call.id) if group.subgroup(InputNeeded) is None else _ASKS
        except ToolError as error:
            told = Error(code="handler_error", message=error.message, suggestion=error.suggestion)
            return Failed(error=told, quotes=True)
        except TimeoutError as error:
            return self._too_long(offer) if patience.expired() else _broken(error, call.id)
        except Escaped as escaped:
            return _broken(escaped.error, call.id)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            return _broken(error, call.id)

    def _too_long(self, offer: Offer) -> Failed:
        message = f"the function did not end within {offer.mark.timeout_s:g} s, and may still be running"
        if self._runtime.leaving:
            message = "the gateway stopped before the function had ended"
        code = "upstream_timeout" if offer.mark.effect == "read" else "outcome_unknown"
        return Failed(error=Error(code=code, message=message))

    def preview(self, call: Call) -> JsonObject:
        """Which function would be called, with what."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        return {"function": f"{binding.module}.{binding.function}", "arguments": call.arguments}

    async def close(self) -> None:
        """Ends what runs the functions, which all sources share."""
        await self._runtime.close()


_ASKS = Failed(  # what `deliver` makes a call that waits of
    error=Error(
        code="input_required",
        message="the call has a question for its caller",
        suggestion="answer it and make the call again",
    )
)


def _crowded() -> Refused:
    return Refused(
        error=Error(
            code="upstream_unavailable",
            message="every place for functions that this caller has is taken by some that have not ended; nothing was called",
            suggestion="wait for the calls under way; where there are none, tell whoever runs the gateway that functions hang",
            retry_after_s=_CROWDED_RETRY_S,
            rule="concurrency",
        )
    )


def _answered(answer: Any, shape: Shape) -> Success | Failed:
    try:
        data: Json = msgspec.to_builtins(answer, str_keys=True, enc_hook=_plain)
        data, size = _portable(data)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return Failed(
            error=Error(code="handler_error", message=f"the function's answer has no JSON form: {type(error).__name__}")
        )
    if size > _LARGEST:
        message = f"the function's answer has {size} bytes, and {_LARGEST} are the most"
        return Failed(error=Error(code="response_too_large", message=message, suggestion="ask for less"))
    return Success(data=data, facts={"bytes": size}, shape=shape)


def _portable(data: Json) -> tuple[Json, int]:
    """An answer that every JSON program can be given, and its size."""
    with suppress(TypeError):  # of what orjson has no form for
        written = orjson.dumps(data)
        if b"null" not in written:  # which it writes for NaN and infinities too
            return data, len(written)
    data = carried(data)
    return data, len(encode_json(data))


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
