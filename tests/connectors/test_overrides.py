"""`tools:` in toolgen.yaml: what an override changes, for every kind of source, and every mistake named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects import make_project
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.generator.build import Built, build_sources
from toolgen.model.tool import Effect, Tool, seal

SDL = "type Query { country(code: ID!): String continents: [String] } type Mutation { addCountry(code: ID!): String }"


def built(root: Path, tools: dict[str, Any] | None = None) -> Built:
    path = root / "toolgen.yaml"
    if not path.exists():
        make_project(root)
    (root / "specs" / "world.graphql").write_text(SDL, encoding="utf-8")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["sources"]["world"] = {"graphql": "specs/world.graphql", "endpoint": "http://127.0.0.1:9/graphql"}
    path.write_text(json.dumps({**content, "tools": tools or {}}, indent=1), encoding="utf-8")
    settings = load(path)
    return build_sources(settings.sources, settings.overrides)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project"


KEYS = [
    ("pets__get_pet", "pets__get_pet"),
    ("#/paths/~1pets~1{petId}/get", "pets__get_pet"),
    ("getPet", "pets__get_pet"),
    ("world__get_country", "world__get_country"),
    ("Query.country", "world__get_country"),
    ("country", "world__get_country"),
    ("shop__query", "shop__query"),
    ("sqlite#query", "shop__query"),
]


@pytest.mark.parametrize(("key", "name"), KEYS)
def test_a_tool_is_meant_by_its_name_its_origin_or_the_descriptions_own_word(root: Path, key: str, name: str) -> None:
    plain = built(root).manifest
    changed = built(root, {key: {"title": "T", "description": "D.", "effect": "destructive"}}).manifest
    tool = changed.tools[name]
    assert (tool.title, tool.description, tool.effect) == ("T", "D.", Effect.DESTRUCTIVE)
    assert (tool.input_schema, tool.binding) == (plain.tools[name].input_schema, plain.tools[name].binding)
    assert tool == seal(tool)
    assert tool.digest != plain.tools[name].digest
    others = plain.tools.keys() - {name}
    assert {other: changed.tools[other] for other in others} == {other: plain.tools[other] for other in others}


@pytest.mark.parametrize(("given", "name"), [("find_pet", "pets__find_pet"), ("pets__find_pet", "pets__find_pet")])
def test_a_new_name_keeps_the_sources_prefix_and_the_wire(root: Path, given: str, name: str) -> None:
    plain = built(root).manifest
    changed = built(root, {"getPet": {"name": given}}).manifest
    assert "pets__get_pet" not in changed.tools
    assert changed.tools[name].binding == plain.tools["pets__get_pet"].binding


def test_two_tools_may_swap_their_names(root: Path) -> None:
    plain = built(root).manifest
    changed = built(root, {"getPet": {"name": "delete_pet"}, "deletePet": {"name": "get_pet"}}).manifest
    assert changed.tools["pets__get_pet"].origin == plain.tools["pets__delete_pet"].origin
    assert changed.tools["pets__delete_pet"].origin == plain.tools["pets__get_pet"].origin


def test_the_owner_may_lower_an_effect_too(root: Path) -> None:
    changed = built(root, {"deletePet": {"effect": "read"}}).manifest
    assert changed.tools["pets__delete_pet"].effect is Effect.READ


def test_a_hidden_tool_is_gone_and_reported(root: Path) -> None:
    plain, changed = built(root), built(root, {"deletePet": {"hidden": True}})
    assert plain.manifest.tools.keys() - changed.manifest.tools.keys() == {"pets__delete_pet"}
    assert changed.operations == plain.operations
    (problem,) = set(changed.manifest.problems) - set(plain.manifest.problems)
    assert (problem.level, problem.code, problem.origin) == ("info", "hidden", "#/paths/~1pets~1{petId}/delete")


def test_the_tools_of_a_database_call_a_renamed_one_by_its_new_name(root: Path) -> None:
    def texts(tool: Tool) -> str:
        return json.dumps([tool.description, tool.to_dict()["input_schema"]])

    changed = built(root, {"shop__list_tables": {"name": "tables"}}).manifest
    assert all("shop__list_tables" not in texts(tool) for tool in changed.tools.values())
    assert "shop__tables" in changed.tools["shop__query"].description
    assert "shop__tables" in texts(changed.tools["shop__describe_table"])


def test_no_overrides_change_nothing(root: Path) -> None:
    assert built(root, {}).manifest == built(root).manifest


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"pets__gt_pet": {"title": "T"}}, "there is no tool or operation 'pets__gt_pet' (did you mean 'pets__get_pet'?)"),
    ({"getPets": {"title": "T"}}, "no tool or operation 'getPets' (did you mean 'getPet'?)"),
    ({"getPet": {"titel": "T"}}, "unknown key 'titel' in tools.getPet (did you mean 'title'?)"),
    ({"getPet": {"effect": "write!"}}, "'write!' is not read, write or destructive"),
    ({"getPet": {"title": ""}}, "title: takes 1 to 200 characters"),
    ({"getPet": {"description": " "}}, "description: takes 1 to 1024 characters"),
    ({"getPet": {"description": "x" * 1025}}, "description: takes 1 to 1024 characters"),
    ({"getPet": {"hidden": "yes"}}, "tools.getPet.hidden: expected `bool`, got `str`"),
    ({"getPet": {}}, "'getPet' has no effect"),
    ({"getPet": "find_pet"}, "tools.getPet must be a mapping"),
    ({"getPet": {"name": "find pet"}}, "'pets__find pet' is not a tool name"),
    ({"getPet": {"name": "x" * 43}}, "is not a tool name"),
    ({"getPet": {"name": ""}}, "'pets__' is not a tool name"),
    ({"getPet": {"name": "delete_pet"}}, "pets__delete_pet would be the name of two tools"),
    ({"getPet": {"name": "a"}, "deletePet": {"name": "a"}}, "pets__a would be the name of two tools"),
    ({"getPet": {"title": "T"}, "pets__get_pet": {"title": "U"}}, "pets__get_pet has another entry already"),
]


@pytest.mark.parametrize(("tools", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_line(root: Path, tools: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(root, tools)
    assert message in str(caught.value)
    line = int(caught.value.where.partition(":")[2])
    text = (root / "toolgen.yaml").read_text(encoding="utf-8").splitlines()
    assert any(key in text[line - 1] for one, given in tools.items() for key in (one, *given))


def test_a_word_of_several_tools_must_be_said_otherwise(root: Path) -> None:
    (root / "specs").mkdir(parents=True)
    make_project(root.parent / "other")
    (root / "specs" / "pets.json").write_bytes((root.parent / "other" / "specs" / "pets.json").read_bytes())
    sources = {"a": {"openapi": "specs/pets.json"}, "b": {"openapi": "specs/pets.json"}}
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources, "tools": {"getPet": {"title": "T"}}}))
    settings = load(root / "toolgen.yaml")
    with pytest.raises(ConfigError, match=r"getPet.*a__get_pet, b__get_pet"):
        build_sources(settings.sources, settings.overrides)


def test_an_operation_that_became_no_tool_says_why(root: Path) -> None:
    make_project(root)
    path = root / "specs" / "pets.json"
    pets = json.loads(path.read_text(encoding="utf-8"))
    pets["paths"]["/pets/{petId}"]["get"]["parameters"] = [{"$ref": "#/nowhere"}]
    path.write_text(json.dumps(pets), encoding="utf-8")
    with pytest.raises(ConfigError, match="the operation has no tool"):
        built(root, {"#/paths/~1pets~1{petId}/get": {"title": "T"}})
