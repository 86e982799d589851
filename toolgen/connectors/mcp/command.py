"""The command that a server is: begun when it is needed, begun again when it ended, and ended with the gateway."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from toolgen.connectors.http.response import MAX_ANSWER_SIZE
from toolgen.connectors.http.scrubber import Scrubber, scrubber_of
from toolgen.connectors.mcp.child_process import MARK, Descendants, begun_as_subreaper
from toolgen.connectors.mcp.error_log import ErrorLog
from toolgen.connectors.mcp.messages import failed
from toolgen.connectors.mcp.notices import LOST, NoticeListener, ServerNotice
from toolgen.connectors.mcp.process import CommandFault, CommandReply, ServerProcess, replied
from toolgen.connectors.mcp.settings import names_credential
from toolgen.core.background import cancel
from toolgen.core.clock import Clock, SystemClock
from toolgen.model.client_channel import ClientChannel
from toolgen.model.excerpt import bounded
from toolgen.model.result import Delivery, Failed
from toolgen.model.schema import JsonObject
from toolgen.model.secret import SecretReference

__all__ = ["NOT_SENT", "Command", "CommandSpec", "LocalCommand", "NoticeListeners"]

# What most programs need, and nothing that is only the gateway's.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ") + (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
) * (os.name == "nt")  # fmt: skip
_LEAVING_S = 2.0
_SIGN_OF_LIFE_S = 2.0
_MAX_UNREAD: Final = 8 * 1024 * 1024  # bytes that a command has not read, before it is sent no further requests
_AGAIN_S = 1.0  # a command that ended before it answered anything is not started more often
_MAX_NAME_LENGTH = 100
_MAX_PATH_LENGTH = 500
_CLOCK = SystemClock()
NOT_SENT: Final = Delivery(attempts=1, unsent=True)


class CommandSpec(Struct, frozen=True, kw_only=True):
    """Command of a source: its words, its working folder, its environment variables and the maximum length of a line in bytes."""

    source: str = ""
    words: tuple[str, ...]
    folder: str = ""
    environment: Mapping[str, SecretReference] = {}
    largest: int = MAX_ANSWER_SIZE


class Command(Protocol):
    """A way to one command, wherever it runs. Nothing here raises for what it does."""

    @property
    def scrubber(self) -> Scrubber:
        """Takes the secrets that the command was given out of what it says."""

    def ready(self) -> int | None:
        """The number of the process that can be asked; None where `begin` has to see to that first."""

    async def begin(self, values: Mapping[str, str] | None) -> int | Failed | None:
        """Starts the command where it does not run. `values` are those of its variables; None asks for them where they are needed."""

    def ask(self, message: JsonObject, line: ClientChannel | None) -> Awaitable[CommandReply]:
        """Sends a request and waits for its answer."""

    def doubt(self) -> None:
        """Asks the command for a sign of life; one that gives none is ended once nobody else waits for it."""

    async def tell(self, message: JsonObject) -> None:
        """Sends a notification."""

    def stale(self) -> bool:
        """Return True if the server has announced a changed tool list since the last call."""

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        """Have a listener told of each notice, until the returned function is called."""

    async def close(self) -> None: ...


class NoticeListeners:
    """Listeners for the notices of one command."""

    def __init__(self) -> None:
        self._listeners: list[NoticeListener] = []

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        """Have a listener told of each notice, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, notice: ServerNotice) -> None:
        """Tell all listeners of a notice."""
        for listener in tuple(self._listeners):
            listener(notice)


def _nothing() -> None:
    pass


class LocalCommand:
    """A command that this process starts. `on_change` is called whenever `ready` or `stale` may say something else than before."""

    def __init__(self, spec: CommandSpec, *, clock: Clock = _CLOCK, on_change: Callable[[], None] = _nothing) -> None:
        self._spec = spec
        self._clock = clock
        self._on_change = on_change
        self.scrubber = Scrubber(())
        self.hidden: tuple[str, ...] = ()
        self.epoch = 0
        self._starting = asyncio.Lock()
        self._started = -math.inf
        self._running: ServerProcess | None = None
        self._last_words = ""
        self._doubting: asyncio.Task[None] | None = None
        self._pings = 0  # downwards: the numbers above are those of the callers
        self._listeners = NoticeListeners()

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        """Have a listener told of each notice, until the returned function is called."""
        return self._listeners.watch(listener)

    def _altered(self) -> None:
        """Handle a change of the process: what its server was asked to tell of is told no more if it has ended."""
        self._on_change()
        if self._running is None or not self._running.alive:
            self._listeners.tell(LOST)

    def ready(self) -> int | None:
        """Return the number of the process while it runs and its liveness is not in doubt; otherwise None."""
        doubted = self._doubting is not None and not self._doubting.done()
        return self.epoch if self._running is not None and self._running.alive and not doubted else None

    async def begin(self, values: Mapping[str, str] | None) -> int | Failed | None:
        """Starts the command where it does not run."""
        async with self._starting:
            if self._doubting is not None:
                await asyncio.wait({self._doubting})
                self._doubting = None
            if self._running is not None and self._running.alive:
                return self.epoch
            if self._running is not None:
                await self._running.stop(0.0)
                self._last_words = self._running.last_words()
                if self._running.served:
                    self._started = -math.inf
                self._running = None
            wait = self._started + _AGAIN_S - self._clock.monotonic()
            if wait > 0:
                message = f"the command {self._last_words}; nothing was sent"
                return failed("upstream_unavailable", message, "try again in a moment", NOT_SENT)
            if values is None:
                return None
            self._started = self._clock.monotonic()
            return await self._start({name: values.get(name, "") for name in self._spec.environment})

    async def _start(self, given: Mapping[str, str]) -> int | Failed:
        spec = self._spec
        self.hidden = tuple(
            given[name] for name, one in spec.environment.items() if one.provider != "literal" or names_credential(name)
        )
        self.scrubber = scrubber_of(self.hidden)
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        descendants = Descendants()
        environment = {**inherited, **given, MARK: descendants.mark}
        program = _found(spec.words[0], spec.folder, environment)
        if program is None:
            return _not_started(_missing(spec.words[0], spec.folder, environment))
        pipe = subprocess.PIPE
        try:
            # The loop of uvloop would fork this whole process, and stand still meanwhile; this begins a child without a copy (vfork).
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes less than a millisecond; the operator wrote the command
                begun_as_subreaper(_words(program, spec.words)),
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=spec.folder or None,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _not_started(type(error).__name__)
        log = ErrorLog(spec.source, self.scrubber)
        running = ServerProcess(
            process, log, spec.largest, descendants, self.scrubber, self._altered, self._listeners.tell
        )
        try:
            await running.open()
        except BaseException:
            await running.stop(0.0)
            raise
        self._running = running
        self.epoch += 1
        self._on_change()
        return self.epoch

    def ask(self, message: JsonObject, line: ClientChannel | None) -> asyncio.Future[CommandReply]:
        """Sends a request; its answer comes, unless it is cancelled before."""
        running = self._running
        if running is None or not running.alive:
            return replied(CommandReply(fault=CommandFault.NOT_SENT))
        if running.unread > _MAX_UNREAD:
            return replied(CommandReply(fault=CommandFault.UNREAD))
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, Mapping) else None
        if isinstance(arguments, Mapping):
            running.log.note(arguments)
        return running.ask(message, line)

    def doubt(self) -> None:
        """Asks the command for a sign of life; one that gives none is ended once nobody else waits for it."""
        running = self._running
        if running is not None and (self._doubting is None or self._doubting.done()):
            self._doubting = asyncio.create_task(self._probe(running))
            self._doubting.add_done_callback(lambda _: self._on_change())
            self._on_change()

    async def _probe(self, running: ServerProcess) -> None:
        self._pings -= 1
        try:
            async with asyncio.timeout(_SIGN_OF_LIFE_S):
                await running.ask({"jsonrpc": "2.0", "id": self._pings, "method": "ping"}, None)
        except TimeoutError:
            if running.idle:
                await running.stop(0.0)

    async def tell(self, message: JsonObject) -> None:
        """Sends a notification; what became of it shows with the next request."""
        if self._running is not None:
            self._running.send(message)

    def stale(self) -> bool:
        """Return True if the server has announced a changed tool list since the last call."""
        running = self._running
        if running is None or not running.changed:
            return False
        running.changed = False
        return True

    async def close(self) -> None:
        """Ends the command, and whatever it started."""
        if self._doubting is not None:
            await cancel(self._doubting)
        if self._running is not None:
            await self._running.stop(_LEAVING_S)
            self._running = None


def _found(program: str, folder: str, environment: Mapping[str, str]) -> str | None:
    """The path of a program; None if there is none. Otherwise only the standard error of its starter would report it as missing."""
    place = os.path.join(folder, program) if os.path.dirname(program) else program
    return shutil.which(place, path=environment.get("PATH", os.defpath))


def _words(program: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """The command line. Windows starts a program of the PATH only by its whole name, such as that of npx.cmd for npx."""
    return (program, *words[1:]) if os.name == "nt" else words


def _missing(program: str, folder: str, environment: Mapping[str, str]) -> str:
    """Places in which a program was looked for that is not there."""
    if os.path.dirname(program):
        return f"there is no program {os.path.join(folder, program)!a}"
    path = environment.get("PATH", os.defpath)
    return f"there is no program {bounded(program, _MAX_NAME_LENGTH)!a} in the PATH {bounded(path, _MAX_PATH_LENGTH)!a}"


def _not_started(reason: str) -> Failed:
    message = f"the command cannot be started ({reason}); nothing was sent"
    return failed("upstream_unavailable", message, "tell the operator of the gateway", NOT_SENT)
