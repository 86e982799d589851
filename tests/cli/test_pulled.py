"""Documents that a description pulls in from elsewhere: pinned with it, refused when they change, and built from offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.cli.remote import Descriptions, configure
from tests.messages import line_names
from tests.projects import PETS
from tests.services.local import running
from toolgen.connectors.pins import COPIES, LOCK


@pytest.fixture
def served() -> Iterator[Descriptions]:
    descriptions = Descriptions()
    descriptions.answers = {
        "/types/pet.json": json.dumps({"Id": {"$ref": "more/id.json#/Id"}}).encode(),
        "/types/more/id.json": b'{"Id": {"type": "integer", "maximum": 9}}',
        "/secret/id.json": b'{"Id": {"const": "secret"}}',
    }
    with running(descriptions.server):
        yield descriptions


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Descriptions) -> Path:
    """A project whose description is a file that refers to a server."""
    monkeypatch.chdir(tmp_path)
    refer(f"{served.url}/types/pet.json#/Id")
    configure(tmp_path, pets={"openapi": "pets.json", "refs": [f"{served.url}/types/"], "server": "http://127.0.0.1:9"})
    return tmp_path


def refer(ref: str) -> None:
    pets = json.loads(json.dumps(PETS))
    pets["paths"]["/pets/{petId}"]["get"]["parameters"][0]["schema"] = {"$ref": ref}
    Path("pets.json").write_text(json.dumps(pets), encoding="utf-8")


def pinned() -> dict[str, Any]:
    if not Path(LOCK).exists():
        return {}
    found: dict[str, Any] = json.loads(Path(LOCK).read_text(encoding="utf-8")).get("references", {}).get("pets", {})
    return found


def argument() -> Any:
    tools = json.loads(Path("generated/manifest.json").read_bytes())["tools"]
    (schema,) = [tool["input_schema"] for tool in tools if tool["name"] == "pets__get_pet"]
    return schema["properties"]["petId"], schema.get("$defs")


def test_what_is_pulled_in_is_pinned_and_a_second_build_changes_nothing(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    built = toolgen("build")
    assert built.code == 0
    urls = [f"{served.url}/types/more/id.json", f"{served.url}/types/pet.json"]
    assert [f"pinned {url} for pets" in built.err for url in urls] == [True, True]
    assert sorted(pinned()) == urls
    for entry in pinned().values():
        assert (project / entry["copy"]).read_bytes() in served.answers.values()
    assert "maximum" in json.dumps(argument())
    again = toolgen("build")
    assert again.code == 0
    assert "up to date" in again.out
    assert again.err == ""
    assert toolgen("build", "--check").code == 0


def test_a_change_is_refused_with_what_it_does_until_it_is_accepted(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    assert toolgen("build").code == 0
    before = argument()
    served.answers["/types/more/id.json"] = b'{"Id": {"type": "integer", "maximum": 5}}'
    refused = toolgen("build")
    assert refused.code == 1
    assert line_names(refused.err, f"{served.url}/types/more/id.json differs", LOCK)
    assert "breaking    pets__get_pet: argument `petId`" in refused.err
    assert "--update-pins" in refused.err
    assert argument() == before
    assert toolgen("build", "--check").code == 0
    assert toolgen("build", "--update-pins").code == 0
    assert argument() != before
    assert toolgen("build").code == 0


def test_a_change_that_pulls_in_more_shows_what_all_of_it_does(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    assert toolgen("build").code == 0
    served.answers["/types/pet.json"] = json.dumps({"Id": {"$ref": "new.json#/Id"}}).encode()
    served.answers["/types/new.json"] = b'{"Id": {"type": "string"}}'
    refused = toolgen("build")
    assert refused.code == 1
    assert "argument `petId` is now string" in refused.err
    assert f"{served.url}/types/new.json" not in pinned()
    assert toolgen("build", "--update-pins").code == 0
    assert sorted(pinned()) == [f"{served.url}/types/new.json", f"{served.url}/types/pet.json"]
    assert len(list((project / COPIES / "pets").iterdir())) == 2


def test_offline_everything_is_built_from_the_copies(project: Path, served: Descriptions, toolgen: Run) -> None:
    assert toolgen("build").code == 0
    served.answers.clear()
    Path("generated/manifest.json").unlink()
    offline = toolgen("build")
    assert offline.code == 0
    assert [line_names(line, "500", "pinned copy") for line in offline.err.splitlines()].count(True) == 2
    assert "maximum" in json.dumps(argument())
    asked = len(served.asked)
    assert toolgen("build", "--check").code == 0
    assert len(served.asked) == asked


def test_what_cannot_be_had_costs_its_operation_and_is_asked_for_again(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    kept = served.answers.pop("/types/more/id.json")
    first = toolgen("build")
    assert first.code == 0
    assert "left out" in first.err
    assert "not pinned" in first.out
    assert sorted(pinned()) == [f"{served.url}/types/pet.json"]
    served.answers["/types/more/id.json"] = kept
    assert toolgen("build").code == 0
    assert len(pinned()) == 2
    assert "maximum" in json.dumps(argument())


def test_a_copy_that_was_edited_is_not_built_from(project: Path, served: Descriptions, toolgen: Run) -> None:
    assert toolgen("build").code == 0
    assert toolgen("build").code == 0  # this one is recorded
    entry = pinned()[f"{served.url}/types/more/id.json"]
    (project / entry["copy"]).write_bytes(b'{"Id": {"type": "string"}}')
    for command in (["build"], ["build", "--check"]):
        refused = toolgen(*command)
        assert refused.code == 1
        assert line_names(refused.err, Path(entry["copy"]).name, "differs", "pinned")
    (project / entry["copy"]).unlink()
    assert "cannot be read" in toolgen("build", "--check").err
    assert toolgen("build").code == 0
    assert toolgen("build", "--check").code == 0


def test_what_is_no_longer_listed_or_referred_to_is_no_longer_pinned(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    assert toolgen("build").code == 0
    refer(f"{served.url}/types/more/id.json#/Id")
    assert toolgen("build").code == 0
    assert sorted(pinned()) == [f"{served.url}/types/more/id.json"]
    configure(project, pets={"openapi": "pets.json", "server": "http://127.0.0.1:9"})
    checked = toolgen("build", "--check")
    assert checked.code == 1
    built = toolgen("build")
    assert f"list it or `{served.url}/` under the source's `refs:`" in built.out
    assert pinned() == {}
    assert not Path(COPIES).exists()


ATTACKS = [
    "{url}/secret/id.json#/Id",
    "{url}/types/../secret/id.json#/Id",
    "{url}/types/%2e%2e/secret/id.json#/Id",
    "{url}/types/..%2fsecret/id.json#/Id",
    "{url}/typesecret/id.json#/Id",
    "{user}/types/pet.json#/Id",
    "{url}/types/pet.json?x=1#/Id",
    "{port}/types/pet.json#/Id",
    "{other}/types/pet.json#/Id",
    "file:///etc/hostname",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("within", [False, True])
def test_nothing_else_is_asked_for(
    project: Path, served: Descriptions, toolgen: Run, attack: str, within: bool
) -> None:
    authority = served.url.partition("//")[2]
    port = int(served.url.rpartition(":")[2])
    ref = attack.format(
        url=served.url,
        user=f"http://user@{authority}",
        port=f"http://127.0.0.1:{port + 1}",
        other=f"http://localhost:{port}",
    )
    if within:
        served.answers["/types/pet.json"] = json.dumps({"Id": {"$ref": ref}}).encode()
    else:
        refer(ref)
    built = toolgen("build")
    assert built.code == 0
    assert served.asked == (["/types/pet.json"] if within else [])
    (problem,) = [line for line in built.out.splitlines() if "[unresolved_ref]" in line]
    assert "/pets/{petId}/get".replace("/", "~1").replace("~1get", "/get") in problem
    assert "secret" not in Path("generated/manifest.json").read_text(encoding="utf-8").replace(ref, "")


def test_a_redirect_stays_below_the_list_and_is_where_references_start(
    project: Path, served: Descriptions, toolgen: Run
) -> None:
    served.redirects["/types/pet.json"] = "/types/v2/pet.json"
    served.answers["/types/v2/pet.json"] = json.dumps({"Id": {"$ref": "id.json#/Id"}}).encode()
    served.answers["/types/v2/id.json"] = b'{"Id": {"type": "integer", "maximum": 7}}'
    assert toolgen("build").code == 0
    assert pinned()[f"{served.url}/types/pet.json"]["base"] == f"{served.url}/types/v2/pet.json"
    assert "7" in json.dumps(argument())
    served.redirects["/types/pet.json"] = "/secret/id.json"
    asked = served.asked.count("/secret/id.json")
    refused = toolgen("build")
    assert line_names(refused.err, "redirects", "`refs:`", "pinned copy")
    assert served.asked.count("/secret/id.json") == asked == 0


def test_documents_in_a_circle_and_in_an_endless_row_end(project: Path, served: Descriptions, toolgen: Run) -> None:
    served.answers["/types/more/id.json"] = json.dumps({"Id": {"$ref": "../pet.json#/Id"}}).encode()
    assert "leads in circles" in toolgen("build").out
    for number in range(30):
        row = {"Id": {"$ref": f"{number + 1}.json#/Id"}}
        served.answers[f"/types/{number}.json"] = json.dumps(row).encode()
    refer(f"{served.url}/types/0.json#/Id")
    endless = toolgen("build")
    assert endless.code == 1
    assert "over more than 20 steps" in endless.err


def test_a_remote_description_pulls_in_what_stands_beside_it(project: Path, served: Descriptions, toolgen: Run) -> None:
    refer("types/pet.json#/Id")
    served.answers["/pets.json"] = Path("pets.json").read_bytes()
    source = {"openapi": f"{served.url}/pets.json", "server": "http://127.0.0.1:9"}
    configure(project, pets=source)
    built = toolgen("build")
    assert f"list it or `{served.url}/` under the source's `refs:`" in built.out
    assert "/types/pet.json" not in served.asked
    configure(project, pets={**source, "refs": [f"{served.url}/types"]})
    assert toolgen("build").code == 0
    assert len(pinned()) == 2
    assert toolgen("verify").code == 0
    assert toolgen("lint").code in {0, 1}
    assert "maximum" in json.dumps(argument())


@pytest.mark.parametrize(
    ("refs", "reason"),
    [
        (["http://schemas.example.com/"], "plain http"),
        (["https://schemas.example.com/?a=b"], "query"),
        (["https://u:p@schemas.example.com/"], "user name"),
        (["https://schemas.example.com/a/../"], "different ways"),
        (["schemas.example.com"], "of a host"),
        (["*"], "of a host"),
    ],
)
def test_a_list_that_is_none_is_refused_with_its_line(
    project: Path, toolgen: Run, refs: list[str], reason: str
) -> None:
    configure(project, pets={"openapi": "pets.json", "refs": refs})
    refused = toolgen("build")
    assert refused.code in {1, 2}
    assert "toolgen.yaml:1" in refused.err
    assert reason in refused.err


def test_only_openapi_has_such_a_list(project: Path, toolgen: Run) -> None:
    configure(project, shop={"sql": "sqlite:///shop.db", "refs": ["https://schemas.example.com/"]})
    assert line_names(toolgen("build").err, "refs: ", "openapi sources")
