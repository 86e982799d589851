"""Storage of refresh tokens that a service issued in place of the configured one: encrypted on disk, so that a restart does not lose
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets as randomness
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from toolgen.connectors.rotated_tokens import NOTE, note_of
from toolgen.core.descriptors import open_descriptor, replace_file, sync
from toolgen.core.errors import SecretError
from toolgen.core.file_lock import lock
from toolgen.core.files import read_file

__all__ = ["Rotation"]

_MAX_SIZE = 65_536
_NONCE = 12
_TRIES = 200
_PAUSE_S = 0.05

log = logging.getLogger("toolgen.secrets")


class Rotation:
    """Refresh tokens of one folder. Each file is encrypted (AES-256-GCM) with a key derived from the configured refresh token, so a copy
    of the folder is useless without that token. Another configured token has another file, so an operator's new token always counts.

    A service that rotates tokens treats a token that is used twice as stolen. So a file is locked during a refresh, and a process that had
    to wait reads it again.
    """

    def __init__(self, folder: Path | None, source: str = "") -> None:
        self._folder = folder
        self._source = source
        self._kept: dict[str, str] = {}  # tokens in memory by name: there is no folder, or writing failed

    @contextlib.asynccontextmanager
    async def held(self, endpoint: str, client: str, configured: str) -> AsyncIterator[TokenStorage]:
        """Hold the storage of one client's refresh token, locked against other processes. Raises `SecretError`."""
        name = hashlib.sha256(f"{endpoint}\0{client}\0{configured}".encode()).hexdigest()[:32]
        if self._folder is None:
            yield TokenStorage(self, name, None, configured, b"")
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = open_descriptor(self._folder / f"{name}.lock", "RDWR", "CREAT")
        except OSError as error:
            raise SecretError(
                f"refresh tokens cannot be kept: {error.strerror}", suggestion=f"see {self._folder}"
            ) from None
        try:
            await _locked(lock)
            note = note_of(self._source, endpoint)
            yield TokenStorage(self, name, self._folder / name, configured, note)
        finally:
            os.close(lock)

    def read(self, name: str) -> str:
        """Return the token kept in memory, because there is no folder or writing to it failed; "" if there is none."""
        return self._kept.get(name, "")

    def keep(self, name: str, token: str) -> None:
        """Keep a token in memory; "" removes it."""
        self._kept[name] = token


class TokenStorage:
    """Storage of one refresh token. `note` names its source and endpoint for people: it is a file beside the token, and no code depends
    on it.
    """

    def __init__(self, rotation: Rotation, name: str, path: Path | None, configured: str, note: bytes) -> None:
        self._rotation = rotation
        self._name = name
        self._path = path
        self._configured = configured
        self._note = note

    def read(self) -> str:
        """Return the newest refresh token: the stored one, or the configured one if there is none that can be decrypted."""
        if (kept := self._rotation.read(self._name)) or self._path is None:
            return kept or self._configured
        try:
            sealed = read_file(self._path, _MAX_SIZE)
            return AESGCM(self._key()).decrypt(sealed[:_NONCE], sealed[_NONCE:], self._name.encode()).decode()
        except (OSError, ValueError, InvalidTag):
            return self._configured

    def keep(self, token: str) -> None:
        """Replace the token, atomically and durably. If that is not possible, keep it in memory only and log that."""
        self._rotation.keep(self._name, token)
        if self._path is None:
            return
        nonce = randomness.token_bytes(_NONCE)
        sealed = nonce + AESGCM(self._key()).encrypt(nonce, token.encode(), self._name.encode())
        try:
            _put(self._path, sealed)
        except OSError as error:
            log.error("a new refresh token is only in memory: %s: %s", self._path, error.strerror)  # noqa: TRY400
        else:
            self._rotation.keep(self._name, "")
            with contextlib.suppress(OSError):
                _put(self._path.with_suffix(NOTE), self._note)

    def _key(self) -> bytes:
        derived = HKDF(algorithm=SHA256(), length=32, salt=self._name.encode(), info=b"toolgen refresh token")
        return derived.derive(self._configured.encode())


def _put(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, atomically and durably. Raises `OSError`."""
    draft = path.with_suffix(".new")
    descriptor = open_descriptor(draft, "WRONLY", "CREAT", "TRUNC")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    replace_file(draft, path)


async def _locked(descriptor: int) -> None:
    for _ in range(_TRIES):
        try:
            lock(descriptor, wait=False)
        except BlockingIOError:
            await asyncio.sleep(_PAUSE_S)
        else:
            return
    raise SecretError("another process has been refreshing this token for too long", suggestion="try again")
