"""The commands of all sources, held by one process for several workers: each is started once, and all share its memory.

Workers are on the other ends of socket pairs, which have no name that anybody else could connect to. A worker that dies takes its own
calls with it, which are taken back at the command, and nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from toolgen.connectors.mcp.command import CommandSpec, LocalCommand
from toolgen.connectors.mcp.command_frames import (
    AnswerFrame,
    Begin,
    Begun,
    CommandState,
    Forget,
    FromWorker,
    LogFrame,
    NoticeFrame,
    ProgressFrame,
    QuestionFrame,
    QuestionOver,
    RelayFrame,
    ReplyFrame,
    RequestFrame,
    SessionDropped,
    SessionReady,
    SessionRequest,
    SessionSuspect,
    Tell,
    ToolsChanged,
    ToWorker,
)
from toolgen.connectors.mcp.messages import cancel_notification, failed
from toolgen.connectors.mcp.notices import SUBSCRIBE, UNSUBSCRIBE, ServerNotice
from toolgen.connectors.mcp.process import CommandFault, CommandReply, replied
from toolgen.connectors.mcp.request_texts import BadRequestError
from toolgen.connectors.mcp.session_table import SessionTable
from toolgen.core.background import cancel
from toolgen.core.errors import place_of
from toolgen.core.frames import MAX_FRAME_SIZE, Frames
from toolgen.core.json_codec import FRAMED_DEPTH, decode_json, encode_json
from toolgen.model.client_channel import ClientChannel, Unasked
from toolgen.model.relayed import LASTING_TOPICS, Relayed, RelayTopic
from toolgen.model.result import Failed
from toolgen.model.schema import Json, JsonObject

__all__ = ["CommandServer"]

_logger = logging.getLogger("toolgen.mcp")
# Bytes that a worker may leave unread before its answers are left out, and before it is told of nothing else.
_MAX_UNREAD = MAX_FRAME_SIZE - 4096
_MUCH_UNREAD = 1024 * 1024
_MAX_SESSIONS, _MAX_URIS = 4096, 256


class CommandServer:
    """Holds the commands, and one connection for each worker."""

    def __init__(self, specs: Iterable[CommandSpec]) -> None:
        self._sessions: set[_WorkerConnection] = set()
        self._table = SessionTable(self._dropped)
        self._relayed = RelayedMessages(self._sessions)
        self._commands = {spec.source: _SharedCommand(spec, self._sessions) for spec in specs}

    async def connect(self) -> socket.socket:
        """A worker's end of a connection; this process closes it once the worker has it."""
        ours, theirs = socket.socketpair()
        session = _WorkerConnection(self._commands, self._table, self._sessions, self._relayed)
        await asyncio.get_running_loop().create_unix_connection(lambda: session.frames, sock=ours)
        for command in self._commands.values():
            session.send(command.state())
        for said in self._relayed.known():
            session.send(said)
        return theirs

    def _dropped(self, said: SessionDropped) -> None:
        for session in self._sessions:
            session.send(said)

    async def close(self) -> None:
        """Ends every connection, every command and whatever they started."""
        for session in tuple(self._sessions):
            session.frames.abort()
            await session.ended.wait()
        await asyncio.gather(*(command.close() for command in self._commands.values()))


class _SharedCommand:
    """Command shared by all workers. Their requests are numbered together, and the handshake is made once for each process of the
    command."""

    def __init__(self, spec: CommandSpec, sessions: Iterable[_WorkerConnection]) -> None:
        self._source = spec.source
        self._sessions = sessions
        self._command = LocalCommand(spec, on_change=self._changed)
        self._number = 0
        self._beginning: set[asyncio.Task[int | Failed | None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._handshake: tuple[int, asyncio.Future[CommandReply]] | None = None
        self._shaking = 0
        self._told = 0
        self._subscribers: dict[str, set[_WorkerConnection]] = {}  # of the process `_subscribed_at`, by URI
        self._subscribed_at = 0
        self._command.watch(self._noticed)

    def _noticed(self, notice: ServerNotice) -> None:
        told = NoticeFrame(source=self._source, kind=notice.kind, uri=notice.uri)
        for session in tuple(self._sessions):
            if notice.kind != "updated" or session in self._subscribers.get(notice.uri, ()):
                session.send(told)

    def _subscription(self, message: JsonObject, worker: _WorkerConnection) -> bool:
        """Count a subscription, or its end. Returns True if the server has to be told: of the first worker, and of the last one."""
        if self._subscribed_at != self._command.epoch:
            self._subscribers, self._subscribed_at = {}, self._command.epoch
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, Mapping) else None
        if not isinstance(uri, str):
            return True
        if message["method"] == SUBSCRIBE:
            workers = self._subscribers.setdefault(uri, set())
            workers.add(worker)
            return len(workers) == 1
        workers = self._subscribers.get(uri, set())
        workers.discard(worker)
        if not workers:
            self._subscribers.pop(uri, None)
        return not workers

    def leave(self, worker: _WorkerConnection) -> None:
        """End the subscriptions of a worker that is gone."""
        for uri in [uri for uri, workers in self._subscribers.items() if worker in workers]:
            message: JsonObject = {"jsonrpc": "2.0", "id": 0, "method": UNSUBSCRIBE, "params": {"uri": uri}}
            if self._subscription(message, worker):
                self._command.ask({**message, "id": self.number()}, None)

    def state(self) -> CommandState:
        command = self._command
        return CommandState(
            source=self._source, epoch=command.epoch, ready=command.ready() is not None, hidden=command.hidden
        )

    def _changed(self) -> None:
        told: list[CommandState | ToolsChanged] = [self.state()]
        if self._command.stale():
            told.append(ToolsChanged(source=self._source))
        for session in tuple(self._sessions):
            for one in told:
                session.send(one)

    async def begin(self, values: Mapping[str, str] | None) -> int | Failed | None:
        """A worker that leaves meanwhile does not end it: a process begun by halves would be nobody's."""
        task = asyncio.create_task(self._command.begin(values))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)
        return await asyncio.shield(task)

    def number(self) -> int:
        self._number += 1
        return self._number

    def ask(
        self, message: JsonObject, number: int, line: ClientChannel | None, epoch: int, worker: _WorkerConnection
    ) -> asyncio.Future[CommandReply]:
        """Asks the process `epoch`, under a number that no other worker has. Several workers subscribe to a resource once."""
        if epoch != self._command.epoch:
            return replied(CommandReply(fault=CommandFault.NOT_SENT))
        if message.get("method") in {SUBSCRIBE, UNSUBSCRIBE} and not self._subscription(message, worker):
            return replied(CommandReply(encode_json({"jsonrpc": "2.0", "id": number, "result": {}})))
        answer = self._ask(message, number, line, epoch)
        if message.get("method") == SUBSCRIBE:
            answer.add_done_callback(lambda one: self._subscribed(message, one))
        return answer

    def _subscribed(self, message: JsonObject, answer: asyncio.Future[CommandReply]) -> None:
        """Handle the server's answer to a subscription. Without one, nobody is subscribed."""
        params = message.get("params")
        if isinstance(params, Mapping) and (answer.cancelled() or not _is_result(answer.result())):
            self._subscribers.pop(str(params.get("uri")), None)

    def _ask(
        self, message: JsonObject, number: int, line: ClientChannel | None, epoch: int
    ) -> asyncio.Future[CommandReply]:
        if message.get("method") == "initialize":
            return asyncio.create_task(self._shake({**message, "id": number}, epoch))
        return self._command.ask(_renumbered(message, number), line)

    async def _shake(self, message: JsonObject, epoch: int) -> CommandReply:
        """A second handshake would begin the server's state again, so all workers are given the answer to the first."""
        if self._handshake is None or self._handshake[0] != epoch or _is_unanswered(self._handshake[1]):
            self._handshake, self._shaking = (epoch, self._command.ask(message, None)), 0
        task = self._handshake[1]
        self._shaking += 1
        try:
            return await asyncio.shield(task)
        finally:
            if self._handshake[1] is task:
                self._shaking -= 1
                if not self._shaking and not task.done():
                    task.cancel()

    def doubt(self) -> None:
        self._command.doubt()

    def tell_soon(self, message: JsonObject) -> None:
        """Sends a notification, also for a worker that has gone by then. That the handshake is done is said once."""
        if message.get("method") == "notifications/initialized":
            epoch = self._command.epoch
            if self._told == epoch or self._handshake is None or self._handshake[0] != epoch:
                return
            self._told = epoch
        task = asyncio.create_task(self._command.tell(message))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def close(self) -> None:
        await cancel(*self._telling)
        await asyncio.gather(*self._beginning, return_exceptions=True)
        await self._command.close()


class RelayedMessages:
    """Messages of workers to one another, and those that a worker needs that begins later."""

    def __init__(self, workers: Collection[_WorkerConnection]) -> None:
        self._workers = workers
        self._sessions: OrderedDict[tuple[RelayTopic, str], dict[str, str]] = OrderedDict()

    def known(self) -> Iterator[RelayFrame]:
        """Yield the state of all sessions."""
        for (topic, key), values in self._sessions.items():
            for name, value in values.items():
                yield RelayFrame(said=Relayed(topic=topic, key=key, name=name, value=value))

    def relay(self, frame: RelayFrame, worker: _WorkerConnection) -> None:
        """Tell the other workers."""
        if frame.said.topic in LASTING_TOPICS:
            self._note(frame.said)
        for other in tuple(self._workers):
            if other is not worker:
                other.send(frame)

    def _note(self, said: Relayed) -> None:
        key = (said.topic, said.key)
        values = self._sessions.setdefault(key, {})
        self._sessions.move_to_end(key)
        values.pop(said.name, None)
        if said.value and len(values) < _MAX_URIS:
            values[said.name] = said.value
        if not values:
            del self._sessions[key]
        if len(self._sessions) > 2 * _MAX_SESSIONS:
            self._sessions.popitem(last=False)


class _PendingRequest(NamedTuple):
    """A request under way: whose message it was for the worker, and what it is called at the command."""

    command: _SharedCommand
    number: int
    key: tuple[str, Json]
    method: Json
    answer: asyncio.Future[CommandReply]


class _WorkerConnection:
    """The connection of one worker."""

    def __init__(
        self,
        commands: Mapping[str, _SharedCommand],
        table: SessionTable,
        sessions: set[_WorkerConnection],
        relayed: RelayedMessages,
    ) -> None:
        self._relayed = relayed
        self._commands = commands
        self._table = table
        self._missed: set[str] = set()
        self._sessions = sessions
        self._asked: dict[int, _PendingRequest] = {}
        self._numbers: dict[tuple[str, Json], int] = {}  # those of the command, by the worker's own
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[int, asyncio.Future[AnswerFrame]] = {}
        self._question = 0
        self.frames: Frames[FromWorker] = Frames(FromWorker, self._heard, self._lost, self._catch_up)
        self.ended = asyncio.Event()
        sessions.add(self)

    def send(self, said: ToWorker) -> None:
        """Never waits, and holds no more than so much for a worker that does not read: the callers of answers beyond that are told that
        theirs were too long, and what became of the commands meanwhile is said when the worker reads again."""
        unread = self.frames.unread()
        match said:
            case ProgressFrame() | LogFrame() | QuestionFrame() | NoticeFrame() | RelayFrame() if unread > _MUCH_UNREAD:
                return
            case CommandState() | ToolsChanged() if unread > _MUCH_UNREAD:
                self._missed.add(said.source)
                return
            case ReplyFrame() if unread + len(said.line) > _MAX_UNREAD:
                said = ReplyFrame(number=said.number, fault=CommandFault.TOO_LONG)
            case _:
                pass
        self.frames.send(said)

    def _catch_up(self) -> None:
        """The worker reads again: it is told which commands run now, and to ask for their tools once more."""
        for source in self._missed:
            self.frames.send(self._commands[source].state())
            self.frames.send(ToolsChanged(source=source))
        self._missed.clear()

    def _lost(self) -> None:
        """The worker is gone: what it waited for is taken back."""
        self._sessions.discard(self)
        self._table.forget(self)
        for command in self._commands.values():
            command.leave(self)
        for asked in tuple(self._asked.values()):
            if asked.method != "initialize":
                asked.command.tell_soon(cancel_notification(asked.number))
            asked.answer.cancel()
        for task in self._tasks:
            task.cancel()
        self.ended.set()

    def _heard(self, said: FromWorker) -> None:
        match said:
            case Forget():
                if asked := self._asked.get(said.number):
                    asked.answer.cancel()
                else:
                    self._table.forget(self, said.number)
            case SessionRequest():
                self._table.meet(self, said)
            case SessionReady():
                self._table.settle(self, said)
            case RelayFrame():
                self._relayed.relay(said, self)
            case AnswerFrame():
                if (question := self._questions.get(said.question)) is not None and not question.done():
                    question.set_result(said)
            case _:
                self._heard_of(said, self._commands.get(said.source))

    def _heard_of(self, said: Begin | RequestFrame | Tell | SessionSuspect, command: _SharedCommand | None) -> None:
        match said:
            case Begin() if command is None:
                message = "the command was not in toolgen.yaml when the gateway was started; nothing was sent"
                self.send(Begun(number=said.number, error=message, suggestion="start the gateway again"))
            case _ if command is None:
                if isinstance(said, RequestFrame):
                    self.send(ReplyFrame(number=said.number, fault=CommandFault.NOT_SENT))
            case Begin():
                self._do(self._begin(said, command))
            case RequestFrame():
                self._ask(said, command)
            case Tell():
                self._tell(said, command)
            case SessionSuspect():
                command.doubt()

    def _do(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _begin(self, said: Begin, command: _SharedCommand) -> None:
        begun: int | Failed | None = failed("upstream_unavailable", "the command cannot be started; nothing was sent")
        try:
            begun = await command.begin(said.values)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker has to be told
            _failed(error)
        if isinstance(begun, Failed):
            self.send(Begun(number=said.number, error=begun.error.message, suggestion=begun.error.suggestion))
        else:
            self.send(Begun(number=said.number, epoch=begun or 0))

    def _ask(self, said: RequestFrame, command: _SharedCommand) -> None:
        message, number = decode_json(said.message, FRAMED_DEPTH), command.number()
        line = _RemoteLine(self, said.number, frozenset(said.asks)) if said.listens or said.logs else None
        answer = command.ask(message, number, line, said.epoch, self)
        asked = _PendingRequest(command, number, (said.source, message["id"]), message.get("method"), answer)
        self._asked[said.number], self._numbers[asked.key] = asked, number
        answer.add_done_callback(partial(self._answered, said.number))

    def _answered(self, number: int, answer: asyncio.Future[CommandReply]) -> None:
        """Passes on what answers a question. Of one that was forgotten the server may yet be told that it is called off."""
        asked = self._asked.pop(number)
        if answer.cancelled():
            return
        self._numbers.pop(asked.key, None)
        reply = CommandReply(fault=CommandFault.ENDED, reason="could not be asked")
        if (error := answer.exception()) is None:
            reply = answer.result()
        else:
            _failed(error)
        self.send(ReplyFrame(number=number, line=reply.line, fault=reply.fault, reason=reply.reason))

    async def question(self, number: int, method: str, params: JsonObject) -> AnswerFrame:
        """Ask the caller of a request of the worker, and return the answer."""
        self._question += 1
        question = self._question
        answer: asyncio.Future[AnswerFrame] = asyncio.get_running_loop().create_future()
        self._questions[question] = answer
        try:
            self.send(QuestionFrame(number=number, question=question, method=method, params=encode_json(params)))
            return await answer
        finally:
            if not answer.done() or answer.cancelled():
                self.send(QuestionOver(question=question))
            del self._questions[question]

    def _tell(self, said: Tell, command: _SharedCommand) -> None:
        message = decode_json(said.message, FRAMED_DEPTH)
        if message.get("method") != "notifications/cancelled":
            command.tell_soon(message)
        elif number := self._numbers.pop((said.source, message["params"]["requestId"]), None):
            command.tell_soon(cancel_notification(number))


class _RemoteLine:
    """Client channel to a caller of a worker's."""

    listens = True

    def __init__(self, session: _WorkerConnection, number: int, capabilities: frozenset[str]) -> None:
        self._session = session
        self._number = number
        self.capabilities = capabilities

    def disconnected(self) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._session.send(ProgressFrame(number=self._number, done=done, total=total, message=message))

    def partial(self, data: Json) -> None:
        """Nothing: servers of MCP give no pieces of results."""

    def log(self, level: str, text: str) -> None:
        self._session.send(LogFrame(number=self._number, level=level, text=text))

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        answer = await self._session.question(self._number, method, params)
        if answer.error:
            raise (BadRequestError if answer.invalid else Unasked)(answer.error)
        found: Json = decode_json(answer.answer, FRAMED_DEPTH)
        return found


def _failed(error: BaseException) -> None:
    _logger.error("a command of an MCP server failed a worker: %s", place_of(error))


def _is_result(reply: CommandReply) -> bool:
    if reply.fault is not None:
        return False
    message = decode_json(reply.line)
    return isinstance(message, Mapping) and "result" in message


def _is_unanswered(task: asyncio.Future[CommandReply]) -> bool:
    return task.done() and (task.cancelled() or task.result().fault is not None)


def _renumbered(message: JsonObject, number: int) -> JsonObject:
    """The request under another number, which is its progress token too where it has one."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    if isinstance(params, Mapping) and isinstance(meta, Mapping) and "progressToken" in meta:
        return {**message, "id": number, "params": {**params, "_meta": {**meta, "progressToken": number}}}
    return {**message, "id": number}
