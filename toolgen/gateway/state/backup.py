"""Backup of a project's data, which are the audit log and the state that outlives a call: taken while the gateway runs, and restored to an
empty place."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from toolgen.audit.backup import copy_log, goes_on_from, is_written, key_files
from toolgen.audit.verify import VerificationReport, verify
from toolgen.config.settings import Settings
from toolgen.core.descriptors import open_descriptor, sync, sync_folder
from toolgen.core.errors import ConfigError, StateError
from toolgen.gateway.operations.restored_calls import end_recorded
from toolgen.state.sqlite_file import copy_database
from toolgen.state.value_vault import skip_numbers

__all__ = ["BackupContents", "RestoreResult", "back_up", "restore"]

_FORMAT = "toolgen backup 1"
_LIST = "backup.json"
_AUDIT, _STATE = "audit", "state"
_VALUES = "values.db"
_CALLS = "calls.db"
_DATABASES = (
    _CALLS,
    "keys.db",
    "answers.db",
    "begun.db",
    "seen.db",
    "grants.db",
    "notify.db",
    "roles.db",
    "accounts.db",
    "sign-in.db",
    _VALUES,
)
"""Databases of the state folder that are backed up: waiting calls and approvals, idempotency keys, long answers, calls that were begun,
policies in force and uses of keys, grants, messages to webhooks, accounts of people and their sign-ins (encrypted), values of tokens. All
others are derived or temporary: the index of the log, sessions of the console, tokens of services, vectors of searching."""
_FILES = ("pauses.json", "tools.json")
_BLOCK = 1024 * 1024


class _BackupKey(msgspec.Struct, frozen=True):
    file: str
    sha256: str


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a backup: files with their SHA-256, and the private keys that it names but does not contain."""

    format: str
    time: str
    entries: int
    streams: int
    files: dict[str, str]
    keys: tuple[_BackupKey, ...]


def back_up(settings: Settings, folder: Path) -> tuple[BackupContents, VerificationReport]:
    """Write a backup into a folder that is empty or missing, and verify the log in it.

    Raises `ConfigError` for a folder with content, `AuditError` if there is no log, `StateError` for a file that cannot be read.
    """
    _take(folder)
    state = folder / _STATE
    state.mkdir(mode=0o700)
    # Waiting calls are copied before the log, so that the log has the intent of each of them.
    for name in _DATABASES:
        if (settings.state_dir / name).exists():
            copy_database(settings.state_dir / name, state / name)
    for name in _FILES:
        if (settings.state_dir / name).exists():
            _write(state / name, (settings.state_dir / name).read_bytes())
    audit = folder / _AUDIT
    audit.mkdir(mode=0o700)
    copy_log(settings.audit_dir, audit)
    report = verify(audit)
    kept = BackupContents(
        format=_FORMAT,
        time=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        entries=report.entries,
        streams=report.streams,
        files={str(path.relative_to(folder)): _digest(path) for path in _all(folder)},
        keys=tuple(_BackupKey(file=path.name, sha256=_digest(path)) for path in key_files(settings.audit_dir)),
    )
    for path in _all(folder):
        _sync(path)
    _write(
        folder / _LIST, msgspec.json.format(msgspec.json.encode(kept)) + b"\n"
    )  # written last: without it a backup is incomplete
    for path in (state, audit, folder):
        sync_folder(path)
    return kept, report


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a restore: the backup, the verified report, the missing keys, whether the log in place was kept, and the number of calls
    that were ended because the log shows that they were executed or closed."""

    kept: BackupContents
    report: VerificationReport
    missing_keys: tuple[str, ...]
    record_in_place: bool
    ended_calls: int


def restore(settings: Settings, folder: Path) -> RestoreResult:
    """Restore a backup to the project's log and state, and verify it.

    A log in place that continues that of the backup is kept. Calls that it shows as executed do not wait again.

    Raises `ConfigError` if a gateway runs, if there is other data than private keys or such a log, if a key differs from the one of the
    backup, and if the backup is incomplete.
    """
    kept = _listed(folder)
    in_place = _refuse_where_something_is(settings, folder / _AUDIT)
    missing = _keys_missing(settings, kept)
    with _staged(settings.audit_dir, folder / _AUDIT) as audit, _staged(settings.state_dir, folder / _STATE) as state:
        for name, digest in kept.files.items():
            part, _, rest = name.partition("/")
            copied = {_AUDIT: audit, _STATE: state}[part] / rest
            if _digest(copied) != digest:
                raise ConfigError("is not what was backed up", where=str(folder / name))
        record = settings.audit_dir if in_place else audit
        report = verify(record)
        ended = 0
        if settings.state is None:
            skip_numbers(state / _VALUES, datetime.now(UTC).timestamp())
            ended = end_recorded(state / _CALLS, record)
        _move(state, settings.state_dir)
        if not in_place:
            _move(audit, settings.audit_dir)
    return RestoreResult(kept=kept, report=report, missing_keys=missing, record_in_place=in_place, ended_calls=ended)


def _listed(folder: Path) -> BackupContents:
    path = folder / _LIST
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=BackupContents)
    except FileNotFoundError:
        raise ConfigError(
            "contains no complete backup", where=str(folder), suggestion="name the folder that `toolgen backup` wrote"
        ) from None
    except msgspec.MsgspecError:
        raise ConfigError("is not what `toolgen backup` writes", where=str(path)) from None
    known = all(
        part in {_AUDIT, _STATE} and rest and "/" not in rest and rest not in {".", ".."}
        for part, _, rest in (name.partition("/") for name in kept.files)
    )
    if kept.format != _FORMAT or not known:
        raise ConfigError("has a format that this version of toolgen does not support", where=str(path))
    return kept


def _refuse_where_something_is(settings: Settings, backup: Path) -> bool:
    """Return True if the log in place is kept. Raises `ConfigError` if there is anything else except private keys."""
    if is_written(settings.audit_dir):
        raise ConfigError("a gateway runs here", where=str(settings.audit_dir), suggestion="stop it first")
    keys = {path.name for path in key_files(settings.audit_dir)}
    for directory in (settings.state_dir, settings.audit_dir):
        found = sorted(set(os.listdir(directory)) - keys) if directory.is_dir() else []
        if not found:
            continue
        if directory == settings.audit_dir and goes_on_from(directory, backup):
            return True
        raise ConfigError(
            f"is not empty ({found[0]} exists), and existing data is not overwritten",
            where=str(directory),
            suggestion="move it away first; private keys may stay, and so may a log that continues that of the backup",
        )
    return False


def _keys_missing(settings: Settings, kept: BackupContents) -> tuple[str, ...]:
    missing = []
    for key in kept.keys:
        path = settings.audit_dir / Path(key.file).name
        if not path.exists():
            missing.append(path.name)
        elif _digest(path) != key.sha256:
            raise ConfigError(
                "is another key than the one the backup was taken with",
                where=str(path),
                suggestion="put the old key there, or move this one away",
            )
    return tuple(missing)


@contextmanager
def _staged(place: Path, source: Path) -> Iterator[Path]:
    """Yield a copy on the same file system as its destination; what was not moved is removed at the end."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as made:
        folder = Path(made)
        for path in sorted(source.iterdir()) if source.is_dir() else []:
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file, _new(folder / path.name) as copy:
                    shutil.copyfileobj(file, copy, _BLOCK)
                _sync(folder / path.name)
        yield folder


def _move(staged: Path, place: Path) -> None:
    place.mkdir(exist_ok=True, mode=0o700)
    for path in sorted(staged.iterdir()):
        path.rename(place / path.name)
    sync_folder(place)


def _take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        raise ConfigError("is not empty", where=str(folder), suggestion="name a folder that is not there yet")
    folder.chmod(0o700)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StateError(f"cannot be read: {error.strerror or type(error).__name__}", where=str(path)) from error


def _new(path: Path) -> BinaryIO:
    return os.fdopen(open_descriptor(path, "WRONLY", "CREAT", "EXCL"), "wb")


def _write(path: Path, data: bytes) -> None:
    with _new(path) as file:
        file.write(data)
        file.flush()
        sync(file.fileno())


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        sync(file.fileno())
