"""What a tool reads by default, and that its output schema describes exactly that."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLSchema,
    execute_sync,
    get_named_type,
    is_abstract_type,
    parse,
)
from jsonschema import Draft202012Validator

from tests.connectors.graphql.reading import binding, edges, read_sdl, tools_of
from toolgen.model.tool import Tool

EXPECTED = {
    "posts": """posts(first: $first, where: $where) {
        totalCount
        pageInfo { hasNextPage endCursor }
        edges { cursor node { id title author { id role meta matrix } } }
    }""",
    "node": """node(id: $id) {
        __typename
        id
        ... on User { role meta matrix }
        ... on Bot { label role_Bot: role tags }
        ... on Post { title }
    }""",
    "actors": """actors {
        __typename
        ... on User { id role meta matrix }
        ... on Bot { id role_Bot: role label tags }
        ... on Ghost { role_Ghost: role label_Ghost: label }
    }""",
    "closed": "closed { __typename }",
    "createUser": """createUser(input: $input) {
        clientMutationId
        userErrors { message field }
        user { id }
    }""",
    "ping": "ping",
}


def fields_of(operation: str) -> list[str]:
    return sorted(operation.partition("{")[2].replace("{", " { ").replace("}", " } ").split()[:-1])


@pytest.mark.parametrize("field", sorted(EXPECTED))
def test_the_default_selection(field: str) -> None:
    tools, _ = edges()
    operation = next(binding(tool).operation for tool in tools.values() if binding(tool).field == field)
    assert fields_of(operation) == sorted(EXPECTED[field].replace("{", " { ").replace("}", " } ").split()), operation


def test_deprecated_fields_and_fields_that_need_arguments_are_left_alone() -> None:
    tools, _ = edges()
    whole = " ".join(binding(tool).operation for tool in tools.values()).split()
    assert "secret" not in whole
    assert "name" not in whole
    assert "posts" not in whole


def answering(schema: GraphQLSchema, seed: int) -> Any:
    """Resolvers that answer any field with a random value of its type, nulls and empty lists among them."""
    rng = random.Random(seed)

    def value(type_: Any) -> Any:
        if isinstance(type_, GraphQLNonNull):
            return present(type_.of_type)
        return None if rng.random() < 0.2 else present(type_)

    def present(type_: Any) -> Any:
        match type_:
            case GraphQLList():
                return [value(type_.of_type) for _ in range(rng.randrange(3))]
            case GraphQLEnumType():
                return rng.choice(list(type_.values.values())).value
            case _ if is_abstract_type(type_):
                return {"__typename": rng.choice(list(schema.get_possible_types(type_))).name}
        plain = {"Int": 7, "Float": 1.5, "Boolean": True, "String": "text", "ID": "id1", "JSON": {"a": [None]}}
        return plain.get(get_named_type(type_).name, {"__typename": str(type_)})

    return lambda _source, info, **_: value(info.return_type)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_back_fits_the_output_schema(seed: int) -> None:
    tools, schema = edges()
    arguments = {"id": "1", "by": {"id": "1"}, "cells": [[1]], "input": {"name": "x", "when": "now"}}
    for tool in tools.values():
        result = execute_sync(
            schema,
            parse(binding(tool).operation),
            variable_values={name: arguments[name] for name in binding(tool).variables if name in arguments},
            field_resolver=answering(schema, seed),
            type_resolver=lambda value, *_: value["__typename"],
        )
        assert not result.errors
        assert tool.output_schema is not None
        Draft202012Validator(_closed(tool.output_schema)).validate(result.data)


def _closed(schema: Any) -> Any:
    """The same schema, refusing what it does not name: so that nothing selected is missing from it."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(item) for key, item in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed


def test_nullable_results_may_be_null_and_are_never_missing() -> None:
    tools, _ = edges()
    output = tools["s__get_node"].output_schema
    assert output is not None
    validator = Draft202012Validator(output)
    assert validator.is_valid({"node": None})
    assert not validator.is_valid({})


@pytest.mark.parametrize(
    ("types", "selected"),
    [
        ("type A { x: Int } type B { x: Int! }", {"x", "x_B"}),
        ("type A { x: [Int] } type B { x: Int }", {"x", "x_B"}),
        ("type A { x: Int x_B: Int } type B { x: String }", {"x", "x_B", "x_B_"}),
        ("type A { x: Int } type B { x: Int }", {"x"}),
        ("type A { o: C } type B { o: D } type C { a: Int } type D { a: Int }", {"o", "o_B"}),
        ("type A { o: C } type B { o: C } type C { a: Int }", {"o"}),
    ],
)
def test_fields_of_one_name_and_several_types_answer_under_aliases(
    tmp_path: Path, types: str, selected: set[str]
) -> None:
    reading = read_sdl(tmp_path, f"{types} union U = A | B type Query {{ u: U }}")
    assert reading.problems == ()
    [tool] = reading.tools
    assert tool.output_schema is not None
    assert set(tool.output_schema["properties"]["u"]["properties"]) == selected | {"__typename"}


def test_a_connection_below_an_object_is_not_opened(tmp_path: Path) -> None:
    sdl = """
    type Query { shop: Shop lonely: Lonely }
    type Shop { name: String things: Things }
    type Lonely { things: Things }
    type Things { nodes: [Thing] pageInfo: Page! }
    type Page { hasNextPage: Boolean! }
    type Thing { id: ID more: Things }
    """
    tools: dict[str, Tool] = tools_of(read_sdl(tmp_path, sdl))
    assert "things" not in binding(tools["s__get_shop"]).operation
    # Without it there would be nothing to read; and one page is opened, never a page of a page.
    assert binding(tools["s__get_lonely"]).operation.count("nodes") == 1


def test_the_query_root_is_never_read_again_from_below(tmp_path: Path) -> None:
    sdl = "type Query { id: ID query: Query node: Node } type Node { id: ID query: Query }"
    tools = tools_of(read_sdl(tmp_path, sdl))
    assert binding(tools["s__get_node"]).operation.split()[-5:] == ["node", "{", "id", "}", "}"]


def test_a_connection_of_scalars_is_read_once(tmp_path: Path) -> None:
    sdl = "type Query { tags: Tags } type Tags { nodes: [String!]! pageInfo: Page! pageInfoNote: Int } type Page { a: Int }"
    [tool] = read_sdl(tmp_path, sdl).tools
    assert fields_of(binding(tool).operation) == sorted(
        ["tags", "{", "pageInfoNote", "pageInfo", "{", "a", "}", "nodes", "}"]
    )
    Draft202012Validator.check_schema(tool.output_schema)
