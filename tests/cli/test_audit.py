"""`toolgen audit verify`, `prove`, `keys` and `find`, as a reviewer uses them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.messages import line_names
from tests.projects import POLICY, make_project
from toolgen.cli.main import cli


def run(*arguments: str, text: str | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments, input=text, catch_exceptions=False)
    return done.exit_code, done.output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    root = tmp_path / "project"
    make_project(root, policy={**POLICY, "sensitive": ["$.sql"]})
    monkeypatch.chdir(root)
    return root


def call(sql: str = "SELECT 1") -> None:
    assert run("call", "shop__query", f"sql={sql}", "--as", "bot")[0] == 0


def test_keys_are_made_listed_and_replaced(project: Path) -> None:
    assert "no key" in run("audit", "keys", "list")[1]
    assert json.loads(run("audit", "keys", "list", "--json")[1]) == []
    first = json.loads(run("audit", "keys", "new", "--json")[1])
    assert Path(first["private"]).stat().st_mode & 0o777 == 0o600
    second = json.loads(run("audit", "keys", "new", "--json")[1])
    listed = {row["key"]: row["signs"] for row in json.loads(run("audit", "keys", "list", "--json")[1])}
    assert listed == {first["key"]: False, second["key"]: True}


def test_a_tail_that_was_cut_off_is_told(project: Path) -> None:
    run("audit", "keys", "new")
    call()
    call()
    code, text = run("audit", "verify")
    assert (code, text.splitlines()[-1]) == (0, "4 entries in 1 stream(s): intact")
    assert "signed 4 entries at" in text
    path = project / "var" / "audit" / "gateway-1.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    code, text = run("audit", "verify")
    assert code == 1
    assert line_names(text, "gateway-1.jsonl: entry 2: truncated: ", "had 4 entries")


def test_checkpoints_that_were_kept_and_keys_that_were_given_count(project: Path, tmp_path: Path) -> None:
    public = json.loads(run("audit", "keys", "new", "--json")[1])["public"]
    call()
    audit = project / "var" / "audit"
    kept = tmp_path / "kept.checkpoints"
    shutil.copyfile(audit / "gateway-1.checkpoints", kept)
    (audit / "gateway-1.checkpoints").unlink()
    (audit / "gateway-1.jsonl").write_bytes(b"")
    assert run("audit", "verify")[0] == 0
    code, text = run("audit", "verify", "--checkpoints", str(kept), "--key", public)
    assert (code, "truncated" in text) == (1, True)


def test_an_entry_is_proven_to_somebody_who_has_nothing_but_the_key(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = json.loads(run("audit", "keys", "new", "--json")[1])["public"]
    call()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(public, elsewhere / "them.pub")
    assert run("audit", "prove", "1", "-o", str(elsewhere / "proof.json"))[0] == 0
    monkeypatch.chdir(elsewhere)
    code, text = run("audit", "verify", "proof.json", "--key", "them.pub")
    assert code == 0
    # the earliest checkpoint proves it: on a busy machine one may be due between the intent and the outcome
    assert re.search(r"proven: entry 1 .* [12] entries .*gateway-1", text)
    proof = json.loads(Path("proof.json").read_text(encoding="utf-8"))
    proof["entry"]["principal"] = "eve"
    Path("proof.json").write_text(json.dumps(proof), encoding="utf-8")
    done = CliRunner().invoke(cli, ["audit", "verify", "proof.json", "--key", "them.pub"])
    assert "was edited" in str(done.exception)


def test_a_value_is_looked_up_without_naming_it_on_the_command_line(project: Path) -> None:
    call("SELECT 1")
    call("SELECT 2")
    assert b"SELECT 1" not in (project / "var" / "audit" / "gateway-1.jsonl").read_bytes().replace(
        b'"sql":"SELECT', b""
    )
    found = json.loads(run("audit", "find", "--json", text="SELECT 1\n")[1])
    assert [entry["seq"] for entry in found] == [1]
    assert json.loads(run("audit", "find", "--json", "--value", "SELECT 2")[1])[0]["seq"] == 3
    assert run("audit", "find", "--json", text="SELECT 3")[0] == 1
    code, text = run("audit", "find", text="SELECT 3")
    assert (code, "no entry" in text) == (1, True)


def test_what_stands_in_a_log_is_not_sent_to_the_terminal_raw(project: Path) -> None:
    audit = project / "var" / "audit"
    call()
    path = audit / "gateway-1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":1,"prev":"","hash":"","stream":"\\u001b[31m"}\n')
    (audit / "gateway-\x1b[2J.jsonl").write_bytes(b"x\n")
    _, text = run("audit", "verify")
    assert "\x1b" not in text
