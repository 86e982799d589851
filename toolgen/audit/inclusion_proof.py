"""Proof that an entry is in a log: a few hashes and a signature, without the log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from toolgen.audit.checkpoint import Checkpoint, Removal, checkpoint_path, read_checkpoint, removal_path, statements
from toolgen.audit.entry import Entry, hashed
from toolgen.audit.keys import Verifiers
from toolgen.audit.merkle_tree import Tree, inclusion_proof, root_from_inclusion_proof
from toolgen.audit.reader import entries, hashes_from
from toolgen.core.canonical import canonical
from toolgen.core.errors import AuditError, CanonicalError

__all__ = ["ProvenEntry", "prove", "verify_proof"]

_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Proof(msgspec.Struct, forbid_unknown_fields=True, tag_field="proof", tag="toolgen audit entry 1"):
    """Proof file: the entry, the sibling nodes on its path up the tree, lowest first, and the checkpoint that signs the tree's root."""

    entry: dict[str, Any]
    path: Annotated[list[_Hash], msgspec.Meta(max_length=64)]
    checkpoint: dict[str, Any]


class ProvenEntry(Struct, frozen=True, kw_only=True):
    """Entry that was in the log when the checkpoint was signed."""

    entry: Entry
    checkpoint: Checkpoint


def prove(directory: Path, stream: str, seq: int, keys: Verifiers) -> bytes:
    """Return the proof of an entry against the first checkpoint after it, as JSON. Raises `AuditError` if there is none."""
    entry = next((item for item in entries(directory, stream, seq) if item.get("seq") == seq), None)
    if entry is None:
        raise AuditError(f"there is no entry {seq}", suggestion="`toolgen audit list` shows the numbers")
    checkpoint = next(
        (
            statement
            for _, _, statement in statements(checkpoint_path(directory, stream))
            if isinstance(statement, Checkpoint)
            and statement.first <= seq <= statement.size
            and statement.is_signed(keys)
        ),
        None,
    )
    if checkpoint is None:
        raise AuditError(
            f"no checkpoint is signed that covers entry {seq}",
            suggestion="`toolgen audit keys new` makes a key; a gateway signs every minute",
        )
    before = _removed(directory, stream, checkpoint.first, seq)
    start = before.size + 1
    leaves: list[bytes] = []
    for number, digest in hashes_from(directory, stream, start):
        if number > checkpoint.size or number != start + len(leaves):
            break
        leaves.append(bytes.fromhex(digest))
    if len(leaves) != checkpoint.size - before.size:
        raise AuditError("entries are missing that the checkpoint covers", suggestion="run `toolgen audit verify`")
    path = inclusion_proof(before.frontier, before.size - before.first + 1, leaves, seq - checkpoint.first)
    proof = _Proof(
        entry=dict(entry),
        path=[node.hex() for node in path],
        checkpoint={name: value for name, value in msgspec.json.decode(checkpoint.line).items() if name != "runs"},
    )
    made = msgspec.json.format(canonical(msgspec.to_builtins(proof)), indent=1) + b"\n"
    verify_proof(made, keys)
    return made


def verify_proof(data: bytes, keys: Verifiers) -> ProvenEntry:
    """Verify a proof and return the proven entry. Needs only the public keys; raises `AuditError` with the fault."""
    try:
        proof = msgspec.json.decode(data, type=_Proof)
        checkpoint = read_checkpoint(canonical(proof.checkpoint))
        digest = hashed(proof.entry, str(proof.entry.get("prev", "")))
    except (msgspec.DecodeError, CanonicalError, UnicodeEncodeError, RecursionError) as error:
        raise AuditError("is not a proof of an audit entry", suggestion="`toolgen audit prove` makes one") from error
    if checkpoint is None:
        raise AuditError("contains no checkpoint")
    if checkpoint.key not in keys:
        raise AuditError(
            f"is signed by the key {checkpoint.key}, which is not among those given", suggestion="see --key"
        )
    if not checkpoint.is_signed(keys):
        raise AuditError(f"its checkpoint is not signed by the key {checkpoint.key} that it names")
    entry = proof.entry
    if digest != entry.get("hash"):
        raise AuditError("its entry was edited: content and hash disagree")
    seq = entry.get("seq")
    if entry.get("stream") != checkpoint.stream or not isinstance(seq, int):
        raise AuditError("its entry and its checkpoint are not of the same stream")
    size = checkpoint.size - checkpoint.first + 1
    root = root_from_inclusion_proof(
        bytes.fromhex(digest), seq - checkpoint.first, size, [bytes.fromhex(node) for node in proof.path]
    )
    if root is None or root.hex() != checkpoint.root:
        raise AuditError("its entry is not among those that its checkpoint signs")
    return ProvenEntry(entry=entry, checkpoint=checkpoint)


def _removed(directory: Path, stream: str, first: int, seq: int) -> Tree:
    """Return the tree over the entries that policy removed before an entry; an empty tree if there are none."""
    found = Tree(first=first)
    for _, _, statement in statements(removal_path(directory, stream)):
        if isinstance(statement, Removal) and statement.first == first and statement.size < seq:
            found = statement.tree() or found
    return found
