"""Channels to MCP clients while they wait for a call: progress, log messages and questions, in both protocol styles."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema_rs
from msgspec import Struct

from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.operations.call_reports import CallReports
from toolgen.gateway.operations.caller_questions import CallerQuestions
from toolgen.model.apps import APPS, accepts_apps
from toolgen.model.caller_requests import SAMPLING_TOOLS, request_kind
from toolgen.model.client_channel import LOG_LEVELS, InputNeeded, Unasked
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallerConnection

__all__ = [
    "NO_CAPABILITIES",
    "BridgedChannel",
    "PendingReplies",
    "StatefulChannel",
    "StatelessChannel",
    "TaskChannel",
    "answers_question",
    "capabilities_of",
]

NO_CAPABILITIES: frozenset[str] = frozenset()
MAX_QUESTION_S = 600.0
_MAX_QUESTIONS = 16
_MODES: Mapping[str, str] = {"form": "elicitation", "url": "elicitation_url"}
_MAX_ROOTS = 100
_MAX_LOG_LENGTH = 4000


def capabilities_of(given: object) -> frozenset[str]:
    """Return the kinds of requests that a client with these capabilities supports, and "apps" of one that shows apps. Elicitation without
    modes is that of forms."""
    if not given or not isinstance(given, Mapping):
        return NO_CAPABILITIES
    found = {name for name in ("sampling", "roots") if isinstance(given.get(name), Mapping)}
    if "sampling" in found and isinstance(given["sampling"].get("tools"), Mapping):
        found.add(SAMPLING_TOOLS)
    if accepts_apps(given):
        found.add(APPS)
    modes = given.get("elicitation")
    if isinstance(modes, Mapping):
        found |= {kind for mode, kind in _MODES.items() if isinstance(modes.get(mode), Mapping)}
        if not modes:
            found.add("elicitation")
    return frozenset(found)


class PendingReplies:
    """Questions that were sent to clients of the handshake era, until their answers come: those of this process, until it is `stopping`."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting: dict[str, tuple[tuple[str, ...], asyncio.Future[Json]]] = {}

    def open(self, parties: tuple[str, ...]) -> tuple[str, asyncio.Future[Json]]:
        """An id for a question, which nobody can guess, and what its answer will be."""
        question = secrets.token_hex(16)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[question] = (parties, answer)
        return question, answer

    async def reply(self, answer: asyncio.Future[Json]) -> Json:
        """Return an answer once it comes. Raises `Unasked` if the process stops before that."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((answer, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if not answer.done():
            raise Unasked
        return answer.result()

    def close(self, question: str) -> None:
        """Waits for an answer no more."""
        self._waiting.pop(question, None)

    def put(self, parties: tuple[str, ...], question: object, result: Json) -> None:
        """The answer of the client that was asked; anybody else's, or one that nobody waits for, is dropped."""
        known = self._waiting.get(question) if isinstance(question, str) else None
        if known is not None and known[0] == parties and not known[1].done():
            known[1].set_result(result)


class _McpChannel(Struct, kw_only=True):
    """Client channel common to both protocol styles. `token` is the client's progress token, None if it wants no progress, and
    `level` the least level of log messages that it wants, None for none."""

    caller_connection: CallerConnection
    capabilities: frozenset[str]
    token: int | str | None = None
    send: Callable[[bytes], None] | None = None
    level: int | None = None
    _told: float = -1.0

    @property
    def listens(self) -> bool:
        """True if the client asked for the progress of this call."""
        return self.token is not None and self.send is not None

    def disconnected(self) -> bool:
        """Return True if the client disconnected or cancelled."""
        return self.caller_connection.disconnected()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Send a progress notification. A value that does not grow is not sent (2025-06-18, basic/utilities/progress)."""
        if self.token is None or self.send is None or not done > self._told:
            return
        self._told = done
        params: dict[str, object] = {"progressToken": self.token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        with suppress(asyncio.QueueFull):  # who does not read is told less
            self.send(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))

    def partial(self, data: Json) -> None:
        """Nothing: MCP has no pieces of results."""

    def log(self, level: str, text: str) -> None:
        """Send a log message of the level that the client asked for, or of a higher one."""
        if self.level is None or self.send is None or LOG_LEVELS.index(level) < self.level:
            return
        params = {"level": level, "logger": "toolgen.tools", "data": bounded(text, _MAX_LOG_LENGTH)}
        with suppress(asyncio.QueueFull):  # who does not read is told less
            self.send(encode({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))

    def _check(self, method: str, params: JsonObject) -> None:
        if request_kind(method, params) not in self.capabilities or self.disconnected():
            raise Unasked


class StatefulChannel(_McpChannel, kw_only=True):
    """Channel to a client of the handshake era: a question is a request to it, and the call goes on when the answer comes."""

    mailbox: PendingReplies
    parties: tuple[str, ...]

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The answer. Raises `Unasked` where the client cannot be asked, or does not answer in ten minutes."""
        self._check(method, params)
        if self.send is None:
            raise Unasked
        question, answer = self.mailbox.open(self.parties)
        try:
            self.send(encode({"jsonrpc": "2.0", "id": question, "method": method, "params": params}))
            async with asyncio.timeout(MAX_QUESTION_S):
                return await self.mailbox.reply(answer)
        except (TimeoutError, asyncio.QueueFull):
            raise Unasked from None
        finally:
            self.mailbox.close(question)

    async def roots(self) -> tuple[Path, ...]:
        """The folders that the client opens to the server (2025-11-25, client/roots); none where it does not say."""
        try:
            answer = await self.ask("roots", "roots/list", {})
        except Unasked:
            return ()
        listed = answer.get("roots") if isinstance(answer, Mapping) else None
        uris = (
            [one.get("uri") for one in islice(listed, _MAX_ROOTS) if isinstance(one, Mapping)]
            if isinstance(listed, list)
            else []
        )
        return tuple(path for uri in uris if isinstance(uri, str) and (path := _local_path(uri)) is not None)


class StatelessChannel(_McpChannel, kw_only=True):
    """Channel to a client of 2026-07-28: a question ends the call, which is made again with the answer (basic/utilities/mrtr)."""

    answers: Mapping[str, Any] = {}
    wanted: dict[str, JsonObject] = {}

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The answer that the call came with; a question that has none, or one that does not fit, is asked."""
        self._check(method, params)
        answer = self.answers.get(key)
        if isinstance(answer, Mapping) and answers_question(method, params, answer):
            return answer
        if len(self.wanted) < _MAX_QUESTIONS:
            self.wanted[key] = {"method": method, "params": params}
        raise InputNeeded


def _local_path(uri: str) -> Path | None:
    """The path of a `file:` URI of this machine (RFC 8089)."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path))
    return path if parts.scheme == "file" and parts.netloc in {"", "localhost"} and path.is_absolute() else None


def answers_question(method: str, params: JsonObject, answer: Mapping[str, Any]) -> bool:
    """Return True if the answer has the right shape for the question."""
    if method != "elicitation/create":
        return bool(answer)
    action = answer.get("action")
    if action != "accept":
        return action in {"decline", "cancel"}
    if params.get("mode") == "url":
        return True
    schema = params.get("requestedSchema")
    try:
        return isinstance(schema, Mapping) and jsonschema_rs.validator_for(dict(schema), offline=True).is_valid(
            answer.get("content", {})
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return isinstance(answer.get("content"), Mapping)


class TaskChannel(CallReports):
    """Channel to a client that may come back for the call as a task: what it is asked then stands with the call until it is answered.

    `first` is its way while it still waits for the answer; None where it does not. Without `questions` it can be asked nothing after that.
    """

    __slots__ = ("_capabilities", "_first", "_questions", "_used", "_watched")

    def __init__(
        self,
        caller_connection: CallerConnection,
        questions: CallerQuestions | None,
        capabilities: frozenset[str],
        first: StatefulChannel | StatelessChannel | None = None,
    ) -> None:
        super().__init__(caller_connection)
        self._watched = caller_connection
        self._questions = questions
        self._capabilities = capabilities
        self._first = first
        self._used: dict[str, int] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the client."""
        return self._capabilities

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Told at once to a client that waits, and kept for one that comes back."""
        super().progress(done, total, message)
        if self._first is not None and not self.kept:
            self._first.progress(done, total, message)

    def log(self, level: str, text: str) -> None:
        """Told to a client that waits."""
        if self._first is not None and not self.kept:
            self._first.log(level, text)

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The answer. Raises `Unasked`, and `InputNeeded` where the client still waits and is asked by an answer."""
        if request_kind(method, params) not in self._capabilities or self.disconnected():
            raise Unasked
        call = self._watched.under_way
        if call is None:
            raise Unasked
        if self._first is not None and not self.kept:
            try:
                return await self._first.ask(key, method, params)
            except InputNeeded:
                self.ending = True
                raise
        return await self._ask_kept(call.id, key, method, params)

    async def _ask_kept(self, call_id: str, key: str, method: str, params: JsonObject) -> Json:
        """The answer to a question that stands with the call, once that is kept. Raises `Unasked`."""
        if not await self.decided() or self._questions is None:
            raise Unasked
        self._used[key] = number = self._used.get(key, 0) + 1
        # No key means two questions of one task (2026-07-28, tasks, section Task Update Requests).
        return await self._questions.ask(call_id, key if number == 1 else f"{key}-{number}", method, params)


class BridgedChannel(TaskChannel):
    """Channel to the caller of a tool of an MCP server, or to a caller over REST. What is requested stands with the call, which is kept
    for that: its caller may answer at any worker, and nothing is called twice.

    `asked` is set with the first request. `returns`: the client comes back for a call that was kept before that.
    """

    __slots__ = ("_returns", "asked")

    def __init__(
        self,
        caller_connection: CallerConnection,
        questions: CallerQuestions,
        capabilities: frozenset[str],
        first: StatefulChannel | StatelessChannel | None,
        *,
        returns: bool,
    ) -> None:
        super().__init__(caller_connection, questions, capabilities, first)
        self._returns = returns
        self.asked = asyncio.Event()

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The answer. Raises `Unasked`."""
        call = self._watched.under_way
        if request_kind(method, params) not in self._capabilities or self.disconnected() or call is None:
            raise Unasked
        if self.kept and not (self._returns or self.asked.is_set()):
            raise Unasked
        self.asked.set()
        return await self._ask_kept(call.id, key, method, params)
