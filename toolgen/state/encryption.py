"""What lies in Redis is sealed: whoever reads that server reads no arguments, and what it changes there is not taken for ours."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolgen.errors import StateError
from toolgen.key_file import kept_key

__all__ = ["Seal", "seal_of"]

_NONCE = 12


class Seal:
    """AES-256-GCM under one key. Each box says what it is about, and opens as nothing else.

    A nonce is drawn for each: up to some 2^32 boxes under one key are safe (NIST SP 800-38D, section 8.3).
    """

    def __init__(self, key: bytes) -> None:
        self._box = AESGCM(hashlib.sha256(b"toolgen seal\0" + key).digest())
        self.ledger = hashlib.sha256(b"toolgen seal ledger\0" + key).digest()
        """The key of what idempotency keys hide, for every machine that has this seal."""
        self.id = hashlib.sha256(b"toolgen seal id\0" + key).hexdigest()[:16]
        """Tells two keys apart, and nothing else about them."""

    def close(self, content: bytes, about: str) -> bytes:
        """The content, sealed."""
        nonce = os.urandom(_NONCE)
        return nonce + self._box.encrypt(nonce, content, about.encode())

    def open(self, box: bytes, about: str) -> bytes:
        """What was sealed. Raises `StateError` for what was changed, stood elsewhere, or was sealed with another key."""
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
        raise StateError(f"the key of what is kept in Redis cannot be read: {reason}", where=str(path)) from error
    except ValueError:
        raise StateError("holds no key of 64 hex digits", where=str(path)) from None
