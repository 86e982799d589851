"""Credentials that are arguments: found, told with the lines to write, and gone once these are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import toolgen
from tests.cli.commands import Run, runner
from toolgen.generator.credential_arguments import credential_arguments
from toolgen.model.manifest import Manifest


def parameter(name: str, place: str = "query", *, required: bool = True, said: str = "") -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "description": said, "schema": {"type": "string"}}


def described(
    folder: Path, parameters: list[dict[str, Any]], schemes: dict[str, Any] | None = None, operations: int = 1
) -> None:
    paths = {
        f"/x{number}": {"get": {"operationId": f"get{number}", "parameters": parameters, "responses": {}}}
        for number in range(operations)
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
    }
    if schemes:
        document["components"] = {"securitySchemes": schemes}
    (folder / "s.json").write_text(json.dumps(document), encoding="utf-8")


def built(folder: Path, auth: dict[str, Any] | None = None) -> Manifest:
    return toolgen.build({"s": {"openapi": "s.json", **({"auth": auth} if auth else {})}}, root=folder)


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any] | None, int, tuple[str, ...]]] = {
    "an API key": ([parameter("api_key"), parameter("q")], None, 1, ("api_key",)),
    "a header": ([parameter("X-Api-Key", "header", required=False)], None, 1, ("X-Api-Key",)),
    "two by their descriptions": (
        [parameter("key", said="Your API key."), parameter("token", said="Authenticates you.")],
        None,
        1,
        ("key", "token"),
    ),
    "what all tools require": ([parameter("appid")], None, 3, ("appid",)),
    "a scheme that nothing asks for": (
        [parameter("ApiKey")],
        {"Key Auth": {"type": "apiKey", "in": "query", "name": "ApiKey"}},
        1,
        ("ApiKey",),
    ),
    "a key of another tool": ([parameter("key", said="Name of the object.")], None, 1, ()),
    "a token to revoke": ([parameter("token", said="The token to revoke.")], None, 1, ()),
    "no credential": ([parameter("id"), parameter("page_token")], None, 3, ()),
}


@pytest.mark.parametrize("case", CASES)
def test_the_lines_make_the_gateway_send_what_was_an_argument(tmp_path: Path, case: str) -> None:
    parameters, schemes, operations, names = CASES[case]
    described(tmp_path, parameters, schemes, operations)
    found = credential_arguments(built(tmp_path))
    assert tuple(name for one in found for name in one.arguments) == names
    if not names:
        return
    (one,) = found
    assert one.tools == operations
    auth = yaml.safe_load("\n".join(one.lines))["sources"]["s"]["auth"]
    manifest = built(tmp_path, auth)
    assert credential_arguments(manifest) == ()
    for tool in manifest.tools.values():
        assert not set(names) & tool.input_schema["properties"].keys()


def test_init_and_build_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    call: Run = runner(capfdbinary)
    monkeypatch.chdir(tmp_path)
    described(tmp_path, [parameter("api_key")])
    line = 'api_key: {name: api_key, in: query, value: "${env:S_API_KEY}"}'
    out = call("build", "s.json", "-o", "out").out
    assert "1 tool has credentials of s as arguments (api_key)" in out
    assert f"      {line}\n" in out  # nothing behind it: a person copies these lines
    assert line in call("init", "s.json", "--name", "s").err
    assert line in call("build").out
