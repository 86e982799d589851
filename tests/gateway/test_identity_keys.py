"""Keys that are given out and revoked while gateways run: in force within a second, in every process, and nowhere written down."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import patient
from tests.cli.commands import Run
from tests.gateway.clients import bearer
from tests.gateway.issuer import AUDIENCE, ISSUER, provider, token
from tests.messages import line_names
from tests.projects import KEY, POLICY, make_project
from toolgen.policy import key_list
from toolgen.policy.key_list import editing

HASH = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    return tmp_path


def listed(toolgen: Run) -> list[dict[str, str]]:
    found: list[dict[str, str]] = toolgen("keys", "list", "--json").json()["keys"]
    return found


@contextlib.contextmanager
def gateways(root: Path, count: int) -> Iterator[list[str]]:
    """As many real gateways over one project; their URLs."""
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    started, urls = [], []
    try:
        for _ in range(count):
            process = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)
            started.append(process)
            assert process.stderr is not None
            urls.append(process.stderr.readline().split()[-1])
        yield urls
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.communicate(timeout=120)


def follows(urls: list[str], credential: str, status: int, seconds: float = 120) -> None:
    """Waits until every gateway answers this credential so."""
    deadline = time.monotonic() + seconds
    for url in urls:
        while patient.get(f"{url}/v1/tools", headers=bearer(credential)).status_code != status:
            assert time.monotonic() < deadline, f"{url} does not answer {status}"
            time.sleep(0.05)


def test_two_gateways_follow_what_is_given_out_and_revoked(project: Path, toolgen: Run) -> None:
    with provider() as keys:
        rule = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": keys.url}
        policy = {**POLICY, "issuers": {"staff": {"jwt": rule, "roles": ["bot"]}}}
        (project / "policies" / "policy.yaml").write_text(json.dumps(policy))
        with gateways(project, 2) as urls:
            made = toolgen("keys", "new", "bot", "--expires", "90d", "--json").json()
            follows(urls, made["key"], 200)
            assert toolgen("keys", "revoke", made["id"]).code == 0
            follows(urls, made["key"], 401)
            follows(urls, KEY, 200)
            assert toolgen("keys", "revoke", "--all", "bot").code == 0
            follows(urls, KEY, 401)

            bad = token(jti="stolen")
            good = token(jti="kept")
            follows(urls, bad, 200)
            assert toolgen("keys", "revoke", "--jwt-id", "stolen").code == 0
            follows(urls, bad, 401)
            follows(urls, good, 200)
            (project / "policies" / "policy.yaml").write_text("principals: {")
            assert "invalid" in toolgen("keys", "revoke", "--subject", "ann").err
            follows(urls, good, 401)  # a broken edit beside it does not hold a revocation up
            follows(urls, "reviewer-key", 200)
    written = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    for secret in (made["key"], KEY, bad, good, bad.split(".")[1]):
        assert secret.encode() not in written


def test_a_malformed_list_keeps_the_old_one_in_force_and_is_not_overwritten(project: Path, toolgen: Run) -> None:
    made = toolgen("keys", "new", "bot", "--json").json()
    path = project / "policies" / "keys.yaml"
    with gateways(project, 1) as urls:
        follows(urls, made["key"], 200)
        path.write_text("keys: [{principal: bot, hash: nonsense}]\n")
        deadline = time.monotonic() + 120
        while "warnings" not in (ready := patient.get(f"{urls[0]}/readyz", headers=bearer(made["key"])).json()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "policies/keys.yaml:1: hash: must be sha256:" in ready["warnings"][0]
        follows(urls, made["key"], 200)
    refused = toolgen("keys", "new", "bot")
    assert (refused.code, refused.out) == (1, "")
    assert "policies/keys.yaml:1" in refused.err
    assert path.read_text() == "keys: [{principal: bot, hash: nonsense}]\n"


def test_a_new_key_is_shown_once_and_only_its_hash_is_kept(project: Path, toolgen: Run) -> None:
    made = toolgen("keys", "new", "bot", "--expires", "2099-01-31")
    key = made.out.strip()
    assert key.startswith("tgk_")
    assert len(key) == 4 + 43
    path = project / "policies" / "keys.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key not in path.read_text() + made.err
    digest = hashlib.sha256(key.encode()).hexdigest()
    (row,) = [row for row in listed(toolgen) if row["id"] == digest[:12]]
    assert (row["principal"], row["expires"], row["state"]) == ("bot", "2099-01-31T00:00:00Z", "accepted")
    shown = toolgen("keys", "list")
    assert digest not in shown.out
    assert digest[:12] in shown.out
    assert toolgen("policy", "check").code == 0


def test_the_list_keeps_its_mode_and_survives_many_writers(project: Path, toolgen: Run) -> None:
    toolgen("keys", "new", "bot")
    path = project / "policies" / "keys.yaml"
    path.chmod(0o640)

    def add(number: int) -> None:
        with editing(project / "policies") as found:
            found.keys.append({"principal": "bot", "hash": f"sha256:{number:064x}"})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len([row for row in listed(toolgen) if row["where"].startswith("policies/keys.yaml")]) == 41
    assert sorted(os.listdir(project / "policies")) == ["keys.yaml", "policy.yaml"]


def test_a_key_that_a_person_wrote_is_revoked_too(project: Path, toolgen: Run) -> None:
    toolgen("keys", "revoke", HASH[7:19])
    assert [row["state"] for row in listed(toolgen) if row["principal"] == "bot"] == ["revoked"]
    assert toolgen("keys", "revoke", HASH[7:19]).code == 0  # again is no error
    assert (project / "policies" / "keys.yaml").read_text().count("key:") == 1


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("new", "bto"), "no principal 'bto' (did you mean 'bot'?)", 1),
        (("new", "bot", "--expires", "soon"), "neither a time", 2),
        (("new", "bot", "--expires", "2020-01-01"), "in the past", 2),
        (("new", "bot", "--expires", "9999-12-31T23:59:59-23:59"), "neither a time", 2),
        (("revoke",), "name a key by its id", 2),
        (("revoke", "abcdef", "--all", "bot"), "name a key by its id", 2),
        (("revoke", "abc"), "at least 6", 2),
        (("revoke", "abcdef' OR"), "at least 6", 2),
        (("revoke", "abcdef"), "no key's hash begins with abcdef", 1),
        (("revoke", "--all", "nobody"), "'nobody' has no key", 1),
        (("revoke", "--before", "yesterday"), "neither a time", 2),
    ],
)
def test_a_mistake_changes_nothing(
    project: Path, toolgen: Run, arguments: tuple[str, ...], message: str, code: int
) -> None:
    done = toolgen("keys", *arguments)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert not (project / "policies" / "keys.yaml").exists()


def test_an_id_that_two_keys_share_is_not_enough(project: Path, toolgen: Run) -> None:
    with editing(project / "policies") as found:
        found.keys += [{"principal": "bot", "hash": "sha256:" + "a" * 63 + end} for end in "01"]
    assert line_names(toolgen("keys", "revoke", "aaaaaa").err, "2 keys", " aaaaaa")
    assert toolgen("keys", "revoke", "a" * 63 + "1").code == 0
    assert sum(row["id"] == "a" * 12 for row in listed(toolgen)) == 1


def test_keys_of_a_principal_that_is_gone_are_an_error_that_says_what_to_do(project: Path, toolgen: Run) -> None:
    toolgen("keys", "new", "reviewer")
    without = {**POLICY, "principals": {name: POLICY["principals"][name] for name in ("bot", "ann")}}
    (project / "policies" / "policy.yaml").write_text(json.dumps(without))
    checked = toolgen("policy", "check")
    assert line_names(checked.err, "policies/keys.yaml:3: ", "no principal 'reviewer'")
    assert line_names(checked.err, "toolgen keys revoke", "--all reviewer")
    assert toolgen("keys", "revoke", "--all", "reviewer").code == 0
    assert toolgen("policy", "check").code == 0


def test_a_list_that_cannot_be_written_says_so(project: Path, toolgen: Run) -> None:
    (project / "policies" / "keys.yaml").mkdir()
    assert toolgen("keys", "new", "bot").code == 1


def test_a_list_that_is_full_is_followed_by_another(
    project: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_list, "_FULL", 300)
    made = [toolgen("keys", "new", "bot").out.strip() for _ in range(5)]
    folder = project / "policies"
    assert sorted(path.name for path in folder.glob("keys*")) == ["keys-2.yaml", "keys-3.yaml", "keys.yaml"]
    assert len([row for row in listed(toolgen) if row["principal"] == "bot"]) == 6
    (folder / "policy.yaml").rename(project / "policy.yaml")
    (folder / "policy.yaml").write_text("rules: [")
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in made]
    assert key_list._listed(folder) == frozenset(digests)  # none is taken for one that is gone
    (project / "policy.yaml").replace(folder / "policy.yaml")
    assert "revoked 1 key" in toolgen("keys", "revoke", digests[4][:12]).out
    assert key_list._listed(folder) == frozenset(digests[:4])
    toolgen("keys", "revoke", "--all", "bot")
    assert key_list._listed(folder) == frozenset()


def test_a_list_that_could_not_be_read_again_is_not_written(
    project: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolgen("keys", "new", "bot")
    before = (project / "policies" / "keys.yaml").read_bytes()
    monkeypatch.setattr(key_list, "MAX_FILE_SIZE", len(before) + 20)
    refused = toolgen("keys", "new", "bot")
    assert (refused.code, refused.out) == (1, "")
    assert line_names(refused.err, "keys.yaml", "larger than")
    assert (project / "policies" / "keys.yaml").read_bytes() == before
    # A revocation is written all the same: in a file of its own.
    assert toolgen("keys", "revoke", "--jwt-id", "x" * 40).code == 0
    assert [path.name for path in (project / "policies").glob("revoked-*")] != []
