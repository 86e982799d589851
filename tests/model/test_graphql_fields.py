"""Fields that a GraphQL answer can have, as describe_tool lists them."""

from __future__ import annotations

from pathlib import Path

from graphql import build_schema

from tests.connectors.graphql.reading import read_sdl, tools_of
from toolgen.connectors.graphql.schema_index import graph_of
from toolgen.core.clock import SystemClock
from toolgen.gateway.catalog.search_tools import DESCRIBE
from toolgen.gateway.catalog.tool_discovery import Discovery
from toolgen.model.call import Principal
from toolgen.model.graphql_fields import answer_fields
from toolgen.model.result import Success
from toolgen.model.tool import GraphQLBinding

SDL = """
type Query { order(id: ID!): Order orders(first: Int!): OrderConnection either: Either root: Query count: Int wide: Wide }
type Mutation { approve(id: ID!): Payload }
type Order { id: ID! state: String lines(first: Int, after: String = ""): [Line!]! owner: Owner query: Query }
type Line { id: ID! amount: Int }
type Owner { id: ID! }
type OrderConnection { nodes: [Order!] pageInfo: Page! }
type Page { hasNextPage: Boolean! endCursor: String }
union Either = Order | Failure
type Failure { error: Reason }
type Reason { code: String }
type Payload { order: Order errors: [Reason!] }
"""
WIDE = "type Wide { " + " ".join(f"field{number}(argument: String): String" for number in range(400)) + " }"


def fields(tmp_path: Path, name: str) -> list[str]:
    tools = tools_of(read_sdl(tmp_path, SDL + WIDE)).values()
    tool = next(one for one in tools if isinstance(one.binding, GraphQLBinding) and one.binding.field == name)
    return answer_fields(tool, graph_of(build_schema(SDL + WIDE), {}))


def test_the_fields_of_an_answer_have_types_and_arguments(tmp_path: Path) -> None:
    assert fields(tmp_path, "order") == [
        "Order: id: ID!, state: String, lines(first: Int, after: String): [Line!]!, owner: Owner, query: Query"
    ]


def test_the_items_of_a_page_and_the_members_of_a_union_have_lines_of_their_own(tmp_path: Path) -> None:
    assert [line.partition(":")[0] for line in fields(tmp_path, "orders")] == ["OrderConnection", "Order"]
    assert [line.partition(":")[0] for line in fields(tmp_path, "either")] == ["Order", "Failure"]
    assert [line.partition(":")[0] for line in fields(tmp_path, "approve")] == ["Payload", "Order", "Reason"]


def test_what_has_no_room_is_counted(tmp_path: Path) -> None:
    (line,) = fields(tmp_path, "wide")
    assert len(line) <= 6_000
    shown = line.count("(argument: String)")
    assert line.endswith(f"and {400 - shown} more")


def test_tools_without_fields_to_choose_have_none(tmp_path: Path) -> None:
    assert fields(tmp_path, "count") == []


async def test_describe_tool_lists_them(tmp_path: Path) -> None:
    tools = tuple(tools_of(read_sdl(tmp_path, SDL + WIDE)).values())
    graph = graph_of(build_schema(SDL + WIDE), {})
    principal = Principal(id="bot", roles=frozenset(), attributes={})

    async def described(discovery: Discovery) -> object:
        found = await discovery.answer(DESCRIBE, {"name": "order"}, principal, tools)
        assert isinstance(found, Success)
        assert isinstance(found.data, dict)
        return found.data.get("answer_fields")

    with_graph = Discovery(above=0.0, clock=SystemClock(), graph=lambda _: graph)
    assert await described(with_graph) == fields(tmp_path, "order")
    assert await described(Discovery(above=0.0, clock=SystemClock())) is None
