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
    """AES-256-GCM under one key. Each box says what it is about, and opens as nothing else.

    A nonce is drawn for each: up to some 2^32 boxes under one key are safe (NIST SP 800-38D, section 8.3).
    """

    def __init__(self, key: bytes) -> None:
        self._box = AESGCM(hashlib.sha256(b"toolgen seal\0" + key).digest())
        self.ledger = hashlib.sha256(b"toolgen seal ledger\0" + key).digest()
        """The key of what idempotency keys hide, for every machine that has this seal."""
        self.values = hashlib.sha256(b"toolgen seal values\0" + key).digest()
        """The key of digests by which values behind tokens are found again."""
        self.id = hashlib.sha256(b"toolgen seal id\0" + key).hexdigest()[:16]
        """Tells two keys apart, and nothing else about them."""

    def close(self, content: bytes, about: str) -> bytes:
        """The content, sealed."""
        nonce = os.urandom(_NONCE)
        return nonce + self._box.encrypt(nonce, content, about.encode())

    def open(self, box: bytes, about: str) -> bytes:
        """Decrypt a box. Raises `StateError` for a box that was changed, belongs to another name, or was encrypted with another key."""
        try:
            return self._box.decrypt(box[:_NONCE], box[_NONCE:], about.encode())
        except (InvalidTag, ValueError):
            raise StateError("what is kept in Redis was changed there, or sealed with another key") from None


def seal_of(path: Path) -> Seal:
    """The seal whose key is this file, which is made if it is not there: 64 hex digits, for its owner alone. Raises `StateError`."""
    try:
        return Seal(kept_key(path))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StateUnavailableError(
            f"the key of what is kept in Redis cannot be read: {reason}", where=str(path)
        ) from error
    except ValueError:
        raise StateError("holds no key of 64 hex digits", where=str(path)) from None


class SealedScript:
    """A Lua script over what is kept in Redis under `<prefix>:<name>`, sealed by all who share it with the same key.

    Its operation `key` holds the first seal's id. `kept` is how messages call what is kept. Every method raises `StateError`.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], script: Script, name: str, *, kept: str) -> None:
        self._link = link
        self._make_seal = seal
        self._seal: Seal | None = None
        self._script = script
        self._root = f"{link.prefix}:{name}"
        self._kept = kept

    async def seal(self) -> Seal:
        """The seal, once it is known to be the one that all others use."""
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
        """Ask again, before the next use, whether all others use the same seal: the store was emptied."""
        self._seal = None

    async def run(self, *arguments: str | bytes) -> Any:
        """Run the script and return its answer."""
        try:
            return await self._link.ask(self._script, self._root, *arguments)
        except LinkError as error:
            raise self._failed(error) from error

    async def now(self) -> float:
        """Redis's own time, in seconds since the epoch."""
        try:
            return await self._link.now()
        except LinkError as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        """Lets go of the connection."""
        await self._link.close()

    def _failed(self, error: LinkError) -> StateError:
        if isinstance(error, StoreUnreachableError):
            fault = StateUnavailableError(f"{self._kept} cannot be kept: Redis cannot be used ({error})")
            fault.unconfirmed = error.unconfirmed
            return fault
        return StateError(f"{self._kept}: {error}")
