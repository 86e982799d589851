"""Trusted operation files: what becomes a tool, what its directives say, and every mistake with its file and line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from graphql import build_schema, parse, validate
from jsonschema import Draft202012Validator

from tests.connectors.graphql.reading import binding, read_sdl, tools_of
from tests.services.library import SDL
from toolgen.config.settings import from_mapping
from toolgen.connectors.graphql.options import GraphOptions
from toolgen.connectors.source import SourceReading
from toolgen.model.tool import Effect, Tool


def read_files(directory: Path, *texts: str, **options: Any) -> SourceReading:
    paths = []
    for number, text in enumerate(texts, 1):
        path = directory / f"f{number}.graphql"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return read_sdl(directory, SDL, graph=GraphOptions(operations=tuple(paths), **options))


def only(reading: SourceReading) -> Tool:
    assert [one for one in reading.problems if one.level == "error"] == []
    [tool] = reading.tools
    return tool


def test_an_operation_becomes_the_tool_it_describes(tmp_path: Path) -> None:
    text = """
    query FindBooks(
      $shelf: Shelf @describe(as: "Which shelf")
      "How many"
      $first: Int! = 5
      $after: String @hidden
      $tenant: String @bind(to: "principal.on_behalf_of.attributes.tenant")
    ) @tool(name: "find_books", title: "Find books", description: "Finds them.", effect: WRITE, idempotent: false) {
      books(filter: {shelf: $shelf}, first: $first, after: $after) { edges { node { ...B } } }
      echo(value: $tenant)
    }
    """
    tool = only(read_files(tmp_path, text, "fragment B on Book { id ...C } fragment C on Book { title }"))
    assert (tool.name, tool.title, tool.description) == ("s__find_books", "Find books", "Finds them.")
    assert (tool.effect, tool.idempotent, tool.origin) == (Effect.WRITE, False, "f1.graphql#FindBooks")
    assert "required" not in tool.input_schema
    properties = tool.input_schema["properties"]
    assert list(properties) == ["shelf", "first"]
    assert properties["shelf"]["description"].startswith("Which shelf")
    assert properties["first"]["default"] == 5
    made = binding(tool)
    assert made.bound == {"tenant": "principal.on_behalf_of.attributes.tenant"}
    assert made.pages == ("first",)
    assert made.hash == "sha256:" + hashlib.sha256(made.operation.encode()).hexdigest()
    assert validate(build_schema(SDL), parse(made.operation)) == []
    assert not any(word in made.operation for word in ("@tool", "@hidden", "@bind", "@describe", "How many"))


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ('"""What it does."""\nquery A { marks { label } }', "What it does."),
        ("# What it\n# does.\nquery A { marks { label } }", "What it\ndoes."),
        ("query A { marks { label } }", "The GraphQL query `A`."),
    ],
)
def test_the_description_is_what_stands_before_the_operation(tmp_path: Path, text: str, description: str) -> None:
    assert only(read_files(tmp_path, text)).description == description


def test_the_answer_is_described_by_its_response_names(tmp_path: Path) -> None:
    text = """query A($x: Boolean!) {
      found: items { kind: __typename ... on Book { id pages } ... on Film { id minutes @include(if: $x) long: pages } } echo @skip(if: $x)
    }"""
    schema = only(read_files(tmp_path, text)).output_schema
    assert schema is not None
    assert schema["required"] == ["found"]
    inner = schema["properties"]["found"]["items"]
    assert inner["required"] == ["kind"]
    assert list(inner["properties"]) == ["kind", "id", "pages", "minutes", "long"]
    check = Draft202012Validator(schema)
    assert check.is_valid({"found": [{"kind": "Book", "id": "1", "pages": None}], "echo": None})
    assert not check.is_valid({"found": [{"kind": "Film", "id": None}]})


@pytest.mark.parametrize(
    ("text", "origin", "code"),
    [
        ("query A {\n  marks { label }", "f1.graphql:2", "invalid_file"),
        ("query A { marks { label } }\nquery A { echo }", "f1.graphql:2", "duplicate_operation"),
        ("query A { marks { label } }\n\n{ echo }", "f1.graphql:3", "unnamed_operation"),
        ("query A { marks { label } }\ntype X { a: Int }", "f1.graphql:2", "no_operation"),
        ("query A {\n  marks { label }\n  nothing\n}", "f1.graphql:3", "invalid_operation"),
        ("query A {\n  marks {\n ...F } }", "f1.graphql:3", "invalid_operation"),
        ("query A { echo }\nfragment F on Book { id }\nfragment F on Book { id }", "f1.graphql:3", "duplicate_fragment"),
        ("query A(\n$x: Nope) { echo(value: $x) }", "f1.graphql:2", "invalid_operation"),
        ("query A($x: String) @tool(nme: \"a\") { echo(value: $x) }", "f1.graphql:1", "invalid_directive"),
        ("query A @tool(name: \"A-b\") { echo }", "f1.graphql:1", "invalid_directive"),
        ("query A @tool(effect: MAYBE) { echo }", "f1.graphql:1", "invalid_directive"),
        ("query A @tool(title: 1) { echo }", "f1.graphql:1", "invalid_directive"),
        ("query A @tool @tool { echo }", "f1.graphql:1", "invalid_directive"),
        ("query A @hidden { echo }", "f1.graphql:1", "invalid_directive"),
        ("query A($b: BookBy! @hidden) { book(by: $b) { id } }", "f1.graphql:1", "invalid_directive"),
        ("query A($x: String @hidden @describe(as: \"x\")) { echo(value: $x) }", "f1.graphql:1", "invalid_directive"),
        ("query A($x: String @bind(to: \"env.SECRET\")) { echo(value: $x) }", "f1.graphql:1", "invalid_directive"),
        ("query A($x: String @bind) { echo(value: $x) }", "f1.graphql:1", "invalid_directive"),
        ("query A($x: String @bind(to: \"principal.id\") @hidden) { echo(value: $x) }", "f1.graphql:1", "invalid_directive"),
        ("query A { echo @other }", "f1.graphql:1", "invalid_operation"),
        ("subscription A { added { id } }", "f1.graphql:1", "unsupported_subscription"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_with_its_file_and_line(tmp_path: Path, text: str, origin: str, code: str) -> None:
    reading = read_files(tmp_path, text, "query Fine { marks { label } }")
    assert [(one.origin, one.code) for one in reading.problems if one.level == "error"] == [(origin, code)]
    assert "s__fine" in tools_of(reading)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"x" * (1024 * 1024 + 1), b"{" * 100_000])
def test_a_file_that_is_no_operation_file_is_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "bad.graphql"
    path.write_bytes(raw)
    reading = read_sdl(tmp_path, SDL, graph=GraphOptions(operations=(str(path),)))
    assert [one.code for one in reading.problems if one.level == "error"] == ["invalid_file"]
    assert reading.tools == ()


def test_with_files_root_fields_are_tools_only_where_they_are_included(tmp_path: Path) -> None:
    text = "query Fine { marks { label } }"
    path = tmp_path / "f1.graphql"
    path.write_text(text, encoding="utf-8")
    options = {"graph": GraphOptions(operations=(str(path),)), "include": {"operations": ["ech*"]}}
    reading = read_sdl(tmp_path, SDL, **options)
    assert sorted(tools_of(reading)) == ["s__fine", "s__get_echo"]
    assert reading.files[str(path)] == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_new_file_is_seen_by_the_glob_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "b.graphql").write_text("query B { echo }", encoding="utf-8")
    given = {"s": {"graphql": "schema.graphql", "operations": "ops/*.graphql"}}
    before = from_mapping(given, tmp_path)["s"].config.graph.operations
    (tmp_path / "ops" / "a.graphql").write_text("query A { echo }", encoding="utf-8")
    after = from_mapping(given, tmp_path)["s"].config.graph.operations
    assert ([Path(one).name for one in before], [Path(one).name for one in after]) == (
        ["b.graphql"],
        ["a.graphql", "b.graphql"],
    )
