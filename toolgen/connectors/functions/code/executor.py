"""Execution of a caller's code with Monty, an interpreter of a subset of Python, in a separate process for each run.

The code can only use the given functions: the caller's tools. Each call of one goes through the complete pipeline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from toolgen.connectors.executor import InnerCalls
from toolgen.connectors.functions.code.signatures import is_callable, signature, stubs
from toolgen.connectors.inner_calls import UnderWay
from toolgen.core.json_codec import MAX_DEPTH, TooDeepError, carried, encode_json
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.result import Delivery, Envelope, Error, Failed, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import CodeBinding

__all__ = ["CodeExecutor"]

_MAX_AT_ONCE = 8
_PLACE_S = 10.0
_GRACE_S = 1.0
_MAX_RECURSION = 200
_MAX_SIGNATURES = 50
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ALWAYS = 200
"""Suspensions allowed in addition to those of calls: name lookups, and waiting for gathered calls."""


class CodeExecutor:
    """Executor of code in a pool of processes, one pool for each source. No process is started before the first call."""

    def __init__(self, inner: InnerCalls | None) -> None:
        self._inner = inner
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Run the code to its end, or to the first limit."""
        binding = call.tool.binding
        assert isinstance(binding, CodeBinding)  # noqa: S101 - the tool of such a source
        assert self._inner is not None  # noqa: S101 - a preview executes nothing
        code = self._inner.received(call).get("code")
        pool = await self._opened()
        functions = _Functions(call, self._inner, binding.calls)
        check = call.arguments.get("check") is True
        try:
            return await _run(pool, str(code), binding, functions, check=check)
        finally:
            await functions.under_way.end()

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                import pydantic_monty  # noqa: PLC0415 - the extra `code`

                pool = pydantic_monty.AsyncMonty(
                    min_processes=1, max_processes=_MAX_AT_ONCE, checkout_timeout=_PLACE_S, max_checkouts_per_worker=1
                )
                self._pool = await pool.__aenter__()
            return self._pool

    def preview(self, call: Call) -> JsonObject:
        """Return the code as it would run."""
        return {"code": call.arguments.get("code", ""), "check": call.arguments.get("check") is True}

    async def close(self) -> None:
        """End the processes."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__(None, None, None)


class _Functions:
    """Functions that the code can call. `made` lists the calls it made and how each of them ended."""

    def __init__(self, outer: Call, inner: InnerCalls, most: int) -> None:
        self._outer, self._inner, self._most = outer, inner, most
        self._tools = {tool.name: tool for tool in inner.catalog(outer) if not isinstance(tool.binding, CodeBinding)}
        self.made: list[dict[str, Json]] = []
        self.under_way = UnderWay()

    def lookup(self, code: str) -> Mapping[str, Any]:
        """Return the functions that the code may use, by name."""
        named = {name: self._function(name) for name in self._named_tools(code)}
        # `call_tool` is the former name of `run_tool`.
        return {**named, "run_tool": self._run_tool, "call_tool": self._run_tool, "signatures": self._signatures}

    def stubs(self, code: str) -> str:
        """Return the type stubs of the functions that the code names."""
        return stubs(self._tools[name] for name in self._named_tools(code))

    def _named_tools(self, code: str) -> Sequence[str]:
        """Return the tools whose names occur in the code; no other can be called by its name."""
        words = set(_WORD.findall(code))
        return [name for name, tool in self._tools.items() if name in words and is_callable(tool)]

    def _function(self, name: str) -> Callable[..., Awaitable[Json]]:
        async def function(*positional: Any, **arguments: Any) -> Json:
            if positional:
                raise TypeError(f"{name} takes keyword arguments: {signature(self._tools[name])}")
            return await self._make_call(name, arguments)

        return function

    async def _run_tool(self, name: Any = "", arguments: Any = None) -> Json:
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise TypeError(
                "run_tool takes the name of a tool and its arguments: await run_tool('name', {'argument': 1})"
            )
        return await self._make_call(name, arguments or {})

    def _signatures(self, word: Any = "") -> list[str]:
        """Return the signatures of tools with the word in their name, fifty at most."""
        found = [signature(tool) for tool in self._tools.values() if str(word).lower() in tool.name.lower()]
        return found[:_MAX_SIGNATURES]

    async def _make_call(self, name: str, arguments: dict[str, Any]) -> Json:
        if len(self.made) >= self._most:
            raise RuntimeError(f"call_limit: code makes at most {self._most} calls")
        told: dict[str, Json] = {"tool": bounded(name, 100), "status": "running"}
        self.made.append(told)
        if name not in self._tools:  # the code tool itself too: code cannot run code
            told |= {"status": "refused", "code": "unknown_tool"}
            raise RuntimeError(f"unknown_tool: there is no available tool {bounded(name, 100)!r}")
        try:
            given = carried(arguments, _plain)
        except (TypeError, TooDeepError) as error:
            told |= {"status": "refused", "code": "validation"}
            raise TypeError(f"{name}: an argument has no JSON form: {error}") from None
        envelope = await self.under_way.made(self._inner_call(name, given, told))
        if envelope.status == "ok":
            return carried(envelope.data, str)  # type: ignore[no-any-return]
        failure = envelope.error or Error(code="internal", message="no reason given")
        raise RuntimeError(f"{failure.code}: {failure.message}")

    async def _inner_call(self, name: str, given: JsonObject, told: dict[str, Json]) -> Envelope:
        """Make one inner call and record its status in `told`, also if the call is cancelled."""
        try:
            envelope = (await self._inner.call(self._outer, name, given)).envelope
        except asyncio.CancelledError:
            told |= {"status": "error", "code": "outcome_unknown"}
            raise
        told |= {"tool": envelope.tool, "call_id": envelope.call_id, "status": envelope.status}
        if envelope.error is not None:
            told["code"] = envelope.error.code
        return envelope


_CROWDED = Refused(
    error=Error(
        code="upstream_unavailable",
        message="the maximum number of code runs is active; nothing was run",
        suggestion="wait for the code that runs",
        retry_after_s=1.0,
        rule="concurrency",
    )
)


async def _run(
    pool: Any, code: str, limits: CodeBinding, functions: _Functions, *, check: bool
) -> Success | Failed | Refused:
    import pydantic_monty as monty  # noqa: PLC0415 - the extra `code`

    printed = monty.CollectString(max_bytes=limits.output)
    try:
        async with asyncio.timeout(limits.time_s + _GRACE_S) as time_limit:
            checked_out = pool.checkout(
                script_name="code.py",
                limits=_limits(limits),
                type_check=check,
                type_check_stubs=functions.stubs(code) if check else None,
                type_check_format="concise",
                os_policy={"sleep": "zero"},
            )
            async with checked_out as session:
                value = await session.feed_run(code, external_lookup=functions.lookup(code), print_callback=printed)
    except TimeoutError:
        if not time_limit.expired():
            return _CROWDED
        return _failed(f"time: it did not end within {limits.time_s:g} s", printed, functions)
    except monty.MontyTypingError as error:
        return _failed(f"types: {error.display()}", printed, functions)
    except monty.MontySyntaxError as error:
        return _failed(error.display("type-msg"), printed, functions)
    except monty.MontyRuntimeError as error:
        return _failed(_error_of(error), printed, functions)
    except monty.MontyError:
        return _failed("its process ended, because the code exhausted the interpreter", printed, functions)
    return _answer_of(value, limits, printed, functions)


def _limits(limits: CodeBinding) -> dict[str, Any]:
    return {
        "max_feed_duration_secs": limits.time_s,
        "max_turn_duration_secs": limits.time_s,
        "max_memory": limits.memory,
        "max_recursion_depth": _MAX_RECURSION,
        "max_suspensions": 3 * limits.calls + _ALWAYS,
        "max_total_sleep_secs": 0.0,
    }


def _error_of(error: Any) -> str:
    """Return the type and message of an error that the code raised, with its line number."""
    frames = error.traceback()
    line = f" (line {frames[-1].line})" if frames else ""
    return f"{error.display('type-msg')}{line}"


def _answer_of(value: Any, limits: CodeBinding, printed: Any, functions: _Functions) -> Success | Failed:
    try:
        data: Json = carried(value, _plain)
    except (TooDeepError, RecursionError):
        return _failed(f"its answer is nested more than {MAX_DEPTH} levels deep", printed, functions)
    except TypeError as error:
        return _failed(f"its answer has no JSON form: {error}", printed, functions)
    told: dict[str, Json] = {"result": data, "output": printed.output, "calls": list(functions.made)}
    size = len(encode_json(data))
    if size > limits.output:
        return _failed(f"its answer has {size} bytes, and {limits.output} are the limit", printed, functions)
    return Success(data=told, delivery=Delivery(bytes=size), row_notes=functions.under_way.row_notes.told)


def _failed(message: str, printed: Any, functions: _Functions) -> Failed:
    output = ""
    with suppress(Exception):  # the process has ended
        output = printed.output
    error = Error(
        code="code_failed",
        message=bounded(message),
        suggestion="change the code; `calls` lists the calls it made, which are not undone",
    )
    return Failed(
        error=error,
        data={"output": output, "calls": list(functions.made)},
        row_notes=functions.under_way.row_notes.told,
    )


def _plain(value: object) -> object:
    """Convert a set or a tuple to a list, for JSON. Raises `TypeError` for any other type."""
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(type(value).__name__)
