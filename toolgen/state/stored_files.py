"""Stored files of principals: encrypted on disk, written and read in parts, within budgets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolgen.core.clock import Clock
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.model.files import FileBudget, FileInfo, FileTooLargeError
from toolgen.state.sqlite_file import LASTING, SqliteFile, transaction

__all__ = ["KEY_BYTES", "FileWriter", "StoredFiles"]

KEY_BYTES = 48
CHUNK = 64 * 1024
"""Bytes of a file that are encrypted together."""
_BATCH = 8 * CHUNK  # bytes per write
_ID, _TAG = 16, 16
_ABOUT = b"\xff" * 12  # nonce of the metadata; chunks are counted from 0
_MAX_WRITERS, _MAX_WRITERS_EACH = 16, 8
"""Maximum files that are written at the same time: in total, and of one owner, who may be slow."""
_ABANDONED_S = 3_600.0  # age at which a file without an entry is removed: a younger one may still be written
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
  id BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, about BLOB NOT NULL
) WITHOUT ROWID
"""


class StoredFiles:
    """Folder with one encrypted file for each stored file, and a SQLite file that lists them. Both are created with the first file.

    Each file is encrypted (AES-256-GCM, in chunks) with its own key, which only the caller has, and is bound to values that the caller must
    repeat. If a budget is used up, the oldest files are removed first. A file that was lost in a crash must be uploaded or requested again.
    """

    def __init__(self, folder: Path, clock: Clock, budget: FileBudget) -> None:
        self._folder = folder
        self._clock = clock
        self.budget = budget
        pragmas = (*LASTING, "PRAGMA auto_vacuum = INCREMENTAL")
        self._list = SqliteFile(folder / "files.db", kept="files", schema=_SCHEMA, pragmas=pragmas)
        self._swept = False
        self._writers: Counter[str] = Counter()

    @property
    def largest(self) -> int:
        """Maximum bytes of one file."""
        return self._largest(None)

    def begin(self, *, owner: str, bound: bytes, most: int | None = None) -> FileWriter:
        """Return a writer of a file with at most `most` bytes. Raises `StateUnavailableError` if too many are being written now."""
        if self._writers[owner] >= _MAX_WRITERS_EACH or self._writers.total() >= _MAX_WRITERS:
            raise StateUnavailableError("too many files are being written now", where=str(self._folder))
        self._writers[owner] += 1
        return FileWriter(self, owner, bound, self._largest(most), counted=True)

    async def put(self, body: bytes, *, owner: str, bound: bytes, media_type: str, call_id: str = "") -> bytes:
        """Store a file, and return its key. Raises `StateError`, and `FileTooLargeError`."""
        writer = FileWriter(
            self, owner, bound, self._largest(None), counted=False
        )  # the complete content is here, so no sender is awaited
        try:
            await writer.write(body)
            key, _ = await writer.finish(media_type=media_type, call_id=call_id)
        finally:
            await writer.discard()
        return key

    async def describe(self, key: bytes, *, bound: bytes) -> FileInfo | None:
        """Return the metadata of the file of a key. None for a file that expired, was never given out, or belongs to another owner.
        Raises `StateError`."""
        if len(key) != KEY_BYTES or not self._list:
            return None
        name = key[:_ID]

        def work(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT about FROM files WHERE id = ? AND expires > ?"
            row = connection.execute(query, (name, self._clock.now())).fetchone()
            if row is None:
                return None
            try:
                return AESGCM(key[_ID:]).decrypt(_ABOUT, row[0], name + bound)
            except InvalidTag:
                return None

        about = await self._list.run(work)
        return None if about is None else msgspec.msgpack.decode(about, type=FileInfo)

    async def read(
        self, key: bytes, info: FileInfo, *, bound: bytes, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Return the bytes of a file from `start` up to `end`, in parts of at most 512 KiB. Raises `StateError` if it cannot be read."""
        end = info.size if end is None else min(end, info.size)
        position = start
        while position < end:
            part = await asyncio.to_thread(self._part, key, bound, info.size, position, min(end, position + _BATCH))
            yield part
            position += len(part)

    async def whole(self, key: bytes, info: FileInfo, *, bound: bytes) -> bytes:
        """Return all bytes of a file. Raises `StateError`."""
        return b"".join([part async for part in self.read(key, info, bound=bound)])

    async def close(self) -> None:
        """Close the list."""
        await self._list.close()

    def _part(self, key: bytes, bound: bytes, size: int, start: int, end: int) -> bytes:
        name, cipher = key[:_ID], AESGCM(key[_ID:])
        path = self._path(name)
        first, last = start // CHUNK, (end - 1) // CHUNK
        parts = []
        try:
            with path.open("rb") as file:
                file.seek(first * (CHUNK + _TAG))
                for number in range(first, last + 1):
                    sealed = file.read(min(CHUNK, size - number * CHUNK) + _TAG)
                    parts.append(cipher.decrypt(_nonce(number), sealed, name + bound))
        except FileNotFoundError as error:
            raise StateError("the file is no longer stored", where=str(path)) from error
        except OSError as error:
            raise StateUnavailableError(
                f"a stored file cannot be read: {error.strerror or type(error).__name__}", where=str(path)
            ) from error
        except InvalidTag as error:
            raise StateError("a stored file was changed on the disk", where=str(path)) from error
        return b"".join(parts)[start - first * CHUNK : end - first * CHUNK]

    def _path(self, name: bytes) -> Path:
        return self._folder / name.hex()

    def _open(self, name: bytes) -> int:
        """Return the descriptor of a new file. Runs in a thread."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open_descriptor(self._path(name), "WRONLY", "CREAT", "EXCL")

    async def _enter(self, name: bytes, owner: str, about: bytes, size: int) -> None:
        """List a complete file, and remove expired files and files without room."""
        now, budget = self._clock.now(), self.budget
        sweeps, self._swept = not self._swept, True

        def work(connection: sqlite3.Connection) -> list[bytes]:
            with transaction(connection):
                gone = [row[0] for row in connection.execute("SELECT id FROM files WHERE expires <= ?", (now,))]
                connection.execute("DELETE FROM files WHERE expires <= ?", (now,))
                gone += _make_room(connection, owner, budget.each - size)
                gone += _make_room(connection, None, budget.total - size)
                row = (name, owner, now + budget.expires_s, size, about)
                connection.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?)", row)
            if sweeps:
                gone += self._abandoned(connection, now)
            for one in gone:
                with suppress(OSError):
                    self._path(one).unlink(missing_ok=True)
            return gone

        await self._list.run(work)

    def _abandoned(self, connection: sqlite3.Connection, now: float) -> list[bytes]:
        """Return old files without an entry: their process ended before they were complete."""
        listed = {row[0] for row in connection.execute("SELECT id FROM files")}
        found = []
        for path in self._folder.iterdir():
            with suppress(ValueError, OSError):
                name = bytes.fromhex(path.name)
                if len(name) == _ID and name not in listed and path.stat().st_mtime < now - _ABANDONED_S:
                    found.append(name)
        return found

    def _largest(self, most: int | None) -> int:
        budget = self.budget
        return min(budget.largest if most is None else most, budget.largest, budget.each, budget.total)

    def _left(self, owner: str) -> None:
        self._writers[owner] -= 1
        if not self._writers[owner]:
            del self._writers[owner]


class FileWriter:
    """Writer of a file. `discard` must be called at the end; it removes an unfinished file."""

    def __init__(self, store: StoredFiles, owner: str, bound: bytes, most: int, *, counted: bool) -> None:
        self._store = store
        self._counted = counted
        self._owner = owner
        self._bound = bound
        self._most = most
        self._name = secrets.token_bytes(_ID)
        self._key = AESGCM.generate_key(256)
        self._cipher = AESGCM(self._key)
        self._digest = hashlib.sha256()
        self._buffer = bytearray()
        self._chunks = 0
        self._descriptor = -1
        self._lock = threading.Lock()
        self._begun = self._done = self._discarded = False
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Append bytes. Raises `FileTooLargeError` and `StateError`."""
        self.size += len(data)
        if self.size > self._most:
            raise FileTooLargeError(self._most)
        for start in range(0, len(data), _BATCH):
            self._buffer += memoryview(data)[start : start + _BATCH]
            if len(self._buffer) >= _BATCH:
                await self._flush(last=False)

    async def finish(self, *, media_type: str, filename: str = "", call_id: str = "") -> tuple[bytes, FileInfo]:
        """Complete the file, and return its key and metadata. Raises `StateError`."""
        await self._flush(last=True)
        info = FileInfo(
            size=self.size,
            media_type=media_type,
            sha256=self._digest.hexdigest(),
            filename=filename,
            call_id=call_id,
        )
        about = self._cipher.encrypt(_ABOUT, msgspec.msgpack.encode(info), self._name + self._bound)
        await self._store._enter(self._name, self._owner, about, self.size)
        self._done = True
        return self._name + self._key, info

    async def discard(self) -> None:
        """Close the file, and remove it if it was not finished."""
        if self._discarded:
            return
        self._discarded = True
        if self._counted:
            self._store._left(self._owner)
        if self._begun:
            await asyncio.to_thread(self._close)

    async def _flush(self, *, last: bool) -> None:
        length = len(self._buffer) if last else len(self._buffer) // CHUNK * CHUNK
        taken = bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]
        self._begun = True
        await asyncio.to_thread(self._append, taken)

    def _append(self, data: bytes) -> None:
        with self._lock:  # the thread of a cancelled writer may still write while it is discarded
            if self._discarded:
                return
            self._digest.update(data)
            sealed = bytearray()
            for start in range(0, len(data), CHUNK):
                chunk = data[start : start + CHUNK]
                sealed += self._cipher.encrypt(_nonce(self._chunks), chunk, self._name + self._bound)
                self._chunks += 1
            try:
                if self._descriptor < 0:
                    self._descriptor = self._store._open(self._name)
                view = memoryview(sealed)
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise StateUnavailableError(f"a file cannot be stored: {reason}") from error

    def _close(self) -> None:
        with self._lock:
            if self._descriptor < 0:
                return
            os.close(self._descriptor)
            self._descriptor = -1
            if not self._done:
                with suppress(OSError):
                    self._store._path(self._name).unlink(missing_ok=True)


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _make_room(connection: sqlite3.Connection, owner: str | None, most: int) -> list[bytes]:
    """Remove the oldest files until this owner, or all owners, have at most this many bytes; return the removed ids."""
    query = "SELECT id, size FROM files WHERE ?1 IS NULL OR owner = ?1 ORDER BY expires, id"
    listed = connection.execute(query, (owner,)).fetchall()
    total, gone = sum(size for _, size in listed), []
    for name, size in listed:
        if total <= most:
            break
        gone.append(name)
        total -= size
    connection.executemany("DELETE FROM files WHERE id = ?", [(name,) for name in gone])
    return gone
