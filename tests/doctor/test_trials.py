"""What doctor tries is really tried: it passes on a sound project, and each trial fails where what it tries would succeed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects import POLICY, make_project
from toolgen.audit.query import calls
from toolgen.audit.verify import verify
from toolgen.cli import main
from toolgen.cli.doctor import _print
from toolgen.doctor.examine import examine
from toolgen.doctor.trials import Trial, run_trials
from toolgen.gateway.service import Gateway


def trials(root: Path) -> dict[str, Trial]:
    return {trial.name: trial for trial in asyncio.run(run_trials(Gateway.load(root / "toolgen.yaml")))}


def project(root: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
    make_project(root, policy={**POLICY, **changes})
    return root


def test_a_sound_project_passes_and_the_refused_call_is_in_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "p", monkeypatch, egress={})

    found = trials(root)

    assert {name: trial.ok for name, trial in found.items()} == {
        "denied call": True,
        "link-local fetch": True,
        "loopback fetch": True,
        "tampered audit copy": True,
    }
    (row,) = calls(root / "var" / "audit")
    assert (row["principal"], row["status"], row["verdict"]) == ("toolgen-doctor", "refused", "deny")
    assert verify(root / "var" / "audit").ok


def test_a_policy_that_opens_a_private_place_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is made then, and nobody listens there."""
    root = project(tmp_path / "p", monkeypatch, egress={"allow": ["localhost:9"]})

    found = trials(root)

    assert found["link-local fetch"].ok
    assert not found["loopback fetch"].ok
    assert "was not refused" in found["loopback fetch"].detail


def test_open_private_networks_are_not_tried_and_link_local_stays_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trials(project(tmp_path / "p", monkeypatch, egress={"private_networks": "allow"}))

    assert "loopback fetch" not in found
    assert found["link-local fetch"].ok


def test_a_policy_that_allows_the_principal_of_the_trial_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [{"id": "all", "to": ["toolgen-doctor"], "tools": ["*"], "verdict": "allow"}]
    root = project(
        tmp_path / "p",
        monkeypatch,
        principals={"bot": {"roles": ["toolgen-doctor", "bot"]}},
        rules=rules,
    )

    found = trials(root)

    assert not found["denied call"].ok
    assert not found["tampered audit copy"].ok


def test_a_log_that_is_broken_already_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = project(tmp_path / "p", monkeypatch)
    trials(root)
    log = root / "var" / "audit" / "gateway-1.jsonl"
    (log.parent / "gateway-2.jsonl").write_bytes(log.read_bytes().replace(b"toolgen-doctor", b"somebody--else"))

    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--config", str(root / "toolgen.yaml")])

    assert ended.value.code == 1
    out = capfdbinary.readouterr().out.decode()
    assert "FAILED: tampered audit copy: the log itself is broken" in out


def test_a_file_has_no_account_and_says_who_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = project(tmp_path / "p", monkeypatch)

    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--config", str(root / "toolgen.yaml")])

    report = json.loads(capfdbinary.readouterr().out)
    assert ended.value.code == 0
    (database,) = report["databases"]
    assert [finding["code"] for finding in database["findings"]] == ["file-writable", "folder-writable"]
    assert {finding["level"] for finding in database["findings"]} == {"note"}


def test_a_database_that_is_not_there_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = project(tmp_path / "p", monkeypatch)
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        main(["build"])
    (root / "specs" / "shop.db").unlink()

    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])

    assert ended.value.code == 1
    raw = capfdbinary.readouterr().out
    (database,) = json.loads(raw[raw.index(b'{\n  "ok"') :])["databases"]
    assert "there is no such database file" in database["unread"]


def test_references_that_lead_nowhere_are_said_by_name_and_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"to": ["bot"], "source": "pets", "use": {"key": "${env:TEST_ELSEWHERE}"}}
    root = project(tmp_path / "p", monkeypatch, credentials=[given])
    monkeypatch.setenv("TEST_ELSEWHERE", "canary-7f3b")
    for name, said in (
        ("", "ok: all 2 references"),
        ("TEST_ELSEWHERE", "note: credentials[0].use.key: the environment"),
    ):
        if name:
            monkeypatch.delenv(name)
        report = asyncio.run(examine(Gateway.load(root / "toolgen.yaml")))
        _print(report)
        shown = capsys.readouterr().out
        assert said in shown
        assert "canary" not in shown
        assert "canary" not in json.dumps(report.to_dict())
        assert [one.fault == "" for one in report.references] == [True, not name]
