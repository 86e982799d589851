"""What `toolgen keys` writes down: a revocation once, the latest of a principal, and nothing of anybody else's is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolgen.policy.key_list import editing, revoke

KEY = {"principal": "ann", "hash": "sha256:" + "a" * 64, "created": "2026-01-01T00:00:00Z"}
OTHER = {"principal": "bob", "hash": "sha256:" + "b" * 64, "created": "2026-01-01T00:00:00Z"}


def _revoked(directory: Path, *revocations: dict[str, Any]) -> list[dict[str, Any]]:
    for revocation in revocations:
        revoke(directory, revocation, lambda entry: entry["principal"] == "ann")
    with editing(directory) as found:
        return [dict(entry) for entry in found.revoked]


def test_keys_that_are_covered_are_taken_out_and_others_stay(tmp_path: Path) -> None:
    with editing(tmp_path) as found:
        found.keys = [dict(KEY), dict(OTHER)]

    gone = revoke(
        tmp_path, {"principal": "ann", "before": "2026-02-01T00:00:00Z"}, lambda one: one["principal"] == "ann"
    )

    assert gone == [KEY]
    with editing(tmp_path) as found:
        assert found.keys == [OTHER]


def test_of_a_principal_the_latest_revocation_stays_and_all_others(tmp_path: Path) -> None:
    early = {"principal": "ann", "before": "2026-02-01T00:00:00Z"}
    late = {"principal": "ann", "before": "2026-03-01T00:00:00Z"}
    bob = {"principal": "bob", "before": "2026-02-01T00:00:00Z"}
    key = {"key": "sha256:" + "c" * 64}
    token = {"subject": "ann", "before": "2026-02-01T00:00:00Z"}

    assert _revoked(tmp_path, early, bob, key, token, late) == [bob, key, token, late]
    assert _revoked(tmp_path, key) == [bob, token, late, key]
