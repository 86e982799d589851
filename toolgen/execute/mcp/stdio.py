"""A server that is a command: started with the first call, spoken to over its pipes, ended when it breaks its bounds."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from toolgen.clock import Clock, SystemClock
from toolgen.errors import SecretError
from toolgen.execute.http.response import MAX_ANSWER_SIZE, Answer, decode
from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.mcp.child_process import (
    MARK,
    Descendants,
    EndlessError,
    ErrorLog,
    Lines,
    LongLine,
    begun_as_subreaper,
)
from toolgen.execute.mcp.messages import (
    Agreed,
    addressed,
    claimed,
    failed,
    harmless,
    tell_progress,
    too_large,
    unreadable,
)
from toolgen.execute.resilience_config import Timeouts
from toolgen.execute.secrets.resolver import Secrets
from toolgen.json_codec import decode_json, encode_json
from toolgen.model.call import Call
from toolgen.model.client_channel import Line
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.secret import SecretReference

__all__ = ["StdioWire"]

# What most programs need, and nothing that is only the gateway's.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_MAX_UNASKED = 10_000  # messages between two answers
_LEAVING_S = 2.0
_SIGN_OF_LIFE_S = 2.0
_AGAIN_S = 1.0  # a command that ended before it answered anything is not started more often
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
_NOT_SENT = Delivery(attempts=1, unsent=True)


class StdioWire:
    """One command, started in `folder` with `environment` and little else. Every call shares it, whoever makes the call.

    It is offered no sampling, no elicitation and no folders; what it asks for all the same is answered with an error.
    """

    def __init__(  # noqa: PLR0913 - what a source may say
        self,
        command: tuple[str, ...],
        *,
        folder: str,
        environment: Mapping[str, SecretReference],
        secrets: Secrets,
        source: str = "",
        timeouts: Timeouts = _TIMEOUTS,
        largest: int = MAX_ANSWER_SIZE,
        clock: Clock = _CLOCK,
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = environment
        self._secrets = secrets
        self._source = source
        self._timeouts = timeouts
        self._largest = largest
        self._clock = clock
        self._scrubber = Scrubber(())
        self._starting = asyncio.Lock()
        self._started = -math.inf
        self._epoch = 0
        self._running: _Process | None = None
        self._doubting: asyncio.Task[None] | None = None
        self._pings = 0  # downwards: the numbers above are those of the conversation

    def ready(self) -> int | None:
        """As long as it runs and nobody doubts that it answers."""
        doubted = self._doubting is not None and not self._doubting.done()
        return self._epoch if self._running is not None and self._running.alive and not doubted else None

    async def begin(self) -> int | Failed:
        """Starts the command where it does not run."""
        async with self._starting:
            if self._doubting is not None:
                await asyncio.wait({self._doubting})
                self._doubting = None
            if self._running is not None and self._running.alive:
                return self._epoch
            if self._running is not None:
                await self._running.stop(0.0)
                if self._running.served:
                    self._started = -math.inf
                self._running = None
            wait = self._started + _AGAIN_S - self._clock.monotonic()
            if wait > 0:
                message = "the command ended before it answered anything; nothing was sent"
                return failed("upstream_unavailable", message, "try again in a moment", _NOT_SENT)
            self._started = self._clock.monotonic()
            return await self._start()

    async def _start(self) -> int | Failed:
        try:
            given = {name: (await self._secrets.fetch(one)).reveal() for name, one in self._environment.items()}
        except SecretError as error:
            return failed(error.code, error.message, error.suggestion)
        hidden = [given[name] for name, one in self._environment.items() if one.provider != "literal"]
        self._scrubber = Scrubber(hidden)
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        descendants = Descendants()
        environment = {**inherited, **given, MARK: descendants.mark}
        if not _exists(self._command[0], self._folder, environment):
            return _not_started("there is no such program")
        try:
            process = await asyncio.create_subprocess_exec(
                *begun_as_subreaper(self._command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._folder or None,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _not_started(type(error).__name__)
        log = ErrorLog(self._source, self._scrubber)
        self._running = _Process(process, log, self._largest, descendants, self._scrubber)
        self._epoch += 1
        return self._epoch

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed:
        """Sends a request and waits for its answer."""
        running = self._running
        if running is None or not running.alive:
            return failed("upstream_unavailable", "the command has ended; nothing was sent", "try again", _NOT_SENT)
        method = str(message["method"])
        delivery = Delivery(attempts=1)
        running.log.note(call.arguments)
        try:
            reply = await running.ask(message, call.line)
        except asyncio.CancelledError:
            running.forget(message)
            raise
        match reply:
            case None:
                code = "upstream_error" if harmless(call, method) else "outcome_unknown"
                return _untold(running.fault, code)
            case _Fault.TOO_LONG:
                return too_large(delivery)
            case _Fault.UNREADABLE:
                return unreadable(call, method, delivery)
        delivery = Delivery(attempts=1, bytes=len(reply))
        if method == "tools/list":  # with all that nobody sees: whoever reads it has to know that it is there
            return Success(data=decode_json(self._scrubber.raw(reply)), delivery=delivery)
        answer = Answer(status=200, content_type="application/json", body=reply, truncated=False, headers={})
        return Success(data=decode(answer, self._scrubber), delivery=delivery)

    def doubt(self) -> None:
        """Asks the command for a sign of life; one that gives none is ended once nobody else waits for it."""
        running = self._running
        if running is not None and (self._doubting is None or self._doubting.done()):
            self._doubting = asyncio.create_task(self._probe(running))

    async def _probe(self, running: _Process) -> None:
        self._pings -= 1
        ping: JsonObject = {"jsonrpc": "2.0", "id": self._pings, "method": "ping"}
        try:
            async with asyncio.timeout(_SIGN_OF_LIFE_S):
                await running.ask(ping, None)
        except TimeoutError:
            running.forget(ping)
            if running.idle:
                await running.stop(0.0)

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None:
        """Sends a notification; what became of it shows with the next request."""
        if self._running is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._timeouts.total_s):
                    await self._running.send(message)

    def stale(self) -> bool:
        """Whether the server has said since it was last asked that its tools are others now."""
        running = self._running
        if running is None or not running.changed:
            return False
        running.changed = False
        return True

    def preview(self, message: JsonObject, call: Call) -> JsonObject:
        """What would be written to the command."""
        return {"command": list(self._command), "message": message}

    async def close(self) -> None:
        """Ends the command, and whatever it started."""
        if self._doubting is not None:
            self._doubting.cancel()
            await asyncio.gather(self._doubting, return_exceptions=True)
        if self._running is not None:
            await self._running.stop(_LEAVING_S)
            self._running = None


class _Fault(Enum):
    """Why an answer cannot be given."""

    TOO_LONG = auto()
    UNREADABLE = auto()


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Who waits for an answer; `line` is the way back to its caller."""

    answer: asyncio.Future[bytes | _Fault | None]
    line: Line | None


class _Process:
    """A running command, and who waits for which of its answers."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: ErrorLog,
        largest: int,
        descendants: Descendants,
        scrubber: Scrubber,
    ) -> None:
        self._process = process
        self._descendants = descendants
        self._scrubber = scrubber
        self.log = log
        assert process.stdout is not None  # noqa: S101 - it was asked for
        self._lines = Lines(process.stdout, largest)
        self._waiting: dict[int, _Waiter] = {}
        self._unasked = 0
        self.changed = False
        self.served = False
        self.fault = "ended before it answered"
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._drain())]

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.returncode is None and not self._tasks[0].done()

    @property
    def idle(self) -> bool:
        """Whether nobody waits for it."""
        return not self._waiting

    async def ask(self, message: JsonObject, line: Line | None) -> bytes | _Fault | None:
        """The line that answers, or what is wrong with it; None when none ever will."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), line)
        self._waiting[_number(message)] = waiter
        try:
            await self.send(message)
        except OSError:
            self.forget(message)
            return None
        return await waiter.answer

    def forget(self, message: JsonObject) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(_number(message), None)

    async def send(self, message: JsonObject) -> None:
        """Raises `OSError` for a command that does not read any more."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(encode_json(message) + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> None:
        try:
            while line := await self._lines.read():
                await self._heard(line)
                if self._unasked > _MAX_UNASKED:
                    self.fault = "said more than anybody asked for"
                    return
        except EndlessError:
            self.fault = "wrote a line without end"
        except OSError:
            pass
        finally:
            self._kill()
            for waiter in self._waiting.values():
                if not waiter.answer.done():
                    waiter.answer.set_result(None)
            self._waiting.clear()

    async def _heard(self, line: bytes | LongLine) -> None:
        self._unasked += 1
        if isinstance(line, LongLine):
            self._spoiled(addressed(line.head, line.tail), line.head, _Fault.TOO_LONG)
            return
        try:
            message = decode_json(line)
        except ValueError:
            self._spoiled(addressed(line, line), line, _Fault.UNREADABLE)
            return
        method, number = (message.get("method"), message.get("id")) if isinstance(message, dict) else (None, None)
        if method is None:
            if type(number) is int and number in self._waiting:
                self._settle(number, line)
            else:
                self._spoiled(claimed(message), line, _Fault.UNREADABLE)
        elif number is None:
            self._notified(method, message.get("params"))
        elif isinstance(number, str | int):
            await self.send(_turned_down(method, number))

    def _settle(self, number: int, answer: bytes | _Fault) -> None:
        waiter = self._waiting.pop(number, None)
        if waiter is not None and not waiter.answer.done():
            self._unasked, self.served = 0, True
            waiter.answer.set_result(answer)

    def _spoiled(self, numbers: tuple[int, ...], line: bytes, fault: _Fault) -> None:
        """Tells those whose answer this is and cannot be read. Where that shows nowhere, it is the answer of the only one that waits;
        what a library printed is nobody's."""
        if not numbers and len(self._waiting) == 1 and line.lstrip().startswith((b"{", b"[")) and b'"jsonrpc"' in line:
            numbers = tuple(self._waiting)
        for number in numbers:
            self._settle(number, fault)

    def _notified(self, method: object, params: Json) -> None:
        if method == "notifications/tools/list_changed":
            self.changed = True
        elif method == "notifications/progress" and isinstance(params, Mapping):
            token = params.get("progressToken")
            waiter = self._waiting.get(token) if type(token) is int else None
            if waiter is not None and waiter.line is not None:
                tell_progress(waiter.line, params, self._scrubber)

    async def _drain(self) -> None:
        """What it writes to its standard error is for the log, the first of it: nobody else would empty the pipe."""
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        while piece := await self._process.stderr.read(4096):
            self.log.write(piece)
        self.log.close()

    def _kill(self) -> None:
        self._descendants.end(self._process.pid)

    async def stop(self, leaving_s: float) -> None:
        """Closes its input, as MCP has it, and ends it with all that it started when it is not gone by then."""
        self._descendants.look(self._process.pid)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if leaving_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(leaving_s):
                    await self._process.wait()
        self._kill()
        await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _number(message: JsonObject) -> int:
    number = message["id"]
    assert isinstance(number, int)  # noqa: S101 - ours are
    return number


def _turned_down(method: object, number: str | int) -> JsonObject:
    if method == "ping":
        return {"jsonrpc": "2.0", "id": number, "result": {}}
    error: JsonObject = {"code": -32601, "message": "this client offers tools to agents, and nothing to servers"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _exists(program: str, folder: str, environment: Mapping[str, str]) -> bool:
    """Whether there is such a program to start: what starts it could only say so in its errors."""
    place = os.path.join(folder, program) if os.path.dirname(program) else program
    return shutil.which(place, path=environment.get("PATH", os.defpath)) is not None


def _not_started(reason: str) -> Failed:
    message = f"the command cannot be started ({reason}); nothing was sent"
    return failed("upstream_unavailable", message, "tell whoever runs the gateway", _NOT_SENT)


def _untold(what: str, code: str) -> Failed:
    more = "; it may or may not have taken effect" if code == "outcome_unknown" else ""
    return failed(code, f"the server's command {what}{more}", "", Delivery(attempts=1, broken=True))
