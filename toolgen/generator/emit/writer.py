"""Writes generated/: only what changed, each file whole or not at all; or says what would be written.

What the last build into a directory read and wrote, so that the next one can see that it would do the same.

The record is a cache of this user's, and no part of a project: without it a build does the whole work. It holds digests and counts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

import msgspec

from toolgen.core.canonical import digest
from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.core.files import digest_of
from toolgen.core.json_codec import file_json, indented_json
from toolgen.core.spelling import nearest
from toolgen.generator.emit.formats import DEFAULT_FORMATS, FORMATS, render
from toolgen.generator.emit.python import MODULE, python_module
from toolgen.generator.emit.schema_budget import as_listed
from toolgen.model.manifest import Manifest, Problem
from toolgen.model.tool import Tool

__all__ = [
    "FILES",
    "MANIFEST",
    "OURS",
    "BuildRecord",
    "SourceRow",
    "build_key",
    "check",
    "load",
    "refuse_foreign",
    "render_all",
    "save",
    "unchanged",
    "write",
]

MANIFEST = "manifest.json"
FILES: Mapping[str, str] = MappingProxyType({**{name: f"{name}.json" for name in sorted(FORMATS)}, "python": MODULE})
"""Format -> the file it is written to."""

OURS = frozenset({MANIFEST, *FILES.values()})
"""Every name a build may write; one that it did not write is stale."""

_OPENING = b'{\n  "format": '  # of every manifest, since its first field is its format
_MAX_INDENTED = 1024 * 1024
_TEMPORARY = ".tmp-"


def render_all(
    manifest: Manifest, formats: Iterable[str] = DEFAULT_FORMATS, listed: Sequence[Tool] = ()
) -> dict[str, bytes]:
    """Return the content of each file by its name: the manifest, and every tool in each of the formats. Equal manifests give equal bytes.

    `listed` are the tools in their listed form, if they have been made. Raises `ConfigError` for an unknown format.
    """
    files = {MANIFEST: _pretty(manifest.to_dict())}
    chosen = tuple(formats)
    for name in chosen:
        if name not in FILES:
            raise ConfigError(f"`{name}` is no format{nearest(name, FILES)}", suggestion=f"use {', '.join(FILES)}")
    tools = listed or (as_listed(manifest.tools.values()) if set(chosen) - {"python"} else ())
    for name in chosen:
        files[FILES[name]] = (
            python_module(manifest.tools.values()).encode() if name == "python" else _pretty(render(name, tools))
        )
    return dict(sorted(files.items()))


def write(directory: Path, files: Mapping[str, bytes]) -> list[str]:
    """Makes the directory hold `files`; returns the names that were written or removed, in order.

    All of them are first written beside their places and flushed to disk, then renamed: a disk that fills up changes nothing, and a
    reader sees a file's old content or the new, also after a power cut. The manifest goes first, because it is what marks the directory
    as ours. Raises `ToolgenError` when the directory cannot be written.
    """
    changed = check(directory, files)
    staged: dict[str, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            for name in changed:
                if name in files:
                    staged[name] = directory / f"{_TEMPORARY}{secrets.token_hex(8)}-{name}"
                    _write(staged[name], files[name])
            for name in sorted(changed, key=lambda name: (name != MANIFEST, name)):
                if name in staged:
                    replace_file(staged[name], directory / name)
                else:
                    (directory / name).unlink(missing_ok=True)
        finally:
            for temporary in staged.values():
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        if changed:
            sync_folder(directory)
    except OSError as error:
        raise ToolgenError(f"cannot be written: {error.strerror}", where=str(directory)) from error
    return changed


def check(directory: Path, files: Mapping[str, bytes]) -> list[str]:
    """The names `write` would write or remove: what is missing, different, or left over from another build."""
    if unknown := sorted(files.keys() - OURS):
        raise ValueError(f"{unknown[0]} is no file of generated/")
    different = {name for name, content in files.items() if not _holds(directory / name, content)}
    stale = {name for name in OURS - files.keys() if os.path.lexists(directory / name)}
    return sorted(different | stale)


def has_files(directory: Path) -> bool:
    """Return whether a folder has any file of a build."""
    return any(os.path.lexists(directory / name) for name in OURS)


def refuse_foreign(directory: Path) -> None:
    """Protect manifest.json and mcp.json files of other kinds, for example from `-o .` in another project.

    Raises `ToolgenError` if the directory holds a file with one of our names that no build has written. A project's own generated/ is not
    checked: a build repairs any broken file there.
    """
    manifest = directory / MANIFEST
    try:
        with manifest.open("rb") as file:
            if file.read(len(_OPENING)) == _OPENING:
                return
        found = MANIFEST
    except FileNotFoundError:
        found = next((name for name in sorted(OURS) if os.path.lexists(directory / name)), "")
    except OSError as error:
        raise ToolgenError(f"cannot be read: {error.strerror}", where=str(manifest)) from error
    if found:
        message = "stands where a build writes, and no build has written it"
        raise ToolgenError(
            message, where=str(directory / found), suggestion="choose another directory, or move the file away"
        )


def _pretty(value: object) -> bytes:
    """Two spaces, one newline at the end; keys stay in the order they have a meaning in. A long file has a line for each tool."""
    lined = BytesIO()  # a manifest is megabytes, which its `getvalue` does not copy
    _add_lined(lined, value, "", 2)  # indented, it is several times as long
    if lined.tell() <= _MAX_INDENTED:
        written = indented_json(value, _plain)
        if len(written) <= _MAX_INDENTED:
            return written
    lined.write(b"\n")
    return lined.getvalue()


def _add_lined(file: BytesIO, value: object, indent: str, levels: int) -> None:
    """Members and items of the outer levels on lines of their own, what is in them on one."""
    if not levels or not isinstance(value, Mapping | list | tuple):
        file.write(file_json(value, _plain))
        return
    inner = f"{indent}  "
    named = isinstance(value, Mapping)
    opened, closed = (b"{", b"}") if named else (b"[", b"]")
    before = opened + b"\n" + inner.encode()
    for item in value:
        file.write(before)
        if isinstance(value, Mapping):
            file.write(file_json(item) + b": ")
            _add_lined(file, value[item], inner, levels - 1)
        else:
            _add_lined(file, item, inner, 0)
        before = b",\n" + inner.encode()
    file.write(b"\n" + indent.encode() + closed if value else opened + closed)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def _holds(path: Path, content: bytes) -> bool:
    """Return True if a regular file, not a symbolic link, has exactly this content."""
    try:
        if path.is_symlink() or path.stat().st_size != len(content):
            return False
        return path.read_bytes() == content
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ToolgenError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _write(path: Path, content: bytes) -> None:
    """Write a new file with O_EXCL, which follows no prepared link. The umask restricts the mode, as for any file of the user."""
    descriptor = open_descriptor(path, "WRONLY", "CREAT", "EXCL", mode=0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())


_FORMAT = 1
_MAX_SIZE = 1 << 30
_CODE = Path(__file__).parents[2]


class SourceRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one source in a build's summary. `server` is the name and version of an MCP server, `since_pin` the changes since its tools
    were pinned. `context` counts its prompts and resources."""

    source: str
    operations: int
    tools: int
    skipped: int
    problems: int
    tokens: int
    seconds: float
    server: str = ""
    since_pin: str = ""
    context: int = 0


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of one build. `key` is a digest of all inputs except the files; both maps go from a path or name to `sha256:…`."""

    format: int = _FORMAT
    key: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    rows: tuple[SourceRow, ...]
    digest: str  # of the manifest
    problems: tuple[Problem, ...]
    remarks: dict[str, tuple[str, ...]]  # by format


def build_key(options: object) -> str:
    """`sha256:…` over a build's options (any JSON value), toolgen's own code, Python and every installed package's version."""
    packages = sorted(
        entry.name
        for folder in sys.path
        if os.path.isdir(folder)
        for entry in os.scandir(folder)
        if entry.name.endswith((".dist-info", ".egg-info"))
    )
    return digest({"options": options, "code": _digest_of(_CODE), "python": sys.version, "packages": packages})


def load(directory: Path) -> BuildRecord | None:
    """The record of the last build into a directory, if there is one that can be read."""
    try:
        return msgspec.json.decode(_place(directory).read_bytes(), type=BuildRecord)
    except (OSError, RuntimeError, msgspec.DecodeError, RecursionError):
        return None


def save(
    directory: Path,
    key: str,
    inputs: Mapping[str, str],
    files: Mapping[str, bytes],
    manifest: Manifest,
    rows: Iterable[SourceRow],
    remarks: Mapping[str, tuple[str, ...]],
) -> None:
    """Records a build; where that is not possible (a home that cannot be written), the next one does the whole work."""
    record = BuildRecord(
        key=key,
        inputs=dict(inputs),
        outputs={name: _sha256(content) for name, content in files.items()},
        rows=tuple(rows),
        digest=manifest.digest,
        problems=manifest.problems,
        remarks=dict(remarks),
    )
    with suppress(OSError, RuntimeError):
        place = _place(directory)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = place.with_name(f"{place.name}.{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode(record))
        replace_file(temporary, place)


def unchanged(directory: Path, record: BuildRecord, key: str) -> bool:
    """Return True if a build would read and write exactly the recorded files.

    Every file is read again, because time stamps are not trusted.
    """
    if record.format != _FORMAT or record.key != key or MANIFEST not in record.outputs:
        return False
    if any(os.path.lexists(directory / name) for name in OURS - record.outputs.keys()):
        return False
    written = {str(directory / name): content for name, content in record.outputs.items()}
    if any(os.path.islink(path) for path in written):
        return False
    return all(_digest_at(path) == content for path, content in {**record.inputs, **written}.items())


def _place(directory: Path) -> Path:
    """XDG Base Directory Specification: what can be made again stands below $XDG_CACHE_HOME, ~/.cache unless it is set."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "toolgen" / "builds" / f"{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:32]}.json"


@cache
def _digest_of(code: Path) -> str:
    """Return the digest of the running code, because the version of a development checkout does not change with each edit."""
    total = hashlib.sha256()
    root = str(code)
    for path in sorted(
        f"{folder}/{name}" for folder, _, names in os.walk(root) for name in names if name.endswith(".py")
    ):
        with open(path, "rb", buffering=0) as file:
            total.update(path.removeprefix(root).encode() + b"\0" + file.readall() + b"\0")
    return total.hexdigest()


def _digest_at(path: str) -> str:
    try:
        return digest_of(path, _MAX_SIZE)
    except OSError:
        return ""


def _sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
