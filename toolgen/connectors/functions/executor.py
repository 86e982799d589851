"""Calls of Python functions: in this process, in threads and on an event loop separate from the gateway's."""

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
    """Executor of the functions of one module, which is imported at its first call. Texts of exceptions are only logged; the caller gets
    their type.
    """

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
        """Call the function, with the time limit of its mark."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        if self._offers is None and (refused := await self._load(call)) is not None:
            return refused
        offer = (self._offers or {}).get(binding.function)
        if not isinstance(offer, FunctionTool) or offer.code != binding.code:
            return Refused(
                error=Error(
                    code="handler_error",
                    message="the code of this function has changed since the build",
                    suggestion="ask the operator of the gateway to run `toolgen build`",
                )
            )
        try:
            arguments = offer.arguments(own_arguments(call.tool, call.arguments))
        except msgspec.ValidationError as error:
            return Refused(error=Error(code="validation", message=str(error), rule="arguments"))
        if offer.context:
            return await self._with_context(offer, arguments, call)
        return await self._run_function(offer, arguments, call, None)

    async def _load(self, call: Call) -> Refused | None:
        """Import the module in a thread with a time limit, because its code may run for ever."""
        try:
            async with self._runtime.time_limit(_IMPORT_S):
                self._offers = await self._runtime.apart(call.principal.id, call.tool.name, self._load_tools)
        except ThreadsBusy:
            return _too_many_running()
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
            call=None if inner is None else lambda name, asked: under_way.made(_inner_call(inner, call, name, asked)),
            folder=folder.path,
            updated=self._runtime.resource_updated,
        )
        try:
            result = await self._run_function(offer, arguments, call, (context, folder))
        finally:
            context.end()
            await under_way.end()
            await folder.close()
        if folder.overfull:
            return _OVERFULL
        notes = under_way.row_notes.told
        return msgspec.structs.replace(result, row_notes=notes) if notes and not isinstance(result, Refused) else result

    async def _run_function(
        self, offer: FunctionTool, arguments: dict[str, Any], call: Call, given: tuple[ToolContext, CallFolder] | None
    ) -> Success | Failed | Refused:
        try:
            async with self._runtime.time_limit(offer.mark.timeout_s) as time_limit:
                if given is not None:
                    given[0].limited(time_limit)
                    given[1].set_full_callback(partial(_ends, time_limit))
                try:
                    answer = await self._runtime.run(offer, arguments, who=call.principal.id, name=call.tool.name)
                finally:
                    if given is not None:
                        given[0].limited(None)
            return self._checked_answer(answer, offer, call)
        except ThreadsBusy:
            return _too_many_running()
        except InputNeeded:
            return _ASKS
        except BaseExceptionGroup as group:
            return _function_error(group, call.id) if group.subgroup(InputNeeded) is None else _ASKS
        except ToolError as error:
            message = bounded(error.message, offer.mark.error_message_limit)
            rule = "retry" if isinstance(error, Retry) else ""
            told = Error(code="handler_error", message=message, suggestion=error.suggestion, rule=rule)
            return Failed(error=told, quotes=True)
        except TimeoutError as error:
            return self._too_long(offer) if time_limit.expired() else _function_error(error, call.id)
        except Escaped as escaped:
            return _function_error(escaped.error, call.id)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            return _function_error(error, call.id)

    def _checked_answer(self, answer: Any, offer: FunctionTool, call: Call) -> Success | Failed:
        """Return the answer as JSON, checked against the function's output schema."""
        try:
            data, size = _portable(offer.written(answer, _plain))
        except (TooDeepError, RecursionError):
            return _unusable(f"the function's answer is nested more than {MAX_DEPTH} levels deep")
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            return _unusable(f"the function's answer has no JSON form: {type(error).__name__}")
        if size > _MAX_SIZE:
            message = f"the function's answer has {size} bytes, and {_MAX_SIZE} are the limit"
            return Failed(error=Error(code="response_too_large", message=message, suggestion="ask for less"))
        if call.tool.output_schema is not None and (fault := self._fault(data, call)):
            return _unusable(f"the function's answer does not match its output schema: {fault}")
        if answer is None and call.tool.output_schema is None:
            size = 0  # no data, rather than a null with a meaning
        return Success(data=data, delivery=Delivery(bytes=size), shape=Shape.PARTS if offer.content else Shape.WHOLE)

    def _fault(self, data: Json, call: Call) -> str:
        """Return place and kind of the first violation of the answer's schema, without values of the answer; "" if there is none."""
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
        """Return the function that would be called, and its arguments."""
        binding = call.tool.binding
        assert isinstance(binding, FunctionBinding)  # noqa: S101 - the tool of such a source
        return {
            "function": f"{binding.module}.{binding.function}",
            "arguments": own_arguments(call.tool, call.arguments),
        }

    async def close(self) -> None:
        """Stop the runtime of functions, which all sources share."""
        await self._runtime.close()


_ASKS = Failed(  # error that `deliver` converts to a waiting call
    error=Error(
        code="input_required",
        message="the call has a question for its caller",
        suggestion="answer it and make the call again",
    )
)


def _too_many_running() -> Refused:
    return Refused(
        error=Error(
            code="upstream_unavailable",
            message="the maximum number of functions of this caller is running; nothing was called",
            suggestion="wait for the running calls; if there are none, tell the operator of the gateway that functions hang",
            retry_after_s=_CROWDED_RETRY_S,
            rule="concurrency",
        )
    )


_OVERFULL = Failed(
    error=Error(
        code="handler_error",
        message=f"the function's folder held more than {MAX_SIZE // 1_048_576} MiB or {MAX_FILES} files",
        suggestion="request less data; its earlier effects are not undone",
    )
)


async def _inner_call(inner: InnerCalls, outer: Call, name: str, arguments: JsonObject) -> Envelope:
    return (await inner.call(outer, name, arguments)).envelope


def _ends(time_limit: asyncio.Timeout) -> None:
    if not time_limit.expired():
        time_limit.reschedule(asyncio.get_running_loop().time())


def _unusable(message: str) -> Failed:
    suggestion = "it has run, so do not repeat the call; tell the operator of the gateway that its answer is wrong"
    return Failed(error=Error(code="handler_error", message=message, suggestion=suggestion))


def _portable(data: Json) -> tuple[Json, int]:
    """Return an answer in a form for every JSON program, and its size.

    Raises `ValueError` for NaN and infinities, which JSON lacks, and `TooDeepError` for more than `MAX_DEPTH` levels.
    """
    written = b""
    with suppress(TypeError, ValueError):  # an unpaired surrogate, or an integer of more than 64 bits
        written = msgspec.json.encode(data)
    if not written or b"null" in written:  # msgspec writes null for NaN and infinities too
        if not _is_finite(data):
            raise ValueError("a number without a JSON form")
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
    if isinstance(value, str):  # a derived class, such as that of `ctx.principal`
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_model(type(value)) and hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings="none")
    raise TypeError(type(value).__name__)


def _function_error(error: BaseException, call_id: str) -> Failed:
    _logger.error("the function of call %s raised %s", call_id, place_of(error))
    return Failed(
        error=Error(
            code="handler_error",
            message=f"the function failed: {type(error).__name__}",
            suggestion="the gateway's log has the place; try other arguments, or tell its operator",
        )
    )
