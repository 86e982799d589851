"""toolgen.lock: what remote descriptions were when a person last accepted them, with copies that a build can read offline, and the names
that tools were given."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.assigned_names import AssignedName, Assignments
from toolgen.core.descriptors import replace_file, sync
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.core.files import read_file
from toolgen.model.names import TOOL_NAME

__all__ = ["COPIES", "LOCK", "Pin", "Pins", "digest_of", "read_pins", "stage", "write_pins"]

LOCK = "toolgen.lock"
COPIES = "toolgen.pins"
_FORMAT = 1
_MAX_LOCK_SIZE = 64 * 1024 * 1024


class Pin(Struct, frozen=True, kw_only=True):
    """Accepted copy of one description: the digest of its bytes, and the file that contains them."""

    url: str
    digest: str  # sha256:…
    path: Path
    base: str = ""  # where it was found in the end, when it was redirected: what its own references start from


class Pins(Struct, frozen=True, kw_only=True):
    """All that is pinned: descriptions by source, and by source the documents they pull in, by canonical URL.

    `tools` are the names of tools, by source; a source that has none in it was not built since names are kept. `context` are the digests of
    prompts (`prompt:NAME`) and resources (`resource:URI`), by source.
    """

    descriptions: Mapping[str, Pin]
    references: Mapping[str, Mapping[str, Pin]]
    tools: Mapping[str, Assignments] = MappingProxyType({})
    context: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class _PinEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    digest: str
    copy: str  # relative to the lock, with `/`


class _Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    digest: str
    copy: str
    base: str = ""


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    format: int
    descriptions: dict[str, _PinEntry]
    references: dict[str, dict[str, _Reference]] = {}
    tools: dict[str, dict[str, AssignedName]] = {}
    context: dict[str, dict[str, str]] = {}


def digest_of(data: bytes) -> str:
    """`sha256:` and the hex SHA-256 of a description's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read_pins(root: Path) -> Pins:
    """The pins beside toolgen.yaml in `root`; none when there is no lock.

    Raises `ConfigError` for a lock that is not one, and for a copy outside of `root`/toolgen.pins.
    """
    path = root / LOCK
    again = "restore it from version control, or remove it and run `toolgen build` to pin everything again"
    try:
        data = read_file(path, _MAX_LOCK_SIZE)
        lock = msgspec.json.decode(data, type=_Lock)
    except (FileNotFoundError, NotADirectoryError):
        return Pins(descriptions=MappingProxyType({}), references=MappingProxyType({}))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=LOCK) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"is not a lock file: {error}", where=LOCK, suggestion=again) from error
    if lock.format != _FORMAT:
        raise ConfigError(f"has format {lock.format}, this toolgen reads {_FORMAT}", where=LOCK)

    def place(name: str, copy: str) -> Path:
        parts = copy.split("/")
        if len(parts) != 3 or parts[:2] != [COPIES, name] or parts[2] in {"", ".", ".."}:
            raise ConfigError(f"the copy of {name} does not stand in {COPIES}/{name}/", where=LOCK, suggestion=again)
        return root / copy

    _check_names(lock.tools, again)
    return Pins(
        tools=MappingProxyType({name: MappingProxyType(names) for name, names in lock.tools.items()}),
        context=MappingProxyType({name: MappingProxyType(digests) for name, digests in lock.context.items()}),
        descriptions=MappingProxyType(
            {
                name: Pin(url=entry.url, digest=entry.digest, path=place(name, entry.copy))
                for name, entry in lock.descriptions.items()
            }
        ),
        references=MappingProxyType(
            {
                name: MappingProxyType(
                    {
                        url: Pin(url=url, digest=one.digest, path=place(name, one.copy), base=one.base)
                        for url, one in entries.items()
                    }
                )
                for name, entries in lock.references.items()
            }
        ),
    )


def _check_names(tools: Mapping[str, Assignments], again: str) -> None:
    """Raises `ConfigError` for a name that no tool can have, and for one that two operations have."""
    given: dict[str, str] = {}
    for source, names in tools.items():
        for identity, one in names.items():
            if not TOOL_NAME.match(one.name):
                raise ConfigError(f"'{one.name[:80]}' is not a tool name", where=LOCK, suggestion=again)
            place = f"{source}: {identity}"
            if one.name in given:
                message = f"{one.name} is the name of two operations, {given[one.name][:200]} and {place[:200]}"
                raise ConfigError(message, where=LOCK, suggestion=again)
            given[one.name] = place


def stage(folder: Path, name: str, filename: str, url: str, data: bytes) -> Pin:
    """Puts fetched bytes where a build can read them before anything is decided: `folder`/`name`/`filename`."""
    path = folder / name / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Pin(url=url, digest=digest_of(data), path=path)


def write_pins(root: Path, new: Pins) -> Pins:
    """Makes `new` all that is pinned, taking copies that stand elsewhere into `root`/toolgen.pins; returns the pins as they are then.

    Copies are written before the lock that speaks of them, and removed after it. Raises `ToolgenError` when they cannot be.
    """
    old = read_pins(root)
    try:
        descriptions = {name: _kept(root, name, pin) for name, pin in sorted(new.descriptions.items())}
        references = {
            name: {url: _kept(root, name, pin) for url, pin in sorted(pins.items())}
            for name, pins in sorted(new.references.items())
            if pins
        }
        context = {name: dict(sorted(one.items())) for name, one in sorted(new.context.items()) if one}
        if descriptions or references or any(new.tools.values()) or context:
            entries = {
                name: _PinEntry(url=pin.url, digest=pin.digest, copy=_relative(root, pin))
                for name, pin in descriptions.items()
            }
            pulled = {
                name: {
                    url: _Reference(digest=pin.digest, copy=_relative(root, pin), base=pin.base)
                    for url, pin in pins.items()
                }
                for name, pins in references.items()
            }
            lock = _Lock(format=_FORMAT, descriptions=entries, references=pulled, context=context)
            _replace(root / LOCK, _text(lock, new.tools))
        else:
            (root / LOCK).unlink(missing_ok=True)
        written = Pins(
            descriptions=MappingProxyType(descriptions),
            references=MappingProxyType(references),
            tools=new.tools,
            context=MappingProxyType({name: MappingProxyType(digests) for name, digests in context.items()}),
        )
        _tidy(root, written, old)
    except OSError as error:
        raise ToolgenError(f"cannot be written: {error.strerror}", where=f"{COPIES}/ or {LOCK}") from error
    return written


def _text(lock: _Lock, tools: Mapping[str, Assignments]) -> bytes:
    """The lock, indented, with one line for each tool, so that a difference of two locks and a merge go by tools."""
    text = msgspec.json.format(msgspec.json.encode(lock), indent=2)
    given = {source: names for source, names in sorted(tools.items()) if names}
    if not given:
        return text + b"\n"
    sources = []
    for source, names in given.items():
        lines = (b"      %b: %b" % (msgspec.json.encode(identity), _line(one)) for identity, one in names.items())
        sources.append(b"    %b: {\n%b\n    }" % (msgspec.json.encode(source), b",\n".join(lines)))
    return text.removesuffix(b"\n}") + b',\n  "tools": {\n%b\n  }\n}\n' % b",\n".join(sources)


def _line(one: AssignedName) -> bytes:
    return msgspec.json.format(msgspec.json.encode(one), indent=0).replace(b"\n", b" ")


def _kept(root: Path, name: str, pin: Pin) -> Pin:
    place = root / COPIES / name / pin.path.name
    if pin.path != place:
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(place, pin.path.read_bytes())
    return replace(pin, path=place)


def _relative(root: Path, pin: Pin) -> str:
    return pin.path.relative_to(root).as_posix()


def _paths(pins: Pins) -> set[Path]:
    pulled = (pin.path for entries in pins.references.values() for pin in entries.values())
    return {*(pin.path for pin in pins.descriptions.values()), *pulled}


def _tidy(root: Path, pins: Pins, old: Pins) -> None:
    """Removes the copies that the lock spoke of and no longer does, and the folders that are empty then."""
    for path in _paths(old) - _paths(pins):
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()
    with suppress(OSError):
        (root / COPIES).rmdir()


def _replace(path: Path, content: bytes) -> None:
    """The old content or the new, never half of one."""
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        replace_file(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
