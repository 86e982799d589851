"""SQLite file of the gateway: visible to every process of one machine, readable only by its owner."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import StateError, StateUnavailableError

__all__ = ["DURABLE", "LASTING", "SqliteFile", "copy_database", "transaction"]

T = TypeVar("T")
_BUSY_S = 5.0

DURABLE = ("PRAGMA synchronous = FULL", "PRAGMA secure_delete = ON")
"""Settings for durable data: it is on the disk before a call returns, and removed data is overwritten."""
LASTING = ("PRAGMA synchronous = OFF",)
"""Settings for data that may be lost with the machine, but not with the process."""


def copy_database(source: Path, target: Path) -> None:
    """Copy a file that others may be writing, in its state of one moment. Raises `StateError`."""
    os.close(open_descriptor(target, "RDWR", "CREAT", "EXCL"))
    try:
        location = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(location, timeout=_BUSY_S, uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error as error:
        raise StateError(f"cannot be copied: {error}", where=str(source)) from error


class SqliteFile:
    """SQLite file, created with mode 0600 by the first `run`. One thread uses SQLite, so that a slow disk blocks nothing else.

    `kept` is the name of its data in errors; `pragmas` and `schema` are executed on every new connection. `logs` is for a file that is
    written with every call: changes go into a write-ahead log first (https://sqlite.org/wal.html), with one sync instead of three.
    """

    def __init__(self, path: Path, *, kept: str, schema: str, pragmas: tuple[str, ...], logs: bool = False) -> None:
        self._logs = logs
        self._path = path
        self._kept = kept
        self._script = ";".join((*pragmas, schema))
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=path.stem)
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._writes: deque[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = deque()
        self._writing = False
        self.opened = 0
        """Number of connections so far: a new one means that the file was opened again."""

    def __bool__(self) -> bool:
        """Return True if there is a file to read."""
        return self._connection is not None or os.path.exists(self._path)

    @property
    def unchanged(self) -> bool:
        """Return True if the file is the one that is open."""
        with suppress(OSError):
            return self._connection is not None and os.stat(self._path).st_ino == self._inode
        return False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`. Raises `StateUnavailableError` when the file cannot be read or written, and `StateError` for content
        that toolgen did not write."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction with all other waiting writes: one sync for all. The data is on the disk before this method
        returns. `work` begins no transaction of its own, and may be called again if another write failed."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._writes.append((work, done))
        if not self._writing:
            self._writing = True
            self._thread.submit(self._write_all)
        found: T = await done
        return found

    def _write_all(self) -> None:
        """Write all waiting changes, and complete their futures."""
        self._writing = False
        asked = []
        with suppress(IndexError):
            while True:
                asked.append(self._writes.popleft())
        try:
            found = self._work(lambda connection: _all_of([work for work, _ in asked], connection)) if asked else []
        except Exception as error:  # noqa: BLE001 - whatever it is, who waits is told
            found = [error] if len(asked) == 1 else [self._alone(work) for work, _ in asked]
        for (_, done), one in zip(asked, found, strict=True):
            done.get_loop().call_soon_threadsafe(_tell, done, one)

    def _alone(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run one write by itself after the combined transaction failed. Returns its result or its error."""
        try:
            return self._work(lambda connection: _all_of([work], connection)[0])
        except Exception as error:  # noqa: BLE001 - as above
            return error

    async def close(self) -> None:
        """Close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._current())
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            passing = not isinstance(error, msgspec.MsgspecError | sqlite3.IntegrityError)
            kind = StateUnavailableError if passing else StateError
            raise kind(f"{self._kept} cannot be kept: {reason}", where=str(self._path)) from error

    def _current(self) -> sqlite3.Connection:
        """Return the connection, reopened if the file was replaced: data in a removed file would be lost."""
        if self._connection is not None:
            if self.unchanged:
                return self._connection
            self._let_go()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(open_descriptor(self._path, "RDWR", "CREAT", "EXCL"))
        status = self._path.stat()
        if status.st_mode & 0o077:
            self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.executescript(self._script)
            if self._logs:
                # other processes have it open: a later process that is alone changes the mode
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error:
            connection.close()
            raise
        self._connection, self._inode = connection, status.st_ino
        self.opened += 1
        return connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block as one exclusive transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _all_of(works: Sequence[Callable[[sqlite3.Connection], Any]], connection: sqlite3.Connection) -> list[Any]:
    with transaction(connection):
        return [work(connection) for work in works]


def _tell(done: asyncio.Future[Any], found: object) -> None:
    if done.done():
        return
    if isinstance(found, Exception):
        done.set_exception(found)
    else:
        done.set_result(found)
