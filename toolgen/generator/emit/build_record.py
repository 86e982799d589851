"""Record of the last build into a directory, which lets the next one detect that it would do the same.

The record is a cache of the user, and not part of a project: without it a build does the complete work. It contains digests and counts.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from toolgen.core.canonical import digest
from toolgen.core.descriptors import replace_file
from toolgen.core.files import digest_of
from toolgen.generator.emit.writer import MANIFEST, OURS
from toolgen.model.manifest import Manifest, Problem

__all__ = ["BuildRecord", "SourceRow", "build_key", "load", "save", "unchanged"]

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
    digest: str  # digest of the manifest
    problems: tuple[Problem, ...]
    remarks: dict[str, tuple[str, ...]]  # remarks by format


def build_key(options: object) -> str:
    """Return `sha256:…` over a build's options (any JSON value), toolgen's own code, Python and every installed package's version."""
    packages = sorted(
        entry.name
        for folder in sys.path
        if os.path.isdir(folder)
        for entry in os.scandir(folder)
        if entry.name.endswith((".dist-info", ".egg-info"))
    )
    return digest({"options": options, "code": _digest_of(_CODE), "python": sys.version, "packages": packages})


def load(directory: Path) -> BuildRecord | None:
    """Return the record of the last build into a directory, if it can be read."""
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
    """Store the record of a build. If that is impossible (a home without write access), the next build does the complete work."""
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
    """Return the file of the record of a directory, below $XDG_CACHE_HOME, else ~/.cache (XDG Base Directory Specification)."""
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
