"""Checkpoints held against the entries: wherever a tree begins and ends, and however the entries come, a wrong root is told."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations, pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from toolgen.audit.checkpoint import Checkpoint
from toolgen.audit.checkpoint_verification import Statements, StatementVerifier
from toolgen.audit.keys import SigningKey
from toolgen.audit.merkle_tree import Tree

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
ENTRIES = 5
LEAVES = [sha256(bytes([number])).digest() for number in range(ENTRIES)]
BATCHES = [(0, *cuts, ENTRIES) for count in range(ENTRIES) for cuts in combinations(range(1, ENTRIES), count)]


def _signed(first: int, size: int, leaves: Sequence[bytes] = LEAVES) -> Checkpoint:
    tree = Tree(first=first)
    tree.extend(leaves[first - 1 : size])
    return Checkpoint.make(KEY, stream="g", head=LEAVES[size - 1].hex(), tree=tree, time="2026-01-01T00:00:00Z")


def _told(batches: Sequence[int], *checkpoints: Checkpoint) -> list[tuple[int, str]]:
    witness = StatementVerifier(Statements(checkpoints=[("g.checkpoints", one) for one in checkpoints]))
    return [found for start, end in pairwise(batches) for found in witness.walk(end, LEAVES[start:end])]


@pytest.mark.parametrize("size", range(1, ENTRIES + 1))
@pytest.mark.parametrize("first", range(1, ENTRIES + 1))
def test_a_root_over_other_entries_is_told_and_the_right_one_is_not(first: int, size: int) -> None:
    if first > size:
        return
    bent = [*LEAVES]
    bent[first - 1] = bytes(32)
    for batches in BATCHES:
        assert _told(batches, _signed(first, size)) == [], batches
        ((at, why),) = _told(batches, _signed(first, size, bent))
        assert (at, "not those" in why, "signed" in why) == (size, True, True), batches


def test_an_entry_that_is_not_the_signed_one_is_told() -> None:
    wrong = replace(_signed(1, 3), head="0" * 64)
    for batches in BATCHES:
        ((at, why),) = _told(batches, _signed(1, 2), wrong, _signed(1, 5))
        assert (at, "not the entry" in why) == (3, True)
