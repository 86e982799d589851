"""A GraphQL tool's proof: valid operations and coercible arguments pass, planted faults do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from graphql import build_schema

from toolgen.connectors.graphql.proof import prove_operation
from toolgen.connectors.proof.verdicts import FailedTool, ProvenTool
from toolgen.model.tool import Effect, GraphQLBinding, Tool

SCHEMA = build_schema(
    """
    enum Size { BIG SMALL }
    input Filter { size: Size!, names: [String!], depth: Int = 1 }
    type Query { find(filter: Filter!, first: Int): String }
    """
)
INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"filter": {"$ref": "#/$defs/Filter"}, "first": {"type": ["integer", "null"], "format": "int32"}},
    "required": ["filter"],
    "$defs": {
        "Filter": {
            "type": "object",
            "properties": {
                "size": {"enum": ["BIG", "SMALL"]},
                "names": {"type": ["array", "null"], "items": {"type": "string"}},
                "depth": {"type": "integer", "format": "int32"},
            },
            "required": ["size"],
            "additionalProperties": False,
        }
    },
}


def tool(**fields: Any) -> Tool:
    binding = GraphQLBinding(
        type="query",
        field="find",
        operation="query find($filter: Filter!, $first: Int) { find(filter: $filter, first: $first) }",
        operation_name="find",
        variables={"filter": "filter", "first": "first"},
        endpoint="",
    )
    return Tool(
        name="s__find",
        title="find",
        description="find",
        input_schema=fields.pop("input_schema", INPUT),
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="s",
        origin="Query.find",
        binding=msgspec.structs.replace(binding, **fields),
    )


def test_a_right_operation_is_proven() -> None:
    verdict = prove_operation(tool(), SCHEMA, examples=20, seed="0")
    assert isinstance(verdict, ProvenTool), verdict
    assert verdict.examples > 5


def closed(**properties: Any) -> dict[str, Any]:
    changed = {**INPUT["$defs"]["Filter"], "properties": {**INPUT["$defs"]["Filter"]["properties"], **properties}}
    return {**INPUT, "$defs": {"Filter": changed}}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"operation": "query find {"}, "not GraphQL"),
        ({"operation": "query find { nothing }"}, "not valid"),
        ({"operation_name": "other"}, "operation does not exist"),
        ({"variables": {"filter": "filter"}}, "sent nowhere"),
        ({"variables": {"filter": "filter", "first": "last"}}, "no variable $last"),
        ({"variables": {"filter": "first", "first": "filter"}}, "$f"),
        ({"input_schema": closed(size={"enum": ["BIG", "HUGE"]})}, "HUGE"),
        ({"input_schema": closed(depth={"type": "number"})}, "Int"),
        ({"input_schema": closed(more={"type": "string"})}, "more"),
    ],
)
def test_a_planted_fault_is_caught(fields: dict[str, Any], reason: str) -> None:
    verdict = prove_operation(tool(**fields), SCHEMA, examples=40, seed="0")
    assert isinstance(verdict, FailedTool)
    assert reason in verdict.reason
