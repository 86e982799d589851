"""Envelope encryption: every record has its own data key, which a key-encryption key wraps (NIST SP 800-57 part 1, section 6.2). After a
rotation only the data keys are wrapped again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from toolgen.core.descriptors import open_descriptor, replace_file, sync
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.core.file_lock import lock
from toolgen.core.files import read_file
from toolgen.core.key_file import kept_key

__all__ = ["FileKeys", "GivenKeys", "KeyEncryption", "SealedRecord", "open_record", "rewrapped", "seal_record"]

_NONCE = 12
_KEY = 32
_MAX_SIZE = 65_536
_DIGITS = frozenset("0123456789abcdef")


class KeyEncryption(Protocol):
    """Key-encryption keys: of a file, of the environment, or of a service that never returns them. Every method raises `StateError`."""

    async def current(self) -> str:
        """Return the id of the key that new data keys are wrapped with."""

    async def wrap(self, data_key: bytes, about: str) -> bytes:
        """Return a data key under the current key. It opens for the same `about` only."""

    async def unwrap(self, key_id: str, wrapped: bytes, about: str) -> bytes:
        """Return the data key that was wrapped with a key."""


class SealedRecord(Struct, frozen=True, kw_only=True):
    """Encrypted record: the id of the key-encryption key, the wrapped data key, and the content under the data key."""

    key_id: str
    wrapped: bytes
    box: bytes

    def __repr__(self) -> str:
        return f"SealedRecord({self.key_id})"


async def seal_record(keys: KeyEncryption, content: bytes, about: str) -> SealedRecord:
    """Encrypt a record under a new data key. `about` names whose it is, and the record opens under no other name."""
    data_key = secrets.token_bytes(_KEY)
    key_id = await keys.current()
    wrapped = await keys.wrap(data_key, _wrapped_about(key_id, about))
    return SealedRecord(key_id=key_id, wrapped=wrapped, box=_closed(data_key, content, about))


async def open_record(keys: KeyEncryption, record: SealedRecord, about: str) -> bytes:
    """Decrypt a record. Raises `StateError` if it was changed, belongs to another name, or has a key that is not here."""
    data_key = await keys.unwrap(record.key_id, record.wrapped, _wrapped_about(record.key_id, about))
    return _opened(data_key, record.box, about)


async def rewrapped(keys: KeyEncryption, record: SealedRecord, about: str) -> SealedRecord:
    """Return the record with its data key under the current key-encryption key. The content is not decrypted."""
    key_id = await keys.current()
    if record.key_id == key_id:
        return record
    data_key = await keys.unwrap(record.key_id, record.wrapped, _wrapped_about(record.key_id, about))
    return SealedRecord(key_id=key_id, wrapped=await keys.wrap(data_key, _wrapped_about(key_id, about)), box=record.box)


class GivenKeys:
    """Key-encryption keys that an operator gave, such as those of environment variables. The first one wraps, all of them unwrap."""

    def __init__(self, read: Callable[[], Sequence[str]]) -> None:
        self._read = read
        self._known: tuple[tuple[str, ...], dict[str, bytes]] = ((), {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def knows(self, key_id: str) -> bool:
        """Return True if a key with this id is among them."""
        return key_id in self._keys()

    async def current(self) -> str:
        return next(iter(self._keys()))

    async def wrap(self, data_key: bytes, about: str) -> bytes:
        keys = self._keys()
        return _closed(keys[next(iter(keys))], data_key, about)

    async def unwrap(self, key_id: str, wrapped: bytes, about: str) -> bytes:
        key = self._keys().get(key_id)
        if key is None:
            raise StateError(
                f"a record is encrypted with the key {key_id[:16]}, which is not among the key-encryption keys",
                suggestion="give every machine of the project the same keys, and keep a former key until the records are wrapped again",
            )
        return _opened(key, wrapped, about)

    def _keys(self) -> dict[str, bytes]:
        texts = tuple(self._read())
        if self._known[0] != texts or not texts:
            keys = {}
            for text in texts:
                if len(text) != 2 * _KEY or set(text) - _DIGITS:
                    raise StateError(
                        "a key-encryption key is not 64 hex digits", suggestion="make one with: openssl rand -hex 32"
                    )
                key = bytes.fromhex(text)
                keys[hashlib.sha256(b"toolgen key id\0" + key).hexdigest()[:16]] = key
            if not keys:
                raise StateError("there is no key-encryption key")
            self._known = texts, keys
        return self._known[1]


class FileKeys(GivenKeys):
    """Key-encryption keys in a file, created at the first use and readable only by its owner: one per line, the newest first."""

    def __init__(self, path: Path) -> None:
        super().__init__(self._lines)
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._texts: tuple[str, ...] = ()

    def add(self) -> None:
        """Put a new key before the others. Raises `StateError`."""
        self._change(lambda texts: (secrets.token_hex(_KEY), *texts))

    def drop_older(self) -> None:
        """Remove all keys but the current one and the one before: a worker may be writing under that, and links still open with it.

        Raises `StateError`.
        """
        self._change(lambda texts: texts[:2])

    def _lines(self) -> tuple[str, ...]:
        try:
            status = os.stat(self._path)
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return self._texts
        except FileNotFoundError:
            stamp = None
        except OSError as error:
            raise self._failure(error) from error
        try:
            if stamp is None:
                kept_key(self._path)
            texts = tuple(read_file(self._path, _MAX_SIZE).decode("ascii").split())
        except OSError as error:
            raise self._failure(error) from error
        except ValueError:
            raise StateError("does not contain keys of 64 hex digits", where=str(self._path)) from None
        self._stamp, self._texts = stamp, texts
        return texts

    def _change(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            guard = open_descriptor(self._path.with_name(f".{self._path.name}.lock"), "RDWR", "CREAT")
            try:
                lock(guard, wait=True)
                self._stamp = None
                texts = change(self._lines())
                draft = self._path.with_name(f".{self._path.name}.new")
                with os.fdopen(open_descriptor(draft, "WRONLY", "CREAT", "TRUNC"), "w", encoding="ascii") as file:
                    file.write("".join(f"{text}\n" for text in texts))
                    file.flush()
                    sync(file.fileno())
                replace_file(draft, self._path)
                self._stamp = None
            finally:
                os.close(guard)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StateUnavailableError:
        reason = error.strerror or type(error).__name__
        return StateUnavailableError(
            f"the key-encryption keys cannot be read or written: {reason}", where=str(self._path)
        )


def _wrapped_about(key_id: str, about: str) -> str:
    return f"data key {key_id} {about}"


def _closed(key: bytes, content: bytes, about: str) -> bytes:
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, about.encode("utf-8", "surrogatepass"))


def _opened(key: bytes, box: bytes, about: str) -> bytes:
    try:
        return AESGCM(key).decrypt(box[:_NONCE], box[_NONCE:], about.encode("utf-8", "surrogatepass"))
    except (InvalidTag, ValueError):
        raise StateError("a stored record was changed, or belongs to another name or key") from None
