"""policies/keys.yaml, the part of a policy that `toolgen keys` writes: accepted keys, and what is revoked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from toolgen.errors import PolicyError
from toolgen.policy.credentials import Credentials
from toolgen.policy.document_principals import PrincipalSections
from toolgen.policy.shapes import FileShape
from toolgen.strict_yaml import Document, decode, read

__all__ = ["FILE", "KeyList", "editing", "without_revoked"]

FILE = "keys.yaml"

_HEADER = "# Written by `toolgen keys`: the keys that are accepted, as their SHA-256, and what is revoked.\n"
_SECTIONS = ("keys", "revoked")


@dataclass(slots=True)
class KeyList:
    """Its entries as they are written: of `keys` with principal, hash, created and expires, of `revoked` as contracts.md has them."""

    keys: list[dict[str, Any]] = field(default_factory=list)
    revoked: list[dict[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def editing(directory: Path) -> Iterator[KeyList]:
    """The list, to be changed; it is written, whole or not at all, when the block ends without an error. One at a time.

    Raises `PolicyError` for a list that is not one: it is not overwritten.
    """
    name = f"{directory.name}/{FILE}"
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", where=f"{directory.name}/") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        found = _read(directory)
        yield found
        _replace((directory / FILE).resolve(), _text(found))
        os.fsync(handle)
    except OSError as error:
        raise PolicyError(
            f"cannot be written: {error.strerror}", where=name, suggestion="run this where the policy can be changed"
        ) from error
    finally:
        os.close(handle)


def without_revoked(credentials: Credentials, directory: Path) -> Credentials:
    """Credentials without what the list takes away by now, for when the rest of a policy cannot be used: a revocation never waits for it.

    Raises `PolicyError` when the list itself cannot be read. It gives nobody anything.
    """
    path = directory / FILE
    if not path.exists():
        return credentials
    sections = PrincipalSections(directory)
    document = read(path, f"{directory.name}/{FILE}", PolicyError)
    sections.add(document, decode(document, (), FileShape, PolicyError))
    return credentials.without(
        sections.managed_keys(), sections.revocations, sections.revoked_keys, sections.revoked_certificates
    )


def _read(directory: Path) -> KeyList:
    path = directory / FILE
    if not path.exists():
        return KeyList()
    document = read(path, f"{directory.name}/{FILE}", PolicyError)
    _refuse_others(document)
    file = decode(document, (), FileShape, PolicyError)
    PrincipalSections(directory).add(document, file)
    return KeyList(keys=list(file.keys), revoked=list(file.revoked))


def _refuse_others(document: Document) -> None:
    for key in document.data or ():
        if key not in _SECTIONS:
            raise PolicyError(
                f"'{key}' does not belong into the file that `toolgen keys` writes",
                where=document.where(key),
                suggestion="move it to another file of the policy",
            )


def _text(found: KeyList) -> str:
    sections: Mapping[str, list[dict[str, Any]]] = {"keys": found.keys, "revoked": found.revoked}
    lines = [_HEADER]
    for name, entries in sections.items():
        if not entries:
            lines.append(f"{name}: []\n")
            continue
        lines.append(f"{name}:\n")
        for entry in entries:
            said = {key: value for key, value in entry.items() if value is not None}
            flow = yaml.safe_dump(said, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
            lines.append(f"  - {flow.strip()}\n")
    return "".join(lines)


def _replace(path: Path, text: str) -> None:
    """Beside its place, flushed, then renamed. It keeps the owner and mode it had; a new one is its owner's alone."""
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    temporary = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, before.st_mode & 0o777)
            os.fsync(descriptor)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
