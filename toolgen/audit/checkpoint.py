"""Signed statements about a stream: how far it had come, and what was removed of it by policy."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from toolgen.audit.files import bounded, regular
from toolgen.audit.keys import SigningKey, Verifiers
from toolgen.audit.merkle_tree import Tree
from toolgen.canonical import canonical

__all__ = [
    "Checkpoint",
    "Removal",
    "append_line",
    "checkpoint_path",
    "newest_checkpoints",
    "read_checkpoint",
    "removal_path",
    "statements",
]

_CHECKPOINT = b"toolgen audit checkpoint v1\n"
_REMOVAL = b"toolgen audit removal v1\n"
_MAX_LENGTH = 64 * 1024  # bytes of a statement
_RECENT = 1024 * 1024


_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is signed. The tree is over the entries from `first` to `size`; `head` is the hash of entry `size`."""

    key: str
    stream: str
    time: str
    first: _Number
    size: _Number
    head: str
    root: str


class _RemovalBody(_Body, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Entries up to `size` were removed; `head`, `root` and `runs` are what a chain and a tree go on from without them."""

    runs: list[str]
    policy: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checkpoint: _Body
    signature: str
    runs: list[str] = []


class _RemovalLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    removal: _RemovalBody
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A stream had come to `size`, the entry of that number having the hash `head`; `root` is over the entries from `first` on.

    `line` is how it is written, signature and all. `runs` are not signed: they have to lead to `root`.
    """

    key: str
    stream: str
    time: str
    first: int
    size: int
    head: str
    root: str
    line: bytes
    signature: bytes
    runs: tuple[str, ...] = ()

    @classmethod
    def make(cls, key: SigningKey, *, stream: str, head: str, tree: Tree, time: str) -> Checkpoint:
        """Signs how far a stream has come."""
        body = {
            "key": key.id,
            "stream": stream,
            "time": time,
            "first": tree.first,
            "size": tree.size,
            "head": head,
            "root": tree.root().hex(),
        }
        signature = base64.b64encode(key.sign(_CHECKPOINT + canonical(body))).decode("ascii")
        runs = [run.hex() for run in tree.runs]
        made = read_checkpoint(canonical({"checkpoint": body, "signature": signature, "runs": runs}))
        assert made is not None  # noqa: S101 - it was written a line above
        return made

    def is_signed(self, keys: Verifiers) -> bool:
        """Whether one of these keys signed it."""
        key = keys.get(self.key)
        return key is not None and key.accepts(self.signature, _CHECKPOINT + canonical(_signed(self)))

    def tree(self) -> Tree | None:
        """The tree it was made of, to go on from; None where its runs do not lead to its root."""
        return _tree(self.first, self.size, self.runs, self.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The entries of a stream from `first` to `size` were removed, because `policy` says so."""

    key: str
    stream: str
    time: str
    first: int
    size: int
    head: str
    root: str
    runs: tuple[str, ...]
    policy: str
    line: bytes
    signature: bytes

    @classmethod
    def make(cls, key: SigningKey, *, last: Checkpoint, time: str, policy: str) -> Removal:
        """Signs that everything up to a checkpoint was removed."""
        body = {**_signed(last), "key": key.id, "time": time, "runs": [*last.runs], "policy": policy}
        signature = base64.b64encode(key.sign(_REMOVAL + canonical(body))).decode("ascii")
        made = _removal(canonical({"removal": body, "signature": signature}))
        assert made is not None  # noqa: S101 - it was written a line above
        return made

    def is_signed(self, keys: Verifiers) -> bool:
        """Whether one of these keys signed it."""
        key = keys.get(self.key)
        body = {**_signed(self), "runs": [*self.runs], "policy": self.policy}
        return key is not None and key.accepts(self.signature, _REMOVAL + canonical(body))

    def tree(self) -> Tree | None:
        """The tree over what was removed, to go on from."""
        return _tree(self.first, self.size, self.runs, self.root)


def checkpoint_path(directory: Path, stream: str) -> Path:
    """Where the checkpoints of a stream are."""
    return directory / f"{stream}.checkpoints"


def removal_path(directory: Path, stream: str) -> Path:
    """Where it is said what was removed of a stream."""
    return directory / f"{stream}.removals"


def read_checkpoint(line: bytes) -> Checkpoint | None:
    """The checkpoint that a line is; None when it is none."""
    try:
        read = msgspec.json.decode(line, type=_Line)
        signature = base64.b64decode(read.signature, validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None
    body = msgspec.structs.asdict(read.checkpoint)
    return Checkpoint(**body, line=line.strip(), signature=signature, runs=tuple(read.runs))


def statements(path: Path) -> Iterator[tuple[int, bytes, Checkpoint | Removal | None]]:
    """The lines of a file of statements, counted from 1, each with what it says; None for a line that says nothing we know.

    A last line without an end was never finished and is left out. A file that is not there has none. Raises `AuditError`.
    """
    try:
        file = regular(path)
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(bounded(file, _MAX_LENGTH), start=1):
            if line.endswith(b"\n"):
                yield number, line[:-1], read_checkpoint(line[:-1]) or _removal(line[:-1])


def newest_checkpoints(path: Path) -> list[Checkpoint]:
    """The checkpoints in the last MiB of a file, oldest first: at most some 2,000 of however many there are. Raises `AuditError`."""
    try:
        file = regular(path)
    except FileNotFoundError:
        return []
    with file:
        start = max(0, file.seek(0, os.SEEK_END) - _RECENT)
        file.seek(start)
        lines = file.read(_RECENT).split(b"\n")[:-1]  # what stands behind the last line end was never finished
    found = map(read_checkpoint, lines[1:] if start else lines)
    return [checkpoint for checkpoint in found if checkpoint is not None]


def append_line(path: Path, line: bytes) -> None:
    """Adds a line to a file of statements and makes it durable; what a crash left unfinished at its end is cut off first."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        back = max(0, end - _RECENT)
        file.seek(back)
        whole = back + file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        file.write(line + b"\n")
        file.flush()
        os.fsync(fd)


def _removal(line: bytes) -> Removal | None:
    try:
        read = msgspec.json.decode(line, type=_RemovalLine)
        signature = base64.b64decode(read.signature, validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None
    body: dict[str, Any] = msgspec.structs.asdict(read.removal)
    return Removal(**body | {"runs": tuple(read.removal.runs)}, line=line, signature=signature)


def _signed(statement: Checkpoint | Removal) -> dict[str, object]:
    return {name: getattr(statement, name) for name in _Body.__struct_fields__}


def _tree(first: int, size: int, runs: tuple[str, ...], root: str) -> Tree | None:
    try:
        tree = Tree(first=first, size=size, runs=[bytes.fromhex(run) for run in runs])
    except ValueError:
        return None
    return tree if tree.root().hex() == root else None
