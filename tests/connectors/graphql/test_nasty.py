"""Schemas made to be misread: every operation is valid, what a tool takes the service takes, and what the service takes the tool takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphql import OperationDefinitionNode, build_ast_schema, parse, validate
from graphql.execution.values import get_variable_values
from jsonschema import Draft202012Validator

import toolgen
from tests.connectors.graphql.reading import SKIPS, binding, read_sdl
from toolgen.config.settings import from_mapping
from toolgen.connectors.graphql.description import load_description
from toolgen.connectors.graphql.options import GraphOptions
from toolgen.model.tool import GraphQLBinding
from toolgen.quality.verify import ProvenTool, Unproven, verify_source

NASTY = {
    "roots": """
schema { query: Mutation mutation: Subscription subscription: Query }
type Mutation { query: Int a1b2: N_0 type: Mutation _: Int ok__: Int }
type Subscription { mutation(input: In!, query: String, variables: [Int!]): N_0 fields(fields: In, select: Int): N_0 }
type Query { on: Int! fragment(true: Boolean): N_0! }
type N_0 { id: ID true: Int null: Float on: String }
input In { default: Int = 3, enum: [In!] = [], required: In = null, properties: Boolean! = true, type: E = A }
enum E { A default type }
""",
    "recursion": """
type Query { find(where: Where = {and: [{not: {id: "x"}}]}, by: By!, grid: [[Where!]]!): [Node]  self: Query }
input Where { and: [Where!] or: [Where] not: Where id: ID_In = {eq: 5} at: Moment = {t: [1, {u: null}]} }
input ID_In { eq: ID = "x" in: [ID!] = ["a"] }
input By @oneOf { id: ID slug: String pair: Pair more: [By!] }
input Pair { a: Int! b: Int! = 4 }
scalar Moment
directive @oneOf on INPUT_OBJECT
interface Node { id: ID! }
interface Named implements Node { id: ID! name: String }
interface Deep implements Named & Node { id: ID! name: String deep: Deep }
type A implements Deep & Named & Node { id: ID! name: String deep: Deep a: Int }
type B implements Node { id: ID! a: [String!]! }
""",
    "conflicts": """
union U = A | B | C
type Query { all: [U!]! one(old: Int! = 1 @deprecated, gone: Int @deprecated(reason: "no"), must: Int! @deprecated(reason: "yes")): U v: V }
union V = A | C
type A { x: Int y: [Int!]! z: E same: S }
type B { x: String y: Int z: Int! same: S }
type C { x: Float! y: [[Int]] z: [E] same: S! x_B: Int }
enum E { ONE TWO @deprecated }
type S { id: ID! x: Int }
""",
    "federation": """
extend schema @link(url: "https://specs.apollo.dev/federation/v2.3", import: ["@key"])
extend type Query { topProducts(first: Int = 5): [Product] _entities(representations: [_Any!]!): [_Entity]! _service: _Service! }
type Product @key(fields: "upc") @shareable { upc: String! @external price: Int @cost(weight: "5") upc: String! missing: Nowhere }
union _Entity = Product
scalar _Any
type _Service { sdl: String }
extend type User { id: ID! }
extend input Late { a: Int @unknown }
type Mutation { late(late: Late, lost: Nowhere, needed: Product): Product @rateLimit(max: 1) }
""",
    "wide": "type Query { w(i: I): W }\n"
    + "type W { "
    + " ".join(f"f{n}: {'Int' if n % 3 else f'T{n}'}" for n in range(200))
    + " }\n"
    + "\n".join(f"type T{n} {{ a: Int w: W }}" for n in range(0, 200, 3))
    + "\ninput I { "
    + " ".join(f"{'x' * 30}{n}: [I!]" for n in range(200))
    + " }",
}
VALUES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "roots": [
        ("mutation", {"input": {}}),
        ("mutation", {"input": {"required": None, "enum": [{"enum": []}], "default": None}, "query": None, "variables": []}),
        ("fields", {"fields": {"properties": False}, "select": None}),
    ],
    "recursion": [
        ("find", {"by": {"more": [{"pair": {"a": 1}}]}, "grid": [None, [], [{"not": None, "at": {"k": [1]}}]]}),
        ("find", {"by": {"id": 1}, "grid": [], "where": None}),
    ],
    "conflicts": [("one", {"must": 1}), ("one", {"must": 0, "old": 2, "gone": None})],
    "federation": [
        ("_entities", {"representations": [{"__typename": "Product", "upc": "1"}]}),
        ("late", {}),
        ("late", {"late": {"a": None}})],
    "wide": [("w", {}), ("w", {"i": {f"{'x' * 30}7": [{}]}})],
}  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_a_nasty_schema_is_read_whole_and_true(tmp_path: Path, name: str) -> None:
    (tmp_path / "schema.graphql").write_text(NASTY[name], encoding="utf-8")
    manifest = toolgen.build({"s": {"graphql": "schema.graphql", "endpoint": "http://127.0.0.1:9/"}}, root=tmp_path)
    schema = load_description(str(tmp_path / "schema.graphql")).schema
    made = [tool for tool in manifest.tools.values() if isinstance(tool.binding, GraphQLBinding)]
    tools = {binding(tool).field: tool for tool in made}
    for tool in made:
        Draft202012Validator.check_schema(tool.input_schema)
        document = parse(binding(tool).operation)
        assert validate(schema, document) == []
        [operation] = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
        assert any(word not in {"{", "}", "__typename"} for word in binding(tool).operation.split("{", 1)[1].split())
    for field, arguments in VALUES[name]:
        tool = tools[field]
        assert list(Draft202012Validator(dict(tool.input_schema)).iter_errors(arguments)) == []
        sent = toolgen.preview(manifest, tool.name, arguments)
        assert sent["variables"] == arguments
        [operation] = [one for one in parse(sent["query"]).definitions if isinstance(one, OperationDefinitionNode)]
        assert not isinstance(get_variable_values(schema, operation.variable_definitions or (), arguments), list)


@pytest.mark.parametrize("name", NASTY)
def test_every_tool_of_a_nasty_schema_is_proven(tmp_path: Path, name: str) -> None:
    reading = read_sdl(tmp_path, NASTY[name])
    roots = [one for one in reading.problems if one.level == "error" or one.code in SKIPS]
    made = [tool for tool in reading.tools if isinstance(tool.binding, GraphQLBinding)]
    assert len(reading.tools) + len(roots) == reading.operations
    settings = from_mapping({"s": {"graphql": "schema.graphql"}}, tmp_path)
    report = verify_source(settings["s"].config, examples=12)
    names = {tool.name for tool in made}
    assert {type(one.verdict) for one in report.tools if one.tool in names} <= {ProvenTool, Unproven}


def test_a_scalar_is_what_toolgen_yaml_says_it_is(tmp_path: Path) -> None:
    options = GraphOptions(scalars={"Money": {"type": "integer", "minimum": 0}})
    [tool] = read_sdl(tmp_path, "scalar Money type Query { a(x: Money, y: [Money!]): Int }", graph=options).tools
    check = Draft202012Validator(tool.input_schema)
    assert check.is_valid({"x": None, "y": [3]})
    assert not check.is_valid({"x": "3"})
    assert not check.is_valid({"y": [-1]})


def test_the_schema_stays_buildable_for_graphql_core(tmp_path: Path) -> None:
    """The five are schemas and not noise: with undeclared directives set aside, graphql-core builds them."""
    for name in ("roots", "recursion", "conflicts", "wide"):
        build_ast_schema(parse(NASTY[name]), assume_valid=True, assume_valid_sdl=True)
