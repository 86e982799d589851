"""`auth: none`: nothing is sent and nothing demanded, and whoever reads the build or the policy is told so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.connectors.openapi.readings import document, only, operation, read
from tests.projects import PETS, POLICY, make_project
from toolgen.config.settings import from_mapping, load, settings_digest
from toolgen.core.errors import ConfigError

KEY = {"type": "apiKey", "in": "query", "name": "k"}
SCHEMES = {"components": {"securitySchemes": {"key": KEY}}}


@pytest.mark.parametrize(
    ("security", "warned"),
    [
        ([{"key": []}], True),
        ([{"key": []}, {"other": [], "key": []}], True),
        ([{"unknown": []}], True),
        ([{}, {"key": []}], False),
        ([], False),
        (None, False),
    ],
)
def test_no_operation_needs_a_credential_and_the_secured_ones_are_named(
    tmp_path: Path, security: Any, warned: bool
) -> None:
    parameters = [{"name": "k", "in": "query", "schema": {"type": "string"}}]
    written = operation(security=security, parameters=parameters)
    reading = read(tmp_path, document({"/a": {"get": written}}, **SCHEMES), anonymous=True)
    tool, binding = only(reading)
    assert binding.security == ()
    found = [problem for problem in reading.problems if problem.code == "unauthenticated"]
    assert [(one.level, one.origin) for one in found] == ([("warning", "#/paths/~1a/get")] if warned else [])
    assert all("`auth: none`" in one.message for one in found)
    # A credential is not an argument because nobody configured one.
    if security and "key" in json.dumps(security):
        assert tool.input_schema["properties"] == {}


def test_it_is_part_of_what_was_built(tmp_path: Path) -> None:
    sources = {"pets": {"openapi": "pets.json"}}
    plain = from_mapping(sources, tmp_path)["pets"]
    none = from_mapping({"pets": {**sources["pets"], "auth": "none"}}, tmp_path)["pets"]
    assert (plain.config.anonymous, none.config.anonymous) == (False, True)
    assert none.auth == {}
    assert settings_digest(plain.config, ()) != settings_digest(none.config, ())


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"openapi": "pets.json", "auth": "None"}, "the word none"),
        ({"openapi": "pets.json", "auth": ""}, "the word none"),
        ({"openapi": "pets.json", "auth": "s3cr3t"}, "the word none"),
        ({"openapi": "pets.json", "auth": ["none", {"key": "x"}]}, "got `array`"),
        ({"graphql": "x.graphql", "auth": "nothing"}, "the word none"),
        ({"sql": "postgresql://u:s3cr3t@h/d", "auth": "none"}, "contradicts the password in the location"),
        ({"python": "my.tools", "auth": "none"}, "does not belong to python sources"),
    ],
)
def test_it_stands_alone_and_is_that_one_word(tmp_path: Path, source: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping({"pets": source}, tmp_path)
    assert says in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        {"graphql": "x.graphql", "endpoint": "http://127.0.0.1:9/graphql"},
        {"sql": "sqlite:///x.db"},
        {"sql": "postgresql://u@h/d"},
        {"mcp": {"url": "https://mcp.example/"}},
        {"mcp": {"command": ["server"]}},
    ],
)
def test_it_is_what_leaving_it_out_is_to_other_kinds(tmp_path: Path, source: dict[str, Any]) -> None:
    assert from_mapping({"x": {**source, "auth": "none"}}, tmp_path) == from_mapping({"x": source}, tmp_path)


def test_it_cannot_stand_beside_a_credential(tmp_path: Path) -> None:
    path = tmp_path / "toolgen.yaml"
    path.write_text("sources:\n  pets:\n    openapi: pets.json\n    auth: none\n    auth: {key: x}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="occurs twice"):
        load(path)
    path.write_text("sources:\n  pets:\n    openapi: pets.json\n    auth: none\n      key: x\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not YAML"):
        load(path)


def test_build_and_policy_check_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolgen: Run) -> None:
    root = tmp_path / "project"
    path = make_project(root, policy={**POLICY, "sql": {}})
    path.write_text(json.dumps({"sources": {"pets": {"openapi": "specs/pets.json", "auth": "none"}}}), encoding="utf-8")
    monkeypatch.chdir(root)
    built = toolgen("build")
    assert built.code == 0
    said = "#/paths/~1pets~1{petId}/get: sent without credentials because of `auth: none`; the description requires key"
    assert said in built.out
    checked = toolgen("policy", "check")
    assert said in checked.err
    warnings = toolgen("policy", "check", "--json").json()["warnings"]
    assert [(one["level"], one["code"], one["source"]) for one in warnings] == [("warning", "unauthenticated", "pets")]
    path.write_text(json.dumps({"sources": {"pets": {"openapi": "specs/pets.json"}}}), encoding="utf-8")
    refused = toolgen("policy", "check")
    assert refused.code == 1  # what was built so is not served otherwise
    assert "toolgen build" in refused.err
    assert toolgen("build").code == 0
    assert toolgen("policy", "check", "--json").json()["warnings"] == []
    assert PETS["components"]["securitySchemes"].keys() == {"key"}
