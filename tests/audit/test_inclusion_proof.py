"""One entry, proven without the log; and one value, found without its being in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.logs import PLAIN, in_segments, opened, with_key, write
from toolgen.audit.entry import hashed, keyed_digest
from toolgen.audit.inclusion_proof import prove, verify_proof
from toolgen.audit.keys import public_keys
from toolgen.audit.reader import find_value
from toolgen.core.errors import AuditError

Document = dict[str, Any]


def test_every_entry_of_a_log_is_proven_by_a_small_file(tmp_path: Path) -> None:
    with_key(tmp_path)
    in_segments(tmp_path, segments=2, calls=20)
    keys = public_keys((), tmp_path)
    for seq in range(1, 121):
        proof = prove(tmp_path, "gateway-1", seq, keys)
        assert len(proof) < 3000
        proven = verify_proof(proof, keys)
        assert proven.entry["seq"] == seq <= proven.checkpoint.size


def edit(proof: Document) -> None:
    proof["entry"]["principal"] = "eve"


def edit_with_hash(proof: Document) -> None:
    edit(proof)
    proof["entry"]["hash"] = hashed(proof["entry"], proof["entry"]["prev"])


def another_number(proof: Document) -> None:
    proof["entry"]["seq"] += 1
    proof["entry"]["hash"] = hashed(proof["entry"], proof["entry"]["prev"])


def another_root(proof: Document) -> None:
    proof["checkpoint"]["checkpoint"]["root"] = proof["entry"]["hash"]
    proof["path"] = []


def another_size(proof: Document) -> None:
    proof["checkpoint"]["checkpoint"]["size"] += 1


def shorter(proof: Document) -> None:
    proof["path"] = proof["path"][:-1]


def longer(proof: Document) -> None:
    proof["path"].append("0" * 64)


def turned(proof: Document) -> None:
    proof["path"].reverse()


def another_stream(proof: Document) -> None:
    proof["checkpoint"]["checkpoint"]["stream"] = "gateway-2"


def no_checkpoint(proof: Document) -> None:
    proof["checkpoint"] = {}


def more(proof: Document) -> None:
    proof["note"] = "also true"


@pytest.mark.parametrize(
    "forge",
    [
        edit,
        edit_with_hash,
        another_number,
        another_root,
        another_size,
        shorter,
        longer,
        turned,
        another_stream,
        no_checkpoint,
        more,
    ],
)
def test_a_forged_proof_proves_nothing(tmp_path: Path, forge: Callable[[Document], None]) -> None:
    with_key(tmp_path)
    write(tmp_path, 10, PLAIN)
    keys = public_keys((), tmp_path)
    proof = json.loads(prove(tmp_path, "gateway-1", 7, keys))
    forge(proof)
    with pytest.raises(AuditError):
        verify_proof(json.dumps(proof).encode(), keys)


def test_a_proof_needs_the_key_that_signed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with_key(log)
    write(log, 2, PLAIN)
    proof = prove(log, "gateway-1", 1, public_keys((), log))
    other = public_keys([with_key(tmp_path / "other")], tmp_path)
    with pytest.raises(AuditError, match="not among those given"):
        verify_proof(proof, other)
    with pytest.raises(AuditError, match="not among those given"):
        verify_proof(proof, {})


def test_what_cannot_be_proven_says_why(tmp_path: Path) -> None:
    write(tmp_path, 2, PLAIN)
    with pytest.raises(AuditError, match="entry 1"):
        prove(tmp_path, "gateway-1", 1, public_keys((), tmp_path))
    with pytest.raises(AuditError, match="entry 9"):
        prove(tmp_path, "gateway-1", 9, public_keys((), tmp_path))


async def test_a_value_is_found_by_its_digest(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = opened(tmp_path)
        for number, value in enumerate(["4111 1111", 4111, {"a": [1]}, "other"]):
            digest = keyed_digest(log.key, value)
            await log.append({"event": "intent", "call_id": f"call_{number}", "arguments": {"card": digest}})
        await log.close()

    await scenario()
    found = {
        value: [entry["call_id"] for entry in find_value(tmp_path, value)]
        for value in ("4111 1111", "4111", '{"a": [1]}', "none")
    }
    assert found == {"4111 1111": ["call_0"], "4111": ["call_1"], '{"a": [1]}': ["call_2"], "none": []}
    (tmp_path / "hmac.key").write_text("short", encoding="ascii")
    with pytest.raises(AuditError, match="64 hex digits"):
        list(find_value(tmp_path, "4111"))
