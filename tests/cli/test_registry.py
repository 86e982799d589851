"""`toolgen registry export` and `toolgen install claude-desktop --bundle`: what they write, and what is never in it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from packaging.requirements import Requirement

from tests.cli.commands import Run, runner
from tests.messages import line_names
from tests.projects import make_project

ICONS = [
    {"src": "https://tools.example.com/icon.png", "mimeType": "image/png"},
    {"src": "data:image/png;base64,iVBORw0KGgo="},
]
URL = "https://tools.example.com"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def toolgen(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capfdbinary)


def configure(project: Path, **gateway: Any) -> None:
    path = project / "toolgen.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**told, "gateway": {**told.get("gateway", {}), **gateway}}), encoding="utf-8")


def test_the_gateway_is_described_for_the_registry(toolgen: Run, project: Path) -> None:
    said = {"title": "Acme", "website": f"{URL}/about", "icons": ICONS}
    configure(project, url=URL, mcp=said, endpoints={"support": {"toolsets": ["support"], "title": "Acme support"}})
    found = toolgen("registry", "export", "com.example/tools", "--release", "1.2.0").json()
    assert found["$schema"].startswith("https://static.modelcontextprotocol.io/schemas/")
    assert (found["name"], found["title"], found["version"]) == ("com.example/tools", "Acme", "1.2.0")
    assert 0 < len(found["description"]) <= 100
    assert (found["websiteUrl"], found["icons"]) == (f"{URL}/about", [ICONS[0]])
    (remote,) = found["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", f"{URL}/mcp")
    (header,) = remote["headers"]
    assert (header["name"], header["isRequired"], header["isSecret"]) == ("Authorization", True, True)
    assert "sha256" not in json.dumps(found)
    done = toolgen(
        "registry", "export", "com.example/tools", "--release", "2", "--endpoint", "support", "-o", "server.json"
    )
    assert done.code == 0
    written = json.loads(Path("server.json").read_bytes())
    assert (written["title"], written["remotes"][0]["url"]) == ("Acme support", f"{URL}/mcp/support")


def test_users_of_an_identity_provider_need_no_header(toolgen: Run, project: Path) -> None:
    configure(project, url=URL)
    issuer = {"issuer": "https://login.example.com", "audience": f"{URL}/mcp", "jwks": "https://login.example.com/keys"}
    more = {"issuers": {"staff": {"jwt": issuer, "roles": ["staff"]}}}
    (project / "policies" / "issuers.yaml").write_text(json.dumps(more), encoding="utf-8")
    (remote,) = toolgen("registry", "export", "com.example/tools", "--release", "1.0").json()["remotes"]
    assert "headers" not in remote


@pytest.mark.parametrize(
    ("name", "release", "more", "code", "says"),
    [
        ("tools", "1.0", [], 2, "com.example/tools"),
        ("com.example/a/b", "1.0", [], 2, "com.example/tools"),
        (".example/tools", "1.0", [], 2, "com.example/tools"),
        ("com.example/tools", "^1.0", [], 2, "one version"),
        ("com.example/tools", "latest", [], 2, "one version"),
        ("com.example/tools", "1.0", ["--description", "x" * 101], 2, "100 characters"),
        ("com.example/tools", "1.0", ["--endpoint", "suport"], 1, "did you mean 'support'"),
    ],
)
def test_what_the_registry_would_refuse_is_not_written(
    toolgen: Run, project: Path, name: str, release: str, more: list[str], code: int, says: str
) -> None:
    configure(project, url=URL, endpoints={"support": {"toolsets": ["support"]}})
    done = toolgen("registry", "export", name, "--release", release, *more)
    assert (done.code, done.out) == (code, "")
    assert says in done.err


def test_a_gateway_that_has_no_address_cannot_be_listed(toolgen: Run) -> None:
    done = toolgen("registry", "export", "com.example/tools", "--release", "1.0")
    assert (done.code, "gateway.url" in done.err) == (1, True)


def opened(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        assert archive.testzip() is None
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
        assert manifest["server"]["entry_point"] in archive.namelist()
        return manifest


async def test_a_bundle_starts_the_gateway_elsewhere_and_is_the_same_each_time(
    toolgen: Run, project: Path, tmp_path: Path
) -> None:
    configure(project, mcp={"name": "Acme.Tools", "title": "Acme"})
    assert toolgen("install", "claude-desktop", "--as", "bot", "--bundle", "one.mcpb").code == 0
    assert toolgen("install", "claude-desktop", "--as", "bot", "--bundle", "two.mcpb").code == 0
    assert Path("one.mcpb").read_bytes() == Path("two.mcpb").read_bytes()
    manifest = opened(Path("one.mcpb"))
    assert (manifest["manifest_version"], manifest["name"], manifest["display_name"]) == ("0.4", "acme-tools", "Acme")
    started = manifest["server"]["mcp_config"]
    assert (started["command"], started["args"][-1]) == ("uv", "server/main.py")
    elsewhere = tmp_path / "another machine"
    with zipfile.ZipFile("one.mcpb") as archive:
        archive.extractall(elsewhere)
        texts = [archive.read(name) for name in archive.namelist() if not name.startswith("server/toolgen/")]
    assert not [text for text in texts if str(project).encode() in text or str(Path(sys.prefix)).encode() in text]
    shutil.move(project / "policies", project / "gone")  # what is on this machine is not looked at

    environment = {"PATH": os.environ["PATH"], "TOOLGEN_AUDIT__DIR": str(tmp_path / "record")}
    script = str(elsewhere / "server" / "main.py")
    parameters = StdioServerParameters(command=sys.executable, args=["-I", script], env=environment, cwd="/")
    async with Client(stdio_client(parameters)) as client:
        found = {tool.name for tool in (await client.list_tools()).tools}
        assert found
        await client.call_tool(min(found), {})
    assert [*(tmp_path / "record").glob("*.jsonl")]
    asked = "import sys; sys.path.insert(0, sys.argv[1]); import toolgen; print(toolgen.__file__)"
    said = subprocess.run(
        [sys.executable, "-I", "-c", asked, str(elsewhere / "server")], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith(str(elsewhere))


def test_a_bundle_needs_what_toolgen_needs(toolgen: Run, project: Path) -> None:
    assert toolgen("install", "claude-desktop", "--as", "bot", "--bundle", "one.mcpb").code == 0
    with zipfile.ZipFile("one.mcpb") as archive:
        told = tomllib.loads(archive.read("pyproject.toml").decode())
    needed = [Requirement(one) for one in told["project"]["dependencies"]]
    assert {"msgspec", "jsonschema-rs", "sqlglot"} <= {one.name for one in needed}
    assert not [one for one in needed if one.marker is not None and "extra" in str(one.marker)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"graphql": "specs/none.graphql", "auth": {"bearer": "written-out"}}, "is written in plain text"),
        ({"graphql": "specs/none.graphql", "auth": {"bearer": "${file:/run/key}"}}, "in a file of this machine"),
        ({"mcp": {"command": ["/opt/server/run"]}}, "contains a path of this machine"),
        ({"graphql": "../outside.graphql"}, "not in the project's folder"),
    ],
)
def test_a_bundle_holds_nothing_that_another_machine_has_not(
    source: dict[str, Any], message: str, toolgen: Run, project: Path
) -> None:
    path = project / "toolgen.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    told["sources"]["other"] = source | ({"endpoint": "http://127.0.0.1:1/x"} if "graphql" in source else {})
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    (project / "specs").mkdir(exist_ok=True)
    for place in ("specs/none.graphql", "../outside.graphql"):
        (project / place).write_text("type Query { a: Int }", encoding="utf-8")
    done = toolgen("install", "claude-desktop", "--as", "bot", "--bundle", "one.mcpb")
    assert (done.code, message in done.err) == (1, True), done.err
    assert not Path("one.mcpb").exists()


def test_a_bundle_asks_for_secrets_and_holds_none(toolgen: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "secret-of-the-shop-7f3a")
    path = project / "toolgen.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    auth = {"bearer": "${env:SHOP_KEY}"}
    told["sources"]["other"] = {"graphql": "specs/none.graphql", "endpoint": "http://127.0.0.1:1/x", "auth": auth}
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    (project / "specs").mkdir(exist_ok=True)
    (project / "specs" / "none.graphql").write_text("type Query { a: Int }", encoding="utf-8")
    done = toolgen("install", "claude-desktop", "--as", "bot", "--bundle", "one.mcpb")
    assert done.code == 0, done.err
    manifest = opened(Path("one.mcpb"))
    assert manifest["server"]["mcp_config"]["env"]["SHOP_KEY"] == "${user_config.shop_key}"
    assert line_names(done.err, "sources.shop: ", "copy of the database")
    assert manifest["user_config"]["shop_key"] | {"description": ""} == {
        "type": "string",
        "title": "SHOP_KEY",
        "description": "",
        "sensitive": True,
        "required": True,
    }
    assert "secret-of-the-shop" not in json.dumps(manifest)


def test_a_bundle_is_for_one_client(toolgen: Run) -> None:
    assert toolgen("install", "cursor", "--bundle", "x.mcpb").code == 2
    assert toolgen("install", "claude-desktop", "--url", URL, "--bundle", "x.mcpb").code == 2
