"""Input types too long to be shown: agents see what there is room for, calls are held against all of it, and files hold it once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from graphql import build_schema
from jsonschema import Draft202012Validator

from tests.services.deep_inputs import database_schema, tracker_schema
from toolgen.connectors.proof.examples import Examples
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.build import build
from toolgen.generator.emit.dialects import ListedSchema
from toolgen.generator.emit.formats import render
from toolgen.generator.emit.schema_budget import as_listed
from toolgen.generator.emit.tokens import tokens
from toolgen.generator.emit.writer import render_all
from toolgen.model import manifest as manifests
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope
from toolgen.model.shown_schema import shown
from toolgen.model.tool import GraphQLBinding, Tool

BUDGET = 2_400  # tokens, by an estimate that lies above what vocabularies count
SCHEMAS = {"database": database_schema(6), "tracker": tracker_schema(6, 60)}


def built(root: Path, sdl: str) -> Manifest:
    (root / "s.graphql").write_text(sdl, encoding="utf-8")
    return build({"s": {"graphql": str(root / "s.graphql"), "endpoint": "https://api.example/graphql"}})


def cost(schema: Any) -> int:
    return tokens(msgspec.json.encode(schema, enc_hook=dict).decode())


@pytest.mark.parametrize("name", SCHEMAS)
def test_agents_are_shown_what_there_is_room_for(tmp_path: Path, name: str) -> None:
    manifest = built(tmp_path, SCHEMAS[name])
    tools = list(manifest.tools.values())
    assert [one.message for one in manifest.problems if one.level == "error"] == []
    assert max(cost(tool.input_schema) for tool in tools) > 5_000
    shapes = {tool["name"]: tool["inputSchema"] for tool in render("mcp", tools)["tools"]}  # type: ignore[call-overload,index,union-attr]
    assert max(map(cost, shapes.values())) < BUDGET
    large = [tool for tool in tools if isinstance(tool.binding, GraphQLBinding) and tool.binding.whole]
    assert large
    for tool in large:
        Draft202012Validator.check_schema(shapes[tool.name])
        assert shown(tool).description.endswith("describe_types.")
        assert shown(shown(tool)) == shown(tool)
        assert set(shapes[tool.name]["properties"]) == set(tool.input_schema["properties"])
        assert shapes[tool.name].get("required") == tool.input_schema.get("required")
    assert "s__describe_types" in shapes


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_the_whole_schema_takes_the_shown_one_takes_too(tmp_path: Path, name: str) -> None:
    for tool in [*built(tmp_path, SCHEMAS[name]).tools.values()][::9]:
        whole, less = Draft202012Validator(tool.input_schema), Draft202012Validator(shown(tool).input_schema)
        for arguments in Examples(tool.input_schema, seed=tool.name).take(10):
            assert whole.is_valid(dict(arguments))
            assert less.is_valid(dict(arguments)) or "first" in arguments or "limit" in arguments


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_holds_every_type_once_and_reads_back_whole(tmp_path: Path, name: str) -> None:
    manifest = built(tmp_path, SCHEMAS[name])
    files = render_all(manifest)
    size = sum(map(len, files.values()))
    assert size < 60_000 * len(manifest.tools)  # as short files are written, with indentation
    again = manifests.load(files["manifest.json"], where="manifest.json")
    assert again.digest == manifest.digest
    for name_, tool in manifest.tools.items():
        assert again.tools[name_] == tool
    assert files == render_all(again)


@pytest.mark.parametrize("name", SCHEMAS)
def test_files_list_tools_as_agents_are_shown_them(tmp_path: Path, name: str) -> None:
    manifest = built(tmp_path, SCHEMAS[name])
    tools = [*manifest.tools.values()]
    # The whole types are never cut to what is listed: for each tool and format that took more time than all the rest of a build.
    for tool, one in zip(tools, as_listed(tools), strict=True):
        schema = one.input_schema
        assert isinstance(schema, ListedSchema)
        assert schema.exact == shown(tool).input_schema
        assert cost(schema) < BUDGET
        assert one.description == shown(tool).description
    files = render_all(manifest)
    for form in ("mcp", "anthropic", "openai"):
        assert json.loads(files[f"{form}.json"]) == render(form, tools)


def test_a_change_deep_in_a_type_changes_the_digest_of_the_tools_that_take_it(tmp_path: Path) -> None:
    sdl = SCHEMAS["database"]
    first = built(tmp_path, sdl).tools
    second = built(
        tmp_path, sdl.replace("input t5_set_input { id: uuid", "input t5_set_input { id: uuid new: Int")
    ).tools
    third = built(tmp_path, sdl.replace("input t5_bool_exp {", "input t5_bool_exp { new: Int_comparison_exp")).tools
    assert {name for name in first if first[name].digest != second[name].digest} == {
        "s__update_t5",
        "s__update_t5_by_pk",
    }
    assert {name for name in first if first[name].digest != third[name].digest} > {"s__list_t0", "s__delete_t3"}


async def gateway(root: Path, calls: list[tuple[str, Any]]) -> tuple[list[Envelope], dict[str, Tool]]:
    policy = {
        "principals": {"bot": {"api_key": "sha256:" + "1" * 64, "roles": ["bot"], "attributes": {"tenant": "acme"}}},
        "rules": [
            {"id": "all", "to": ["bot"], "tools": ["s__*"], "effects": ["read", "destructive"], "verdict": "allow"},
            {"id": "deep", "to": ["bot"], "tools": ["s__list_t0"], "verdict": "deny", "when":
             "has(args.where.t1.t2.t3.c0._eq) && args.where.t1.t2.t3.c0._eq == 7"},
        ],
    }  # fmt: skip
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "s.graphql").write_text(SCHEMAS["database"], encoding="utf-8")
    path = root / "toolgen.yaml"
    said = {
        "sources": {"s": {"graphql": "s.graphql", "endpoint": "https://api.example/graphql"}},
        "audit": {"dir": "a"},
    }
    path.write_text(json.dumps(said), encoding="utf-8")

    async with Gateway.load(path) as made:
        answers = [await made.preview(f"s__{name}", given, principal="bot") for name, given in calls]
        answers += [await made.call("s__describe_types", {"types": ["t3_bool_exp"]}, principal="bot")]
        return answers, {tool.name: tool for tool in made.tool_calls.catalog(made.principal("bot"))}


async def test_a_call_is_held_against_the_whole_schema(tmp_path: Path) -> None:
    deep = {"where": {"t1": {"t2": {"t3": {"c0": {"_eq": 8}}}}}}
    wrong = {"where": {"t1": {"t2": {"t3": {"c0": {"_eq": "eight"}}}}}}
    unknown = {"where": {"t1": {"t2": {"t3": {"c0": {"_like": 8}}}}}}
    denied = {"where": {"t1": {"t2": {"t3": {"c0": {"_eq": 7}}}}}}
    answers, catalog = await gateway(tmp_path, [("list_t0", one) for one in (deep, wrong, unknown, denied)])
    codes = [one.error.code if one.error else one.status for one in answers]
    assert codes == ["ok", "validation", "validation", "forbidden", "ok"]
    assert "t3_bool_exp" in str(answers[-1].data)
    assert cost(catalog["s__list_t0"].input_schema) < BUDGET
    assert catalog["s__list_t0"].input_schema["properties"]["limit"]["maximum"] == 100


def test_a_filter_that_leads_to_thousands_of_types_keeps_its_tool(tmp_path: Path) -> None:
    """As in a database of some hundred tables, each of which is related to others."""
    count = 2_500
    linked = " ".join(f"input Filter{one} {{ id: Int next: Filter{(one + 1) % count} }}" for one in range(count))
    manifest = built(tmp_path, f"type Query {{ rows(where: Filter0): Int }} {linked}")
    tool = manifest.tools["s__get_rows"]
    assert list(manifest.problems) == []
    assert len(tool.input_schema["$defs"]) == count
    assert cost(shown(tool).input_schema) < BUDGET


@pytest.mark.exhaustive
def test_large_schemas_fit_into_20_mb(tmp_path: Path) -> None:
    """Linear has about 200 entities' worth of operations (430), a Hasura project of 60 tables 420."""
    total = 0
    for number, sdl in enumerate((database_schema(60, 20), tracker_schema(90, 40))):
        folder = tmp_path / str(number)
        folder.mkdir()
        manifest = built(folder, sdl)
        assert len(manifest.tools) > 400
        assert len(build_schema(sdl).type_map) > 300
        total += sum(map(len, render_all(manifest).values()))
    assert total < 20_000_000, total
