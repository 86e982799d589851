"""Keys of checkpoints: one private key, and the public keys of all private keys that ever existed."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import AuditError
from toolgen.core.files import read_file

__all__ = [
    "PRIVATE",
    "PublicKey",
    "SigningKey",
    "Verifiers",
    "keep_in",
    "make_key",
    "public_keys",
    "public_path",
    "read_public",
    "signing_key",
]

PRIVATE = "checkpoint.key"
_MAX_SIZE = 64 * 1024


class PublicKey(Struct, frozen=True):
    """Public key for checking signatures. `id` is the first half of the SHA-256 of its raw bytes, in hex."""

    id: str
    key: Ed25519PublicKey

    def accepts(self, signature: bytes, data: bytes) -> bool:
        """Return True if the signature is of this key and for exactly these bytes."""
        try:
            self.key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


Verifiers = Mapping[str, PublicKey]
"""Public keys by their ids."""


class SigningKey:
    """Private key; it is never printed."""

    __slots__ = ("_key", "id")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.id = _id(key.public_key())

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of an Ed25519 signature (RFC 8032)."""
        return self._key.sign(data)

    @property
    def public(self) -> PublicKey:
        """Return the public key."""
        return PublicKey(self.id, self._key.public_key())


def make_key(private: Path, directory: Path) -> tuple[str, Path]:
    """Make a new key: private at `private`, readable only by its owner, public beside the log. Returns its id and the public file.

    An existing private key is replaced, so that it cannot sign any more; its public key stays. A gateway uses the new key from its next
    checkpoint. Raises `AuditError`.
    """
    key = Ed25519PrivateKey.generate()
    made = SigningKey(key)
    public = public_path(directory, made.id)
    try:
        for folder in (directory, private.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The public key is durable before the private key can sign anything.
        _write(public, _pem(key.public_key()), 0o644)
        _write(
            private,
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            0o600,
        )
    except OSError as error:
        raise AuditError(
            f"the key cannot be written: {error.strerror}", where=str(error.filename or private)
        ) from error
    return made.id, public


def public_path(directory: Path, identifier: str) -> Path:
    """Path of the public half of a key, beside the log."""
    return directory / f"checkpoint-{identifier}.pub"


def signing_key(path: Path) -> SigningKey | None:
    """Return the private key in a file, None if there is no file. Raises `AuditError` if it is invalid, or others could read it."""
    try:
        mode = os.stat(path).st_mode
        data = read_file(path, _MAX_SIZE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AuditError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if mode & 0o077:
        raise AuditError("must be readable only by its owner", where=str(path), suggestion="chmod 600")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise AuditError("is not a private key in PEM", where=str(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise AuditError("is not an Ed25519 key", where=str(path), suggestion="`toolgen audit keys new` makes one")
    return SigningKey(key)


def read_public(path: Path) -> PublicKey:
    """Return the public key in a file. Raises `AuditError`."""
    try:
        data = read_file(path, _MAX_SIZE)
        key = serialization.load_pem_public_key(data)
    except OSError as error:
        raise AuditError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError as error:
        raise AuditError("is not a public key in PEM", where=str(path)) from error
    if not isinstance(key, Ed25519PublicKey):
        raise AuditError("is not an Ed25519 key", where=str(path))
    return PublicKey(_id(key), key)


def public_keys(paths: Iterable[Path], directory: Path) -> Verifiers:
    """Return the keys in these files, or in the folders among them; those beside the log if none are named. Raises `AuditError`."""
    folders = [*paths]
    files = [file for path in folders for file in (sorted(path.glob("*.pub")) if path.is_dir() else [path])]
    files = files if folders else sorted(directory.glob("*.pub"))
    return {key.id: key for key in map(read_public, files)}


def keep_in(folder: Path, name: str, data: bytes) -> None:
    """Store a checkpoint in a folder, durably. An existing one stays as it is, because the folder may be write-once."""
    path = folder / name
    if path.exists():
        if read_file(path, len(data)) != data:
            raise FileExistsError(errno.EEXIST, "another checkpoint has this name", str(path))
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, data, 0o600)


def _id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Replace a file atomically: readers see the old file or the new one."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    fd = open_descriptor(part, "WRONLY", "CREAT", "EXCL", "NOFOLLOW", mode=mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        sync(file.fileno())
    replace_file(part, path)
    sync_folder(path.parent)
