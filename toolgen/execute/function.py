"""Calls of Python functions: in this process, in threads and on a loop that are not the gateway's own.

What runs the functions of a project: threads, an event loop, and the time that each call has until the gateway leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import orjson

from toolgen.errors import DescriptionError, place_of
from toolgen.execute.base import FunctionCounts
from toolgen.execute.function_threads import Crowded, Escaped, FunctionLoop, FunctionThreads, Shares, Watch
from toolgen.functions.decorator import Audio, EmbeddedResource, Image, ToolContext, ToolError
from toolgen.functions.signature import Broken, Offer, load_offers
from toolgen.json_codec import carried, encode_json
from toolgen.model.call import Call
from toolgen.model.client_channel import InputNeeded
from toolgen.model.result import Delivery, Error, Failed, Refused, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import FunctionBinding

__all__ = ["FunctionExecutor", "FunctionRuntime"]

_MAX_LOST_LOOPS = 4
_WATCH = Watch()
_SHARES = Shares()


class FunctionRuntime:
    """One for all functions of a gateway: what they share, a client of a database say, lives on the one loop of them all."""

    def __init__(self, shares: Shares = _SHARES, watch: Watch = _WATCH) -> None:
        self._threads = FunctionThreads(shares)
        self._watch = watch
        self._loops: list[FunctionLoop] = []  # the last is in use, unless it is lost as all before it are
        self._blocked = 0
        self._waits: set[asyncio.Timeout] = set()
        self.leaving = False

    @property
    def counts(self) -> FunctionCounts:
        """What there is to say of it in numbers."""
        return FunctionCounts(
            threads=self._threads.running,
            threads_lost=self._threads.lost,
            threads_abandoned=self._threads.abandoned,
            loops_lost=sum(loop.lost and loop.alive for loop in self._loops),
            loops_blocked=self._blocked,
        )

    async def run(self, offer: Offer, arguments: dict[str, Any], *, who: str, name: str) -> Any:
        """What the function answers. Raises what it raises, `Escaped` for what is no error, and `Crowded`."""
        work = partial(offer.function, **arguments)
        if offer.is_async:
            return await self._loop_now().run(who, name, work)
        return await self._threads.run(who, name, work)

    async def apart(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Any other work that may hang: the import of a module. Raises as `run` does."""
        return await self._threads.run(who, name, work)

    @contextlib.asynccontextmanager
    async def time_limit(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """The time that a call has; it is over at once when the gateway gives functions up."""
        async with asyncio.timeout(0 if self.leaving else seconds) as wait:
            self._waits.add(wait)
            try:
                yield wait
            finally:
                self._waits.discard(wait)

    def give_up(self) -> None:
        """Every call that waits for a function has waited long enough: the gateway leaves."""
        self.leaving = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """Begins nothing more, and waits for nothing: what still runs ends with the process."""
        self._threads.close()
        loops, self._loops = self._loops, []
        for loop in loops:
            if not loop.lost:
                await loop.close()

    def _loop_now(self) -> FunctionLoop:
        self._loops = [loop for loop in self._loops if loop.alive]
        if not self._loops or self._loops[-1].lost:
            if len(self._loops) >= _MAX_LOST_LOOPS:
                raise Crowded
            self._loops.append(FunctionLoop(self._watch, self._found))
        return self._loops[-1]

    def _found(self) -> None:
        self._blocked += 1


_IMPORT_S = 60.0
_CROWDED_RETRY_S = 1.0
_MAX_SIZE = 1_048_576
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
                    suggestion="tell the operator of the gateway to run `toolgen build`",
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
            async with self._runtime.time_limit(_IMPORT_S):
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
            async with self._runtime.time_limit(offer.mark.timeout_s) as time_limit:
                if context is not None:
                    context.limited(time_limit)
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
            return self._too_long(offer) if time_limit.expired() else _broken(error, call.id)
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
            suggestion="wait for the calls under way; where there are none, tell the operator of the gateway that functions hang",
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
    if size > _MAX_SIZE:
        message = f"the function's answer has {size} bytes, and {_MAX_SIZE} are the most"
        return Failed(error=Error(code="response_too_large", message=message, suggestion="ask for less"))
    return Success(data=data, delivery=Delivery(bytes=size), shape=shape)


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
            suggestion="the gateway's log says where; try other arguments, or tell its operator",
        )
    )
