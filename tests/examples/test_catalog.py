"""The sample catalog, served for real: what it says it offers is what specs/catalog.graphql says, and it does what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from gql import Client, gql
from gql.transport.httpx import HTTPXTransport
from graphql import build_client_schema, build_schema, get_introspection_query, lexicographic_sort_schema, print_schema

from examples.shop.catalog import SCHEMA, app

TOKEN = "a-token-for-tests"
STATELESS = "application/graphql-response+json"


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app(TOKEN), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/graphql"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(name="ask")
def _ask(url: str) -> Iterator[Any]:
    with httpx.Client(
        trust_env=False, timeout=120, headers={"Authorization": f"Bearer {TOKEN}", "Accept": STATELESS}
    ) as client:

        def ask(query: str, variables: dict[str, Any] | None = None) -> Any:
            return client.post(url, json={"query": query, "variables": variables or {}})

        yield ask


def test_the_served_schema_is_the_one_in_specs(url: str) -> None:
    transport = HTTPXTransport(url, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
    question = get_introspection_query(
        specified_by_url=True, input_value_deprecation=True, schema_description=True, one_of=True
    )
    with Client(transport=transport) as session:
        served = build_client_schema(session.execute(gql(question)))
    written = build_schema(SCHEMA.read_text(encoding="utf-8"))
    assert print_schema(lexicographic_sort_schema(served)) == print_schema(lexicographic_sort_schema(written))


@pytest.mark.parametrize("credential", ["", "Bearer", "Bearer wrong", TOKEN, f"bearer {TOKEN}x"])
def test_without_the_token_nothing_is_answered(url: str, credential: str) -> None:
    with httpx.Client(trust_env=False, timeout=120) as client:
        answer = client.post(url, json={"query": "{ categories { id } }"}, headers={"Authorization": credential})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "data" not in answer.json()


@pytest.mark.parametrize(
    ("query", "variables", "expected"),
    [
        (
            "{ product(id: \"p3\") { name inStock averageRating } }",
            {},
            {"product": {"name": "Dog bed", "inStock": False, "averageRating": None}},
        ),
        ("{ product(id: \"nope\") { name } }", {}, {"product": None}),
        ("query Q($by: ProductBy!) { productBy(by: $by) { id } }", {"by": {"name": "CHEW TOY"}}, {"productBy": {"id": "p1"}}),
        (
            "query Q($f: ProductFilter) { products(filter: $f, order: PRICE, first: 1) { totalCount pageInfo { hasNextPage endCursor } } }",
            {"f": {"anyOf": [{"category": "c3"}, {"maxPrice": 5}], "not": {"minPrice": 100}}},
            {"products": {"totalCount": 2, "pageInfo": {"hasNextPage": True, "endCursor": "p7"}}},
        ),
        (
            "{ search(text: \"fish\") { __typename ... on Product { name } } }",
            {},
            {"search": [{"__typename": "Category"}, {"__typename": "Product", "name": "Fish flakes"}, {"__typename": "Review"}]},
        ),
        ("{ reviews(productId: \"p1\", minRating: 3) { author } }", {}, {"reviews": [{"author": "Ada"}]}),
        ("{ node(id: \"c2\") { __typename id } }", {}, {"node": {"__typename": "Category", "id": "c2"}}),
    ],
)  # fmt: skip
def test_queries_answer(ask: Any, query: str, variables: dict[str, Any], expected: dict[str, Any]) -> None:
    answer = ask(query, variables)
    assert answer.status_code == 200
    assert answer.json() == {"data": expected}
    assert answer.headers["content-type"].startswith(STATELESS)


def test_pages_follow_each_other_without_gap_or_overlap(ask: Any) -> None:
    query = (
        "query Q($after: String) { products(first: 3, after: $after) "
        "{ edges { node { id } } pageInfo { hasNextPage endCursor } } }"
    )
    seen: list[str] = []
    after = None
    for _ in range(3):
        page = ask(query, {"after": after}).json()["data"]["products"]
        seen += [edge["node"]["id"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
    assert sorted(seen) == [f"p{number}" for number in range(1, 8)]


def test_a_warehouse_that_does_not_answer_leaves_the_others(ask: Any) -> None:
    answer = ask('{ stock(productId: "p2") { warehouses { warehouse count } } }').json()
    assert [one["count"] for one in answer["data"]["stock"]["warehouses"]] == [7, 3, None]
    assert [error["path"] for error in answer["errors"]] == [["stock", "warehouses", 2, "count"]]


def test_a_review_is_published_and_found(ask: Any) -> None:
    added = ask(
        "mutation M($input: AddReviewInput!) { addReview(input: $input) { review { id author } userErrors { message } } }",
        {"input": {"productId": "p2", "rating": 4, "text": "Red is nice."}},
    ).json()["data"]["addReview"]
    assert added == {"review": {"id": "r5", "author": "anonymous"}, "userErrors": []}
    assert ask('{ reviews(productId: "p2") { text } }').json()["data"]["reviews"] == [{"text": "Red is nice."}]


def test_a_review_of_nothing_is_refused_with_its_fault(ask: Any) -> None:
    answer = ask('mutation { addReview(input: {productId: "p9", rating: 9}) { review { id } userErrors { field } } }')
    faults = [{"field": ["input", "productId"]}, {"field": ["input", "rating"]}]
    assert answer.json()["data"]["addReview"] == {"review": None, "userErrors": faults}


def test_a_deleted_product_is_gone_with_its_reviews(ask: Any) -> None:
    delete = 'mutation { deleteProduct(id: "p2") { deletedId userErrors { message } } }'
    assert ask(delete).json()["data"]["deleteProduct"] == {"deletedId": "p2", "userErrors": []}
    assert ask(delete).json()["data"]["deleteProduct"]["deletedId"] is None
    assert ask('{ product(id: "p1") { related { id } } }').json()["data"] == {"product": {"related": []}}


@pytest.mark.parametrize(
    ("accept", "query", "status"),
    [
        (STATELESS, "{ nothing }", 400),
        ("application/json", "{ nothing }", 200),
        (STATELESS, "{", 400),
        ("application/json", "{", 400),
        (STATELESS, "query Q($id: ID!) { product(id: $id) { id } }", 400),
    ],
)
def test_bad_requests_answer_as_graphql_over_http_says(url: str, accept: str, query: str, status: int) -> None:
    with httpx.Client(
        trust_env=False, timeout=120, headers={"Authorization": f"Bearer {TOKEN}", "Accept": accept}
    ) as client:
        answer = client.post(url, json={"query": query})
    assert answer.status_code == status
    assert answer.json()["errors"]
    assert "data" not in answer.json() or answer.json()["data"] is None


@pytest.mark.parametrize(("body", "status"), [(b"x" * 70_000, 413), (b"nonsense", 400), (b"[]", 400), (b"{}", 400)])
def test_bodies_that_are_no_request_are_refused(url: str, body: bytes, status: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with httpx.Client(trust_env=False, timeout=120, headers=headers) as client:
        assert client.post(url, content=body).status_code == status


def test_every_field_the_schema_has_can_be_asked_for(ask: Any) -> None:
    deep = (
        "{ categories { description products { edges { cursor node { description price { amount currency } addedAt legacyNumber "
        "category { id } reviews { totalCount edges { node { writtenAt rating product { id } } } } } } } } }"
    )
    answer = ask(deep)
    assert answer.status_code == 200
    assert "errors" not in answer.json()
