"""A worker's way to the commands that the process above holds for all workers."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TypeAlias
from weakref import WeakValueDictionary

from toolgen.connectors.http.scrubber import Scrubber, scrubber_of
from toolgen.connectors.mcp.command import NOT_SENT, Command, NoticeListeners
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
    SessionReply,
    SessionRequest,
    SessionSuspect,
    Tell,
    ToolsChanged,
    ToWorker,
)
from toolgen.connectors.mcp.messages import Agreed, Meeting, SharedSession, failed
from toolgen.connectors.mcp.notices import LOST, NoticeListener, ServerNotice
from toolgen.connectors.mcp.process import CommandFault, CommandReply
from toolgen.connectors.mcp.request_texts import BadRequestError
from toolgen.connectors.mcp.server_requests import NO_ANSWER
from toolgen.core.frames import Frames
from toolgen.core.json_codec import FRAMED_DEPTH, decode_json, encode_json
from toolgen.model.client_channel import ClientChannel, Unasked
from toolgen.model.relayed import LASTING_TOPICS, Relayed
from toolgen.model.result import Failed
from toolgen.model.schema import JsonObject

__all__ = ["CommandClient"]

_Answered: TypeAlias = Begun | ReplyFrame | SessionReply
_MAX_UNHEARD = 10_000
_GONE = "is out of reach: the process that holds it for all workers has ended"


class CommandClient:
    """The one connection of a worker, over the socket with this descriptor, which it takes over."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._opening = asyncio.Lock()
        self._frames: Frames[ToWorker] = Frames(ToWorker, self._heard, self._lost)
        self._is_lost = asyncio.Event()
        self._number = 0
        self._asked: dict[int, tuple[asyncio.Future[_Answered], ClientChannel | None]] = {}
        self._questions: dict[int, tuple[int, asyncio.Task[None]]] = {}
        self._commands: dict[str, _RemoteCommand] = {}
        self._sessions: WeakValueDictionary[str, _RemoteSession] = WeakValueDictionary()
        self._relayed: list[Callable[[Relayed], None]] = []
        self._unheard: list[Relayed] = []
        self._relaying: set[asyncio.Task[None]] = set()

    def relay(self, said: Relayed) -> None:
        """Send a message to the other workers."""
        self._do(self._relay(RelayFrame(said=said)))

    def hear(self, listener: Callable[[Relayed], None]) -> None:
        """Have a listener told of what other workers relay, and of what they relayed before and is needed later."""
        self._relayed.append(listener)
        for said in self._unheard:
            listener(said)
        self._unheard.clear()
        self._do(self._relay(None))

    async def _relay(self, said: RelayFrame | None) -> None:
        if self._frames.transport is None:
            await self._open()
        if said is not None:
            self._frames.send(said)

    def _do(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._relaying.add(task)
        task.add_done_callback(self._relaying.discard)

    def command(self, source: str) -> Command:
        """The command of a source."""
        return self._commands.setdefault(source, _RemoteCommand(self, source))

    def session(self, *caller: str) -> SharedSession:
        """The session of a caller with a server behind a URL; `caller` is the source and who calls."""
        key = hashlib.sha256(encode_json(caller)).hexdigest()
        found = self._sessions.get(key)
        if found is None:
            found = self._sessions[key] = _RemoteSession(self, key)
        return found

    def send(self, said: FromWorker) -> None:
        """Never waits; lost where there is no connection. Raises `ValueError` for what is too large."""
        self._frames.send(said)

    def number(self) -> int:
        """Return a unique request number."""
        self._number += 1
        return self._number

    async def answer(
        self, asked: Begin | RequestFrame | SessionRequest, line: ClientChannel | None = None
    ) -> _Answered | None:
        """Send a request and return its answer; None if no answer will come. Raises `ValueError` for a request too large to be sent."""
        if self._frames.transport is None:
            await self._open()
        if not self._frames.is_open:
            return None
        waiter: asyncio.Future[_Answered] = asyncio.get_running_loop().create_future()
        self._asked[asked.number] = (waiter, line)
        try:
            self._frames.send(asked)
            return await waiter
        except OSError:
            return None
        except asyncio.CancelledError:
            self._frames.send(Forget(number=asked.number))
            raise
        finally:
            self._asked.pop(asked.number, None)
            for number, task in tuple(self._questions.values()):
                if number == asked.number:
                    task.cancel()

    async def close(self) -> None:
        """Ends the connection; the commands run on."""
        if self._relaying:
            await asyncio.wait(self._relaying)
        if self._frames.transport is None:
            self._socket.close()
        else:
            self._frames.abort()
            await self._is_lost.wait()

    async def _open(self) -> None:
        async with self._opening:
            if self._frames.transport is None:
                await asyncio.get_running_loop().create_unix_connection(lambda: self._frames, sock=self._socket)

    def _lost(self) -> None:
        self._is_lost.set()
        for command in self._commands.values():
            command.lose()
        for session in tuple(self._sessions.values()):
            session.epoch = None
        for waiter, _ in self._asked.values():
            if not waiter.done():
                waiter.set_exception(OSError(_GONE))

    def _heard(self, said: ToWorker) -> None:
        match said:
            case Begun() | ReplyFrame() | SessionReply():
                if isinstance(said, SessionReply) and (session := self._sessions.get(said.key)) is not None:
                    session.epoch = said.epoch  # now: it may be dropped before the caller goes on
                waiter, _ = self._asked.get(said.number, (None, None))
                if waiter is not None and not waiter.done():
                    waiter.set_result(said)
            case ProgressFrame():
                _, line = self._asked.get(said.number, (None, None))
                if line is not None:
                    line.progress(said.done, said.total, said.message)
            case LogFrame():
                _, line = self._asked.get(said.number, (None, None))
                if line is not None:
                    line.log(said.level, said.text)
            case QuestionFrame() | QuestionOver():
                self._questioned(said)
            case CommandState() | ToolsChanged() | NoticeFrame():
                if (command := self._commands.get(said.source)) is not None:
                    command.hear(said)
            case RelayFrame():
                self._heard_relayed(said.said)
            case SessionDropped():
                self._dropped(said)

    def _heard_relayed(self, said: Relayed) -> None:
        for listener in self._relayed:
            listener(said)
        if not self._relayed and said.topic in LASTING_TOPICS:
            self._unheard = [*self._unheard[-_MAX_UNHEARD:], said]

    def _dropped(self, said: SessionDropped) -> None:
        session = self._sessions.get(said.key)
        if session is not None and session.epoch == said.epoch:
            session.epoch = None

    def _questioned(self, said: QuestionFrame | QuestionOver) -> None:
        if isinstance(said, QuestionOver):
            if (asked := self._questions.get(said.question)) is not None:
                asked[1].cancel()
            return
        _, line = self._asked.get(said.number, (None, None))
        if line is None:
            self._frames.send(AnswerFrame(question=said.question, error=NO_ANSWER))
            return
        task = asyncio.create_task(self._ask_caller(said, line))
        self._questions[said.question] = (said.number, task)
        task.add_done_callback(lambda _: self._questions.pop(said.question, None))

    async def _ask_caller(self, said: QuestionFrame, line: ClientChannel) -> None:
        """Pass a request of a server on to the caller of its call, and the answer back."""
        try:
            params = decode_json(said.params, FRAMED_DEPTH)
            answer = encode_json(await line.ask(said.method, said.method, params))
            reply = AnswerFrame(question=said.question, answer=answer)
        except BadRequestError as error:
            reply = AnswerFrame(question=said.question, error=str(error), invalid=True)
        except Unasked as error:
            reply = AnswerFrame(question=said.question, error=str(error) or NO_ANSWER)
        self._frames.send(reply)


class _RemoteCommand:
    """The command of one source, as this worker was last told of it."""

    def __init__(self, client: CommandClient, source: str) -> None:
        self._client = client
        self._source = source
        self._epoch = 0
        self._ready = False
        self.changed = False
        self.scrubber = Scrubber(())
        self.notices = NoticeListeners()

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        return self.notices.watch(listener)

    def hear(self, said: CommandState | ToolsChanged | NoticeFrame) -> None:
        match said:
            case CommandState():
                self._learn(said)
            case ToolsChanged():
                self.changed = True
            case NoticeFrame():
                self.notices.tell(ServerNotice(said.kind, said.uri))

    def _learn(self, state: CommandState) -> None:
        self._epoch, self._ready = state.epoch, state.ready
        self.scrubber = scrubber_of(state.hidden)

    def lose(self) -> None:
        self._ready = False
        self.notices.tell(LOST)

    def ready(self) -> int | None:
        return self._epoch if self._ready else None

    async def begin(self, values: Mapping[str, str] | None) -> int | Failed | None:
        given = None if values is None else dict(values)
        begun = await self._client.answer(Begin(number=self._client.number(), source=self._source, values=given))
        if not isinstance(begun, Begun):
            return failed("upstream_unavailable", f"the server's command {_GONE}; nothing was sent", "", NOT_SENT)
        if begun.error:
            return failed("upstream_unavailable", begun.error, begun.suggestion, NOT_SENT)
        if not begun.epoch:
            return None
        self._ready = begun.epoch == self._epoch  # the state was told before; it may be another already
        return begun.epoch

    async def ask(self, message: JsonObject, line: ClientChannel | None) -> CommandReply:
        asked = RequestFrame(
            number=self._client.number(),
            source=self._source,
            epoch=self._epoch,
            message=encode_json(message),
            listens=line is not None and line.listens,
            logs=line is not None,
            asks=() if line is None else tuple(line.capabilities),
        )
        try:
            answer = await self._client.answer(asked, line)
        except ValueError:
            return CommandReply(fault=CommandFault.NOT_SENT)
        if not isinstance(answer, ReplyFrame):
            return CommandReply(fault=CommandFault.ENDED, reason=_GONE)
        if answer.fault is CommandFault.NOT_SENT and asked.epoch == self._epoch:
            self._ready = False
        return CommandReply(answer.line, answer.fault, answer.reason)

    def doubt(self) -> None:
        self._ready = False
        self._client.send(SessionSuspect(source=self._source))

    async def tell(self, message: JsonObject) -> None:
        with suppress(ValueError):
            self._client.send(Tell(source=self._source, message=encode_json(message)))

    def stale(self) -> bool:
        changed, self.changed = self.changed, False
        return changed

    async def close(self) -> None:
        await self._client.close()


class _RemoteSession:
    """A session of all workers, as this one was last told of it."""

    def __init__(self, client: CommandClient, key: str) -> None:
        self._client = client
        self._key = key
        self._beginning: int | None = None
        self.epoch: int | None = None

    async def meet(self, lost: int | None) -> Meeting | Failed:
        met = await self._client.answer(SessionRequest(number=self._client.number(), key=self._key, lost=lost or 0))
        if not isinstance(met, SessionReply):
            return failed("upstream_unavailable", f"the server's session {_GONE}; nothing was sent", "", NOT_SENT)
        if not met.version:
            self._beginning = met.number
        agreed = Agreed(version=met.version, session=met.session) if met.version else None
        return Meeting(epoch=met.epoch, above=met.above, agreed=agreed, server=met.server)

    def settle(self, agreed: Agreed | None, server: tuple[str, str]) -> None:
        if self._beginning is None:
            return
        settled = SessionReady(number=self._beginning, key=self._key)
        if agreed is None:
            self.epoch = None
        else:
            settled = SessionReady(
                number=self._beginning, key=self._key, version=agreed.version, session=agreed.session, server=server
            )
        self._beginning = None
        self._client.send(settled)
