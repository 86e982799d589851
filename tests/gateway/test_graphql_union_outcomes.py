"""Mutations that fail inside a union: the member with an error is a rejection, whatever fields the caller chose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphql import build_schema, parse, print_ast, validate

from toolgen.connectors.graphql.mutation_outcome import ResponseContext, rejection_of
from toolgen.connectors.graphql.selection import choose_fields
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.generator.build import build
from toolgen.model.graphql_schema import rejects
from toolgen.model.tool import GraphQLBinding

SDL = """
type Query { order(id: ID!): Order }
type Order { id: ID! state: String error: Failure }
type Failure { code: String! message: String }
type Failed { error: Failure! }
type Done { order: Order! }
union Outcome = Failed | Done
type Payload { orderOrError: Outcome! clientMutationId: String }
type Mutation { approveOrder(id: ID!): Payload }
"""


@pytest.mark.parametrize(
    ("name", "type_", "entity", "found"),
    [
        ("error", "Failure!", False, True),
        ("mutationError", "Failure", False, True),
        ("error", "String", False, True),
        ("error", "Failure", True, False),
        ("error", "Int", False, False),
        ("errorCount", "Int", False, False),
    ],
)
def test_one_error_of_a_payload_says_why(name: str, type_: str, entity: bool, found: bool) -> None:
    assert rejects(name, type_, entity=entity, depth=2) is found


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"__typename": "Failed", "error": {"code": "invalid_state"}}, "invalid_state"),
        ({"__typename": "Failed", "error": {"code": "c", "message": "it was sold"}}, "it was sold (c)"),
        ({"error": "it was sold"}, "it was sold"),
        ({"__typename": "Done", "order": {"id": "1"}}, ""),
        ({"error": None}, ""),
        ({"error": " "}, ""),
    ],
)
def test_an_error_in_a_member_of_a_union_is_a_rejection(payload: dict[str, Any], said: str) -> None:
    asked = ResponseContext(
        query="mutation { a }", mutation=True, rejections=(("approveOrder", "orderOrError", "error"),)
    )
    error = rejection_of({"approveOrder": {"orderOrError": payload}}, asked)
    assert (error is not None) is bool(said)
    if error is not None:
        assert error.code == "rejected"
        assert error.message.endswith(f": {said}")


@pytest.mark.parametrize(
    "fields",
    [
        "{ clientMutationId }",
        "{ orderOrError { ... on Done { order { state } } } }",
        "{ orderOrError { ... on Failed { error { message } } } }",
        "{ orderOrError { __typename } }",
    ],
)
def test_the_error_is_read_whatever_fields_the_caller_chose(tmp_path: Path, fields: str) -> None:
    (tmp_path / "s.graphql").write_text(SDL, encoding="utf-8")
    source = {"graphql": str(tmp_path / "s.graphql"), "endpoint": "https://shop.example.com/graphql"}
    manifest = build({"shop": source})
    binding = manifest.tools["shop__approve_order"].binding
    assert isinstance(binding, GraphQLBinding)
    assert binding.rejections == (("approveOrder", "orderOrError", "error"),)
    graph = manifest.sources["shop"].graph
    assert graph is not None
    operation, _ = choose_fields(graph, binding, parse(binding.operation), fields, None)
    assert validate(build_schema(SDL), parse(operation)) == []
    assert "... on Failed { error { code message } }" in " ".join(print_ast(parse(operation)).split())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("{ orderOrError { order { id } } }", "; Done has order: write ... on Done { order }"),
        ("{ orderOrErr { id } stat }", "Payload has no fields 'orderOrErr' (did you mean 'orderOrError'?), 'stat'"),
        ("{ orderOrError { ... on Done { order { stat } } } }", "Order has no field 'stat' (did you mean 'state'?)"),
        ("{ orderOrError { ... on Done { order { zzz } } } }", "Order has no field 'zzz': it has id, state, error"),
    ],
)
def test_fields_that_there_are_not_are_named_with_those_there_are(tmp_path: Path, fields: str, said: str) -> None:
    (tmp_path / "s.graphql").write_text(SDL, encoding="utf-8")
    source = {"graphql": str(tmp_path / "s.graphql"), "endpoint": "https://shop.example.com/graphql"}
    manifest = build({"shop": source})
    binding, graph = manifest.tools["shop__approve_order"].binding, manifest.sources["shop"].graph
    assert isinstance(binding, GraphQLBinding)
    assert graph is not None
    with pytest.raises(UnbindableError) as refused:
        choose_fields(graph, binding, parse(binding.operation), fields, None)
    assert said in str(refused.value)
