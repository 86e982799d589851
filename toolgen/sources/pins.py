"""Pins: what a remote description was when a person last accepted it, in toolgen.lock, with a copy that a build can read offline."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
import orjson

from toolgen.errors import ConfigError, ToolgenError
from toolgen.files import read_file

__all__ = ["COPIES", "LOCK", "Pin", "digest_of", "read_pins", "stage", "write_pins"]

LOCK = "toolgen.lock"
COPIES = "toolgen.pins"
_FORMAT = 1
_LARGEST_LOCK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One accepted description: the digest of its bytes, and the file that holds them."""

    url: str
    digest: str  # sha256:…
    path: Path


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    digest: str
    copy: str  # relative to the lock, with `/`


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    descriptions: dict[str, _Entry]


def digest_of(data: bytes) -> str:
    """`sha256:` and the hex SHA-256 of a description's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read_pins(root: Path) -> Mapping[str, Pin]:
    """The pins beside toolgen.yaml in `root`, by source; none when there is no lock.

    Raises `ConfigError` for a lock that is not one, and for a copy outside of `root`/toolgen.pins.
    """
    path = root / LOCK
    again = "restore it from version control, or remove it and run `toolgen build` to pin everything anew"
    try:
        data = read_file(path, _LARGEST_LOCK)
        lock = msgspec.json.decode(data, type=_Lock)
    except FileNotFoundError:
        return MappingProxyType({})
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=LOCK) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"is not a lock file: {error}", where=LOCK, suggestion=again) from error
    if lock.format != _FORMAT:
        raise ConfigError(f"has format {lock.format}, this toolgen reads {_FORMAT}", where=LOCK)
    pins = {}
    for name, entry in lock.descriptions.items():
        parts = entry.copy.split("/")
        if len(parts) != 3 or parts[:2] != [COPIES, name] or parts[2] in {"", ".", ".."}:
            raise ConfigError(f"the copy of {name} does not stand in {COPIES}/{name}/", where=LOCK, suggestion=again)
        pins[name] = Pin(url=entry.url, digest=entry.digest, path=root / entry.copy)
    return MappingProxyType(pins)


def stage(folder: Path, name: str, filename: str, url: str, data: bytes) -> Pin:
    """Puts fetched bytes where a build can read them before anything is decided: `folder`/`name`/`filename`."""
    path = folder / name / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Pin(url=url, digest=digest_of(data), path=path)


def write_pins(root: Path, staged: Mapping[str, Pin], keep: Iterable[str]) -> Mapping[str, Pin]:
    """Makes `staged` the pins of their sources, leaves those named in `keep` alone and drops every other; returns the new pins.

    Copies are written before the lock that speaks of them. Raises `ToolgenError` when they cannot be.
    """
    old = read_pins(root)
    pins = {name: old[name] for name in keep if name in old and name not in staged}
    try:
        for name, pin in staged.items():
            place = root / COPIES / name / pin.path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            _replace(place, pin.path.read_bytes())
            pins[name] = Pin(url=pin.url, digest=pin.digest, path=place)
        if not pins:
            (root / LOCK).unlink(missing_ok=True)
            _tidy(root, pins, old)
            with suppress(OSError):
                (root / COPIES).rmdir()
            return MappingProxyType(pins)
        entries = {
            name: _Entry(url=pin.url, digest=pin.digest, copy=pin.path.relative_to(root).as_posix())
            for name, pin in sorted(pins.items())
        }
        text = msgspec.json.encode(_Lock(format=_FORMAT, descriptions=entries))
        _replace(root / LOCK, orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        _tidy(root, pins, old)
    except OSError as error:
        raise ToolgenError(f"cannot be written: {error.strerror}", where=f"{COPIES}/ or {LOCK}") from error
    return MappingProxyType(pins)


def _tidy(root: Path, pins: Mapping[str, Pin], old: Mapping[str, Pin]) -> None:
    """Removes the copies that the lock spoke of and no longer does."""
    for name, pin in old.items():
        if name not in pins:
            shutil.rmtree(root / COPIES / name, ignore_errors=True)
        elif pin.path != pins[name].path:
            pin.path.unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    """The old content or the new, never half of one."""
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
