"""Page sizes that a call leaves out are counted as the schema's defaults: in chosen fields and in documents, from the index alone."""

from __future__ import annotations

from typing import Any, Final

import pytest
from graphql import build_schema, parse

from toolgen.connectors.graphql.compiled_schema import compile_schema
from toolgen.connectors.graphql.guard import CheckedDocument, check_document
from toolgen.connectors.graphql.schema_index import graph_of
from toolgen.connectors.graphql.selection import choose_fields
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.model.graphql_schema import MAX_INT, Graph
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding

SDL: Final = """
input Page { size: Size = {} after: String }
input Size { take: Int! = 400 }
interface Stock { parts: [Part!]! few(limit: Int = 3): [Part!]! }
type Part implements Stock {
  id: ID!
  parts(limit: Int = 5000): [Part!]!
  paged(page: Page! = {}): [Part!]!
  listed(filter: Page): [Part!]!
  few(limit: Int = 3): [Part!]!
  endless(limit: Int = -1): [Part!]!
  sized(first: Float): [Part!]!
  wrong(limit: Int = "many"): [Part!]!
  linked(first: Int = 5000): Parts
}
type Parts { nodes: [Part!]! pageInfo: PageInfo! }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type Query { part(id: ID!): Part stock(limit: Int = 700): [Part!]! stocks: [Stock!]! many(ids: [ID!]!): [Part!]! }
type Mutation { change(limit: Int = 9000): Part changes(limit: Int = 9000): [Part!]! }
"""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(build_schema(SDL, assume_valid=True), {})


def _chosen(graph: Graph, operation: str, fields: str, given: dict[str, Any] | None = None) -> None:
    document = parse(operation)
    [definition] = document.definitions
    kind, field = definition.operation.value, definition.selection_set.selections[0].name.value  # type: ignore[attr-defined]
    binding = GraphQLBinding(
        type=kind,
        field=field,
        endpoint="https://parts.example/graphql",
        operation=operation,
        operation_name="Q",
        variables={},
        hash="",
        fields="fields",
    )
    choose_fields(graph, binding, document, fields, MAX_INT, given)


_PART: Final = "query Q($id: ID!) { part(id: $id) { id } }"
_STOCK: Final = "query Q($limit: Int) { stock(limit: $limit) { id } }"
_WIDE: Final = "{ few { few { few { id parts(limit: 10) { id } } } } }"


@pytest.mark.parametrize(
    ("operation", "fields", "given"),
    [
        (_PART, "{ parts { id few { id } } }", {}),
        (_PART, "{ parts(limit: null) { id few { id } } }", {}),
        (_PART, "{ paged { paged { id } } }", {}),
        (_PART, "{ paged(page: {}) { paged(page: {size: {}}) { id } } }", {}),
        (_PART, "{ listed(filter: {}) { listed(filter: {size: {take: 400}}) { id } } }", {}),
        (_PART, "{ ... on Stock { parts { id parts(limit: 1) { id } } } }", {}),
        ("query Q { stocks { __typename } }", "{ parts { id } }", {}),
        (_PART, "{ sized(first: 1e9) { id } }", {}),
        (_PART, "{ linked(first: null) { nodes { id endless { id } } } }", {}),
        (_STOCK, _WIDE, {}),
        (_STOCK, _WIDE, {"limit": None}),
        (_STOCK, _WIDE, {"limit": 700}),
        ("query Q($ids: [ID!]!) { many(ids: $ids) { id } }", _WIDE, {"ids": ["x"] * 700}),
        ("mutation Q($limit: Int) { changes(limit: $limit) { id } }", "{ id few { id } }", {}),
    ],
)
def test_chosen_fields_are_counted_with_the_sizes_of_the_schema(
    graph: Graph, operation: str, fields: str, given: dict[str, Any]
) -> None:
    with pytest.raises(UnbindableError, match=r"\d+ reads"):
        _chosen(graph, operation, fields, given)


@pytest.mark.parametrize(
    ("operation", "fields", "given"),
    [
        (_PART, "{ parts(limit: 20) { id few { id } } }", {}),
        (_PART, "{ few { few { few { id } } } }", {}),
        (_PART, "{ endless { endless { id } } }", {}),
        (_PART, "{ wrong { wrong { id } } }", {}),
        (_PART, "{ linked { nodes { id } } }", {}),  # asked for 20
        (_PART, "{ listed { id } }", {}),
        (_STOCK, _WIDE, {"limit": 5}),
        ("query Q { stocks { __typename } }", "{ __typename }", {}),
        ("mutation Q($limit: Int) { change(limit: $limit) { id } }", "{ id few { id } }", {}),
    ],
)
def test_small_pages_and_small_defaults_are_taken(
    graph: Graph, operation: str, fields: str, given: dict[str, Any]
) -> None:
    _chosen(graph, operation, fields, given)


def test_an_infinite_number_is_no_value(graph: Graph) -> None:
    with pytest.raises(UnbindableError, match="Float"):
        _chosen(graph, _PART, "{ sized(first: 1e999) { id } }")


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("{ stock { id } }", 701),
        ("{ stock(limit: 2) { paged { id } } }", 1 + 2 + 2 * 400),
        ("{ stock(limit: 2) { paged(page: {size: {take: 3}}) { id } } }", 1 + 2 + 6),
        ('{ part(id: "x") { listed(filter: {}) { id } } }', 2 + 400),
        ('{ part(id: "x") { wrong { id } } }', 12),
        ("{ stocks { parts { id } } }", 1 + 10 + 10 * 5000),
        ("{ stocks { few { id } } }", 1 + 10 + 10 * 3),
        ("{ stocks { few(limit: 7) { id } } }", 1 + 10 + 10 * 7),
        ('{ part(id: "x") { sized(first: 1e999) { id } } }', 2 + 2**31 - 1),
    ],
)
def test_a_document_is_counted_with_the_sizes_of_the_schema(graph: Graph, text: str, cost: int) -> None:
    limits = GraphQLDocumentBinding(
        type="query",
        endpoint="https://parts.example/graphql",
        max_depth=9,
        max_aliases=0,
        max_root_fields=1,
        max_fragments=0,
        max_cost=10**10,
    )
    verdict = check_document(text, {}, schema=compile_schema(graph), limits=limits, max_page=MAX_INT)
    assert isinstance(verdict, CheckedDocument), verdict
    assert verdict.cost == cost
