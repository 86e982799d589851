"""Consistency proof: the log of an earlier checkpoint is the beginning of the log of a later one. It needs no log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from toolgen.audit.checkpoint import Checkpoint, Removal, checkpoint_path, read_checkpoint, removal_path, statements
from toolgen.audit.keys import Verifiers
from toolgen.audit.merkle_tree import Tree, consistency_proof, is_consistent
from toolgen.audit.reader import hashes_from
from toolgen.core.canonical import canonical
from toolgen.core.errors import AuditError, CanonicalError

__all__ = ["ProvenGrowth", "is_growth_proof", "prove_growth", "verify_growth"]

_TAG = "toolgen audit consistency 1"
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _GrowthProof(msgspec.Struct, forbid_unknown_fields=True, tag_field="proof", tag=_TAG):
    """Proof file: the signed checkpoints, and the nodes that lead from the root of the first to that of the second (RFC 9162, section
    2.1.4)."""

    before: dict[str, Any]
    after: dict[str, Any]
    path: Annotated[list[_Hash], msgspec.Meta(max_length=128)]


class ProvenGrowth(Struct, frozen=True, kw_only=True):
    """Checkpoints of one stream, the first of which is about the beginning of what the second is about."""

    before: Checkpoint
    after: Checkpoint


def prove_growth(directory: Path, line: bytes, keys: Verifiers) -> bytes:
    """Return the proof that the log has only grown since a checkpoint, whose `line` was kept elsewhere, up to the newest checkpoint of its
    stream, as JSON. Raises `AuditError` if it has not, or if no such proof can be made.
    """
    before = _signed(read_checkpoint(line.strip()), keys, "the checkpoint")
    after: Checkpoint | None = None
    for _, _, one in statements(checkpoint_path(directory, before.stream)):
        if (
            isinstance(one, Checkpoint)
            and one.first == before.first
            and one.size >= before.size
            and one.is_signed(keys)
        ):
            after = one if after is None or one.size > after.size else after
    if after is None:
        raise AuditError(
            f"no checkpoint of {before.stream} is as long as the one given, or begins where it does",
            suggestion="the log is another one, was cut off or was set back: run `toolgen audit verify --checkpoints FILE`",
        )
    gone = _removed(directory, before)
    leaves: list[bytes] = []
    for number, digest in hashes_from(directory, before.stream, gone.size + 1):
        if number > after.size or number != gone.size + 1 + len(leaves):
            break
        leaves.append(bytes.fromhex(digest))
    if len(leaves) != after.size - gone.size:
        raise AuditError("entries are missing that a checkpoint covers", suggestion="run `toolgen audit verify`")
    count = gone.size - gone.first + 1
    path = consistency_proof(gone.frontier, count, leaves, before.size - before.first + 1)
    proof = _GrowthProof(before=_bare(before), after=_bare(after), path=[node.hex() for node in path])
    made = msgspec.json.format(canonical(msgspec.to_builtins(proof)), indent=1) + b"\n"
    verify_growth(made, keys)
    return made


def is_growth_proof(data: bytes) -> bool:
    """Return True if a file claims to be a consistency proof."""
    try:
        return bool(msgspec.json.decode(data, type=dict[str, Any]).get("proof") == _TAG)
    except (msgspec.DecodeError, RecursionError):
        return False


def verify_growth(data: bytes, keys: Verifiers) -> ProvenGrowth:
    """Verify a proof. Needs only the public keys; raises `AuditError` with the fault."""
    try:
        proof = msgspec.json.decode(data, type=_GrowthProof)
        read = [read_checkpoint(canonical(one)) for one in (proof.before, proof.after)]
    except (msgspec.DecodeError, CanonicalError, UnicodeEncodeError, RecursionError) as error:
        raise AuditError("is not a consistency proof", suggestion="`toolgen audit consistency` makes one") from error
    before, after = _signed(read[0], keys, "its first checkpoint"), _signed(read[1], keys, "its second checkpoint")
    if (before.stream, before.first) != (after.stream, after.first):
        raise AuditError("its checkpoints are not of the same stream, or do not begin with the same entry")
    consistent = is_consistent(
        before.size - before.first + 1,
        after.size - after.first + 1,
        bytes.fromhex(before.root),
        bytes.fromhex(after.root),
        [bytes.fromhex(node) for node in proof.path],
    )
    if not consistent:
        raise AuditError("the log of the second checkpoint does not begin with that of the first")
    return ProvenGrowth(before=before, after=after)


def _signed(checkpoint: Checkpoint | None, keys: Verifiers, what: str) -> Checkpoint:
    if checkpoint is None:
        raise AuditError(f"{what} is not a checkpoint")
    if checkpoint.key not in keys:
        raise AuditError(
            f"{what} is signed by the key {checkpoint.key}, which is not among those given", suggestion="see --key"
        )
    if not checkpoint.is_signed(keys):
        raise AuditError(f"{what} is not signed by the key {checkpoint.key} that it names")
    try:
        whole = len(bytes.fromhex(checkpoint.root)) == 32 and checkpoint.size >= checkpoint.first
    except ValueError:
        whole = False
    if not whole:
        raise AuditError(f"{what} has no root of a tree")
    return checkpoint


def _bare(checkpoint: Checkpoint) -> dict[str, Any]:
    return {name: value for name, value in msgspec.json.decode(checkpoint.line).items() if name != "runs"}


def _removed(directory: Path, before: Checkpoint) -> Tree:
    """Return the tree over the entries that policy removed up to a checkpoint; an empty tree if there are none.

    Raises `AuditError` if entries behind it were removed too: then the nodes between are gone.
    """
    found = Tree(first=before.first)
    for _, _, one in statements(removal_path(directory, before.stream)):
        if isinstance(one, Removal) and one.first == before.first:
            found = one.tree() or found
    if found.size > before.size:
        raise AuditError(
            f"entries up to {found.size} were removed, and the checkpoint is about {before.size}",
            suggestion="make proofs before `audit.keep` removes entries; a removal is signed as well",
        )
    return found
