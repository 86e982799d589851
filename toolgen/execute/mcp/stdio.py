"""A server that is a command: started with the first call, spoken to over its pipes, ended when it breaks its bounds."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from toolgen.clock import Clock, SystemClock
from toolgen.errors import SecretError
from toolgen.execute.http.answers import LARGEST_ANSWER, Answer, decode
from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.mcp.messages import Agreed, failed
from toolgen.execute.patience import Timeouts
from toolgen.execute.secrets import Secrets
from toolgen.json_codec import decode_json, encode_json
from toolgen.model.call import Call
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.secret import SecretReference

__all__ = ["StdioWire"]

_logger = logging.getLogger("toolgen.mcp")
# What most programs need, and nothing that is only the gateway's.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_MOST_UNASKED = 10_000  # messages between two answers
_LONGEST_ERRORS = 4096
_LEAVING_S = 2.0
_AGAIN_S = 1.0  # a command that ended before it answered anything is not started more often
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
_NOT_SENT: Mapping[str, Json] = {"attempts": 1, "unsent": True}


class StdioWire:
    """One command, started in `folder` with `environment` and little else. Every call shares it, whoever makes the call.

    It is offered no sampling, no elicitation and no folders; what it asks for all the same is answered with an error.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        *,
        folder: str,
        environment: Mapping[str, SecretReference],
        secrets: Secrets,
        timeouts: Timeouts = _TIMEOUTS,
        largest: int = LARGEST_ANSWER,
        clock: Clock = _CLOCK,
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = environment
        self._secrets = secrets
        self._timeouts = timeouts
        self._largest = largest
        self._clock = clock
        self._scrubber = Scrubber(())
        self._starting = asyncio.Lock()
        self._started = -math.inf
        self._epoch = 0
        self._running: _Process | None = None

    async def begin(self) -> int | Failed:
        """Starts the command where it does not run."""
        async with self._starting:
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
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._folder or None,
                env={**inherited, **given},
                limit=self._largest,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = type(error).__name__
            return failed(
                "upstream_unavailable",
                f"the command cannot be started ({reason}); nothing was sent",
                "tell whoever runs the gateway",
                _NOT_SENT,
            )
        self._running = _Process(process, self._scrubber, self._largest)
        self._epoch += 1
        return self._epoch

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed:
        """Sends a request and waits for its answer; a server that lets a call wait too long is told so, and ended."""
        running = self._running
        if running is None or not running.alive:
            return failed("upstream_unavailable", "the command has ended; nothing was sent", "try again", _NOT_SENT)
        harmless = call.tool.idempotent or message["method"] != "tools/call"
        try:
            async with asyncio.timeout(self._timeouts.total_s):
                line = await running.ask(message)
        except TimeoutError:
            await self._give_up(running, message)
            return _untold("did not answer in time", "upstream_timeout" if harmless else "outcome_unknown")
        except asyncio.CancelledError:
            running.forget(message)
            raise
        if line is None:
            return _untold(running.fault, "upstream_error" if harmless else "outcome_unknown")
        answer = Answer(status=200, content_type="application/json", body=line, truncated=False, headers={})
        facts: dict[str, Json] = {"attempts": 1, "bytes": len(line)}
        if (
            message["method"] == "tools/list"
        ):  # with all that nobody sees: whoever reads it has to know that it is there
            return Success(data=decode_json(self._scrubber.raw(line)), facts=facts)
        return Success(data=decode(answer, self._scrubber), facts=facts)

    async def _give_up(self, running: _Process, message: JsonObject) -> None:
        running.forget(message)
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LEAVING_S):
                await running.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
                )
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
        if self._running is not None:
            await self._running.stop(_LEAVING_S)
            self._running = None


class _Process:
    """A running command, and who waits for which of its answers."""

    def __init__(self, process: asyncio.subprocess.Process, scrubber: Scrubber, largest: int) -> None:
        self._process = process
        self._largest = largest
        self._scrubber = scrubber
        self._waiting: dict[int, asyncio.Future[bytes | None]] = {}
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

    async def ask(self, message: JsonObject) -> bytes | None:
        """The line that answers, None when none ever will."""
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting[_number(message)] = future
        try:
            await self.send(message)
        except OSError:
            self.forget(message)
            return None
        return await future

    def forget(self, message: JsonObject) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(_number(message), None)

    async def send(self, message: JsonObject) -> None:
        """Raises `OSError` for a command that does not read any more."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(encode_json(message) + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        try:
            while line := await self._process.stdout.readline():
                await self._heard(line)
                if self._unasked > _MOST_UNASKED:
                    self.fault = "said more than anybody asked for"
                    return
        except ValueError:
            self.fault = f"answered with more than {self._largest} bytes"
        except OSError:
            pass
        finally:
            self._kill()
            for future in self._waiting.values():
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()

    async def _heard(self, line: bytes) -> None:
        self._unasked += 1
        try:
            message = decode_json(line)
        except ValueError:
            return  # a line that some library printed
        if not isinstance(message, dict):
            return
        method, number = message.get("method"), message.get("id")
        if method is None:
            future = self._waiting.pop(number, None) if isinstance(number, int) else None
            if future is not None and not future.done():
                self._unasked, self.served = 0, True
                future.set_result(line)
        elif number is None:
            self.changed |= method == "notifications/tools/list_changed"
        elif isinstance(number, str | int):
            await self.send(_turned_down(method, number))

    async def _drain(self) -> None:
        """What it writes to its standard error is for the log, the first of it: nobody else would empty the pipe."""
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        left = _LONGEST_ERRORS
        while piece := await self._process.stderr.read(4096):
            said = self._scrubber.text(piece[:left].decode("utf-8", "replace")).strip()
            left -= min(left, len(piece))
            if said:
                _logger.warning("an MCP server's command says: %s", " ".join(said.split()))

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self, leaving_s: float) -> None:
        """Closes its input, as MCP has it, and ends it with all that it started when it is not gone by then."""
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


def _untold(what: str, code: str) -> Failed:
    more = "; it may or may not have taken effect" if code == "outcome_unknown" else ""
    return failed(code, f"the server's command {what}{more}", "", {"attempts": 1, "broken": True})
