"""The command line: what it prints, its exit codes, and one clear sentence for every mistake."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Run
from tests.messages import line_names
from tests.projects import POLICY, make_project
from toolgen.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    make_project(root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
    return root


def test_build_writes_what_check_then_accepts(project: Path, toolgen: Run) -> None:
    built = toolgen("build")
    assert built.code == 0
    assert re.search(r"pets +2 +2 +0 +0", built.out)
    assert sorted(path.name for path in (project / "generated").iterdir()) == [
        "anthropic.json",
        "manifest.json",
        "mcp.json",
        "openai.json",
    ]
    assert "up to date" in toolgen("build").out
    assert toolgen("build", "--check").code == 0


def test_check_fails_on_drift_and_writes_nothing(project: Path, toolgen: Run) -> None:
    toolgen("build")
    before = (project / "generated" / "manifest.json").read_bytes()
    spec = project / "specs" / "pets.json"
    spec.write_text(spec.read_text(encoding="utf-8").replace("Get a pet", "Fetch a pet"), encoding="utf-8")
    checked = toolgen("build", "--check")
    assert checked.code == 1
    assert "generated/ differs" in checked.err
    assert (project / "generated" / "manifest.json").read_bytes() == before


def test_check_compares_with_the_lock_where_a_clone_has_no_generated_folder(project: Path, toolgen: Run) -> None:
    toolgen("build")
    shutil.rmtree(project / "generated")
    checked = toolgen("build", "--check")
    assert (checked.code, line_names(checked.err, "generated/", "compared with toolgen.lock")) == (0, True)
    assert not (project / "generated").exists()
    spec = project / "specs" / "pets.json"
    spec.write_text(spec.read_text(encoding="utf-8").replace("Get a pet", "Fetch a pet"), encoding="utf-8")
    checked = toolgen("build", "--check")
    assert checked.code == 1
    assert checked.err.splitlines()[-1].startswith("toolgen: toolgen.lock differs")
    (project / "toolgen.lock").unlink()
    assert toolgen("build", "--check").code == 1


def test_build_needs_no_project(tmp_path: Path, project: Path, toolgen: Run) -> None:
    out = tmp_path / "out"
    built = toolgen("build", "specs/pets.json", "sqlite:///specs/shop.db", "-o", str(out), "--json", "--format", "mcp")
    assert built.code == 0
    assert [row["tools"] for row in built.json()["sources"]] == [2, 4]
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "mcp.json"]
    assert [tool["name"] for tool in toolgen("tools", "--manifest", str(out), "--json").json()][:2] == [
        "pets__delete_pet",
        "pets__get_pet",
    ]


def test_tools_shows_a_principal_only_what_it_may_call(project: Path, toolgen: Run) -> None:
    assert {tool["name"] for tool in toolgen("tools", "--json").json()} >= {"pets__delete_pet", "pets__get_pet"}
    mine = {tool["name"] for tool in toolgen("tools", "--as", "ann", "--json").json()}
    assert mine == {"pets__get_pet"}
    assert [tool["name"] for tool in toolgen("tools", "--as", "ann", "--format", "mcp").json()["tools"]] == [
        "pets__get_pet"
    ]
    manifest = toolgen("tools", "--format", "manifest").json()
    assert manifest["format"] == 1


def test_call_prints_data_and_json_the_envelope(project: Path, toolgen: Run) -> None:
    sql = "sql=SELECT name FROM customers ORDER BY id"
    plain = toolgen("call", "shop__query", sql, "--as", "bot")
    assert (plain.code, plain.json()["rows"]) == (0, [["Ada"], ["Ben"]])
    envelope = toolgen("call", "shop__query", sql, "--as", "bot", "--json").json()
    assert (envelope["status"], envelope["tool"], envelope["meta"]["audit_seq"]) == ("ok", "shop__query", 4)
    given = toolgen("call", "shop__query", "--args", '{"sql": "SELECT ?", "parameters": [5]}', "--as", "bot")
    assert given.json()["rows"] == [[5]]


def test_a_refused_call_exits_1_and_says_why(project: Path, toolgen: Run) -> None:
    refused = toolgen("call", "shop__query", "sql=SELECT email FROM customers", "--as", "bot")
    assert refused.code == 1
    assert refused.out == ""
    assert refused.err.startswith("refused: sql_refused: ")
    assert "available: id, name" in refused.err
    envelope = toolgen("call", "pets__delete_pet", "petId=1", "--as", "bot", "--json").json()
    assert (envelope["status"], envelope["error"]["code"]) == ("refused", "unknown_tool")


def test_a_dry_run_masks_secrets_and_leaves_no_trace(project: Path, toolgen: Run) -> None:
    sent = toolgen("call", "pets__get_pet", "petId=5", "--as", "bot", "--dry-run")
    assert sent.code == 0
    assert (sent.json()["method"], sent.json()["url"]) == ("GET", "http://127.0.0.1:9/pets/5")
    assert ["X-Key", "***"] in sent.json()["headers"]
    assert "canary-7f3a" not in sent.out + sent.err
    sql = toolgen("call", "shop__query", "sql=SELECT * FROM customers", "--as", "bot", "--dry-run", "--json").json()
    assert set(sql) == {"sql", "parameters"}
    assert not (project / "var").exists()


def test_acting_for_somebody_needs_the_policys_word_and_both_rights(project: Path, toolgen: Run) -> None:
    both = toolgen("call", "shop__query", "sql=SELECT 1", "--as", "bot", "--on-behalf-of", "ann", "--json").json()
    assert both["error"]["code"] == "unknown_tool"
    toolgen("call", "pets__get_pet", "petId=5", "--as", "bot", "--on-behalf-of", "ann")
    listed = toolgen("audit", "list", "--json").json()
    assert [(row["principal"], row["on_behalf_of"]) for row in listed] == [("bot", "ann"), ("bot", "ann")]
    stranger = toolgen("call", "pets__get_pet", "petId=5", "--as", "ann", "--on-behalf-of", "bot")
    assert (stranger.code, line_names(stranger.err, "policy", "ann", "'bot'")) == (1, True)


def test_the_audit_lists_shows_and_verifies_what_was_called(project: Path, toolgen: Run) -> None:
    toolgen("call", "shop__query", "sql=SELECT 1", "--as", "bot")
    toolgen("call", "shop__query", "sql=DROP TABLE customers", "--as", "bot")
    listed = toolgen("audit", "list", "--json").json()
    assert [(row["status"], row.get("code")) for row in listed] == [("ok", None), ("refused", "sql_refused")]
    assert len(toolgen("audit", "list", "--status", "ok").out.splitlines()) == 2
    shown = toolgen("audit", "show", "1", "--json").json()
    assert (shown["event"], shown["arguments"]) == ("intent", {"sql": "SELECT 1"})
    no_key, no_checkpoint, verdict = toolgen("audit", "verify").out.splitlines()
    assert line_names(no_key, "not checked: ", "public key")
    assert line_names(no_checkpoint, "not checked: gateway-1 ", "no trusted checkpoint")
    assert verdict == "4 entries in 1 stream(s): intact"
    log = project / "var" / "audit" / "gateway-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"SELECT 1", b"SELECT 2", 1))
    broken = toolgen("audit", "verify", "--json")
    assert broken.code == 1
    assert broken.json()["faults"][0]["kind"] == "edited"


def test_policy_check_runs_the_tests_of_the_files(project: Path, toolgen: Run) -> None:
    tests = [{"as": "bot", "call": "pets__delete_pet", "expect": "allow"}]
    (project / "policies" / "more.yaml").write_text(json.dumps({"tests": tests}), encoding="utf-8")
    failed = toolgen("policy", "check")
    assert failed.code == 1
    assert line_names(
        failed.out, "policies/more.yaml:1: ", "bot calling pets__delete_pet", "deny by default", "not allow"
    )
    (project / "policies" / "more.yaml").unlink()
    assert toolgen("policy", "check", "--json").json()["ok"] is True


def test_policy_check_advises_and_does_not_fail(project: Path, toolgen: Run) -> None:
    rule = {"id": "x", "to": ["bot"], "tools": ["pets__get_pet"], "verdict": "allow", "when": "false"}
    (project / "policies" / "more.yaml").write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
    checked = toolgen("policy", "check")
    assert checked.code == 0
    assert line_names(checked.err, "advice: policies/more.yaml:1: rule x ", "always false")
    (advice,) = toolgen("policy", "check", "--json").json()["advice"]
    assert (advice["code"], advice["where"]) == ("never_speaks", "policies/more.yaml:1")


def build() -> None:
    with pytest.raises(SystemExit):
        main(["build"])


def break_yaml(project: Path) -> tuple[str, ...]:
    (project / "toolgen.yaml").write_text("sources:\n  pets: {opnapi: x}\n", encoding="utf-8")
    return ("build",)


def break_description(project: Path) -> tuple[str, ...]:
    (project / "specs" / "pets.json").write_text("<html><body>404</body></html>", encoding="utf-8")
    return ("build",)


def lose_description(project: Path) -> tuple[str, ...]:
    (project / "specs" / "pets.json").unlink()
    return ("build",)


def break_policy(project: Path) -> tuple[str, ...]:
    (project / "policies" / "policy.yaml").write_text("ruls: []\n", encoding="utf-8")
    return ("policy", "check")


def lose_policy(project: Path) -> tuple[str, ...]:
    (project / "policies" / "policy.yaml").unlink()
    return ("serve", "--port", "0")


def break_generated(project: Path) -> tuple[str, ...]:
    build()
    path = project / "generated" / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    return ("serve", "--port", "0")


def edit_generated(project: Path) -> tuple[str, ...]:
    build()
    path = project / "generated" / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"destructive"', '"read"'), encoding="utf-8")
    return ("tools",)


def stale_generated(project: Path) -> tuple[str, ...]:
    build()
    text = (project / "toolgen.yaml").read_text(encoding="utf-8")
    (project / "toolgen.yaml").write_text(text.replace('"shop"', '"store"'), encoding="utf-8")
    return ("tools",)


def misname_scheme(project: Path) -> tuple[str, ...]:
    text = (project / "toolgen.yaml").read_text(encoding="utf-8")
    (project / "toolgen.yaml").write_text(text.replace('"key":', '"kye":'), encoding="utf-8")
    return ("serve", "--port", "0")


def change_server(project: Path) -> tuple[str, ...]:
    build()
    text = (project / "toolgen.yaml").read_text(encoding="utf-8")
    (project / "toolgen.yaml").write_text(text.replace("127.0.0.1:9", "127.0.0.1:10"), encoding="utf-8")
    return ("serve", "--port", "0")


def take_port(project: Path) -> tuple[str, ...]:
    listener = socket.create_server(("127.0.0.1", 0))
    TAKEN.append(listener)
    return ("serve", "--port", str(listener.getsockname()[1]))


def block_audit(project: Path) -> tuple[str, ...]:
    (project / "var").write_text("in the way", encoding="utf-8")
    return ("call", "shop__query", "sql=SELECT 1", "--as", "bot")


def ask_for_nobody(project: Path) -> tuple[str, ...]:
    return ("call", "shop__query", "sql=SELECT 1", "--as", "bott")


def ask_for_everybody(project: Path) -> tuple[str, ...]:
    return ("call", "shop__query", "sql=SELECT 1")


TAKEN: list[socket.socket] = []
MISTAKES = [
    (break_yaml, r"toolgen\.yaml:2: unknown key 'opnapi' in sources\.pets \(did you mean 'openapi'\?\)"),
    (break_description, r"pets\.json:1: .*HTML"),
    (lose_description, r"pets\.json: .*"),
    (break_policy, r"policies/policy\.yaml:1: unknown key 'ruls' in the file \(did you mean 'rules'\?\)"),
    (lose_policy, r"policies/: contains no policy"),
    (break_generated, r"generated/manifest\.json: is not a manifest: .* \(run `toolgen build` to write it again\)"),
    (edit_generated, r"generated/manifest\.json: tool pets__delete_pet was changed after the build"),
    (stale_generated, r"generated/manifest\.json: its sources are pets, shop, toolgen\.yaml has pets, store"),
    (
        misname_scheme,
        r"sources\.pets\.auth\.kye: the description has no security scheme 'kye' \(did you mean 'key'\?\)",
    ),
    (change_server, r"generated/manifest\.json: was built before the settings of pets"),
    (take_port, r"cannot listen on 127\.0\.0\.1 port \d+: the port is already in use"),
    (block_audit, r"the audit log cannot be written: Not a directory"),
    (ask_for_nobody, r"the policy has no principal 'bott' \(did you mean 'bot'\?\)"),
    (ask_for_everybody, r"name the principal with --as; the policy's principals are: ann, bot, reviewer"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_ends_in_one_sentence_and_exit_1(
    project: Path, toolgen: Run, mistake: Callable[[Path], tuple[str, ...]], message: str
) -> None:
    try:
        arguments = mistake(project)
        before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
        ended = toolgen(*arguments)
    finally:
        while TAKEN:
            TAKEN.pop().close()
    assert ended.code == 1
    assert re.fullmatch(rf"toolgen: .*{message}.*\n", ended.err), ended.err
    after = {path: path.read_bytes() for path in project.rglob("*") if path.is_file() and path.suffix != ".key"}
    assert after == before


def test_a_missing_secret_is_one_sentence_that_names_it(
    project: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_PETS_KEY")
    ended = toolgen("call", "pets__get_pet", "petId=5", "--as", "bot")
    assert ended.code == 1
    assert "secret_unavailable" in ended.err
    assert "TEST_PETS_KEY" in ended.err
    assert "sources.pets.auth in toolgen.yaml" in ended.err
    assert toolgen("audit", "list", "--json").json()[0]["code"] == "secret_unavailable"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("build", "--format", "soap"),
        ("call",),
        ("call", "t", "x"),
        ("call", "t", "--args", "{"),
        ("audit", "show"),
    ],
)
def test_misuse_exits_2(project: Path, toolgen: Run, arguments: tuple[str, ...]) -> None:
    assert toolgen(*arguments).code == 2


def test_tools_are_searched_for_in_words(project: Path, toolgen: Run) -> None:
    found = toolgen("tools", "--search", "remove a pet", "--json").json()
    assert found[0]["name"] == "pets__delete_pet"
    mine = toolgen("tools", "--as", "ann", "--search", "remove a pet", "--json").json()
    assert [tool["name"] for tool in mine] == ["pets__get_pet"]
    assert "pets__get_pet" in toolgen("tools", "--as", "bot", "--search", "pet").out
    assert toolgen("tools", "--search", "qqqq", "--json").json() == []
    assert toolgen("tools", "--search", "").code == 2
    assert toolgen("tools", "--search", "remove a pet " + "x" * 1001, "--json").json()[0]["name"] == "pets__delete_pet"


def test_tools_shows_what_stands_in_for_a_long_catalog_and_the_whole_when_asked(project: Path, toolgen: Run) -> None:
    path = project / "toolgen.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "gateway": {"search_above": 0}}), encoding="utf-8")
    listed = toolgen("tools", "--as", "ann", "--format", "openai").json()
    assert [tool["function"]["name"] for tool in listed] == ["describe_tool", "run_tool", "search_tools"]
    assert [tool["name"] for tool in toolgen("tools", "--as", "ann", "--all", "--json").json()] == ["pets__get_pet"]
    assert len(toolgen("tools", "--json").json()) > 3
    assert toolgen("tools", "--all").code == 2
    found = toolgen("call", "search_tools", "query=a pet", "--as", "ann").json()
    assert [tool["name"] for tool in found["tools"]] == ["pets__get_pet"]


def test_names_of_tools_and_principals_cannot_write_to_the_terminal(project: Path, toolgen: Run) -> None:
    toolgen("call", "evil\x1b[2J\n__tool", "--as", "bot")
    listed = toolgen("audit", "list")
    assert "\x1b" not in listed.out
    assert len(listed.out.splitlines()) == 2


def test_a_policy_that_allows_nothing_shows_nothing(project: Path, toolgen: Run) -> None:
    (project / "policies" / "policy.yaml").write_text(json.dumps({**POLICY, "rules": []}), encoding="utf-8")
    assert toolgen("tools", "--as", "bot", "--json").json() == []


def test_a_principal_and_a_bare_manifest_do_not_go_together(project: Path, toolgen: Run) -> None:
    toolgen("build")
    assert toolgen("tools", "--as", "bot", "--manifest", "generated").code == 2


@pytest.mark.parametrize("damage", ["{}", "", None])
def test_a_broken_catalog_is_repaired_by_what_the_error_advises(
    project: Path, toolgen: Run, damage: str | None
) -> None:
    toolgen("build")
    manifest = project / "generated" / "manifest.json"
    whole = manifest.read_bytes()
    if damage is None:
        manifest.unlink()
    else:
        manifest.write_text(damage, encoding="utf-8")
        assert "run `toolgen build`" in toolgen("tools").err
    assert toolgen("build").code == 0
    assert manifest.read_bytes() == whole
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "mcp.json").write_text("mine", encoding="utf-8")
    assert toolgen("build", "-o", "elsewhere").code == 1
    assert (project / "elsewhere" / "mcp.json").read_text(encoding="utf-8") == "mine"
