"""List of keys, policies/keys.yaml: the part of a policy that `toolgen keys` writes, with accepted keys and revocations."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import PolicyError
from toolgen.core.file_lock import lock
from toolgen.core.yaml_file import MAX_FILE_SIZE, YamlDocument, decode, read
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.principals import PrincipalSections
from toolgen.policy.document.schema import FileShape

__all__ = ["FILE", "KeyList", "add_key", "editing", "new_key", "revoke", "without_revoked"]

FILE = "keys.yaml"
_LISTS = (FILE, *(f"keys-{number}.yaml" for number in range(2, 101)))
_FULL = MAX_FILE_SIZE - 256 * 1024
"""Size at which a new list of keys is started: the rest of a file is reserved for revocations."""

_HEADER = "# Written by `toolgen keys`: the keys that are accepted, as their SHA-256, and what is revoked.\n"
_ASIDE = "# Written by `toolgen keys`, as keys.yaml could not be: what is revoked. Move it there once keys.yaml is repaired.\n"
_PREFIX = "tgk_"  # prefix that secret scanners recognize
_SECTIONS = ("keys", "revoked")
_HAS_OWNERS = hasattr(os, "geteuid")
"""True if the platform has file owners and modes of POSIX. On Windows, a file has the access list of its directory."""
_READABLE = 0o644  # readable for the gateway's user, which must learn about revocations; it contains no secret


class KeyList(Struct):
    """List of keys and revocations as in the file: `keys` with principal, hash, created and expires; `revoked` as in `revoked[]` of
    docs/reference/policy-keys.md."""

    keys: list[dict[str, Any]] = []
    revoked: list[dict[str, Any]] = []


def new_key() -> tuple[str, str]:
    """Return a new API key, and its SHA-256 in hex; the policy contains only the hash."""
    key = _PREFIX + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode("ascii")).hexdigest()


@contextlib.contextmanager
def editing(directory: Path, mode: int = 0o600, *, file: str = FILE) -> Iterator[KeyList]:
    """Open a list for changes; it is written atomically when the block ends without an error. One writer at a time.

    `mode` is that of a new list; its owner is that of the directory, if possible.

    Raises `PolicyError` for an invalid list, which is not overwritten, and for one that would be too large to be read again.
    """
    name = f"{directory.name}/{file}"
    try:
        handle = _lockable(directory)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", where=f"{directory.name}/") from error
    try:
        lock(handle, wait=True)
        found = _read(directory, file)
        yield found
        text = _text(found, _HEADER)
        if len(text.encode()) > MAX_FILE_SIZE:
            raise PolicyError(f"would be larger than {MAX_FILE_SIZE} bytes, and was left as it is", where=name)
        _replace((directory / file).resolve(), text, mode)
        sync_folder(directory)
    except OSError as error:
        raise PolicyError(
            f"cannot be written: {error.strerror}",
            where=name,
            suggestion="run this command on a machine that can change the policy",
        ) from error
    finally:
        os.close(handle)


def add_key(directory: Path, entry: Mapping[str, Any]) -> None:
    """Write a key into the list, or into the next one (`keys-2.yaml`, …) if the list has the maximum size of a policy file.

    Raises `PolicyError`.
    """
    for name in _LISTS:
        path = directory / name
        if path.exists() and path.stat().st_size > _FULL:
            continue
        with editing(directory, file=name) as found:
            found.keys.append(dict(entry))
        return
    raise PolicyError("there is no room for another key", where=f"{directory.name}/", suggestion="revoke keys")


def revoke(
    directory: Path, revocation: Mapping[str, Any], covers: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Write a revocation, and remove the keys that it covers from the list; returns the removed keys.

    It does not depend on the rest of the policy: if the list cannot be read or written, the revocation is written to a separate file; if
    the directory is missing, it is created with that file only. Raises `PolicyError` if nothing could be written.
    """
    try:
        with editing(directory, _READABLE) as found:
            gone = [entry for entry in found.keys if covers(entry)]
            found.keys = [entry for entry in found.keys if entry not in gone]
            of_principal = revocation.get("principal")  # the latest time is enough
            found.revoked = [
                entry
                for entry in found.revoked
                if entry != revocation and (of_principal is None or entry.get("principal") != of_principal)
            ]
            found.revoked.append(dict(revocation))
    except Exception:  # noqa: BLE001 - any error in reading the list
        _write_aside(directory, revocation)
        return []
    for name in _LISTS[1:]:
        if (directory / name).exists():
            with contextlib.suppress(PolicyError), editing(directory, file=name) as more:  # already revoked
                gone += [entry for entry in more.keys if covers(entry)]
                more.keys = [entry for entry in more.keys if not covers(entry)]
    return gone


def without_revoked(credentials: PolicyCredentials, directory: Path) -> PolicyCredentials:
    """Return credentials without those that the files of a policy revoke, for a policy that cannot be used: revocations take effect
    immediately.

    A file that cannot be read revokes nothing, and does not block the others. Nothing is granted.
    """
    sections = PrincipalSections(directory)
    for path in sorted(directory.glob("[!.]*.y*ml")):
        with contextlib.suppress(Exception):  # any error in reading one: the others still count
            _add_revoked(sections, read(path, f"{directory.name}/{path.name}", PolicyError))
    return credentials.without(sections.taken(), _listed(directory))


def _add_revoked(sections: PrincipalSections, document: YamlDocument) -> None:
    given = document.data.get("revoked") if isinstance(document.data, dict) else None
    for index in range(len(given) if isinstance(given, list) else 0):
        with contextlib.suppress(PolicyError):
            sections.add_revoked(document, index)


def _listed(directory: Path) -> frozenset[str] | None:
    """Return the digests of the keys in the lists; None if there is none, or one cannot be read."""
    if not (directory / FILE).exists():
        return None
    sections = PrincipalSections(directory)
    try:
        for name in _LISTS:
            if (directory / name).exists():
                document = read(directory / name, f"{directory.name}/{name}", PolicyError)
                sections.add(document, decode(document, (), FileShape, PolicyError))
    except PolicyError:
        return None
    return sections.managed_keys()


def _read(directory: Path, name: str) -> KeyList:
    path = directory / name
    if not path.exists():
        return KeyList()
    document = read(path, f"{directory.name}/{name}", PolicyError)
    _refuse_others(document)
    file = decode(document, (), FileShape, PolicyError)
    PrincipalSections(directory).add(document, file)
    return KeyList(keys=list(file.keys), revoked=list(file.revoked))


def _refuse_others(document: YamlDocument) -> None:
    for key in document.data if isinstance(document.data, dict) else ():
        if key not in _SECTIONS:
            raise PolicyError(
                f"'{key}' is not allowed in the file that `toolgen keys` writes",
                where=document.where(key),
                suggestion="move it to another file of the policy",
            )


def _text(found: KeyList, header: str) -> str:
    sections: Mapping[str, list[dict[str, Any]]] = {"keys": found.keys, "revoked": found.revoked}
    lines = [header]
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


def _lockable(directory: Path) -> int:
    """Open the file that is locked while a list of the directory changes: the directory, or a file in it if directories cannot be
    opened."""
    if hasattr(os, "O_DIRECTORY"):
        return open_descriptor(directory, "RDONLY", "DIRECTORY")
    if not directory.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
    return open_descriptor(directory / ".keys.lock", "RDWR", "CREAT", "NOFOLLOW")


def _write_aside(directory: Path, revocation: Mapping[str, Any]) -> None:
    """Write a new policy file with only this revocation, under a unique name."""
    now = datetime.now(UTC)
    path = directory / f"revoked-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.yaml"
    try:
        directory.mkdir(exist_ok=True)
        _replace(path, _text(KeyList(revoked=[dict(revocation)]), _ASIDE), _READABLE)
    except OSError as error:
        raise PolicyError(
            f"nothing could be written ({error.strerror}), so nothing was revoked",
            where=f"{directory.name}/{path.name}",
            suggestion="run this command on a machine that can change the policy",
        ) from error


def _replace(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically: write beside it, flush, rename. It keeps its owner and mode; a new file gets the directory's owner and
    this mode."""
    try:
        before, like = path.stat(), path.stat()
    except FileNotFoundError:
        before, like = None, path.parent.stat()
    temporary = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
    descriptor = open_descriptor(temporary, "WRONLY", "CREAT", "EXCL")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            if _HAS_OWNERS and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.nullcontext() if before is not None else contextlib.suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
            if _HAS_OWNERS:
                os.fchmod(descriptor, mode if before is None else before.st_mode & 0o777)
            sync(descriptor)
        replace_file(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
