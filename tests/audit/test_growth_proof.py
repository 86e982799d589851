"""Consistency proofs: a log has only grown since a checkpoint that somebody kept, by RFC 9162."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.audit.logs import PLAIN, add, opened, with_key
from toolgen.audit.checkpoint import Checkpoint, checkpoint_path, statements
from toolgen.audit.growth_proof import prove_growth, verify_growth
from toolgen.audit.keys import PRIVATE, public_keys
from toolgen.audit.merkle_tree import Tree, consistency_proof, is_consistent
from toolgen.cli.main import cli
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError

LEAVES = [sha256(bytes([number])).digest() for number in range(40)]


def root(leaves: Sequence[bytes]) -> bytes:
    """The definition of section 2.1.1, by itself."""
    if len(leaves) == 1:
        return leaves[0]
    middle = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\1" + root(leaves[:middle]) + root(leaves[middle:])).digest()


def test_each_tree_is_the_beginning_of_each_larger_one_and_of_no_other() -> None:
    for size in range(1, 25):
        new = root(LEAVES[:size])
        for before in range(1, size + 1):
            path = consistency_proof((), 0, LEAVES[:size], before)
            old = root(LEAVES[:before])
            assert is_consistent(before, size, old, new, path)
            other = root([*LEAVES[: before - 1], LEAVES[39]])
            assert not is_consistent(before, size, other, new, path)
            assert not is_consistent(before, size, old, other, path) or other == old == new
            assert not is_consistent(before, size, old, new, [*path, LEAVES[0]])
            assert not path or not is_consistent(before, size, old, new, path[:-1])
            for index in range(len(path)):
                edited = [*path[:index], LEAVES[39], *path[index + 1 :]]
                assert not is_consistent(before, size, old, new, edited)


def test_trees_whose_first_leaves_were_removed_are_proven_with_their_subtrees() -> None:
    for gone in (1, 2, 5, 8, 13):
        tree = Tree()
        tree.extend(LEAVES[:gone])
        for before in range(gone, 25):
            path = consistency_proof(tree.frontier, gone, LEAVES[gone:25], before)
            assert is_consistent(before, 25, root(LEAVES[:before]), root(LEAVES[:25]), path)
        with pytest.raises(ValueError, match="gone"):
            consistency_proof(tree.frontier, gone, LEAVES[gone:25], gone - 1)


@pytest.mark.parametrize(("before", "size"), [(0, 0), (0, 5), (6, 5), (-1, 5)])
def test_sizes_that_cannot_be_are_not_consistent(before: int, size: int) -> None:
    assert not is_consistent(before, size, LEAVES[0], LEAVES[0], [])


def checkpoints(directory: Path) -> list[Checkpoint]:
    found = [one for _, _, one in statements(checkpoint_path(directory, "gateway-1"))]
    return [one for one in found if isinstance(one, Checkpoint)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with several checkpoints."""
    with_key(tmp_path)
    written(tmp_path)
    assert len(checkpoints(tmp_path)) >= 3
    return tmp_path


def written(directory: Path, first: int = 0) -> None:
    clock = FixedClock()
    for number in range(first, first + 3):

        async def scenario(start: int) -> None:
            log = opened(directory, PLAIN, clock)
            await add(log, start * 7 + 1, start * 7 + 7)
            await log.close()  # signs the rest

        asyncio.run(scenario(number))
        clock.advance(100)


def test_a_log_that_has_grown_proves_it_for_each_checkpoint(directory: Path) -> None:
    keys = public_keys((), directory)
    *_, last = checkpoints(directory)
    for one in checkpoints(directory):
        proven = verify_growth(prove_growth(directory, one.line, keys), keys)
        assert (proven.before.size, proven.after.size) == (one.size, last.size)


def test_a_log_that_was_set_back_or_written_anew_has_no_proof(directory: Path, tmp_path_factory: Any) -> None:
    keys = public_keys((), directory)
    kept = checkpoints(directory)
    path = checkpoint_path(directory, "gateway-1")
    path.write_bytes(b"".join(one.line + b"\n" for one in kept[:-1]))
    with pytest.raises(AuditError, match="as long as"):
        prove_growth(directory, kept[-1].line, keys)
    anew = tmp_path_factory.mktemp("anew")
    for file in (directory / PRIVATE, *directory.glob("*.pub")):
        shutil.copy2(file, anew)
    written(anew, first=100)
    other = checkpoints(anew)[0]
    assert (other.size, other.key) == (kept[0].size, kept[0].key)
    with pytest.raises(AuditError):
        prove_growth(anew, kept[0].line, keys)


def test_removed_entries_are_no_proof(directory: Path) -> None:
    keys = public_keys((), directory)
    first = checkpoints(directory)[0]
    (directory / "gateway-1.jsonl").write_bytes(b"")
    with pytest.raises(AuditError, match="missing"):
        prove_growth(directory, first.line, keys)


Document = dict[str, Any]


def another_root(proof: Document) -> None:
    proof["before"]["checkpoint"]["root"] = "0" * 64


def swapped(proof: Document) -> None:
    proof["before"], proof["after"] = proof["after"], proof["before"]


def shorter(proof: Document) -> None:
    proof["path"] = proof["path"][:-1]


def edited(proof: Document) -> None:
    proof["path"][0] = "0" * 64


def unsigned(proof: Document) -> None:
    proof["after"]["signature"] = proof["before"]["signature"]


def more(proof: Document) -> None:
    proof["note"] = "also true"


@pytest.mark.parametrize("edit", [another_root, swapped, shorter, edited, unsigned, more])
def test_an_edited_proof_is_none(directory: Path, edit: Callable[[Document], None]) -> None:
    keys = public_keys((), directory)
    proof = json.loads(prove_growth(directory, checkpoints(directory)[0].line, keys))
    edit(proof)
    with pytest.raises(AuditError):
        verify_growth(json.dumps(proof).encode(), keys)


def test_a_reviewer_without_the_log_verifies_a_proof(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(checkpoints(directory)[0].line + b"\n")
    proof, (key,) = tmp_path / "proof", directory.glob("*.pub")
    command = ["audit", "consistency", str(tmp_path / "kept"), "--dir", str(directory), "-o", str(proof)]
    assert CliRunner().invoke(cli, command, catch_exceptions=False).exit_code == 0
    told = CliRunner().invoke(cli, ["audit", "verify", str(proof), "--key", str(key)], catch_exceptions=False)
    assert told.exit_code == 0
    assert " 42 " in told.output
    said = CliRunner().invoke(cli, ["audit", "verify", str(proof), "--key", str(key), "--json"])
    assert json.loads(said.output)["after"]["size"] == 42
    proof.write_bytes(proof.read_bytes().replace(b'"size": 42', b'"size": 43'))
    broken = CliRunner().invoke(cli, ["audit", "verify", str(proof), "--key", str(key)])
    assert broken.exit_code != 0
