"""Listed schemas held against the rules of converters: each rule, the project's own tools, and people's descriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.catalogs import http_tool
from tests.generator.emit.client_rules import CLIENTS, NAMES, RULES, Rule, broken
from tests.generator.emit.providers import LISTED
from tests.golden.small import small_manifest
from toolgen.connectors.naming import assign
from toolgen.connectors.proof.examples import Examples
from toolgen.generator.build import build
from toolgen.generator.emit.formats import FORMATS, mcp_tool, render
from toolgen.generator.emit.schema_budget import listed
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.manifest import Manifest, load
from toolgen.model.names import MAX_NAME_LENGTH, TOOL_NAME
from toolgen.model.tool import Tool

ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus" / "openapi"


def test_every_client_has_a_rule() -> None:
    assert {client for rule in RULES for client in rule.clients} == set(CLIENTS)
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert FORMATS.keys() - LISTED.keys() == {"gemini", "openai-strict"}


@pytest.mark.parametrize("client", NAMES)
def test_the_longest_name_fits_each_client(client: str) -> None:
    pattern, prefix = NAMES[client]
    longest = assign("s", {"a": [("list", *("configurations",) * 12)]})["a"]
    most = "s" * 20 + "__" + "a" * (MAX_NAME_LENGTH - 22)
    assert len(most) == MAX_NAME_LENGTH >= len(longest)
    for name in (longest, most):
        assert TOOL_NAME.match(name)
        assert re.fullmatch(pattern, prefix + name)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_breaks_a_rule_is_listed_without(rule: Rule) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": rule.example},
        "required": ["x"],
        "$defs": {"A": {"type": "string"}},
    }
    if rule.place == "root":
        schema = rule.example
    assert rule.name in " ".join(broken(schema, (rule,)))
    tool = with_listed_arguments(http_tool("s__create", **schema))
    for name, found in LISTED.items():
        assert list(broken(found(FORMATS[name](tool)))) == []


@pytest.fixture(scope="module", name="project")
def _project() -> Manifest:
    return load((ROOT / "generated" / "manifest.json").read_bytes(), where="manifest.json")


def test_the_projects_own_tools_keep_every_rule(project: Manifest) -> None:
    tools = [*project.tools.values(), *small_manifest().tools.values()]
    assert len(tools) > 20
    _hold(tools)
    for name, found in LISTED.items():
        shaped: Any = render(name, tools)
        for one in shaped["tools"] if name == "mcp" else shaped:
            assert list(broken(found(one))) == []


def _descriptions() -> list[str]:
    return sorted(path.name for path in CORPUS.iterdir() if path.is_file()) if CORPUS.is_dir() else []


@pytest.mark.parametrize(
    "name", _descriptions() or [pytest.param("", marks=pytest.mark.skip(reason="the corpus is not here"))]
)
def test_descriptions_people_have_written_keep_every_rule(name: str) -> None:
    _hold(build({"s": {"openapi": str(CORPUS / name)}}).tools.values())


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_githubs_tools_are_shorter_than_their_exact_schemas() -> None:
    (path,) = CORPUS.glob("octokit-*")
    tools = build({"github": {"openapi": str(path)}}).tools.values()
    exact = sum(len(json.dumps(tool.input_schema)) for tool in tools)
    assert sum(len(json.dumps(listed(tool).input_schema)) for tool in tools) < 0.92 * exact


def _hold(tools: Iterable[Tool]) -> None:
    """Holds listed schemas against every rule and against what the exact schemas accept; required names stay the same."""
    for at, tool in enumerate(tools):
        schema = listed(tool).input_schema
        assert list(broken(schema)) == []
        assert set(schema.get("required", ())) == set(tool.input_schema.get("required", ())), tool.name
        assert mcp_tool(tool)["inputSchema"] == schema
        if at % 29:
            continue
        accepted = jsonschema_rs.validator_for(dict(schema))
        for arguments in Examples(tool.input_schema, seed=tool.name).take(3):
            whole = _without_null(arguments)
            if jsonschema_rs.is_valid(tool.input_schema, whole):
                assert accepted.is_valid(whole), (tool.name, whole)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(one) for name, one in value.items() if one is not None}
    return [_without_null(one) for one in value] if isinstance(value, list) else value
