"""Encryption of data in Redis: a reader of that server cannot read arguments, and changed data is detected and refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.core.key_file import kept_key
from toolgen.state.count_connection import LinkError, Script, StoreUnreachableError
from toolgen.state.redis_connection import RedisLink

__all__ = ["Seal", "SealedScript", "seal_of"]

_NONCE = 12


class Seal:
    """AES-256-GCM with one key. Each box is bound to a name, and opens under no other.

    Each box has a random nonce: about 2^32 boxes with one key are safe (NIST SP 800-38D, section 8.3).
    """

    def __init__(self, key: bytes) -> None:
        self._box = AESGCM(hashlib.sha256(b"toolgen seal\0" + key).digest())
        self.ledger = hashlib.sha256(b"toolgen seal ledger\0" + key).digest()
        """Key for the digests of idempotency keys, equal on every machine with this seal."""
        self.values = hashlib.sha256(b"toolgen seal values\0" + key).digest()
        """Key of the digests by which values behind tokens are found."""
        self.id = hashlib.sha256(b"toolgen seal id\0" + key).hexdigest()[:16]
        """Id of the key, which reveals nothing else about it."""

    def close(self, content: bytes, about: str) -> bytes:
        """Encrypt the content."""
        nonce = os.urandom(_NONCE)
        return nonce + self._box.encrypt(nonce, content, about.encode())

    def open(self, box: bytes, about: str) -> bytes:
        """Decrypt a box. Raises `StateError` for a box that was changed, belongs to another name, or was encrypted with another key."""
        try:
            return self._box.decrypt(box[:_NONCE], box[_NONCE:], about.encode())
        except (InvalidTag, ValueError):
            raise StateError("the data in Redis was changed, or encrypted with another key") from None


def seal_of(path: Path) -> Seal:
    """Return the seal with the key in this file, which is created if missing: 64 hex digits, readable only by its owner. Raises
    `StateError`.
    """
    try:
        return Seal(kept_key(path))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StateUnavailableError(
            f"the key for the data in Redis cannot be read: {reason}", where=str(path)
        ) from error
    except ValueError:
        raise StateError("does not contain a key of 64 hex digits", where=str(path)) from None


class SealedScript:
    """Lua script over encrypted data in Redis under `<prefix>:<name>`, with one key for all gateways.

    Its operation `key` stores the id of the first seal, and answers 1 only for this seal. `kept` is the name of the data in messages. Every
    method raises `StateError`.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], script: Script, name: str, *, kept: str) -> None:
        self._link = link
        self._make_seal = seal
        self._seal: Seal | None = None
        self._script = script
        self._root = f"{link.prefix}:{name}"
        self._kept = kept

    async def seal(self) -> Seal:
        """Return the seal, after the check that all others use the same."""
        if self._seal is None:
            seal = self._make_seal()
            if await self.run("key", seal.id) != 1:
                raise StateError(
                    f"the {self._kept} in this Redis are sealed with another key",
                    suggestion="give every machine of the project the same seal.key, beside its audit log; another project takes ?prefix=",
                )
            self._seal = seal
        return self._seal

    def forget_seal(self) -> None:
        """Repeat the check of the seal before the next use, because the store was emptied."""
        self._seal = None

    async def run(self, *arguments: str | bytes) -> Any:
        """Run the script and return its answer."""
        try:
            return await self._link.ask(self._script, self._root, *arguments)
        except LinkError as error:
            raise self._failed(error) from error

    async def now(self) -> float:
        """Return Redis's own time, in seconds since the epoch."""
        try:
            return await self._link.now()
        except LinkError as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    def _failed(self, error: LinkError) -> StateError:
        if isinstance(error, StoreUnreachableError):
            fault = StateUnavailableError(f"{self._kept} cannot be kept: Redis cannot be used ({error})")
            fault.unconfirmed = error.unconfirmed
            return fault
        return StateError(f"{self._kept}: {error}")
