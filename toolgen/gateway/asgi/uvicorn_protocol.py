"""One HTTP/1.1 connection for uvicorn: strict about what a request is, bounded in what it holds and for how long, and with a word for
each request on whether its client is still there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from toolgen.gateway.asgi.connections import Connections
from toolgen.gateway.asgi.http1 import BadRequest, Head, Mark, RequestReader
from toolgen.gateway.asgi.request import ACCEPTED, CROWDED, PRESENCE, Rejected, refusal, too_crowded
from toolgen.pipeline.middleware import Presence

__all__ = ["HttpConnection", "connecting"]

SLOWEST_HEAD_S = 15.0
SLOWEST_READER_S = 30.0
MAX_REST_S = 75.0
_NEVER = float("inf")
_INTERIM = b"HTTP/1.1 1"

_logger = logging.getLogger("uvicorn.error")


class _Corked:
    """A transport for one answer: its head waits for what comes behind it, so that both leave in one packet and one system call."""

    __slots__ = ("_close", "_head", "_transport", "_whole", "begun")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self._close = close
        self._head = b""
        self._whole = False
        self.begun = False

    def write(self, data: bytes) -> None:
        if data.startswith(_INTERIM) and not self.begun:
            self._transport.write(data)
            return
        self.begun = True
        if self._whole:
            self._transport.write(data)
        elif self._head:
            self._transport.write(self._head + data)
            self._whole = True
        else:
            self._head = data

    def flush(self) -> None:
        """Sends a head that nothing comes behind, as in the answer to HEAD."""
        if self._head and not self._whole:
            self._whole = True
            self._transport.write(self._head)

    def close(self) -> None:
        self.flush()
        self._close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class HttpConnection(asyncio.Protocol):
    """Takes requests one by one: what comes behind one that is not answered yet is kept unread, a little of it, and so cannot be answered
    before it. Whoever sends or takes bytes too slowly is cut off; neither needs a credential.
    """

    def __init__(self, config: Config, state: ServerState, connections: Connections) -> None:
        self._app = config.loaded_app
        self._state = state
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._reader = RequestReader()
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER  # when what is waited for is overdue
        self._untaken: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._flow: FlowControl
        self._cycle: RequestResponseCycle | None = None
        self._cork: _Corked
        self._presence = Presence()
        self.peer = ""
        self.proven = False
        self.places: tuple[Any, ...] = ()

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one of TCP
        self._transport = transport
        self._flow = FlowControl(transport)
        self._server, self._client = get_local_addr(transport), get_remote_addr(transport)
        self.peer = self._client[0] if self._client else ""
        self._state.connections.add(self)  # type: ignore[arg-type]  # a set of uvicorn's own kinds
        self._wait(SLOWEST_HEAD_S)
        self._crowded = self._connections.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._connections.leave(self)
        for timer in (self._timer, self._untaken):
            if timer is not None:
                timer.cancel()
        self._flow.resume_writing()
        if self._cycle is not None and not self._cycle.response_complete:
            self._abandon(self._cycle)

    def eof_received(self) -> None: ...

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._reader.feed(data)
        self._advance()

    def pause_writing(self) -> None:
        self._flow.pause_writing()
        self._untaken = self._loop.call_later(SLOWEST_READER_S, self._transport.abort)

    def resume_writing(self) -> None:
        self._flow.resume_writing()
        if self._untaken is not None and not self._transport.is_closing():
            self._untaken.cancel()

    # What uvicorn's server calls

    def shutdown(self) -> None:
        """The answer in hand is the last one."""
        if self._resting:
            self._close()
        elif self._cycle is not None:
            self._cycle.keep_alive = False

    # What the counting of connections calls

    def expendable(self) -> bool:
        """Whether no answer is awaited on it, but by somebody unknown who does not send a body, or does not take the answer."""
        if self._resting or self._transport.is_closing() or self._cycle is None:
            return True
        return ACCEPTED not in self._cycle.scope and (self._cycle.more_body or self._flow.write_paused)

    def give_way(self) -> None:
        """Closes it. Who had begun a request is told why; on a connection that rests, an answer would be taken for that to another."""
        if self._transport.get_write_buffer_size():  # which nobody takes
            self._transport.abort()
        elif self._resting and not self._reader.held and self._cycle is not None:
            self._close()
        else:
            self._refuse(too_crowded())

    # Requests

    @property
    def _resting(self) -> bool:
        """Whether every request has been answered."""
        return self._cycle is None or self._cycle.response_complete

    def _advance(self) -> None:
        """Reads as far as what has come allows: not beyond a request that is being answered."""
        try:
            while not self._transport.is_closing():
                cycle = self._cycle
                if cycle is not None and not cycle.response_complete and not cycle.more_body:
                    if self._reader.held > HIGH_WATER_LIMIT:
                        self._flow.pause_reading()
                    return
                match self._reader.next():
                    case Head() as head:
                        self._begin(head)
                    case Mark.MORE:
                        if self._resting and self._reader.held:
                            self._wait(SLOWEST_HEAD_S, from_first=True)
                        return
                    case Mark.END:
                        self._whole()
                    case bytes() as piece:
                        self._take(piece)
        except BadRequest as error:
            self._refuse(Rejected(400, "bad_request", str(error), suggestion="the connection is closed; send it again"))

    def _begin(self, head: Head) -> None:
        """A request whose headers are here. The list of them is the application's own: nothing that comes later is ever added."""
        self._due = _NEVER
        self._presence = Presence()
        scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.version,
            "server": self._server,
            "client": self._client,
            "scheme": "http",
            "root_path": "",
            "method": head.method,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "headers": list(head.headers),
            PRESENCE: self._presence,
        }
        if self._crowded is not None:
            scope[CROWDED] = self._crowded
        self._cork = _Corked(self._transport, self._close)
        self._cycle = RequestResponseCycle(
            scope=scope,
            transport=self._cork,  # type: ignore[arg-type]  # as much of one as an answer needs
            flow=self._flow,
            logger=_logger,
            access_logger=_logger,
            access_log=False,
            default_headers=self._state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=head.expects_continue,
            keep_alive=head.keep_alive and self._crowded is None,
            on_response=self._answered,
        )
        task = self._loop.create_task(self._cycle.run_asgi(self._app))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _take(self, piece: bytes) -> None:
        cycle = self._cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.body += piece
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self._flow.pause_reading()
        cycle.message_event.set()

    def _whole(self) -> None:
        """All of a request is here. Reading goes on, or nobody would see the client leave."""
        if self._cycle is not None:
            self._cycle.more_body = False
            self._cycle.message_event.set()
            self._flow.resume_reading()

    def _answered(self) -> None:
        """The answer to a request is complete. One that came before its body was leaves nothing to go on with."""
        cycle = self._cycle
        if cycle is None:
            return
        self._state.total_requests += 1
        self.proven = self.proven or ACCEPTED in cycle.scope
        self._cork.flush()
        if cycle.more_body:
            self._close()
        if self._transport.is_closing():
            return
        self._connections.rested(self)
        self._wait(MAX_REST_S)
        self._flow.resume_reading()
        if self._reader.held:
            self._advance()

    # The end

    def _refuse(self, rejected: Rejected) -> None:
        """Answers what is no request, or comes at a bad time, and closes. Nothing is written into an answer that has begun."""
        cycle = self._cycle
        if cycle is not None and not cycle.response_complete:
            begun = self._cork.begun
            self._abandon(cycle)
            if begun:
                self._close()
                return
        response = refusal(rejected)
        headers = [*self._state.default_headers, *response.fields(), (b"connection", b"close")]
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        self._transport.write(b"".join((STATUS_LINE[response.status], *lines, b"\r\n", response.body)))
        self._close()

    def _abandon(self, cycle: RequestResponseCycle) -> None:
        cycle.disconnected = True
        cycle.message_event.set()
        self._presence.leave()

    def _close(self) -> None:
        """Closes once what was written is taken; not waiting for ever for that."""
        self._transport.close()
        if self._untaken is None or self._untaken.cancelled():
            self._untaken = self._loop.call_later(SLOWEST_READER_S, self._transport.abort)

    def _wait(self, seconds: float, *, from_first: bool = False) -> None:
        """Begins to wait for a head: for its beginning, or (`from_first`) for the rest of one whose first bytes are here."""
        due = self._loop.time() + seconds
        self._due = min(self._due, due) if from_first else due
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)
        elif self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Closes a connection whose head is overdue. One timer serves many heads: each only moves the time on, and costs no timer."""
        self._timer = None
        if self._due == _NEVER or self._transport.is_closing():
            return
        if self._loop.time() >= self._due:
            self._close()
        else:
            self._timer = self._loop.call_at(self._due, self._look)


def connecting(connections: Connections) -> Any:
    """What uvicorn makes a protocol of each connection with."""

    def connect(
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> HttpConnection:
        return HttpConnection(config, server_state, connections)

    return connect
