"""Statements as they are written and read again."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolgen.audit.checkpoint import Checkpoint, statements
from toolgen.audit.keys import SigningKey
from toolgen.audit.merkle_tree import Tree


def test_a_checkpoint_of_a_long_log_is_read_with_all_of_its_runs(tmp_path: Path) -> None:
    leaf = sha256(b"x").digest()
    tree = Tree()
    tree.extend([leaf] * (2**15 - 1))
    key = SigningKey(Ed25519PrivateKey.generate())
    made = Checkpoint.make(key, stream="g", head=leaf.hex(), tree=tree, time="2026-01-01T00:00:00Z")
    (tmp_path / "g.checkpoints").write_bytes(made.line + b"\n")

    ((number, line, read),) = statements(tmp_path / "g.checkpoints")

    assert (number, line, read) == (1, made.line, made)
    assert len(made.runs) == 15
    assert len(made.line) > 1_200
