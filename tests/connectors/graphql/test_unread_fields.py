"""Fields that a default answer leaves out, counted by the types of what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from graphql import parse

from tests.connectors.graphql.reading import binding, read_sdl, tools_of
from toolgen.connectors.graphql.unread_fields import unread_fields

SDL = """
interface Node { id: ID! }
type User implements Node { id: ID! name: String a: Int b: Int }
type Page { hasNextPage: Boolean! endCursor: String }
type Order implements Node { id: ID! name: String state: State buyer: User total(currency: String!): Int secret: Query }
enum State { OPEN PAID }
type OrderEdge { node: Order cursor: String }
type Orders { edges: [OrderEdge] nodes: [Order] pageInfo: Page! totalCount: Int }
type Failed { code: String message: String }
union Result = Order | Failed
type Payload { order: Order ok: Boolean }
type Query { order(id: ID!): Order orders(first: Int): Orders found(id: ID!): Result count: Int user(id: ID!): User }
type Mutation { updateOrder(id: ID!): Payload }
"""


@pytest.mark.parametrize(
    ("tool", "stored", "unread"),
    [
        ("s__get_order", "{ order { id name } }", {"Order": 3}),  # nobody may choose the way back to the root
        ("s__get_order", "{ order { id name state total(currency: \"EUR\") buyer { id } } }", {}),
        ("s__list_orders", "{ orders { nodes { id } pageInfo { endCursor } } }", {"Order": 4}),
        ("s__list_orders", "{ orders { edges { node { id name } } totalCount } }", {"Order": 3}),
        ("s__get_found", "{ found { __typename ... on Order { id } ... on Failed { code } } }", {"Order": 4, "Failed": 1}),
        ("s__update_order", "mutation { updateOrder { order { id } ok } }", {"Order": 4}),
        ("s__get_user", "{ user { id name } }", {"User": 2}),
        ("s__get_user", "{ user { id name a b } }", {}),
    ],
)  # fmt: skip
def test_fields_are_counted_by_type(tmp_path: Path, tool: str, stored: str, unread: dict[str, int]) -> None:
    reading = read_sdl(tmp_path, SDL)
    assert reading.info.graph is not None
    found = unread_fields(reading.info.graph, binding(tools_of(reading)[tool]), parse(stored))
    assert found == unread


def test_the_default_of_a_wide_type_leaves_fields_out(tmp_path: Path) -> None:
    wide = " ".join(f"f{number}: Int" for number in range(120))
    reading = read_sdl(tmp_path, f"type Wide {{ id: ID! {wide} }} type Query {{ wide: Wide }}")
    assert reading.info.graph is not None
    bound = binding(tools_of(reading)["s__get_wide"])
    (count,) = unread_fields(reading.info.graph, bound, parse(bound.operation)).values()
    assert 0 < count < 121
    assert count == 121 - len(
        [line for line in bound.operation.splitlines() if line.strip() in {"id", *wide.replace(": Int", "").split()}]
    )
