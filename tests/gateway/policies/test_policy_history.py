"""What is kept of policies and uses of keys: enough to compare them, nothing secret, and never in the way of a call."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.projects import POLICY, make_project
from toolgen.core.errors import StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies.policy_history import without_secrets
from toolgen.state.seen import SeenPolicies

DIGEST = "ab" * 32


def test_nothing_secret_of_a_policy_is_kept() -> None:
    files = {
        "policies/a.yaml": {
            "principals": {"bot": {"api_key": [f"sha256:{DIGEST}", {"hash": f"sha256:{DIGEST}"}], "roles": ["r"]}},
            "keys": [{"hash": "CANARY"}],
            "revoked": [{"key": "CANARY"}],
            "credentials": [
                {"to": ["r"], "source": "api", "use": {"key": "CANARY", "env": "${env:NAME}", "odd": "${CANARY"}},
                {"to": ["r"], "source": "b", "use": {"oauth": {"client_id": "CANARY", "scopes": ["CANARY"]}}},
            ],
            "tests": [
                {"as": "bot", "arguments": {"password": "CANARY", "token": "${env:T}", "note": "tgk_CANARYCANARY"}}
            ],
            "rules": [{"id": "reads", "when": "principal.id == 'bot'"}],
        }
    }
    kept = without_secrets(files)
    assert "CANARY" not in json.dumps(kept)
    assert DIGEST not in json.dumps(kept)
    file = kept["policies/a.yaml"]
    assert file["principals"]["bot"]["api_key"] == ["sha256:abababababab…", {"hash": "sha256:abababababab…"}]
    assert file["credentials"][0] == {
        "to": ["r"],
        "source": "api",
        "use": {"key": "***", "env": "${env:NAME}", "odd": "***"},
    }
    assert file["tests"][0]["arguments"]["token"] == "${env:T}"
    assert file["rules"] == files["policies/a.yaml"]["rules"]
    assert "keys" not in file


def noted(path: Path) -> tuple[list[Any], list[Any]]:
    with sqlite3.connect(path) as file:
        return file.execute("SELECT digest FROM policies").fetchall(), file.execute("SELECT id FROM keys").fetchall()


async def test_the_policy_in_force_and_the_keys_that_were_used_are_noted(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"a key").hexdigest()
    rita = {"api_key": f"sha256:{digest}", "roles": ["reviewer"]}
    path = make_project(tmp_path, policy={**POLICY, "principals": {**POLICY["principals"], "rita": rita}})
    file = path.parent / "var" / "state" / "seen.db"

    async with Gateway.load(path) as gateway:
        await gateway.monitoring.history.note()
        assert noted(file) == ([(gateway.policy.digest,)], [])
        await gateway.callers.authenticate("a key")
        await gateway.callers.authenticate("a key that nobody has")
    assert noted(file)[1] == [(digest[:12],)]
    in_force = gateway.policy.digest
    assert noted(file)[0] == [(in_force,)]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_history_that_cannot_be_written_keeps_no_call_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*_: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(SeenPolicies, "policy", failing)
    path = make_project(tmp_path, policy=POLICY)

    async with Gateway.load(path) as gateway:
        await gateway.monitoring.history.note()
        await gateway.monitoring.history.note()
        assert gateway.operations.ready() == ()
    (message,) = [record.message for record in caplog.records if "history of the policy" in record.message]
    assert message.endswith(": the disk is full")


async def test_the_oldest_texts_are_forgotten_and_times_only_go_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.state.seen._MAX_POLICIES", 2)
    seen = SeenPolicies(tmp_path / "seen.db")
    assert await seen.policies() == ()
    for time, digest in enumerate(("a", "b", "a", "c")):
        await seen.policy(digest, {"f": {"said": digest}}, float(time))
    assert [(one.digest, one.first, one.last) for one in await seen.policies()] == [("c", 3, 3), ("a", 0, 2)]
    assert await seen.files("a") == {"f": {"said": "a"}}
    assert await seen.files("b") is None
    await seen.used({"k"}, 5.0)
    await seen.used({"k"}, 4.0)
    assert await seen.uses() == {"k": 5.0}
    await seen.close()
