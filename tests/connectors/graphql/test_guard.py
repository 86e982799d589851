"""Documents that callers write: each bound holds at its number, and what is let through means what the service will read."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLInputObjectType, build_schema

from toolgen.connectors.graphql import guard
from toolgen.connectors.graphql.compiled_schema import compile_schema
from toolgen.connectors.graphql.guard import CheckedDocument, check_document, listed
from toolgen.connectors.graphql.schema_index import graph_of
from toolgen.model.tool import GraphQLDocumentBinding
from toolgen.model.verdict import Deny

SCHEMA = compile_schema(
    graph_of(
        build_schema("""
scalar Upload
input Filter { limit: Int ids: [Int!] inner: Filter file: Upload name: String }
type Post { id: ID! title: String posts(first: Int, filter: Filter): [Post!]! }
type Query {
  posts(first: Int, filter: Filter): [Post!]!
  post(id: ID!): Post
  again: Query
  many(of: [[Int!]!], first: Int, filter: Filter): [Post]
  log(limit: Int = 30, page: Page): [Post!]!
  everything(limit: Int = -1): [Post!]!
  archive(page: Page = {size: {first: 25}}): [Post!]!
}
input Page { size: Size = {} after: String }
input Size { first: Int = 40 }
type Answer { id: ID query: Query }
type Mutation { note(text: String, file: Upload, filter: Filter): Answer }
"""),
        {},
    )
)
LIMITS = {"max_depth": 3, "max_aliases": 5, "max_root_fields": 2, "max_fragments": 2, "max_cost": 100}


def check(text: str, variables: dict[str, Any] | None = None, kind: str = "query") -> CheckedDocument | Deny:
    limits = GraphQLDocumentBinding(type=kind, endpoint="https://api.example/graphql", **LIMITS)
    return check_document(text, variables or {}, schema=SCHEMA, limits=limits, max_page=50)


@pytest.mark.parametrize(
    ("text", "variables", "reason"),
    [
        (
            "{ a: again { __typename } b: post(id: 1) { id } c: post(id: 2) { id } }",
            {},
            "has 3 root fields, more than 2",
        ),
        ("{ posts(first: 1) { posts(first: 1) { posts(first: 1) { id } } } }", {}, "is 4 levels deep, more than 3"),
        ("{ posts(first: 50) { id title } }", {}, "costs 101, more than 100"),
        ("{ posts(first: 51) { id } }", {}, "the argument first of posts"),
        ("query ($a: ID!) { post(id: $a) { id } }", {"a": "1", "b": 2, "c": 3}, "it has no variable $b"),
        ("{ again { posts(first: 1) { id } } }", {}, "again leads back to a root type"),
        ("query ($f: Filter) { posts(first: 1, filter: $f) { id } }", {"f": {"file": {"x": 1}}}, "posts takes a file"),
        (
            "query ($f: Filter) { posts(first: 1, filter: $f) { id } }",
            {"f": {"inner": {"file": {"x": 1}}}},
            "posts takes a file",
        ),
    ],
)
def test_what_is_too_much_is_refused_with_its_reason(text: str, variables: dict[str, Any], reason: str) -> None:
    verdict = check(text, variables)

    assert isinstance(verdict, Deny)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("text", "variables", "cost"),
    [
        ("{ a: post(id: 1) { id } b: post(id: 2) { id } }", {}, 4),
        ("{ posts(first: 1) { posts(first: 1) { id } } }", {}, 3),
        ("{ posts(first: 7) { id title } }", {}, 15),
        ("{ posts(first: 0) { id } }", {}, 2),
        ("{ posts { id } }", {}, 11),
        ("query ($a: ID!) { post(id: $a) { id } }", {"a": "1"}, 2),
        ("query ($f: Filter) { posts(first: 1, filter: $f) { id } }", {"f": {"ids": [1], "name": "x"}}, 2),
        ("{ again { __typename } }", {}, 2),  # nothing is asked of it
        ("query ($m: [[Int!]!]) { many(of: $m) { id } }", {"m": [[1] * 9] * 8}, 73),
        ("query ($m: [[Int!]!]) { many(of: $m) { id } }", {"m": [[], [1, 2, 3]]}, 11),
        ("query ($f: Filter) { posts(first: 1, filter: $f) { id } }", {"f": {"file": "a reference"}}, 2),
    ],
)
def test_what_is_within_the_bounds_costs_its_fields_as_often_as_they_are_asked(
    text: str, variables: dict[str, Any], cost: int
) -> None:
    verdict = check(text, variables)

    assert isinstance(verdict, CheckedDocument), verdict
    assert verdict.cost == cost


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"ids": 1}, {"ids": [1]}),
        ({"ids": [1, 2], "name": "x"}, {"ids": [1, 2], "name": "x"}),
        ({"inner": {"ids": 3}}, {"inner": {"ids": [3]}}),
        ({"ids": None, "unknown": 4}, {"ids": None, "unknown": 4}),
    ],
)
def test_a_single_item_stands_for_a_list_of_it_at_any_depth(given: dict[str, Any], read: dict[str, Any]) -> None:
    filter_type = SCHEMA.type_map["Filter"]
    assert isinstance(filter_type, GraphQLInputObjectType)

    assert listed(filter_type, given) == read


EQUAL = [
    "{ posts(first: 1) { " + "id " * 900 + "} }",
    "{ posts(first: 1) { " + "posts(first: 1) { id } " * 400 + "} }",
    "{ posts(first: 1) { " + "x: title " * 2 + "id " * 100 + "} }",
    "query { posts(first: 1) { " + "...F " * 300 + "} } fragment F on Post { id }",
    "{ posts(first: 1) { " + "... on Post { id } " * 2 + "id " * 60 + "} }",
]


@pytest.mark.parametrize("text", EQUAL)
def test_fields_that_validation_would_compare_with_each_other_are_bounded_before_it(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def unreached(*_: object, **__: object) -> None:
        raise AssertionError("validated")

    monkeypatch.setattr(guard, "validate", unreached)
    verdict = check(text)
    assert isinstance(verdict, Deny)
    assert "many times" in verdict.reason


def test_fields_of_one_name_at_different_places_and_some_at_one_are_taken() -> None:
    text = "{ posts(first: 1) { id id posts(first: 1) { id id id title } ... on Post { id title } } }"
    assert isinstance(check(text), CheckedDocument)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("query ($f: Filter) { posts(filter: $f) { id } }", 41),
        ("query ($f: Filter) { posts(first: 2, filter: $f) { id } }", 3),
    ],
)
def test_a_long_list_among_the_arguments_counts_as_that_many_items(text: str, cost: int) -> None:
    verdict = check(text, {"f": {"inner": {"ids": list(range(40))}}})
    assert isinstance(verdict, CheckedDocument), verdict
    assert verdict.cost == cost
    much = check(text, {"f": {"inner": {"ids": list(range(400))}}})
    assert isinstance(much, Deny) is ("first" not in text)


def _uses(times: int) -> str:
    """A document that hands $f to a field in so many places of the answer."""
    return (
        "query ($f: Filter) { posts(first: 1, filter: $f) { "
        + "posts(first: 1, filter: $f) { id } " * (times - 1)
        + "} }"
    )


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        (_uses(1), 10_001, "hold more than 10000 values"),
        (_uses(9), 8_000, "uses more than 50000 values of its variables"),
        (_uses(1).replace("filter: $f", "filter: {many: [{ids: [1]}, $f]}"), 200_000, "hold more than 10000 values"),
    ],
)
def test_variables_that_take_long_to_read_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, text: str, values: int, reason: str
) -> None:
    def unreached(*_: object, **__: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(guard, "get_variable_values", unreached)
    verdict = check(text, {"f": {"ids": list(range(values))}})
    assert isinstance(verdict, Deny)
    assert reason in verdict.reason


def test_many_values_in_one_place_are_taken() -> None:
    assert isinstance(check(_uses(1), {"f": {"ids": list(range(9_000))}}), CheckedDocument)
    assert isinstance(check(_uses(3), {"f": {"ids": list(range(9_000))}}), CheckedDocument)


@pytest.mark.parametrize("filler", ["#" * 100_000, "," * 100_000, " " * 100_000])
def test_a_document_of_nothing_is_not_read(monkeypatch: pytest.MonkeyPatch, filler: str) -> None:
    def unreached(*_: object, **__: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(guard, "parse", unreached)
    verdict = check("{ posts(first: 1) { id } }" + filler)
    assert isinstance(verdict, Deny)
    assert "longer than 100000 characters" in verdict.reason


@pytest.mark.parametrize(
    ("text", "variables", "cost"),
    [
        ("{ log { id } }", {}, 31),
        ("{ log(page: null) { id } }", {}, 31),
        ("{ log(limit: null) { id } }", {}, 31),
        ("query ($n: Int) { log(limit: $n) { id } }", {"n": None}, 31),
        ("{ log(page: {size: {first: 1}}) { id } }", {}, 31),
        ("{ log(page: {size: {first: null}}) { id } }", {}, 41),
        ("{ everything { id } }", {}, 11),
        ("query ($n: Int) { log(limit: $n) { id } }", {}, 31),
        ("query ($n: Int) { log(limit: $n) { id } }", {"n": 2}, 3),
        ("{ log(limit: 5) { id } }", {}, 6),
        ("{ log(page: {}) { id } }", {}, 41),
        ('{ log(page: {after: "x"}) { id } }', {}, 41),
        ("{ archive { id } }", {}, 26),
        ("{ archive(page: {size: {first: 2}}) { id } }", {}, 3),
        ("{ archive(page: {size: {}}) { id } }", {}, 41),
    ],
)
def test_a_page_size_that_is_left_out_costs_what_the_schema_gives(
    text: str, variables: dict[str, Any], cost: int
) -> None:
    verdict = check(text, variables)

    assert isinstance(verdict, CheckedDocument), verdict
    assert verdict.cost == cost


def test_defaults_that_hold_themselves_are_priced_to_a_depth() -> None:
    built = build_schema("""
    input Endless { first: Int = 3 next: Endless }
    type Query { items(page: Endless = {next: {next: {first: 7}}}): [Int!] }
    """)
    schema = compile_schema(graph_of(built, {}))
    limits = GraphQLDocumentBinding(type="query", endpoint="https://api.example/graphql", **LIMITS)
    verdict = check_document("{ items }", {}, schema=schema, limits=limits, max_page=50)
    assert isinstance(verdict, CheckedDocument), verdict


def test_defaults_that_double_at_each_level_are_read_in_bounded_time() -> None:
    levels = " ".join(
        f"input L{level} {{ {' '.join(f'{name}: L{level + 1} = {{}}' for name in 'abcdefgh')} }}" for level in range(12)
    )
    built = build_schema(f"{levels} input L12 {{ first: Int = 3 }} type Query {{ items(page: L0 = {{}}): [Int!] }}")
    limits = GraphQLDocumentBinding(type="query", endpoint="https://api.example/graphql", **LIMITS)
    schema = compile_schema(graph_of(built, {}))
    assert isinstance(check_document("{ items }", {}, schema=schema, limits=limits, max_page=50), CheckedDocument)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("{ many(of: [[1], [2, 3], [4, 5, 6, 7, 8, 9, 10, 11]], filter: {limit: 1}) { id } }", 12),
        ("{ many(of: [[1], [2, 3], [4, 5, 6, 7, 8, 9, 10, 11]], first: 1) { id } }", 2),
    ],
)
def test_a_size_inside_of_an_object_does_not_hide_a_long_list(text: str, cost: int) -> None:
    verdict = check(text)
    assert isinstance(verdict, CheckedDocument), verdict
    assert verdict.cost == cost
