"""What doctor tries is really tried: it passes on a sound project, and each trial fails where what it tries would succeed."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.audit.drawn_logs import calls
from tests.connectors.http.oauth.test_rotation import keep
from tests.messages import line_names
from tests.projects import POLICY, make_project
from toolgen.audit.verify import verify
from toolgen.cli import main
from toolgen.cli.doctor import _print
from toolgen.frontends.python.gateway import Gateway
from toolgen.quality.doctor.examination import examine, run_trials
from toolgen.quality.doctor.trial import Trial

NAMES = {
    *(
        "denied call",
        "visible but denied call",
        "hidden tool",
        "SQL",
        "SQL rows",
        "redaction",
        "sensitive arguments",
        "limit",
    ),
    *("bad key", "forged token", "expired token", "special address", "IPv4-mapped address", "link-local address"),
    *(
        "private address",
        "loopback address",
        "public address",
        "dialled address",
        "redirect",
        "redirect to another origin",
    ),
    *(
        "CSRF",
        "fsync",
        "tampered audit copy",
        "approval",
        "pause",
        "turn limit",
        "repeated call",
        "record before the act",
    ),
}


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

    assert [f"{trial.name}: {trial.detail}" for trial in found.values() if not trial.ok] == []
    assert found.keys() >= NAMES
    (row,) = calls(root / "var" / "audit")
    assert (row["principal"], row["status"], row["verdict"]) == ("toolgen-doctor", "refused", "deny")
    assert verify(root / "var" / "audit").ok


def test_a_policy_that_opens_a_private_place_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path / "p", monkeypatch, egress={"allow": ["localhost:9"]})

    found = trials(root)

    assert found["link-local address"].ok
    assert not found["loopback address"].ok
    assert "was not refused" in found["loopback address"].detail


def test_private_networks_that_the_policy_opens_are_no_fault_and_link_local_stays_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trials(project(tmp_path / "p", monkeypatch, egress={"private_networks": "allow"}))

    assert [name for name, trial in found.items() if not trial.ok] == []


def test_projects_with_kept_answers_fallbacks_and_pages_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "p", monkeypatch)
    path, pets = root / "toolgen.yaml", root / "specs" / "pets.json"
    described = json.loads(pets.read_text())
    for name in ("listPets", "allPets"):
        integer = {"in": "query", "schema": {"type": "integer"}}
        described["paths"][f"/{name}"] = {
            "get": {
                "operationId": name,
                "parameters": [{**integer, "name": "limit"}, {**integer, "name": "offset"}],
                "responses": {"200": {"description": "ok"}},
            }
        }
    pets.write_text(json.dumps(described))
    paged = {"offset": "offset", "size": "limit"}
    tools = {"pets__list_pets": {"cache": "60s", "fallback": "pets__all_pets", "pages": paged}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "tools": tools}))

    found = trials(root)

    assert [f"{trial.name}: {trial.detail}" for trial in found.values() if not trial.ok] == []


def test_nothing_is_needed_but_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a network namespace that has nothing else: whatever was dialled elsewhere would fail otherwise than it must."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rn", "true"], check=False).returncode != 0:
        pytest.skip("needs unshare, and the right to make a network namespace")
    root = project(tmp_path / "p", monkeypatch)
    doctor = shlex.join([sys.executable, "-m", "toolgen", "doctor", "--json", "--config", str(root / "toolgen.yaml")])
    ended = subprocess.run(
        ["unshare", "-rn", "sh", "-c", f"ip link set lo up && exec {doctor}"],
        capture_output=True,
        check=False,
        timeout=300,
    )

    report = json.loads(ended.stdout)
    assert [trial for trial in report["trials"] if not trial["ok"]] == []


def test_a_policy_that_allows_the_principal_of_the_trial_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [{"id": "all", "to": ["toolgen-doctor"], "tools": ["*"], "verdict": "allow"}]
    root = project(
        tmp_path / "p",
        monkeypatch,
        principals={"bot": {"roles": ["toolgen-doctor", "bot"]}},
        rules=rules,
    )

    found = trials(root)

    assert [name for name, trial in found.items() if not trial.ok] == ["denied call"]


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
    assert line_names(out, "FAILED: tampered audit copy: ", "log itself")


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
    assert "no such database" in database["unread"]


def test_references_that_lead_nowhere_are_said_by_name_and_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"to": ["bot"], "source": "pets", "use": {"key": "${env:TEST_ELSEWHERE}"}}
    root = project(tmp_path / "p", monkeypatch, credentials=[given])
    monkeypatch.setenv("TEST_ELSEWHERE", "canary-7f3b")
    asyncio.run(keep(root / "var" / "state" / "oauth", "pets", "canary-7f3b", "canary-next", 86_400))
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
        assert line_names(shown, "ok: pets: login.example.com ", "refresh token")
        assert report.to_dict()["rotated"] == [
            {"source": "pets", "host": "login.example.com", "at": "1970-01-02T00:00:00.000000Z"}
        ]
        assert "canary" not in shown
        assert "canary" not in json.dumps(report.to_dict())
        assert [one.fault == "" for one in report.references] == [True, not name]
