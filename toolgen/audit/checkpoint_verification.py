"""Verification of a log's entries against signed checkpoints and removals, from the log's folder and from outside, while the entries are
read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from toolgen.audit.checkpoint import Checkpoint, Removal, removal_path, statements
from toolgen.audit.files import DamagedError
from toolgen.audit.keys import Verifiers
from toolgen.audit.merkle_tree import Tree
from toolgen.core.errors import AuditError

__all__ = ["RecordFault", "StatementVerifier", "Statements", "read_statements"]

_SUFFIXES = (".checkpoints", ".checkpoint")


class RecordFault(Struct, frozen=True, kw_only=True):
    """A fault in a log: file, line (from 1, 0 for none), number of the entry, and kind.

    Kinds: `unreadable` (no entry at all), `edited` (content and hash disagree), `removed` (numbers are missing before it), `missing` (a
    whole segment or stream is), `reordered` (an entry in another's place, or one too many), `forked` (right number, wrong predecessor, or
    not the entry that was signed), `truncated` (more was signed than is there), `signature` (a statement without the signature of a known
    key), `unmatched` (an outcome without its intent).
    """

    file: str
    line: int
    seq: int | None
    kind: str
    message: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"file": self.file, "line": self.line, "seq": self.seq, "kind": self.kind, "message": self.message}


class Statements(Struct):
    """Signed statements about one stream by trusted keys: checkpoints in the order of their sizes, and removals.

    `untrusted` are checkpoints of a key that was not given. Each is a fault by itself; if it contradicts the entries, that is another.
    """

    checkpoints: list[tuple[str, Checkpoint]] = []
    removals: list[Removal] = []
    untrusted: dict[int, Checkpoint] = {}

    @property
    def size(self) -> int:
        """Return the minimum number of entries that the stream had."""
        sizes = [checkpoint.size for _, checkpoint in self.checkpoints] + [removal.size for removal in self.removals]
        return max(sizes, default=0)

    @property
    def newest(self) -> tuple[str, Checkpoint | Removal]:
        """Statement with the largest size, and its file."""
        said: list[tuple[str, Checkpoint | Removal]] = [*self.checkpoints]
        said += [(removal_path(Path(), it.stream).name, it) for it in self.removals]
        return max(said, key=lambda item: item[1].size)


def read_statements(
    directory: Path, streams: Sequence[str], keys: Verifiers, kept: Sequence[Path]
) -> tuple[dict[str, Statements], list[RecordFault]]:
    """Read the signed statements, by stream, and their faults, which include every file with statements of a key that is not among `keys`.

    An attacker who rewrites a log can remove its public key. So a statement that cannot be checked with a key is never ignored.
    """
    found: dict[str, Statements] = {name: Statements() for name in streams}
    faults: list[RecordFault] = []
    beside = [path for suffix in ("checkpoints", "removals") for path in sorted(directory.glob(f"*.{suffix}"))]
    for path in [*beside, *_files(kept)]:
        unknown: dict[
            str, RecordFault
        ] = {}  # one for each key: a log without its public key may have a million statements
        try:
            for number, _, statement in statements(path):
                if statement is not None and statement.key not in keys:
                    message = (
                        f"no trusted key signed this: the key {statement.key} that it names is not among those given"
                    )
                    unknown.setdefault(statement.key, _fault(path, number, statement.size, "signature", message))
                    if isinstance(statement, Checkpoint):
                        found.setdefault(statement.stream, Statements()).untrusted[statement.size] = statement
                elif (fault := _taken(found, keys, path, number, statement)) is not None:
                    faults.append(fault)
        except DamagedError as error:
            faults.append(_fault(path, 0, None, "unreadable", f"it {error.message}"))
        faults += unknown.values()
    for stream in found.values():
        stream.checkpoints.sort(key=lambda item: item[1].size)
        stream.removals.sort(key=lambda removal: removal.size)
    return found, faults


def _taken(
    found: dict[str, Statements], keys: Verifiers, path: Path, number: int, statement: Checkpoint | Removal | None
) -> RecordFault | None:
    """Add a statement to those of its stream; return its fault, if any."""
    if statement is None:
        return _fault(path, number, None, "unreadable", "the line is neither a checkpoint nor a removal")
    if not statement.is_signed(keys):
        message = f"the key {statement.key} did not sign this"
        return _fault(path, number, statement.size, "signature", message)
    stream = found.setdefault(statement.stream, Statements())
    if isinstance(statement, Removal):
        stream.removals.append(statement)
    else:
        stream.checkpoints.append((path.name, statement))
    return None


class StatementVerifier:
    """Verification of the checkpoints of one stream against its entries, which arrive in runs without a gap."""

    def __init__(self, statements: Statements) -> None:
        self.newest: Checkpoint | None = None
        self.removal: Removal | None = None
        self._removals = {removal.size: removal for removal in statements.removals}
        self._left = list(reversed(statements.checkpoints))
        self._untrusted = statements.untrusted
        sizes = {it.size for _, it in statements.checkpoints}
        self._cuts = sorted(sizes | set(self._removals) | set(self._untrusted), reverse=True)
        self._firsts = {it.first for _, it in statements.checkpoints}
        self._trees: dict[int, Tree] = {}
        self._seq = 0
        self._head = ""

    @property
    def next_size(self) -> int:
        """Return the number of the next entry with a signed statement; 0 if there is none."""
        return self._cuts[-1] if self._cuts else 0

    def let_go(self, seq: int, prev: str) -> bool:
        """Return True if a signed removal covers the entries before entry `seq`, the first that exists."""
        for size, removal in self._removals.items():
            # If a crash interrupted the removal, some of the removed entries still exist.
            if size > seq - 1 or (size == seq - 1 and removal.head == prev):
                self.removal = removal
        return self.removal is not None

    def walk(self, last: int, leaves: Sequence[bytes]) -> Iterator[tuple[int, str]]:
        """Verify the entries that end with number `last`; yield each contradiction to a signed statement."""
        start = last - len(leaves) + 1
        if start != self._seq + 1:
            self._trees.clear()
            if (removal := self._removals.get(start - 1)) is not None and removal is self.removal:
                self._seed(removal)
        while self._cuts and self._cuts[-1] <= last:
            cut = self._cuts.pop()
            if cut >= start:
                self._grow(start, leaves[: cut - start + 1])
                leaves, start = leaves[cut - start + 1 :], cut + 1
            yield from self._held(cut)
            yield from self._held_removal(cut)
            yield from self._held_untrusted(cut)
            if (removal := self._removals.get(cut)) is not None and removal is self.removal:
                self._seed(removal)
        self._grow(start, leaves)

    def _seed(self, removal: Removal) -> None:
        if removal.first not in self._trees and (tree := removal.tree()) is not None:
            self._trees[removal.first] = tree

    def _grow(self, start: int, leaves: Sequence[bytes]) -> None:
        if not leaves:
            return
        last = start + len(leaves) - 1
        for first in self._firsts:
            if start <= first <= last and first not in self._trees:
                self._trees[first] = Tree(first=first)
                self._trees[first].extend(leaves[first - start :])
            elif first in self._trees and self._trees[first].size == start - 1:
                self._trees[first].extend(leaves)
        self._seq, self._head = last, leaves[-1].hex()

    def _held(self, size: int) -> Iterator[tuple[int, str]]:
        """Verify the checkpoints of this size against the entry with this number. A missing entry was reported before, or removed."""
        while self._left and self._left[-1][1].size <= size:
            _, checkpoint = self._left.pop()
            if checkpoint.size != self._seq:
                continue
            tree = self._trees.get(checkpoint.first)
            if checkpoint.head != self._head:
                yield size, f"it is not the entry that was signed at {checkpoint.time}"
            elif tree is not None and tree.size == size and tree.root().hex() != checkpoint.root:
                yield size, f"the entries up to it are not those that were signed at {checkpoint.time}"
            else:
                self.newest = checkpoint

    def _held_removal(self, size: int) -> Iterator[tuple[int, str]]:
        """Verify a removal that was signed and not carried out yet against the last entry that it is about."""
        removal = self._removals.get(size)
        if removal is not None and self._seq == size and removal.head != self._head:
            yield size, f"it is not the entry whose removal was signed at {removal.time}"

    def _held_untrusted(self, size: int) -> Iterator[tuple[int, str]]:
        """Compare a checkpoint without a trusted signature with the entry of its number: a contradiction counts for any key."""
        checkpoint = self._untrusted.get(size)
        if checkpoint is not None and self._seq == size and checkpoint.head != self._head:
            yield size, f"it is not the entry that a checkpoint of {checkpoint.time} names, which no trusted key signed"


def _files(kept: Sequence[Path]) -> Iterator[Path]:
    for path in kept:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
        elif path.is_file():
            yield path
        else:
            raise AuditError("there is no such file", where=str(path))


def _fault(path: Path, line: int, seq: int | None, kind: str, message: str) -> RecordFault:
    return RecordFault(file=path.name, line=line, seq=seq, kind=kind, message=message)
