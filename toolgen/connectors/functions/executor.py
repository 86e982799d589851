"""Calls of Python functions: in this process, in threads and on a loop that are not the gateway's own."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import jsonschema_rs
import msgspec

from toolgen.connectors.executor import InnerCalls
from toolgen.connectors.functions.context import ToolContext
from toolgen.connectors.functions.decorator import Audio, EmbeddedResource, Image, Retry, ToolError
from toolgen.connectors.functions.pydantic_types import is_model
from toolgen.connectors.functions.runtime import FunctionRuntime
from toolgen.connectors.functions.signature import Broken, FunctionTool, load_offers
from toolgen.connectors.functions.threads import Escaped, ThreadsBusy
from toolgen.connectors.functions.work_folder import MAX_FILES, MAX_SIZE, CallFolder
from toolgen.connectors.inner_calls import UnderWay
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import DescriptionError, place_of
from toolgen.core.json_codec import MAX_DEPTH, TooDeepError, carried, deeper_than, encode_json
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call
from toolgen.model.client_channel import InputNeeded
from toolgen.model.excerpt import bounded
from toolgen.model.result import Delivery, Envelope, Error, Failed, Refused, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import FunctionBinding

__all__ = ["FunctionExecutor", "FunctionRuntime"]


_IMPORT_S = 60.0
_CROWDED_RETRY_S = 1.0
_MAX_SIZE = 1_048_576
_logger = logging.getLogger("toolgen.tools")


class FunctionExecutor:
    """The functions of one module, which is imported at its first call. What a function raises is for the log; its type is told."""

    def __init__(
        self,
        module: str,
        root: str,
        runtime: FunctionRuntime,
        load: Callable[[], Mapping[str, FunctionTool | Broken]] | None = None,
    ) -> None:
        self._module = module
        self._load_tools = load or partial(load_offers, module, root)
        self._runtime = runtime
        self._offers: Mapping[str, FunctionTool | Broken] | None = None
        self._promised: dict[str, jsonschema_rs.Validator] = {}

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Calls the function, for as long as its mark says."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        if self._offers is None and (refused := await self._load(call)) is not None:
            return refused
        offer = (self._offers or {}).get(binding.function)
        if not isinstance(offer, FunctionTool) or offer.code != binding.code:
            return Refused(
                error=Error(
                    code="handler_error",
                    message="this function is not the one that was built: its code has changed since",
                    suggestion="tell the operator of the gateway to run `toolgen build`",
                )
            )
        try:
            arguments = offer.arguments(own_arguments(call.tool, call.arguments))
        except msgspec.ValidationError as error:
            return Refused(error=Error(code="validation", message=str(error), rule="arguments"))
        if offer.context:
            return await self._with_context(offer, arguments, call)
        return await self._carried(offer, arguments, call, None)

    async def _load(self, call: Call) -> Refused | None:
        """Imports the module, which runs it, and so may take for ever: not here, and not without an end."""
        try:
            async with self._runtime.time_limit(_IMPORT_S):
                self._offers = await self._runtime.apart(call.principal.id, call.tool.name, self._load_tools)
        except ThreadsBusy:
            return _crowded()
        except Escaped as escaped:
            raise DescriptionError(f"importing the module ended in {escaped}", where=self._module) from escaped
        except TimeoutError:
            message = f"importing its module did not end within {_IMPORT_S:g} s"
            return Refused(error=Error(code="upstream_unavailable", message=message))
        return None

    async def _with_context(
        self, offer: FunctionTool, arguments: dict[str, Any], call: Call
    ) -> Success | Failed | Refused:
        loop, inner, under_way = asyncio.get_running_loop(), self._runtime.inner, UnderWay()
        folder = CallFolder(self._runtime.folders, loop)
        context = arguments[offer.context] = ToolContext(
            call_id=call.id,
            principal=call.principal,
            line=call.line,
            loop=loop,
            call=None if inner is None else lambda name, asked: under_way.made(_called(inner, call, name, asked)),
            folder=folder.path,
            updated=self._runtime.resource_updated,
        )
        try:
            result = await self._carried(offer, arguments, call, (context, folder))
        finally:
            context.end()
            await under_way.end()
            await folder.close()
        if folder.overfull:
            return _OVERFULL
        notes = under_way.row_notes.told
        return msgspec.structs.replace(result, row_notes=notes) if notes and not isinstance(result, Refused) else result

    async def _carried(
        self, offer: FunctionTool, arguments: dict[str, Any], call: Call, given: tuple[ToolContext, CallFolder] | None
    ) -> Success | Failed | Refused:
        try:
            async with self._runtime.time_limit(offer.mark.timeout_s) as time_limit:
                if given is not None:
                    given[0].limited(time_limit)
                    given[1].bounded_by(partial(_ends, time_limit))
                try:
                    answer = await self._runtime.run(offer, arguments, who=call.principal.id, name=call.tool.name)
                finally:
                    if given is not None:
                        given[0].limited(None)
            return self._answered(answer, offer, call)
        except ThreadsBusy:
            return _crowded()
        except InputNeeded:
            return _ASKS
        except BaseExceptionGroup as group:
            return _broken(group, call.id) if group.subgroup(InputNeeded) is None else _ASKS
        except ToolError as error:
            message = bounded(error.message, offer.mark.error_message_limit)
            rule = "retry" if isinstance(error, Retry) else ""
            told = Error(code="handler_error", message=message, suggestion=error.suggestion, rule=rule)
            return Failed(error=told, quotes=True)
        except TimeoutError as error:
            return self._too_long(offer) if time_limit.expired() else _broken(error, call.id)
        except Escaped as escaped:
            return _broken(escaped.error, call.id)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            return _broken(error, call.id)

    def _answered(self, answer: Any, offer: FunctionTool, call: Call) -> Success | Failed:
        """The answer as JSON, held against what the function says that it answers."""
        try:
            data, size = _portable(offer.written(answer, _plain))
        except (TooDeepError, RecursionError):
            return _unusable(f"the function's answer is nested more than {MAX_DEPTH} levels deep")
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            return _unusable(f"the function's answer has no JSON form: {type(error).__name__}")
        if size > _MAX_SIZE:
            message = f"the function's answer has {size} bytes, and {_MAX_SIZE} are the most"
            return Failed(error=Error(code="response_too_large", message=message, suggestion="ask for less"))
        if call.tool.output_schema is not None and (fault := self._fault(data, call)):
            return _unusable(f"the function's answer is not what it says: {fault}")
        if answer is None and call.tool.output_schema is None:
            size = 0  # it answers nothing, rather than a null that would mean something
        return Success(data=data, delivery=Delivery(bytes=size), shape=Shape.PARTS if offer.content else Shape.WHOLE)

    def _fault(self, data: Json, call: Call) -> str:
        """Place and kind of the first fault where an answer breaks its schema, without a word of the answer; "" where it does not."""
        tool = call.tool
        if tool.digest not in self._promised:
            self._promised[tool.digest] = jsonschema_rs.validator_for(dict(tool.output_schema or {}), offline=True)
        validator = self._promised[tool.digest]
        if validator.is_valid(data):
            return ""
        fault = next(validator.iter_errors(data))
        place = "/".join(("", *(bounded(str(step), 40) for step in fault.instance_path))) or "the answer"
        return f"{place} breaks `{fault.kind.name}` of its schema"

    def _too_long(self, offer: FunctionTool) -> Failed:
        message = f"the function did not end within {offer.mark.timeout_s:g} s, and may still be running"
        if self._runtime.leaving:
            message = "the gateway stopped before the function had ended"
        code: ErrorCode = "upstream_timeout" if offer.mark.effect == "read" else "outcome_unknown"
        return Failed(error=Error(code=code, message=message))

    def preview(self, call: Call) -> JsonObject:
        """Which function would be called, with what."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        return {
            "function": f"{binding.module}.{binding.function}",
            "arguments": own_arguments(call.tool, call.arguments),
        }

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
            suggestion="wait for the calls under way; where there are none, tell the operator of the gateway that functions hang",
            retry_after_s=_CROWDED_RETRY_S,
            rule="concurrency",
        )
    )


_OVERFULL = Failed(
    error=Error(
        code="handler_error",
        message=f"the function's folder held more than {MAX_SIZE // 1_048_576} MiB or {MAX_FILES} files",
        suggestion="ask for less; what it did before stays done",
    )
)


async def _called(inner: InnerCalls, outer: Call, name: str, arguments: JsonObject) -> Envelope:
    return (await inner.call(outer, name, arguments)).envelope


def _ends(time_limit: asyncio.Timeout) -> None:
    if not time_limit.expired():
        time_limit.reschedule(asyncio.get_running_loop().time())


def _unusable(message: str) -> Failed:
    suggestion = "it has run, so do not repeat it for this; tell the operator of the gateway that its answer is wrong"
    return Failed(error=Error(code="handler_error", message=message, suggestion=suggestion))


def _portable(data: Json) -> tuple[Json, int]:
    """An answer that every JSON program can be given, and its size.

    Raises `ValueError` for NaN and infinities, which no JSON has, and `TooDeepError` for more than `MAX_DEPTH` levels.
    """
    written = b""
    with suppress(TypeError, ValueError):  # half a surrogate pair, an integer without an end
        written = msgspec.json.encode(data)
    if not written or b"null" in written:  # which msgspec writes for NaN and infinities too
        if not _is_finite(data):
            raise ValueError("a number that is none")
        data = carried(data)
        written = encode_json(data)
    if deeper_than(written, MAX_DEPTH):
        raise TooDeepError
    return data, len(written)


def _is_finite(data: Json) -> bool:
    waiting: list[Any] = [data]
    while waiting:
        match waiting.pop():
            case float() as number if not math.isfinite(number):
                return False
            case Mapping() as found:
                waiting += found.values()
            case list() | tuple() as found:
                waiting += found
    return True


def _plain(value: object) -> object:
    if isinstance(value, Image | Audio | EmbeddedResource):
        return value.to_json()
    if isinstance(value, str):  # of a class of its own, as `ctx.principal` is
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_model(type(value)) and hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings="none")
    raise TypeError(type(value).__name__)


def _broken(error: BaseException, call_id: str) -> Failed:
    _logger.error("the function of call %s raised %s", call_id, place_of(error))
    return Failed(
        error=Error(
            code="handler_error",
            message=f"the function failed: {type(error).__name__}",
            suggestion="the gateway's log says where; try other arguments, or tell its operator",
        )
    )
