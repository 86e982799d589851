"""`toolgen install`: one entry in a client's own file, everything else as it was, and no key in it."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cli.commands import Run, runner
from tests.messages import line_names
from tests.projects import make_project
from toolgen.cli.clients import CLIENTS
from toolgen.cli.json_text import loads, put, removed
from toolgen.frontends.python.gateway import Gateway

USUAL = {
    "claude-code": ".mcp.json",
    "claude-desktop": "home/.config/Claude/claude_desktop_config.json",
    "cursor": "home/.cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": "home/.codex/config.toml",
    "gemini": "home/.gemini/settings.json",
    "mcp-json": "mcp.json",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "project" / "home"))
    for name in ("APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path / "project"


@pytest.fixture
def toolgen(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capfdbinary)


def servers(client: str, text: str) -> dict[str, Any]:
    whole: dict[str, Any] = tomllib.loads(text) if client == "codex" else json.loads(text)
    found: dict[str, Any] = whole[CLIENTS[client].section]
    return found


@pytest.mark.parametrize("client", USUAL)
def test_a_client_gets_an_absolute_command_in_its_usual_file(toolgen: Run, project: Path, client: str) -> None:
    done = toolgen("install", client, "--as", "bot")
    assert done.code == 0, done.err
    file = project / USUAL[client]
    entry = servers(client, file.read_text(encoding="utf-8"))["toolgen"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-8:] == [
        *("serve", "--stdio", "--as", "bot", "--client", client, "--config", str(project / "toolgen.yaml"))
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"next: restart {CLIENTS[client].title}" in done.err


@pytest.mark.parametrize("client", [name for name in USUAL if name != "claude-desktop"])
def test_a_gateway_that_runs_is_reached_with_a_key_by_reference(toolgen: Run, project: Path, client: str) -> None:
    assert toolgen("install", client, "--as", "bot", "--url", "http://127.0.0.1:8080/mcp").code == 0
    text = (project / USUAL[client]).read_text(encoding="utf-8")
    entry = servers(client, text)["toolgen"]
    assert entry.get("url", entry.get("httpUrl")) == "http://127.0.0.1:8080/mcp"
    assert "tgk_" not in text
    shown = entry.get("bearer_token_env_var") or entry["headers"]["Authorization"]
    assert (
        shown
        == {
            "claude-code": "Bearer ${TOOLGEN_KEY}",
            "cursor": "Bearer ${env:TOOLGEN_KEY}",
            "vscode": "Bearer ${input:toolgen-key}",
            "codex": "TOOLGEN_KEY",
            "gemini": "Bearer $TOOLGEN_KEY",
            "mcp-json": "Bearer ${TOOLGEN_KEY}",
        }[client]
    )


def test_vs_code_asks_for_the_key_once(toolgen: Run, project: Path) -> None:
    for _ in range(2):
        toolgen("install", "vscode", "--as", "bot", "--url", "http://127.0.0.1:8080")
    whole = json.loads((project / ".vscode" / "mcp.json").read_text())
    (asked,) = whole["inputs"]
    assert (asked["id"], asked["password"]) == ("toolgen-key", True)
    toolgen("install", "vscode", "--uninstall")
    assert json.loads((project / ".vscode" / "mcp.json").read_text()) == {"servers": {}, "inputs": []}


def test_secrets_of_the_project_go_by_reference(toolgen: Run, project: Path) -> None:
    toolgen("install", "claude-code", "--as", "bot")
    entry = servers("claude-code", (project / ".mcp.json").read_text())["toolgen"]
    assert entry["env"] == {"TEST_PETS_KEY": "${TEST_PETS_KEY}"}


def test_other_entries_stay_and_the_old_file_is_kept(toolgen: Run, project: Path) -> None:
    file = project / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True)
    before = {"theme": "dark", "mcpServers": {"other": {"command": "x", "args": ["é"]}}}
    file.write_text(json.dumps(before), encoding="utf-8")
    file.chmod(0o640)
    assert toolgen("install", "cursor", "--as", "bot").code == 0
    after = json.loads(file.read_text(encoding="utf-8"))
    assert after["theme"] == "dark"
    assert after["mcpServers"].pop("toolgen")
    assert after["mcpServers"] == before["mcpServers"]
    (backup,) = file.parent.glob("mcp.json.*.bak")
    assert json.loads(backup.read_text(encoding="utf-8")) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert toolgen("install", "cursor", "--uninstall").code == 0
    assert json.loads(file.read_text(encoding="utf-8")) == before


WRITTEN = [
    '// mine\n{\n  // keep\n  "mcpServers": {\n    "other": {"command": "x"}, // theirs\n  },\n  "theme": "//", /* a */\n}\n',
    '{\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"} // theirs\r\n\t}\r\n}\r\n',
    '{"mcpServers": {"other": {"command": "x"}}}',
    '{\n    "theme": 1,\n    "mcpServers": {\n        // none yet\n    }\n}',
    '{"mcpServers": {}}\n',
    '{\n  "mcpServers": {\n    "other": {\n      "command": "}, //"\n    }\n  }\n}\n',
]


@pytest.mark.parametrize("before", WRITTEN)
def test_json_stays_as_it_is_written(toolgen: Run, project: Path, before: str) -> None:
    file = project / ".mcp.json"
    file.write_bytes(before.encode("utf-8"))
    for _ in range(2):
        assert toolgen("install", "claude-code", "--as", "bot").code == 0
    text = file.read_bytes().decode("utf-8")
    for said in re.findall(r"// \w+|/\* a \*/|\"other\".*?}", before):
        assert said in text
    assert text.count("\n") == text.count("\r\n") or "\r\n" not in before
    assert set(loads(text)["mcpServers"]) - {"other"} == {"toolgen"}
    assert len(list(project.glob(".mcp.json.*.bak"))) == 1  # the second time nothing changed
    assert toolgen("install", "claude-code", "--uninstall").code == 0
    assert file.read_bytes().decode("utf-8") == before


@pytest.mark.parametrize(
    "before", ["", " \n", "\ufeff{}", "// nothing yet\n{}", '{"mcpServers": null}', '{"a": [1, {"b": 2},],}']
)
def test_a_file_without_servers_gets_its_first(toolgen: Run, project: Path, before: str) -> None:
    file = project / ".mcp.json"
    file.write_text(before, encoding="utf-8")
    assert toolgen("install", "claude-code", "--as", "bot").code == 0
    text = file.read_text(encoding="utf-8")
    assert set(loads(text)["mcpServers"]) == {"toolgen"}
    assert text.startswith("// nothing yet\n") or "nothing" not in before


def test_what_cannot_be_edited_is_printed_to_be_pasted(toolgen: Run, project: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {', encoding="utf-8")
    done = toolgen("install", "claude-code", "--as", "bot")
    assert (done.code, line_names(done.err, ".mcp.json", "--print")) == (1, True)
    done = toolgen("install", "claude-code", "--as", "bot", "--print")
    assert done.code == 0
    assert set(json.loads(done.out)["mcpServers"]) == {"toolgen"}
    assert line_names(done.err, ".mcp.json: ", "cannot be edited")


@given(data=st.data())
def test_json_edited_as_text_says_what_it_said_and_one_thing_more(data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["//", "/*", "*/", ",}", '"']),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )
    said = {"servers": data.draw(st.dictionaries(st.text(max_size=3), values, max_size=4)), "rest": data.draw(values)}
    text = json.dumps(said, indent=data.draw(st.sampled_from([None, 2, "\t"])), ensure_ascii=False)
    comment = st.sampled_from(["", " ", "/* , } */", "// ]\n", "\r\n"])
    text = "".join(
        part if part.startswith('"') else re.sub(r"[,:{}\[\]]", lambda found: found[0] + data.draw(comment), part)
        for part in re.split(r'("(?:[^"\\]|\\.)*")', text)
    )
    key, value = data.draw(st.text(max_size=3)), data.draw(values)
    assert loads(text) == said
    more = put(text, ["servers", key], value)
    assert loads(more) == {**said, "servers": {**said["servers"], key: value}}
    assert loads(removed(more, ["servers", key])) == {
        **said,
        "servers": {one: each for one, each in said["servers"].items() if one != key},
    }


def test_a_file_that_may_only_be_read_stays(toolgen: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project / ".mcp.json"
    file.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(
        "os.access", lambda path, mode: Path(path) != file or mode != os.W_OK
    )  # root may write everything
    done = toolgen("install", "claude-code", "--as", "bot")
    assert (done.code, "is read-only" in done.err) == (1, True)
    assert file.read_text(encoding="utf-8") == "{}"


def test_toml_keeps_its_comments(toolgen: Run, project: Path) -> None:
    file = project / "home" / ".codex" / "config.toml"
    file.parent.mkdir(parents=True)
    before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"  # theirs\n'
    file.write_text(before, encoding="utf-8")
    for _ in range(2):
        assert toolgen("install", "codex", "--as", "bot").code == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith(before)
    assert set(servers("codex", text)) == {"other", "toolgen"}
    assert toolgen("install", "codex", "--uninstall").code == 0
    assert file.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {}'),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("codex", "mcp_servers = {other = {command = 'x'}}\n"),
        ("codex", "not toml"),
    ],
)
def test_a_file_that_is_not_understood_is_not_touched(toolgen: Run, project: Path, client: str, text: str) -> None:
    file = project / USUAL[client]
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    done = toolgen("install", client, "--as", "bot")
    assert done.code == 1
    assert str(file) in done.err
    assert file.read_text(encoding="utf-8") == text
    assert list(file.parent.iterdir()) == [file]


def test_print_changes_nothing(toolgen: Run, project: Path) -> None:
    done = toolgen("install", "claude-code", "--as", "bot", "--print")
    assert "toolgen" in json.loads(done.out)["mcpServers"]
    assert not (project / ".mcp.json").exists()
    assert not (project / "var").exists()


def test_what_is_installed_already_is_not_written_again(toolgen: Run, project: Path) -> None:
    toolgen("install", "claude-code", "--as", "bot")
    assert "nothing was changed" in toolgen("install", "claude-code", "--as", "bot").err
    assert not list(project.glob(".mcp.json.*"))


def test_a_link_stays_a_link(toolgen: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (project / ".mcp.json").symlink_to(tmp_path / "real.json")
    toolgen("install", "claude-code", "--as", "bot")
    assert (project / ".mcp.json").is_symlink()
    assert "toolgen" in json.loads((tmp_path / "real.json").read_text())["mcpServers"]


async def test_doctor_says_whether_a_client_connected(
    toolgen: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    toolgen("install", "claude-code", "--as", "bot")
    (said,) = toolgen("doctor", "--json").json()["clients"]
    assert said == f"Claude Code: configured in {project / '.mcp.json'}, not yet seen"
    entry = servers("claude-code", (project / ".mcp.json").read_text())["toolgen"]

    server = StdioServerParameters(command=entry["command"], args=entry["args"], env={"TEST_PETS_KEY": "canary"})
    async with Client(stdio_client(server)) as client:
        assert (await client.list_tools()).tools
    (said,) = toolgen("doctor", "--json").json()["clients"]
    assert said.startswith("Claude Code: connected at 20")
    toolgen("install", "claude-code", "--uninstall")
    (said,) = toolgen("doctor", "--json").json()["clients"]
    assert said.startswith("Claude Code: no longer in ")


async def test_a_client_of_a_gateway_that_runs_connected_when_it_called(
    toolgen: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    toolgen("install", "codex", "--as", "bot", "--url", "http://127.0.0.1:8080")
    toolgen("call", "shop__query", "sql=SELECT id FROM customers", "--as", "bot")  # which is no client
    assert [said.rpartition(", ")[2] for said in toolgen("doctor", "--json").json()["clients"]] == ["not yet seen"]

    async with Gateway.load(project / "toolgen.yaml") as gateway:
        found = await gateway.call("shop__list_tables", {}, principal="bot", client="codex-mcp-client/1")
    assert found.status == "ok"
    (said,) = toolgen("doctor", "--json").json()["clients"]
    assert said.startswith("Codex: connected at 20")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("emacs",), "is not one of"),
        (("cursor",), "name the principal with --as"),
        (("cursor", "--as", "nobody"), "has no principal 'nobody'"),
        (("cursor", "--as", "bot", "--url", "ftp://x"), "must be an http(s) URL"),
        (("cursor", "--as", "bot", "--name", "a.b"), "must be letters, digits"),
        (("claude-desktop", "--as", "bot", "--url", "http://127.0.0.1:1"), "remove --url"),
    ],
)
def test_a_mistake_is_one_sentence(toolgen: Run, arguments: tuple[str, ...], said: str) -> None:
    done = toolgen("install", *arguments)
    assert done.code in {1, 2}
    assert said in done.err
