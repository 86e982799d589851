"""Names in toolgen.lock: given once, kept whatever happens around an operation, and given to no other one without --rename."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.messages import line_names
from toolgen.connectors.assigned_names import identity_of
from toolgen.connectors.pins import LOCK, read_pins
from toolgen.core.errors import ConfigError

HISTORIES = sorted((Path(__file__).parents[1] / "connectors" / "histories").glob("*.json"))


def describe(operations: dict[str, str], **more: Any) -> None:
    paths: dict[str, Any] = {}
    for operation, identifier in operations.items():
        method, _, path = operation.partition(" ")
        made: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
        if "{" in path:
            names = [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]
            made["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
        if identifier:
            made["operationId"] = identifier
        paths.setdefault(path, {})[method.lower()] = made | more.get(identifier, {})
    document = {"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "paths": paths}
    Path("api.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sources = {"api": {"openapi": "api.json", "server": "http://127.0.0.1:9"}}
    Path("toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return tmp_path


def built() -> dict[str, str]:
    """The names of the tools by operation, as the last build wrote them."""
    manifest = json.loads(Path("generated/manifest.json").read_text(encoding="utf-8"))
    return {identity_of("openapi", tool["origin"], ""): tool["name"] for tool in manifest["tools"]}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
def test_no_living_operation_is_renamed_and_no_name_goes_to_another(history: Path, project: Path, toolgen: Run) -> None:
    versions = json.loads(history.read_text(encoding="utf-8"))["versions"]
    assert len(versions) > 2
    given: dict[str, str] = {}  # every name that there ever was, and its operation
    for number, version in enumerate(versions):
        shuffled = list(version.items())
        random.Random(number).shuffle(shuffled)
        describe(dict(shuffled))
        ended = toolgen("build")
        assert ended.code == 0, ended.err
        now = built()
        assert now.keys() == version.keys()
        for operation, name in now.items():
            assert given.setdefault(name, operation) == operation
        for name, operation in given.items():
            assert now.get(operation, name) == name
        assert toolgen("build", "--check").code == 0


def test_another_operation_id_keeps_the_name_and_the_build_says_so(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "findPets", "GET /pets/{id}": "getPet"})
    toolgen("build")
    describe({"GET /pets": "listAnimals", "GET /pets/{id}": ""})
    out = toolgen("build").out
    assert line_names(out, "note: api: GET /pets ", "findPets", "listAnimals", "api__find_pets", "[names]")
    assert line_names(out, "GET /pets/{id} ", "getPet", "without a name")
    assert "[names]" not in toolgen("build").out
    assert built() == {"GET /pets": "api__find_pets", "GET /pets/{id}": "api__get_pet"}


def test_rename_names_afresh_and_lists_what_policies_mean_then(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets", "GET /dogs": "listDogs"})
    toolgen("build")
    describe({"GET /pets": "listAnimals", "GET /dogs": "listDogs", "GET /cats": "listPets"})
    assert toolgen("build").code == 0
    assert built()["GET /cats"] != "api__list_pets"
    Path("policies").mkdir()
    policy = (
        'principals: {}\nrules:\n  - id: reads\n    tools: ["api__list_pets", "api__list_d*"]\n    verdict: allow\n'
    )
    Path("policies/policy.yaml").write_text(policy, encoding="utf-8")
    ended = toolgen("build", "--rename")
    assert ended.code == 0, ended.err
    assert built() == {"GET /pets": "api__list_animals", "GET /dogs": "api__list_dogs", "GET /cats": "api__list_pets"}
    assert line_names(ended.err, "renamed api__list_pets to api__list_animals ", "(GET /pets)")
    assert line_names(ended.err, "api__list_pets ", "api: GET /pets, ", "api: GET /cats")
    assert line_names(ended.err, "policies/policy.yaml:4: api__list_pets ", "no longer", "(api: GET /pets)")
    assert "api__list_d*" not in ended.err
    assert line_names(toolgen("build", "--rename").err, "no tool ", " name")


def test_a_name_that_is_free_again_after_rename_may_be_given(project: Path, toolgen: Run) -> None:
    describe({"GET /old": "listPets"})
    toolgen("build")
    describe({"GET /new": "listPets"})
    toolgen("build")
    assert built() == {"GET /new": "api__list_pets_new"}
    toolgen("build", "--rename")
    assert built() == {"GET /new": "api__list_pets"}


def test_the_lock_has_one_line_a_tool_with_its_digest(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets", "GET /dogs": "listDogs"})
    toolgen("build")
    manifest = json.loads(Path("generated/manifest.json").read_text(encoding="utf-8"))
    digests = {tool["name"]: tool["digest"] for tool in manifest["tools"]}
    lines = [line.strip() for line in Path(LOCK).read_text(encoding="utf-8").splitlines() if "api__" in line]
    assert lines == [
        f'"GET /dogs": {{"name": "api__list_dogs", "word": "listDogs", "digest": "{digests["api__list_dogs"]}"}},',
        f'"GET /pets": {{"name": "api__list_pets", "word": "listPets", "digest": "{digests["api__list_pets"]}"}}',
    ]


def test_an_operation_that_is_left_out_for_a_while_has_its_name_again(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets", "GET /dogs": "listPets2"})
    toolgen("build")
    before = built()
    text = Path("toolgen.yaml").read_text(encoding="utf-8")
    sources = json.loads(text)
    sources["sources"]["api"]["exclude"] = {"operations": ["listPets"]}
    Path("toolgen.yaml").write_text(json.dumps(sources), encoding="utf-8")
    toolgen("build")
    Path("toolgen.yaml").write_text(text, encoding="utf-8")
    toolgen("build")
    assert built() == before


def test_a_project_built_before_names_were_kept_keeps_them(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets"})
    toolgen("build")
    path = Path("generated/manifest.json")
    path.write_text(path.read_text(encoding="utf-8").replace("api__list_pets", "api__old_name"), encoding="utf-8")
    Path(LOCK).unlink()
    toolgen("build")
    assert built() == {"GET /pets": "api__old_name"}
    assert read_pins(project).tools["api"]["GET /pets"].name == "api__old_name"


def test_a_name_of_toolgen_yaml_is_not_kept(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets"})
    config = json.loads(Path("toolgen.yaml").read_text(encoding="utf-8"))
    renamed = {**config, "tools": {"api__list_pets": {"name": "animals"}}}
    Path("toolgen.yaml").write_text(json.dumps(renamed), encoding="utf-8")
    toolgen("build")
    assert built() == {"GET /pets": "api__animals"}
    Path(LOCK).unlink()
    assert toolgen("build").code == 0
    assert built() == {"GET /pets": "api__animals"}
    Path("toolgen.yaml").write_text(json.dumps(config), encoding="utf-8")
    toolgen("build")
    assert built() == {"GET /pets": "api__list_pets"}


def test_a_lock_that_was_edited_is_written_again_or_refused(project: Path, toolgen: Run) -> None:
    describe({"GET /pets": "listPets", "GET /dogs": "listDogs"})
    toolgen("build")
    right = Path(LOCK).read_text(encoding="utf-8")
    Path(LOCK).write_text(right.replace('"word": "listPets", ', ""), encoding="utf-8")
    checked = toolgen("build", "--check")
    assert (checked.code, LOCK in checked.err) == (1, True)
    toolgen("build")
    assert Path(LOCK).read_text(encoding="utf-8") == right
    for wrong in ("api__list_dogs", "no name"):
        Path(LOCK).write_text(right.replace("api__list_pets", wrong), encoding="utf-8")
        ended = toolgen("build")
        assert ended.code != 0
        assert LOCK in ended.err
    with pytest.raises(ConfigError):
        read_pins(project)


@pytest.mark.parametrize("arguments", [("--check", "--rename"), ("api.json", "--rename")])
def test_rename_is_for_builds_of_projects(project: Path, toolgen: Run, arguments: tuple[str, ...]) -> None:
    describe({"GET /pets": "listPets"})
    assert toolgen("build", *arguments).code == 2
    assert not Path(LOCK).exists()


def test_fields_of_graphql_keep_their_names(project: Path, toolgen: Run) -> None:
    sources = {"g": {"graphql": "s.graphql", "endpoint": "http://127.0.0.1:9/graphql"}}
    Path("toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    Path("s.graphql").write_text("type Query { user: String users: [String] }", encoding="utf-8")
    toolgen("build")
    before = {origin: one.name for origin, one in read_pins(project).tools["g"].items()}
    Path("s.graphql").write_text(
        "type Query { listUsers: [String] getUser: Int user: String users: [String] }", encoding="utf-8"
    )
    assert toolgen("build").code == 0
    after = {origin: one.name for origin, one in read_pins(project).tools["g"].items()}
    assert before.keys() == {"Query.user", "Query.users", "schema"}
    assert before.items() <= after.items()
    assert len(set(after.values())) == 5
