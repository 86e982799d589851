"""The running command of a server: what is written to it, who waits for which of its answers, and how it is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.mcp.child_process import Descendants, EndlessError, ErrorLog, Lines, LongLine
from toolgen.execute.mcp.messages import addressed, claimed, tell_progress
from toolgen.json_codec import decode_json, encode_json
from toolgen.model.client_channel import Line
from toolgen.model.schema import Json, JsonObject

__all__ = ["Fault", "Reply", "ServerProcess"]

_MAX_UNASKED: Final = 10_000  # messages between two answers


class Fault(StrEnum):
    """Why an answer cannot be given."""

    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    ENDED = "ended"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True)
class Reply:
    """The line that answers a request, or what is wrong with it; `reason` is what the command did that ended."""

    line: bytes = b""
    fault: Fault | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Who waits for an answer; `line` is the way back to its caller."""

    answer: asyncio.Future[Reply]
    line: Line | None


class ServerProcess:
    """A running command, and who waits for which of its answers."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: ErrorLog,
        largest: int,
        descendants: Descendants,
        scrubber: Scrubber,
        on_change: Callable[[], None],
    ) -> None:
        self._process = process
        self._descendants = descendants
        self._scrubber = scrubber
        self._on_change = on_change
        self.log = log
        assert process.stdout is not None  # noqa: S101 - it was asked for
        self._lines = Lines(process.stdout, largest)
        self._waiting: dict[int, _Waiter] = {}
        self._unasked = 0
        self._ended = False
        self._reason = "ended before it answered"
        self.changed = False
        self.served = False
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._drain())]

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.returncode is None and not self._ended

    @property
    def idle(self) -> bool:
        """Whether nobody waits for it."""
        return not self._waiting

    async def ask(self, message: JsonObject, line: Line | None) -> Reply:
        """The line that answers, or what is wrong with it: `Fault.ENDED` where none ever will."""
        waiter, number = _Waiter(asyncio.get_running_loop().create_future(), line), _number(message)
        self._waiting[number] = waiter
        try:
            await self.send(message)
            return await waiter.answer
        except OSError:
            return Reply(fault=Fault.ENDED, reason=self._reason)
        finally:
            self._waiting.pop(number, None)

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
                    self._reason = "said more than anybody asked for"
                    return
        except EndlessError:
            self._reason = "wrote a line without end"
        except OSError:
            pass
        finally:
            self._ended = True
            self._kill()
            self._on_change()
            for waiter in self._waiting.values():
                if not waiter.answer.done():
                    waiter.answer.set_result(Reply(fault=Fault.ENDED, reason=self._reason))
            self._waiting.clear()

    async def _heard(self, line: bytes | LongLine) -> None:
        self._unasked += 1
        if isinstance(line, LongLine):
            self._spoiled(addressed(line.head, line.tail), line.head, Fault.TOO_LONG)
            return
        try:
            message = decode_json(line)
        except ValueError:
            self._spoiled(addressed(line, line), line, Fault.UNREADABLE)
            return
        method, number = (message.get("method"), message.get("id")) if isinstance(message, dict) else (None, None)
        if method is None:
            if type(number) is int and number in self._waiting:
                self._settle(number, Reply(line))
            else:
                self._spoiled(claimed(message), line, Fault.UNREADABLE)
        elif number is None:
            self._notified(method, message.get("params"))
        elif isinstance(number, str | int):
            await self.send(_turned_down(method, number))

    def _settle(self, number: int, answer: Reply) -> None:
        waiter = self._waiting.pop(number, None)
        if waiter is not None and not waiter.answer.done():
            self._unasked, self.served = 0, True
            waiter.answer.set_result(answer)

    def _spoiled(self, numbers: tuple[int, ...], line: bytes, fault: Fault) -> None:
        """Tells those whose answer this is and cannot be read. Where that shows nowhere, it is the answer of the only one that waits;
        what a library printed is nobody's."""
        if not numbers and len(self._waiting) == 1 and line.lstrip().startswith((b"{", b"[")) and b'"jsonrpc"' in line:
            numbers = tuple(self._waiting)
        for number in numbers:
            self._settle(number, Reply(fault=fault))

    def _notified(self, method: object, params: Json) -> None:
        if method == "notifications/tools/list_changed":
            self.changed = True
            self._on_change()
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
