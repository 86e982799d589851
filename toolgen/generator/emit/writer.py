"""Writer of generated/: only changed files, each completely or not at all; or a list of the changes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.core.json_codec import file_json, indented_json
from toolgen.core.spelling import nearest
from toolgen.generator.emit.formats import DEFAULT_FORMATS, FORMATS, render
from toolgen.generator.emit.python import MODULE, python_module
from toolgen.generator.emit.schema_budget import as_listed
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool

__all__ = ["FILES", "MANIFEST", "OURS", "check", "refuse_foreign", "render_all", "write"]

MANIFEST = "manifest.json"
FILES: Mapping[str, str] = MappingProxyType({**{name: f"{name}.json" for name in sorted(FORMATS)}, "python": MODULE})
"""Format -> its file."""

OURS = frozenset({MANIFEST, *FILES.values()})
"""Names of all files of builds; a file of these names that the build has not written is stale."""

_OPENING = b'{\n  "format": '  # start of every manifest, since its first field is its format
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
            raise ConfigError(f"`{name}` is not a format{nearest(name, FILES)}", suggestion=f"use {', '.join(FILES)}")
    tools = listed or (as_listed(manifest.tools.values()) if set(chosen) - {"python"} else ())
    for name in chosen:
        files[FILES[name]] = (
            python_module(manifest.tools.values()).encode() if name == "python" else _pretty(render(name, tools))
        )
    return dict(sorted(files.items()))


def write(directory: Path, files: Mapping[str, bytes]) -> list[str]:
    """Make the directory contain `files`; return the names that were written or removed, in order.

    All of them are first written beside their places and flushed to disk, then renamed: a full disk changes nothing, and a reader sees a
    file's old content or the new, also after a power cut. The manifest goes first, because it marks the directory as a build's. Raises
    `ToolgenError` when the directory cannot be written.
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
    """Return the names that `write` would write or remove: missing, different, or from another build."""
    if unknown := sorted(files.keys() - OURS):
        raise ValueError(f"{unknown[0]} is not a file of generated/")
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
        message = "is in the place of a build's file, and no build has written it"
        raise ToolgenError(
            message, where=str(directory / found), suggestion="choose another directory, or move the file away"
        )


def _pretty(value: object) -> bytes:
    """Return JSON with two spaces of indentation and a newline at the end; keys stay in their order. A long file has one line per tool."""
    lined = BytesIO()  # a manifest has megabytes, which its `getvalue` does not copy
    _add_lined(lined, value, "", 2)  # with indentation it is several times as long
    if lined.tell() <= _MAX_INDENTED:
        written = indented_json(value, _plain)
        if len(written) <= _MAX_INDENTED:
            return written
    lined.write(b"\n")
    return lined.getvalue()


def _add_lined(file: BytesIO, value: object, indent: str, levels: int) -> None:
    """Write members and items of the outer levels on separate lines, and their content on one line each."""
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
