"""The running command of a server: what is written to it, who waits for which of its answers, and how it is ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.mcp.child_process import Descendants
from toolgen.connectors.mcp.error_log import ErrorLog
from toolgen.connectors.mcp.line_reader import LineReader, LongLine
from toolgen.connectors.mcp.messages import addressed, claimed, tell_log, tell_progress
from toolgen.connectors.mcp.notices import (
    LISTS,
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATED,
    NoticeListener,
    ServerNotice,
    Subscribed,
    done_page,
)
from toolgen.connectors.mcp.server_requests import refusal_of, response_to
from toolgen.core.json_codec import TooDeepError, decode_json, encode_json
from toolgen.core.pipe_buffer import POLLS_PIPES
from toolgen.core.pipes import ReadingThread, WritingThread
from toolgen.model.caller_requests import PAGE_DONE, SERVER_REQUESTS
from toolgen.model.client_channel import ClientChannel
from toolgen.model.schema import Json, JsonObject

__all__ = ["CommandFault", "CommandReply", "ServerProcess", "replied"]

_MAX_UNASKED: Final = 10_000  # messages between two answers
_MUCH_UNREAD: Final = 1024 * 1024  # bytes that the command has not read; what it asks for then is not answered
_LAST_WORDS_S: Final = 2.0
_HELD_S: Final = 2.0  # how long a request of the server is held while several calls wait
_MAX_HELD: Final = 16
_ERRORS_S: Final = 0.5  # how long its last errors are waited for once it is gone


_ENDED: Final = "ended before it answered"
_LISTS_CHANGED = frozenset(f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources"))


class CommandFault(StrEnum):
    """Why an answer cannot be given."""

    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    TOO_DEEP = "too_deep"
    ENDED = "ended"
    NOT_SENT = "not_sent"
    UNREAD = "unread"


class CommandReply(Struct, frozen=True):
    """The line that answers a request, or what is wrong with it; `reason` is what the command did that ended."""

    line: bytes = b""
    fault: CommandFault | None = None
    reason: str = ""


class _Waiter(Struct, frozen=True):
    """Receiver of an answer; `line` is the way back to its caller. `tasks` ask the caller what the server requests."""

    answer: asyncio.Future[CommandReply]
    line: ClientChannel | None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def can_be_asked(self) -> bool:
        """True if the caller can be asked something."""
        return self.line is not None and bool(self.line.capabilities)


class _ServerRequest(Struct, frozen=True):
    """Request of the server to a caller, with the server's id for it."""

    id: str | int
    method: str
    params: Json


class ServerProcess(asyncio.BaseProtocol):
    """A running command, and who waits for which of its answers. As a protocol, the end of what is written to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: ErrorLog,
        largest: int,
        descendants: Descendants,
        scrubber: Scrubber,
        on_change: Callable[[], None],
        on_notice: NoticeListener,
    ) -> None:
        self._process = process
        self._on_notice = on_notice
        self._subscribed = Subscribed()
        self._descendants = descendants
        self._scrubber = scrubber
        self._on_change = on_change
        self._lines = LineReader(largest, self._heard, self._end)
        self._transports: list[asyncio.BaseTransport] = []
        self._stdin: asyncio.WriteTransport | None = None
        self._waiting: dict[int, _Waiter] = {}
        self._queued: dict[int, JsonObject] = {}
        self._held: dict[str | int, tuple[_ServerRequest, asyncio.TimerHandle]] = {}
        self._asked: dict[str | int, asyncio.Task[None]] = {}
        self._unasked = 0
        self._ended = False
        self._gone: asyncio.Future[int] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._reason = _ENDED
        self.log = log
        self.changed = False
        self.served = False

    async def open(self) -> None:
        """Takes over the pipes. Raises `OSError`."""
        loop, process = asyncio.get_running_loop(), self._process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        if not POLLS_PIPES:
            self._stdin = WritingThread(loop, process.stdin, self)
            readers = ((process.stderr, self.log), (process.stdout, self._lines))
            self._transports += [self._stdin, *(ReadingThread(loop, pipe, protocol) for pipe, protocol in readers)]
            return
        self._stdin, _ = await loop.connect_write_pipe(lambda: self, process.stdin)
        self._transports.append(self._stdin)
        for pipe, protocol in ((process.stderr, self.log), (process.stdout, self._lines)):
            transport, _ = await loop.connect_read_pipe(lambda one=protocol: one, pipe)  # type: ignore[misc]
            self._transports.append(transport)

    @property
    def alive(self) -> bool:
        """True if requests can be sent to the process."""
        return not self._ended and self._stdin is not None and not self._stdin.is_closing() and self._is_running()

    @property
    def idle(self) -> bool:
        """True if no request waits for an answer."""
        return not self._waiting

    def ask(self, message: JsonObject, line: ClientChannel | None) -> asyncio.Future[CommandReply]:
        """The line that answers, or what is wrong with it: `CommandFault.ENDED` where none ever will. Cancelled, it is not waited for."""
        answer: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
        number, waiter = _number(message), _Waiter(answer, line)
        self._note_subscription(message)
        self.log.begin(alone=not self._waiting)
        answer.add_done_callback(lambda _: self._forget(number, waiter))
        if waiter.can_be_asked and any(one.can_be_asked for one in self._waiting.values()):
            self._queued[number] = message  # a request does not say which call it is about
            self._waiting[number] = waiter
            return answer
        self._waiting[number] = waiter
        if not self.send(message):
            answer.set_result(CommandReply(fault=CommandFault.ENDED, reason=self._reason))
        return answer

    def _note_subscription(self, message: JsonObject) -> None:
        params, method = message.get("params"), message.get("method")
        uri = params.get("uri") if isinstance(params, Mapping) else None
        if method == SUBSCRIBE and isinstance(uri, str):
            self._subscribed.uris.add(uri)
        elif method == UNSUBSCRIBE and isinstance(uri, str):
            self._subscribed.uris.discard(uri)

    def _forget(self, number: int, waiter: _Waiter) -> None:
        """Handle the end of a call: what it requested of its caller ends too, and a call that waited for that is sent."""
        if self._waiting.get(number) is waiter:
            del self._waiting[number]
        for task in waiter.tasks:
            task.cancel()
        if self._queued.pop(number, None) is None and waiter.can_be_asked:
            self._send_queued()
        self._ask_held()

    def _send_queued(self) -> None:
        """Send the call that has waited for the longest time until no other call can request something of its caller."""
        number = next(iter(self._queued), None)
        if number is None or self._ended:
            return
        if not self.send(self._queued.pop(number)):
            self._settle(number, CommandReply(fault=CommandFault.ENDED, reason=self._reason))

    def send(self, message: JsonObject) -> bool:
        """Send a message. Returns False if the command no longer reads. A message that the command has not read yet is buffered."""
        if self._ended or self._stdin is None or self._stdin.is_closing():
            return False
        self._stdin.write(encode_json(message) + b"\n")
        return not self._stdin.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the command's standard input. Its remaining output is awaited for a short time."""
        if not self._ended:
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._lines.end, "")

    def _end(self, reason: str) -> None:
        """Handle the end of the command's output, or of reading it. All requests that wait for an answer end, once it is known how the
        command ended and what it wrote last."""
        self._ended, self._reason = True, reason or self._reason
        for _, timer in self._held.values():
            timer.cancel()
        self._held.clear()
        if self._gone is None:  # otherwise it is given time to end, and then ended, by `stop`
            self._finishing = asyncio.create_task(self._finish(wait=not reason))
            self._finishing.add_done_callback(lambda _: self._settle_all())
        else:
            self._settle_all()
        self._on_change()

    async def _finish(self, *, wait: bool) -> None:
        """Ends a command that writes no more; with `wait` it has a moment to end by itself, so that its exit status is its own."""
        gone, killed = self._leave(), False
        self._descendants.look(self._process.pid)
        if wait:
            killed = not (await asyncio.wait({gone}, timeout=_LAST_WORDS_S))[0]
        self._kill()
        status = await gone
        with suppress(TimeoutError):
            async with asyncio.timeout(_ERRORS_S):
                await self.log.ended.wait()
        more = ["it closed its output" if killed else _status(status)] if wait else []
        if said := self.log.last_lines():
            more.append(f"standard error: {said}")
        if more:
            self._reason = f"{self._reason} ({'; '.join(more)})"

    def _settle_all(self) -> None:
        for waiter in tuple(self._waiting.values()):
            if not waiter.answer.done():
                waiter.answer.set_result(CommandReply(fault=CommandFault.ENDED, reason=self._reason))

    def last_words(self) -> str:
        """Exit of a command that answered nothing, for those who would start it again."""
        return self._reason

    def _heard(self, line: bytes | LongLine) -> None:
        self._unasked += 1
        if self._unasked > _MAX_UNASKED:
            self._lines.end("said more than anybody asked for")
            return
        if isinstance(line, LongLine):
            self._spoiled(addressed(line.head, line.tail), line.head, CommandFault.TOO_LONG)
            return
        try:
            message = decode_json(line)
        except TooDeepError:
            self._spoiled(addressed(line, line), line, CommandFault.TOO_DEEP)
            return
        except ValueError:
            self._spoiled(addressed(line, line), line, CommandFault.UNREADABLE)
            return
        method, number = (message.get("method"), message.get("id")) if isinstance(message, dict) else (None, None)
        if method is None:
            if type(number) is int and number in self._waiting:
                self._settle(number, CommandReply(line))
            else:
                self._spoiled(claimed(message), line, CommandFault.UNREADABLE)
        elif number is None:
            self._notified(method, message.get("params"))
        elif isinstance(number, str | int) and not isinstance(number, bool):
            self._requested(method, number, message.get("params"))

    def _requested(self, method: object, number: str | int, params: Json) -> None:
        """Handle a request of the server: it is about the one call that waits, and is held for a moment while several do."""
        if (
            not isinstance(method, str)
            or method not in SERVER_REQUESTS
            or number in self._asked
            or number in self._held
        ):
            self._reply(refusal_of(method, number))
            return
        request = _ServerRequest(number, method, params)
        if len(self._calls()) > 1 and len(self._held) < _MAX_HELD:
            timer = asyncio.get_running_loop().call_later(_HELD_S, self._refuse_held, number)
            self._held[number] = (request, timer)
        else:
            self._ask(request)

    def _calls(self) -> list[_Waiter]:
        """Calls that a request of the server can be about."""
        return [
            waiter for number, waiter in self._waiting.items() if waiter.line is not None and number not in self._queued
        ]

    def _ask(self, request: _ServerRequest) -> None:
        calls = self._calls()
        if len(calls) != 1 or not calls[0].can_be_asked:
            self._reply(refusal_of(request.method, request.id))
            return
        task = asyncio.create_task(self._answer(request, calls[0]))
        calls[0].tasks.add(task)
        self._asked[request.id] = task
        task.add_done_callback(calls[0].tasks.discard)
        task.add_done_callback(lambda _: self._asked.pop(request.id, None))

    async def _answer(self, request: _ServerRequest, waiter: _Waiter) -> None:
        assert waiter.line is not None  # noqa: S101 - it can be asked
        self._reply(await response_to(waiter.line, request.id, request.method, request.params, self._scrubber))

    def _ask_held(self) -> None:
        if self._held and len(self._calls()) == 1:
            held, self._held = self._held, {}
            for request, timer in held.values():
                timer.cancel()
                self._ask(request)

    def _refuse_held(self, number: str | int) -> None:
        request, _ = self._held.pop(number)
        self._reply(refusal_of(request.method, request.id))

    def _reply(self, response: JsonObject) -> None:
        if self.unread < _MUCH_UNREAD:
            self.send(response)

    @property
    def unread(self) -> int:
        """Number of bytes that the command was written and has not read."""
        return 0 if self._stdin is None else self._stdin.get_write_buffer_size()

    def _settle(self, number: int, answer: CommandReply) -> None:
        waiter = self._waiting.pop(number, None)
        if waiter is not None and not waiter.answer.done():
            self._unasked, self.served = 0, True
            waiter.answer.set_result(answer)

    def _spoiled(self, numbers: tuple[int, ...], line: bytes, fault: CommandFault) -> None:
        """Tells those whose answer this is and cannot be read. Where that shows nowhere, it is the answer of the only one that waits;
        what a library printed is nobody's."""
        if not numbers and len(self._waiting) == 1 and line.lstrip().startswith((b"{", b"[")) and b'"jsonrpc"' in line:
            numbers = tuple(self._waiting)
        for number in numbers:
            self._settle(number, CommandReply(fault=fault))

    def _notified(self, method: object, params: Json) -> None:
        if method == UPDATED and isinstance(params, Mapping):
            for uri in self._subscribed.meant(params.get("uri")):
                self._unasked = max(0, self._unasked - 1)  # it was asked for
                self._on_notice(ServerNotice("updated", uri))
        elif isinstance(method, str) and method in _LISTS_CHANGED:
            self.changed = True
            self._on_change()
            if method in LISTS and self._subscribed.admits():
                self._on_notice(ServerNotice(LISTS[method]))
        elif method == PAGE_DONE:
            if (page := done_page(params)) and self._subscribed.admits():
                self._on_notice(ServerNotice("done", page))
        elif method == "notifications/message":
            self._logged(params)
        elif method == "notifications/cancelled" and isinstance(params, Mapping):
            number = params.get("requestId")
            task = self._asked.get(number) if isinstance(number, str | int) else None
            if task is not None:
                task.cancel()
        elif method == "notifications/progress" and isinstance(params, Mapping):
            token = params.get("progressToken")
            waiter = self._waiting.get(token) if type(token) is int else None
            if waiter is not None and waiter.line is not None:
                tell_progress(waiter.line, params, self._scrubber)

    def _logged(self, params: Json) -> None:
        """Passes a log message on while one request alone waits: it says of none that it belongs to it."""
        if len(self._waiting) == 1:
            (waiter,) = self._waiting.values()
            if waiter.line is not None:
                tell_log(waiter.line, params, self._scrubber)

    def _is_running(self) -> bool:
        return self._gone is None and self._process.poll() is None

    def _leave(self) -> asyncio.Future[int]:
        """Wait for the end of the process, in a thread."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        return self._gone

    def _kill(self) -> None:
        self._descendants.end(self._process.pid)

    async def stop(self, leaving_s: float) -> None:
        """Closes its input, as MCP has it, and ends it with all that it started when it is not gone by then."""
        if self._gone is None and self._process.poll() is not None:
            self._lines.end("")
        if self._finishing is not None:
            await asyncio.wait({self._finishing})
        self._descendants.look(self._process.pid)
        if self._stdin is not None:
            self._stdin.close()
        gone = self._leave()
        if leaving_s:
            await asyncio.wait({gone}, timeout=leaving_s)
        self._kill()
        await gone
        self._lines.end("")
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stderr, self._process.stdout)[len(self._transports) :]:
            if pipe is not None:
                pipe.close()


def replied(reply: CommandReply) -> asyncio.Future[CommandReply]:
    """An answer that is known."""
    answer: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
    answer.set_result(reply)
    return answer


def _number(message: JsonObject) -> int:
    number = message["id"]
    assert isinstance(number, int)  # noqa: S101 - ours are
    return number


def _status(status: int) -> str:
    """Exit status of a process as `Popen.wait` gives it."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
