"""The sessions over HTTP that all workers of a gateway share, held by the process above them: one for each source and caller.

One worker begins a session, and the others that need it wait for what comes of that; a server is never met twice for one caller, so that
what it keeps in a session has no two halves.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from toolgen.connectors.mcp.command_frames import SessionDropped, SessionReady, SessionReply, SessionRequest

__all__ = ["SessionTable", "Worker"]

_MAX_SESSIONS = 20_000
_BLOCK = 2**32  # numbers of requests for each worker that is let into a session; all are exact as JSON's numbers


class Worker(Protocol):
    """A connection to one."""

    def send(self, said: SessionReply) -> None: ...


class _SessionEntry(Struct):
    """`beginner` is whose turn it is to begin it, `waiting` who asked meanwhile: a worker, and the number of its question."""

    epoch: int = 0
    settled: SessionReady | None = None
    workers: int = 0
    beginner: tuple[Worker, int] | None = None
    waiting: deque[tuple[Worker, int]] = field(default_factory=deque)


class SessionTable:
    """`tell` passes to every worker that a session is no more."""

    def __init__(self, tell: Callable[[SessionDropped], None]) -> None:
        self._tell = tell
        self._sessions: OrderedDict[str, _SessionEntry] = OrderedDict()
        self._epoch = 0

    def meet(self, worker: Worker, said: SessionRequest) -> None:
        """Answers with the session, or lets the worker begin it, when nobody else does."""
        session = self._sessions.setdefault(said.key, _SessionEntry())
        self._sessions.move_to_end(said.key)
        if session.settled is not None and session.epoch == said.lost:
            self._drop(said.key, session)
        session.waiting.append((worker, said.number))
        self._go_on(said.key, session)
        self._bound()

    def settle(self, worker: Worker, said: SessionReady) -> None:
        """Record the result of beginning a session. Results from another worker than the one that began it are ignored."""
        session = self._sessions.get(said.key)
        if session is None or session.beginner != (worker, said.number):
            return
        session.beginner = None
        session.settled = said if said.version else None
        self._go_on(said.key, session)

    def forget(self, worker: Worker, number: int | None = None) -> None:
        """A question is given up, or with no number all of a worker that is gone."""
        for key, session in tuple(self._sessions.items()):
            asked = [one for one in session.waiting if one[0] is worker and number in {None, one[1]}]
            for one in asked:
                session.waiting.remove(one)
            if session.beginner is not None and session.beginner[0] is worker and number in {None, session.beginner[1]}:
                session.beginner = None
                self._go_on(key, session)

    def _go_on(self, key: str, session: _SessionEntry) -> None:
        while session.waiting and session.beginner is None:
            worker, number = session.waiting.popleft()
            if (settled := session.settled) is None:
                self._epoch += 1
                session.epoch, session.workers, session.beginner = self._epoch, 0, (worker, number)
                worker.send(SessionReply(number=number, key=key, epoch=session.epoch))
                return
            session.workers += 1
            worker.send(
                SessionReply(
                    number=number,
                    key=key,
                    epoch=session.epoch,
                    above=session.workers * _BLOCK,
                    version=settled.version,
                    session=settled.session,
                    server=settled.server,
                )
            )

    def _drop(self, key: str, session: _SessionEntry) -> None:
        session.settled = None
        self._tell(SessionDropped(key=key, epoch=session.epoch))

    def _bound(self) -> None:
        """Forgets the session that was asked for the longest time ago, where nobody is about to begin it."""
        if len(self._sessions) > _MAX_SESSIONS:
            key, session = next(iter(self._sessions.items()))
            self._sessions.move_to_end(key)
            if session.beginner is None:
                del self._sessions[key]
                self._drop(key, session)
