"""`toolgen init`: projects from descriptions that hold their own policy, keep every credential out, and overwrite nothing."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.cli.commands import Run, runner
from tests.messages import line_names
from tests.projects import PETS
from toolgen.cli.greeting import ShownKey
from toolgen.cli.new_project import make_project
from toolgen.core.errors import ConfigError


@pytest.fixture
def toolgen(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(capfdbinary)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    path = tmp_path / "description-v2.json"
    text = {**PETS, "info": {"title": "Pet Store API", "version": "1"}, "servers": [{"url": "https://pets.example"}]}
    path.write_text(json.dumps(text), encoding="utf-8")
    return path


def policy(root: Path) -> dict[str, object]:
    read: dict[str, object] = yaml.safe_load((root / "policies" / "policy.yaml").read_text(encoding="utf-8"))
    return read


def test_a_description_makes_a_project_that_holds_its_own_policy(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    made = toolgen("init", pets.name)
    assert made.code == 0, made.err
    assert re.fullmatch(r"tgk_[A-Za-z0-9_-]{43}\n", made.out)
    assert "next: toolgen up" in made.err
    assert toolgen("policy", "check").out.splitlines()[-1] == "1 rules, 2 tests passed, 0 failed"
    assert toolgen("policy", "check", "--json").json()["advice"] == []
    assert [tool["name"] for tool in toolgen("tools", "--as", "agent", "--json").json()] == ["pet_store__get_pet"]
    written = policy(tmp_path)
    assert written["egress"] == {"allow": ["pets.example:443"], "private_networks": "deny", "redirects": "none"}
    digest = hashlib.sha256(made.out.strip().encode()).hexdigest()
    assert written["principals"] == {"agent": {"api_key": f"sha256:{digest}", "roles": ["agent"]}}


def test_the_key_is_in_no_file(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    key = toolgen("init", pets.name).out.strip().encode()
    assert all(key not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_editors_are_told_of_schemas_that_are_there(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    assert toolgen("init", pets.name).code == 0
    for file, kind in (("toolgen.yaml", "toolgen.yaml"), ("policies/policy.yaml", "policy")):
        path = tmp_path / file
        first, rest = path.read_text(encoding="utf-8").split("\n", 1)
        told, _, named = first.partition("=")
        assert told == "# yaml-language-server: $schema"
        schema = json.loads((path.parent / named).read_text(encoding="utf-8"))
        assert schema == toolgen("config", "schema", "--for", kind).json()
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(yaml.safe_load(rest))


def test_credentials_are_names_of_variables(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    made = toolgen("init", pets.name)
    assert line_names(made.err, "pet_store: PET_STORE_KEY")
    source = yaml.safe_load((tmp_path / "toolgen.yaml").read_text(encoding="utf-8"))["sources"]["pet_store"]
    assert source == {"openapi": "description-v2.json", "auth": {"key": "${env:PET_STORE_KEY}"}}


def test_of_several_schemes_the_simplest_is_asked_for(toolgen: Run, tmp_path: Path) -> None:
    text = json.loads(json.dumps(PETS))
    text["components"]["securitySchemes"] = {
        "login": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://a.example", "scopes": {}}}},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    }
    text["paths"]["/pets/{petId}"]["get"]["security"] = [{"login": []}, {"key": []}]
    (tmp_path / "pets.json").write_text(json.dumps(text), encoding="utf-8")
    toolgen("init", "pets.json")
    written = (tmp_path / "toolgen.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(written)["sources"]["pets"]["auth"] == {"key": "${env:PETS_KEY}"}
    assert '    #   login: {token: "${env:PETS_LOGIN}"}\n' in written


def test_the_project_is_named_and_placed_as_asked(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    made = toolgen(
        *("init", pets.name, "--dir", "there", "--name", "animals", "--server", "http://127.0.0.1:8801/api/")
    )
    assert made.code == 0, made.err
    assert line_names(made.err, "next: ", "cd there && toolgen up")
    text = (tmp_path / "there" / "toolgen.yaml").read_text(encoding="utf-8")
    (source,) = yaml.safe_load(text)["sources"].items()
    assert source[0] == "animals"
    assert source[1]["openapi"] == "specs/description-v2.json"
    assert (tmp_path / "there" / "specs" / "description-v2.json").read_bytes() == pets.read_bytes()
    assert policy(tmp_path / "there")["egress"] == {
        "allow": ["127.0.0.1:8801"],
        "private_networks": "deny",
        "redirects": "none",
    }


def test_a_description_of_several_files_stays_where_it_is(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    text = json.loads(pets.read_text(encoding="utf-8"))
    text["paths"]["/pets/{petId}"]["get"]["responses"]["200"] = {"$ref": "parts.json#/ok"}
    pets.write_text(json.dumps(text), encoding="utf-8")
    (tmp_path / "parts.json").write_text(json.dumps({"ok": {"description": "ok"}}), encoding="utf-8")
    assert toolgen("init", pets.name, "--dir", "there").code == 0
    assert "openapi: ../description-v2.json" in (tmp_path / "there" / "toolgen.yaml").read_text(
        encoding="utf-8"
    ).replace('"', "")
    assert toolgen("policy", "check", "--config", "there/toolgen.yaml").code == 0


def test_where_no_server_is_known_none_is_reached(toolgen: Run, tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    assert toolgen("init", "pets.json").code == 0
    assert policy(tmp_path)["egress"] == {"sources": {"pets": []}, "private_networks": "deny", "redirects": "none"}
    assert toolgen("policy", "check").code == 0


def test_a_database_opens_its_tables_without_columns_of_secrets(toolgen: Run, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, password_hash TEXT);"
            'CREATE TABLE "odd: name" (id INTEGER); CREATE VIEW everything AS SELECT * FROM customers;'
        )
    assert toolgen("init", "shop.db").code == 0
    assert policy(tmp_path)["sql"] == {
        "shop": {"tables": {"customers": {"columns": ["id", "name"]}, "odd: name": {}}, "max_rows": 100}
    }
    assert toolgen("policy", "check").code == 0
    assert toolgen("call", "shop__query", "sql=SELECT count(*) AS n FROM customers").json()["rows"] == [[0]]
    assert toolgen("call", "shop__query", "sql=SELECT password_hash FROM customers").code == 1


def test_several_descriptions_make_one_project(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    (tmp_path / "catalog.graphql").write_text("type Query { product(id: ID!): String }", encoding="utf-8")
    assert toolgen("init", pets.name, "catalog.graphql").code == 0
    text = (tmp_path / "toolgen.yaml").read_text(encoding="utf-8")
    assert list(yaml.safe_load(text)["sources"]) == ["pet_store", "catalog"]
    assert '    #   bearer: "${env:CATALOG_TOKEN}"' in text
    assert toolgen("policy", "check").code == 0


@pytest.fixture
def served(pets: Path) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(pets.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/openapi.json"
        server.shutdown()
        thread.join()


def test_a_description_behind_a_url_is_named_by_its_title_and_pinned(toolgen: Run, served: str, tmp_path: Path) -> None:
    made = toolgen("init", served)
    assert made.code == 0, made.err
    assert json.loads((tmp_path / "toolgen.lock").read_text())["descriptions"]["pet_store"]["url"] == served
    assert toolgen("policy", "check").code == 0


def test_a_password_in_a_location_becomes_a_variable(tmp_path: Path) -> None:
    """The database need not be there to see that it is not: what matters is that the password is in no message."""
    location = "postgresql://agent:canary-word@127.0.0.1:1/orders"
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever error says that the database is not there
        make_project(tmp_path / "x", [location])
    assert "canary-word" not in str(raised.value)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["toolgen.yaml", "policies"])
def test_no_file_is_overwritten(toolgen: Run, pets: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if name == "policies" else (tmp_path / name).write_text("mine")
    made = toolgen("init", pets.name)
    assert (made.code, made.out) == (1, "")
    assert f"{name}: already exists" in made.err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, pets.name])


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("shop.graphql", "type Query {a: Int}", "endpoint"),
        ("pets.json", json.dumps({**PETS, "servers": [{"url": "/v1"}]}), "server"),
    ],
)
def test_an_address_that_no_description_says_is_asked_for(
    toolgen: Run, tmp_path: Path, name: str, text: str, key: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    made = toolgen("init", name)
    assert line_names(made.err, f": {key} of {name.partition('.')[0]} ", "toolgen.yaml", "egress.allow")


def test_a_gitignore_that_is_there_stays(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    made = toolgen("init", pets.name)
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert line_names(made.err, "var/", "*.key")


def test_what_is_ignored_is_the_record_and_keys(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    toolgen("init", pets.name)
    assert {"var/", "*.key", "generated/"} <= set((tmp_path / ".gitignore").read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.yaml",), "missing.yaml: there is no such file"),
        (("127.0.0.1:8080/openapi.json",), "there is no such file (a URL begins with https:// or http://)"),
        (("api.example.com/v1/openapi.yaml",), "(a URL begins with https:// or http://)"),
        (("here", "--dir", "there"), "use only --dir"),
        (("one", "two"), "a sample project has one folder"),
        (("--name", "x"), "need a description"),
        (("description-v2.json", "--name", "Not A Name"), "is not a valid name of a source"),
        (("description-v2.json", "missing.json"), "missing.json: there is no such file"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    toolgen: Run, pets: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    made = toolgen("init", *arguments)
    assert made.code in {1, 2}
    assert said in made.err
    assert list(tmp_path.iterdir()) == [pets]


def test_the_sample_project_works_at_once(toolgen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = toolgen("init", str(tmp_path / "new"))
    assert made.code == 0
    monkeypatch.chdir(tmp_path / "new")
    assert toolgen("build", "--json").code == 0
    assert toolgen("policy", "check", "--json").json()["advice"] == []
    assert toolgen("call", "notes__query", "sql=SELECT title FROM notes").json()["row_count"] == 2
    assert toolgen("call", "notes__query", "sql=SELECT * FROM private_notes").code == 1
    assert "already exists" in toolgen("init").err


def test_names_and_places_are_taken_as_they_are(toolgen: Run, pets: Path, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    spec = tmp_path / "specs" / "a: b #1.json"
    spec.write_bytes(pets.read_bytes())
    assert toolgen("init", f"specs/{spec.name}").code == 0
    assert toolgen("build", "--json").json()["sources"][0]["tools"] == 2


@pytest.mark.parametrize("directory", ["/dev/null", "/dev/null/x", "/proc/nowhere"])
def test_where_nothing_can_be_written_is_one_sentence(toolgen: Run, directory: str) -> None:
    ended = toolgen("init", directory)
    assert ended.code == 1
    assert re.fullmatch(r"toolgen: .* cannot be written: .*\n", ended.err), ended.err


def test_a_name_that_is_none_is_refused_before_anything_is_read(tmp_path: Path, pets: Path) -> None:
    with pytest.raises(ConfigError, match="is not a valid name of a source"):
        make_project(tmp_path / "x", [str(pets)], name="9lives")


def test_the_key_of_a_new_project_is_in_no_repr(tmp_path: Path, pets: Path) -> None:
    made = make_project(tmp_path / "made", [str(pets)])
    assert made.key.startswith("tgk_")
    assert made.key not in repr(made)
    assert made.key not in repr(ShownKey("agent", made.key, "for ever"))
