"""`tools: {NAME: {selection: …}}` of a GraphQL source: what a tool reads by default, checked against the schema when it is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphql import build_schema, parse, validate

from tests.connectors.graphql.reading import binding
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.generator.build import build_sources
from toolgen.model.manifest import Manifest

SDL = """
type Query { issue(id: ID!): Issue issues(first: Int, after: String): IssueConnection node(id: ID!): Node count: Int }
type Mutation { closeIssue(id: ID!): ClosePayload }
interface Node { id: ID! }
type Issue implements Node { id: ID! title: String body(limit: Int): String owner: User labels(first: Int): [Label] }
type User implements Node { id: ID! name: String email: String }
type Label { name: String color: String }
type ClosePayload { issue: Issue userErrors: [UserError!]! }
type UserError { message: String field: [String] }
type IssueConnection { nodes: [Issue] pageInfo: PageInfo! totalCount: Int }
type PageInfo { hasNextPage: Boolean! endCursor: String }
"""


def built(folder: Path, tools: str) -> Manifest:
    (folder / "schema.graphql").write_text(SDL, encoding="utf-8")
    (folder / "toolgen.yaml").write_text(
        "sources:\n  hub:\n    graphql: schema.graphql\n    endpoint: https://hub.test/graphql\n    tools:\n" + tools,
        encoding="utf-8",
    )
    return build_sources(load(folder / "toolgen.yaml").sources).manifest


def one(folder: Path, tool: str, selection: str) -> Any:
    manifest = built(folder, f"      {tool}: {{selection: '{selection}'}}\n")
    found = next(one for one in manifest.tools.values() if one.name.endswith(tool.removeprefix("hub__")))
    operation = binding(found).operation
    assert validate(build_schema(SDL), parse(operation)) == []
    return found


@pytest.mark.parametrize("name", ["get_issue", "hub__get_issue"])
@pytest.mark.parametrize("text", ["{ title owner { name } }", "title owner { name }"])
def test_a_tool_reads_what_the_project_chose(tmp_path: Path, name: str, text: str) -> None:
    tool = one(tmp_path, name, text)
    flat = " ".join(binding(tool).operation.split())
    assert flat == "query hub__get_issue($id: ID!) { issue(id: $id) { title owner { name } } }"
    issue = tool.output_schema["properties"]["issue"]
    assert issue["properties"].keys() == {"title", "owner"}
    assert "fields" in tool.input_schema["properties"]  # agents may still ask for others


def test_a_root_field_is_named_by_its_coordinate_too(tmp_path: Path) -> None:
    tools = tools_of_manifest(built(tmp_path, "      Query.issue: {selection: id}\n"))
    assert "owner" not in tools["hub__get_issue"]


def tools_of_manifest(manifest: Manifest) -> dict[str, str]:
    return {
        name: binding(tool).operation for name, tool in manifest.tools.items() if tool.name != "hub__describe_types"
    }


def test_other_tools_keep_their_defaults(tmp_path: Path) -> None:
    chosen = tools_of_manifest(built(tmp_path, "      get_issue: {selection: id}\n"))
    plain = tools_of_manifest(built(tmp_path, "      list_issues: {selection: totalCount}\n"))
    assert chosen["hub__list_issues"] != plain["hub__list_issues"]
    assert chosen["hub__get_node"] == plain["hub__get_node"]


@pytest.mark.parametrize(
    ("tool", "text", "says"),
    [
        ("get_issue", '{ id head: body(limit: 3) labels(first: 2) { name } }', "head: body(limit: 3)"),
        ("get_node", "{ __typename id ... on User { name } }", "... on User {"),
        ("close_issue", "{ issue { title } userErrors { message } }", "userErrors {"),
    ],
)  # fmt: skip
def test_arguments_aliases_and_fragments_are_taken(tmp_path: Path, tool: str, text: str, says: str) -> None:
    assert says in binding(one(tmp_path, tool, text)).operation


def test_what_a_mutation_rejects_is_still_known(tmp_path: Path) -> None:
    assert binding(one(tmp_path, "close_issue", "{ issue { title } userErrors { message } }")).rejections


def test_pages_can_still_be_followed(tmp_path: Path) -> None:
    tool = binding(one(tmp_path, "list_issues", "{ nodes { title } }"))
    assert "pageInfo" in tool.operation
    assert tool.cursor


@pytest.mark.parametrize(
    ("tool", "text", "says"),
    [
        ("get_issue", "{ id tittle }", "Issue has no field 'tittle' (did you mean 'title'?)"),
        ("get_issue", "{ owner }", "must have a selection of subfields"),
        ("get_issue", "{ title { x } }", "String has no field 'x'"),
        ("get_issue", "{ id", "Syntax Error"),
        ("get_issue", "", "must have a selection of subfields"),
        ("get_issue", "{ id } query Other { count }", "more than one selection set"),
        ("get_issue", "{ ...Parts }", "takes fields, and fragments with a type"),
        ("get_issue", "{ id @include(if: true) }", "no directives"),
        ("get_issue", "{ body(limit: $limit) }", "Variable ''$limit'' is not defined"),
        ("get_issue", '{ body(limit: "x") }', "Int cannot represent"),
        ("get_node", "{ ... on Usr { name } }", "there is no type ''Usr''"),
        ("count", "{ id }", "has no fields to choose"),
        ("get_isue", "{ id }", "no root field''s tool ''get_isue'' (did you mean ''get_issue''?)"),
    ],
)
def test_what_the_schema_does_not_know_is_an_error_with_its_line(
    tmp_path: Path, tool: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        built(tmp_path, f"      {tool}:\n        selection: '{text}'\n")
    assert says.replace("''", "'") in raised.value.message
    assert raised.value.where.endswith("toolgen.yaml:7")


@pytest.mark.parametrize("written", ["{selection: 7}", "{fields: id}", "{}", "id"])
def test_what_is_no_selection_is_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(ConfigError):
        built(tmp_path, f"      get_issue: {written}\n")


def test_only_graphql_sources_have_it(tmp_path: Path) -> None:
    (tmp_path / "toolgen.yaml").write_text(
        "sources:\n  shop:\n    openapi: shop.json\n    tools: {list: {selection: id}}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="belongs to graphql sources"):
        load(tmp_path / "toolgen.yaml")
